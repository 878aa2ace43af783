"""Longhand: sessions that LLM agents share.

`longhand.connect()` finds the daemon, or starts one; `longhand.aio.connect()` is the same for asyncio.
"""

from longhand import v1
from longhand._sync.client import Client, connect
from longhand._sync.reply import DraftReply, Reply
from longhand._sync.run import Run
from longhand._sync.session import START, FormattedView, Session, View
from longhand._sync.summary import SummaryTask
from longhand.errors import ClientClosed, Error, InvalidText, RunLost, Unreachable, VersionMismatch, WrongEventLoop
from longhand.parts import (
    assistant,
    media,
    message,
    opaque,
    plain_text,
    reasoning,
    record,
    system,
    text,
    tool,
    tool_call,
    tool_result,
    usage,
    user,
)
from longhand.version import VERSION as __version__

__all__ = [
    "START",
    "Client",
    "ClientClosed",
    "DraftReply",
    "Error",
    "FormattedView",
    "InvalidText",
    "Reply",
    "Run",
    "RunLost",
    "Session",
    "SummaryTask",
    "Unreachable",
    "VersionMismatch",
    "View",
    "WrongEventLoop",
    "__version__",
    "assistant",
    "connect",
    "media",
    "message",
    "opaque",
    "plain_text",
    "reasoning",
    "record",
    "system",
    "text",
    "tool",
    "tool_call",
    "tool_result",
    "usage",
    "user",
    "v1",
]
