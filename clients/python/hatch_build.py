"""Puts the daemon's program into the wheel, whose tag then names the platform; see `build`."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def platform_tag(program: str) -> str:
    """The platform on which the program runs: on Linux that with the C library that it needs, or a newer one."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if not name.startswith("linux_"):
        return name
    script = Path(__file__).parent.parent.parent / "packaging" / "glibc"
    version = subprocess.run([script, program], check=True, capture_output=True, text=True).stdout.strip()
    return f"manylinux_{version.replace('.', '_')}_{name.removeprefix('linux_')}"


class Program(BuildHookInterface[Any]):
    """Without `LONGHAND_WHEEL_BIN` the wheel is the client alone, for every platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program = os.environ.get("LONGHAND_WHEEL_BIN")
        if program is None or version == "editable":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(program)}"
        # Beside the environment's Python, where a shell finds it, too.
        build_data["shared_scripts"][os.path.abspath(program)] = "longhand"
