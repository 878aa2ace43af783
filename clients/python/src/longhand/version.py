"""Versions of client, daemon and protocol."""

from __future__ import annotations

__all__ = ["VERSION", "same_protocol"]

#: The version of this client, and of the daemon that its wheel carries.
VERSION = "0.1.0"


def same_protocol(version: str) -> bool:
    """True if a daemon of this version speaks this client's protocol: before 1.0, one of the same minor version."""
    theirs, ours = version.split("."), VERSION.split(".")
    return theirs[0] == ours[0] if ours[0] != "0" else theirs[:2] == ours[:2]
