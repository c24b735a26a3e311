"""rule: the columns and keys in the parentheses of CREATE TABLE, and those of ALTER TABLE ADD.

A part that Boathouse does not have (a check, a policy, a collation) is refused by name. The keys
are stored and never enforced, as in Snowflake, so a key that asks to be enforced is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sql import errors
from sql.dialect import columns, functions, grammar, names, operations, reading, sqltypes

AFTER_TYPE = frozenset(
    (
        *reading.words(
            """
            NOT NULL COMMENT DEFAULT AUTOINCREMENT IDENTITY CONSTRAINT UNIQUE REFERENCES COLLATE
            MASKING PROJECTION TAG AS CHECK CLUSTER RENAME PRIMARY FOREIGN
            """
        ),
        "PRIMARY KEY",
        "FOREIGN KEY",
    )
)
"""Words that end a column's type, or its DEFAULT expression."""

KEY_WORDS = ("CONSTRAINT", "PRIMARY", "PRIMARY KEY", "UNIQUE", "FOREIGN", "FOREIGN KEY")


def read_elements(
    reader: reading.TokenReader,
) -> tuple[tuple[operations.ColumnDefinition, ...], tuple[operations.KeyDefinition, ...]]:
    """Return the columns and the keys of a list in parentheses."""
    definitions: list[operations.ColumnDefinition] = []
    keys: list[operations.KeyDefinition] = []
    reader.expect("(")
    while True:
        if reader.peek_word() == "CHECK":
            raise errors.unsupported("CHECK constraint")
        if reader.peek_word() in KEY_WORDS:
            keys.append(read_key(reader))
        else:
            definition, own_keys = read_column(reader)
            definitions.append(definition)
            keys += own_keys
        if not reader.accept(","):
            break
    reader.expect(")")
    check_keys(keys)
    return tuple(definitions), tuple(keys)


def check_keys(keys: list[operations.KeyDefinition]) -> None:
    """Raise SqlError for a second primary key."""
    if sum(key.type == "primary" for key in keys) > 1:
        raise errors.SqlError(
            "002025",
            "42601",
            "SQL compilation error:\nA table can have only one primary key.",
            phase="COMPILATION",
        )


def read_column(
    reader: reading.TokenReader,
) -> tuple[operations.ColumnDefinition, list[operations.KeyDefinition]]:
    """Return a column's definition, and the keys that it contains."""
    definition = operations.ColumnDefinition(name=reader.ident(), type=read_type(reader))
    keys: list[operations.KeyDefinition] = []
    while reader.peek_word() not in ("", ",", ")", ";"):
        if reader.accept("NOT", "NULL"):
            definition = dataclasses.replace(definition, required=True)
        elif reader.accept("NULL"):
            definition = dataclasses.replace(definition, required=False)
        elif reader.accept("COMMENT"):
            definition = dataclasses.replace(definition, comment=reader.string())
        elif reader.accept("DEFAULT"):
            definition = dataclasses.replace(definition, default=read_expression(reader))
        elif reader.accept("AUTOINCREMENT") or reader.accept("IDENTITY"):
            definition = dataclasses.replace(definition, identity=_read_identity(reader))
        elif reader.peek_word() in KEY_WORDS or reader.peek_word() == "REFERENCES":
            keys.append(read_key(reader, of_column=definition.name))
        elif reader.accept("NOT"):
            raise reader.unexpected()
        else:
            raise errors.unsupported(f"column constraint {reader.peek_word()}")
    if any(key.type == "primary" for key in keys):
        definition = dataclasses.replace(definition, required=True)
    if definition.default is not None and definition.identity is not None:
        raise errors.unsupported("DEFAULT and AUTOINCREMENT of one column")
    return definition, keys


def read_type(reader: reading.TokenReader) -> sqltypes.SqlType | None:
    """Return the type that comes next; None if there is none."""
    start = reader.mark()
    skip_expression(reader, AFTER_TYPE)
    tokens = reader.between(start, reader.mark())
    if not tokens:
        return None
    if tokens[-1].text.upper() == "WITH":
        raise errors.unsupported(f"column constraint WITH {reader.peek_word()}")
    node = _parsed(reader, tokens, exp.DataType)
    if not isinstance(node, exp.DataType):
        raise reader.unexpected(tokens[0])
    return columns.column_type(node)


