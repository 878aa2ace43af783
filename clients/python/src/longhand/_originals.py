"""The objects of a framework beside the parts that are made of them, so that they come back equal; for the adapters.

An object is JSON in its message's metadata, without what the message's parts have already: their texts, their bytes and
the inputs of calls. So nothing is stored twice, a part that a view shortens is shortened in the object too, and an
erased part leaves nothing behind. What is larger than metadata may be is in further parts of the same message, which no
view shows and no policy counts.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from longhand import parts, v1

__all__ = ["Original", "Restored", "decode", "encode", "pieced_messages", "restored", "stored_original"]

#: The largest metadata of a message, in bytes; the daemon takes 256 KiB.
_METADATA_BYTES = 240 * 1024
#: Characters of one further part: escaped and in UTF-8 they are less than its metadata may have.
_PIECE_CHARACTERS = 40_000
#: What names a value that JSON has no word for.
_TAG = "$longhand"

#: How an object has what a part has: its text, the value that its JSON is, its bytes.
_FORMS = ("text", "json", "base64", "base64url", "address", "uri")

Path: TypeAlias = Sequence["str | int"]


class Original:
    """An object as JSON, and the parts that are made of it. The JSON is changed."""

    def __init__(self, data: Any) -> None:
        self.parts: list[v1.Part] = []
        self._data = data
        self._places: list[list[Any]] = []

    def add(self, part: v1.Part, *path: str | int) -> v1.Part:
        """Adds a part; what the JSON has of it at a path is taken out. An empty text stays, as no view has it."""
        if (part.HasField("text") and not part.text.text) or (part.HasField("reasoning") and not part.reasoning.text):
            return part
        part.client_id = str(len(self.parts))
        self.parts.append(part)
        if path:
            self.place(part, path)
        return part

    def place(self, part: v1.Part, path: Path, attachment: int | None = None) -> None:
        """Takes out what the JSON has at a path, if the part says the same."""
        owner = _at(self._data, path[:-1])
        value = owner[path[-1]]
        for form in _FORMS:
            found, same = _content(part, form, attachment)
            # JSON tells neither 1 from 1.0 nor from True, and Python compares them as equal.
            if found and _exactly(same, value):
                owner[path[-1]] = None
                place: list[Any] = [list(path), part.client_id, form]
                self._places.append(place if attachment is None else [*place, attachment])
                return

    def place_span(self, part: v1.Part, path: Path, start: int) -> int:
        """Takes out a text that a part has from this character on; the answer is where it ends."""
        owner = _at(self._data, path[:-1])
        value: str = owner[path[-1]]
        end = start + len(value)
        form = f"span:{start}:{end}"
        if value and _content(part, form) == (True, value):
            owner[path[-1]] = None
            self._places.append([list(path), part.client_id, form])
        return end

    def metadata(self, name: str, **more: Any) -> str:
        """The message's metadata, with the object under this name. Adds further parts if it is too large."""
        own = {"data": self._data, "places": self._places} if self._places else {"data": self._data}
        text = json.dumps({name: own, **more}, ensure_ascii=False, separators=(",", ":"))
        if len(text.encode(errors="surrogatepass")) <= _METADATA_BYTES:
            return text
        whole = json.dumps(own, ensure_ascii=False, separators=(",", ":"))
        count = 0
        for start in range(0, len(whole), _PIECE_CHARACTERS):
            piece = json.dumps(whole[start : start + _PIECE_CHARACTERS], ensure_ascii=False)
            marker = v1.MarkerPart(name=f"{name}.original")
            self.parts.append(v1.Part(marker=marker, metadata_json=piece, client_id=f"original:{count}"))
            count += 1
        return parts.as_json({name: {"pieces": count}, **more})


@dataclass
class Restored:
    """An object as the view shows it."""

    #: The JSON.
    data: Any
    #: The ids of parts that the view shortened.
    shortened: set[str] = field(default_factory=set)
    #: The paths of what the view does not have.
    missing: list[list[str | int]] = field(default_factory=list)

    def without_missing(self) -> Any:
        """The JSON without elements of lists that the view has nothing of; elsewhere an empty text is in the place."""
        gone: set[tuple[str | int, ...]] = set()
        for path in self.missing:
            ends = [end for end in range(len(path), 0, -1) if isinstance(path[end - 1], int)]
            if ends:
                gone.add(tuple(path[: ends[0]]))
            else:
                _at(self.data, path[:-1])[path[-1]] = ""
        for element in sorted(gone, key=_order, reverse=True):
            del _at(self.data, element[:-1])[element[-1]]
        return self.data


def pieced_messages(name: str, messages: Iterable[v1.ViewMessage]) -> list[str]:
    """The ids of messages of a view whose objects are in further parts, which only the stored message has."""
    return [m.message_id for m in messages if m.message_id and "pieces" in _own(name, m.metadata_json)]


