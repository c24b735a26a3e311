"""rule: the environment of child processes.

A child decodes files or runs SQL of clients. The server's environment may hold its root keys
(`BOATHOUSE_SECRET_KEY`) and credentials of other services; a child gets none of them, so that a
fault in it cannot reveal them. Only the variables that are named here are passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMES: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ"}
)
"""Variables for finding files and writing text. Python looks for packages below HOME too."""

PREFIXES: Final = ("COVERAGE_", "DYLD_", "LC_", "LD_", "MALLOC_", "PYTHON")
"""Variables of the locale, the linker, the allocator, Python, and `make coverage`."""


def environment(own: Mapping[str, str], /, **more: str) -> dict[str, str]:
    """Return the environment of a child. own: the server's. more: further variables."""
    kept = {
        name: value for name, value in own.items() if name in NAMES or name.startswith(PREFIXES)
    }
    return {**kept, **more}
