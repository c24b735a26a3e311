"""Files of stages, damaged or not, under any options of their format: rows, or faults of the file.

What a worker raises beside EngineFault is an internal error (000603) to the client, and a fault of
a file has a code that COPY can report.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from hypothesis import example, given
from hypothesis import strategies as st

from sql import engine, errors, fileformats, staged_columns, staged_files
from tests.kit import avrofiles, examples

TABLE = pa.table(
    {
        "a": [1, None, 3],
        "column_b": ["x", "\u00fc\U0001f600", None],
        "d": pa.array([1, 2, None], pa.date32()),
        "v": [[1], None, [2, 3]],
        "f": [1.5, float("nan"), None],
        "bi": [b"\x00", b"\xff", None],
    }
)
AVRO = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}


def _written(module: Any) -> bytes:
    sink = io.BytesIO()
    module.write_table(TABLE, sink)
    return sink.getvalue()


ROW = avrofiles.number(1) + avrofiles.text("x") + avrofiles.number(0)
FILES = {
    "CSV": (
        b"1,x,2024-01-01,{},1.5,00\n2,,,,,\n",
        b'"a""b",\'x\'\n\n"un',
        b"\xef\xbb\xbf1|2;3|4",
        "1,\u00fc\U0001f600\n2,\n".encode("utf-16"),
        b"\\N,\\,,\\\n\r\n\r",
        b"",
    ),
    "JSON": (
        b'{"a":1,"B":"x"}\n[{"a":1e999},{"a":{"a":null}}] 123 "x" null',
        b'[{"a":"\\ud800\\u0000"},[[[]]],{"":{"":-0.0}},{"a":1,"a":2}]',
        b"",
    ),
    "PARQUET": (_written(pq),),
    "ORC": (_written(orc),),
    "AVRO": (avrofiles.container(AVRO, [(2, ROW)]),),
}
VALUES = st.one_of(
    st.booleans(),
    st.none(),
    st.sampled_from([0, 1, 2, 1_000_000]),
    st.sampled_from(["'", '"', ",", "|", ";", "\n", "\r\n", "\\", "ab", "x", "\u00fc", "AUTO"]),
    st.sampled_from([*fileformats.COMPRESSIONS, *fileformats.ENCODINGS, "HEX", "BASE64", "YYYY"]),
    st.sampled_from([("x",), ("", "1"), ()]),
)
CUTS = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.integers(0, 9), st.binary(max_size=6)), max_size=6
)
"""Where bytes go, how many, and what comes there instead."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, bytes, fileformats.FileFormat]:
    format_type = draw(st.sampled_from(list(FILES)))
    data = draw(st.sampled_from(FILES[format_type]))
    for place, count, instead in draw(CUTS):
        at = place % (len(data) + 1)
        data = data[:at] + instead + data[at + count :]
    options: dict[str, Any] = {"TYPE": format_type}
    named = st.dictionaries(st.sampled_from(list(fileformats.OPTIONS[format_type])), VALUES)
    for name, value in draw(named).items():
        try:
            fileformats.parse(options | {name: value})
        except errors.SqlError:
            continue
        options[name] = value
    return format_type, data, fileformats.parse(options)


def _utf16() -> tuple[str, bytes, fileformats.FileFormat]:
    return "CSV", b"1,x\n", fileformats.parse({"TYPE": "CSV", "ENCODING": "UTF16"})


def _named_by_no_text(format_type: str) -> tuple[str, bytes, fileformats.FileFormat]:
    data = FILES[format_type][0].replace(b"column_b", b"column_\xba")
    return format_type, data, fileformats.parse({"TYPE": format_type})


@example(_utf16(), "decode")
@example(_named_by_no_text("ORC"), "decode")
@example(_named_by_no_text("PARQUET"), "infer")
@given(cases(), st.sampled_from(["decode", "infer"]))
@examples.at_most(800)
def test_any_staged_file_gives_rows_or_faults_of_its_own(
    case: tuple[str, bytes, fileformats.FileFormat], purpose: engine.DecodePurpose
) -> None:
    format_type, data, file_format = case
    with tempfile.TemporaryDirectory() as name:
        path, folder = Path(name) / "staged", Path(name) / "decoded"
        path.write_bytes(data)
        folder.mkdir()
        order = engine.StagedRead(
            files=(engine.StagedFile(path=str(path), name="a", content_key="k", modified_at_ms=0),),
            format_type=format_type,
            options=file_format.options,
            directory=str(folder),
            purpose=purpose,
            documents=format_type in ("PARQUET", "ORC"),
        )
        answer, fault = _decoded(order)
        if answer is None:
            assert fault in ("resources", "value")
            return
        packed = answer.column(0)[0].as_py()
        report = msgspec.msgpack.decode(packed, type=staged_columns.DecodingReport)
        (of_file,) = report.files
        assert all(fault.code.isdecimal() and fault.message for fault in of_file.faults)
        if purpose == "decode":
            (written,) = folder.iterdir()
            assert pq.read_metadata(written).num_rows == of_file.rows


def _decoded(order: engine.StagedRead) -> tuple[pa.RecordBatch | None, str]:
    """Return the report of a decoding, or the cause of its refusal."""
    try:
        return staged_files.decode(order), ""
    except engine.EngineFault as fault:
        return None, fault.cause
