"""wiring: starts each process of the program without NumPy and pandas.

Arrow works without both, the server uses neither, and its packages do not depend on them. Where
other programs have installed them in the same environment, Arrow would import NumPy at once (0.15 s
and 10 MB) and pandas with its first conversion (0.4 s and 45 MB), in the server and in each child.
In a process that has called `leave_out`, they are as absent as where they are not installed.

A child process is `python -m server.starting MODULE ARGUMENTS...`, which runs MODULE as
`python -m MODULE ARGUMENTS...` would.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any, Final

LEFT_OUT: Final = frozenset({"numpy", "pandas"})


def leave_out() -> None:
    """From now on, imports of packages LEFT_OUT fail in this process."""
    sys.meta_path.insert(0, _Refusal())


class _Refusal:
    """A finder by its form alone: to import its base class costs a child 40 ms."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname in LEFT_OUT:
            raise ModuleNotFoundError(f"{fullname} is not imported by the server", name=fullname)


if __name__ == "__main__":
    leave_out()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
