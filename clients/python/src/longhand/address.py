"""The daemon's address, the access token, and the start of a daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["Target", "binary", "default_data_dir", "spawn", "target"]


@dataclass(frozen=True)
class Target:
    """What reaches a daemon, and proves who asks."""

    #: The address as gRPC takes it: `unix:/path` or `host:port`.
    address: str
    #: True if the connection is encrypted.
    tls: bool = False
    #: The access token; none on a Unix socket.
    token: str | None = None
    #: Certificates in PEM of which the daemon's must be one; None for those that gRPC trusts.
    authorities: bytes | None = None
    #: The data directory, if its daemon may be started here.
    data_dir: Path | None = None


def default_data_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The data directory of a daemon without arguments."""
    if data := environment.get("XDG_DATA_HOME"):
        return Path(data) / "longhand"
    home = Path(environment.get("HOME") or ".")
    return home / ("Library/Application Support/longhand" if sys.platform == "darwin" else ".local/share/longhand")


def target(
    address: str | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    token: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """Finds the daemon as the command line does.

    The address is the given one, else that of the socket in the given data directory, else `LONGHAND_SERVER`, else the
    socket in the default data directory. The access token, for TCP alone, is the given one, else that in the file
    `LONGHAND_TOKEN_FILE`, else `LONGHAND_TOKEN`, else the owner's in the data directory for an address of this machine.
    """
    directory = Path(data_dir) if data_dir is not None else default_data_dir(environment)
    if address is None and data_dir is None:
        address = environment.get("LONGHAND_SERVER") or None
    if address is None:
        return Target(f"unix:{(directory / 'longhand.sock').absolute()}", data_dir=directory)
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        path = path.removeprefix("//") if path.startswith("//") else path
        if not path:
            raise ValueError(f"{address!r} names no socket: unix:/path")
        return Target(f"unix:{path}")
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or not url.hostname or url.port is None or url.path not in ("", "/"):
        raise ValueError(f"{address!r} is no server address: http://host:port, https://host:port or unix:/path")
    if token is None and (file := environment.get("LONGHAND_TOKEN_FILE")):
        token = Path(file).read_text()
    if token is None:
        token = environment.get("LONGHAND_TOKEN") or None
    local = url.hostname == "localhost" or url.hostname == "::1" or url.hostname.startswith("127.")
    if token is None and local and (directory / "access-token").exists():
        token = (directory / "access-token").read_text()
    authorities = ca_file or environment.get("LONGHAND_CA_FILE") or None
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return Target(
        f"{host}:{url.port}",
        tls=url.scheme == "https",
        token=token.strip() if token else None,
        authorities=Path(authorities).read_bytes() if authorities else None,
    )


def binary(environment: Mapping[str, str] = os.environ) -> str | None:
    """The daemon's program: `LONGHAND_BIN`, else the one of this package, else the one on the path."""
    if named := environment.get("LONGHAND_BIN"):
        return named
    return packaged() or shutil.which("longhand", path=environment.get("PATH"))


def packaged() -> str | None:
    """The program that came with this package, which an installer puts where the environment has its scripts."""
    try:
        files = distribution("longhand").files or []
    except PackageNotFoundError:
        return None
    scripts = (Path(str(file.locate())).resolve() for file in files if file.name == "longhand")
    return next((str(script) for script in scripts if script.is_file()), None)


def spawn(data_dir: Path, program: str, arguments: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """Starts a daemon that outlives this process. Its log is `longhand.log` in the data directory.

    Of two that start at once, one holds the directory, and the other one ends.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(data_dir / "longhand.log", "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        return subprocess.Popen(
            [program, "serve", "--data-dir", str(data_dir), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
