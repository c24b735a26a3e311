"""rule: the environment of child processes: what they need of the server's own, and no more.

A child decodes files or runs SQL that others wrote. The server's environment may hold its root
keys (`BOATHOUSE_SECRET_KEY`) and credentials of other services; a child gets neither, so that a
fault in what it runs cannot read them there. What a child needs is named, and everything else stays
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMES: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ"}
)
"""How a program finds files and writes text. Python looks for its packages below HOME too."""

PREFIXES: Final = ("COVERAGE_", "DYLD_", "LC_", "LD_", "MALLOC_", "PYTHON")
"""Of the locale, the linker, the allocator, Python, and `make coverage`."""


def environment(own: Mapping[str, str], /, **more: str) -> dict[str, str]:
    """Return the environment of a child. own: the server's. more: what this child needs beside."""
    kept = {
        name: value for name, value in own.items() if name in NAMES or name.startswith(PREFIXES)
    }
    return {**kept, **more}
