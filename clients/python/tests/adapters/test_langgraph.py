"""LangGraph: the conformance kit of its savers, and agents over views."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from conftest import Daemon, uncommon_words

import longhand
from longhand import v1

pytest.importorskip("langgraph.checkpoint.conformance")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.conformance import checkpointer_test, validate

from longhand.langgraph import LonghandMiddleware, LonghandSaver


@pytest.fixture
def client(shared: Daemon) -> Iterator[longhand.Client]:
    with longhand.connect(shared.address, actor="langgraph") as client:
        yield client


async def test_the_conformance_kit_passes(client: longhand.Client) -> None:
    @checkpointer_test(name="LonghandSaver")
    async def saver() -> AsyncIterator[LonghandSaver]:
        yield LonghandSaver(client, namespace=uuid.uuid4().hex)

    report = await validate(saver)
    failures = [failure for result in report.results.values() for failure in (result.failures or [])]
    assert not failures, failures
    assert report.passed_all_base()
    passed = sum(result.tests_passed for result in report.results.values())
    assert passed == 81, {str(name): result for name, result in report.results.items()}


def test_another_saver_sees_what_was_put_and_what_was_deleted(shared: Daemon, client: longhand.Client) -> None:
    namespace, secret = uuid.uuid4().hex, uncommon_words()
    with longhand.connect(shared.address) as other:
        one, two = LonghandSaver(client, namespace=namespace), LonghandSaver(other, namespace=namespace)
        thread: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for _ in range(2):
            checkpoint: Any = {
                "v": 1,
                "id": str(uuid.uuid4()),
                "ts": "",
                "channel_values": {"a": secret},
                "channel_versions": {"a": "1"},
                "versions_seen": {},
            }
            stored = one.put(thread, checkpoint, {}, {"a": "1"})
            one.put_writes(stored, [("a", secret)], "task")
            two.put_writes(stored, [("a", "not this one")], "task")
            found = two.get_tuple(thread)
            assert found is not None
            assert found.checkpoint["channel_values"] == {"a": secret}
            assert found.pending_writes == [("task", "a", secret)]
            two.delete_thread("t")
            assert one.get_tuple(thread) is None
            assert not list(one.list(None))
            assert not any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))


def test_a_prune_is_one_erasure_and_values_are_found_by_no_search(client: longhand.Client) -> None:
    word = f"tidewater{uuid.uuid4().hex}"
    saver = LonghandSaver(client, namespace=word)
    thread: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for number in range(5):
        checkpoint: Any = {
            "v": 1,
            "id": f"{number:08}",
            "ts": "",
            "channel_values": {"a": f"{word} {number}", "b": word},
            "channel_versions": {"a": str(number), "b": "0"},
            "versions_seen": {},
        }
        versions = checkpoint["channel_versions"] if number == 0 else {"a": str(number)}
        stored = saver.put(thread, checkpoint, {}, versions)
        saver.put_writes(stored, [("a", word), ("b", word)], "task")
    chosen = v1.SessionFilter(client_id_prefix=saver._prefix)
    (info,) = client.list_sessions(filter=chosen)
    session = client.session(info.session_id)
    hits = session.search(word, min_seq=session.append("the last word").seq, wait_seconds=20.0)
    assert not list(hits)
    saver.prune(["t"])
    request = v1.ListEventsRequest(session_id=info.session_id, kinds=[v1.EVENT_KIND_ERASED])
    (event,) = client.call(client.stubs.events.ListEvents, request).events
    # Of each of four: the checkpoint, a value, and two writes.
    assert len(event.erased.messages) == 16
    (left,) = saver.list(thread)
    assert left.checkpoint["channel_values"] == {"a": f"{word} 4", "b": word}
    assert left.pending_writes is not None
    assert len(left.pending_writes) == 2


def test_a_list_of_checkpoints_takes_few_calls(client: longhand.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    saver = LonghandSaver(client, namespace=uuid.uuid4().hex)
    thread: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for number in range(60):
        versions = {"a": str(number), "b": str(number // 10)}
        checkpoint: Any = {
            "v": 1,
            "id": f"{number:08}",
            "ts": "",
            "channel_values": {"a": number, "b": number // 10},
            "channel_versions": versions,
            "versions_seen": {},
        }
        stored = saver.put(thread, checkpoint, {"step": number}, versions)
        saver.put_writes(stored, [("a", number)], "task")
    calls: list[str] = []
    call = longhand.Client.call

    def counted(self: longhand.Client, method: Any, request: Any, **options: Any) -> Any:
        calls.append(type(request).__name__)
        return call(self, method, request, **options)

    monkeypatch.setattr(longhand.Client, "call", counted)
    found = list(saver.list(thread))
    assert [t.checkpoint["channel_values"] for t in found] == [{"a": n, "b": n // 10} for n in reversed(range(60))]
    assert [t.pending_writes for t in found] == [[("task", "a", n)] for n in reversed(range(60))]
    assert len(calls) < 10
    calls.clear()
    assert len(list(saver.list(thread, limit=2))) == 2
    assert len(calls) <= 4


class Model(BaseChatModel):
    """Calls a tool for every question, and then says what the tool said. Keeps what it was asked."""

    asked: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "test"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **rest: Any
    ) -> ChatResult:
        self.asked.append(messages)
        last = messages[-1]
        if isinstance(last, HumanMessage):
            call = {"id": f"call-{len(self.asked)}", "name": "look", "args": {"what": str(last.content)[:20]}}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage(f"It says: {last.content}"[:300])
        tokens = sum(len(str(message.content)) // 4 for message in messages) + 10
        reply.usage_metadata = {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10}
        return ChatResult(generations=[ChatGeneration(message=reply)])


def look(what: str) -> str:
    """Looks."""
    return f"seen {what} " * 40


def test_an_agent_works_over_views_of_a_small_window(client: longhand.Client) -> None:
    model, name = Model(asked=[]), f"graph-{uuid.uuid4().hex}"
    thread: Any = {"configurable": {"thread_id": name}}
    result: dict[str, Any] = {}
    for turn in range(25):
        if turn % 10 == 0:
            # At first, and as after a start of the program.
            middleware = LonghandMiddleware(client, window=4_000, preset="pi")
            saver = LonghandSaver(client, namespace=name)
            agent = create_agent(model, [look], middleware=[middleware], checkpointer=saver)
        question = HumanMessage(f"Question {turn}: " + "words of a person " * 15)
        result = agent.invoke({"messages": [question]}, thread)
        assert result["messages"][-1].content.startswith("It says: seen Question")
    session = client.session(name)
    history = list(session.history(include_derived=True, page_size=1000))
    summaries = [message for message in history if message.kind == v1.MESSAGE_KIND_SUMMARY]
    # The graph's state has everything, and so has history; the model was asked with less.
    assert len(result["messages"]) == 100
    assert len(history) - len([m for m in history if m.origin == v1.ORIGIN_DERIVED]) == 100
    assert len(summaries) > 1
    assert max(len(asked) for asked in model.asked) < 60
    for asked in model.asked:
        calls = [call["id"] for message in asked if isinstance(message, AIMessage) for call in message.tool_calls]
        assert calls == [message.tool_call_id for message in asked if message.type == "tool"]
    # Replies name the view that they answer.
    assert all(m.given_view.revision for m in history if m.role == v1.ROLE_ASSISTANT and m.origin == v1.ORIGIN_CLIENT)


def test_what_others_write_is_in_the_next_request_and_messages_come_back_as_they_were(client: longhand.Client) -> None:
    model, name = Model(asked=[]), f"graph-{uuid.uuid4().hex}"
    agent = create_agent(model, [look], middleware=[LonghandMiddleware(client, name)])
    first = HumanMessage("What is there?", id="h1", additional_kwargs={"kept": [1]})
    agent.invoke({"messages": [first]})
    client.session(name).append("Somebody else is here")
    agent.invoke({"messages": [first, HumanMessage("And now?", id="h2")]})
    asked = model.asked[2]
    assert [message.content for message in asked if message.type == "human"] == [
        "What is there?",
        "Somebody else is here",
        "And now?",
    ]
    assert asked[0] == first
    assert asked[1] == AIMessage(**json.loads(asked[1].model_dump_json(exclude={"type"})))
