"""engine: the child process: one query at a time, from a socket, back over the socket.

Started as `python -m server.starting sql.worker FD SPILL_DIRECTORY GROWTH_BYTES`. It ends when its
socket closes, whatever it is doing then, so that a dead server leaves no child behind, and when it
has grown by more than GROWTH_BYTES. It knows no index, no catalog and no network: what it may read
are the paths that a query names.

A query's schema is sent once its physical plan is ready, so the time until then is its planning.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path

import msgspec

from sql import confinement, engine, engine_datafusion, frames, ipc

REST_STEP_SECONDS = 0.02
REST_STEPS = 3
REST_STEPS_MAX = 25
"""Half a second on an idle machine. Looks are counted, so that a busy machine costs no worker."""
THREAD_NAME = Path("/proc/self/comm")
"""The name of this process's own threads: the interpreter's. The library names its threads."""


async def serve(connection: socket.socket, spill_directory: Path) -> None:
    """Answer queries until the other side is gone."""
    reader, writer = await asyncio.open_connection(sock=connection, limit=frames.BUFFER_BYTES)
    incoming = frames.Incoming(reader)
    planner = engine_datafusion.Planner(spill_directory=spill_directory, in_thread=False)
    decoder = msgspec.msgpack.Decoder(engine.EngineQuery)
    running: asyncio.Task[None] | None = None
    while True:
        try:
            frame_type, payload = await incoming.next()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        if frame_type is frames.FrameType.QUERY:
            query = decoder.decode(payload)
            running = asyncio.create_task(_answer(query, writer, planner))
        elif frame_type is frames.FrameType.CANCEL and running is not None:
            running.cancel()


async def _answer(
    query: engine.EngineQuery, writer: asyncio.StreamWriter, planner: engine_datafusion.Planner
) -> None:
    # Exactly one frame ends every query, DONE or FAULT: the parent counts on it.
    try:
        run = await planner.start(query)
        await run.prepare()
        await _send(writer, frames.FrameType.SCHEMA, ipc.encode_schema(run.schema))
        async for batch in engine_datafusion.batches_again(planner, query, run):
            await _send(writer, frames.FrameType.BATCH, memoryview(batch.serialize()))
        await _send(writer, frames.FrameType.DONE, msgspec.msgpack.encode(run.finished))
    except engine.EngineFault as fault:
        await _send_fault(writer, fault)
    except asyncio.CancelledError:
        await _rest_or_leave()
        await _send_fault(writer, engine.EngineFault("canceled", "canceled"))
    except BaseException as error:  # noqa: BLE001 - the library's panics are no Exceptions
        await _send_fault(writer, engine_datafusion.fault_of(error))


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


async def _send(
    writer: asyncio.StreamWriter, frame_type: frames.FrameType, payload: bytes | memoryview
) -> None:
    writer.writelines(frames.encode(frame_type, payload))
    await writer.drain()


async def _send_fault(writer: asyncio.StreamWriter, fault: engine.EngineFault) -> None:
    await _send(
        writer,
        frames.FrameType.FAULT,
        msgspec.msgpack.encode((fault.cause, fault.message, fault.code)),
    )


def main(arguments: list[str]) -> None:
    """Serve the socket whose descriptor is the first argument."""
    descriptor, spill_directory, growth_bytes = arguments
    confinement.confine(int(growth_bytes))
    confinement.yield_to_others()
    connection = socket.socket(fileno=int(descriptor))
    asyncio.run(serve(connection, Path(spill_directory)))
    # Threads of a running query would keep the interpreter waiting.
    os._exit(0)
