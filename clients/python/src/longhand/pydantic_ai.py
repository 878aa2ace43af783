"""pydantic-ai on Longhand: a store of conversations, and a capability that serves views.

`Agent(model, capabilities=[LonghandViews(client)])`, `store = LonghandConversationStore(client)`

The store keeps conversations exactly as pydantic-ai has them. An entry is a record with the entry's id, and the newest
version of the conversation's own record is in the session's metadata, so that both change in one commit, by compare and
swap. A fork has copies of its entries: what is deleted is erased for good, and no other conversation loses anything.

The capability is what makes a conversation one that others share and that fits its window: it keeps the messages of a
run in a session, and changes what the model gets by what the session's view shortens, covers or adds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from longhand import aio, parts, v1
from longhand._aio.conversation import Conversation, Item
from longhand._batches import batches
from longhand._merge import Shown, merged
from longhand._originals import Original, pieced_messages, restored
from longhand.errors import Error

__all__ = ["LonghandConversationStore", "LonghandViews", "messages_of_view"]

_RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
#: The largest record that is in the metadata itself, in bytes; a session's metadata has 64 KiB.
_RECORD_BYTES = 48 * 1024


class LonghandConversationStore(ConversationStore):
    """A store over one connection; one session for each conversation.

    `namespace` keeps stores apart that share a daemon.
    """

    def __init__(self, client: aio.Client, *, namespace: str = "") -> None:
        self._client = client
        self._prefix = f"pydantic-ai-{_hash(namespace)[:16]}-"
        #: The session in which an entry was last seen: the interface asks for entries by their ids alone.
        self._sessions: dict[str, str] = {}

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation; None if there is none."""
        info = await self._info(conversation_id)
        return None if info is None else await self._record(info)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, those of a scope if one is given, the last saved first."""
        chosen = v1.SessionFilter(client_id_prefix=self._prefix)
        if scope is not None and len(scope.encode()) < 1000:
            chosen.metadata_terms.append(f"scope={scope}")
        found = [info async for info in self._client.list_sessions(filter=chosen, page_size=1000)]
        records = [await self._record(info) for info in found if info.state == v1.SESSION_STATE_ACTIVE]
        kept = [record for record in records if record is not None and scope in (None, record.scope)]
        kept.sort(key=lambda record: record.updated_at, reverse=True)
        return kept[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Stores a record with its new entries, in one commit if it is the first or follows on the expected one."""
        conflict = ConversationConflict(record.conversation_id)
        info = await self._info(record.conversation_id)
        stored = None if info is None else await self._record(info)
        if (None if stored is None else stored.revision) != expected_revision:
            raise conflict
        entries = list(new_entries)
        if stored is None:
            # A fork: its history is copied, since it must stay when the other conversation is deleted.
            first = entries[0].parent_id if entries else record.head_id
            try:
                entries[:0] = await self.read_history(first)
            except LookupError:
                raise conflict from None
        elif record.head_id is not None and all(entry.id != record.head_id for entry in entries):
            session = self._session(record.conversation_id)
            if await self._entries(session, [record.head_id]) is None:
                raise conflict
        if info is None:
            opened = await self._client.open_session(
                self._session(record.conversation_id).id,
                title=record.conversation_id,
                metadata={"agent": "pydantic-ai"},
            )
            assert opened.info is not None
            info = opened.info
            if await self._record(info) is not None:
                raise conflict
        await self._write(info, record, entries, conflict)

    async def _write(
        self,
        info: v1.Session,
        record: ConversationRecord,
        entries: Sequence[ConversationEntry],
        conflict: ConversationConflict,
    ) -> None:
        session = self._client.session(info.session_id)
        messages = [parts.record("pydantic-ai.entry", _entry_json(entry), client_id=entry.id) for entry in entries]
        text = _RECORDS.dump_json(record).decode()
        metadata: dict[str, Any] = {"agent": "pydantic-ai", "scope": record.scope, "revision": record.revision}
        small = len(text.encode()) <= _RECORD_BYTES
        metadata["record"] = json.loads(text) if small else None
        # Every save changes history, by which others see that it came.
        messages.append(
            parts.record("pydantic-ai.record", "" if small else text, client_id=f"record:{record.revision}")
        )
        revision = info.history_revision
        try:
            *before, last = batches(messages, v1.NewMessage.ByteSize)
            for batch in before:
                revision = (await session.append(*batch, expected_revision=revision)).revision
            await session.append(*last, expected_revision=revision, metadata=metadata)
        except Error as error:
            if error.reason in ("REVISION_MISMATCH", "SESSION_ERASED", "CLIENT_ID_REUSED"):
                raise conflict from None
            raise
        self._sessions.update((entry.id, session.id) for entry in entries)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erases a conversation for good, with its entries; those of forks stay."""
        conflict = ConversationConflict(conversation_id)
        info = await self._info(conversation_id)
        record = None if info is None else await self._record(info)
        if info is None or record is None or record.revision != expected_revision:
            raise conflict
        session = self._client.session(info.session_id)
        try:
            await session.erase("deleted through pydantic-ai", expected_revision=info.history_revision)
        except Error as error:
            if error.reason == "REVISION_MISMATCH":
                raise conflict from None
            raise

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """An entry by its id; raises `LookupError` if no conversation has it."""
        found = None
        if known := self._sessions.get(entry_id):
            found = await self._entries(self._client.session(known), [entry_id])
        if found is None:
            # Another process wrote it, and no index has the ids of entries over all sessions.
            chosen = v1.SessionFilter(client_id_prefix=self._prefix)
            async for info in self._client.list_sessions(filter=chosen, page_size=1000):
                if info.state == v1.SESSION_STATE_ACTIVE:
                    found = await self._entries(self._client.session(info.session_id), [entry_id])
                if found is not None:
                    break
        if found is None:
            raise KeyError(entry_id)
        return found[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to this one, oldest first, or the last ones of them: those of a session are read in pages."""
        if head_id is None or limit == 0:
            return []
        entries = [await self.read_entry(head_id)]
        known: dict[str, ConversationEntry] = {}
        session = self._client.session(self._sessions[head_id])
        history = session.history(reverse=True, page_size=1000)
        async for message in history:
            if message.parts[0].record.kind == "pydantic-ai.entry" and not message.parts[0].erased:
                known[message.client_id] = self._made(message, session.id)
            while entries[-1].parent_id in known and len(entries) != limit:
                entries.append(known[entries[-1].parent_id])
            if entries[-1].parent_id is None or len(entries) == limit:
                break
        await history.aclose()  # type: ignore[attr-defined]
        if entries[-1].parent_id is not None and len(entries) != limit:
            raise KeyError(entries[-1].parent_id)
        return entries[::-1]

    async def _entries(self, session: aio.Session, ids: Sequence[str]) -> list[ConversationEntry] | None:
        """Entries of a session; None if it has not all of them."""
        try:
            messages = await session.get_messages(ids)
        except Error as error:
            if error.reason in ("MESSAGE_NOT_FOUND", "SESSION_NOT_FOUND", "INVALID_FIELD"):
                return None
            raise
        if any(message.parts[0].erased for message in messages):
            return None
        return [self._made(message, session.id) for message in messages]

    def _made(self, message: v1.Message, session_id: str) -> ConversationEntry:
        self._sessions[message.client_id] = session_id
        data = json.loads(message.parts[0].record.data)
        (made,) = ModelMessagesTypeAdapter.validate_python([data["message"]])
        return ConversationEntry(id=data["id"], parent_id=data["parent_id"], message=made)

    async def _record(self, info: v1.Session) -> ConversationRecord | None:
        metadata = json.loads(info.metadata_json or "{}")
        if "record" not in metadata:
            return None
        record = metadata["record"]
        if record is None:
            session = self._client.session(info.session_id)
            message = await session.get_message(f"record:{metadata['revision']}")
            record = json.loads(message.parts[0].record.data)
        made = _RECORDS.validate_python(record)
        self._sessions.update((entry, info.session_id) for entry in [*made.branches, made.head_id] if entry)
        return made

    async def _info(self, conversation_id: str) -> v1.Session | None:
        try:
            info = await self._session(conversation_id).get()
        except Error as error:
            if error.reason == "SESSION_NOT_FOUND":
                return None
            raise
        return info if info.state == v1.SESSION_STATE_ACTIVE else None

    def _session(self, conversation_id: str) -> aio.Session:
        return self._client.session(self._prefix + _hash(conversation_id)[:32])


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _entry_json(entry: ConversationEntry) -> str:
    message: list[ModelMessage] = [entry.message]
    (data,) = ModelMessagesTypeAdapter.dump_python(message, mode="json")
    return parts.as_json({"id": entry.id, "parent_id": entry.parent_id, "message": data})


