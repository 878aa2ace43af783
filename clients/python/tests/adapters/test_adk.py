"""The session service of Google ADK: the same as ADK's own one in memory, and what its tests ask of every service."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Daemon, uncommon_words

import longhand
from longhand import aio, v1

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.genai import types

from longhand.adk import LonghandSessionService, LonghandViews


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


@pytest.fixture
def service(client: aio.Client) -> LonghandSessionService:
    return LonghandSessionService(client, namespace=uuid.uuid4().hex)


def random_event(chance: random.Random, number: int) -> Event:
    words = " ".join(chance.choice(["tide", "wörds", "→", ""]) for _ in range(3))
    call = types.FunctionCall(id=f"c{number}", name="look", args={"x": [words, None, 1.5]})
    response = types.FunctionResponse(id=f"c{number - 1}", name="look", response={"seen": words})
    blob = types.Blob(mime_type="image/png", data=b"\0\1")
    signed = types.Part(text=words + ".", thought=True, thought_signature=b"\1\2")
    content = chance.choice(
        [
            None,
            types.Content(role="user", parts=[types.Part(text=words)]),
            types.Content(role="model", parts=[signed, types.Part(function_call=call)]),
            types.Content(role="user", parts=[types.Part(function_response=response)]),
            types.Content(role="user", parts=[types.Part(text="Look:"), types.Part(inline_data=blob)]),
        ]
    )
    keys = [f"{scope}{name}" for scope in ("", "app:", "user:", "temp:") for name in "ab"]
    delta = {chance.choice(keys): chance.choice([1, "two", None, {"three": [3]}]) for _ in range(chance.randrange(3))}
    return Event(
        id=f"e{number}",
        author=chance.choice(["user", "agent"]),
        invocation_id="i",
        content=content,
        actions=EventActions(state_delta=delta),
        partial=chance.random() < 0.1,
        timestamp=1000.0 + number,
    )


def seen(session: Session | None) -> Any:
    if session is None:
        return None
    return (session.app_name, session.user_id, session.id, session.state, session.events)


async def outcome(work: Any) -> Any:
    try:
        return await work
    except (AlreadyExistsError, SessionNotFoundError) as error:
        return type(error)


@pytest.mark.parametrize("seed", range(10))
async def test_it_does_what_adks_own_service_does(service: LonghandSessionService, seed: int) -> None:
    chance = random.Random(seed)
    theirs: BaseSessionService = InMemorySessionService()
    keys = [{"app_name": a, "user_id": u, "session_id": s} for a in "AB" for u in ("u", "v") for s in ("1", "2")]
    for number in range(60):
        key, what = chance.choice(keys), chance.randrange(12)
        if what < 2:
            state = {chance.choice(["a", "app:a", "user:a", "temp:a"]): number}
            made = [await outcome(s.create_session(**key, state=dict(state))) for s in (theirs, service)]
            if isinstance(made[0], type):
                assert made[0] is made[1]
            else:
                assert seen(made[0]) == seen(made[1])
        elif what < 8:
            event = random_event(chance, number)
            held = [await s.get_session(**key) for s in (theirs, service)]
            # ADK's own one knows an event again only if nothing was trimmed from it.
            again = chance.random() < 0.2 and not any(k.startswith("temp:") for k in event.actions.state_delta)
            for _ in range(1 + again):
                for session, of in zip(held, (theirs, service), strict=True):
                    own = session or Session(id=key["session_id"], app_name=key["app_name"], user_id=key["user_id"])
                    held_event = event.model_copy(deep=True)
                    result = await outcome(of.append_event(own, held_event))
                    if of is theirs:
                        wanted, wanted_session = result, own
                    else:
                        assert result == wanted
                        assert seen(own) == seen(wanted_session)
        elif what < 9:
            await theirs.delete_session(**key)
            await service.delete_session(**key)
        else:
            config = chance.choice(
                [
                    None,
                    GetSessionConfig(num_recent_events=chance.randrange(4)),
                    GetSessionConfig(after_timestamp=1000.0 + chance.randrange(60)),
                    GetSessionConfig(num_recent_events=2, after_timestamp=1000.0 + chance.randrange(60)),
                ]
            )
            gotten = [await s.get_session(**key, config=config) for s in (theirs, service)]
            assert seen(gotten[1]) == seen(gotten[0])
        for app, user in (("A", None), ("A", "u"), ("B", "v")):
            lists = [await s.list_sessions(app_name=app, user_id=user) for s in (theirs, service)]
            listed = [sorted(map(seen, sessions.sessions), key=repr) for sessions in lists]
            assert listed[0] == listed[1]
            states = [await s.get_user_state(app_name=app, user_id=user or "u") for s in (theirs, service)]
            assert states[0] == states[1]


async def test_the_list_is_in_the_order_of_the_last_change(service: LonghandSessionService) -> None:
    made = [await service.create_session(app_name="A", user_id="u", session_id=id) for id in "abc"]
    await service.append_event(made[0], Event(author="user", invocation_id="i"))
    sessions = (await service.list_sessions(app_name="A")).sessions
    assert [session.id for session in sessions] == ["b", "c", "a"]
    times = [session.last_update_time for session in sessions]
    assert times == sorted(times)


async def test_states_of_many_writers_are_merged_and_may_be_large(service: LonghandSessionService) -> None:
    await service.create_session(app_name="A", user_id="u", session_id="s")

    async def write(name: str) -> None:
        for number in range(5):
            session = await service.get_session(app_name="A", user_id="u", session_id="s")
            assert session is not None
            delta = {f"{name}{number}": "x" * 4000, f"app:{name}{number}": number}
            await service.append_event(
                session, Event(author="agent", invocation_id="i", actions=EventActions(state_delta=delta))
            )

    await asyncio.gather(*(write(name) for name in "abc"))
    session = await service.get_session(app_name="A", user_id="u", session_id="s")
    assert session is not None
    assert len(session.state) == 30
    assert len(session.events) == 15


async def test_a_deleted_session_is_erased(shared: Daemon, service: LonghandSessionService) -> None:
    secret = uncommon_words()
    for _ in range(2):
        session = await service.create_session(app_name="A", user_id="u", session_id="s", state={"key": secret})
        content = types.Content(role="user", parts=[types.Part(text=secret)])
        await service.append_event(session, Event(id="e", author="user", invocation_id="i", content=content))
        assert any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))
        await service.delete_session(app_name="A", user_id="u", session_id="s")
        assert await service.get_session(app_name="A", user_id="u", session_id="s") is None
        assert not any(secret.encode() in file.read_bytes() for file in shared.data_dir.glob("longhand.db*"))


class Echo(BaseLlm):
    """Says what it was told last."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        said = llm_request.contents[-1].parts[0].text
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=50, candidates_token_count=5)
        content = types.Content(role="model", parts=[types.Part(text=f"You said {said}")])
        yield LlmResponse(content=content, usage_metadata=usage)


