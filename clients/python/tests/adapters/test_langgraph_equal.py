"""LangGraph: with Longhand and without, a model is asked the same; and a message comes back equal."""

from __future__ import annotations

import base64
import json
import math
import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Daemon

import longhand
from longhand import v1

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from longhand._originals import pieced_messages
from longhand.langgraph import LonghandMiddleware, _new_message, messages_of_view


@pytest.fixture
def client(shared: Daemon) -> Iterator[longhand.Client]:
    with longhand.connect(shared.address, actor="langgraph") as client:
        yield client


PICTURE = base64.b64encode(bytes(range(256)) * 40).decode()
#: More than metadata may have.
LARGE = 'Tide → wörds\t"quoted"\\\n' * 15_000


def nasty_contents(chance: random.Random) -> list[Any]:
    words = " ".join(chance.choice(["tide", "wörds", "→", "\n", "\0"[:0], '"', "\\"]) for _ in range(6))
    return [
        words,
        words * 300,
        LARGE,
        "",
        [words, {"type": "text", "text": words * 2, "cache_control": {"type": "ephemeral"}}, ""],
        [
            {"type": "text", "text": words},
            {"type": "image", "base64": PICTURE, "mime_type": "image/png", "extras": {"a": [1, 1.0, True]}},
        ],
        [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "low"}}],
        [{"type": "image_url", "image_url": "https://example.com/x.png"}],
        [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
            {"type": "unknown", "value": {"$longhand": 1, "n": None}},
        ],
    ]


def nasty_messages(chance: random.Random) -> list[BaseMessage]:
    contents = nasty_contents(chance)
    made: list[BaseMessage] = []
    for content in contents:
        extra = {"kept": [1, 1.0, {"x": None}], "bytes": b"\0\xff", "pair": (1, "two")}
        made.append(HumanMessage(content, id=uuid.uuid4().hex, name="Ann", additional_kwargs=extra))
        calls = [
            {"id": f"call_{uuid.uuid4().hex}", "name": "look", "args": args}
            for args in ({}, {"what": contents[0], "n": 1.0, "deep": [{"a": None}]}, {"file": LARGE})
        ]
        thought = [
            {"type": "thinking", "thinking": "hm " * 900, "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "opaque"},
        ]
        reply = AIMessage(
            [*thought, *([content] if isinstance(content, str) else content)] if content else "",
            tool_calls=calls,
            invalid_tool_calls=[{"id": "bad", "name": "look", "args": '{"a":', "error": "no JSON"}],
            id=uuid.uuid4().hex,
            usage_metadata={"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
            response_metadata={"model_name": "m", "logprobs": [-0.5, math.inf]},
        )
        made.append(reply)
        for number, call in enumerate(calls):
            made.append(
                ToolMessage(
                    content,
                    tool_call_id=call["id"],
                    id=uuid.uuid4().hex,
                    status=("success", "error")[number % 2],
                    artifact={"rows": [[1, 2.5], (3,)], "blob": b"\1" * 300_000 if number == 2 else b""},
                )
            )
    made.append(SystemMessage("Be brief.", id=uuid.uuid4().hex))
    return made


def test_a_message_comes_back_equal(client: longhand.Client) -> None:
    messages = nasty_messages(random.Random(1))
    session = client.create_session()
    for message in messages:
        session.append(_new_message(message))
    view = session.view()
    originals = {m.message_id: m for m in session.get_messages(pieced_messages("langchain", view.messages))}
    assert originals
    back = {m.id: m for m in messages_of_view(view.messages, originals)}
    for message in messages:
        if message.content or getattr(message, "tool_calls", None) or isinstance(message, ToolMessage):
            assert back[message.id] == message
            assert type(back[message.id]) is type(message)


def test_an_artifact_that_is_no_json_is_left_out(client: longhand.Client) -> None:
    session = client.create_session()
    call = AIMessage("", tool_calls=[{"id": "c", "name": "look", "args": {}}])
    result = ToolMessage("seen", tool_call_id="c", artifact={"open": object(), "n": math.nan})
    session.append(_new_message(HumanMessage("?")), _new_message(call), _new_message(result))
    *_, back = messages_of_view(session.view().messages)
    assert isinstance(back, ToolMessage)
    assert back.content == "seen"
    assert back.artifact["open"] is None
    assert math.isnan(back.artifact["n"])


def test_what_a_policy_shortens_is_the_only_thing_that_changes(client: longhand.Client) -> None:
    session = client.create_session(preset="opencode@seed")
    output = "line of output\n" * 2000
    call = AIMessage(
        [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "I look"}],
        tool_calls=[{"id": "c", "name": "look", "args": {"a": 1}}],
        id="a",
    )
    blocks: Any = [{"type": "text", "text": output}, {"type": "image", "base64": PICTURE, "mime_type": "image/png"}]
    for content in (output, blocks):
        session.append(_new_message(HumanMessage("?")), _new_message(call))
        session.append(_new_message(ToolMessage(content, tool_call_id="c", name="look", artifact=[1], id="t")))
    view = session.view()
    assert sum(bool(part.shortening) for message in view.messages for part in message.parts) == 2
    back = messages_of_view(view.messages)
    assert back[1] == call
    for message, content in ((back[2], output), (back[5], blocks)):
        assert isinstance(message, ToolMessage)
        assert (message.name, message.artifact, message.id) == ("look", [1], "t")
        text = message.content if isinstance(content, str) else message.content[0]["text"]  # type: ignore[index]
        assert len(str(text)) < 4000
        assert str(text)[:10] == output[:10]
    assert back[5].content[1] == blocks[1]  # type: ignore[index]


class Script(BaseChatModel):
    """Answers from a script, and keeps the bytes of what it was asked."""

    replies: list[AIMessage]
    asked: list[str]

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **rest: Any) -> Any:
        self.asked.append(json.dumps([sent(message) for message in messages]))
        reply = self.replies[len(self.asked) - 1].model_copy(deep=True)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def sent(message: BaseMessage) -> Any:
    """What the client of a provider reads of a message. Ids that a graph makes by chance are no part of it."""
    data = message.model_dump(exclude={"id", "response_metadata", "artifact"})
    return json.loads(json.dumps(data, default=repr))


