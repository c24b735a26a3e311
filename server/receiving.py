"""engine: passes large bodies, with their clients' sockets, to processes that receive them.

Receiving a body takes an MD5, which one thread computes in order, and some calls of the system. In
threads of the server all of that waits for the interpreter, and the event loop waits for it too
(0104). A process, `receiving_child`, is started with the first large body, further ones while all
are busy, and they end when no body has come for IDLE_SECONDS.

A process may be killed at any moment. Its bodies then have no known end: their connections are cut
off, and clients send them again. If processes end again and again, bodies go through the event loop
for a while.
"""

from __future__ import annotations

import array
import asyncio
import collections
import contextlib
import functools
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from server import children
from server.receiving_child import FRAME, RECEIVED_BYTES_MAX, Answer, Job, Stop
from storage import errors
from storage.blobs import BodyEnd
from storage.bodyfiles import BodyFile

PROCESSES_MAX: Final = min((os.cpu_count() or 1) + 1, 8)
BODIES_MAX: Final = 256
"""Of a process: each takes two descriptors there. Further ones go through the event loop."""
IDLE_SECONDS: Final = 600.0
DEATHS_MAX: Final = 3
"""So many processes that end without an answer between: then none is started for a while."""
PAUSE_SECONDS: Final = 60.0
END_SECONDS_MAX: Final = 5.0
CHILD: Final = "server.receiving_child"
ANSWERS_BYTES: Final = 64 << 10

log = logging.getLogger(__name__)

_DECODE = msgspec.msgpack.Decoder(Answer).decode
_FULL: Final = {each.__name__: each for each in (errors.DiskFull, errors.DiskReadOnly)}


class Started(Protocol):
    """A process, as asyncio's."""

    pid: int

    async def wait(self) -> int: ...

    def kill(self) -> None: ...


Start: TypeAlias = Callable[[], Awaitable[tuple[Started, socket.socket]]]
Piece: TypeAlias = bytes | memoryview


class ProcessLost(Exception):
    """The process that received a body has ended; how much of it was read is unknown."""


