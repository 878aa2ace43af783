"""A `SessionStore` of the Claude Agent SDK: its transcripts are records of Longhand sessions.

`ClaudeAgentOptions(session_store=LonghandSessionStore(await longhand.aio.connect()))`

The lines of a transcript are opaque by contract, so they are kept as they are, as records, which no view shows. What is
deleted is erased for good.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry, SessionStoreListEntry, fold_session_summary
from claude_agent_sdk.types import SessionListSubkeysKey, SessionSummaryEntry

from longhand import aio, parts, v1
from longhand._batches import batches
from longhand.errors import Error

__all__ = ["LonghandSessionStore"]

#: Members of the sessions' metadata, by which they are found.
_PROJECT, _SESSION, _SUBPATH, _SUMMARY = "claude_project", "claude_session", "claude_subpath", "claude_summary"
_ATTEMPTS = 64


class LonghandSessionStore(SessionStore):
    """A store over one connection; one session for each transcript, those of subagents too.

    `namespace` keeps stores apart that share a daemon.
    """

    def __init__(self, client: aio.Client, *, namespace: str = "") -> None:
        self._client = client
        self._namespace = namespace

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Appends entries; one whose `uuid` is there is replaced, or, if it is the same, left alone."""
        session = self._session(key)
        for batch in batches(entries, _size):
            await self._append(session, key, batch)

    async def _append(self, session: aio.Session, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        records = [_record(entry) for entry in entries]
        for _ in range(_ATTEMPTS):
            info = await self._open(session, key)
            metadata = json.loads(info.metadata_json)
            if not key.get("subpath"):
                # The summary changes in the same commit, and nobody else's commit comes between its read and this one.
                before = metadata.get(_SUMMARY)
                known = None if before is None else {**before, "session_id": key["session_id"], "mtime": 0}
                folded = fold_session_summary(cast("SessionSummaryEntry | None", known), key, entries)
                metadata[_SUMMARY] = {"data": folded["data"]}
            try:
                await session.append(*records, metadata=metadata, expected_revision=info.history_revision)
                return
            except Error as error:
                if error.reason not in ("REVISION_MISMATCH", "SESSION_ERASED"):
                    raise
        raise Error("other writers change the session all the time", reason="REVISION_MISMATCH")

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries of a transcript; None for one that was never written, or was deleted."""
        entries: list[SessionStoreEntry] = []
        try:
            async for message in self._session(key).history(page_size=1000):
                if message.status.state == v1.MESSAGE_STATE_RECORD and not message.parts[0].erased:
                    entries.append(json.loads(message.parts[0].record.data))
        except Error as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise
        return entries or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, without those of subagents."""
        return [
            {"session_id": metadata[_SESSION], "mtime": _milliseconds(info)}
            async for info, metadata in self._find(project_key, f"{_SUBPATH}=")
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of a project's sessions, in one request."""
        return [
            {"session_id": metadata[_SESSION], "mtime": _milliseconds(info), "data": metadata[_SUMMARY]["data"]}
            async for info, metadata in self._find(project_key, f"{_SUBPATH}=")
            if _SUMMARY in metadata
        ]

    async def delete(self, key: SessionKey) -> None:
        """Erases a transcript for good, and with a main one those of its subagents."""
        found = [self._session(key)]
        if not key.get("subpath"):
            terms = (key["project_key"], f"{_SESSION}={key['session_id']}")
            found += [self._client.session(info.session_id) async for info, _ in self._find(*terms)]
        for session in found:
            try:
                await session.erase("deleted through the Claude Agent SDK")
            except Error as error:
                if error.reason not in ("SESSION_NOT_FOUND", "NOTHING_TO_ERASE"):
                    raise

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session."""
        found = self._find(key["project_key"], f"{_SESSION}={key['session_id']}")
        return [metadata[_SUBPATH] async for _, metadata in found if metadata[_SUBPATH]]

    def _session(self, key: SessionKey) -> aio.Session:
        name = [self._namespace, key["project_key"], key["session_id"], key.get("subpath") or ""]
        return self._client.session(f"claude-{hashlib.sha256(json.dumps(name).encode()).hexdigest()[:40]}")

    async def _open(self, session: aio.Session, key: SessionKey) -> v1.Session:
        metadata = {
            "claude_store": self._namespace,
            _PROJECT: key["project_key"],
            _SESSION: key["session_id"],
            _SUBPATH: key.get("subpath") or "",
        }
        opened = await self._client.open_session(session.id, title=key["session_id"], metadata=metadata)
        assert opened.info is not None
        return opened.info

    async def _find(self, project_key: str, *terms: str) -> AsyncIterator[tuple[v1.Session, dict[str, Any]]]:
        chosen = v1.SessionFilter(
            client_id_prefix="claude-",
            metadata_terms=[f"claude_store={self._namespace}", f"{_PROJECT}={project_key}", *terms],
        )
        async for info in self._client.list_sessions(filter=chosen, page_size=1000):
            if info.state != v1.SESSION_STATE_ERASED:
                yield info, json.loads(info.metadata_json)


def _record(entry: SessionStoreEntry) -> v1.NewMessage:
    uuid = cast("dict[str, Any]", entry).get("uuid")
    # Ids of clients have 128 bytes at most, and no white space at their ends.
    client_id = f"uuid:{hashlib.sha256(uuid.encode()).hexdigest()}" if isinstance(uuid, str) and uuid else None
    return parts.record("claude", parts.as_json(entry), client_id=client_id, replace=client_id is not None)


def _size(entry: SessionStoreEntry) -> int:
    return _record(entry).ByteSize()


def _milliseconds(info: v1.Session) -> int:
    return info.update_time.ToMilliseconds()
