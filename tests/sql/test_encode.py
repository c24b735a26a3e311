"""Cells. What each driver reads of them is in tests/sql/rest/test_cells.py."""

from __future__ import annotations

import base64
import datetime
import gc
import json
import sys
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql import encode, outcomes
from tests.kit import examples


def column(column_type: Any, **more: Any) -> outcomes.Column:
    return outcomes.Column(name="C", type=column_type, **more)


def cells(of: outcomes.Column, array: pa.Array) -> list[str | None]:
    rows = encode.json_rows([pa.record_batch([array], names=["x"])], [of])
    return [row[0] for row in rows]


def stream(of: outcomes.Column, *arrays: pa.Array) -> pa.Table:
    data = encode.arrow_stream([pa.record_batch([array], names=["x"]) for array in arrays], [of])
    return pa.ipc.open_stream(data).read_all()


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**20), 10**20), st.integers(0, 9))
def test_seconds_read_as_a_decimal_give_the_value_floored_to_the_scale(
    nanos: int, scale: int
) -> None:
    cell = encode.seconds_cell(nanos, scale)
    whole, dot, fraction = cell.partition(".")
    assert len(fraction) == scale
    assert bool(dot) == bool(scale)
    assert "+" not in cell
    assert whole not in ("", "-")
    step = 10 ** (9 - scale)
    assert Decimal(cell) == Decimal(nanos // step * step).scaleb(-9)


@pytest.mark.parametrize(
    ("nanos", "scale", "cell"),
    [
        (-500_000_000, 9, "-0.500000000"),
        (-500_000_000, 3, "-0.500"),
        (-1, 3, "-0.001"),
        (0, 9, "0.000000000"),
        (45_296_500_000_000, 9, "45296.500000000"),
        (1_709_210_096_000_123_000, 6, "1709210096.000123"),
        (1_709_210_096_000_000_000, 0, "1709210096"),
    ],
)
def test_seconds_have_sign_and_magnitude(nanos: int, scale: int, cell: str) -> None:
    assert encode.seconds_cell(nanos, scale) == cell


@examples.at_most(100)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(10**38) + 1, 10**38 - 1)), min_size=1, max_size=8),
    st.integers(0, 38),
    st.integers(0, 3),
)
def test_numbers_keep_every_digit_in_both_formats(
    unscaled: list[int | None], scale: int, offset: int
) -> None:
    def decimal(number: int) -> Decimal:
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    values = [None if number is None else decimal(number) for number in unscaled]
    array = pa.array([None] * offset + values, pa.decimal128(38, scale)).slice(offset)
    of = column("fixed", precision=38, scale=scale)

    for cell, value in zip(cells(of, array), values, strict=True):
        assert (cell is None) == (value is None)
        if value is not None:
            assert set(cell) <= set("-0123456789.")
            assert Decimal(cell) == value
            assert len(cell.partition(".")[2]) == scale
    wire = stream(of, array).column(0)
    numbers = [number for number in unscaled if number is not None]
    if all(-(2**63) <= number < 2**63 for number in numbers):
        assert wire.type == pa.int64()
        assert wire.to_pylist() == unscaled
    else:
        assert wire.type == pa.decimal128(38, scale)
        assert wire.to_pylist() == values


def test_one_wide_number_makes_the_whole_stream_wide() -> None:
    of = column("fixed", precision=38, scale=0)
    small = pa.array([Decimal(1)], pa.decimal128(38, 0))
    wide = pa.array([Decimal(10) ** 30], pa.decimal128(38, 0))
    assert stream(of, small, small).schema.field(0).type == pa.int64()
    assert stream(of, small, wide).schema.field(0).type == pa.decimal128(38, 0)
    assert stream(of, small, wide).column(0).to_pylist() == [Decimal(1), Decimal(10) ** 30]


def test_an_integer_column_with_decimals_is_scaled() -> None:
    of = column("fixed", precision=12, scale=2)
    assert stream(of, pa.array([3, None], pa.int32())).column(0).to_pylist() == [300, None]
    assert cells(of, pa.array([3, None], pa.int32())) == ["3.00", None]


def test_a_number_column_of_floats_is_our_fault_and_says_so() -> None:
    with pytest.raises(TypeError, match="double"):
        stream(column("fixed"), pa.array([1.5]))


