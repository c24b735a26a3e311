"""engine: a process that receives large bodies from their clients' sockets, hashes and stores them.

The server sends a Job with the socket and what it has already received of the body, or a Stop. Each
Job is answered once, by an Answer. One thread waits for all sockets and takes from each what has
come, at most STEP_BYTES at a time, into one buffer, so that any number of slow clients costs no
memory. While there are others, a whole file is published by a thread of its own, since a sync may
take long. Nothing is read past a body.
When the server's end of the channel closes, the process ends; no record names what it has
written, and a start removes it. SIGTERM does not end it: systemd sends that to all processes of a
service, and the server then waits for bodies that are under way.

Started by `server.receiving`, as `python -m server.starting server.receiving_child FD`.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import queue
import resource
import selectors
import signal
import socket
import struct
import threading
from pathlib import Path
from typing import Final

import msgspec

from storage import errors
from storage.bodyfiles import BodyFile
from storage.checksums import Digester
from storage.disk import Disk

STEP_BYTES: Final = 256 << 10
"""What is taken of a body at a time: it stays in the processor's cache while it is hashed."""
PUBLISHERS: Final = 4
"""Threads that publish files."""
MESSAGE_BYTES_MAX: Final = 64 << 10
RECEIVED_BYTES_MAX: Final = 2 << 20
"""Of what the server has received of a body before."""
DESCRIPTORS_BYTES: Final = socket.CMSG_SPACE(16 * array.array("i").itemsize)

FRAME: Final = struct.Struct("<II")
"""Before each message: its length, and the length of the bytes of a body that follow it."""


class Job(msgspec.Struct, frozen=True, tag=True):
    """A body to receive; its socket comes with the message. size_bytes: what its client has still
    to send. digests: algorithms. aside, place: the paths of its file."""

    number: int
    size_bytes: int
    digests: tuple[str, ...]
    aside: str
    place: str


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Receive no more of this Job's body. It is answered like one whose client was lost."""

    number: int


class Answer(msgspec.Struct, frozen=True):
    """The end of a Job. taken_bytes: what was read from the socket. digests: of the whole body, if
    it came whole and is durable. full, error: why it could not be stored; full: DiskFull, or
    DiskReadOnly."""

    number: int
    taken_bytes: int
    digests: dict[str, bytes] | None = None
    full: str = ""
    error: str = ""


REFUSALS: Final = (errors.DiskFull, OSError)
"""Errors of the disk, which end one Job. Others end the process."""

DECODE: Final = msgspec.msgpack.Decoder(Job | Stop).decode


class _Body:
    """What has come of one body. Mutable."""

    __slots__ = ("descriptor", "digester", "file", "job", "left_bytes")

    def __init__(self, job: Job, descriptor: int, disk: Disk) -> None:
        self.job = job
        self.descriptor = descriptor
        self.digester = Digester(job.digests)
        self.file = BodyFile(disk=disk, aside=Path(job.aside), place=Path(job.place))
        self.left_bytes = job.size_bytes

    @property
    def taken_bytes(self) -> int:
        return self.job.size_bytes - self.left_bytes

    def add(self, data: memoryview) -> None:
        self.digester.update(data)
        self.file.write(data)


