"""engine: the child process that parses and binds large statements.

Started as `python -m server.starting sql.compiling_child FD GROWTH_BYTES`. A message is its length
and a pickle. A request is a step's name and its arguments; an answer is whether it succeeded, the
result or the SqlError's parts, and the process's resident size. Both sides are this program, and
statements are only text here. It ends when its socket closes, or when it has grown by more than
GROWTH_BYTES, and opens no file.
"""

from __future__ import annotations

import dataclasses
import gc
import pickle
import socket
import struct
from typing import Any, BinaryIO, Final

import msgspec

from sql import confinement, errors, inputs, outcomes
from sql.dialect import compilation, parse, resolve, shapes, sqltypes

LENGTH = struct.Struct(">Q")

COLLECTOR_THRESHOLDS: Final = (100_000, 10, 10)
"""When Python looks for cycles: after so many new objects, and in the older ones after a million
and ten million. To read 16,384 rows of VALUES makes a million objects that stay until it is bound.
With Python's own thresholds it looks for cycles 1,514 times meanwhile, which takes a quarter of the
CPU time; with these 9 times, and the child takes as much memory."""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    statement: compilation.ParsedStatement | None = None
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        (size_bytes,) = LENGTH.unpack(head)
        step, arguments = pickle.loads(requests.read(size_bytes))
        result: Any
        try:
            if step == "split":
                result = parse.split(*arguments)
            elif step == "binds":
                result = pickle.dumps(inputs.read_large(*arguments), protocol=5)
            elif step == "parse":
                statement = compilation.ParsedStatement(*arguments)
                result = statement.portable_operation
            else:
                assert statement is not None
                result = _done(statement, step, *arguments)
            good = True
        except errors.SqlError as error:
            good, result = False, error.parts
        except MemoryError:
            good, result = False, errors.too_complex("there is not enough memory to read it").parts
        body = pickle.dumps((good, result, confinement.resident_bytes()), protocol=5)
        answers.write(LENGTH.pack(len(body)))
        answers.write(body)
        answers.flush()


def _done(
    statement: compilation.ParsedStatement, step: str, environment: bytes, *more: Any
) -> compilation.Needs | int | bytes:
    bound_query = getattr(statement, step)(unpack_environment(environment), *more)
    return pack_bound(bound_query) if isinstance(bound_query, resolve.BoundQuery) else bound_query


def pack_environment(environment: shapes.Environment) -> bytes:
    """Return an environment as it travels. msgspec packs a thousand columns in a millisecond."""
    tables = msgspec.msgpack.encode(environment.tables)
    return pickle.dumps((dataclasses.replace(environment, tables=()), tables), protocol=5)


def unpack_environment(packed: bytes) -> shapes.Environment:
    """Return what pack_environment packed."""
    environment: shapes.Environment
    environment, tables = pickle.loads(packed)
    return dataclasses.replace(environment, tables=TABLES.decode(tables))


def pack_bound(bound_query: resolve.BoundQuery) -> bytes:
    """Return a bound query as it travels."""
    columns = msgspec.msgpack.encode((bound_query.columns, bound_query.types))
    return pickle.dumps(
        (dataclasses.replace(bound_query, columns=(), types=()), columns), protocol=5
    )


def unpack_bound(packed: bytes) -> resolve.BoundQuery:
    """Return what pack_bound packed."""
    bound_query: resolve.BoundQuery
    bound_query, packed_columns = pickle.loads(packed)
    columns, types = COLUMNS.decode(packed_columns)
    return dataclasses.replace(bound_query, columns=columns, types=types)


TABLES: Final = msgspec.msgpack.Decoder(tuple[shapes.TableShape, ...])
COLUMNS: Final = msgspec.msgpack.Decoder(
    tuple[tuple[outcomes.Column, ...], tuple[sqltypes.SqlType, ...]]
)


def main(arguments: list[str]) -> None:
    """Serve the socket whose descriptor is the first argument."""
    descriptor, growth_bytes = arguments
    confinement.confine(int(growth_bytes))
    confinement.yield_to_others()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    connection = socket.socket(fileno=int(descriptor))
    with connection.makefile("rb") as requests, connection.makefile("wb") as answers:
        serve(requests, answers)
