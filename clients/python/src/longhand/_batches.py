"""Changes that are too large for one request, in several; for the adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["batches"]

#: Messages of one request, and their bytes; a request has 512 messages and 12 MiB at most.
_MESSAGES, _BYTES = 500, 8 << 20

T = TypeVar("T")


def batches(items: Iterable[T], size: Callable[[T], int]) -> list[list[T]]:
    """The items in order, as many together as fit into one request; `size` says the bytes of one.

    An item that is too large alone is alone, and the daemon's to refuse.
    """
    made: list[list[T]] = []
    room = 0
    for item in items:
        needed = size(item)
        if not made or len(made[-1]) == _MESSAGES or needed > room:
            made.append([])
            room = _BYTES
        made[-1].append(item)
        room -= needed
    return made