def test_a_stream_is_one_batch_without_empty_ones_and_keeps_the_names() -> None:
    of = outcomes.Column(name='Ünï "x"', type="text")
    empty, full = pa.array([], pa.string()), pa.array(["a", None])
    batches = [pa.record_batch([array], names=["x"]) for array in (empty, full, empty, full, empty)]
    reader = pa.ipc.open_stream(encode.arrow_stream(batches, [of]))
    assert [batch.num_rows for batch in reader] == [4]
    assert reader.schema.names == ['Ünï "x"']
    assert encode.arrow_stream([batches[0]], [of]) == b""
    assert encode.arrow_stream([], [of]) == b""


def test_a_stream_has_the_bytes_that_a_writer_of_streams_makes() -> None:
    columns = [column("fixed", precision=9, scale=2), column("text"), column("real")]
    batch = pa.record_batch(
        [pa.array([3, None, 5]), pa.array(["a", None, "é" * 100]), pa.array([0.5, 1.5, None])],
        names=["a", "b", "c"],
    )
    data = encode.arrow_stream([batch.slice(1), batch], columns)
    read = pa.ipc.open_stream(data).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, read.schema) as writer:
        writer.write_table(read)
    assert data == sink.getvalue().to_pybytes()
    assert read.num_rows == 5


def test_duplicate_names_are_kept() -> None:
    of = column("fixed", precision=1, scale=0)
    batch = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "b"])
    table = pa.ipc.open_stream(encode.arrow_stream([batch], [of, of])).read_all()
    assert table.schema.names == ["C", "C"]
    assert [column.to_pylist() for column in table.columns] == [[1], [2]]


