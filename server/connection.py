"""face: a connection before it is a request: heads are bounded in size and in time.

The HTTP parser keeps whatever a client sends until the head is whole, and would wait for it for
ever. Here a head, and whatever else comes without moving a body on (trailers, chunk extensions),
has `limits.HEAD_BYTES_MAX` bytes and `limits.HEAD_SECONDS_MAX` seconds; then the connection ends.
The one module that knows uvicorn's protocol class.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http import httptools_impl

from server import limits

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n"
CLOSING = b"connection: close\r\n\r\n"


class Connection(httptools_impl.HttpToolsProtocol):
    """uvicorn's, with bounds. A head that comes in one piece, as most do, starts no timer."""

    head_bytes_max = limits.HEAD_BYTES_MAX
    head_seconds_max: float = limits.HEAD_SECONDS_MAX

    _head_bytes = 0
    _in_head = True
    _between = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        if self._between:
            self._between = False
            self._in_head = True
        super().data_received(data)
        if self._head_bytes > self.head_bytes_max and not self.transport.is_closing():
            self._end(TOO_LARGE)
        elif self._in_head and self._timer is None:
            self._start_timer()

    def on_message_begin(self) -> None:
        self._between = False
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind a body is no part of the head, which was judged already.
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        self._between = True
        super().on_message_complete()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds_max, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._is_answering():
            self._start_timer()  # the next head may come late while this answer is going out
        elif not self.transport.is_closing():
            self._end(TOO_SLOW)

    def _end(self, status: bytes) -> None:
        if not self._is_answering():
            self.transport.write(status + CLOSING)
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete
