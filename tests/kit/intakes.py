"""What receives large bodies, in threads instead of processes, so that their disk can be any."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator

from server import receiving, receiving_child
from server.transport import intake as intakes
from storage.disk import Disk
from tests.kit.faulty_disk import PowerCut
from tests.kit.waits import WAIT_SECONDS


class _Thread:
    """A thread in the place of a process; it ends as one does, when its channel closes."""

    pid = os.getpid()

    def __init__(self, channel: socket.socket, disk: Disk) -> None:
        self._channel = channel
        self._disk = disk
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(PowerCut):
            receiving_child.ReceivingChild(self._channel, self._disk).run()

    async def wait(self) -> int:
        await asyncio.to_thread(self._thread.join, WAIT_SECONDS)
        assert not self._thread.is_alive(), "it did not end with its channel"
        return 0

    def kill(self) -> None:
        raise AssertionError("it did not end with its channel")


def threads(disk: Disk) -> receiving.Start:
    """Return what starts a thread in the place of a process, with this disk."""

    async def start() -> tuple[_Thread, socket.socket]:
        ours, theirs = socket.socketpair()
        return _Thread(theirs, disk), ours

    return start


@contextlib.asynccontextmanager
async def receivers_of(disk: Disk) -> AsyncIterator[receiving.Receivers]:
    """Start what receives bodies, with this disk; end it afterwards."""
    receivers = receiving.Receivers(threads(disk))
    assert await receivers.start()
    try:
        yield receivers
    finally:
        await receivers.close()


class Sent:
    """An intake whose client sends data up to sent_bytes, then waits, until `send` sends more.

    endings: how often it has ended.
    """

    def __init__(
        self, receivers: receiving.Receivers, data: bytes, *, sent_bytes: int | None = None
    ) -> None:
        self.client, own = socket.socketpair()
        self.endings = 0
        self.intake = intakes.SocketIntake(
            own, receivers, size_bytes=len(data), ended=self._note_end
        )
        self._data = memoryview(data)
        self._sender: threading.Thread | None = None
        self.send(len(data) if sent_bytes is None else sent_bytes)

    def send(self, count: int) -> None:
        """Send the next bytes, in a thread."""
        self.join()
        data, self._data = self._data[:count], self._data[count:]
        self._sender = threading.Thread(target=self._send, args=(data,))
        self._sender.start()

    def join(self) -> None:
        if self._sender is not None:
            self._sender.join()

    def _send(self, data: memoryview) -> None:
        with contextlib.suppress(OSError):
            self.client.sendall(data)

    def _note_end(self, _: object) -> None:
        self.endings += 1


@contextlib.contextmanager
def sending(
    receivers: receiving.Receivers, data: bytes, *, sent_bytes: int | None = None
) -> Iterator[Sent]:
    """Yield an intake of data; close its client's socket afterwards."""
    sent = Sent(receivers, data, sent_bytes=sent_bytes)
    try:
        yield sent
    finally:
        with contextlib.suppress(OSError):
            sent.client.shutdown(socket.SHUT_RDWR)
        sent.join()
        sent.client.close()
