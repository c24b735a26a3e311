"""A program on a clock that is set by hand, and which of its requests its faces identified."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

import uvloop

from tests.kit import programs
from tests.server import requesting

HOST = "127.0.0.1:5253"
KEYS = {"access_key": "ROOTKEY", "secret_key": "root-secret"}


@contextlib.contextmanager
def started(folder, **settings):
    """Start a program with a bucket `raw` and an object `k` in it."""
    clock = requesting.Clock()
    with (
        programs.opened(folder, now_ms=clock, **settings) as (program, settings),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        programs.answering(program, settings, runner) as port,
    ):
        clocked = ClockedProgram(program, port, runner, clock)
        assert clocked.signed("PUT", "/raw").status == 200
        assert clocked.signed("PUT", "/raw/k", b"first").status == 200
        yield clocked


class ClockedProgram:
    """identified: the paths of the requests that its faces identified."""

    def __init__(self, program, port, runner, clock):
        self.program = program
        self.port = port
        self.runner = runner
        self.clock = clock
        self.identified = []
        for face in program.application._entry._faces.values():
            self._count(face)

    def _count(self, face):
        identify = face.identify

        def counting(request):
            self.identified.append(request.raw_path)
            return identify(request)

        with contextlib.suppress(AttributeError):
            face.identify = counting

    def send(self, method, target, headers=(), body=b""):
        headers = {"host": HOST} | {name.lower(): value for name, value in dict(headers).items()}
        if body:
            headers["content-length"] = str(len(body))
        return self.runner.run(self.port.send(method, target, headers, body))

    def signed(self, method, target, body=b"", **more):
        prepared = requesting.signed(
            method, f"http://{HOST}{target}", body=body, at_ms=self.clock.now_ms, **KEYS, **more
        )
        return self.send(method, target, prepared.headers.items(), body)

    def url(self, target, method="GET", **keys):
        """Return the target of a presigned URL that holds for an hour."""
        prepared = requesting.signed(
            method,
            f"http://{HOST}{target}",
            at_ms=self.clock.now_ms,
            expires_seconds=3600,
            **(keys or KEYS),
        )
        parts = urlsplit(prepared.url)
        return f"{parts.path}?{parts.query}"

    def counted(self, method, target, headers=()):
        """Send a request; return its answer and how many requests were identified for it."""
        before = len(self.identified)
        answer = self.send(method, target, headers)
        return answer, len(self.identified) - before

    def get(self, target, headers=(), method="GET", **keys):
        """Send a request with a signature of now in its header; see `counted`."""
        prepared = requesting.signed(
            method,
            f"http://{HOST}{target}",
            dict(headers).items(),
            at_ms=self.clock.now_ms,
            **{**KEYS, **keys},
        )
        return self.counted(method, target, prepared.headers.items())