class Receivers:
    """The processes of a server. Mutable. Used in one event loop. start: starts a process, and
    returns the server's end of its channel too; without it, `receiving_child`'s are started."""

    def __init__(self, start: Start | None = None) -> None:
        self._start_process = start or functools.partial(children.start_bare, CHILD)
        self._processes: list[_Receiver] = []
        self._starting: asyncio.Task[None] | None = None
        self._numbers = 0
        self._deaths = 0
        self._paused_until = 0.0
        self._used_at = 0.0
        self._looking: asyncio.TimerHandle | None = None

    @property
    def process_ids(self) -> list[int]:
        """The ids of all processes."""
        return [each.process.pid for each in self._processes]

    @property
    def is_ready(self) -> bool:
        """Whether `receive` may be called."""
        return any(each.load < BODIES_MAX for each in self._processes)

    async def start(self) -> bool:
        """Start the first process, if there is none; return whether it `is_ready` now."""
        if not self._processes and not self._is_paused():
            self._start_another()
            assert self._starting is not None
            await asyncio.shield(self._starting)
        return self.is_ready

    def receive(
        self,
        descriptor: int,
        *,
        size_bytes: int,
        received: Sequence[bytes],
        digests: Iterable[str],
        file: BodyFile,
    ) -> BodyTransfer:
        """Let a process receive the next size_bytes of a socket into a file.

        descriptor: of the socket, which stays open until the end. received: what came before, which
        begins the body. Only if it `is_ready`.
        """
        least = min(self._processes, key=_load)
        if least.load and len(self._processes) < PROCESSES_MAX and not self._is_paused():
            self._start_another()
        self._numbers += 1
        self._used_at = asyncio.get_running_loop().time()
        job = Job(self._numbers, size_bytes, tuple(digests), str(file.aside), str(file.place))
        return BodyTransfer(least, job.number, least.begin(job, descriptor, received))

    async def close(self) -> None:
        """End all processes."""
        if self._looking is not None:
            self._looking.cancel()
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        ending, self._processes = self._processes, []
        await asyncio.gather(*(each.end() for each in ending))

    def _is_paused(self) -> bool:
        return asyncio.get_running_loop().time() < self._paused_until

    def _start_another(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        try:
            process, channel = await self._start_process()
        except OSError:
            log.warning("no process could be started to receive bodies", exc_info=True)
            self._note_death()
        else:
            self._processes.append(_Receiver(process, channel, self))
            if self._looking is None:
                self._look_later()
        finally:
            self._starting = None

    def note_answer(self) -> None:
        """Note that a process answers. Called by it."""
        self._deaths = 0

    def note_lost(self, lost: _Receiver) -> None:
        """Forget a process that has ended. Called by it."""
        if lost in self._processes:
            self._processes.remove(lost)
            log.error("the process %d that received bodies has ended", lost.process.pid)
            self._note_death()

    def _note_death(self) -> None:
        self._deaths += 1
        if self._deaths >= DEATHS_MAX:
            self._paused_until = asyncio.get_running_loop().time() + PAUSE_SECONDS

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        self._looking = None
        now = asyncio.get_running_loop().time()
        if now - self._used_at < IDLE_SECONDS or any(map(_load, self._processes)):
            self._look_later()
            return
        ending, self._processes = self._processes, []
        for each in ending:
            each.begin_end()


class BodyTransfer(NamedTuple):
    """A body that a process receives. ended: done when the process has answered; ProcessLost."""

    receiver: _Receiver
    number: int
    ended: asyncio.Future[BodyEnd]

    def stop(self) -> None:
        """Let the process read no further: the client is lost, or has stopped."""
        if not self.ended.done():
            self.receiver.send(Stop(self.number))


class _Receiver:
    """One process. channel: the server's end of its socket. load: the bodies that it receives."""

    def __init__(self, process: Started, channel: socket.socket, owner: Receivers) -> None:
        channel.setblocking(False)
        self.process = process
        self._channel = channel
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._ends: dict[int, asyncio.Future[BodyEnd]] = {}
        self._unsent: collections.deque[tuple[list[Piece], int | None]] = collections.deque()
        self._answers = b""
        self._loop.add_reader(channel, self._listen)

    @property
    def load(self) -> int:
        return len(self._ends)

    def begin(
        self, job: Job, descriptor: int, received: Sequence[bytes]
    ) -> asyncio.Future[BodyEnd]:
        end = self._ends[job.number] = self._loop.create_future()
        # Of a slow client it may be thousands of pieces, and the system takes some hundred at once.
        self.send(job, descriptor, b"".join(received))
        return end

    def send(self, message: Job | Stop, descriptor: int | None = None, body: bytes = b"") -> None:
        encoded = msgspec.msgpack.encode(message)
        assert len(body) <= RECEIVED_BYTES_MAX, "a large body is passed on early"
        head = FRAME.pack(len(encoded), len(body)) + encoded
        is_first = not self._unsent
        self._unsent.append(([head, body], descriptor))
        if is_first:
            self._send_on()

    def _send_on(self) -> None:
        """Send what the channel takes; call this again when it takes more."""
        while self._unsent:
            pieces, descriptor = self._unsent[0]
            ancillary = []
            if descriptor is not None:
                rights = array.array("i", (descriptor,))
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            try:
                count = self._channel.sendmsg(pieces, ancillary)
            except BlockingIOError:
                self._loop.add_writer(self._channel, self._go_on)
                return
            except OSError:
                self._lose()
                return
            if count == sum(map(len, pieces)):
                self._unsent.popleft()
            else:
                self._unsent[0] = ([memoryview(b"".join(pieces))[count:]], None)

    def _go_on(self) -> None:
        self._loop.remove_writer(self._channel)
        self._send_on()

    def _listen(self) -> None:
        try:
            data = self._channel.recv(ANSWERS_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._owner.note_answer()
        data = self._answers + data
        start = 0
        while len(data) - start >= FRAME.size:
            message_bytes, _ = FRAME.unpack_from(data, start)
            end = start + FRAME.size + message_bytes
            if end > len(data):
                break
            answer = _DECODE(data[start + FRAME.size : end])
            start = end
            waiting = self._ends.pop(answer.number)
            if not waiting.done():
                waiting.set_result(_stored(answer))
        self._answers = data[start:]

    def _lose(self) -> None:
        """Note that the process has ended, or that its channel is broken."""
        self._owner.note_lost(self)
        self.begin_end()

    def begin_end(self) -> None:
        """Close the channel, at which the process ends; what it receives is lost."""
        if self._channel.fileno() < 0:
            return
        self._unsent.clear()
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._channel.close()
        ends, self._ends = self._ends, {}
        for end in ends.values():
            if not end.done():
                end.set_exception(ProcessLost("the process that received a body has ended"))

    async def end(self) -> None:
        self.begin_end()
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


def _load(receiver: _Receiver) -> int:
    return receiver.load


def _stored(answer: Answer) -> BodyEnd:
    error: Exception | None = None
    if answer.error:
        error = _FULL.get(answer.full, RuntimeError)(answer.error)
    return BodyEnd(answer.taken_bytes, answer.digests, error)
