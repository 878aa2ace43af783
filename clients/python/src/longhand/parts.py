"""Messages and parts in few words. Every function makes a plain message of the protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

import grpc

from longhand import v1
from longhand.errors import InvalidText

__all__ = [
    "Content",
    "assistant",
    "checked",
    "media",
    "message",
    "opaque",
    "parts_of",
    "plain_text",
    "reasoning",
    "record",
    "system",
    "text",
    "tool",
    "tool_call",
    "tool_result",
    "usage",
    "user",
]

#: A text, a part, or several of both.
Content: TypeAlias = str | v1.Part | Sequence[str | v1.Part]


def as_json(value: object) -> str:
    """JSON as it was given, if it is text already; else as compact JSON."""
    return checked(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def optional_json(value: object) -> str | None:
    """JSON, where None is no value."""
    return None if value is None else as_json(value)


def checked(value: str) -> str:
    """The text; raises `InvalidText` for one that cannot be sent."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(
            f"half of a surrogate pair at character {error.start}",
            reason="INVALID_FIELD",
            code=grpc.StatusCode.INVALID_ARGUMENT,
        ) from None
    return value


def text(value: str, *, client_id: str | None = None, metadata: object = None) -> v1.Part:
    """A text."""
    return _with(v1.Part(text=v1.TextPart(text=checked(value)), client_id=client_id), metadata)


def reasoning(value: str, *, client_id: str | None = None, metadata: object = None) -> v1.Part:
    """Reasoning of a model."""
    return _with(v1.Part(reasoning=v1.ReasoningPart(text=checked(value)), client_id=client_id), metadata)


def tool_call(
    call_id: str, tool: str, arguments: object, *, client_id: str | None = None, metadata: object = None
) -> v1.Part:
    """A call of a tool. Text in `arguments` is the input as the model wrote it; everything else becomes JSON."""
    call = v1.ToolCallPart(call_id=checked(call_id), tool=checked(tool), input_json=as_json(arguments))
    return _with(v1.Part(tool_call=call, client_id=client_id), metadata)


def tool_result(
    call_id: str,
    output: str,
    *,
    status: v1.ToolResultStatus.ValueType = v1.TOOL_RESULT_STATUS_COMPLETED,
    attachments: Sequence[v1.MediaPart | v1.Part] = (),
    call_message_id: str | None = None,
    client_id: str | None = None,
    metadata: object = None,
) -> v1.Part:
    """The result of a call; `attachments` are media that came with it, as `media` makes them."""
    result = v1.ToolResultPart(
        call_id=checked(call_id),
        output=checked(output),
        status=status,
        attachments=[one.media if isinstance(one, v1.Part) else one for one in attachments],
        call_message_id=call_message_id,
    )
    return _with(v1.Part(tool_result=result, client_id=client_id), metadata)


def opaque(provider: str, kind: str, data: bytes, *, client_id: str | None = None, metadata: object = None) -> v1.Part:
    """A block that its provider gets back byte for byte."""
    return _with(v1.Part(opaque=v1.OpaquePart(provider=provider, kind=kind, data=data), client_id=client_id), metadata)


def media(
    mime_type: str,
    source: bytes | str,
    *,
    name: str = "",
    client_id: str | None = None,
    metadata: object = None,
) -> v1.Part:
    """An image, a document or a sound: its bytes, or the address where it is, which the daemon never opens."""
    if isinstance(source, str):
        made = v1.MediaPart(mime_type=mime_type, name=name, uri=source)
    else:
        made = v1.MediaPart(mime_type=mime_type, name=name, data=source)
    return _with(v1.Part(media=made, client_id=client_id), metadata)


def usage(
    input_tokens: int = 0,
    output_tokens: int = 0,
    *,
    reasoning_tokens: int = 0,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    total_tokens: int | None = None,
) -> v1.Usage:
    """The usage of a reply: a token is in one count only."""
    return v1.Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=reasoning_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_write_tokens,
        total_tokens=total_tokens,
    )


