"""engine: the child process: one query at a time, from a socket, back over the socket.

Started as `python -m server.starting sql.worker FD BULK_FD SPILL_DIRECTORY GROWTH_BYTES`. It ends
when its sockets close, whatever it is doing then, so that a dead server leaves no child behind, and
when it has grown by more than GROWTH_BYTES. It knows no index, no catalog and no network: what it
may read are the paths that a query names.

A query's schema is sent once its physical plan is ready, so the time until then is its planning.
Its rows are sent as batches. When these hold as many rows as an answer does, and the server has got
enough of them to send the columns of the result, the worker waits for the columns. If there are
some, the other rows are sent as chunks, over the second socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from sql import (
    chunk_sockets,
    confinement,
    engine,
    engine_datafusion,
    frames,
    ipc,
    limits,
    outcomes,
)

REST_STEP_SECONDS = 0.02
REST_STEPS = 3
REST_STEPS_MAX = 25
"""Half a second on an idle machine. Looks are counted, so that a busy machine costs no worker."""
COLUMNS_SECONDS_MAX = 1.0
"""How long the rows that follow those of an answer wait for the columns of the result."""
THREAD_NAME = Path("/proc/self/comm")
"""The name of this process's own threads: the interpreter's. The library names its threads."""


async def serve(connection: socket.socket, bulk: socket.socket, spill_directory: Path) -> None:
    """Answer queries until the other side is gone."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=frames.BUFFER_BYTES)
    incoming, outgoing = frames.Incoming(reader), _Outgoing(writer, bulk)
    planner = engine_datafusion.Planner(spill_directory=spill_directory, in_thread=False)
    queries = msgspec.msgpack.Decoder(engine.EngineQuery)
    columns = msgspec.msgpack.Decoder(tuple[outcomes.Column, ...])
    answer: _Answer | None = None
    running: asyncio.Task[None] | None = None
    while True:
        try:
            frame_type, payload = await incoming.next()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        if frame_type is frames.FrameType.QUERY:
            answer = _Answer(outgoing)
            running = asyncio.create_task(answer.run(queries.decode(payload), planner))
        elif frame_type is frames.FrameType.COLUMNS and answer is not None:
            answer.take_columns(columns.decode(payload))
        elif frame_type is frames.FrameType.CANCEL and running is not None:
            running.cancel()


class _Answer:
    """The frames of one query. Mutable."""

    def __init__(self, outgoing: _Outgoing) -> None:
        self._outgoing = outgoing
        self._encoder: chunk_sockets.Encoder | None = None
        self._rows = self._bytes = 0
        self._columns: Sequence[outcomes.Column] = ()
        self._has_columns = asyncio.Event()

    def take_columns(self, columns: Sequence[outcomes.Column]) -> None:
        """Encode further rows in these columns; send them as batches if there are none."""
        self._columns = columns
        self._has_columns.set()

    async def run(self, query: engine.EngineQuery, planner: engine_datafusion.Planner) -> None:
        # Exactly one frame ends every query, DONE or FAULT: the parent counts on it.
        send = self._outgoing.send
        try:
            run = await planner.start(query)
            await run.prepare()
            await send(frames.FrameType.SCHEMA, ipc.encode_schema(run.schema))
            async for batch in engine_datafusion.batches_again(planner, query, run):
                await self._take(batch)
            if self._encoder is not None:
                await self._send_chunks(self._encoder.finish())
            await send(frames.FrameType.DONE, msgspec.msgpack.encode(run.finished))
        except engine.EngineFault as fault:
            await self._fail(fault)
        except asyncio.CancelledError:
            await _rest_or_leave()
            await self._fail(engine.EngineFault("canceled", "canceled"))
        except BaseException as error:  # noqa: BLE001 - the library's panics are no Exceptions
            await self._fail(engine_datafusion.fault_of(error))
        self._encoder = None

    async def _take(self, batch: pa.RecordBatch) -> None:
        if self._encoder is not None:
            await self._send_chunks(self._encoder.add(batch))
            return
        rows, size_bytes = self._rows + batch.num_rows, self._bytes + batch.nbytes
        fits = (
            rows <= limits.RESULT_INLINE_ROWS_MAX and size_bytes <= limits.RESULT_INLINE_BYTES_MAX
        )
        if not fits:
            if self._rows > limits.ENCODED_ROWS_MIN and not self._has_columns.is_set():
                await self._wait_for_columns()
            if self._columns:
                self._encoder = chunk_sockets.Encoder(self._columns)
                await self._send_chunks(self._encoder.add(batch))
                return
        self._rows, self._bytes = rows, size_bytes
        payload = memoryview(batch.serialize())
        _check_size(len(payload))
        await self._outgoing.send(frames.FrameType.BATCH, payload)

    async def _wait_for_columns(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COLUMNS_SECONDS_MAX):
                await self._has_columns.wait()
        self._has_columns.set()

    async def _send_chunks(self, encoded: Iterable[chunk_sockets.EncodedChunk]) -> None:
        for chunk in encoded:
            _check_size(chunk.size_bytes)
            await self._outgoing.send_chunk(chunk)

    async def _fail(self, fault: engine.EngineFault) -> None:
        parts = (fault.cause, fault.message, fault.code)
        await self._outgoing.send(frames.FrameType.FAULT, msgspec.msgpack.encode(parts))


