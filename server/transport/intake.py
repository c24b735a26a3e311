"""engine: the rest of a request's body, read from the socket by a worker thread.

While a SocketIntake is open, the event loop does not read the connection. The thread reads a
descriptor of its own, which stays valid when the connection is lost. It waits for a client that
sends nothing for `limits.INTAKE_WAIT_SECONDS` only once, and takes `limits.INTAKE_STEPS_MAX` pieces
for a buffer: after that the event loop receives what is left, by its own rules for slow, stopped
and lost clients. Never reads past the body.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from server import limits

UNREADABLE: Final = (OSError,)
"""TimeoutError of a client that sends nothing, and the errors of a lost connection."""


class SocketIntake:
    """See the module. Mutable: `taken_bytes` is what threads have read, of size_bytes; `is_reading`
    says that a thread waits for the client, not for the disk.

    own: the connection's socket under a descriptor that it closes. ended: called in the
    event loop when no thread reads any more.
    """

    def __init__(
        self, own: socket.socket, *, size_bytes: int, ended: Callable[[SocketIntake], None]
    ) -> None:
        own.settimeout(limits.INTAKE_WAIT_SECONDS)
        self._socket = own
        self._ended = ended
        self._is_stopped = False
        self.is_reading = False
        self.size_bytes = size_bytes
        self.taken_bytes = 0

    def read_into(self, buffer: memoryview) -> int:
        """Fill buffer with the next bytes of the body; return how many came. Blocks.

        Fewer than the buffer takes mean that the event loop has to receive the rest.
        """
        buffer = buffer[: self.size_bytes - self.taken_bytes]
        size_bytes = 0
        self.is_reading = True
        for _ in range(limits.INTAKE_STEPS_MAX):
            if self._is_stopped:
                break
            try:
                count = self._socket.recv_into(buffer[size_bytes:])
            except UNREADABLE:
                break
            size_bytes += count
            self.taken_bytes += count
            if not count or size_bytes == len(buffer):
                break
        self.is_reading = False
        return size_bytes

    def stop(self) -> None:
        """Let a thread read no further: the client is lost, or has stopped."""
        self._is_stopped = True

    def close(self) -> None:
        """Give the connection back to the event loop."""
        self._socket.close()
        self._ended(self)
