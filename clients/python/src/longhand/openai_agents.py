"""A `Session` of the OpenAI Agents SDK: the agents' memory is a Longhand session, which others can share.

`Runner.run(agent, "Hello", session=LonghandSession("tidewater", client=await longhand.aio.connect()))`

Items are kept as typed messages, so that views, compactions and other agents see texts, calls and results; what the
types have no place for is in the messages' metadata, and an item comes back equal. Blocks that only the provider reads
are kept byte for byte. `get_items` is the view: after a compaction the SDK gets a summary and what follows, which is a
shorter list to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from longhand import aio, parts, v1
from longhand.errors import Error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import SessionSettings

__all__ = ["LonghandSession", "item_messages", "items_of"]

#: Who gets the opaque blocks back, and where an item's other fields are.
_PROVIDER = "openai"
_ROLES = {
    "user": v1.ROLE_USER,
    "assistant": v1.ROLE_ASSISTANT,
    "system": v1.ROLE_SYSTEM,
    "developer": v1.ROLE_SYSTEM,
}
#: Pieces of a content that are text.
_TEXTS = ("input_text", "output_text", "text")
#: The largest metadata of a message, in bytes.
_METADATA_BYTES = 256 * 1024
#: Views are read again when the session changed between a read and a rewind.
_ATTEMPTS = 16


class LonghandSession:
    """A session by its client id, made when it is first used. `window` is that of the agents' model, in tokens."""

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        *,
        client: aio.Client,
        window: int | str | v1.ModelWindow | None = None,
        preset: str = "",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._client = client
        self._window = window
        self._preset = preset
        self._session: aio.Session | None = None

    async def longhand(self) -> aio.Session:
        """The session, for everything that the SDK has no word for."""
        if self._session is None:
            self._session = await self._client.open_session(
                self.session_id, window=self._window, preset=self._preset, metadata={"agent": "openai-agents"}
            )
        return self._session

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items that the model should see, oldest first; with a limit the latest ones."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit == 0:
            return []
        view = await (await self.longhand()).view()
        items = [item for message in in_written_order(view.messages) for item in items_of(message)]
        return cast("list[TResponseInputItem]", items if limit is None or limit < 0 else items[-limit:])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items, all or none."""
        if items:
            await (await self.longhand()).append(*item_messages(cast("Sequence[Mapping[str, Any]]", items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the newest item out of the conversation; history keeps it."""
        session = await self.longhand()
        for _ in range(_ATTEMPTS):
            view = await session.view()
            messages = in_written_order(view.messages)
            while messages and not items_of(messages[-1]):
                messages.pop()
            if not messages:
                return None
            *rest, item = items_of(messages[-1])
            end = next((message.message_id for message in reversed(messages[:-1]) if message.message_id), aio.START)
            try:
                if rest:
                    # Another agent's message with several items in it.
                    revision = view.header.revision
                    await session.append(*item_messages(rest), rewind_to=end, expected_revision=revision)
                else:
                    await session.rewind(end, expected_revision=view.header.revision)
            except Error as error:
                if error.reason != "REVISION_MISMATCH":
                    raise
                continue
            return cast("TResponseInputItem", item)
        raise Error("other writers change the session all the time", reason="REVISION_MISMATCH")

    async def clear_session(self) -> None:
        """Empties the conversation; history keeps it. `erase` of the session deletes for good."""
        await (await self.longhand()).rewind(aio.START)


def in_written_order(messages: Sequence[v1.ContextMessage]) -> list[v1.ContextMessage]:
    """The messages of a view as they were written.

    A view has a result directly after its call; the SDK wants the order in which it added them. What Longhand wrote, a
    summary above all, stays where the view has it. A result that the view adds for a call without one is left out: the
    SDK may still be about to add it. So is a user's message that it adds before a reply at its begin: this provider
    has no need of one.
    """
    added = {v1.CONTEXT_MESSAGE_KIND_MISSING_RESULT}
    if not any(message.kind == v1.CONTEXT_MESSAGE_KIND_SUMMARY for message in messages):
        added.add(v1.CONTEXT_MESSAGE_KIND_POLICY_TEXT)
    messages = [message for message in messages if message.kind not in added]
    shown = iter(sorted((m for m in messages if _is_shown(m)), key=lambda message: message.revision))
    return [next(shown) if _is_shown(message) else message for message in messages]


def item_messages(items: Sequence[Mapping[str, Any]]) -> list[v1.NewMessage]:
    """One message for each item."""
    return [_message(dict(item)) for item in items]


