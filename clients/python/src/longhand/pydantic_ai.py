"""pydantic-ai on Longhand: a store of conversations, and a capability that serves views.

`Agent(model, capabilities=[LonghandViews(client)])`, `store = LonghandConversationStore(client)`

The store keeps conversations exactly as pydantic-ai has them. An entry is a record with the entry's id, and the newest
version of the conversation's own record is in the session's metadata, so that both change in one commit, by compare and
swap. A fork has copies of its entries: what is deleted is erased for good, and no other conversation loses anything.

The capability is what makes a conversation one that others share and that fits its window: it appends the messages of a
run to a session, and gives the model the view instead of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.capabilities import AbstractCapability
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
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from longhand import aio, parts, v1
from longhand._aio.known import KnownIds
from longhand._batches import batches
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
    """Gives the model the view of a session in place of the messages of a run.

    Before each request to the model, the messages that the session has not are appended; the reply is appended with its
    usage and the view that it answers. What others wrote to the session is in the view, too. The session is that of
    `session_id`, else of the conversation. System prompts are the agent's own, and in front of every view.
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
        self._sessions: dict[str, aio.Session] = {}
        self._known: dict[str, KnownIds] = {}

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> ModelResponse:
        """Appends what is new, asks the model with the view, and appends its reply."""
        session = await self._session(self._session_id or ctx.conversation_id)
        # Another process may have gone on with the conversation, or this one before it was started anew.
        known = await self._known.setdefault(session.id, KnownIds(session)).read()
        fresh = [new for message in request_context.messages for new in _new_messages(message)]
        fresh = [new for new in fresh if new.client_id not in known]
        if fresh:
            await session.append(*fresh)
        view = await session.view(overflow=self._overflow)
        parts_of_requests = [m.parts for m in request_context.messages if isinstance(m, ModelRequest)]
        prompts = [part for some in parts_of_requests for part in some if isinstance(part, SystemPromptPart)]
        before: list[ModelMessage] = [ModelRequest(parts=list(prompts))] if prompts else []
        messages = [*before, *messages_of_view(view.messages)]
        response: ModelResponse = await handler(replace(request_context, messages=messages))
        await session.append(*_new_messages(response, view.token))
        return response

    async def _session(self, name: str) -> aio.Session:
        if name not in self._sessions:
            self._sessions[name] = await self._client.open_session(
                name, window=self._window, preset=self._preset, metadata={"agent": "pydantic-ai"}
            )
        return self._sessions[name]


def _new_messages(message: ModelMessage, view_token: str | None = None) -> Iterator[v1.NewMessage]:
    """A message as the session has it: one for a reply, and one for each role in a request."""
    if isinstance(message, ModelResponse):
        made = [_response_part(part) for part in message.parts]
        original = ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
        counted = message.usage
        usage = parts.usage(
            counted.input_tokens - counted.cache_read_tokens - counted.cache_write_tokens,
            counted.output_tokens,
            cache_read_tokens=counted.cache_read_tokens,
            cache_write_tokens=counted.cache_write_tokens,
        )
        yield parts.assistant(
            [*made],
            usage=usage if counted.input_tokens else None,
            view_token=view_token,
            client_id=_message_id(original["parts"], original["timestamp"]),
            model=message.model_name or "",
            metadata={"pydantic_ai": original},
        )
        return
    for role, kinds in ((v1.ROLE_TOOL, True), (v1.ROLE_USER, False)):
        some = [p for p in message.parts if not isinstance(p, SystemPromptPart) and _is_result(p) == kinds]
        made = [new for part in some for new in _request_parts(part)]
        if made:
            (original,) = ModelMessagesTypeAdapter.dump_python([ModelRequest(parts=some)], mode="json")
            client_id = _message_id(original["parts"], "")
            yield parts.message(role, [*made], client_id=client_id, metadata={"pydantic_ai": original})


def _message_id(made: Any, timestamp: str) -> str:
    """The same for the same message, whatever a run has noted on it since: its parts have their times."""
    return f"pai:{_hash(json.dumps([made, timestamp], sort_keys=True))[:40]}"


def _is_result(part: ModelRequestPart) -> bool:
    return isinstance(part, ToolReturnPart) or (isinstance(part, RetryPromptPart) and part.tool_name is not None)


def _request_parts(part: ModelRequestPart) -> Iterator[v1.Part]:
    if isinstance(part, ToolReturnPart):
        yield parts.tool_result(part.tool_call_id, part.model_response_str())
    elif isinstance(part, RetryPromptPart) and part.tool_name is not None:
        failed = v1.TOOL_RESULT_STATUS_ERROR
        yield parts.tool_result(part.tool_call_id, part.model_response(), status=failed)
    elif isinstance(part, RetryPromptPart):
        yield parts.text(part.model_response())
    elif isinstance(part, UserPromptPart):
        for piece in [part.content] if isinstance(part.content, str) else part.content:
            if isinstance(piece, str):
                yield parts.text(piece)
            elif (data := getattr(piece, "data", None)) is not None:
                yield v1.Part(media=v1.MediaPart(mime_type=piece.media_type, data=data))  # type: ignore[union-attr]
            elif (url := getattr(piece, "url", None)) is not None:
                yield v1.Part(media=v1.MediaPart(mime_type=piece.media_type, uri=url))  # type: ignore[union-attr]


def _response_part(part: ModelResponsePart) -> v1.Part:
    if isinstance(part, TextPart):
        return parts.text(part.content)
    if isinstance(part, ThinkingPart) and part.content:
        return parts.reasoning(part.content)
    if isinstance(part, ToolCallPart):
        return parts.tool_call(part.tool_call_id, part.tool_name, part.args_as_json_str())
    # The other kinds are for their provider, which gets the original.
    return parts.opaque("pydantic-ai", part.part_kind, part.part_kind.encode())


def messages_of_view(messages: Sequence[v1.ContextMessage]) -> list[ModelMessage]:
    """The messages of a view as pydantic-ai has them: those that it wrote as they were, others by their parts."""
    return [made for message in messages if (made := _restored(message)) is not None]


def _restored(message: v1.ContextMessage) -> ModelMessage | None:
    metadata = json.loads(message.metadata_json or "{}")
    if "pydantic_ai" in metadata and not any(context.shortening for context in message.parts):
        (made,) = ModelMessagesTypeAdapter.validate_python([metadata["pydantic_ai"]])
        return made
    shown = [context.part for context in message.parts]
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
            asked.append(ToolReturnPart("tool", result.output, tool_call_id=result.call_id))
        elif part.text.text or part.marker.text:
            text = part.text.text or part.marker.text
            asked.append(SystemPromptPart(text) if message.role == v1.ROLE_SYSTEM else UserPromptPart(text))
    return ModelRequest(parts=asked) if asked else None