class LonghandViews(AbstractCapability[Any]):
    """Gives the model what the session's policy makes of the messages of a run.

    Before each request to the model, and at the end of a run, the session gets what the run has and it has not: new
    messages, with the view that a reply answers; other contents of messages that it has; and that messages are gone
    which a history processor left out. All of it is as other capabilities leave it, since this one is the innermost.

    The request stays as it is but for what the view shortens, covers by a summary, or adds from others. The session is
    that of `session_id`, else of the conversation. System prompts are the agent's own, and are in no session.
    """

    def __init__(
        self,
        client: aio.Client,
        session_id: str | None = None,
        *,
        window: int | str | v1.ModelWindow | None = None,
        preset: str = "",
        overflow: v1.OverflowAction.ValueType = v1.OVERFLOW_ACTION_WAIT,
    ) -> None:
        self._client = client
        self._session_id = session_id
        self._window = window
        self._preset = preset
        self._overflow = overflow
        self._conversations: dict[str, _Conversation] = {}
        #: What each run had before history processors, by identity, and the view that its model was given last.
        self._given: OrderedDict[str, set[str]] = OrderedDict()
        self._tokens: OrderedDict[str, str] = OrderedDict()

    def get_ordering(self) -> CapabilityOrdering:
        """Innermost: what other capabilities change is what the model gets, and what is stored."""
        return CapabilityOrdering(position="innermost")

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        """Notes what there is before history processors."""
        pieces = _pieces(request_context.messages)
        self._given[ctx.run_id] = {piece.item.identity for piece in pieces if piece.item is not None}
        _shrink(self._given)
        response: ModelResponse = await handler(request_context)
        return response

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Stores what is new, and puts the view in the request."""
        conversation = await self._conversation(ctx)
        messages = list(request_context.messages)
        async with conversation.lock:
            pieces = _pieces(messages, self._tokens.get(ctx.run_id))
            items = [piece.item for piece in pieces if piece.item is not None]
            gone = self._given.pop(ctx.run_id, set()) - {item.identity for item in items}
            entries = await conversation.kept.sync(items, gone=gone)
            view = await conversation.session.view(overflow=self._overflow)
            if await conversation.kept.replace(items, entries, view):
                view = await conversation.session.view(overflow=self._overflow)
            known = {item.identity: entry for item, entry in zip(items, entries, strict=True)}
            own = [None if piece.item is None else known[piece.item.identity] for piece in pieces]
            shown = merged(own, conversation.kept.by_message_id, view)
            ids = pieced_messages(_NAME, [message for place in shown for message in place.messages])
            originals = await conversation.originals(ids)
        self._tokens[ctx.run_id] = view.token
        _shrink(self._tokens)
        request_context.messages = _together(messages, pieces, shown, originals)
        return request_context

    async def after_run(self, ctx: Any, *, result: Any) -> Any:
        """Stores the last reply of a run, and what came with it."""
        conversation = await self._conversation(ctx)
        pieces = _pieces(result.all_messages(), self._tokens.pop(ctx.run_id, None))
        async with conversation.lock:
            await conversation.kept.sync([piece.item for piece in pieces if piece.item is not None])
        return result

    async def _conversation(self, ctx: Any) -> _Conversation:
        name = self._session_id or ctx.conversation_id
        if name not in self._conversations:
            session = await self._client.open_session(
                name, window=self._window, preset=self._preset, metadata={"agent": "pydantic-ai"}
            )
            self._conversations.setdefault(name, _Conversation(session))
        return self._conversations[name]


#: Under which name the metadata of a message has the package's, and whose opaque parts are its own.
_NAME, _PROVIDER = "pydantic_ai", "pydantic-ai"
#: How many large originals of a conversation, and runs, are kept.
_ORIGINALS, _RUNS = 32, 1000


def _shrink(kept: OrderedDict[str, Any], most: int = _RUNS) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


class _Conversation:
    """A session, and what of a conversation is in it."""

    def __init__(self, session: aio.Session) -> None:
        self.session = session
        self.kept = Conversation(session, "pai")
        self.lock = asyncio.Lock()
        self._originals: OrderedDict[str, v1.Message] = OrderedDict()

    async def originals(self, ids: Sequence[str]) -> Mapping[str, v1.Message]:
        """The stored messages of large originals; some are kept, as they never change."""
        for message in await self.session.get_messages([id for id in ids if id not in self._originals]):
            self._originals[message.message_id] = message
        found = {id: self._originals[id] for id in ids}
        _shrink(self._originals, _ORIGINALS)
        return found


@dataclass
class _Piece:
    """What becomes one message of a session: a reply, or the parts of a request that have one role."""

    message: int
    #: The numbers of its parts.
    parts: Sequence[int]
    #: None for parts that no session has.
    item: Item | None


def _pieces(messages: Sequence[ModelMessage], view_token: str | None = None) -> list[_Piece]:
    """The pieces of messages. The last reply answers the view, if it is new."""
    made: list[_Piece] = []
    counted: dict[str, int] = {}
    replies = [number for number, message in enumerate(messages) if isinstance(message, ModelResponse)]

    def piece(number: int, places: Sequence[int]) -> _Piece:
        message = messages[number]
        said: list[Any] = [message.parts[place] for place in places]
        token = view_token if replies and number == replies[-1] else None
        seen = _facts(message, said)
        counted[seen] = counted.get(seen, 0) + 1
        digest = _hash(json.dumps(_untimed(_dump(_with(message, said))["parts"]), sort_keys=True))[:16]
        identity = _hash(f"{seen} {counted[seen]}")[:20]

        def make() -> v1.NewMessage:
            return _new_message(_with(message, said), token)

        asks = any(isinstance(part, UserPromptPart) for part in said)
        return _Piece(number, places, Item(identity, digest, make, asks))

    for number, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            made.append(piece(number, range(len(message.parts))))
            continue
        kinds = [_kind(part) for part in message.parts]
        for kind in ("own", "result", "said"):
            places = [place for place, other in enumerate(kinds) if other == kind]
            if places and kind != "own":
                made.append(piece(number, places))
            elif places or (kind == "own" and not kinds):
                # A request of nothing is one, too.
                made.append(_Piece(number, places, None))
    return made


def _with(message: ModelMessage, said: Any) -> ModelMessage:
    """The message with these parts alone."""
    changed: Any = message
    made: ModelMessage = replace(changed, parts=said)
    return made


def _kind(part: ModelRequestPart) -> str:
    """Whether a part is the result of a tool, what a user says, or the agent's own."""
    if isinstance(part, ToolReturnPart) or (isinstance(part, RetryPromptPart) and part.tool_name is not None):
        return "result"
    return "said" if isinstance(part, UserPromptPart) or part.part_kind.startswith("retry") else "own"