def read_expression(reader: reading.TokenReader) -> str:
    """Return the text of the expression that comes next. Raises SqlError if it is not one."""
    text, _ = read_node(reader)
    return text


def read_node(reader: reading.TokenReader) -> tuple[str, Any]:
    """Return the text and the tree of the expression that comes next. Raises SqlError for none."""
    start = reader.mark()
    if reader.is_at_end:
        raise reader.unexpected_end()
    reader.skip_one()  # NULL, which otherwise ends an expression
    skip_expression(reader, AFTER_TYPE)
    tokens = reader.between(start, reader.mark())
    tree = _parsed(reader, tokens, exp.Expression)
    if tree is None:
        raise reader.unexpected(tokens[0])
    return reader.text[tokens[0].start : tokens[-1].end + 1], tree.expressions[0]


def _parsed(reader: reading.TokenReader, tokens: list[Token], into: Any) -> Any:
    parser = grammar.Boathouse().parser()
    try:
        if into is exp.DataType:
            (tree,) = parser.parse_into(exp.DataType, tokens, reader.text)
            return tree
        (tree,) = parser.parse([SELECT, *tokens], reader.text)
    except RecursionError:
        raise errors.unsupported("expression nested too deeply") from None
    except Exception:  # noqa: BLE001 - as in `parse`: bad text makes the parser fail in many ways
        raise reader.unexpected(tokens[0]) from None
    is_one = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    return tree if is_one else None


SELECT = Token(TokenType.SELECT, "SELECT", 1, 1, 0, 0)


def skip_expression(reader: reading.TokenReader, stops: frozenset[str]) -> None:
    """Move the reader to the next comma, closing parenthesis, semicolon or word of stops."""
    depth = 0
    while not reader.is_at_end:
        word = reader.peek_word()
        if depth == 0 and (word in (",", ")", ";") or word in stops):
            return
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word, 0)
        reader.skip_one()


def _read_identity(reader: reading.TokenReader) -> operations.AutoIncrement:
    start = increment = 1
    if reader.accept("("):
        start = read_integer(reader)
        reader.expect(",")
        increment = read_integer(reader)
        reader.expect(")")
    else:
        while True:
            if reader.accept("START"):
                _ = reader.accept("WITH") or reader.accept("=")
                start = read_integer(reader)
            elif reader.accept("INCREMENT"):
                _ = reader.accept("BY") or reader.accept("=")
                increment = read_integer(reader)
            else:
                break
    _ = reader.accept("ORDER") or reader.accept("NOORDER")
    check_increment(increment)
    return operations.AutoIncrement(start=start, increment=increment)


def check_increment(increment: int) -> None:
    """Raise SqlError for an increment of 0."""
    if increment == 0:
        raise errors.SqlError(
            "002084",
            "42601",
            "SQL compilation error:\nThe increment of a sequence cannot be 0.",
            phase="COMPILATION",
        )


def read_integer(reader: reading.TokenReader) -> int:
    """Return a whole number with an optional sign."""
    if reader.accept("-"):
        return -reader.number(digits_max=INTEGER_DIGITS_MAX)
    reader.accept("+")
    return reader.number(digits_max=INTEGER_DIGITS_MAX)


INTEGER_DIGITS_MAX = 18
"""Digits of a number that every 64-bit counter holds."""


def read_key(
    reader: reading.TokenReader, *, of_column: names.Ident | None = None
) -> operations.KeyDefinition:
    """Return the key that comes next. of_column: the column in whose definition it stands."""
    name = reader.ident() if reader.accept("CONSTRAINT") else None
    own = () if of_column is None else (of_column,)
    if reader.accept("PRIMARY", "KEY"):
        key = operations.KeyDefinition(
            type="primary", name=name, columns=own or reader.ident_list()
        )
    elif reader.accept("UNIQUE"):
        key = operations.KeyDefinition(type="unique", name=name, columns=own or reader.ident_list())
    else:
        is_foreign = reader.accept("FOREIGN", "KEY")
        if not is_foreign and of_column is None:
            raise errors.unsupported(f"{reader.peek_word()} constraint")
        listed = own or reader.ident_list()
        reader.expect("REFERENCES")
        referenced = reader.name()
        there = reader.ident_list() if reader.peek_text() == "(" else ()
        key = operations.KeyDefinition(
            type="foreign",
            name=name,
            columns=listed,
            referenced=referenced,
            referenced_columns=there,
        )
    return _with_properties(reader, key)