def message(
    role: v1.Role.ValueType,
    content: Content,
    *,
    client_id: str | None = None,
    metadata: object = None,
    model: str = "",
    provider: str = "",
    finish: v1.Finish | None = None,
) -> v1.NewMessage:
    """A message to append."""
    return v1.NewMessage(
        role=role,
        parts=parts_of(content),
        client_id=client_id,
        metadata_json=None if metadata is None else as_json(metadata),
        model=model,
        provider=provider,
        finish=finish,
    )


def user(
    content: Content,
    *,
    client_id: str | None = None,
    metadata: object = None,
    model: str = "",
    provider: str = "",
    finish: v1.Finish | None = None,
) -> v1.NewMessage:
    """A user's message."""
    return message(
        v1.ROLE_USER,
        content,
        client_id=client_id,
        metadata=metadata,
        model=model,
        provider=provider,
        finish=finish,
    )


def system(
    content: Content,
    *,
    client_id: str | None = None,
    metadata: object = None,
    model: str = "",
    provider: str = "",
    finish: v1.Finish | None = None,
) -> v1.NewMessage:
    """Instructions to the model."""
    return message(
        v1.ROLE_SYSTEM,
        content,
        client_id=client_id,
        metadata=metadata,
        model=model,
        provider=provider,
        finish=finish,
    )


def tool(
    content: Content,
    *,
    client_id: str | None = None,
    metadata: object = None,
    model: str = "",
    provider: str = "",
    finish: v1.Finish | None = None,
) -> v1.NewMessage:
    """The results of tools."""
    return message(
        v1.ROLE_TOOL,
        content,
        client_id=client_id,
        metadata=metadata,
        model=model,
        provider=provider,
        finish=finish,
    )


def assistant(
    content: Content,
    *,
    view_token: str | None = None,
    usage: v1.Usage | None = None,
    reason: v1.FinishReason.ValueType | None = None,
    client_id: str | None = None,
    metadata: object = None,
    model: str = "",
    provider: str = "",
) -> v1.NewMessage:
    """A model's reply. `view_token` names the view that it answers, which makes its usage count.

    The reason is that it waits for tools if it calls some, else that it has ended.
    """
    parts = parts_of(content)
    if reason is None:
        calls = any(part.HasField("tool_call") for part in parts)
        reason = v1.FINISH_REASON_TOOL_CALLS if calls else v1.FINISH_REASON_STOP
    finish = v1.Finish(reason=reason, usage=usage, view_token=view_token)
    return message(
        v1.ROLE_ASSISTANT,
        parts,
        finish=finish,
        client_id=client_id,
        metadata=metadata,
        model=model,
        provider=provider,
    )


def record(kind: str, data: str, *, client_id: str | None = None, replace: bool = False) -> v1.NewMessage:
    """An entry that no view shows. With `replace` it is a newer version of the record with its client id."""
    part = v1.Part(record=v1.RecordPart(kind=kind, data=checked(data)))
    return v1.NewMessage(
        role=v1.ROLE_USER,
        kind=v1.MESSAGE_KIND_RECORD,
        parts=[part],
        client_id=client_id,
        replace_existing=replace,
    )


def parts_of(content: Content) -> list[v1.Part]:
    """The parts of a content."""
    several: Sequence[str | v1.Part] = [content] if isinstance(content, (str, v1.Part)) else content
    return [text(part) if isinstance(part, str) else part for part in several]


def plain_text(message: v1.ViewMessage | v1.Message) -> str:
    """The texts of a message, without its other parts."""
    if isinstance(message, v1.Message):
        return "".join(part.text.text for part in message.parts)
    return "".join(shown.part.text.text for shown in message.parts)


def _with(part: v1.Part, metadata: object) -> v1.Part:
    if metadata is not None:
        part.metadata_json = as_json(metadata)
    return part
