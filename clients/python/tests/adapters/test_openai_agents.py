"""The session of the OpenAI Agents SDK: the same as the SDK's own one, and views on top."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from conftest import Daemon

import longhand
from longhand import aio, v1

agents = pytest.importorskip("agents")

from agents.memory import SQLiteSession  # noqa: E402
from agents.memory.session import Session as SessionProtocol  # noqa: E402
from agents.memory.session_settings import SessionSettings  # noqa: E402

from longhand.openai_agents import LonghandSession  # noqa: E402

Item = dict[str, Any]


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


def random_item(chance: random.Random, open_calls: list[str]) -> Item:
    kind = chance.randrange(10)
    words = " ".join(chance.choice(["tide", "wörds", "→", "", "\n", "x"]) for _ in range(chance.randrange(5)))
    if kind == 0:
        return {"role": "user", "content": words}
    if kind == 1:
        return {"type": "message", "role": chance.choice(["developer", "system"]), "content": words}
    if kind == 2:
        pieces = [{"type": "input_text", "text": words + str(n)} for n in range(chance.randrange(1, 4))]
        return {"role": "user", "content": pieces}
    if kind == 3:
        image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
        return {"role": "user", "content": [{"type": "input_text", "text": words}, image]}
    if kind == 4:
        text = {"type": "output_text", "text": words + ".", "annotations": [], "logprobs": []}
        return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    if kind == 5:
        call_id = f"call_{chance.randrange(10**6)}"
        open_calls.append(call_id)
        arguments = json.dumps({"a": words})
        return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments, "id": "fc_1"}
    if kind in (6, 7) and open_calls:
        call_id = open_calls.pop(chance.randrange(len(open_calls)))
        output: Any = words if kind == 6 else [{"type": "input_text", "text": words}]
        return {"type": "function_call_output", "call_id": call_id, "output": output}
    if kind == 8:
        summary = [{"type": "summary_text", "text": words}]
        return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "AA+/=="}
    return {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "n": 1.5}}


@pytest.mark.parametrize("seed", range(25))
async def test_it_does_what_the_sdks_own_session_does(client: aio.Client, seed: int) -> None:
    chance = random.Random(seed)
    name = f"openai-{uuid.uuid4().hex}"
    limit = chance.choice([None, 3])
    settings = SessionSettings(limit=limit)
    theirs = SQLiteSession(name, session_settings=settings)
    ours = LonghandSession(name, client=client, session_settings=settings)
    assert isinstance(ours, SessionProtocol)
    open_calls: list[str] = []
    for _ in range(40):
        what = chance.randrange(10)
        if what < 5:
            items = [random_item(chance, open_calls) for _ in range(chance.randrange(4))]
            await theirs.add_items(items)  # type: ignore[arg-type]
            await ours.add_items(items)  # type: ignore[arg-type]
        elif what < 8:
            count = chance.choice([None, 0, 1, 2, 100])
            assert await ours.get_items(count) == await theirs.get_items(count)
        elif what < 9:
            popped: Any = await ours.pop_item()
            assert popped == await theirs.pop_item()
            if popped and popped.get("call_id") in open_calls:
                open_calls.remove(popped["call_id"])
        elif chance.random() < 0.2:
            await theirs.clear_session()
            await ours.clear_session()
            open_calls.clear()
    assert await ours.get_items(1000) == await theirs.get_items(1000)


async def test_a_long_conversation_becomes_a_shorter_list(client: aio.Client) -> None:
    from openai.types.responses.response_input_item_param import ResponseInputItemParam
    from pydantic import TypeAdapter

    checked: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])
    session = LonghandSession(f"openai-{uuid.uuid4().hex}", client=client, window=6_000, preset="opencode@seed")
    under = await session.longhand()
    added = 0
    for turn in range(40):
        call_id = f"call_{turn}"
        output = f"output {turn} " * 60
        items: list[Any] = [
            {"role": "user", "content": f"Question {turn}: " + "words of a person " * 20},
            {"type": "function_call", "call_id": call_id, "name": "look", "arguments": '{"n":1}'},
            {"type": "function_call_output", "call_id": call_id, "output": output},
            {"role": "assistant", "content": f"Answer {turn}: " + "words of a model " * 20},
        ]
        await session.add_items(items)
        added += len(items)
        await under.view(overflow=v1.OVERFLOW_ACTION_WAIT)
        seen = await session.get_items()
        checked.validate_python(seen)
        ids = [(item.get("type"), item.get("call_id")) for item in cast("list[Item]", seen)]
        called = {call_id for kind, call_id in ids if kind == "function_call"}
        assert called == {call_id for kind, call_id in ids if kind == "function_call_output"}
        assert seen[-1] == items[-1]
    history = [message async for message in under.history(include_derived=True)]
    assert sum(message.kind == v1.MESSAGE_KIND_SUMMARY for message in history) > 1
    assert len(await session.get_items()) < added / 2
    # Nothing is lost.
    assert len([message async for message in under.history()]) == added


async def test_other_writers_are_seen_and_popped(client: aio.Client) -> None:
    session = LonghandSession(f"openai-{uuid.uuid4().hex}", client=client)
    await session.add_items([{"role": "user", "content": "Begin"}])
    under = await session.longhand()
    await under.append(
        longhand.assistant([longhand.text("I look"), longhand.tool_call("c1", "look", {"x": 1})]),
        longhand.tool(longhand.tool_result("c1", "seen")),
    )
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"x":1}'}
    begin = [{"role": "user", "content": "Begin"}, {"role": "assistant", "content": "I look"}]
    result = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
    assert await session.get_items() == [*begin, call, result]
    assert await session.pop_item() == result
    assert await session.pop_item() == call
    assert await session.get_items() == begin
