"""wiring: starts each process of the program without NumPy and pandas, and without searches for
cycles among what it imports.

Arrow works without both, the server uses neither, and its packages do not depend on them. Where
other programs have installed them in the same environment, Arrow would import NumPy at once (0.15 s
and 10 MB) and pandas with its first conversion (0.4 s and 45 MB), in the server and in each child.
In a process that has called `leave_out`, they are as absent as where they are not installed.

All that imports make stays until the process ends, but for some hundred objects. Python would look
for cycles among it again and again: 60 to 70 ms of the 430 ms of CPU time that the server's imports
take, 50 of a child that compiles statements, 20 of one that runs them.

A child process is `python -m server.starting MODULE ARGUMENTS...`, which imports MODULE and calls
its `main` with the list of arguments.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any, Final

LEFT_OUT: Final = frozenset({"numpy", "pandas"})


def leave_out() -> None:
    """From now on, imports of packages LEFT_OUT fail in this process."""
    sys.meta_path.insert(0, _Refusal())


def begin_imports() -> None:
    """From now on, Python does not look for cycles."""
    gc.disable()


def end_imports() -> None:
    """Let Python look for cycles again, but never among the objects that exist now."""
    gc.freeze()
    gc.enable()


class _Refusal:
    """A finder by its form alone: to import its base class costs a child 40 ms."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname in LEFT_OUT:
            raise ModuleNotFoundError(f"{fullname} is not imported by the server", name=fullname)


if __name__ == "__main__":
    leave_out()
    begin_imports()
    child = importlib.import_module(sys.argv[1])
    end_imports()
    child.main(sys.argv[2:])
