"""The session store of the Claude Agent SDK: its 14 contracts, and what they do not say."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Daemon, uncommon_words

import longhand
from longhand import aio

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import InMemorySessionStore, SessionKey, fold_session_summary
from claude_agent_sdk.testing import run_session_store_conformance

from longhand.claude_agent import LonghandSessionStore


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


async def test_the_14_contracts(client: aio.Client) -> None:
    stores = 0

    def make() -> LonghandSessionStore:
        nonlocal stores
        stores += 1
        return LonghandSessionStore(client, namespace=uuid.uuid4().hex)

    await run_session_store_conformance(make)
    # One for a look at the methods, one for each contract: none was skipped.
    assert stores == 1 + 14


async def test_an_entry_that_is_sent_again_is_there_once(client: aio.Client) -> None:
    store = LonghandSessionStore(client, namespace=uuid.uuid4().hex)
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    entries: list[Any] = [{"type": "user", "uuid": str(n), "n": n} for n in range(1200)]
    await store.append(key, entries)
    await store.append(key, entries[1000:])
    assert await store.load(key) == entries
    changed: Any = {"type": "user", "uuid": "0", "n": "changed"}
    await store.append(key, [changed])
    assert await store.load(key) == [changed, *entries[1:]]


async def test_more_than_a_request_holds_is_kept(client: aio.Client) -> None:
    store = LonghandSessionStore(client, namespace=uuid.uuid4().hex)
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    # A request has 12 MiB, and each of these letters three bytes.
    entries: list[Any] = [{"type": "user", "uuid": str(n), "text": "漢" * 900_000} for n in range(6)]
    await store.append(key, entries)
    assert await store.load(key) == entries


async def test_writers_at_once_lose_nothing(client: aio.Client) -> None:
    store = LonghandSessionStore(client, namespace=uuid.uuid4().hex)
    key: SessionKey = {"project_key": "p", "session_id": "s"}

    fields = {"a": "customTitle", "b": "aiTitle", "c": "lastPrompt"}

    async def write(name: str) -> None:
        for number in range(10):
            title = f"{name}{number}"
            entry: Any = {"type": "user", "uuid": title, "from": name, fields[name]: title}
            await store.append(key, [entry])

    await asyncio.gather(*(write(name) for name in "abc"))
    loaded: Any = await store.load(key)
    for name in "abc":
        assert [e["uuid"] for e in loaded if e["from"] == name] == [f"{name}{n}" for n in range(10)]
    # The summary is that of the entries in the order in which they are there.
    (summary,) = await store.list_session_summaries("p")
    assert summary["data"] == fold_session_summary(None, key, loaded)["data"]


async def test_a_deleted_key_can_be_written_again_and_its_words_are_gone(shared: Daemon, client: aio.Client) -> None:
    store = LonghandSessionStore(client, namespace=uuid.uuid4().hex)
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    secret = uncommon_words()
    entry: Any = {"type": "user", "uuid": "u", "text": secret}
    for _ in range(2):
        await store.append(key, [entry])
        assert await store.load(key) == [entry]
        assert any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))
        await store.delete(key)
        assert await store.load(key) is None
        assert await store.list_sessions("p") == []
        assert not any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))


@pytest.mark.parametrize("seed", range(5))
async def test_it_does_what_the_sdks_own_store_does(client: aio.Client, seed: int) -> None:
    chance = random.Random(seed)
    theirs, ours = InMemorySessionStore(), LonghandSessionStore(client, namespace=uuid.uuid4().hex)
    keys: list[SessionKey] = [
        {"project_key": project, "session_id": session, **({"subpath": subpath} if subpath else {})}  # type: ignore[typeddict-item]
        for project in ("p", "q")
        for session in ("a", "b")
        for subpath in ("", "subagents/1")
    ]
    for number in range(60):
        key = chance.choice(keys)
        what = chance.randrange(10)
        if what < 6:
            entries: list[Any] = [{"type": "user", "uuid": f"{number}.{n}"} for n in range(chance.randrange(1, 4))]
            entries += [{"type": "title", "customTitle": f"Title {number}"}] * chance.randrange(2)
            await theirs.append(key, entries)
            await ours.append(key, entries)
        elif what < 7:
            await theirs.delete(key)
            await ours.delete(key)
        else:
            assert await ours.load(key) == (await theirs.load(key) or None)
        for project in ("p", "q"):
            ids = {entry["session_id"] for entry in await ours.list_sessions(project)}
            assert ids == {entry["session_id"] for entry in await theirs.list_sessions(project)}
            summaries = {entry["session_id"]: entry["data"] for entry in await ours.list_session_summaries(project)}
            wanted = await theirs.list_session_summaries(project)
            assert summaries == {entry["session_id"]: entry["data"] for entry in wanted}


async def test_nothing_of_a_batch_is_lost_and_it_comes_back_equal(client: aio.Client) -> None:
    store = LonghandSessionStore(client, namespace=uuid.uuid4().hex)
    # Longer than titles and what is looked for may be.
    key: SessionKey = {"project_key": "p" * 2000, "session_id": "s" * 2000}
    large = '漢"\\' * 1_300_000
    entries: list[Any] = [
        {"type": "user", "uuid": "1", "text": "first", "n": [1, 1.0, None, True]},
        {"type": "user", "uuid": "2", "text": large, "customTitle": "T" * 100_000},
        {"type": "user", "uuid": "1", "text": "second"},
        {"type": "attachment", "text": "half of a pair: \ud83d"},
        {"type": "user", "uuid": "3", "lastPrompt": "P" * 100_000, "\ud83d": "\ud83d"},
        {"type": "summary", "uuid": "", "text": "no id"},
    ]
    await store.append(key, entries)
    wanted = [entries[2], entries[1], *entries[3:]]
    assert await store.load(key) == wanted
    assert await store.list_sessions(key["project_key"]) != []
    (summary,) = await store.list_session_summaries(key["project_key"])
    assert summary["session_id"] == key["session_id"]
    assert summary["data"] == fold_session_summary(None, key, entries)["data"]
    # An entry that is written again stays where it is, also a large one.
    changed: list[Any] = [{"type": "user", "uuid": "2", "text": "short"}, {"type": "user", "uuid": "1", "text": large}]
    await store.append(key, changed)
    assert await store.load(key) == [changed[1], changed[0], *wanted[2:]]
    await store.delete(key)
    assert await store.load(key) is None


def test_it_works_under_trio(shared: Daemon) -> None:
    trio = pytest.importorskip("trio")
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    entries: list[Any] = [{"type": "user", "uuid": str(n), "n": n} for n in range(3)]

    async def work() -> None:
        with longhand.connect(shared.address) as client:
            store = LonghandSessionStore(client, namespace=uuid.uuid4().hex)
            await store.append(key, entries)
            assert await store.load(key) == entries
            assert [s["session_id"] for s in await store.list_sessions("p")] == ["s"]
            assert len(await store.list_session_summaries("p")) == 1
            assert await store.list_subkeys({"project_key": "p", "session_id": "s"}) == []
            await store.delete(key)
            assert await store.load(key) is None

    trio.run(work)


def test_the_client_for_asyncio_says_that_it_does_not_work_under_trio(shared: Daemon) -> None:
    trio = pytest.importorskip("trio")
    client = asyncio.run(aio.connect(shared.address))

    async def work() -> None:
        with pytest.raises(longhand.Error, match="client for asyncio"):
            await LonghandSessionStore(client).load({"project_key": "p", "session_id": "s"})

    trio.run(work)
