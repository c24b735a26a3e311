"""The unit of the bench: uvicorn with its own protocol, one fixed answer of 4 KiB and no rule.

`python -m tests.bench.bare` listens on a free port of 127.0.0.1 and prints the port. What a request
costs here is what any server on uvicorn pays before it has done anything; server CPU per request
divided by it is steady from machine to machine and from hour to hour.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.kit import server as server_kit

BODY = b"x" * 4096
HEADERS = [(b"content-type", b"binary/octet-stream"), (b"content-length", b"4096")]
STOP_SECONDS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Bare:
    """A started bare server."""

    url: str
    pid: int


def started() -> AbstractContextManager[Bare]:
    """Start the bare server in a process of its own; end it afterwards."""
    return program("tests.bench.bare")


@contextmanager
def program(module: str, *arguments: str) -> Iterator[Bare]:
    """Start a module that prints its port, in a process of its own; end it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        cwd=server_kit.ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        port = json.loads(process.stdout.readline())["port"]
        yield Bare(url=f"http://127.0.0.1:{port}", pid=process.pid)
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


async def _application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


async def _serve() -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            _application,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            proxy_headers=False,
            log_level="warning",
        )
    )
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
