"""Changes that are too large for one request, in several; for the adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from longhand import v1

__all__ = ["batches", "fitting"]

#: Messages of one request, and their bytes; a request has 512 messages and 12 MiB at most.
_MESSAGES, _BYTES = 500, 8 << 20

#: The bytes of one message; the daemon takes 8 MiB, counted otherwise.
_MESSAGE_BYTES = 7 << 20

T = TypeVar("T")


def batches(items: Iterable[T], size: Callable[[T], int]) -> list[list[T]]:
    """The items in order, as many together as fit into one request; `size` says the bytes of one.

    An item that is too large alone is alone, and the daemon's to refuse.
    """
    made: list[list[T]] = []
    room = 0
    for item in items:
        needed = size(item)
        if not made or len(made[-1]) == _MESSAGES or needed > room:
            made.append([])
            room = _BYTES
        made[-1].append(item)
        room -= needed
    return made


def fitting(new: v1.NewMessage) -> v1.NewMessage:
    """The message; of one that is larger than a session takes, a note is in the place of what is so large.

    For adapters whose framework has the message itself, and gives that to its model.
    """
    if new.ByteSize() <= _MESSAGE_BYTES:
        return new
    # What else its object has is for the note to say: it is not stored either.
    kept = [part for part in new.parts if part.marker.text or not part.HasField("marker")]
    new.ClearField("metadata_json")
    room = _MESSAGE_BYTES
    fits: dict[str, v1.Part] = {}
    for part in sorted(kept, key=v1.Part.ByteSize):
        chosen = part if part.ByteSize() <= room // 2 else _noted(part)
        room -= chosen.ByteSize()
        fits[part.client_id] = chosen
    del new.parts[:]
    new.parts.extend(fits[part.client_id] for part in kept)
    return new


def _noted(part: v1.Part) -> v1.Part:
    """A part of the same kind that says what was not stored."""
    noted = v1.Part(client_id=part.client_id)
    note = f"[{part.ByteSize()} bytes, more than a session takes, and not stored]"
    if part.HasField("tool_call"):
        noted.tool_call.CopyFrom(v1.ToolCallPart(call_id=part.tool_call.call_id, tool=part.tool_call.tool))
        noted.tool_call.input_json = f'{{"note":"{note}"}}'
    elif part.HasField("tool_result"):
        result = part.tool_result
        noted.tool_result.CopyFrom(v1.ToolResultPart(call_id=result.call_id, status=result.status, output=note))
    else:
        noted.text.text = note
    return noted
