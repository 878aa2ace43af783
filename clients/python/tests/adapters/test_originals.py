"""What adapters store beside the parts of a message has nothing of what the parts have: an erased part is gone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from longhand import v1
from longhand._originals import decode, encode

SECRET = "tidewater-secret"
PICTURE = SECRET.encode() * 9
ENCODED = base64.b64encode(PICTURE).decode()


def has_secret(new: v1.NewMessage) -> bool:
    parts = [part for part in new.parts if not part.marker.name]
    assert any(SECRET.encode() in part.SerializeToString() for part in parts)
    return SECRET in new.metadata_json or ENCODED[:40] in new.metadata_json


def test_langchain() -> None:
    pytest.importorskip("langchain")
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from longhand.langgraph import _new_message

    image = {"type": "image", "base64": ENCODED, "mime_type": "image/png"}
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}}
    several: Any = ["a", {"type": "text", "text": SECRET}, {"type": "text", "text": SECRET}, image, url]
    call = {"id": "c", "name": "look", "args": {"what": SECRET}}
    for message in (
        HumanMessage(SECRET),
        HumanMessage(several),
        AIMessage([{"type": "thinking", "thinking": SECRET, "signature": "s"}], tool_calls=[call]),
        ToolMessage(SECRET, tool_call_id="c"),
        ToolMessage(several, tool_call_id="c"),
    ):
        assert not has_secret(_new_message(message))


def test_pydantic_ai() -> None:
    pytest.importorskip("pydantic_ai.conversation_store")
    from pydantic_ai import BinaryContent
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

    from longhand.pydantic_ai import _new_message

    binary = BinaryContent(PICTURE, media_type="image/png", identifier="i")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(SECRET), UserPromptPart(["a", SECRET, binary])]),
        ModelResponse(parts=[ThinkingPart(SECRET), TextPart(SECRET), ToolCallPart("look", {"what": SECRET}, "c")]),
        ModelRequest(parts=[ToolReturnPart("look", {"seen": SECRET}, "c"), ToolReturnPart("look", SECRET, "d")]),
        ModelRequest(parts=[ToolReturnPart("look", [SECRET, binary, SECRET, 3], "c")]),
    ]
    for message in messages:
        assert not has_secret(_new_message(message))


def test_adk() -> None:
    pytest.importorskip("google.adk")
    from google.adk.events.event import Event
    from google.genai import types

    from longhand.adk import _message

    for part in (
        types.Part(text=SECRET),
        types.Part(text=SECRET, thought=True),
        types.Part(function_call=types.FunctionCall(id="c", name="look", args={"what": SECRET})),
        types.Part(function_response=types.FunctionResponse(id="c", name="look", response={"seen": SECRET})),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=PICTURE)),
        types.Part(file_data=types.FileData(mime_type="image/png", file_uri=f"gs://{SECRET}")),
    ):
        content = types.Content(role="user", parts=[part])
        assert not has_secret(_message(Event(author="agent", invocation_id="i", content=content)))


def test_openai_agents() -> None:
    pytest.importorskip("agents")
    from longhand.openai_agents import item_messages

    text = {"type": "input_text", "text": SECRET}
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}", "detail": "auto"}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": SECRET},
        {"role": "user", "content": [text, image]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": SECRET},
        {"type": "function_call_output", "call_id": "c", "output": [text, image, text]},
    ]
    assert not any(map(has_secret, item_messages(items)))


def test_values_of_python_come_back() -> None:
    value = {"a": (1, 1.0, True, None, float("inf"), b"\\0", [{}]), 3: "x", "$longhand": {"$longhand": 1}}
    again = decode(encode(value))
    assert again == value
    assert [type(one) for one in again["a"]] == [type(one) for one in value["a"]]  # type: ignore[attr-defined]
    assert decode(encode({"x": object()})) == {"x": None}
