"""The client for asyncio: everything as in `longhand`, with `await`."""

from longhand._aio.client import Client, connect
from longhand._aio.reply import DraftReply, Reply
from longhand._aio.run import Run
from longhand._aio.session import START, FormattedView, Session, View
from longhand._aio.summary import SummaryTask

__all__ = [
    "START",
    "Client",
    "DraftReply",
    "FormattedView",
    "Reply",
    "Run",
    "Session",
    "SummaryTask",
    "View",
    "connect",
]
