"""Chunks of Arrow from a child's memory to the server's."""

from __future__ import annotations

import socket
import threading

import pyarrow as pa
import pytest

from sql import chunk_memory, chunk_sockets, encode, limits, outcomes

COLUMNS = (
    outcomes.Column(name="N", type="fixed", precision=38, scale=0),
    outcomes.Column(name="T", type="text"),
    outcomes.Column(name="M", type="timestamp_ntz", scale=9),
)
POOL = chunk_memory.Pool(free_bytes_max=64 << 20)


def batch(start: int, stop: int, *, width: int = 1) -> pa.RecordBatch:
    numbers = range(start, stop)
    return pa.record_batch(
        [
            pa.array([None if number % 7 == 0 else number for number in numbers], pa.int64()),
            pa.array([str(number) * width for number in numbers]),
            pa.array(numbers, pa.timestamp("us")),
        ],
        names=["a", "b", "c"],
    )


def test_a_chunk_has_the_bytes_of_its_rows_encoded_at_once() -> None:
    encoder = chunk_sockets.Encoder(COLUMNS)
    parts = [batch(0, 3), batch(3, 1000), batch(1000, 1001)]
    assert [list(encoder.add(part)) for part in parts] == [[], [], []]
    (chunk,) = encoder.finish()
    assert chunk.rows == 1001
    assert b"".join(chunk.parts) == encode.arrow_stream(parts, COLUMNS)
    assert list(encoder.finish()) == []


def test_chunks_keep_to_their_bounds_and_to_the_order_of_the_rows() -> None:
    encoder = chunk_sockets.Encoder(COLUMNS)
    sizes: list[int] = []
    seen: list[str] = []
    for start in range(0, 500_000, 100_000):
        for chunk in encoder.add(batch(start, start + 100_000, width=3)):
            sizes.append(chunk.rows)
            seen += texts(chunk)
    for chunk in encoder.finish():
        sizes.append(chunk.rows)
        seen += texts(chunk)
    assert max(sizes) <= limits.CHUNK_ROWS_MAX
    assert seen == [str(number) * 3 for number in range(500_000)]


def texts(chunk: chunk_sockets.EncodedChunk) -> list[str]:
    """The column T."""
    with pa.ipc.open_stream(b"".join(chunk.parts)) as stream:
        table = stream.read_all()
    assert table.num_rows == chunk.rows
    values: list[str] = table.column("T").to_pylist()
    return values


def test_a_row_that_is_larger_than_a_chunk_is_a_chunk() -> None:
    encoder = chunk_sockets.Encoder(COLUMNS)
    wide = batch(100, 103, width=limits.CHUNK_BYTES_MAX // 2)
    rows = [chunk.rows for chunk in encoder.add(wide)] + [chunk.rows for chunk in encoder.finish()]
    assert rows == [1, 1, 1]


@pytest.mark.parametrize("size_bytes", [1, 100_000, 5_000_001])
def test_what_is_sent_is_received_and_cannot_be_written(size_bytes: int) -> None:
    ours, theirs = socket.socketpair()
    sent = bytes(number % 251 for number in range(size_bytes))
    with ours, theirs:
        sender = threading.Thread(target=theirs.sendall, args=(sent + b"next",))
        sender.start()
        received = chunk_sockets.receive(ours, size_bytes, POOL)
        assert ours.recv(4) == b"next"
        sender.join()
    assert received == sent
    assert received.readonly


def test_a_chunk_of_many_columns_has_few_parts_with_the_same_bytes() -> None:
    columns = [outcomes.Column(name=f"C{number}", type="real") for number in range(3000)]
    values = pa.array([None, 1.5, 2.5])
    wide = pa.record_batch([values] * len(columns), names=[column.name for column in columns])
    encoder = chunk_sockets.Encoder(columns)
    assert list(encoder.add(wide)) == []
    (chunk,) = encoder.finish()
    assert len(chunk.parts) < 10  # of some 9,000 buffers
    assert b"".join(chunk.parts) == encode.arrow_stream([wide], columns)
    assert chunk.size_bytes == len(encode.arrow_stream([wide], columns))


@pytest.mark.parametrize("count", [0, 1, 3 * chunk_sockets.PARTS_AT_ONCE + 1])
@pytest.mark.parametrize("part_bytes", [0, 1, 70_001])
def test_parts_are_sent_in_their_order_by_several_calls(count: int, part_bytes: int) -> None:
    parts = [
        pa.py_buffer(bytes([number % 251]) * part_bytes) if number % 2 else bytes(part_bytes)
        for number in range(count)
    ]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=chunk_sockets.send, args=(theirs, [*parts, b"end"]))
        sender.start()
        received = chunk_sockets.receive(ours, count * part_bytes + 3, POOL)
        sender.join()
    assert received == b"".join([*parts, b"end"])


def test_a_side_that_ends_within_a_chunk_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"abc")
        theirs.close()
        with pytest.raises(ConnectionError):
            chunk_sockets.receive(ours, 4, POOL)


def test_a_socket_that_is_closed_here_is_an_error_too() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        with pytest.raises(ConnectionError):
            chunk_sockets.receive(ours, 4, POOL)
