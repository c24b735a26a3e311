"""rule: the grammar of CREATE, ALTER and DROP DATABASE."""

from __future__ import annotations

from collections.abc import Callable

from sql import errors
from sql.dialect import names, operations, reading


def read_create(
    reader: reading.TokenReader,
    read_source: Callable[[reading.TokenReader], operations.CloneSource | None],
    *,
    replace: bool,
) -> operations.CreateDatabase:
    """Return the CREATE DATABASE whose name comes next. read_source: reads CLONE."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = _read_name(reader)
    source = read_source(reader)
    if source is not None and len(source.name) != 1:
        raise errors.invalid_identifier(names.dotted(source.name))
    comment = ""
    while not reader.is_finished:
        if reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
        else:
            raise errors.unsupported(f"CREATE DATABASE ... {reader.peek_word()}")
    return operations.CreateDatabase(
        name=name,
        comment=comment,
        if_not_exists=if_not_exists,
        replace=replace,
        source=source,
    )


def read_alter(reader: reading.TokenReader) -> operations.AlterDatabase:
    """Return the ALTER DATABASE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = _read_name(reader)
    if reader.accept("SET", "COMMENT"):
        reader.expect("=")
        comment = reader.string()
    elif reader.accept("UNSET", "COMMENT"):
        comment = ""
    elif reader.accept("RENAME"):
        raise errors.unsupported("ALTER DATABASE ... RENAME TO (a table bucket keeps its name)")
    else:
        word = reader.next_word()
        raise errors.unsupported(f"ALTER DATABASE ... {word} {reader.peek_word()}".rstrip())
    reader.finish()
    return operations.AlterDatabase(name=name, comment=comment, if_exists=if_exists)


def read_drop(reader: reading.TokenReader) -> operations.DropDatabase:
    """Return the DROP DATABASE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = _read_name(reader)
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.finish()
    return operations.DropDatabase(name=name, if_exists=if_exists, cascade=cascade)


def _read_name(reader: reading.TokenReader) -> names.Ident:
    name = reader.name()
    if len(name) != 1:
        raise errors.invalid_identifier(names.dotted(name))
    return name[0]
