"""The client ids that a session has, for adapters that append what it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhand import v1

if TYPE_CHECKING:
    from longhand._aio.session import Session

__all__ = ["KnownIds"]


class KnownIds:
    """The client ids of a session's messages: all at first, and then what came since, whoever wrote it.

    They are read from events without contents. An erased message stays known, so that nobody appends it anew; a session
    that was made in the place of an erased one has none.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._session_id = ""
        self._cursor = ""
        self._ids: set[str] = set()

    async def read(self) -> set[str]:
        """The ids now."""
        client = self._session.client
        kinds = [v1.EVENT_KIND_SESSION_CREATED, v1.EVENT_KIND_MESSAGE_APPENDED]
        request = v1.ListEventsRequest(
            session_id=self._session.id, kinds=kinds, after_cursor=self._cursor, page_size=1000
        )
        while True:
            page = await client.call(client.stubs.events.ListEvents, request)
            for event in page.events:
                if event.HasField("session_created") and event.session_id != self._session_id:
                    self._session_id, self._ids = event.session_id, set()
                if event.message_appended.client_id:
                    self._ids.add(event.message_appended.client_id)
                self._cursor = event.cursor
            if not page.next_cursor:
                return self._ids
            request.after_cursor = page.next_cursor
