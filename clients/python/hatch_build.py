"""Puts the daemon's program into the wheel, whose tag then names the platform; see `build`."""

from __future__ import annotations

import os
import platform
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def platform_tag() -> str:
    """The platform on which the program runs: on Linux that with the C library of this machine, or a newer one."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    library, version = platform.libc_ver()
    if name.startswith("linux_") and library == "glibc":
        return f"manylinux_{version.replace('.', '_')}_{name.removeprefix('linux_')}"
    return name


class Program(BuildHookInterface[Any]):
    """Without `LONGHAND_WHEEL_BIN` the wheel is the client alone, for every platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program = os.environ.get("LONGHAND_WHEEL_BIN")
        if program is None or version == "editable":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["force_include"][os.path.abspath(program)] = "longhand/_bin/longhand"
