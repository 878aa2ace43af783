"""The examples of the repository, and that of the README, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Daemon

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "clients/python/src"


def run(program: list[str], daemon: Daemon) -> str:
    environment = {**os.environ, "LONGHAND_SERVER": daemon.address, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, *program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_runs(shared: Daemon) -> None:
    readme = (ROOT / "clients/python/README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    output = run(["-c", code], shared)
    assert "What is 2 + 2?" in output
    assert "window_tokens: 64000" in output


@pytest.mark.parametrize(("name", "package"), [("openai_agents", "agents"), ("langgraph_agent", "langchain")])
def test_an_example_runs(shared: Daemon, name: str, package: str) -> None:
    pytest.importorskip(package)
    path = ROOT / f"examples/{name}.py"
    assert len(path.read_text().splitlines()) < 60
    lines = run([str(path)], shared).splitlines()
    # Each agent took one prompt, and the second one saw what the first one had said.
    assert sorted(line.split(":")[0] for line in lines[:2]) == ["coder", "planner"]
    assert "given 1 messages; the last is: Plan the harbour" in lines[0]
    assert "given 3 messages; the last is: Build the harbour" in lines[1]
    first, second = (line.split(":")[0] for line in lines[:2])
    assert [line.split()[0] for line in lines[2:]] == ["person", first, "person", second]
