"""Daemons for tests: the program in `LONGHAND_BIN`, else that of the development build."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import longhand

BINARY = os.environ.get("LONGHAND_BIN") or str(Path(__file__).parents[3] / "target/debug/longhand")


def uncommon_words() -> str:
    """Words that nothing else has, of letters so rare that files have them as they are: most others are compressed."""
    return "".join(random.choices("^~`@%QXZJKVYW&;|!$", k=32))


class Daemon:
    """A daemon with a store of its own, which can be stopped and started again."""

    def __init__(self, config: str = "") -> None:
        # A socket's path has a hundred characters at most, and pytest's folders are longer.
        self.directory = Path(tempfile.mkdtemp(prefix="longhand-"))
        self.data_dir = self.directory / "store"
        self.config = self.directory / "longhand.toml"
        self.config.write_text(config)
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"unix:{self.data_dir}/longhand.sock"

    def start(self, failpoint: str | None = None) -> None:
        """Starts it, perhaps so that it dies at a point of its work."""
        environment = {**os.environ, **({"LONGHAND_FAILPOINT": failpoint} if failpoint else {})}
        arguments = ["serve", "--data-dir", str(self.data_dir), "--config", str(self.config)]
        with open(self.directory / "log", "a") as log:
            self.process = subprocess.Popen(
                [BINARY, *arguments], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "listens on" in line, (self.directory / "log").read_text()

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None

    def suspend(self) -> None:
        """Suspends it, and waits until all its threads are: until then they answer."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def restart_after_death(self) -> None:
        """Waits until it has died by itself, and starts it again."""
        assert self.process is not None
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.start()

    def restart(self, number: int = signal.SIGTERM) -> None:
        self.stop(number)
        self.start()

    def remove(self) -> None:
        if self.process is not None:
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.directory)


@pytest.fixture(scope="session")
def shared() -> Iterator[Daemon]:
    """One daemon for every test that leaves it running."""
    daemon = Daemon()
    yield daemon
    daemon.remove()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon of this test alone."""
    daemon = Daemon()
    yield daemon
    daemon.remove()


@pytest.fixture
def client(shared: Daemon) -> Iterator[longhand.Client]:
    with longhand.connect(shared.address, actor="tester") as client:
        yield client
