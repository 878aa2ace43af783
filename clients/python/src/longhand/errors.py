"""Errors of calls, as exceptions with the daemon's reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from longhand import _status_pb2 as status

__all__ = [
    "ClientClosed",
    "Error",
    "InvalidText",
    "RunLost",
    "Unreachable",
    "VersionMismatch",
    "WrongEventLoop",
    "of_call",
    "overdue",
]

#: Where gRPC puts the details of an error.
_DETAILS = "grpc-status-details-bin"
#: Reasons of code UNAVAILABLE that another attempt does not change.
_LASTING = frozenset({"STORAGE_READ_ONLY"})


class Error(Exception):
    """A call failed. `reason` is stable, and the protocol lists what each one means for the call."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        metadata: Mapping[str, str] | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {message}" if reason else message)
        #: The daemon's words.
        self.message = message
        #: The daemon's reason; empty where the daemon did not answer, and for the caller's own deadline.
        self.reason = reason
        #: The code of the status.
        self.code = code
        #: Every changing part of the message, by name.
        self.metadata: dict[str, str] = dict(metadata or {})
        #: When the daemon wants the next attempt, in seconds; None if it does not say.
        self.retry_seconds = retry_seconds

    @property
    def temporary(self) -> bool:
        """True if the same call can succeed later; with its `request_id` it is then carried out once."""
        if self.reason in _LASTING:
            return False
        if self.code is grpc.StatusCode.UNAVAILABLE or self.reason == "ANSWER_LOST":
            return True
        return self.code is grpc.StatusCode.RESOURCE_EXHAUSTED and self.retry_seconds is not None


class Unreachable(Error):
    """No daemon answers, and none could be started."""


class VersionMismatch(Error):
    """The daemon speaks another version of the protocol than this client."""


class RunLost(Error):
    """The run is not the session's active one any more; nothing was written."""


class ClientClosed(Error):
    """The client was closed before the call, or while it was made."""


class WrongEventLoop(Error):
    """The client belongs to another event loop, which may be closed: each loop needs one of its own."""


class InvalidText(Error, ValueError):
    """A text has half of a surrogate pair, so that it has no form in UTF-8. Nothing was sent."""


def overdue(seconds: float) -> Error:
    """The error of a call whose time is over. A change may have been carried out."""
    return Error(f"no answer in {seconds:g} s", code=grpc.StatusCode.DEADLINE_EXCEEDED)


def of_call(error: grpc.RpcError) -> Error:
    """The exception for a failed call."""
    code = error.code() if isinstance(error, grpc.Call) or hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    text = (error.details() if hasattr(error, "details") else None) or code.name
    trailers: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    reason, metadata, retry_seconds = "", {}, None
    for key, value in trailers or ():
        if key != _DETAILS or not isinstance(value, bytes):
            continue
        for detail in status.Status.FromString(value).details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                info = status.ErrorInfo.FromString(detail.value)
                reason, metadata = info.reason, dict(info.metadata)
            elif detail.type_url.endswith("/google.rpc.RetryInfo"):
                retry_seconds = status.RetryInfo.FromString(detail.value).retry_delay.ToTimedelta().total_seconds()
    kind = RunLost if reason == "RUN_LOST" else Error
    return kind(text, reason=reason, code=code, metadata=metadata, retry_seconds=retry_seconds)
