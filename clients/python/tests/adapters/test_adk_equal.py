"""Google ADK: with Longhand's views and without, a model is asked the same; and an event comes back equal."""

from __future__ import annotations

import copy
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Daemon

import longhand
from longhand import aio, v1

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.planners import PlanReActPlanner
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import load_artifacts
from google.genai import types

from longhand.adk import LonghandSessionService, LonghandViews, replaced


@pytest.fixture
async def client(shared: Daemon) -> AsyncIterator[aio.Client]:
    async with await aio.connect(shared.address) as client:
        yield client


#: More than metadata may have.
LARGE = 'Tide → wörds\t"quoted"\\\n' * 15_000
PICTURE = types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256)) * 40, display_name="pic"))
FILE = types.Part(file_data=types.FileData(file_uri="gs://bucket/x.pdf", mime_type="application/pdf"))


def nasty_parts() -> list[list[types.Part]]:
    call = types.FunctionCall(id="c", name="look", args={"n": 1.0, "deep": {"a": [None, True]}, "file": LARGE})
    result = types.FunctionResponse(id="c", name="look", response={"seen": LARGE, "n": 1.0, "none": None})
    code = types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)
    return [
        [types.Part(text="wörds →")],
        [types.Part(text=LARGE), types.Part(text=""), PICTURE],
        [FILE],
        [PICTURE],
        [types.Part(text="hm", thought=True, thought_signature=b"\1\2"), types.Part(thought_signature=b"\3" * 300_000)],
        [types.Part(function_call=call, thought_signature=b"\1"), types.Part(text="I look")],
        [types.Part(function_response=result)],
        [types.Part(function_call=types.FunctionCall(id="d", name="look"))],
        [types.Part(function_response=types.FunctionResponse(id="d", name="look", response={"result": "plain"}))],
        [types.Part(executable_code=code), types.Part(text="ran")],
        [types.Part(executable_code=code)],
        [types.Part(inline_data=types.Blob(mime_type="video/mp4", data=bytes(900_000)), video_metadata={"fps": 1.5})],  # type: ignore[arg-type]
    ]


async def test_an_event_comes_back_equal(client: aio.Client) -> None:
    service = LonghandSessionService(client, namespace=uuid.uuid4().hex)
    session = await service.create_session(app_name="A", user_id="u", session_id="s")
    wanted: list[Event] = []
    for number, said in enumerate(nasty_parts()):
        role = "user" if number % 2 else "model"
        content = types.Content(role=role, parts=said)
        event = Event(author=("agent", "user")[number % 2], invocation_id="i", content=content, timestamp=float(number))
        event.custom_metadata = {"a": [1.0, None]}
        wanted.append(event.model_copy(deep=True))
        await service.append_event(session, event)
    found = await service.get_session(app_name="A", user_id="u", session_id="s")
    assert found is not None
    assert found.events == wanted
    assert found.last_update_time == wanted[-1].timestamp
    view = await service.longhand("A", "u", "s").view()
    # What other agents see of it: large ones too, and a file alone.
    shown = {message.client_id for message in view.messages if message.kind == v1.VIEW_MESSAGE_KIND_SHOWN}
    assert shown == {
        event.id for event in wanted if event.content != types.Content(role="model", parts=nasty_parts()[10])
    }
    assert any(view_part.part.media.uri for message in view.messages for view_part in message.parts)


class Script(BaseLlm):
    """A model that answers from a script, and keeps what it was asked."""

    replies: list[list[types.Part]]
    asked: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.asked.append(copy.deepcopy((llm_request.contents, llm_request.config.system_instruction)))
        parts = self.replies[len(self.asked) - 1]
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=900, candidates_token_count=5)
        yield LlmResponse(content=types.Content(role="model", parts=copy.deepcopy(parts)), usage_metadata=usage)


def call(name: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args), thought_signature=b"\1")


async def run_script(service: Any, plugins: list[Any], kind: str) -> tuple[list[Any], list[Any]]:
    """Two agents, results in parallel and large, files, and what a tool and instructions add to a request."""
    results: list[Any] = [{"seen": LARGE}, "plain", {"deep": [None, 1.0]}, None]

    def look(n: int) -> Any:
        """Looks."""
        return results[n]

    replies: list[list[types.Part]] = []
    for _ in range(3):
        replies.append([types.Part(text="hm", thought=True), call("look", n=0), call("look", n=1), call("look", n=2)])
        replies.append([call("look", n=3), call("load_artifacts", artifact_names=["notes.txt"])])
        replies.append([types.Part(text="Done.")])
    if kind == "transfer":
        replies[2] = [call("transfer_to_agent", agent_name="other")]
        replies.insert(3, [types.Part(text="I am the other one")])
    model = Script(model="script", replies=replies, asked=[])
    options: dict[str, Any] = {
        "static": {"static_instruction": "You never change.", "instruction": "It is {day?} now."},
        "none": {"include_contents": "none"},
        "planner": {"planner": PlanReActPlanner()},
        "transfer": {"sub_agents": [LlmAgent(name="other", model=model, description="Another one", tools=[look])]},
    }[kind]
    agent = LlmAgent(name="worker", model=model, tools=[look, load_artifacts], **options)
    app = App(name="A", root_agent=agent, plugins=plugins)
    artifacts = InMemoryArtifactService()
    runner = Runner(app=app, session_service=service, artifact_service=artifacts)
    session = await service.create_session(app_name="A", user_id="u", session_id="s", state={"day": "Monday"})
    notes = types.Part(inline_data=types.Blob(mime_type="text/plain", data=b"noted"))
    await artifacts.save_artifact(app_name="A", user_id="u", session_id="s", filename="notes.txt", artifact=notes)
    for said in ([types.Part(text="Look")], [FILE], [types.Part(text=LARGE), PICTURE]):
        message = types.Content(role="user", parts=said)
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass
    found = await service.get_session(app_name="A", user_id="u", session_id="s")
    assert found is not None
    return model.asked, [(event.author, without_chance(event.content)) for event in found.events]