async def test_an_agent_runs_and_others_read_and_write_its_session(
    client: aio.Client, service: LonghandSessionService
) -> None:
    agent = LlmAgent(name="echo", model=Echo(model="echo"))
    runner = Runner(agent=agent, app_name="A", session_service=service)
    session = await service.create_session(app_name="A", user_id="u")
    said = types.Content(role="user", parts=[types.Part(text="Hello")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=said):
        pass
    under = service.longhand("A", "u", session.id)
    view = await under.view()
    assert [longhand.plain_text(m) for m in view.messages] == ["Hello", "You said Hello"]
    assert view.header.context_tokens == 55
    await under.append("Somebody else is here")
    found = await service.get_session(app_name="A", user_id="u", session_id=session.id)
    assert found is not None
    last = found.events[-1]
    assert last.content is not None
    assert last.content.parts is not None
    assert (last.author, last.content.parts[0].text) == ("user", "Somebody else is here")
    assert (await under.get_message(last.id)).role == v1.ROLE_USER


class Worker(BaseLlm):
    """Calls a tool for every question, and then says what the tool said. Keeps what it was asked."""

    asked: list[list[types.Content]]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.asked.append(llm_request.contents)
        last = llm_request.contents[-1].parts[-1]
        tokens = sum(len(str(content)) // 8 for content in llm_request.contents)
        if last.function_response:
            part = types.Part(text=f"It says: {last.function_response.response}"[:200])
        else:
            part = types.Part(function_call=types.FunctionCall(name="look", args={"what": "harbour"}))
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens, candidates_token_count=5)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


def look(what: str) -> dict[str, str]:
    """Looks."""
    return {"seen": f"{what} " * 60}


async def test_an_agent_works_over_views_of_a_small_window(client: aio.Client) -> None:
    service = LonghandSessionService(client, namespace=uuid.uuid4().hex, window=2_500, preset="pi")
    model = Worker(model="worker", asked=[])
    agent = LlmAgent(name="worker", model=model, tools=[look])
    app = App(name="A", root_agent=agent, plugins=[LonghandViews(service)])
    runner = Runner(app=app, session_service=service)
    session = await service.create_session(app_name="A", user_id="u", session_id="s")
    for turn in range(20):
        words = f"Question {turn}: " + "words of a person " * 15
        said = types.Content(role="user", parts=[types.Part(text=words)])
        events = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message=said)]
        assert "seen" in str(events[-1].content)
    found = await service.get_session(app_name="A", user_id="u", session_id="s")
    assert found is not None
    assert len(found.events) == 80
    under = service.longhand("A", "u", "s")
    history = [message async for message in under.history(include_derived=True, page_size=1000)]
    assert len([message for message in history if message.kind == v1.MESSAGE_KIND_SUMMARY]) > 1
    # On a busy machine a compaction comes some turns later.
    assert max(len(contents) for contents in model.asked) < 75
    for contents in model.asked:
        # What a summary says is a content of its own, in front of the user's next words.
        same = [place for place, (one, two) in enumerate(itertools.pairwise(contents)) if one.role == two.role]
        assert same in ([], [0])
        every = [part for content in contents for part in content.parts or []]
        calls = [part.function_call for part in every if part.function_call]
        responses = [part.function_response for part in every if part.function_response]
        assert [call.name for call in calls] == [response.name for response in responses]
        assert not any(named.id for named in (*calls, *responses))
        for content in contents:
            types.Content.model_validate(content.model_dump())
    replies = [m for m in history if m.role == v1.ROLE_ASSISTANT and m.origin == v1.ORIGIN_CLIENT]
    assert all(message.given_view.revision for message in replies)