@examples.at_most(100)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), min_size=1, max_size=6),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.integers(0, 9),
)
def test_instants_are_floored_to_their_scale_in_both_formats(
    ticks: list[int | None], unit: str, scale: int
) -> None:
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    # Within the years a timestamp can hold, and the 64 bits of the wire's integer.
    bound = min(2 * 10**11, 2**62 // 10 ** max(digits, scale if scale < 9 else 0)) * 10**digits
    ticks = [None if tick is None else tick % bound - bound // 2 for tick in ticks]
    array = pa.array(ticks, pa.timestamp(unit))
    of = column("timestamp_ntz", scale=scale)
    step = 10 ** (9 - scale)
    nanos = [None if tick is None else tick * 10 ** (9 - digits) // step * step for tick in ticks]

    assert cells(of, array) == [
        None if value is None else encode.seconds_cell(value, scale) for value in nanos
    ]
    for value, sent in zip(nanos, stream(of, array).column(0).to_pylist(), strict=True):
        if value is None:
            assert sent is None
        elif scale == 9:
            assert 0 <= sent["fraction"] < 10**9
            assert sent["epoch"] * 10**9 + sent["fraction"] == value
        else:
            assert sent * step == value


def test_zoned_instants_have_three_fields() -> None:
    of = column("timestamp_tz", scale=3)
    array = pa.StructArray.from_arrays(
        [pa.array([-1, 5], pa.timestamp("ms")), pa.array([-60, 345], pa.int16())],
        names=["instant", "offset_minutes"],
    )
    assert stream(of, array).column(0).to_pylist() == [
        {"epoch": -1, "fraction": 999_000_000, "timezone": 1380},
        {"epoch": 0, "fraction": 5_000_000, "timezone": 1785},
    ]
    assert cells(of, array) == ["-0.001 1380", "0.005 1785"]


@pytest.mark.parametrize(
    ("of", "value", "cell"),
    [
        (column("fixed", precision=38, scale=0), 10**30, "1" + "0" * 30),
        (column("fixed", precision=9, scale=2), Decimal("1E+3"), "1000.00"),
        (column("fixed", precision=9, scale=2), -1, "-1.00"),
        (column("real"), float("nan"), "NaN"),
        (column("real"), float("-inf"), "-inf"),
        (column("real"), 1.5, "1.5"),
        (column("text"), "x", "x"),
        (column("boolean"), True, "1"),
        (column("boolean"), False, "0"),
        (column("date"), datetime.date(1969, 12, 31), "-1"),
        (column("time", scale=6), datetime.time(12, 34, 56, 500000), "45296.500000"),
        (column("timestamp_ntz", scale=0), datetime.datetime.fromisoformat("1970-01-02"), "86400"),
        (column("timestamp_ltz", scale=3),
         datetime.datetime.fromisoformat("1970-01-01T01:00:00+01:00"), "0.000"),
        (column("timestamp_tz", scale=0),
         datetime.datetime.fromisoformat("1970-01-01T01:00:00+01:00"), "0 1500"),
        (column("binary"), b"\xab\x0f", "AB0F"),
        (column("variant"), '{"a":1}', '{"a":1}'),
        (column("fixed"), None, None),
    ],
)  # fmt: skip
def test_python_values_become_cells(of: outcomes.Column, value: Any, cell: str | None) -> None:
    assert encode.json_cells([(value,)], [of]) == [[cell]]


def test_dates_and_timestamps_beyond_pythons_become_cells() -> None:
    days = pa.array([2_932_897, -719_163, None], pa.int32()).cast(pa.date32())
    assert cells(column("date"), days) == ["2932897", "-719163", None]
    micros = pa.array([253_402_300_800_000_000, None], pa.int64()).cast(pa.timestamp("us"))
    assert cells(column("timestamp_ntz", scale=6), micros) == ["253402300800.000000", None]


def test_a_json_chunk_is_rows_joined_by_commas() -> None:
    rows: list[list[str | None]] = [["1", None], ["2", 'ü"']]
    chunk = encode.json_chunk(encode.json_list(rows))
    assert json.loads(b"[" + chunk + b"]") == rows


def durations_of_calls(rows: int) -> list[float]:
    """Return the CPU seconds of each call of a library while rows are encoded as JSON: so long
    other threads wait for the interpreter.

    The copy of all encoded bytes into one text is left out: it grows with them, by 0.4 ms a
    megabyte.
    """
    columns = [outcomes.Column(name=f"C{number}", type="text") for number in range(5)]
    texts = pa.array([f"text {number}" for number in range(rows)])
    batch = pa.record_batch([texts] * 5, names=[column.name for column in columns])
    durations: list[float] = []
    started = 0.0

    def look(frame: object, event: str, argument: Any) -> None:
        nonlocal started
        if event == "c_call":
            started = time.thread_time()
        elif event in ("c_return", "c_exception") and argument.__name__ != "join":
            durations.append(time.thread_time() - started)

    before = sys.getprofile()
    gc.disable()  # what hears of a collection makes calls too, in one run and not in the next
    sys.setprofile(look)
    try:
        text = encode.json_text([batch], columns)
    finally:
        sys.setprofile(before)
        gc.enable()
    assert text.count(b"[") == rows
    return durations


def longest_call(rows: int) -> float:
    """Return the CPU seconds of the longest call. Each call is measured five times, and the least
    counts: a processor that works for others too makes a few calls slower, other ones each time."""
    runs = [durations_of_calls(rows) for _ in range(5)]
    return max(min(of_call) for of_call in zip(*runs, strict=True))


def test_no_call_while_rows_are_encoded_is_longer_for_more_rows() -> None:
    ratio = longest_call(64_000) / longest_call(8_000)
    assert ratio < 4  # with one call for all rows it is 8


def test_rows_encoded_in_steps_are_those_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        outcomes.Column(name="A", type="fixed", precision=38, scale=2),
        outcomes.Column(name="B", type="text"),
    ]
    numbers = [Decimal("1.50"), None, Decimal("-123456789012345678901234.05")] * 5
    batch = pa.record_batch(
        [
            pa.array(numbers, pa.decimal128(38, 2)),
            pa.array(["a", None, 'b"'] * 5).dictionary_encode(),
        ],
        names=["a", "b"],
    )
    batches = [batch, batch.slice(0, 0), batch.slice(1, 3)]
    expected = [["1.50", "a"], [None, None], ["-123456789012345678901234.05", 'b"']] * 5
    expected += expected[1:4]
    for cells, size_bytes in ((2, 1 << 20), (8, 1 << 20), (1000, 1 << 20), (1000, 1)):
        monkeypatch.setattr(encode, "STEP_CELLS_MAX", cells)
        monkeypatch.setattr(encode, "STEP_BYTES_MAX", size_bytes)
        assert json.loads(b"[" + encode.json_text(batches, columns) + b"]") == expected
    assert encode.json_text([], columns) == b""


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_base64_in_steps_is_base64(more: int) -> None:
    data = bytes(range(256)) * 1536 + b"x" * more if more >= 0 else bytes(393_215)
    assert len(data) == 2 * encode.BASE64_BYTES_AT_ONCE + more
    assert json.loads(encode.base64_json(data)) == base64.b64encode(data).decode()
    assert encode.base64_json(b"") == b'""'
