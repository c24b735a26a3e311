"""engine: the rest of a request's body, received by another process from the connection's socket.

While a SocketIntake is open, the event loop does not read the connection. The process has a
descriptor of its own, and never reads past the body. The event loop still sees what the client does
of it: how much the process has written, and whether bytes wait in the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from server import receiving
from storage.blobs import BodyEnd
from storage.bodyfiles import BodyFile

_INT: Final = struct.Struct("i")


class SocketIntake:
    """See the module. Mutable: it is started once, and ends by itself, when the process answers.

    own: the connection's socket under a descriptor that it closes. size_bytes: the length of the
    rest. ended: called in the event loop at the end; until then nothing else may read the socket.
    """

    def __init__(
        self,
        own: socket.socket,
        receivers: receiving.Receivers,
        *,
        size_bytes: int,
        ended: Callable[[SocketIntake], None],
    ) -> None:
        self._socket = own
        self._receivers = receivers
        self._ended = ended
        self._file: BodyFile | None = None
        self._begun_bytes = 0
        self._transfer: receiving.BodyTransfer | None = None
        self.size_bytes = size_bytes

    def start(
        self, file: BodyFile, received: Sequence[bytes], digests: Iterable[str]
    ) -> asyncio.Future[BodyEnd]:
        """Let a process receive the rest into a new file, behind what was received before."""
        self._file = file
        self._begun_bytes = sum(map(len, received))
        self._transfer = self._receivers.receive(
            self._socket.fileno(),
            size_bytes=self.size_bytes,
            received=received,
            digests=digests,
            file=file,
        )
        self._transfer.ended.add_done_callback(self._end)
        return self._transfer.ended

    @property
    def taken_bytes(self) -> int | None:
        """What of the rest was taken from the socket; None if the process was lost."""
        if self._transfer is not None and self._transfer.ended.done():
            ended = self._transfer.ended
            if ended.cancelled() or ended.exception() is not None:
                return None
            return ended.result().taken_bytes
        written_bytes = 0 if self._file is None else self._file.written_bytes() or 0
        return max(written_bytes - self._begun_bytes, 0)

    @property
    def waits_for_client(self) -> bool:
        """Whether the client owes more of the body, and nothing waits for the process."""
        if self._transfer is None or self._transfer.ended.done():
            return False
        if self.taken_bytes == self.size_bytes:
            return False
        with contextlib.suppress(OSError):
            answer = fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, bytes(_INT.size))
            (waiting_bytes,) = _INT.unpack(answer)
            return bool(waiting_bytes == 0)
        return True

    def stop(self) -> None:
        """Let the process read no further: the client is lost, or has stopped."""
        if self._transfer is not None:
            self._transfer.stop()

    def _end(self, _: asyncio.Future[BodyEnd]) -> None:
        self._socket.close()
        self._ended(self)
