"""The child process by itself: its frames, and that it never outlives its socket."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from server import children
from sql import engine, engine_datafusion, frames, ipc, limits, outcomes, worker
from tests.kit import processes
from tests.kit.waits import WAIT_SECONDS

LONG = "select count(*) from generate_series(1, 1000000000000) as g(n) where n % 7 = 9"


class Child:
    """A child and our side of its sockets."""

    def __init__(self, tmp_path: Path, *, growth_bytes: int = 4 << 30) -> None:
        self.ours, theirs = socket.socketpair()
        self.bulk, their_bulk = socket.socketpair()
        descriptors = (theirs.fileno(), their_bulk.fileno())
        place = (*map(str, descriptors), str(tmp_path), str(growth_bytes))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server.starting", "sql.worker", *place],
            pass_fds=descriptors,
            cwd=children.CHECKOUT,
        )
        theirs.close()
        their_bulk.close()
        self.ours.settimeout(WAIT_SECONDS)
        self.bulk.settimeout(WAIT_SECONDS)

    def send(self, frame_type: frames.FrameType, payload: bytes) -> None:
        for piece in frames.encode(frame_type, payload):
            self.ours.sendall(piece)

    def ask(self, text: str, **more: Any) -> None:
        self.send(
            frames.FrameType.QUERY, msgspec.msgpack.encode(engine.EngineQuery(text=text, **more))
        )

    def receive(self) -> tuple[frames.FrameType, bytes]:
        frame_type, size_bytes = frames.HEADER.unpack(self._exactly(frames.HEADER.size))
        return frames.FrameType(frame_type), self._exactly(size_bytes)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.ours.recv(count - len(data))
            assert piece, "the child closed its side"
            data += piece
        return data

    def wait_computing(self, *, seconds: int) -> None:
        """Return once the child has computed for that long, whatever else the machine does."""
        while processes.cpu_seconds(self.process.pid) < seconds:
            time.sleep(0.05)

    def end(self) -> None:
        self.ours.close()
        self.bulk.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_SECONDS)


@pytest.fixture
def child(tmp_path: Path) -> Any:
    child = Child(tmp_path)
    yield child
    child.end()


def test_a_query_is_answered_by_schema_batches_and_done(child: Child) -> None:
    child.ask("select 7 as a union all select 8")

    frame_type, payload = child.receive()
    assert frame_type is frames.FrameType.SCHEMA
    schema = pa.ipc.read_schema(pa.py_buffer(payload))
    rows = []
    while True:
        frame_type, payload = child.receive()
        if frame_type is not frames.FrameType.BATCH:
            break
        rows += pa.ipc.read_record_batch(pa.py_buffer(payload), schema).to_pylist()
    assert frame_type is frames.FrameType.DONE
    assert sorted(row["a"] for row in rows) == [7, 8]
    assert msgspec.msgpack.decode(payload, type=engine.Finished).rows == 2


def test_a_fault_ends_the_query_and_not_the_child(child: Child) -> None:
    for text, expected in (("select nosuch", "plan"), ("select 1 / 0", "value")):
        child.ask(text)
        frame_type, payload = child.receive()
        while frame_type in (frames.FrameType.SCHEMA, frames.FrameType.BATCH):
            frame_type, payload = child.receive()
        assert frame_type is frames.FrameType.FAULT
        assert msgspec.msgpack.decode(payload)[0] == expected
    assert child.process.poll() is None


def test_a_cancelled_query_ends_with_one_fault_and_the_next_one_runs(child: Child) -> None:
    child.ask("select n from generate_series(1, 1000000000000) as g(n)")
    assert child.receive()[0] is frames.FrameType.SCHEMA
    child.send(frames.FrameType.CANCEL, b"")

    frame_type, payload = child.receive()
    while frame_type is frames.FrameType.BATCH:
        frame_type, payload = child.receive()
    assert (frame_type, msgspec.msgpack.decode(payload)[0]) == (frames.FrameType.FAULT, "canceled")
    child.ask("select 1 as a")
    assert [child.receive()[0] for _ in range(3)] == [
        frames.FrameType.SCHEMA,
        frames.FrameType.BATCH,
        frames.FrameType.DONE,
    ]


COUNTED = "select g.n as a from generate_series(1, {}) as g(n)"
NUMBERS = (outcomes.Column(name="A", type="fixed", precision=19, scale=0),)


def asked_to_encode(child: Child, rows: int | str) -> tuple[frames.FrameType, bytes]:
    """Let a child encode its numbers; return its first frame after those of batches."""
    child.ask(COUNTED.format(rows) if isinstance(rows, int) else rows)
    assert child.receive()[0] is frames.FrameType.SCHEMA
    child.send(frames.FrameType.COLUMNS, msgspec.msgpack.encode(NUMBERS))
    frame_type, payload = child.receive()
    while frame_type is frames.FrameType.BATCH:
        frame_type, payload = child.receive()
    return frame_type, payload


def test_rows_beyond_those_of_an_answer_come_as_chunks_in_columns_that_are_known(
    child: Child,
) -> None:
    wanted = 1_000_000
    child.ask(COUNTED.format(wanted))
    _, described = child.receive()
    schema = pa.ipc.read_schema(pa.py_buffer(described))
    child.send(frames.FrameType.COLUMNS, msgspec.msgpack.encode(NUMBERS))
    batches: list[int] = []
    chunked: list[int] = []
    while True:
        frame_type, payload = child.receive()
        if frame_type is frames.FrameType.BATCH:
            assert not chunked, "batches come first"
            batch = pa.ipc.read_record_batch(pa.py_buffer(payload), schema)
            batches += batch.column(0).to_pylist()
        elif frame_type is frames.FrameType.CHUNK:
            rows, size_bytes = msgspec.msgpack.decode(payload)
            data = b""
            while len(data) < size_bytes:
                data += child.bulk.recv(size_bytes - len(data))
            with pa.ipc.open_stream(data) as stream:
                table = stream.read_all()
            assert (table.num_rows, table.schema.names) == (rows, ["A"])
            assert rows <= limits.CHUNK_ROWS_MAX
            assert table.schema.field(0).metadata[b"logicalType"] == b"FIXED"
            chunked += table.column(0).to_pylist()
        else:
            break
    assert msgspec.msgpack.decode(payload, type=engine.Finished).rows == wanted
    assert batches + chunked == list(range(1, wanted + 1))
    assert chunked


def test_columns_that_come_after_the_end_of_their_query_change_no_other(child: Child) -> None:
    child.ask("select 1 as a")
    while child.receive()[0] is not frames.FrameType.DONE:
        pass
    child.send(frames.FrameType.COLUMNS, msgspec.msgpack.encode(NUMBERS))
    child.ask(COUNTED.format(300_000))
    types = {child.receive()[0]}
    while frames.FrameType.DONE not in types:
        types.add(child.receive()[0])
    assert types == {frames.FrameType.SCHEMA, frames.FrameType.BATCH, frames.FrameType.DONE}


def test_a_query_that_is_cancelled_while_a_chunk_waits_ends_after_the_whole_chunk(
    child: Child,
) -> None:
    frame_type, payload = asked_to_encode(child, 1_000_000_000_000)
    assert frame_type is frames.FrameType.CHUNK
    child.send(frames.FrameType.CANCEL, b"")
    while frame_type is frames.FrameType.CHUNK:
        left = msgspec.msgpack.decode(payload)[1]
        while left:
            left -= len(child.bulk.recv(left))
        frame_type, payload = child.receive()
    assert (frame_type, msgspec.msgpack.decode(payload)[0]) == (frames.FrameType.FAULT, "canceled")
    frame_type, _ = asked_to_encode(child, 1)
    assert frame_type is frames.FrameType.DONE


STALLS = COUNTED.format(1_000_000_000_000) + " where g.n <= 400000 or g.n % 7 = 9"
"""Some batches come at once, and then none: a thread waits for the next one."""


def test_a_query_that_is_cancelled_in_a_thread_that_waits_ends_or_takes_its_process_along(
    child: Child,
) -> None:
    frame_type, payload = asked_to_encode(child, STALLS)
    assert frame_type is frames.FrameType.CHUNK
    left = msgspec.msgpack.decode(payload)[1]
    while left:
        left -= len(child.bulk.recv(left))
    child.wait_computing(seconds=1)
    child.send(frames.FrameType.CANCEL, b"")

    assert child.process.wait(WAIT_SECONDS) == 0


def test_a_child_ends_when_its_server_is_gone_while_a_thread_waits(child: Child) -> None:
    assert asked_to_encode(child, STALLS)[0] is frames.FrameType.CHUNK
    child.bulk.shutdown(socket.SHUT_RDWR)
    child.wait_computing(seconds=1)
    child.ours.close()

    assert child.process.wait(WAIT_SECONDS) == 0


def test_rows_beyond_those_of_an_answer_wait_for_the_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "COLUMNS_SECONDS_MAX", WAIT_SECONDS)

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        bulk, their_bulk = socket.socketpair()
        serving = asyncio.create_task(worker.serve(theirs, their_bulk, tmp_path))
        reader, writer = await asyncio.open_connection(sock=ours)
        incoming = frames.Incoming(reader)

        def send(frame_type: frames.FrameType, value: Any) -> None:
            writer.writelines(frames.encode(frame_type, msgspec.msgpack.encode(value)))

        for columns in (NUMBERS, ()):
            send(frames.FrameType.QUERY, engine.EngineQuery(text=COUNTED.format(100_000)))
            assert (await incoming.next())[0] is frames.FrameType.SCHEMA
            # As many batches of 8,192 rows as the 50,000 rows of an answer have room for.
            for _ in range(limits.RESULT_INLINE_ROWS_MAX // 8192):
                assert (await incoming.next())[0] is frames.FrameType.BATCH
            following = asyncio.create_task(incoming.next())
            await asyncio.sleep(0.1)
            assert not following.done()
            send(frames.FrameType.COLUMNS, columns)
            types = [(await following)[0]]
            while types[-1] is not frames.FrameType.DONE:
                types.append((await incoming.next())[0])
            further = frames.FrameType.CHUNK if columns else frames.FrameType.BATCH
            assert set(types[:-1]) == {further}
        writer.close()
        await serving
        bulk.close()
        their_bulk.close()

    asyncio.run(talk())


def test_a_child_ends_when_its_server_is_gone_while_a_chunk_waits(child: Child) -> None:
    assert asked_to_encode(child, 1_000_000_000_000)[0] is frames.FrameType.CHUNK
    child.ours.close()
    child.bulk.close()

    assert child.process.wait(WAIT_SECONDS) == 0


def test_a_query_that_goes_on_computing_takes_its_process_along(child: Child) -> None:
    rows = pa.table({"id": pa.array(range(20_000), pa.int64())})
    relation = engine.Relation(
        name="t", schema=ipc.encode_schema(rows.schema), rows=ipc.encode_rows(rows)
    )
    text = "select count(*) from t a, t b, t c where (a.id * 7 + b.id * 11 + c.id * 13) % 99991 = 5"
    child.ask(text, relations=(relation,))
    assert child.receive()[0] is frames.FrameType.SCHEMA
    child.wait_computing(seconds=1)
    child.send(frames.FrameType.CANCEL, b"")

    assert child.process.wait(WAIT_SECONDS) == 0


def test_cancelling_nothing_does_nothing(child: Child) -> None:
    child.send(frames.FrameType.CANCEL, b"")
    child.ask("select 1 as a")

    assert child.receive()[0] is frames.FrameType.SCHEMA


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_child_ends_when_its_server_is_gone(child: Child, is_busy: bool) -> None:
    if is_busy:
        child.ask(LONG)
        assert child.receive()[0] is frames.FrameType.SCHEMA
    child.ours.close()

    assert child.process.wait(WAIT_SECONDS) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="macOS tells no process's memory under /proc")
def test_a_child_that_grows_beyond_its_bound_ends_at_the_bound(tmp_path: Path) -> None:
    bound = 300 << 20
    child = Child(tmp_path, growth_bytes=bound)
    try:
        statm = Path(f"/proc/{child.process.pid}/statm")
        child.ask("select 1 as a")
        assert child.receive()[0] is frames.FrameType.SCHEMA
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        before = largest = int(statm.read_bytes().split()[1]) * page_bytes
        # Its plan has a million relations and would take some tens of gigabytes.
        parts = ["c0 as (select 1 a)"]
        parts += [f"c{n} as (select x.a from c{n - 1} x, c{n - 1} y)" for n in range(1, 21)]
        child.ask(f"with {', '.join(parts)} select count(*) from c20")
        while child.process.poll() is None:
            sizes = statm.read_bytes().split()
            largest = max(largest, int(sizes[1]) * page_bytes) if sizes else largest
            time.sleep(0.01)
        assert child.process.returncode in engine.OUT_OF_MEMORY
        assert largest - before < bound * 2
    finally:
        child.end()


def test_frames_survive_a_cancelled_read() -> None:
    async def work() -> None:
        reader = asyncio.StreamReader()
        incoming = frames.Incoming(reader)
        header, payload = frames.encode(frames.FrameType.BATCH, b"payload")
        reader.feed_data(bytes(header) + bytes(payload[:3]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(incoming.next(), 0.01)
        reader.feed_data(bytes(payload[3:]))
        assert await incoming.next() == (frames.FrameType.BATCH, b"payload")

    asyncio.run(work())


def test_an_idle_server_carries_no_engine() -> None:
    """Neither the interface nor the dialect imports the execution library."""
    program = (
        "import sys; import sql.engine, sql.statements, sql.opening, sql.dialect.resolve; "
        "sys.exit('datafusion' in sys.modules)"
    )
    started = time.monotonic()
    code = subprocess.call([sys.executable, "-c", program], cwd=children.CHECKOUT, env=os.environ)
    assert code == 0, time.monotonic() - started


class Panic(BaseException):
    """What the library raises when it panics: no Exception."""


def test_a_panic_of_the_library_is_an_answer_and_the_child_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(planner: Any, query: engine.EngineQuery) -> Any:
        raise Panic("panicked at /build/src/lib.rs:7")

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        bulk, their_bulk = socket.socketpair()
        serving = asyncio.create_task(worker.serve(theirs, their_bulk, tmp_path))
        reader, writer = await asyncio.open_connection(sock=ours)
        incoming = frames.Incoming(reader)
        for _ in range(2):
            query = msgspec.msgpack.encode(engine.EngineQuery(text="select 1"))
            writer.writelines(frames.encode(frames.FrameType.QUERY, query))
            frame_type, payload = await asyncio.wait_for(incoming.next(), WAIT_SECONDS)
            assert frame_type is frames.FrameType.FAULT
            assert msgspec.msgpack.decode(payload) == ["panicked", "panicked at ...:7", ""]
        writer.close()
        await serving
        bulk.close()
        their_bulk.close()

    monkeypatch.setattr(engine_datafusion.Planner, "start", start)
    asyncio.run(talk())


@pytest.mark.parametrize("encodes", [False, True])
def test_rows_too_large_for_a_frame_are_refused_and_the_child_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encodes: bool
) -> None:
    monkeypatch.setattr(frames, "PAYLOAD_BYTES_MAX", 300_000)
    monkeypatch.setattr(limits, "RESULT_INLINE_ROWS_MAX", 1 if encodes else 10**6)
    column = outcomes.Column(name="A", type="text")
    large = "select repeat('x', {}) as a from generate_series(1, 2)"

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        bulk, their_bulk = socket.socketpair()
        serving = asyncio.create_task(worker.serve(theirs, their_bulk, tmp_path))
        reader, writer = await asyncio.open_connection(sock=ours)
        incoming = frames.Incoming(reader)

        async def types(length: int) -> list[frames.FrameType]:
            query = msgspec.msgpack.encode(engine.EngineQuery(text=large.format(length)))
            writer.writelines(frames.encode(frames.FrameType.QUERY, query))
            if encodes:
                columns = msgspec.msgpack.encode((column,))
                writer.writelines(frames.encode(frames.FrameType.COLUMNS, columns))
            said = []
            while not said or said[-1] not in (frames.FrameType.DONE, frames.FrameType.FAULT):
                frame_type, payload = await asyncio.wait_for(incoming.next(), WAIT_SECONDS)
                said.append(frame_type)
                if frame_type is frames.FrameType.FAULT:
                    cause, message, _ = msgspec.msgpack.decode(payload)
                    assert cause == "resources"
                    assert "300000 bytes" in message
            return said

        schema, done = frames.FrameType.SCHEMA, frames.FrameType.DONE
        assert await types(200_000) == [schema, frames.FrameType.FAULT]
        sent = frames.FrameType.CHUNK if encodes else frames.FrameType.BATCH
        assert await types(10) == [schema, sent, done]
        writer.close()
        await serving
        bulk.close()
        their_bulk.close()

    asyncio.run(talk())