def _facts(message: ModelMessage, said: Sequence[Any]) -> str:
    """What stays the same when the content of a message is changed."""
    facts: list[Any] = [[p.part_kind, str(getattr(p, "timestamp", "")), getattr(p, "tool_call_id", "")] for p in said]
    if isinstance(message, ModelResponse):
        called = [getattr(part, "tool_call_id", "") for part in said]
        facts = [str(message.timestamp), message.provider_response_id, [id for id in called if id]]
    return json.dumps([message.kind, facts])


def _untimed(said: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in part.items() if name != "timestamp"} for part in said]


def _dump(message: ModelMessage) -> dict[str, Any]:
    """A message as JSON; what only the application reads and is no JSON is left out."""
    messages: list[ModelMessage] = [message]
    try:
        (data,) = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    except ValueError:
        said: Any = [
            replace(part, metadata=None) if isinstance(part, ToolReturnPart) else part for part in message.parts
        ]
        messages = [_with(message, said)]
        (data,) = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    made: dict[str, Any] = data
    return made


def _new_message(message: ModelMessage, view_token: str | None = None) -> v1.NewMessage:
    """A message with the texts, calls and results that views and other agents read, and the original beside them."""
    original = Original(_dump(message))
    if isinstance(message, ModelResponse):
        for number, part in enumerate(message.parts):
            _add_reply(original, number, part)
        counted = message.usage
        usage = parts.usage(
            max(counted.input_tokens - counted.cache_read_tokens - counted.cache_write_tokens, 0),
            counted.output_tokens,
            cache_read_tokens=counted.cache_read_tokens,
            cache_write_tokens=counted.cache_write_tokens,
        )
        if not original.parts:
            # Nothing that others read: for its provider, which gets the original.
            original.add(parts.opaque(_PROVIDER, "reply", b"{}"))
        metadata = original.metadata(_NAME)
        return parts.assistant(
            [*original.parts],
            usage=usage if counted.input_tokens else None,
            view_token=view_token,
            model=message.model_name or "",
            metadata=metadata,
        )
    for number, asked in enumerate(message.parts):
        if isinstance(asked, ToolReturnPart):
            _add_return(original, number, asked)
        elif isinstance(asked, RetryPromptPart) and asked.tool_name is not None:
            failed = v1.TOOL_RESULT_STATUS_ERROR
            original.add(parts.tool_result(asked.tool_call_id, asked.model_response(), status=failed))
        elif isinstance(asked, UserPromptPart):
            _add_prompt(original, number, asked)
        else:
            said = getattr(asked, "model_response", None)
            original.add(parts.text(said() if callable(said) else str(getattr(asked, "content", ""))))
    results = all(_kind(part) == "result" for part in message.parts)
    metadata = original.metadata(_NAME)
    made = original.parts or [parts.text("")]
    return parts.message(v1.ROLE_TOOL if results else v1.ROLE_USER, [*made], metadata=metadata)


