"""What requests have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeVar, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as Protobuf

from longhand._aio import _io

__all__ = ["duration", "pages"]

Request = TypeVar("Request", bound=Protobuf)
Response = TypeVar("Response", bound=Protobuf)


class Call(Protocol):
    """How a client or a session makes one call."""

    async def __call__(self, method: _io.UnaryUnaryMultiCallable[Request, Response], request: Request, /) -> Response:
        """The answer to the request."""


def duration(seconds: float | None) -> Duration | None:
    """A duration of the protocol; None stays so."""
    if seconds is None:
        return None
    made = Duration()
    made.FromNanoseconds(int(seconds * 1e9))
    return made


async def pages(
    call: Call, method: _io.UnaryUnaryMultiCallable[Request, Response], request: Request
) -> AsyncIterator[Response]:
    """The pages of a list, each by a call; the request is changed from one to the next."""
    while True:
        page = await call(method, request)
        yield page
        token = cast(Any, page).next_page_token
        if not token:
            return
        cast(Any, request).page_token = token
