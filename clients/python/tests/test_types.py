"""Mistakes that a type checker must find, and a program without one."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: Each line that is a mistake says so.
PROGRAM = """
import longhand
from longhand import aio, v1

client = longhand.connect(timeout=3.0)
session = client.create_session("tidewater", window=64_000)
view = session.view(overflow=v1.OVERFLOW_ACTION_WAIT)
session.append(longhand.assistant("4", view_token=view.token, client_id="a", model="m"))
session.append(longhand.user(["Look", longhand.media("image/png", b"")], metadata={"a": 1}))
for hit in session.search("harb*", newest_first=True, roles=[v1.ROLE_USER]):
    print(hit.session_id)
for event in session.events(from_beginning=True, kinds=[v1.EVENT_KIND_COMPACTED]):
    print(event.cursor)
formatted = session.formatted_view("anthropic")
session.append_provider("anthropic", {"role": "assistant"}, view=formatted)
session.with_options(timeout=1.5).append("Hello")

longhand.user("Hello", clientid="a")  # mistake
longhand.user("Hello", model=3)  # mistake
longhand.system("Hello", finish="stop")  # mistake
longhand.tool(longhand.tool_result("c", "out"), provder="x")  # mistake
longhand.assistant("4", view=view)  # mistake
longhand.assistant("4", usage={"input_tokens": 3})  # mistake
session.search("harb*", newest=True)  # mistake
session.search("harb*", page_size="10")  # mistake
session.events(kind=[v1.EVENT_KIND_COMPACTED])  # mistake
session.frames(snapshot="yes")  # mistake
session.formatted_view("antropic")  # mistake
session.append_provider("anthropic", {}, view=view.token)  # mistake
session.append(3)  # mistake
longhand.media("image/png", 3)  # mistake
client.with_options(retries=3)  # mistake
longhand.connect(timeout="3")  # mistake
longhand.tool_result("c", "out", attachments=["x"])  # mistake
async def work() -> None:
    other = await aio.connect()
    other.session("x").append("y").revision  # mistake
    await other.session("x").append("y", expected_revision="3")  # mistake
"""


def test_a_type_checker_finds_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None or sys.version_info < (3, 11):
        pytest.skip("types are checked with a newer Python")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), "--strict", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    found = {int(number) for number in re.findall(r"program\.py:(\d+): error", result.stdout)}
    lines = PROGRAM.splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert found == wanted, result.stdout