def _add_reply(original: Original, number: int, part: ModelResponsePart) -> None:
    where = ("parts", number)
    content: Any = getattr(part, "content", None)
    if part.part_kind == "text" and content:
        original.add(parts.text(content), *where, "content")
    elif part.part_kind == "thinking" and content:
        original.add(parts.reasoning(content), *where, "content")
    elif isinstance(part, ToolCallPart):
        arguments = part.args if isinstance(part.args, str) and part.args else part.args_as_json_str()
        call = original.add(parts.tool_call(part.tool_call_id, part.tool_name or "tool", arguments))
        if part.args:
            original.place(call, [*where, "args"])
    elif part.part_kind == "file":
        media = v1.MediaPart(mime_type=content.media_type, data=content.data)
        original.add(v1.Part(media=media), *where, "content", "data")


def _add_prompt(original: Original, number: int, part: UserPromptPart) -> None:
    where: list[str | int] = ["parts", number, "content"]
    if isinstance(part.content, str):
        original.add(parts.text(part.content), *where)
        return
    for place, piece in enumerate(part.content):
        if isinstance(piece, str):
            original.add(parts.text(piece), *where, place)
        elif isinstance(said := getattr(piece, "content", None), str):
            original.add(parts.text(said), *where, place, "content")
        elif (media := _media(piece)) is not None:
            name = "data" if media.WhichOneof("source") == "data" else "url"
            original.add(v1.Part(media=media), *where, place, name)