def restored(name: str, message: v1.ViewMessage, originals: Mapping[str, v1.Message] | None = None) -> Restored | None:
    """The object of a message of a view, as far as the view shows it; None if there is none, or it is not given."""
    stored = (originals or {}).get(message.message_id)
    further = () if stored is None else stored.parts
    shown = {view_part.part.client_id: (view_part.part, bool(view_part.shortening)) for view_part in message.parts}
    return _restored(_own(name, message.metadata_json), shown, further)


def stored_original(name: str, message: v1.Message) -> Restored | None:
    """The object of a stored message; None if there is none."""
    shown = {part.client_id: (part, False) for part in message.parts if not part.erased}
    return _restored(_own(name, message.metadata_json), shown, message.parts)


def _restored(
    own: dict[str, Any], shown: Mapping[str, tuple[v1.Part, bool]], further: Iterable[v1.Part]
) -> Restored | None:
    if "pieces" in own:
        found = {part.client_id: part for part in further}
        pieces = [found.get(f"original:{number}") for number in range(own["pieces"])]
        texts = [json.loads(piece.metadata_json) for piece in pieces if piece is not None and piece.metadata_json]
        if len(texts) != len(pieces):
            return None
        own = json.loads("".join(texts))
    if "data" not in own:
        return None
    made = Restored(own["data"], {id for id, (_, is_short) in shown.items() if is_short})
    for path, id, form, *attachment in own.get("places", ()):
        part, is_short = shown.get(id, (None, False))
        there, value = (False, None) if part is None else _content(part, form, *attachment)
        if part is not None and is_short:
            if part.HasField("reasoning"):
                # A provider has signed all of it.
                there = False
            elif form.startswith("span:") or (not there and not attachment):
                there, value = _shortened(part)
        if there:
            _at(made.data, path[:-1])[path[-1]] = value
        else:
            made.missing.append(path)
    return made


def encode(value: Any) -> Any:
    """A value of Python as JSON; what has no form here becomes None."""
    if value is None or isinstance(value, (bool, int)) or type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if isinstance(value, (bytes, bytearray)):
        return {_TAG: "bytes", "value": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {_TAG: "datetime", "value": value.isoformat()}
    if isinstance(value, tuple):
        return {_TAG: "tuple", "value": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        if all(type(key) is str for key in value) and _TAG not in value:
            return {key: encode(item) for key, item in value.items()}
        return {_TAG: "dict", "value": [[encode(key), encode(item)] for key, item in value.items()]}
    return None


def decode(value: Any) -> Any:
    """What `encode` made JSON of."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decode(item) for key, item in value.items()}
    kind, inner = value[_TAG], value["value"]
    if kind == "float":
        return float(inner)
    if kind == "bytes":
        return base64.b64decode(inner)
    if kind == "datetime":
        return datetime.fromisoformat(inner)
    if kind == "tuple":
        return tuple(decode(item) for item in inner)
    return {decode(key): decode(item) for key, item in inner}


def _own(name: str, metadata_json: str) -> dict[str, Any]:
    if f'"{name}"' not in metadata_json:
        return {}
    metadata = json.loads(metadata_json)
    own = metadata.get(name) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}


def _order(path: Path) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _content(part: v1.Part, form: str, attachment: int | None = None) -> tuple[bool, Any]:
    """What a part says in a form, and whether it has that form."""
    kind = part.WhichOneof("body")
    if form.startswith("span:"):
        start, end = map(int, form.split(":")[1:])
        found, text = _text(part)
        return found, text[start:end]
    if form not in ("text", "json"):
        media = part.media if kind == "media" else None
        if kind == "tool_result" and attachment is not None and attachment < len(part.tool_result.attachments):
            media = part.tool_result.attachments[attachment]
        if media is None or media.WhichOneof("source") != ("uri" if form == "uri" else "data"):
            return False, None
        if form == "uri":
            return True, media.uri
        data = base64.urlsafe_b64encode(media.data) if form == "base64url" else base64.b64encode(media.data)
        return True, f"data:{media.mime_type};base64,{data.decode()}" if form == "address" else data.decode()
    if attachment is not None:
        return False, None
    found, text = _text(part)
    if form == "text" or not found:
        return found, text
    if kind not in ("tool_call", "tool_result"):
        return False, None
    try:
        return True, json.loads(text)
    except ValueError:
        return False, None


def _text(part: v1.Part) -> tuple[bool, str]:
    kind = part.WhichOneof("body")
    if kind == "text":
        return True, part.text.text
    if kind == "reasoning":
        return True, part.reasoning.text
    if kind == "tool_call":
        return True, part.tool_call.input_json
    if kind == "tool_result":
        return True, part.tool_result.output
    return False, ""


def _shortened(part: v1.Part) -> tuple[bool, Any]:
    """What stands for a content that is no JSON any more: the input of a call is an object, everything else a text."""
    if part.HasField("tool_call"):
        return True, {"input": part.tool_call.input_json}
    if part.HasField("tool_result"):
        return True, part.tool_result.output
    return False, None


def _exactly(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_exactly(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_exactly, one, other))
    return bool(one == other)
