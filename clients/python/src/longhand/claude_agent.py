"""A `SessionStore` of the Claude Agent SDK: its transcripts are records of Longhand sessions.

`ClaudeAgentOptions(session_store=LonghandSessionStore(await longhand.aio.connect()))`

The lines of a transcript are opaque by contract, so they are kept as they are, as records, which no view shows. What is
deleted is erased for good.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

from anyio import to_thread
from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry, SessionStoreListEntry, fold_session_summary
from claude_agent_sdk.types import SessionListSubkeysKey, SessionSummaryEntry

from longhand import Client, Session, aio, parts, v1
from longhand._batches import batches
from longhand.errors import Error

__all__ = ["LonghandSessionStore"]

#: Members of the sessions' metadata, by which they are found.
_PROJECT, _SESSION, _SUBPATH, _SUMMARY = "claude_project", "claude_session", "claude_subpath", "claude_summary"
_PROJECT_ID, _SESSION_ID = "claude_project_id", "claude_session_id"
_ATTEMPTS = 64
#: The largest metadata and the longest title of a session, in bytes, and the characters of one record.
_METADATA_BYTES, _TITLE_BYTES, _PIECE_CHARACTERS = 48 * 1024, 512, 1 << 20
#: A half of a surrogate pair, which no text of the protocol can have.
_HALF = re.compile("[\ud800-\udfff]")


class LonghandSessionStore(SessionStore):
    """A store over one connection; one session for each transcript, those of subagents too.

    `namespace` keeps stores apart that share a daemon. With the client for asyncio it needs asyncio; with that for
    threads it works under trio, too.
    """

    def __init__(self, client: aio.Client | Client, *, namespace: str = "") -> None:
        self._client = _Threads(client) if isinstance(client, Client) else client
        self._namespace = namespace

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Appends entries; one whose `uuid` is there is replaced where it is, or, if it is the same, left alone."""
        session = self._session(key)
        # Of several versions in one batch the last one counts, in the place of the first.
        newest = {_client_id(entry) or f"{number}": entry for number, entry in enumerate(entries)}
        made = [_records(entry) for entry in newest.values()]
        for pieces, _ in made:
            for batch in batches(pieces, v1.NewMessage.ByteSize):
                await self._open(session, key)
                await session.append(*batch)
        records = batches([record for _, record in made], v1.NewMessage.ByteSize)
        for number, some in enumerate(records):
            # The summary is made of all entries, and changes with the last of them.
            await self._append(session, key, some, entries if number == len(records) - 1 else [])

    async def _append(
        self, session: Any, key: SessionKey, records: list[v1.NewMessage], entries: list[SessionStoreEntry]
    ) -> None:
        for _ in range(_ATTEMPTS):
            info = await self._open(session, key)
            metadata, further = json.loads(info.metadata_json), []
            if entries and not key.get("subpath"):
                # The summary changes in the same commit, and nobody else's commit comes between its read and this one.
                before = await self._summary(info, metadata)
                known = None if before is None else {**before, "session_id": key["session_id"], "mtime": 0}
                folded = fold_session_summary(cast("SessionSummaryEntry | None", known), key, entries)
                metadata[_SUMMARY] = {"data": folded["data"]}
                if len(_json(metadata).encode()) > _METADATA_BYTES:
                    metadata[_SUMMARY] = None
                    data = _json({"data": folded["data"]})
                    further = [parts.record("claude.summary", data, client_id=_SUMMARY, replace=True)]
            try:
                await session.append(
                    *records, *further, metadata=_json(metadata), expected_revision=info.history_revision
                )
                return
            except Error as error:
                if error.reason not in ("REVISION_MISMATCH", "SESSION_ERASED"):
                    raise
        raise Error("other writers change the session all the time", reason="REVISION_MISMATCH")

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries of a transcript; None for one that was never written, or was deleted."""
        entries: list[SessionStoreEntry | None] = []
        places: dict[str, int] = {}
        pieces: dict[str, str] = {}
        try:
            async for message in self._session(key).history(page_size=1000):
                record = message.parts[0].record
                if record.kind == "claude.piece":
                    pieces[message.client_id] = record.data
                newest = message.status.state == v1.MESSAGE_STATE_RECORD and not message.parts[0].erased
                if record.kind not in ("claude", "claude.pieces"):
                    continue
                # Each version of an entry is in the place of the first.
                place = places.get(message.client_id, len(entries)) if message.client_id else len(entries)
                if place == len(entries):
                    entries.append(None)
                    places[message.client_id] = place
                if newest:
                    data = json.loads(record.data)
                    if record.kind == "claude.pieces":
                        data = json.loads("".join(pieces[id] for id in data))
                    entries[place] = data
        except Error as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise
        return [entry for entry in entries if entry is not None] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, without those of subagents."""
        return [
            {"session_id": metadata[_SESSION], "mtime": _milliseconds(info)}
            async for info, metadata in self._find(project_key, f"{_SUBPATH}=")
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of a project's sessions, in one request unless they are very long."""
        made: list[SessionSummaryEntry] = []
        async for info, metadata in self._find(project_key, f"{_SUBPATH}="):
            summary = await self._summary(info, metadata)
            if summary is not None:
                made.append({"session_id": metadata[_SESSION], "mtime": _milliseconds(info), "data": summary["data"]})
        return made

    async def _summary(self, info: v1.Session, metadata: dict[str, Any]) -> dict[str, Any] | None:
        """The summary of a session: in its metadata, or, if it is too large for that, in a record."""
        if metadata.get(_SUMMARY, "") is not None:
            return metadata.get(_SUMMARY)
        message = await self._client.session(info.session_id).get_message(_SUMMARY)
        summary: dict[str, Any] = json.loads(message.parts[0].record.data)
        return summary

    async def delete(self, key: SessionKey) -> None:
        """Erases a transcript for good, and with a main one those of its subagents."""
        found = [self._session(key)]
        if not key.get("subpath"):
            terms = (key["project_key"], f"{_SESSION_ID}={_hash(key['session_id'])}")
            found += [self._client.session(info.session_id) async for info, _ in self._find(*terms)]
        for session in found:
            try:
                await session.erase("deleted through the Claude Agent SDK")
            except Error as error:
                if error.reason not in ("SESSION_NOT_FOUND", "NOTHING_TO_ERASE"):
                    raise

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session."""
        found = self._find(key["project_key"], f"{_SESSION_ID}={_hash(key['session_id'])}")
        return [metadata[_SUBPATH] async for _, metadata in found if metadata[_SUBPATH]]

    def _session(self, key: SessionKey) -> Any:
        if isinstance(self._client, aio.Client) and not _in_asyncio():
            raise Error("the client for asyncio does not work here: give the store that of `longhand.connect`")
        name = [self._namespace, key["project_key"], key["session_id"], key.get("subpath") or ""]
        return self._client.session(f"claude-{_hash(json.dumps(name))}")

    async def _open(self, session: Any, key: SessionKey) -> v1.Session:
        metadata = {
            "claude_store": self._namespace,
            _PROJECT: key["project_key"],
            _SESSION: key["session_id"],
            _SUBPATH: key.get("subpath") or "",
            # What is looked for has 1 KiB at most.
            _PROJECT_ID: _hash(key["project_key"]),
            _SESSION_ID: _hash(key["session_id"]),
        }
        title = key["session_id"].encode(errors="replace")[:_TITLE_BYTES].decode(errors="ignore")
        opened = await self._client.open_session(session.id, title=title, metadata=metadata)
        assert opened.info is not None
        return opened.info

    async def _find(self, project_key: str, *terms: str) -> AsyncIterator[tuple[v1.Session, dict[str, Any]]]:
        chosen = v1.SessionFilter(
            client_id_prefix="claude-",
            metadata_terms=[f"claude_store={self._namespace}", f"{_PROJECT_ID}={_hash(project_key)}", *terms],
        )
        async for info in self._client.list_sessions(filter=chosen, page_size=1000):
            if info.state != v1.SESSION_STATE_ERASED:
                yield info, json.loads(info.metadata_json)


class _Threads:
    """The client for threads, with what the store needs of the one for asyncio."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def session(self, session_id: str) -> _ThreadsSession:
        return _ThreadsSession(self._client.session(session_id))

    async def open_session(self, client_id: str, **options: Any) -> Session:
        return await to_thread.run_sync(partial(self._client.open_session, client_id, **options))

    async def list_sessions(self, **options: Any) -> AsyncIterator[v1.Session]:
        for info in await to_thread.run_sync(lambda: list(self._client.list_sessions(**options))):
            yield info


class _ThreadsSession:
    """A session of the client for threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.id = session.id

    async def append(self, *messages: v1.NewMessage, **options: Any) -> v1.AppendMessagesResponse:
        return await to_thread.run_sync(partial(self._session.append, *messages, **options))

    async def history(self, **options: Any) -> AsyncIterator[v1.Message]:
        found = self._session.history(**options)
        while (message := await to_thread.run_sync(next, found, None)) is not None:
            yield message

    async def get_message(self, message_id: str) -> v1.Message:
        return await to_thread.run_sync(self._session.get_message, message_id)

    async def erase(self, reason: str) -> v1.EraseContentResponse:
        return await to_thread.run_sync(self._session.erase, reason)


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:40]


def _json(value: object) -> str:
    """JSON; half of a surrogate pair, which JavaScript has, stays an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, separators=(",", ":")) if _HALF.search(text) else text


def _client_id(entry: SessionStoreEntry) -> str | None:
    uuid = cast("dict[str, Any]", entry).get("uuid")
    # Ids of clients have 128 bytes at most, and no white space at their ends.
    return f"uuid:{_hash(uuid)}" if isinstance(uuid, str) and uuid else None


def _records(entry: SessionStoreEntry) -> tuple[list[v1.NewMessage], v1.NewMessage]:
    """An entry as a record; before it the pieces of one that is longer than a record may be."""
    client_id, text = _client_id(entry), _json(entry)
    if len(text) <= _PIECE_CHARACTERS:
        return [], parts.record("claude", text, client_id=client_id, replace=client_id is not None)
    pieces = []
    for start in range(0, len(text), _PIECE_CHARACTERS):
        piece = text[start : start + _PIECE_CHARACTERS]
        pieces.append(parts.record("claude.piece", piece, client_id=f"piece:{start}:{_hash(piece)}", replace=True))
    data = parts.as_json([piece.client_id for piece in pieces])
    return pieces, parts.record("claude.pieces", data, client_id=client_id, replace=client_id is not None)


def _milliseconds(info: v1.Session) -> int:
    return info.update_time.ToMilliseconds()
