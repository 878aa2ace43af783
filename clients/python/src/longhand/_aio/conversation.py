"""The conversation of a framework in a session: what is new is appended, what was replaced or removed is edited."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhand import v1
from longhand._batches import batches, fitting
from longhand._merge import Entry, hidden_because
from longhand.errors import Error

if TYPE_CHECKING:
    from longhand._aio.session import Session, View

__all__ = ["Conversation", "Item"]

_KINDS = [
    v1.EVENT_KIND_SESSION_CREATED,
    v1.EVENT_KIND_SESSION_FORKED,
    v1.EVENT_KIND_MESSAGE_APPENDED,
    v1.EVENT_KIND_MESSAGE_EDITED,
    v1.EVENT_KIND_SESSION_REWOUND,
]
#: A conversation is compared again when others change it meanwhile.
_ATTEMPTS = 16


@dataclass
class Item:
    """A message of a framework."""

    #: The same for every version of the message.
    identity: str
    #: The same for the same content.
    digest: str
    #: Makes the message that is stored; its client id is the conversation's to give.
    make: Callable[[], v1.NewMessage]
    #: True for what a person or a program asks, which is new although the same was asked before.
    asks: bool = False


class Conversation:
    """What a session has of a framework's messages, by their client ids, which have identity and digest in them.

    They are read from events without contents: all at first, and then what came since, whoever wrote it. An erased
    message stays known, so that nobody appends it anew; a session that was made in the place of an erased one has none.
    """

    def __init__(self, session: Session, prefix: str) -> None:
        self._session = session
        self._prefix = prefix
        self._session_id = ""
        self._cursor = ""
        #: Every message that a client appended, in order.
        self.entries: list[Entry] = []
        #: The same by their ids, and by those of what replaced them.
        self.by_message_id: dict[str, Entry] = {}
        #: The same by their client ids, and records.
        self.by_client_id: dict[str, Entry] = {}
        self._aliases: dict[str, Entry] = {}
        #: The owners whose messages this object has appended.
        self._owners: set[str] = set()

    async def sync(
        self, items: Sequence[Item], owner: str = "", *, removes: bool = False, gone: Collection[str] = ()
    ) -> list[Entry]:
        """Brings the session to these messages; the answer is what it has of each.

        With `removes` they are the whole of what the owner says: what it said otherwise is left out. So are messages
        whose identities are `gone`.
        """
        for _ in range(_ATTEMPTS):
            await self.read()
            found = self._match(items, owner)
            rewind_to, revision = None, None
            stale: list[Entry] = []
            if removes and (owner in self._owners or any(found)):
                kept = {entry.message_id for entry in found if entry is not None}
                own = _hash(owner, 8)
                stale = [e for e in self.entries if e.owner == own and e.message_id not in kept]
            elif gone:
                stale = [entry for entry in self.entries if entry.identity in gone]
            if stale:
                rewind_to, revision = await self._remove(stale)
            fresh = [item for item, entry in zip(items, found, strict=True) if entry is None]
            try:
                if fresh:
                    await self._append(fresh, owner, rewind_to, revision)
                elif rewind_to is not None:
                    await self._session.rewind(rewind_to, expected_revision=revision, request_id=self._request_id())
            except Error as error:
                # Somebody wrote in between, perhaps the same messages.
                if error.reason not in ("REVISION_MISMATCH", "CLIENT_ID_REUSED"):
                    raise
                continue
            self._owners.add(owner)
            if fresh or rewind_to is not None:
                await self.read()
                found = self._match(items, owner, sent=True)
            return [entry for entry in found if entry is not None]
        raise Error("other writers change the session all the time", reason="REVISION_MISMATCH")

    async def replace(self, items: Sequence[Item], entries: Sequence[Entry], view: View) -> bool:
        """Puts what has another content than the view in its place; True if there was any."""
        shown = {message.message_id: message for message in view.messages}
        changed = False
        for item, entry in zip(items, entries, strict=True):
            if entry.digest == item.digest:
                continue
            message = shown.get(entry.current_id)
            if entry.replacement_id and entry.is_ours and not entry.digest:
                # An edit by another process says in its metadata what it is.
                edit = message or await self._session.get_message(entry.replacement_id)
                entry.digest = json.loads(edit.metadata_json or "{}").get("digest", "")
                if entry.digest == item.digest:
                    continue
            if message is None and hidden_because(entry.revision, view.end) != "covered":
                continue
            if entry.replacement_id and not entry.is_ours:
                # Somebody else edited it, and meant it.
                continue
            made = fitting(item.make())
            metadata = {**json.loads(made.metadata_json or "{}"), "digest": item.digest}
            answer = await self._session.edit(
                entry.message_id, [*made.parts], metadata=metadata, request_id=self._request_id()
            )
            changed, entry.digest = True, item.digest
            entry.is_ours, entry.replacement_id = True, answer.replacement_message_id
            self.by_message_id[entry.replacement_id] = entry
        return changed

    async def read(self) -> None:
        """Reads what came since."""
        client = self._session.client
        request = v1.ListEventsRequest(
            session_id=self._session.id, kinds=_KINDS, after_cursor=self._cursor, page_size=1000
        )
        while True:
            page = await client.call(client.stubs.events.ListEvents, request)
            for event in page.events:
                begins = event.HasField("session_created") or event.HasField("session_forked")
                if begins and event.session_id != self._session_id:
                    self._session_id = event.session_id
                    self.entries, self.by_message_id, self.by_client_id, self._aliases = [], {}, {}, {}
                if event.HasField("session_forked"):
                    await self._read_ancestors(event.session_forked.source_revision)
                if event.HasField("message_appended"):
                    new = event.message_appended
                    entry = Entry(new.message_id, new.role, event.revision)
                    self._add(entry, new.client_id, new.kind == v1.MESSAGE_KIND_RECORD)
                # Not by the actor: a program rewinds with the same client, and what it left out stays so.
                ours = event.request_id.startswith(f"{self._prefix}-")
                if event.HasField("message_edited"):
                    self._edit(event.message_edited, ours)
                if event.HasField("session_rewound") and ours:
                    self._rewind(event.session_rewound.after_revision)
                self._cursor = event.cursor
            if not page.next_cursor:
                return
            request.after_cursor = page.next_cursor

    async def _read_ancestors(self, until: int) -> None:
        """The messages that a fork has from others, whose events are not its own."""
        async for message in self._session.history(exclude_records=True, page_size=1000):
            if message.revision <= until:
                self._add(Entry(message.message_id, message.role, message.revision), message.client_id, False)

    def _add(self, entry: Entry, client_id: str, is_record: bool) -> None:
        if client_id:
            self.by_client_id[client_id] = entry
        if is_record or entry.message_id in self.by_message_id:
            return
        prefix, *rest = client_id.split(":")
        if prefix == self._prefix and len(rest) == 4:
            entry.owner, entry.identity, entry.digest = rest[0], rest[1], rest[2]
            entry.generation = int(rest[3])
        self.entries.append(entry)
        self.by_message_id[entry.message_id] = entry

    def _edit(self, edited: v1.MessageEdited, ours: bool) -> None:
        entry = self.by_message_id.get(edited.message_id)
        if entry is None:
            return
        entry.is_ours = ours
        entry.is_removed = ours and not edited.replacement_message_id
        if edited.replacement_message_id != entry.replacement_id:
            entry.digest = ""
            entry.replacement_id = edited.replacement_message_id
            self.by_message_id[edited.replacement_message_id] = entry

    def _rewind(self, after: int) -> None:
        for entry in self.entries:
            entry.is_removed = entry.is_removed or entry.revision > after

    def _match(self, items: Sequence[Item], owner: str, *, sent: bool = False) -> list[Entry | None]:
        """What the session has of each message; None for what it has not."""
        own = [entry for entry in self.entries if entry.identity]
        newest = {entry.identity: entry for entry in own}
        mine = [entry for entry in own if entry.owner == _hash(owner, 8) and not entry.is_removed]
        places = {id(entry): place for place, entry in enumerate(mine)}
        found: list[Entry | None] = []
        aliases: dict[str, Entry] = {}
        place, leads = 0, True
        for item in items:
            entry = newest.get(item.identity) or self._aliases.get(item.identity)
            if entry is not None and entry.is_removed:
                entry = None
            if entry is None and leads and place < len(mine) and mine[place].digest == item.digest:
                # A history whose messages got new ids, as those of plain dictionaries do: as far as it is the same.
                entry = aliases[item.identity] = mine[place]
            leads = leads and entry is not None
            if entry is not None:
                place = places.get(id(entry), place - 1) + 1
            found.append(entry)
        asked = [item.identity for item in items if item.asks]
        if asked and asked[-1] in aliases and not sent:
            # The question itself is new: a program that sends no history asks the same once more.
            found = [None if item.identity in aliases else entry for item, entry in zip(items, found, strict=True)]
        else:
            self._aliases.update(aliases)
        return found

    async def _remove(self, stale: Sequence[Entry]) -> tuple[str | None, int | None]:
        """Leaves messages out, or says to which message the next change is to rewind."""
        stale = [entry for entry in stale if not entry.is_removed and not entry.is_hidden]
        if not stale:
            return None, None
        view = await self._session.view()
        shown = {message.message_id for message in view.messages}
        for entry in stale:
            covered = hidden_because(entry.revision, view.end) == "covered"
            entry.is_hidden = not covered and entry.current_id not in shown
        stale = [entry for entry in stale if not entry.is_hidden]
        if not stale:
            return None, None
        first = self.entries.index(stale[0])
        if len(stale) > 1 and all(entry in stale or entry.is_hidden for entry in self.entries[first:]):
            # Nobody else has written behind it, and one change leaves out all of it.
            before = [e for e in self.entries[:first] if e.current_id in shown and not e.replacement_id]
            if before or first == 0:
                return (before[-1].message_id if before else ""), view.header.revision
        for entry in stale:
            await self._session.edit(entry.message_id, None, request_id=self._request_id())
            entry.is_removed = True
        return None, None

    def _request_id(self) -> str:
        """A name for a change, by which every process knows whose it is."""
        return f"{self._prefix}-{uuid.uuid4().hex}"

    async def _append(self, fresh: Sequence[Item], owner: str, rewind_to: str | None, revision: int | None) -> None:
        generations = {entry.identity: entry.generation for entry in self.entries}
        made = []
        for item in fresh:
            new = fitting(item.make())
            generation = generations.get(item.identity, -1) + 1
            new.client_id = f"{self._prefix}:{_hash(owner, 8)}:{item.identity}:{item.digest}:{generation}"
            made.append(new)
        for batch in batches(made, v1.NewMessage.ByteSize):
            request_id = self._request_id() if rewind_to is not None else ""
            await self._session.append(*batch, rewind_to=rewind_to, expected_revision=revision, request_id=request_id)
            rewind_to = revision = None


def _hash(name: str, length: int) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:length]
