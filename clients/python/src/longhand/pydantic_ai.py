"""A `ConversationStore` of pydantic-ai: its conversations are Longhand sessions.

`store = LonghandConversationStore(await longhand.aio.connect())`

An entry is a record with the entry's id, and the newest version of the conversation's own record is in the session's
metadata, so that both change in one commit, by compare and swap. A fork has copies of its entries: what is deleted is
erased for good, and no other conversation loses anything by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from longhand import aio, parts, v1
from longhand.errors import Error

__all__ = ["LonghandConversationStore"]

_RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
#: The largest record that is in the metadata itself, in bytes; a session's metadata has 64 KiB.
_RECORD_BYTES = 48 * 1024
#: Entries of one request, and their bytes; a request has 512 messages and 12 MiB at most.
_BATCH_ENTRIES, _BATCH_BYTES = 500, 8 << 20


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
            *before, last = _batches(messages)
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
        gone = parts.record("pydantic-ai.record", "", client_id="deleted")
        try:
            # From here on no save can come, since it expects another revision.
            await session.append(gone, expected_revision=info.history_revision, metadata={"agent": "pydantic-ai"})
        except Error as error:
            if error.reason in ("REVISION_MISMATCH", "SESSION_ERASED"):
                raise conflict from None
            raise
        await session.erase("deleted through pydantic-ai")

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


def _batches(messages: Sequence[v1.NewMessage]) -> list[list[v1.NewMessage]]:
    batches: list[list[v1.NewMessage]] = [[]]
    room = _BATCH_BYTES
    for message in messages:
        if batches[-1] and (len(batches[-1]) == _BATCH_ENTRIES or message.ByteSize() > room):
            batches.append([])
            room = _BATCH_BYTES
        batches[-1].append(message)
        room -= message.ByteSize()
    return batches