def items_of(message: v1.ContextMessage) -> list[dict[str, Any]]:
    """The items that a message of a view is to the model: that which it was made from, or those that say the same."""
    shown = [context.part for context in message.parts]
    item = _restored(message, shown) if _is_shown(message) else None
    if item is not None:
        return [item]
    role = {v1.ROLE_ASSISTANT: "assistant", v1.ROLE_SYSTEM: "system"}.get(message.role, "user")
    items: list[dict[str, Any]] = []
    for part in shown:
        kind = part.WhichOneof("body")
        if kind == "text" or kind == "marker":
            text = part.text.text or part.marker.text
            if items and items[-1].get("role") == role:
                items[-1]["content"] += text
            elif text:
                items.append({"role": role, "content": text})
        elif kind == "tool_call":
            call = part.tool_call
            arguments = call.input_json
            items.append({"type": "function_call", "call_id": call.call_id, "name": call.tool, "arguments": arguments})
        elif kind == "tool_result":
            result = part.tool_result
            items.append({"type": "function_call_output", "call_id": result.call_id, "output": result.output})
        elif kind == "opaque" and part.opaque.provider == _PROVIDER:
            items.append(json.loads(part.opaque.data))
        elif kind == "media":
            items.append({"role": "user", "content": [_image(part.media)]})
    return items


def _is_shown(message: v1.ContextMessage) -> bool:
    return message.kind == v1.CONTEXT_MESSAGE_KIND_SHOWN


def _message(item: dict[str, Any]) -> v1.NewMessage:
    kind = item.get("type", "message" if "role" in item else None)
    made = None
    if kind == "message" and item.get("role") in _ROLES:
        made = _text_message(item)
    elif kind == "function_call" and _strings(item, "call_id", "name", "arguments") and item["call_id"]:
        rest = _without(item, "call_id", "name", "arguments")
        call = parts.tool_call(item["call_id"], item["name"], item["arguments"])
        made = parts.message(v1.ROLE_ASSISTANT, call, metadata={_PROVIDER: rest})
    elif kind == "function_call_output" and _strings(item, "call_id", "output") and item["call_id"]:
        result = parts.tool_result(item["call_id"], item["output"])
        made = parts.message(v1.ROLE_TOOL, result, metadata={_PROVIDER: _without(item, "call_id", "output")})
    if made is not None and len(made.metadata_json.encode()) <= _METADATA_BYTES:
        if made.role == v1.ROLE_ASSISTANT:
            calls = kind == "function_call"
            made.finish.reason = v1.FINISH_REASON_TOOL_CALLS if calls else v1.FINISH_REASON_STOP
        return made
    # Whatever the types have no place for: a block that the provider gets back as it was.
    role = _ROLES.get(str(item.get("role")), v1.ROLE_ASSISTANT)
    if kind is not None and str(kind).endswith("_output"):
        role = v1.ROLE_TOOL
    data = json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()
    return parts.message(role, parts.opaque(_PROVIDER, str(kind or "item")[:128], data))


def _text_message(item: dict[str, Any]) -> v1.NewMessage | None:
    """A message of texts; None for one that has anything else, or nothing to show."""
    content = item.get("content")
    rest = _without(item, "content")
    if isinstance(content, str):
        if not content:
            return None
        return parts.message(_ROLES[item["role"]], content, metadata={_PROVIDER: rest})
    if not isinstance(content, list) or not content:
        return None
    pieces: list[dict[str, Any]] = []
    for piece in content:
        if not isinstance(piece, dict) or piece.get("type") not in _TEXTS or not _strings(piece, "text"):
            return None
        if not piece["text"]:
            return None
        pieces.append(_without(piece, "text"))
    texts: list[str | v1.Part] = [piece["text"] for piece in content]
    return parts.message(_ROLES[item["role"]], texts, metadata={_PROVIDER: rest, "content": pieces})


def _restored(message: v1.ContextMessage, shown: Sequence[v1.Part]) -> dict[str, Any] | None:
    """The item that a message was made from, with the texts that the view has; None if no item was."""
    first = shown[0] if shown else v1.Part()
    kind = first.WhichOneof("body")
    if kind == "opaque" and first.opaque.provider == _PROVIDER and len(shown) == 1:
        block: dict[str, Any] = json.loads(first.opaque.data)
        return block
    metadata = json.loads(message.metadata_json) if message.metadata_json else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(_PROVIDER), dict):
        return None
    item = dict(metadata[_PROVIDER])
    if kind == "tool_call":
        call = first.tool_call
        return {**item, "call_id": call.call_id, "name": call.tool, "arguments": call.input_json}
    if kind == "tool_result":
        return {**item, "call_id": first.tool_result.call_id, "output": first.tool_result.output}
    texts = [part.text.text for part in shown if part.HasField("text")]
    # A result whose call is not in the view any more is a text there.
    if len(texts) != len(shown) or item.get("type", "message") != "message":
        return None
    pieces = metadata.get("content")
    if pieces is None:
        return {**item, "content": "".join(texts)}
    if len(pieces) != len(texts):
        return None
    return {**item, "content": [{**piece, "text": text} for piece, text in zip(pieces, texts, strict=True)]}


def _image(media: v1.MediaPart) -> dict[str, Any]:
    import base64

    url = media.uri or f"data:{media.mime_type};base64,{base64.b64encode(media.data).decode()}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _strings(item: dict[str, Any], *names: str) -> bool:
    return all(isinstance(item.get(name), str) for name in names)


def _without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}
