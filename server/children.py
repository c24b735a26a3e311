"""engine: starts child processes: modules of this program, each at the other end of a socket.

A child decodes files, runs SQL of clients or receives their bodies. The server's environment may
hold its root keys (`BOATHOUSE_SECRET_KEY`) and credentials of other services; a child gets none of
them, so that a fault in it cannot reveal them. Only the variables that are named here are passed
on. A child ends when its socket closes. What is said over the socket, and how many children there
are, its callers decide.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).resolve().parents[1]
"""The folder that children import from."""

NAMES: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ"}
)
"""Variables for finding files and writing text. Python looks for packages below HOME too."""

PREFIXES: Final = ("COVERAGE_", "DYLD_", "LC_", "LD_", "MALLOC_", "PYTHON")
"""Variables of the locale, the linker, the allocator, Python, and `make coverage`."""


class Child(NamedTuple):
    """A child process and the server's end of its socket. bulk: of its second socket."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    bulk: socket.socket | None = None


async def start(
    module: str,
    *arguments: str,
    buffer_bytes: int,
    leaves_out: bool = True,
    has_bulk: bool = False,
    **variables: str,
) -> Child:
    """Start a module with the arguments FD ARGUMENTS..., where FD is the child's end of the socket.

    buffer_bytes: read ahead of what the child sends. leaves_out: whether it is started by
    `server.starting`, which calls its `main`; PySpark imports what that leaves out. has_bulk:
    whether there is a second socket, both of whose ends block; its FD comes second. variables:
    further ones of its environment.
    """
    ends = 2 if has_bulk else 1
    process, (ours, *bulk) = await _spawn(
        module, *arguments, ends=ends, leaves_out=leaves_out, **variables
    )
    try:
        reader, writer = await asyncio.open_connection(sock=ours, limit=buffer_bytes)
    except BaseException:
        for end in (ours, *bulk):
            end.close()  # the child leaves
        raise
    return Child(process, reader, writer, *bulk)


async def start_bare(module: str) -> tuple[asyncio.subprocess.Process, socket.socket]:
    """Start a module with the argument FD, as `start` does; return its process and the server's end
    of its socket, for callers that pass descriptors over it."""
    process, (ours,) = await _spawn(module, ends=1, leaves_out=True)
    return process, ours


async def _spawn(
    module: str, *arguments: str, ends: int, leaves_out: bool, **variables: str
) -> tuple[asyncio.subprocess.Process, list[socket.socket]]:
    """Start a module with the arguments FD... ARGUMENTS..., as many FDs as it has ends of sockets;
    return its process and the server's ends of them."""
    pairs = [socket.socketpair() for _ in range(ends)]
    descriptors = [theirs.fileno() for _, theirs in pairs]
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *(("server.starting",) if leaves_out else ()),
            module,
            *map(str, descriptors),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=descriptors,
            cwd=CHECKOUT,
            env=environment(os.environ, **variables),
            start_new_session=True,  # Ctrl-C ends the server, which ends its children in order
        )
    except BaseException:
        for ours, _ in pairs:
            ours.close()
        raise
    finally:
        for _, theirs in pairs:
            theirs.close()
    return process, [ours for ours, _ in pairs]


def environment(own: Mapping[str, str], /, **more: str) -> dict[str, str]:
    """Return the environment of a child. own: the server's. more: further variables."""
    kept = {
        name: value for name, value in own.items() if name in NAMES or name.startswith(PREFIXES)
    }
    return {**kept, **more}
