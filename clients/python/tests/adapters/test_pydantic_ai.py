"""The conversation store of pydantic-ai: the same as the package's own one."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Daemon

from longhand import aio

pytest.importorskip("pydantic_ai.conversation_store")

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

from longhand.pydantic_ai import LonghandConversationStore


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


def random_messages(chance: random.Random) -> list[ModelMessage]:
    words = " ".join(chance.choice(["tide", "wörds", "→"]) for _ in range(3))
    turn: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(words)])]
    if chance.random() < 0.5:
        call = ToolCallPart("look", {"x": chance.random()}, tool_call_id=f"c{chance.randrange(10**6)}")
        turn.append(ModelResponse(parts=[TextPart("I look"), call]))
        result = ToolReturnPart("look", {"seen": [words, None]}, tool_call_id=call.tool_call_id)
        turn.append(ModelRequest(parts=[result]))
    turn.append(ModelResponse(parts=[TextPart(words[::-1])], model_name="small"))
    return turn


async def outcome(work: Any) -> Any:
    """The result of a call, or the kind of its error."""
    try:
        return await work
    except (ConversationConflict, UserError, LookupError) as error:
        return type(error)


class Both:
    """The same steps on both stores. What they name by chance, entries and revisions, is compared by its place."""

    def __init__(self, *stores: ConversationStore) -> None:
        self.stores = stores
        self.held: list[dict[str, Conversation]] = [{}, {}]

    async def each(self, step: Any) -> None:
        results = [await outcome(step(store, held)) for store, held in zip(self.stores, self.held, strict=True)]
        assert results[0] == results[1]

    async def compare(self, ids: list[str]) -> None:
        async def seen(store: ConversationStore, held: Any) -> Any:
            every: list[Any] = []
            for id in ids:
                record, loaded = await store.read_record(id), await store.load(id)
                last = await store.load(id, limit=2)
                if record is None or loaded is None or last is None:
                    every.append(None)
                    continue
                branches = [[e.message for e in await store.read_history(tip)] for tip in record.branches]
                facts = (record.scope, record.forked_from, record.usage, branches)
                every.append((loaded.messages, last.messages, facts))
            for scope in (None, "s"):
                every.append({record.conversation_id for record in await store.list_conversations(scope=scope)})
            return every

        await self.each(seen)


@pytest.mark.parametrize("seed", range(12))
async def test_it_does_what_the_packages_own_store_does(client: aio.Client, seed: int) -> None:
    chance = random.Random(seed)
    ours = LonghandConversationStore(client, namespace=uuid.uuid4().hex)
    both = Both(InMemoryConversationStore(), ours)
    ids = ["one", "two", "three"]
    for _ in range(40):
        id, what, number = chance.choice(ids), chance.randrange(12), chance.randrange(6)
        turn, scope = random_messages(chance), chance.choice([None, None, "s"])

        async def step(store: ConversationStore, held: dict[str, Conversation], *args: Any) -> Any:
            id, what, number, turn, scope = args
            if what < 2:
                found = await store.load(id)
                held[id] = found or Conversation(conversation_id=id)
                return found and found.messages
            if what < 6:
                conversation = held.setdefault(id, Conversation(conversation_id=id))
                conversation.messages.extend(turn)
                conversation.usage.requests += 1
                return [entry.message for entry in await store.save(conversation, scope=scope)]
            if what < 7:
                conversation = held.setdefault(id, Conversation(conversation_id=id))
                rewritten = Conversation(
                    messages=conversation.messages[: number // 2] + turn,
                    conversation_id=id,
                    revision=conversation.revision,
                )
                return [entry.message for entry in await store.save(rewritten, scope=scope)]
            if what < 9:
                revision = held[id].revision if id in held else None
                held[id] = await store.branch(id, at=number, expected_revision=revision)
                return held[id].messages
            if what < 10:
                record = await store.read_record(id)
                tip = record.branches[0] if record and record.branches else "nowhere"
                revision = record.revision if record else None
                held[id] = await store.branch(id, from_entry=tip, expected_revision=revision)
                return held[id].messages
            if what < 11:
                other = ids[number % 3]
                return (await store.fork(id, new_conversation_id=other, scope=scope)).messages
            return await store.delete(id, scope=scope)

        args = (id, what, number, turn, scope)
        await both.each(lambda store, held, step=step, args=args: step(store, held, *args))
        await both.compare(ids)


async def test_one_of_several_writers_saves(client: aio.Client) -> None:
    store = LonghandConversationStore(client, namespace=uuid.uuid4().hex)
    await store.save(Conversation(messages=[ModelRequest(parts=[UserPromptPart("one")])], conversation_id="c"))
    loaded = [await store.load("c") for _ in range(4)]

    async def save(conversation: Conversation, name: str) -> None:
        conversation.messages.append(ModelRequest(parts=[UserPromptPart(name)]))
        await store.save(conversation)

    saves = [save(conversation, str(n)) for n, conversation in enumerate(loaded) if conversation is not None]
    results = await asyncio.gather(*saves, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["ConversationConflict"] * 3 + ["NoneType"]


async def test_an_agent_goes_on_in_another_process_and_what_is_deleted_is_gone(
    shared: Daemon, client: aio.Client
) -> None:
    namespace, secret = uuid.uuid4().hex, uuid.uuid4().hex
    agent = Agent(TestModel(custom_output_text=f"It is {secret}"))
    first = LonghandConversationStore(client, namespace=namespace)
    await first.save(await agent.run("What?", conversation=Conversation(conversation_id="c")))
    async with await aio.connect(shared.address) as other:
        second = LonghandConversationStore(other, namespace=namespace)
        loaded = await second.load("c")
        assert loaded is not None
        entries = await second.save(await agent.run("Again?", conversation=loaded))
        assert len(loaded.messages) + len(entries) >= 4
        assert await first.read_entry(entries[-1].id) == entries[-1]
        await second.delete("c")
    assert await first.load("c") is None
    assert not any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))
    await first.save(Conversation(messages=[ModelRequest(parts=[UserPromptPart("new")])], conversation_id="c"))
    again = await first.load("c")
    assert again is not None
    assert len(again.messages) == 1