def without_chance(content: types.Content | None) -> Any:
    """ADK gives ids to calls by chance; a model gets none of them."""
    if content is None:
        return None
    data = content.model_dump()
    for part in data["parts"] or []:
        for name in ("function_call", "function_response"):
            if part.get(name):
                part[name]["id"] = None
    return data


@pytest.mark.parametrize("kind", ["static", "none", "planner", "transfer"])
async def test_a_model_is_asked_the_same_with_longhand_and_without(client: aio.Client, kind: str) -> None:
    service = LonghandSessionService(client, namespace=uuid.uuid4().hex)
    without = await run_script(InMemorySessionService(), [], kind)
    ours = await run_script(service, [LonghandViews(service)], kind)
    assert len(ours[0]) == len(without[0])
    for one, other in zip(ours[0], without[0], strict=True):
        assert one == other
    assert ours[1] == without[1]


@pytest.mark.parametrize("kind", ["static", "none", "planner", "transfer"])
async def test_a_view_that_shortens_leaves_the_rest_of_a_request(client: aio.Client, kind: str) -> None:
    without = await run_script(InMemorySessionService(), [], kind)
    # It cuts every output that is longer than 2 000 characters.
    service = LonghandSessionService(client, namespace=uuid.uuid4().hex, preset="opencode@seed")
    ours = await run_script(service, [LonghandViews(service)], kind)
    shortened = 0
    for (contents, system), (wanted, wanted_system) in zip(ours[0], without[0], strict=True):
        assert system == wanted_system
        assert len(contents) == len(wanted)
        for one, other in zip(contents, wanted, strict=True):
            data, plain = without_chance(one), without_chance(other)
            for part, whole in zip(data["parts"], plain["parts"], strict=True):
                if part != whole and part.get("function_response"):
                    shortened += 1
                    part["function_response"]["response"] = whole["function_response"]["response"]
            # Another agent's result is a text to this one.
            texts = [p["text"] for p in data["parts"] if p.get("text") and "returned result" in p["text"]]
            if not texts:
                assert data == plain
    assert (shortened > 0) == (kind != "none")
    assert ours[1] == without[1]


async def test_others_are_in_a_request_and_what_a_summary_covers_is_not(client: aio.Client) -> None:
    service = LonghandSessionService(client, namespace=uuid.uuid4().hex, window=3_000, preset="pi")
    model = Script(
        model="script", replies=[[types.Part(text=f"Reply {n} " + "words " * 150)] for n in range(30)], asked=[]
    )
    agent = LlmAgent(name="worker", model=model, static_instruction="Never changes.", instruction="Now.")
    app = App(name="A", root_agent=agent, plugins=[LonghandViews(service)])
    runner = Runner(app=app, session_service=service)
    await service.create_session(app_name="A", user_id="u", session_id="s")
    under = service.longhand("A", "u", "s")
    for turn in range(20):
        if turn == 1:
            await under.append(longhand.assistant("I am another agent"), "And I another person")
        message = types.Content(role="user", parts=[types.Part(text=f"Question {turn} " + "words " * 150)])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
    texts = [[part.text or "" for content in asked for part in content.parts] for asked, _ in model.asked]
    assert any("I am another agent" in text for text in texts[1])
    assert any("And I another person" in text for text in texts[1])
    # The instruction that belongs to the request is before the newest question in every one.
    for turn, asked in enumerate(texts):
        assert turn == 1 or "Now." in asked[-2]
        assert asked[-1].startswith(f"Question {turn} ")
    assert not any("Question 0 " in text[:12] for text in texts[-1])
    # The history has 42 by then; how soon a part is covered is the matter of the daemon.
    assert max(map(len, texts)) < 36


def test_what_is_added_to_a_request_stays_at_its_place() -> None:
    def contents(words: str) -> list[types.Content]:
        return [types.Content(role="user", parts=[types.Part(text=word)]) for word in words.split()]

    made = replaced(contents("a x b c y"), contents("a b c"), contents("S c"))
    assert made == contents("x S c y") or made == contents("S x c y")
    assert replaced(contents("a b"), contents("a z"), contents("S")) is None
    assert replaced(contents("a b c"), contents("a b c"), contents("a o b c")) == contents("a o b c")
