"""rule: the grammar of CREATE, ALTER and DROP VIEW.

A view's query is parsed when the view is created, and its text is kept exactly as written, because
each query that reads the view parses it again. An option that Boathouse does not have is refused by
name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sql import errors
from sql.dialect import alterations, names, operations, reading

ReadQuery = Callable[[reading.TokenReader], Any]


def is_create(reader: reading.TokenReader, start: int) -> bool:
    """Return whether the statement from start on is CREATE VIEW; the reader stays where it was."""
    here = reader.mark()
    reader.reset(start)
    reader.accept("CREATE")
    reader.accept("OR", "REPLACE")
    while any(reader.accept(word) for word in WORDS_BEFORE):
        pass
    is_view = reader.accept("VIEW")
    reader.reset(start if is_view else here)
    return is_view


WORDS_BEFORE = reading.words("SECURE LOCAL GLOBAL TEMP TEMPORARY VOLATILE RECURSIVE")


def read_create(reader: reading.TokenReader, read_query: ReadQuery) -> operations.CreateView:
    """Return the CREATE VIEW that starts here. read_query: reads the tree of the query at the end.

    Raises SqlError for a query with binds or session variables: a view has none of its own.
    """
    reader.expect("CREATE")
    replace = reader.accept("OR", "REPLACE")
    is_secure = reader.accept("SECURE")
    is_local = reader.accept("LOCAL") or reader.accept("GLOBAL")
    is_temporary = any(reader.accept(word) for word in ("TEMP", "TEMPORARY", "VOLATILE"))
    if is_local and not is_temporary:
        raise reader.unexpected()
    if not reader.accept("VIEW"):
        raise errors.unsupported(f"CREATE {reader.peek_word()} VIEW")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise reader.unexpected()
    name = reader.name()
    columns = _read_columns(reader) if reader.peek_text() == "(" else ()
    comment = None
    while not reader.accept("AS"):
        if reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
        elif not reader.accept("COPY", "GRANTS"):  # Boathouse's views have no grants of their own
            if reading.is_word(reader.peek_text()):
                raise errors.unsupported(f"CREATE VIEW ... {reader.peek_word()}")
            raise reader.unexpected()
    text = _rest(reader)
    query = read_query(reader)
    check_query(query)
    return operations.CreateView(
        name=name,
        columns=columns,
        text=text,
        query=query,
        replace=replace,
        if_not_exists=if_not_exists,
        is_secure=is_secure,
        is_temporary=is_temporary,
        comment=comment,
    )


def check_query(tree: Any) -> None:
    """Raise SqlError for a query that names binds, session variables or stored results."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Parameter):
            raise errors.unsupported("a stored result in a view")
    for call in tree.find_all(exp.Anonymous):
        name = str(call.this).upper()
        if name in ("RESULT_SCAN", "GETVARIABLE"):
            raise errors.unsupported(f"{name} in a view")
    for node in tree.find_all(exp.Placeholder, exp.Parameter, exp.SessionParameter):
        if isinstance(node, exp.Parameter) and node.name.isdecimal():
            continue  # $1 is the first column of FROM
        raise errors.unsupported("a bind or a session variable in a view")


def _read_columns(reader: reading.TokenReader) -> tuple[operations.ColumnDefinition, ...]:
    reader.expect("(")
    columns = []
    while True:
        name = reader.ident()
        comment = reader.string() if reader.accept("COMMENT") else None
        columns.append(operations.ColumnDefinition(name=name, type=None, comment=comment))
        if not reader.accept(","):
            break
    if reading.is_word(reader.peek_text()):
        raise errors.unsupported(f"CREATE VIEW ... {reader.peek_word()}")
    reader.expect(")")
    return tuple(columns)


def _rest(reader: reading.TokenReader) -> str:
    """Return the text from here to the end of the statement, without its semicolon."""
    tokens = [token for token in reader.rest() if token.token_type is not TokenType.SEMICOLON]
    if not tokens:
        raise reader.unexpected_end()
    return reader.text[tokens[0].start : tokens[-1].end + 1]


def read_drop(reader: reading.TokenReader) -> operations.DropView:
    """Return the DROP VIEW whose first two words are read."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    _ = reader.accept("CASCADE") or reader.accept("RESTRICT")  # Boathouse has no foreign keys
    reader.finish()
    return operations.DropView(name=name, if_exists=if_exists)


def read_alter(reader: reading.TokenReader) -> operations.AlterView:
    """Return the ALTER VIEW whose first two words are read."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    new_name: names.Name | None = None
    comment: str | None = None
    is_secure: bool | None = None
    column_comments: tuple[tuple[names.Ident, str], ...] = ()
    if reader.accept("RENAME", "TO"):
        new_name = reader.name()
    elif reader.accept("SET", "COMMENT"):
        reader.expect("=")
        comment = reader.string()
    elif reader.accept("UNSET", "COMMENT"):
        comment = ""
    elif reader.accept("SET", "SECURE"):
        is_secure = True
    elif reader.accept("UNSET", "SECURE"):
        is_secure = False
    elif reader.accept("ALTER") or reader.accept("MODIFY"):
        column_comments = _read_column_comments(reader)
    else:
        word = reader.next_word()
        raise errors.unsupported(f"ALTER VIEW ... {word} {reader.peek_word()}".rstrip())
    reader.finish()
    return operations.AlterView(
        name=name,
        if_exists=if_exists,
        new_name=new_name,
        comment=comment,
        is_secure=is_secure,
        column_comments=column_comments,
    )


def _read_column_comments(
    reader: reading.TokenReader,
) -> tuple[tuple[names.Ident, str], ...]:
    """Return columns and their comments; raises SqlError for any other change of a column."""
    comments = []
    for change in alterations.read_column_changes(reader).changes:
        if change != operations.ColumnChange(column=change.column, comment=change.comment):
            raise errors.unsupported("ALTER VIEW ... ALTER COLUMN without COMMENT")
        comments.append((change.column, change.comment or ""))
    return tuple(comments)
