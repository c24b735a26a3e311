"""A door between a job and the server, at which a test stands and counts what passes."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 60
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect"}

# Called with the method and the raw path; True closes the door for good: the client that asks
# sees its connection end, and so does every later one.
Watch = Callable[[str, str], bool]


def never(method: str, path: str) -> bool:
    return False


class Door:
    """Forwards requests unchanged, until told to close. url: what a client is told."""

    def __init__(self, upstream: str, *, before: Watch, after: Watch) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.before = before
        self.after = after
        self.closed = threading.Event()
        self.passed: list[tuple[str, str]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def door(upstream: str, *, before: Watch = never, after: Watch = never) -> Iterator[Door]:
    """Open a door to upstream. before: asked ahead of forwarding; after: once it has answered."""
    opened = Door(upstream, before=before, after=after)
    thread = threading.Thread(target=opened.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield opened
    finally:
        opened.server.shutdown()
        opened.server.server_close()
        thread.join()


def _handler(place: Door) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            with contextlib.suppress(ConnectionError):
                super().handle_one_request()

        def pass_on(self) -> None:
            body = self._body()
            if place.closed.is_set() or place.before(self.command, self.path):
                return self._shut()
            upstream = http.client.HTTPConnection(place.upstream, timeout=TIMEOUT_SECONDS)
            with contextlib.closing(upstream):
                upstream.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in self.headers.items():
                    if name.lower() not in HOP_BY_HOP:
                        upstream.putheader(name, value)
                upstream.endheaders(body)
                answer = upstream.getresponse()
                content = answer.read()
            place.passed.append((self.command, self.path))
            if place.closed.is_set() or place.after(self.command, self.path):
                return self._shut()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            if answer.getheader("Content-Length") is None and answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return None

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            # Length and bytes of each chunk; sent on in one piece.
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            del self.headers["Content-Length"]
            self.headers["Content-Length"] = str(sum(map(len, parts)))
            return b"".join(parts)

        def _shut(self) -> None:
            place.closed.set()
            self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815 - the library's names

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    return Handler
