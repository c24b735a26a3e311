"""rule: Arrow schemas and tables as bytes, for requests that go to a child (Arrow IPC)."""

from __future__ import annotations

import pyarrow as pa


def encode_schema(schema: pa.Schema) -> bytes:
    """Return schema as the bytes that Relation, Group and Write of the engine hold."""
    return bytes(schema.serialize())


def encode_rows(table: pa.Table) -> bytes:
    """Return table as the bytes that the engine's Relation.rows holds."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_rows(data: bytes) -> pa.Table:
    """Return what encode_rows wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