def _add_return(original: Original, number: int, part: ToolReturnPart) -> None:
    where: list[str | int] = ["parts", number, "content"]
    several = isinstance(part.content, (list, tuple))
    items: Sequence[Any] = part.content if isinstance(part.content, (list, tuple)) else [part.content]
    media = [_media(item) for item in items]
    texts = [item for item, file in zip(items, media, strict=True) if file is None]
    if any(media):
        output = "\n".join(text if isinstance(text, str) else parts.as_json(_plain(text)) for text in texts)
    else:
        output = part.model_response_str(wrap_if_error=False)
    failed = part.outcome in ("failed", "retried")
    status = v1.TOOL_RESULT_STATUS_ERROR if failed else v1.TOOL_RESULT_STATUS_COMPLETED
    result = original.add(parts.tool_result(part.tool_call_id, output, status=status))
    if not any(media):
        original.place(result, where)
        return
    end = 0
    for place, (item, file) in enumerate(zip(items, media, strict=True)):
        path = [*where, place] if several else where
        if file is not None:
            result.tool_result.attachments.append(file)
            name = "data" if file.WhichOneof("source") == "data" else "url"
            original.place(result, [*path, name], len(result.tool_result.attachments) - 1)
        elif isinstance(item, str):
            # With the line's end between two of them.
            end = original.place_span(result, path, end) + 1
        else:
            end += len(parts.as_json(_plain(item))) + 1


def _plain(value: Any) -> Any:
    return TypeAdapter(Any).dump_python(value, mode="json", fallback=str)


def _media(piece: Any) -> v1.MediaPart | None:
    """An image, a sound or a document; None for anything else."""
    if getattr(piece, "kind", None) is None:
        return None
    if isinstance(data := getattr(piece, "data", None), bytes):
        return v1.MediaPart(mime_type=piece.media_type, data=data)
    url = getattr(piece, "url", None)
    if not isinstance(url, str):
        return None
    try:
        kind = piece.media_type
    except ValueError:
        # The address does not say.
        kind = "application/octet-stream"
    return v1.MediaPart(mime_type=kind, uri=url)


