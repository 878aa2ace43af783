"""The conversation store of pydantic-ai: the same as the package's own one."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Daemon, uncommon_words

import longhand
from longhand import aio, v1

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
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from longhand.pydantic_ai import LonghandConversationStore, LonghandViews


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
    namespace, secret = uuid.uuid4().hex, uncommon_words()
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


async def test_an_agent_works_over_views_of_a_small_window(client: aio.Client) -> None:
    asked: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], info: Any) -> ModelResponse:
        asked.append(messages)
        last = messages[-1].parts[-1]
        tokens = sum(len(str(m)) // 8 for m in messages)
        if isinstance(last, ToolReturnPart):
            reply: Any = TextPart(f"It says: {last.content}"[:200])
        else:
            reply = ToolCallPart("look", {"what": "harbour"}, tool_call_id=f"call-{len(asked)}")
        return ModelResponse(parts=[ThinkingPart("hm", signature="s"), reply], usage=RequestUsage(input_tokens=tokens))

    name = f"pydantic-{uuid.uuid4().hex}"
    history: list[ModelMessage] = []
    for turn in range(20):
        if turn % 10 == 0:
            # At first, and as after a start of the program.
            views = LonghandViews(client, name, window=4_000, preset="pi")
            agent = Agent(FunctionModel(model), system_prompt="Be brief.", capabilities=[views])

            @agent.tool_plain
            def look(what: str) -> str:
                return f"seen {what} " * 60

        question = f"Question {turn}: " + "words of a person " * 15
        result = await agent.run(question, message_history=history)
        history = result.all_messages()
        assert result.output.startswith("It says: seen harbour")
        session = client.session(name)
        if turn == 10:
            await session.append("Somebody else is here")
    assert len(history) == 80
    kept = [message async for message in session.history(include_derived=True, page_size=1000)]
    assert len([message for message in kept if message.origin == v1.ORIGIN_CLIENT]) == 81
    assert len([message for message in kept if message.kind == v1.MESSAGE_KIND_SUMMARY]) > 1
    assert max(len(messages) for messages in asked) < 60
    for messages in asked:
        every = [part for message in messages for part in message.parts]
        assert [p.content for p in every if p.part_kind == "system-prompt"] == ["Be brief."]
        calls = [p.tool_call_id for p in every if isinstance(p, ToolCallPart)]
        assert calls == [p.tool_call_id for p in every if isinstance(p, ToolReturnPart)]
        # What a provider signed comes back.
        assert all(p.signature == "s" for p in every if isinstance(p, ThinkingPart))
    replies = [m for m in kept if m.role == v1.ROLE_ASSISTANT and m.origin == v1.ORIGIN_CLIENT]
    assert all(message.given_view.revision for message in replies)
    assert any("Somebody else" in str(message) for message in asked[22])
    assert longhand.plain_text(kept[0]).startswith("Question 0")
