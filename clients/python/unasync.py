"""Writes the synchronous form of asynchronous modules: unasync.py FROM TO.

The client is written once, in the asynchronous form; what differs between the two by more than a word is in `_io.py` of
each, of which only the asynchronous one is left alone here.
"""

import re
import sys
from pathlib import Path

WORDS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\baclose\b", "close"),
    (r"\b(\w+Service)AsyncStub\b", r"\1Stub"),
    (r"\blonghand\._aio\b", "longhand._sync"),
]
HEADER = "# Made by `generate` from the module of the same name in `_aio`.\n"


def synchronous(text: str) -> str:
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return HEADER + text


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True)
    for path in sorted(source.glob("*.py")):
        own = path.with_name("_io_sync.txt") if path.name == "_io.py" else None
        text = own.read_text() if own else synchronous(path.read_text())
        (target / path.name).write_text(text)


main()