def calls(*pairs: tuple[str, dict[str, Any]]) -> AIMessage:
    named = [{"id": id, "name": "look", "args": args} for id, args in pairs]
    usage: Any = {"input_tokens": 900, "output_tokens": 2, "total_tokens": 902}
    return AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}], tool_calls=named, usage_metadata=usage)


def look(what: str) -> Any:
    """Looks."""
    chance = random.Random(what)
    return chance.choice(nasty_contents(chance))


class Reminder(AgentMiddleware[Any, Any, Any]):
    """Changes a request alone: a note at the end, and an output that is cleared."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        messages = [
            m.model_copy(update={"content": "[cleared]"}) if m.type == "tool" and len(m.content) > 10_000 else m
            for m in request.messages
        ]
        return handler(request.override(messages=[*messages, HumanMessage("Mind the time.")]))


SECRET = "ann@example.com"


def run_script(middleware: list[Any], seed: int) -> tuple[list[str], list[Any]]:
    """Everything in a conversation: parallel calls, other contents, a removal, a way back, plain dictionaries."""
    chance = random.Random(seed)
    contents = nasty_contents(chance)
    replies: list[AIMessage] = []
    for turn in range(6):
        many = [(f"c{turn}.{n}", {"what": f"{seed}.{turn}.{n}"}) for n in range(chance.randrange(1, 4))]
        replies += [calls(*many), AIMessage(f"Done {turn}, ask {SECRET}")]
    replies += [AIMessage(f"Plain {n}") for n in range(4)]
    model = Script(replies=replies, asked=[])
    agent = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver(), system_prompt="Be brief.")
    thread: Any = {"configurable": {"thread_id": f"thread-{uuid.uuid4().hex}"}}
    for _ in range(3):
        agent.invoke({"messages": [HumanMessage(chance.choice(contents) or "Go on")]}, thread)
    state = agent.get_state(thread).values["messages"]
    # Another content under the same id, and one message less.
    agent.update_state(thread, {"messages": [HumanMessage("Edited", id=state[0].id), RemoveMessage(id=state[-1].id)]})
    agent.invoke({"messages": [HumanMessage("And now?")]}, thread)
    # Back to where the second turn ended, and on from there.
    earlier = [s for s in agent.get_state_history(thread) if not s.next and s.values.get("messages")]
    two = next(s for s in earlier if sum(m.type == "human" for m in s.values["messages"]) == 2)
    agent.invoke({"messages": [HumanMessage("Another way")]}, two.config)
    # Everything out but a note in its place.
    note = HumanMessage("What was before, in few words")
    agent.update_state(thread, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), note]})
    agent.invoke({"messages": [HumanMessage("The last one")]}, thread)
    final = [sent(message) for message in agent.get_state(thread).values["messages"]]
    # A history that a program keeps as dictionaries, without ids.
    plain = create_agent(model, [], middleware=middleware)
    history: list[Any] = []
    for turn in range(4):
        history.append({"role": "user", "content": "Yes" if turn % 2 else f"Say {turn}"})
        own: Any = {"configurable": {"thread_id": f"{thread['configurable']['thread_id']} plain"}}
        result = plain.invoke({"messages": [*history]}, own)
        history.append({"role": "assistant", "content": result["messages"][-1].content})
    return model.asked, final


@pytest.mark.parametrize("seed", range(3))
def test_a_model_is_asked_the_same_with_longhand_and_without(client: longhand.Client, seed: int) -> None:
    def redaction() -> list[Any]:
        return [PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)]

    without = run_script([Reminder(), *redaction()], seed)
    for middleware in (
        [LonghandMiddleware(client), Reminder(), *redaction()],
        [Reminder(), *redaction(), LonghandMiddleware(client)],
    ):
        asked, state = run_script(middleware, seed)
        assert len(asked) == len(without[0])
        for ours, theirs in zip(asked, without[0], strict=True):
            assert json.loads(ours) == json.loads(theirs)
        assert (asked, state) == without


def test_what_the_graph_redacts_is_nowhere(shared: Daemon, client: longhand.Client) -> None:
    secret = f"{uuid.uuid4().hex}@example.com"
    model = Script(replies=[AIMessage(f"Ask {secret}"), AIMessage("Bye")], asked=[])
    for place in (0, 1):
        middleware: list[Any] = [PIIMiddleware("email", apply_to_output=True)]
        middleware.insert(place, LonghandMiddleware(client))
        agent = create_agent(model, [], middleware=middleware, checkpointer=InMemorySaver())
        model.asked.clear()
        thread: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
        agent.invoke({"messages": [HumanMessage(f"I am {secret}")]}, thread)
        agent.invoke({"messages": [HumanMessage("Bye")]}, thread)
        said = [longhand.plain_text(m) for m in client.session(thread["configurable"]["thread_id"]).history()]
        assert said == ["I am [REDACTED_EMAIL]", "Ask [REDACTED_EMAIL]", "Bye", "Bye"]
        files = [file.read_bytes() for file in shared.data_dir.glob("longhand.db*")]
        assert not any(secret.encode() in data for data in files)


def test_a_way_back_leaves_what_others_wrote_and_what_they_left_out_stays_out(client: longhand.Client) -> None:
    model = Script(replies=[AIMessage(f"Reply {n}") for n in range(9)], asked=[])
    name, saver = f"graph-{uuid.uuid4().hex}", InMemorySaver()
    thread: Any = {"configurable": {"thread_id": name}}

    def ask(words: str, config: Any = thread) -> list[str]:
        # As after a start of the program.
        agent = create_agent(model, [], middleware=[LonghandMiddleware(client)], checkpointer=saver)
        agent.invoke({"messages": [HumanMessage(words)]}, config)
        return [message["content"] for message in json.loads(model.asked[-1])]

    def config_of(agent: Any, count: int) -> Any:
        states = [s for s in agent.get_state_history(thread) if len(s.values.get("messages", ())) == count]
        return states[0].config

    session = client.session(name)
    ask("One")
    ask("Two")
    session.append("Somebody else is here")
    assert ask("Three") == ["One", "Reply 0", "Two", "Reply 1", "Somebody else is here", "Three"]
    agent = create_agent(model, [], checkpointer=saver)
    first, second = config_of(agent, 2), config_of(agent, 4)
    assert ask("Another two", first) == ["One", "Reply 0", "Somebody else is here", "Another two"]
    # And back to where it was before.
    assert ask("Another three", second) == [
        "One", "Reply 0", "Somebody else is here", "Two", "Reply 1", "Another three"
    ]  # fmt: skip
    # A person leaves out the question of another one.
    (message,) = [m for m in session.view().messages if longhand.plain_text(m) == "Another three"]
    session.edit(message.message_id, None)
    assert "Another three" not in ask("Last")
    # A state of another process that begins anew has the session as its memory.
    saver = InMemorySaver()
    assert ask("Anew")[:2] == ["One", "Reply 0"]


def test_what_gets_another_content_under_its_id_is_replaced_once(client: longhand.Client) -> None:
    model = Script(replies=[AIMessage(f"Reply {n}") for n in range(9)], asked=[])
    name, saver = f"graph-{uuid.uuid4().hex}", InMemorySaver()
    thread: Any = {"configurable": {"thread_id": name}}
    session = client.session(name)
    for turn in range(3):
        # As after a start of the program.
        agent = create_agent(model, [], middleware=[LonghandMiddleware(client)], checkpointer=saver)
        agent.invoke({"messages": [HumanMessage(f"Turn {turn}", id=f"h{turn}")]}, thread)
        agent.update_state(thread, {"messages": [HumanMessage("Not that one", id="h0")]})
    view = [longhand.plain_text(message) for message in session.view().messages]
    assert view == ["Not that one", "Reply 0", "Turn 1", "Reply 1", "Turn 2", "Reply 2"]
    state = agent.get_state(thread).values["messages"]
    assert messages_of_view(session.view().messages) == state
    assert [m.kind for m in session.history()].count(v1.MESSAGE_KIND_EDIT) == 1


async def test_it_works_within_asyncio_and_in_graphs_of_graphs(client: longhand.Client) -> None:
    model = Script(replies=[AIMessage(f"Reply {n}") for n in range(9)], asked=[])
    name, saver = f"graph-{uuid.uuid4().hex}", InMemorySaver()
    thread: Any = {"configurable": {"thread_id": name}}
    # Two agents with states of their own over one session: neither leaves out what the other says.
    graph = StateGraph(MessagesState)
    middleware = LonghandMiddleware(client)
    for part in ("one", "two"):
        agent = create_agent(model, [], middleware=[middleware])

        async def ask(state: Any, agent: Any = agent, part: str = part) -> Any:
            answer = await agent.ainvoke({"messages": [HumanMessage(f"{part}: {state['messages'][-1].content}")]})
            return {"messages": answer["messages"][-1:]}

        graph.add_node(part, ask)
    graph.add_edge("__start__", "one")
    graph.add_edge("one", "two")
    whole = graph.compile(checkpointer=saver)
    for turn in range(2):
        await whole.ainvoke({"messages": [HumanMessage(f"Turn {turn}")]}, thread)
    said = [longhand.plain_text(message) for message in client.session(name).view().messages]
    assert said == [
        *("one: Turn 0", "Reply 0", "two: Reply 0", "Reply 1"),
        *("one: Turn 1", "Reply 2", "two: Reply 2", "Reply 3"),
    ]


def test_two_agents_of_one_thread_share_a_session(shared: Daemon) -> None:
    name, thread = f"graph-{uuid.uuid4().hex}", {"configurable": {"thread_id": "the same"}}
    with longhand.connect(shared.address, actor="one") as one, longhand.connect(shared.address, actor="two") as two:
        agents = [
            create_agent(
                Script(replies=[AIMessage(f"I am {client.actor}")] * 3, asked=[]),
                [],
                middleware=[LonghandMiddleware(client, name)],
                checkpointer=InMemorySaver(),
            )
            for client in (one, two)
        ]
        for turn in range(3):
            for agent in agents:
                agent.invoke({"messages": [HumanMessage(f"Turn {turn}")]}, thread)  # type: ignore[arg-type]
        said = [longhand.plain_text(message) for message in one.session(name).view().messages]
    assert said == [words for n in range(3) for who in ("one", "two") for words in (f"Turn {n}", f"I am {who}")]


def test_more_than_a_session_takes_ends_no_run(client: longhand.Client) -> None:
    model = Script(replies=[calls(("c", {"what": "x"})), AIMessage("Seen")], asked=[])
    huge = base64.b64encode(bytes(9 << 20)).decode()

    def look(what: str) -> str:
        """Looks."""
        return "x" * (9 << 20)

    name = f"graph-{uuid.uuid4().hex}"
    agent = create_agent(model, [look], middleware=[LonghandMiddleware(client, name)])
    content: Any = [{"type": "text", "text": "Look"}, {"type": "image", "base64": huge, "mime_type": "image/png"}]
    agent.invoke({"messages": [HumanMessage(content)]})
    # The model gets all of it.
    assert [len(asked) > (9 << 20) * (turn + 1) for turn, asked in enumerate(model.asked)] == [True, True]
    view = client.session(name).view()
    assert [m.role for m in view.messages] == [v1.ROLE_USER, v1.ROLE_ASSISTANT, v1.ROLE_TOOL, v1.ROLE_ASSISTANT]
    assert "9437" in longhand.plain_text(view.messages[0])
    assert longhand.plain_text(view.messages[0]).startswith("Look")
    assert "not stored" in view.messages[2].parts[0].part.tool_result.output


def test_a_worker_that_dies_before_its_checkpoint_leaves_no_reply_behind(client: longhand.Client) -> None:
    model = Script(replies=[AIMessage(f"Reply {n}") for n in range(9)], asked=[])
    name, saver = f"graph-{uuid.uuid4().hex}", InMemorySaver()
    thread: Any = {"configurable": {"thread_id": name}}

    class Dies(AgentMiddleware[Any, Any, Any]):
        dead = False

        def after_agent(self, state: Any, runtime: Any) -> None:
            if self.dead:
                raise KeyboardInterrupt

    dies = Dies()
    agent = create_agent(model, [], middleware=[dies, LonghandMiddleware(client)], checkpointer=saver)
    agent.invoke({"messages": [HumanMessage("One")]}, thread)
    dies.dead = True
    with pytest.raises(KeyboardInterrupt):
        agent.invoke({"messages": [HumanMessage("Two")]}, thread)
    agent = create_agent(model, [], middleware=[LonghandMiddleware(client)], checkpointer=saver)
    agent.invoke(None, thread)
    agent.invoke({"messages": [HumanMessage("Three")]}, thread)
    said = [longhand.plain_text(message) for message in client.session(name).view().messages]
    assert said[:3] == ["One", "Reply 0", "Two"]
    assert len([words for words in said if words.startswith("Reply")]) == 3
    assert v1.VIEW_MESSAGE_KIND_MISSING_RESULT not in [m.kind for m in client.session(name).view().messages]
