# Made by `generate` from the module of the same name in `_aio`.
"""What requests have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypedDict, TypeVar, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as Protobuf

from longhand import v1
from longhand._sync import _io

__all__ = ["EventOptions", "FrameOptions", "SearchOptions", "duration", "pages"]

Request = TypeVar("Request", bound=Protobuf)
Response = TypeVar("Response", bound=Protobuf)


class EventOptions(TypedDict, total=False):
    """How events are followed, as `Client.events` has it."""

    after_cursor: str | None
    from_beginning: bool
    kinds: Sequence[v1.EventKind.ValueType]
    include_content: bool
    root_session_id: str | None
    project: str | None
    retry_seconds: float


class FrameOptions(EventOptions, total=False):
    """How frames are followed, as `Client.frames` has it."""

    snapshot: bool
    include_deltas: bool
    include_presence: bool
    progress_seconds: float | None


class SearchOptions(TypedDict, total=False):
    """What is searched for in a session, as `Client.search` has it."""

    roles: Sequence[v1.Role.ValueType]
    tools: Sequence[str]
    part_types: Sequence[v1.PartType.ValueType]
    exclude_records: bool
    require_every_term: bool
    newest_first: bool
    page_size: int
    min_seq: int
    wait_seconds: float


class Call(Protocol):
    """How a client or a session makes one call."""

    def __call__(self, method: _io.UnaryUnaryMultiCallable[Request, Response], request: Request, /) -> Response:
        """The answer to the request."""


def duration(seconds: float | None) -> Duration | None:
    """A duration of the protocol; None stays so."""
    if seconds is None:
        return None
    made = Duration()
    made.FromNanoseconds(int(seconds * 1e9))
    return made


def pages(
    call: Call, method: _io.UnaryUnaryMultiCallable[Request, Response], request: Request
) -> Iterator[Response]:
    """The pages of a list, each by a call; the request is changed from one to the next."""
    while True:
        page = call(method, request)
        yield page
        token = cast(Any, page).next_page_token
        if not token:
            return
        cast(Any, request).page_token = token
