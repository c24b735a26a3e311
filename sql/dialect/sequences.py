"""rule: the grammar of CREATE, ALTER and DROP SEQUENCE."""

from __future__ import annotations

from sql import errors
from sql.dialect import elements, operations, reading


def read_create(reader: reading.TokenReader, *, replace: bool) -> operations.CreateSequence:
    """Return the CREATE SEQUENCE whose name comes next."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    reader.accept("WITH")
    start = increment = 1
    comment = ""
    while not reader.is_finished:
        if reader.accept("START"):
            _ = reader.accept("WITH") or reader.accept("=")
            start = elements.read_integer(reader)
        elif reader.accept("INCREMENT"):
            increment = _read_increment(reader)
        elif reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
        elif not (reader.accept("ORDER") or reader.accept("NOORDER") or reader.accept(",")):
            raise errors.unsupported(f"CREATE SEQUENCE ... {reader.peek_word()}")
    reader.finish()
    return operations.CreateSequence(
        name=name,
        start=start,
        increment=increment,
        comment=comment,
        if_not_exists=if_not_exists,
        replace=replace,
    )


def read_alter(reader: reading.TokenReader) -> operations.AlterSequence:
    """Return the ALTER SEQUENCE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    increment, comment, to = None, None, None
    if reader.accept("RENAME", "TO"):
        to = reader.name()
    elif reader.accept("UNSET", "COMMENT"):
        comment = ""
    else:
        reader.accept("SET")
        while not reader.is_finished:
            if reader.accept("INCREMENT"):
                increment = _read_increment(reader)
            elif reader.accept("COMMENT"):
                reader.expect("=")
                comment = reader.string()
            elif not (reader.accept("ORDER") or reader.accept("NOORDER") or reader.accept(",")):
                raise errors.unsupported(f"ALTER SEQUENCE ... {reader.peek_word()}")
    reader.finish()
    return operations.AlterSequence(
        name=name, to=to, increment=increment, comment=comment, if_exists=if_exists
    )


def read_drop(reader: reading.TokenReader) -> operations.DropSequence:
    """Return the DROP SEQUENCE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    _ = reader.accept("CASCADE") or reader.accept("RESTRICT")
    reader.finish()
    return operations.DropSequence(name=name, if_exists=if_exists)


def _read_increment(reader: reading.TokenReader) -> int:
    _ = reader.accept("BY") or reader.accept("=")
    increment = elements.read_integer(reader)
    elements.check_increment(increment)
    return increment