class ReceivingChild:
    """All bodies of this process. Mutable. channel: the child's end of the server's socket."""

    def __init__(self, channel: socket.socket, disk: Disk) -> None:
        self._channel = channel
        self._disk = disk
        self._selector = selectors.DefaultSelector()
        self._bodies: dict[int, _Body] = {}
        self._buffer = memoryview(bytearray(STEP_BYTES))
        self._frames = memoryview(bytearray(FRAME.size + MESSAGE_BYTES_MAX + RECEIVED_BYTES_MAX))
        self._held_bytes = 0
        self._descriptors: list[int] = []
        self._whole: queue.SimpleQueue[_Body | None] = queue.SimpleQueue()
        self._answering = threading.Lock()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Serve until the server closes the channel. Raises what is no refusal of the disk."""
        for _ in range(PUBLISHERS):
            threading.Thread(target=self._publish_all, daemon=True).start()
        self._selector.register(self._channel, selectors.EVENT_READ)
        try:
            while self._serve_once():
                pass
        finally:
            for _ in range(PUBLISHERS):
                self._whole.put(None)
            for body in self._bodies.values():
                os.close(body.descriptor)
                body.file.close()
            self._selector.close()
            self._channel.close()
        if self._error is not None:
            raise self._error

    def _serve_once(self) -> bool:
        """Wait for what comes, and take it; return whether the server may send more."""
        for key, _ in self._selector.select():
            if key.data is not None:
                self._step(key.data)
            elif not self._listen():
                return False
        return True

    def _listen(self) -> bool:
        """Take what the server has sent; return whether it may send more."""
        try:
            count, ancillary, flags, _ = self._channel.recvmsg_into(
                [self._frames[self._held_bytes :]], DESCRIPTORS_BYTES, socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        if not count:
            return False
        if flags & socket.MSG_CTRUNC:
            # The next descriptor would be taken for the one that is missing.
            raise OSError(errno.EMFILE, "the system had no descriptor for a body's socket")
        for level, content, data in ancillary:
            if level == socket.SOL_SOCKET and content == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
                self._descriptors += descriptors
        self._held_bytes += count
        start = 0
        while self._held_bytes - start >= FRAME.size:
            message_bytes, body_bytes = FRAME.unpack_from(self._frames, start)
            body_at = start + FRAME.size + message_bytes
            if body_at + body_bytes > self._held_bytes:
                break
            message = DECODE(self._frames[start + FRAME.size : body_at])
            start = body_at + body_bytes
            if isinstance(message, Stop):
                self._stop(message)
            else:
                self._begin(message, self._frames[body_at:start])
        if start:
            self._held_bytes -= start
            self._frames[: self._held_bytes] = self._frames[start : start + self._held_bytes]
        return True

    def _begin(self, job: Job, received: memoryview) -> None:
        body = _Body(job, self._descriptors.pop(0), self._disk)
        os.set_blocking(body.descriptor, False)
        self._bodies[job.number] = body
        self._selector.register(body.descriptor, selectors.EVENT_READ, body)
        try:
            if received:
                body.add(received)
        except REFUSALS as error:
            self._fail(body, error)

    def _stop(self, message: Stop) -> None:
        body = self._bodies.get(message.number)
        if body is not None:
            self._end_early(body)

    def _end_early(self, body: _Body) -> None:
        self._leave(body)
        body.file.close()
        self._answer(Answer(body.job.number, body.taken_bytes))

    def _step(self, body: _Body) -> None:
        """Take what has come of a body, unless it was left since the wait for sockets ended."""
        if self._bodies.get(body.job.number) is not body:
            return
        data = self._buffer[: body.left_bytes]
        try:
            count = os.readv(body.descriptor, [data])
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._end_early(body)
            return
        body.left_bytes -= count
        try:
            body.add(data[:count])
        except REFUSALS as error:
            self._fail(body, error)
            return
        if not body.left_bytes:
            self._leave(body)
            if self._bodies:
                self._whole.put(body)
            else:
                self._publish(body)  # one hop to a thread less, for a client alone

    def _leave(self, body: _Body) -> None:
        """Read a body's socket no more."""
        self._selector.unregister(body.descriptor)
        os.close(body.descriptor)
        del self._bodies[body.job.number]

    def _fail(self, body: _Body, error: Exception) -> None:
        self._leave(body)
        body.file.close()
        self._answer(_refusal(body, error))

    def _publish_all(self) -> None:
        while (body := self._whole.get()) is not None:
            try:
                self._publish(body)
            except BaseException as error:  # noqa: BLE001 - `run` raises it
                self._error = error
                with contextlib.suppress(OSError):
                    self._channel.shutdown(socket.SHUT_RDWR)  # at which `run` ends
                return

    def _publish(self, body: _Body) -> None:
        try:
            body.file.publish()
        except REFUSALS as error:
            body.file.close()
            self._answer(_refusal(body, error))
        else:
            digests = body.digester.digests()
            self._answer(Answer(body.job.number, body.taken_bytes, digests=digests))

    def _answer(self, answer: Answer) -> None:
        message = msgspec.msgpack.encode(answer)
        with self._answering, contextlib.suppress(OSError):  # of a server that has ended
            self._channel.sendall(FRAME.pack(len(message), 0) + message)


def _refusal(body: _Body, error: Exception) -> Answer:
    if isinstance(error, errors.DiskFull):
        return Answer(
            body.job.number, body.taken_bytes, full=type(error).__name__, error=str(error)
        )
    return Answer(body.job.number, body.taken_bytes, error=f"{type(error).__name__}: {error}")


def main(arguments: list[str]) -> None:
    """Serve the channel with the descriptor FD until its other end closes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ReceivingChild(socket.socket(fileno=int(arguments[0])), Disk()).run()
