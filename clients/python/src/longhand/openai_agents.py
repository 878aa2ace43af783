"""A `Session` of the OpenAI Agents SDK: the agents' memory is a Longhand session, which others can share.

`Runner.run(agent, "Hello", session=LonghandSession("tidewater", client=await longhand.aio.connect()))`

Items are kept as typed messages, so that views, compactions and other agents see texts, pictures, calls and results;
what the types have no place for is beside them, and an item comes back equal, but for what the session's policy
shortens. Blocks that only the provider reads are kept as they are. `get_items` is the view: after a compaction the SDK
gets a summary and what follows, which is a shorter list to it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from longhand import aio, parts, v1
from longhand._originals import Original, pieced_messages, restored
from longhand.errors import Error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import SessionSettings

__all__ = ["LonghandSession", "item_messages", "items_of"]

#: Where what else an item has is, and who gets the opaque blocks back.
_NAME, _PROVIDER = "openai_agents", "openai"
_ROLES = {
    "user": v1.ROLE_USER,
    "assistant": v1.ROLE_ASSISTANT,
    "system": v1.ROLE_SYSTEM,
    "developer": v1.ROLE_SYSTEM,
}
#: Pieces of a content that are text.
_TEXTS = ("input_text", "output_text", "text")
#: Views are read again when the session changed between a read and a rewind.
_ATTEMPTS = 16
#: How many large originals are kept.
_ORIGINALS = 32


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
        self._originals: OrderedDict[str, v1.Message] = OrderedDict()

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
        session = await self.longhand()
        messages = in_written_order((await session.view()).messages)
        if limit is not None and limit > 0:
            # A message without an item is rare, and one of others can have several.
            messages = messages[-max(2 * limit, limit + 16) :]
        originals = await self._stored(session, pieced_messages(_NAME, messages))
        items = [item for message in messages for item in items_of(message, originals)]
        return cast("list[TResponseInputItem]", items if limit is None or limit < 0 else items[-limit:])

    async def _stored(self, session: aio.Session, ids: Sequence[str]) -> Mapping[str, v1.Message]:
        """The stored messages of large originals; some are kept, as they never change."""
        for message in await session.get_messages([id for id in ids if id not in self._originals]):
            self._originals[message.message_id] = message
        found = {id: self._originals[id] for id in ids}
        while len(self._originals) > _ORIGINALS:
            self._originals.popitem(last=False)
        return found

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
            *rest, item = items_of(messages[-1], await self._stored(session, pieced_messages(_NAME, messages[-1:])))
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


def in_written_order(messages: Sequence[v1.ViewMessage]) -> list[v1.ViewMessage]:
    """The messages of a view as they were written.

    A view has a result directly after its call; the SDK wants the order in which it added them. What Longhand wrote, a
    summary above all, stays where the view has it. A result that the view adds for a call without one is left out: the
    SDK may still be about to add it. So is a user's message that it adds before a reply at its begin: this provider
    has no need of one.
    """
    added = {v1.VIEW_MESSAGE_KIND_MISSING_RESULT}
    if not any(message.kind == v1.VIEW_MESSAGE_KIND_SUMMARY for message in messages):
        added.add(v1.VIEW_MESSAGE_KIND_POLICY_TEXT)
    messages = [message for message in messages if message.kind not in added]
    shown = iter(sorted((m for m in messages if _is_shown(m)), key=lambda message: message.revision))
    return [next(shown) if _is_shown(message) else message for message in messages]


def item_messages(items: Sequence[Mapping[str, Any]]) -> list[v1.NewMessage]:
    """One message for each item."""
    return [_message(dict(item)) for item in items]


def items_of(message: v1.ViewMessage, originals: Mapping[str, v1.Message] | None = None) -> list[dict[str, Any]]:
    """The items that a message of a view is to the model: that which it was made from, or those that say the same.

    `originals` are stored messages by their ids, for those whose originals are too large for a view.
    """
    shown = [view_part.part for view_part in message.parts]
    item = _item(message, shown, originals) if _is_shown(message) else None
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


def _is_shown(message: v1.ViewMessage) -> bool:
    return message.kind == v1.VIEW_MESSAGE_KIND_SHOWN


def _message(item: dict[str, Any]) -> v1.NewMessage:
    kind = item.get("type", "message" if "role" in item else None)
    # A copy in which nothing is there twice, as one object may be in an item.
    original = Original(json.loads(json.dumps(item)))
    role = _ROLES.get(str(item.get("role")), v1.ROLE_ASSISTANT)
    if kind == "message" and item.get("role") in _ROLES:
        _add_content(original, item.get("content"))
    elif kind == "function_call" and _strings(item, "call_id", "name", "arguments") and item["call_id"]:
        call = parts.tool_call(item["call_id"], item["name"] or "tool", item["arguments"])
        original.add(call, "arguments")
    elif kind is not None and str(kind).endswith("_output"):
        role = v1.ROLE_TOOL
        if kind == "function_call_output" and _strings(item, "call_id") and item["call_id"]:
            _add_output(original, item["call_id"], item.get("output"))
    if original.parts:
        metadata = original.metadata(_NAME)
        made = parts.message(role, [*original.parts], metadata=metadata)
        if role == v1.ROLE_ASSISTANT:
            calls = kind == "function_call"
            made.finish.reason = v1.FINISH_REASON_TOOL_CALLS if calls else v1.FINISH_REASON_STOP
        return made
    # Whatever the types have no place for: a block that the provider gets back as it was.
    data = json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()
    return parts.message(role, parts.opaque(_PROVIDER, str(kind or "item")[:128], data))


def _add_content(original: Original, content: object) -> None:
    if isinstance(content, str):
        original.add(parts.text(content), "content")
        return
    for number, piece in enumerate(content if isinstance(content, list) else []):
        if not isinstance(piece, dict):
            continue
        if piece.get("type") in _TEXTS and _strings(piece, "text"):
            original.add(parts.text(piece["text"]), "content", number, "text")
        elif (media := _media(piece)) is not None:
            original.add(v1.Part(media=media[0]), "content", number, media[1])


def _add_output(original: Original, call_id: str, output: object) -> None:
    if isinstance(output, str):
        original.add(parts.tool_result(call_id, output), "output")
        return
    if not isinstance(output, list) or not all(isinstance(piece, dict) for piece in output):
        return
    texts = [piece["text"] for piece in output if piece.get("type") in _TEXTS and _strings(piece, "text")]
    result = original.add(parts.tool_result(call_id, "\n".join(texts)))
    end = 0
    for number, piece in enumerate(output):
        if piece.get("type") in _TEXTS and _strings(piece, "text"):
            # With the line's end between two of them.
            end = original.place_span(result, ["output", number, "text"], end) + 1
        elif (media := _media(piece)) is not None:
            result.tool_result.attachments.append(media[0])
            original.place(result, ["output", number, media[1]], len(result.tool_result.attachments) - 1)


def _media(piece: Mapping[str, Any]) -> tuple[v1.MediaPart, str] | None:
    """A picture or a file of a content, and where it is; None for any other piece."""
    name = {"input_image": "image_url", "input_file": "file_data"}.get(str(piece.get("type")))
    address = piece.get(name) if name else None
    if not name or not isinstance(address, str) or not address:
        return None
    if not address.startswith("data:"):
        return (v1.MediaPart(mime_type="image/*", uri=address), name) if name == "image_url" else None
    kind, _, data = address.removeprefix("data:").partition(";base64,")
    try:
        return v1.MediaPart(mime_type=kind or "application/octet-stream", data=b64decode(data, validate=True)), name
    except ValueError:
        return None


def _item(
    message: v1.ViewMessage, shown: Sequence[v1.Part], originals: Mapping[str, v1.Message] | None
) -> dict[str, Any] | None:
    """The item that a message was made from, with what the view has of it; None if no item was."""
    first = shown[0] if shown else v1.Part()
    if first.HasField("opaque") and first.opaque.provider == _PROVIDER and len(shown) == 1:
        block: dict[str, Any] = json.loads(first.opaque.data)
        return block
    original = restored(_NAME, message, originals)
    # A result whose call is not in the view any more is a text there.
    if original is None or first.HasField("tool_result") != (original.data.get("type") == "function_call_output"):
        return None
    output = original.data.get("output")
    if isinstance(output, list) and original.shortened:
        files = [piece for piece in output if piece.get("type") not in _TEXTS]
        kept = files if first.tool_result.attachments else []
        original.data["output"] = [{"type": "input_text", "text": first.tool_result.output}, *kept]
    item: dict[str, Any] = original.without_missing()
    return item


def _image(media: v1.MediaPart) -> dict[str, Any]:
    url = media.uri or f"data:{media.mime_type};base64,{b64encode(media.data).decode()}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _strings(item: dict[str, Any], *names: str) -> bool:
    return all(isinstance(item.get(name), str) for name in names)
