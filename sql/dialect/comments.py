"""rule: the grammar of COMMENT ON, and of ALTER SCHEMA, which changes only comments here."""

from __future__ import annotations

from sql import errors
from sql.dialect import names, operations, reading

NAME_PARTS_MAX = 4
"""Of a column: database, schema, table, column."""


def read_comment(reader: reading.TokenReader) -> operations.Operation:
    """Return the change that COMMENT ON makes of a table, view, column, schema or other object."""
    reader.expect("COMMENT")
    if_exists = reader.accept("IF", "EXISTS")
    reader.expect("ON")
    if reader.accept("STAGE"):
        return _of_staging(reader, "stage", if_exists=if_exists)
    if reader.accept("FILE", "FORMAT"):
        return _of_staging(reader, "file format", if_exists=if_exists)
    object_type = reader.next_word()
    if object_type not in ("TABLE", "VIEW", "COLUMN", "SCHEMA", "DATABASE", "SEQUENCE"):
        raise errors.unsupported(f"COMMENT ON {object_type}")
    if object_type == "COLUMN":
        parts = [reader.ident()]
        while len(parts) < NAME_PARTS_MAX and reader.accept("."):
            parts.append(reader.ident())
        *table, column = parts
        if not table:
            raise reader.unexpected()
        comment = _read_text(reader)
        change = operations.ColumnChange(column=column, comment=comment)
        return operations.AlterTable(
            name=tuple(table),
            change=operations.ChangeColumns(changes=(change,)),
            if_exists=if_exists,
            of_view=operations.AlterView(
                name=tuple(table), column_comments=((column, comment),), if_exists=if_exists
            ),
        )
    name = reader.name()
    comment = _read_text(reader)
    if object_type == "DATABASE":
        if len(name) != 1:
            raise errors.invalid_identifier(names.dotted(name))
        return operations.AlterDatabase(name=name[0], comment=comment, if_exists=if_exists)
    if object_type == "SCHEMA":
        return _alter_schema(name, comment, if_exists=if_exists)
    if object_type == "VIEW":
        return operations.AlterView(name=name, comment=comment, if_exists=if_exists)
    if object_type == "SEQUENCE":
        return operations.AlterSequence(name=name, comment=comment, if_exists=if_exists)
    assigned = operations.SetTableProperties(properties=(("comment", comment or None),))
    return operations.AlterTable(name=name, change=assigned, if_exists=if_exists)


def _of_staging(
    reader: reading.TokenReader, object_type: operations.StagingType, *, if_exists: bool
) -> operations.AlterStaging:
    name = reader.name()
    comment = _read_text(reader)
    return operations.AlterStaging(
        object_type=object_type, name=name, comment=comment, if_exists=if_exists
    )


def _read_text(reader: reading.TokenReader) -> str:
    reader.expect("IS")
    comment = reader.string()
    reader.finish()
    return comment


def read_alter_schema(reader: reading.TokenReader) -> operations.AlterSchema:
    """Return the ALTER SCHEMA whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    if reader.accept("SET", "COMMENT"):
        reader.expect("=")
        comment = reader.string()
    elif reader.accept("UNSET", "COMMENT"):
        comment = ""
    elif reader.accept("RENAME"):
        raise errors.unsupported("ALTER SCHEMA ... RENAME TO (a namespace keeps its name)")
    else:
        word = reader.next_word()
        raise errors.unsupported(f"ALTER SCHEMA ... {word} {reader.peek_word()}".rstrip())
    reader.finish()
    return _alter_schema(name, comment, if_exists=if_exists)


def _alter_schema(name: names.Name, comment: str, *, if_exists: bool) -> operations.AlterSchema:
    if len(name) > 2:
        raise errors.unsupported("a schema name of more than two parts")
    return operations.AlterSchema(name=name, comment=comment, if_exists=if_exists)
