"""What the synchronous client has of threads and of `grpc`."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc

from longhand.errors import overdue

if TYPE_CHECKING:
    from grpc import StreamUnaryMultiCallable, UnaryStreamMultiCallable, UnaryUnaryMultiCallable

Request = TypeVar("Request")
Response = TypeVar("Response")
Metadata = tuple[tuple[str, str | bytes], ...]
Lock = threading.Lock
Channel = grpc.Channel

#: Requests that wait to be sent, before the writer waits.
_WRITER_REQUESTS = 64


def open_channel(
    address: str, options: Sequence[tuple[str, Any]], credentials: grpc.ChannelCredentials | None
) -> Channel:
    """A channel; it connects by itself, and again when the connection is lost."""
    if credentials is None:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, credentials, options=options)


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


#: What calls raise whose channel is closed.
CLOSED = ValueError


def is_cancelled() -> bool:
    """False: no thread is ended from outside."""
    return False


def current_loop() -> object:
    """What a client belongs to: nothing, every thread may use it."""
    return None


class Flag:
    """Something that becomes true once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is true, or for the time; the answer is whether it is true."""
        return self._event.wait(timeout)


class Background:
    """Work beside the caller's."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def stop(self, calls: Sequence[Any]) -> None:
        """Ends the work, which has been told by a flag; `calls` are the streams that it reads."""
        for call in calls:
            call.cancel()
        self._thread.join(timeout=5)


class Writer(Generic[Request, Response]):
    """A call that takes a stream of requests."""

    def __init__(self, method: StreamUnaryMultiCallable[Request, Response], metadata: Metadata) -> None:
        self._requests: queue.Queue[Request | None] = queue.Queue(_WRITER_REQUESTS)
        self._call: Any = method.future(self._take(), metadata=metadata)

    def _take(self) -> Iterator[Request]:
        while (request := self._requests.get()) is not None:
            yield request

    def _put(self, request: Request | None, timeout: float) -> None:
        end = time.monotonic() + timeout
        while not self._call.done():
            try:
                self._requests.put(request, timeout=0.1)
            except queue.Full:
                if time.monotonic() > end:
                    self.cancel()
                    raise overdue(timeout) from None
                continue
            return
        if request is not None:
            self._call.result()

    def write(self, request: Request, timeout: float) -> None:
        """Sends a request; waits while the daemon takes none. Raises the call's error if it has ended, or `overdue`."""
        self._put(request, timeout)

    def finish(self, timeout: float) -> Response:
        """Ends the stream of requests, and waits for the answer."""
        self._put(None, timeout)
        try:
            answer: Response = self._call.result(None if timeout == math.inf else timeout)
        except grpc.FutureTimeoutError:
            self.cancel()
            raise overdue(timeout) from None
        return answer

    def cancel(self) -> None:
        """Breaks the call off."""
        self._call.cancel()
        # The thread that sends waits for a request.
        try:
            self._requests.put_nowait(None)
        except queue.Full:
            pass


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