class _Outgoing:
    """Sends frames, each of them whole, also when what sends it is cancelled. Mutable."""

    def __init__(self, writer: asyncio.StreamWriter, bulk: socket.socket) -> None:
        writer.transport.set_write_buffer_limits(0)  # so that `drain` waits until all is sent
        # Both sides of a small buffer wake each other for every part of a chunk.
        bulk.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, frames.BUFFER_BYTES)
        self._writer = writer
        self._bulk = bulk
        self._chunk: asyncio.Task[None] | None = None

    async def send(self, frame_type: frames.FrameType, payload: bytes | memoryview) -> None:
        if self._chunk is not None:
            await asyncio.shield(self._chunk)
        self._writer.writelines(frames.encode(frame_type, payload))
        await self._writer.drain()

    async def send_chunk(self, chunk: chunk_sockets.EncodedChunk) -> None:
        """Send a chunk."""
        self._chunk = asyncio.create_task(self._put(chunk))
        await asyncio.shield(self._chunk)

    async def _put(self, chunk: chunk_sockets.EncodedChunk) -> None:
        # The other side begins to take the bytes when it has the frame, which must not wait here.
        payload = msgspec.msgpack.encode((chunk.rows, chunk.size_bytes))
        self._writer.writelines(frames.encode(frames.FrameType.CHUNK, payload))
        await self._writer.drain()
        chunk_sockets.send(self._bulk, chunk.parts)


def _check_size(size_bytes: int) -> None:
    if size_bytes > frames.PAYLOAD_BYTES_MAX:
        raise engine.EngineFault(
            "resources",
            f"rows of the result that are sent at once have more than {frames.PAYLOAD_BYTES_MAX} "
            "bytes; select fewer or shorter columns",
        )


async def _rest_or_leave() -> None:
    """Return once a cancelled query has stopped computing; some joins never do, then leave.

    Their threads would go on for seconds and starve the next query, so a process that stays busy is
    worth less than a fresh one.
    """
    quiet = 0
    for _ in range(REST_STEPS_MAX):
        before = time.process_time()
        await asyncio.sleep(REST_STEP_SECONDS)
        is_quiet = time.process_time() - before < REST_STEP_SECONDS / 4
        quiet = quiet + 1 if is_quiet and not _library_computes() else 0
        if quiet == REST_STEPS:
            return
    os._exit(0)


def _library_computes() -> bool:
    """Return whether a thread of the execution library runs or waits for a processor.

    On a busy machine threads that compute get so little of a processor that the process looks
    quiet. Without /proc the answer is False.
    """
    states: dict[str, set[str]] = {}
    for stat in Path("/proc/self/task").glob("*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # the thread has ended
        states.setdefault(name, set()).add(rest.split()[0])
    own = THREAD_NAME.read_text().strip() if states else ""
    return any("R" in each for name, each in states.items() if name != own)


def main(arguments: list[str]) -> None:
    """Serve the sockets whose descriptors are the first two arguments."""
    descriptor, bulk_descriptor, spill_directory, growth_bytes = arguments
    confinement.confine(int(growth_bytes))
    confinement.yield_to_others()
    connection = socket.socket(fileno=int(descriptor))
    bulk = socket.socket(fileno=int(bulk_descriptor))
    asyncio.run(_serve_and_leave(connection, bulk, Path(spill_directory)))


async def _serve_and_leave(
    connection: socket.socket, bulk: socket.socket, spill_directory: Path
) -> None:
    await serve(connection, bulk, spill_directory)
    # Threads of a running query would keep the event loop and the interpreter waiting.
    os._exit(0)
