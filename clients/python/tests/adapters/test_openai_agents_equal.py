"""OpenAI Agents SDK: with Longhand and without, a model is asked the same; and an item comes back equal."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Daemon

import longhand
from longhand import aio, v1

pytest.importorskip("agents")

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.memory import SQLiteSession
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

from longhand.openai_agents import LonghandSession


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


PICTURE = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode()
#: More than metadata may have.
LARGE = 'Tide → wörds\t"quoted"\\\n' * 15_000


def nasty_items() -> list[Any]:
    image = {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    contents: list[Any] = [
        "wörds →",
        LARGE,
        "",
        [{"type": "input_text", "text": "Look"}, image, {"type": "input_image", "file_id": "file_1", "detail": "low"}],
        [{"type": "input_file", "filename": "x.pdf", "file_data": "data:application/pdf;base64,AAAA"}],
        [
            {"type": "input_image", "image_url": "https://example.com/x.png", "detail": "auto"},
            {"type": "input_text", "text": ""},
        ],
    ]
    items: list[Any] = [{"role": "user", "content": content} for content in contents]
    items.append({"type": "message", "role": "developer", "content": "Be brief."})
    outputs = [
        "plain",
        LARGE,
        "",
        [{"type": "input_text", "text": LARGE}, image],
        [image],
        [image, *[{"type": "input_text", "text": t} for t in "ab"]],
    ]
    for number, output in enumerate(outputs):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": '{"a" : 1.0}'}
        items.append({**call, "id": f"fc_{number}", "status": "completed", "provider_data": {"blob": LARGE}})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": output})
    summary = [{"type": "summary_text", "text": "hm"}]
    items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "A" * 400_000})
    text = {"type": "output_text", "text": LARGE, "annotations": [{"type": "x", "n": 1.0}], "logprobs": []}
    refusal = {"type": "refusal", "refusal": "No"}
    items.append({"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text, refusal]})
    items.append({"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [refusal]})
    items.append({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "n": 1.5}})
    return items


async def test_an_item_comes_back_equal(client: aio.Client) -> None:
    items = nasty_items()
    session = LonghandSession(uuid.uuid4().hex, client=client)
    await session.add_items(items)
    assert json.dumps(await session.get_items()) == json.dumps(items)
    assert json.dumps(await session.get_items(3)) == json.dumps(items[-3:])
    # Others see the pictures, too.
    view = await (await session.longhand()).view()
    media = [c.part.media.mime_type or "attached" for m in view.messages for c in m.parts if c.part.HasField("media")]
    assert media == ["image/png", "application/pdf", "image/*"]
    attached = [c.part.tool_result.attachments for m in view.messages for c in m.parts]
    assert sum(map(len, attached)) == 3
    for item in reversed(items):
        assert await session.pop_item() == item


async def test_what_a_policy_shortens_is_the_only_thing_that_changes(client: aio.Client) -> None:
    session = LonghandSession(uuid.uuid4().hex, client=client, preset="opencode@seed")
    items = nasty_items()
    await session.add_items(items)
    changed = 0
    for one, other in zip(await session.get_items(), items, strict=True):
        if one == other:
            continue
        changed += 1
        item: Any = one
        assert {**item, "output": other["output"]} == other
        if isinstance(other["output"], list):
            assert item["output"][1:] == other["output"][1:]
    assert changed == 2


class Script(Model):
    """A model that answers from a script, and keeps the bytes of what it was asked."""

    def __init__(self, replies: list[list[Any]]) -> None:
        self.replies = replies
        self.asked: list[str] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        self.asked.append(json.dumps([system_instructions, input]))
        return ModelResponse(output=self.replies[len(self.asked) - 1], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def said(text: str) -> Any:
    content: Any = [ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])] if text else []
    return ResponseOutputMessage(id="m", content=content, role="assistant", status="completed", type="message")


def called(id: str, n: int) -> Any:
    return ResponseFunctionToolCall(
        arguments=json.dumps({"n": n}), call_id=id, name="look", type="function_call", id=f"fc_{id}", status="completed"
    )


async def run_script(session: Any) -> tuple[list[str], list[Any]]:
    results = ["plain", LARGE, ""]

    @function_tool
    def look(n: int) -> Any:
        return results[n]

    thought: Any = ResponseReasoningItem(id="rs", summary=[], type="reasoning", encrypted_content="AA+/==")
    search: Any = ResponseFunctionWebSearch.model_validate(
        {"id": "ws", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
    )
    replies: list[list[Any]] = []
    for turn in range(4):
        replies.append([thought, search, *(called(f"c{turn}.{n}", n) for n in range(3))])
        replies.append([thought, said(f"Done {turn}" if turn != 2 else LARGE)])
    script = Script(replies)
    agent = Agent(name="a", instructions="Be brief.", model=script, tools=[look])
    image = {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    inputs: list[Any] = [
        "One",
        [{"role": "user", "content": [{"type": "input_text", "text": "Look"}, image]}],
        LARGE,
        "Four",
    ]
    for turn, input in enumerate(inputs):
        if turn == 3:
            # A person takes back the last answer and the question before it, and asks again.
            await session.pop_item()
            await session.pop_item()
        await Runner.run(agent, input, session=session)
    return script.asked, await session.get_items()


async def test_a_model_is_asked_the_same_with_longhand_and_without(client: aio.Client) -> None:
    set_tracing_disabled(True)
    name = uuid.uuid4().hex
    without = await run_script(SQLiteSession(name))
    asked, items = await run_script(LonghandSession(name, client=client))
    assert asked == without[0]
    assert items == without[1]
    assert len(asked) == 8


async def test_a_picture_of_others_is_a_picture(client: aio.Client) -> None:
    session = LonghandSession(uuid.uuid4().hex, client=client)
    media = v1.MediaPart(mime_type="image/png", data=b"\0\1")
    await (await session.longhand()).append(longhand.user([longhand.text("Look"), v1.Part(media=media)]))
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAE=", "detail": "auto"}
    wanted: Any = [{"role": "user", "content": "Look"}, {"role": "user", "content": [image]}]
    assert await session.get_items() == wanted
