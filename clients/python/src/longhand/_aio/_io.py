"""What the asynchronous client has of asyncio and of `grpc.aio`; the synchronous client has another one."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc
import grpc.aio

from longhand.errors import overdue

if TYPE_CHECKING:
    from grpc.aio import StreamUnaryMultiCallable, UnaryStreamMultiCallable, UnaryUnaryMultiCallable

Request = TypeVar("Request")
Response = TypeVar("Response")
Metadata = tuple[tuple[str, str | bytes], ...]
Lock = asyncio.Lock
Channel = grpc.aio.Channel


def open_channel(
    address: str, options: Sequence[tuple[str, Any]], credentials: grpc.ChannelCredentials | None
) -> Channel:
    """A channel; it connects by itself, and again when the connection is lost."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, credentials, options=options)


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


#: What calls raise whose channel is closed.
CLOSED = (asyncio.CancelledError, grpc.aio.UsageError, ValueError)


def is_cancelled() -> bool:
    """True if the caller's own task is to end."""
    task: Any = asyncio.current_task()
    # Python 3.10 does not say.
    return bool(getattr(task, "cancelling", lambda: False)())


def current_loop() -> object:
    """What a client belongs to: the running event loop."""
    return asyncio.get_running_loop()


class Flag:
    """Something that becomes true once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is true, or for the time; the answer is whether it is true."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        return True


class Background:
    """Work beside the caller's."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._task = asyncio.ensure_future(work())

    async def stop(self, calls: Sequence[Any]) -> None:
        """Ends the work; `calls` are the streams that it reads."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Writer(Generic[Request, Response]):
    """A call that takes a stream of requests."""

    def __init__(self, method: StreamUnaryMultiCallable[Request, Response], metadata: Metadata) -> None:
        self._call: Any = method(metadata=metadata)

    async def write(self, request: Request, timeout: float) -> None:
        """Sends a request; waits while the daemon takes none. Raises the call's error if it has ended, or `overdue`."""
        try:
            await self._in_time(self._call.write(request), timeout)
        except asyncio.InvalidStateError:
            await self._call
            raise

    async def finish(self, timeout: float) -> Response:
        """Ends the stream of requests, and waits for the answer."""
        with contextlib.suppress(asyncio.InvalidStateError):
            await self._in_time(self._call.done_writing(), timeout)
        answer: Response = await self._in_time(self._call, timeout)
        return answer

    async def _in_time(self, work: Awaitable[Any], timeout: float) -> Any:
        try:
            return await asyncio.wait_for(work, None if timeout == math.inf else timeout)
        except asyncio.TimeoutError:
            self._call.cancel()
            raise overdue(timeout) from None

    def cancel(self) -> None:
        """Breaks the call off."""
        self._call.cancel()


__all__ = [
    "CLOSED",
    "Background",
    "Channel",
    "Flag",
    "Lock",
    "Metadata",
    "StreamUnaryMultiCallable",
    "UnaryStreamMultiCallable",
    "UnaryUnaryMultiCallable",
    "Writer",
    "current_loop",
    "is_cancelled",
    "open_channel",
    "sleep",
]