def _with_properties(
    reader: reading.TokenReader, key: operations.KeyDefinition
) -> operations.KeyDefinition:
    while True:
        if reader.accept("NOT", "ENFORCED") or reader.accept("NORELY"):
            continue
        if reader.accept("RELY"):
            key = dataclasses.replace(key, is_reliable=True)
        elif key.type == "foreign" and reader.accept("ON", "DELETE"):
            key = dataclasses.replace(key, on_delete=_read_rule(reader))
        elif key.type == "foreign" and reader.accept("ON", "UPDATE"):
            key = dataclasses.replace(key, on_update=_read_rule(reader))
        elif reader.peek_word() in ("ENFORCED", "DEFERRABLE", "INITIALLY", "ENABLE", "VALIDATE"):
            raise errors.unsupported(f"{reader.peek_word()} constraint")
        else:
            return key


def _read_rule(reader: reading.TokenReader) -> str:
    for words in (("NO", "ACTION"), ("SET", "NULL"), ("SET", "DEFAULT")):
        if reader.accept(*words):
            return " ".join(words)
    for word in ("CASCADE", "RESTRICT"):
        if reader.accept(word):
            return word
    raise reader.unexpected()


# DEFAULT


def read_default(text: str) -> DefaultForm:
    """Return what a DEFAULT expression is. Raises SqlError for one that a column cannot have."""
    tokens = grammar.Boathouse().tokenize(text)
    tree = grammar.Boathouse().parser().parse([SELECT, *tokens], text)[0]
    assert tree is not None, "the text was parsed before"
    (node,) = tree.expressions
    if isinstance(node, exp.Null):
        return DefaultForm(is_null=True)
    if isinstance(node, exp.Column) and node.name.upper() == "NEXTVAL" and node.table:
        return DefaultForm(sequence=tuple(columns.ident(part) for part in node.parts[:-1]))
    if isinstance(node, exp.Anonymous) and node.name.upper() == UUID and not node.expressions:
        return DefaultForm(is_uuid=True)
    is_constant = True
    for part in node.walk():
        if _is_unit(part):
            continue
        if isinstance(part, exp.Column | exp.Query | exp.AggFunc | exp.Window | exp.Placeholder):
            raise errors.unsupported(f"DEFAULT {text[:100]}")
        name = part.name.upper() if isinstance(part, exp.Anonymous) else ""
        if name in VOLATILE:
            raise errors.unsupported(f"DEFAULT {name}()")
        is_constant = is_constant and isinstance(part, CONSTANT_PARTS)
    return DefaultForm(is_constant=is_constant)


def _is_unit(node: Any) -> bool:
    """Return whether a node is the unit of a function of dates, as `day` of DATEADD is."""
    call = node.parent
    return (
        isinstance(node, exp.Column)
        and isinstance(call, exp.Anonymous)
        and call.name.upper() in UNIT_FIRST
        and call.expressions[0] is node
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DefaultForm:
    """What a DEFAULT expression is: NULL, a sequence's NEXTVAL, a constant, UUID_STRING() (another
    value in each row), or none of these.
    """

    is_null: bool = False
    is_constant: bool = False
    is_uuid: bool = False
    sequence: names.Name = ()


UNIT_FIRST = frozenset(
    reading.words(
        "DATEADD TIMEADD TIMESTAMPADD DATEDIFF TIMEDIFF TIMESTAMPDIFF DATE_TRUNC DATE_PART"
    )
)
"""Functions whose first argument is a unit, which may be a bare word."""

VOLATILE = frozenset(
    name
    for name, function in functions.FUNCTIONS.items()
    if function.is_volatile or name in ("SEQ1", "SEQ2", "SEQ4", "SEQ8")
)
"""Functions with another value in each row, which one value for a statement cannot stand for."""

UUID = "UUID_STRING"

CONSTANT_PARTS = (
    exp.Literal,
    exp.Neg,
    exp.Paren,
    exp.Boolean,
    exp.Null,
    exp.Cast,
    exp.TryCast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.DPipe,
)
"""Nodes of an expression whose value never depends on the session or the clock."""
