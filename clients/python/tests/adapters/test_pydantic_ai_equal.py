"""pydantic-ai: with Longhand and without, a model is asked the same; and a message comes back equal."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from conftest import Daemon, uncommon_words

import longhand
from longhand import aio, v1

pytest.importorskip("pydantic_ai.conversation_store")

from pydantic_ai import Agent, BinaryContent, CachePoint, ImageUrl, ModelRetry, ToolReturn
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    FilePart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from longhand._originals import pieced_messages
from longhand.pydantic_ai import LonghandViews, _new_message, _pieces, messages_of_view


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


PICTURE = BinaryContent(bytes(range(256)) * 40, media_type="image/png", identifier="pic")
#: More than metadata may have.
LARGE = 'Tide → wörds\t"quoted"\\\n' * 15_000
SECRET = "ann@example.com"


def nasty_prompts(words: str) -> list[Any]:
    return [
        words,
        LARGE,
        [words, PICTURE, TextContent("noted", metadata={"a": 1}), CachePoint(), ImageUrl("https://example.com/x.png")],
        [BinaryContent(bytes(400_000), media_type="application/pdf"), ""],
        f"I am {SECRET}",
    ]


def nasty_results(words: str) -> list[Any]:
    return [
        words,
        LARGE,
        "",
        None,
        {"seen": [words, None, 1.0, 1, True], "deep": {"a": [{}]}},
        [1, 1.0, "one"],
        PICTURE,
        [words, PICTURE],
        [words, {"rows": [1]}, PICTURE, "end"],
        {"files": {"one": PICTURE}},
        3.0,
    ]


def nasty_messages() -> list[ModelMessage]:
    made: list[ModelMessage] = []
    prompts = nasty_prompts("wörds →")
    for number, content in enumerate(nasty_results("wörds →")):
        prompt = UserPromptPart(prompts[number % len(prompts)])
        made.append(ModelRequest(parts=[prompt], instructions="Be brief.", run_id="r", metadata={"n": number}))
        calls: list[Any] = [
            ToolCallPart("look", args, tool_call_id=f"c{number}.{n}", provider_details={"x": [1.0]})
            for n, args in enumerate(({"a": 1.0}, '{"a" : 1}', "no JSON", {}, None, {"file": LARGE}))
        ]
        native: list[Any] = [
            NativeToolCallPart("web_search", {"q": "x"}, tool_call_id="n1", provider_name="p"),
            NativeToolReturnPart("web_search", {"hits": [1]}, tool_call_id="n1", provider_name="p"),
        ]
        made.append(
            ModelResponse(
                parts=[
                    ThinkingPart("hm " * 900, signature="c2ln", provider_name="p"),
                    ThinkingPart("", signature="redacted", id="x"),
                    TextPart("" if number % 2 else "I look", provider_details={"phase": "x"}),
                    FilePart(PICTURE, id="f"),
                    *native,
                    *calls,
                ],
                usage=RequestUsage(input_tokens=90, output_tokens=3, details={"k": 1}),
                model_name="m",
                provider_response_id=f"resp-{number}",
                finish_reason="tool_call",
            )
        )
        outcomes: Any = ("success", "failed", "denied")
        returned: list[Any] = [
            ToolReturnPart(
                "look", content, tool_call_id=call.tool_call_id, outcome=outcomes[n % 3], metadata={"kept": [1]}
            )
            for n, call in enumerate(calls[:-1])
        ]
        retry = RetryPromptPart("Again, please", tool_name="look", tool_call_id=calls[-1].tool_call_id)
        made.append(ModelRequest(parts=[*returned, retry]))
        made.append(ModelResponse(parts=[ThinkingPart("", signature="alone", provider_details={"blob": LARGE})]))
    return made


async def test_a_message_comes_back_equal(client: aio.Client) -> None:
    messages = nasty_messages()
    session = await client.create_session()
    for message in messages:
        await session.append(_new_message(message))
    view = await session.view()
    ids = pieced_messages("pydantic_ai", view.messages)
    assert ids
    originals = {message.message_id: message for message in await session.get_messages(ids)}
    back = messages_of_view(view.messages, originals)
    assert len(back) == len(messages)
    # What the package itself makes of its JSON: for instance, a picture gets a media type of its own.
    wanted = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    for one, other in zip(back, wanted, strict=True):
        assert one == other


async def test_metadata_that_is_no_json_is_left_out(client: aio.Client) -> None:
    session = await client.create_session()
    await session.append("?", _new_message(ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="c")])))
    await session.append(
        _new_message(ModelRequest(parts=[ToolReturnPart("look", "seen", tool_call_id="c", metadata={"x": object()})]))
    )
    *_, last = messages_of_view((await session.view()).messages)
    (part,) = last.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.content, part.metadata) == ("seen", None)


async def test_what_a_policy_shortens_is_the_only_thing_that_changes(client: aio.Client) -> None:
    session = await client.create_session(preset="opencode@seed")
    output = "line of output\n" * 2000
    for content in (output, {"rows": [output]}, [output, PICTURE]):
        id = uuid.uuid4().hex
        call = ModelResponse(parts=[ThinkingPart("hm", signature="s"), ToolCallPart("look", {"a": 1}, tool_call_id=id)])
        part = ToolReturnPart("look", content, tool_call_id=id, metadata=[1])
        result = ModelRequest(parts=[part], instructions="Brief.")
        await session.append("?", _new_message(call), _new_message(result))
        *_, shown, shortened = messages_of_view((await session.view()).messages)
        assert shown == call
        (left,) = shortened.parts
        assert isinstance(left, ToolReturnPart)
        text = left.content[0] if isinstance(left.content, list) else left.content
        assert isinstance(text, str)
        assert len(text) < 4000
        assert replace(left, content=content) == part
        assert isinstance(shortened, ModelRequest)
        assert shortened.instructions == "Brief."
        if isinstance(content, list):
            assert isinstance(left.content, list)
            assert left.content[1].data == PICTURE.data


class Script:
    """A model that answers from a script, and keeps the bytes of what it was asked."""

    def __init__(self, replies: list[ModelResponse]) -> None:
        self.replies = replies
        self.asked: list[str] = []
        self.model = FunctionModel(self.answer)

    def answer(self, messages: list[ModelMessage], info: Any) -> ModelResponse:
        said = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
        self.asked.append(json.dumps([without_chance(message) for message in said]) + json.dumps(info.instructions))
        return self.replies[len(self.asked) - 1]


def without_chance(value: Any) -> Any:
    """Times and the ids of runs are other ones in every run, and no provider gets them."""
    if isinstance(value, dict):
        chance = ("timestamp", "run_id", "conversation_id", "usage")
        return {name: without_chance(item) for name, item in value.items() if name not in chance}
    return [without_chance(item) for item in value] if isinstance(value, list) else value


def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
    """A processor that changes and removes."""
    changed: list[ModelMessage] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            changed.append(message)
            continue
        parts: list[Any] = []
        for part in message.parts:
            if isinstance(part, UserPromptPart) and isinstance(part.content, str) and "Forget" in part.content:
                continue
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                part = replace(part, content=part.content.replace(SECRET, "[redacted]"))
            parts.append(part)
        changed.append(replace(message, parts=parts))
    return changed


async def run_script(capabilities: list[Any], seed: int) -> tuple[list[str], Any]:
    chance = random.Random(seed)
    results = nasty_results("wörds")
    replies: list[ModelResponse] = []
    for turn in range(5):
        many = [ToolCallPart("look", {"n": chance.randrange(len(results))}, f"c{turn}.{n}") for n in range(3)]
        replies += [
            ModelResponse(parts=[ThinkingPart("hm", signature="s"), *many], provider_response_id=f"r{turn}"),
            ModelResponse(parts=[TextPart(f"Done {turn}")], usage=RequestUsage(input_tokens=900)),
        ]
    script = Script(replies)
    agent = Agent(
        script.model,
        system_prompt="Be brief.",
        instructions=lambda: f"Call {len(script.asked)}",
        capabilities=[*capabilities, ProcessHistory(redact)],
    )

    @agent.tool_plain
    def look(n: int) -> Any:
        if n == 1:
            raise ModelRetry("Not that one")
        if n == 2:
            return ToolReturn(return_value="see", content=["more", PICTURE], metadata={"a": 1})
        return results[n]

    history: list[ModelMessage] = []
    name = uuid.uuid4().hex
    for turn in range(5):
        prompt = chance.choice(nasty_prompts("wörds")) if turn != 2 else "Forget it"
        result = await agent.run(prompt, message_history=history, conversation_id=name)
        history = result.all_messages()
        if turn == 3:
            # A program that keeps its history as JSON.
            history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
    return script.asked, without_chance(ModelMessagesTypeAdapter.dump_python(history, mode="json"))


@pytest.mark.parametrize("seed", range(3))
async def test_a_model_is_asked_the_same_with_longhand_and_without(client: aio.Client, seed: int) -> None:
    without = await run_script([], seed)
    asked, history = await run_script([LonghandViews(client)], seed)
    for ours, theirs in zip(asked, without[0], strict=True):
        assert ours == theirs
    assert history == without[1]


async def test_what_a_processor_redacts_is_nowhere_and_what_it_drops_is_left_out(
    shared: Daemon, client: aio.Client
) -> None:
    secret = uncommon_words()

    def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        text = ModelMessagesTypeAdapter.dump_json(messages).decode().replace(secret, "[redacted]")
        changed = ModelMessagesTypeAdapter.validate_json(text)
        return changed[-3:]

    name = uuid.uuid4().hex
    script = Script([ModelResponse(parts=[TextPart(f"Reply {n}")]) for n in range(4)])
    agent = Agent(script.model, capabilities=[LonghandViews(client, name), ProcessHistory(process)])
    history: list[ModelMessage] = []
    for turn in range(4):
        history = (await agent.run(f"I am {secret} {turn}", message_history=history)).all_messages()
    said = [longhand.plain_text(message) for message in (await client.session(name).view()).messages]
    assert said == ["I am [redacted] 2", "Reply 2", "I am [redacted] 3", "Reply 3"]
    assert len([m async for m in client.session(name).history()]) == 8
    assert not any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))


async def test_a_reply_of_another_writer_may_come_last(client: aio.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    name = uuid.uuid4().hex
    yes = ModelResponse(parts=[TextPart("Yes")])
    script = Script([ModelResponse(parts=[ToolCallPart("look", {}, "c")]), yes, yes])
    agent = Agent(script.model, capabilities=[LonghandViews(client, name)])
    agent.tool_plain(lambda: "seen", name="look")
    session = await client.open_session(name)
    read = aio.Session.view

    async def view(self: aio.Session, **options: Any) -> aio.View:
        # Between what a run stores and the view that its model gets.
        await session.append(longhand.assistant("I am another one"))
        return await read(self, **options)

    monkeypatch.setattr(aio.Session, "view", view)
    result = await agent.run("What is there?")
    await agent.run("And now?", message_history=result.all_messages())
    kinds = [[p["part_kind"] for m in json.loads(asked[:-4]) for p in m["parts"]] for asked in script.asked]
    assert kinds[0] == ["text", "user-prompt"]
    assert kinds[1] == ["user-prompt", "text", "text", "tool-call", "tool-return"]
    assert kinds[2][-3:] == ["text", "text", "user-prompt"]


async def test_a_stream_and_a_run_that_fails_are_stored(client: aio.Client) -> None:
    name = uuid.uuid4().hex
    calls: list[int] = []

    async def stream(messages: list[ModelMessage], info: Any) -> AsyncIterator[str]:
        yield "One "
        yield "two"

    def fails(messages: list[ModelMessage], info: Any) -> ModelResponse:
        calls.append(len(messages))
        raise ValueError("no model")

    agent = Agent(FunctionModel(stream_function=stream), capabilities=[LonghandViews(client, name)])
    async with agent.run_stream("Count") as result:
        assert await result.get_output() == "One two"
    history = result.all_messages()
    broken = Agent(FunctionModel(fails), capabilities=[LonghandViews(client, name)])
    with pytest.raises(ValueError, match="no model"):
        await broken.run("Fail", message_history=history)
    view = await client.session(name).view()
    assert [longhand.plain_text(message) for message in view.messages] == ["Count", "One two", "Fail"]
    reply = [m async for m in client.session(name).history() if m.role == v1.ROLE_ASSISTANT]
    assert reply[0].given_view.revision


def test_two_replies_of_one_moment_are_two() -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    messages: list[ModelMessage] = [ModelResponse(parts=[TextPart(text)], timestamp=at) for text in ("a", "b", "a")]
    identities = [piece.item.identity for piece in _pieces(messages) if piece.item is not None]
    assert len(set(identities)) == 3