def _together(
    messages: Sequence[ModelMessage],
    pieces: Sequence[_Piece],
    shown: Sequence[Shown],
    originals: Mapping[str, v1.Message],
) -> list[ModelMessage]:
    """The messages of a request: the run's own where they are whole, the same objects."""
    whole: dict[int, set[int]] = {}
    for number, piece in enumerate(pieces):
        whole.setdefault(piece.message, set()).add(number)
    there = {place.own for place in shown if place.own is not None and not place.messages}
    made: list[ModelMessage] = []
    done: set[int] = set()
    names = _names(message for place in shown for message in place.messages)
    for place in shown:
        if place.own is None:
            made.extend(messages_of_view(place.messages, originals, names))
            continue
        piece = pieces[place.own]
        message = messages[piece.message]
        if whole[piece.message] <= there:
            if piece.message not in done:
                made.append(message)
        else:
            own: list[Any] = [message.parts[number] for number in piece.parts]
            if place.messages:
                own = [part for other in messages_of_view(place.messages, originals, names) for part in other.parts]
            if own and piece.message in done and made and isinstance(made[-1], ModelRequest):
                made[-1] = replace(made[-1], parts=[*made[-1].parts, *own])
            elif own:
                made.append(_with(message, own))
        done.add(piece.message)
    return made


def messages_of_view(
    messages: Sequence[v1.ViewMessage],
    originals: Mapping[str, v1.Message] | None = None,
    names: Mapping[str, str] | None = None,
) -> list[ModelMessage]:
    """The messages of a view as pydantic-ai has them: those that it wrote as they were, others by their parts.

    `originals` are stored messages by their ids, for those whose originals are too large for a view; `names` are those
    of the tools, by the ids of calls that are not among the messages.
    """
    named = {**(names or {}), **_names(messages)}
    return [made for message in messages if (made := _of_view(message, originals, named)) is not None]


def _names(messages: Iterable[v1.ViewMessage]) -> dict[str, str]:
    calls = [c.part.tool_call for message in messages for c in message.parts if c.part.HasField("tool_call")]
    return {call.call_id: call.tool for call in calls}


def _of_view(
    message: v1.ViewMessage, originals: Mapping[str, v1.Message] | None, names: Mapping[str, str]
) -> ModelMessage | None:
    shown = [view_part.part for view_part in message.parts]
    original = restored(_NAME, message, originals)
    results = any(part.HasField("tool_result") for part in shown)
    # A result whose call is not in the view any more is a text there.
    if original is not None and results == any(_is_return(part) for part in original.data["parts"]):
        _shorten_returns(original.data, [view_part for view_part in message.parts if view_part.shortening])
        data = original.without_missing()
        if not data["parts"]:
            return None
        (made,) = ModelMessagesTypeAdapter.validate_python([data])
        return made
    if message.role == v1.ROLE_ASSISTANT:
        replied: list[ModelResponsePart] = []
        for part in shown:
            if part.HasField("text") and part.text.text:
                replied.append(TextPart(part.text.text))
            elif part.HasField("tool_call"):
                call = part.tool_call
                replied.append(ToolCallPart(call.tool, call.input_json, tool_call_id=call.call_id))
        return ModelResponse(parts=replied) if replied else None
    asked: list[ModelRequestPart] = []
    for part in shown:
        if part.HasField("tool_result"):
            result = part.tool_result
            name = names.get(result.call_id, "tool")
            asked.append(ToolReturnPart(name, result.output, tool_call_id=result.call_id))
        elif part.text.text or part.marker.text:
            text = part.text.text or part.marker.text
            asked.append(SystemPromptPart(text) if message.role == v1.ROLE_SYSTEM else UserPromptPart(text))
    return ModelRequest(parts=asked) if asked else None


def _is_return(part: Mapping[str, Any]) -> bool:
    retries = part["part_kind"] == "retry-prompt" and part.get("tool_name") is not None
    return part["part_kind"] == "tool-return" or retries


def _shorten_returns(data: dict[str, Any], shortened: Iterable[v1.ViewPart]) -> None:
    """Leaves of results that have files, or that a text stands for, what the view shows of them."""
    outputs = {c.part.tool_result.call_id: c.part.tool_result for c in shortened if c.part.HasField("tool_result")}
    for part in data["parts"]:
        result = outputs.get(part.get("tool_call_id")) if _is_return(part) else None
        if result is not None:
            content = part["content"]
            files = [item for item in content if _is_file(item)] if isinstance(content, list) else []
            part["content"] = [result.output, *files] if files and result.attachments else result.output


def _is_file(item: Any) -> bool:
    return isinstance(item, dict) and "kind" in item and (item.get("data") or item.get("url")) is not None
