"""rule: parses a text to one operation of the closed set, or raises Snowflake's own error.

The first words select the parser: sqlglot parses queries, CREATE, INSERT and DROP; this module
parses the small statements of a session, token by token. A statement that Snowflake has and
Boathouse does not is refused by name (000002); any other is a syntax error (001003).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from sqlglot import errors as sqlglot_errors
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sql import errors, limits
from sql.dialect import (
    accounts,
    alterations,
    bound_rows,
    changes,
    cloning,
    columns,
    comments,
    databases,
    elements,
    grammar,
    hierarchies,
    multi_inserts,
    names,
    operations,
    reading,
    sequences,
    show,
    staging,
    views,
    warehouses,
)


def parse(text: str) -> operations.Operation:
    """Return the one statement of text; raises SqlError (000900 when there is none)."""
    operation = _parse(text)
    if getattr(operation, "replace", False) and getattr(operation, "if_not_exists", False):
        raise errors.incompatible_options("OR REPLACE", "IF NOT EXISTS")
    return operation


def _parse(text: str) -> operations.Operation:
    reader = reading.TokenReader(text, tokenize(text))
    reader.drop_semicolons()
    if reader.is_at_end:
        raise errors.empty_statement()
    return _statement(reader)


def _statement(reader: reading.TokenReader) -> operations.Operation:
    head = reader.peek_word()
    read = READERS.get(head)
    if read is not None:
        return read(reader)
    if head in REFUSED:
        raise errors.unsupported(_refused_name(reader))
    if reader.peek_text() == "(" or head in ("SELECT", "WITH", "VALUES"):
        return operations.Query(tree=_tree(reader))
    raise reader.unexpected()


def split(text: str) -> list[str]:
    """Return the statements of text, without their semicolons; empty ones are left out.

    Quotes, $$ bodies and comments are known. Raises SqlError 001003 for an open quote, 000002 for
    a block of Snowflake Scripting, whose semicolons end no statements.
    """
    if BLOCKS.match(text):
        raise errors.unsupported(BLOCK)
    statements = []
    first: Token | None = None
    last: Token | None = None
    for token in tokenize(text):
        if token.token_type is TokenType.SEMICOLON:
            if first is not None and last is not None:
                statements.append(text[first.start : last.end + 1])
            first = None
        else:
            first, last = first or token, token
    if first is not None and last is not None:
        statements.append(text[first.start : last.end + 1])
    if len(statements) > limits.STATEMENTS_MAX:
        raise errors.too_complex(f"more than {limits.STATEMENTS_MAX:,} statements in one request")
    return statements


BLOCKS = re.compile(
    rf"{reading.LEAD}(?:DECLARE\s|BEGIN\s+(?!(?:TRANSACTION|WORK|NAME)\b)\w)", re.IGNORECASE
)


def split_flow(text: str) -> list[str]:
    """Return the statements of a text that `->>` joins; raises SqlError for an empty one."""
    statements, start, last = [], 0, 0
    for token in tokenize(text):
        if text[token.start : token.end + 1] == "->>":
            if not text[start : token.start].strip():
                raise _syntax_error_at(text, token.start)
            statements.append(text[start : token.start])
            start = token.end + 1
        last = token.end + 1
    if statements and start >= last:
        raise _syntax_error_at(text, len(text))
    if len(statements) >= limits.FLOW_STATEMENTS_MAX:
        raise errors.too_complex(f"more than {limits.FLOW_STATEMENTS_MAX} statements in a flow")
    return [*statements, text[start:]]


def tokenize(text: str) -> list[Token]:
    """Return the tokens of text, without comments."""
    if len(text) > limits.TEXT_LENGTH_MAX:
        raise errors.too_complex(f"its text has more than {limits.TEXT_LENGTH_MAX:,} characters")
    try:
        tokens = grammar.Boathouse().tokenize(_with_plain_path(text))
    except sqlglot_errors.TokenError:
        raise _syntax_error_at(text, reading.open_place(text)) from None
    if len(tokens) > limits.TOKENS_MAX:
        raise errors.too_complex(f"more than {limits.TOKENS_MAX:,} tokens")
    if any(token.token_type is TokenType.NUMBER and "e" in token.text.lower() for token in tokens):
        tokens = _split_numbers(tokens)
    if COMMENT.search(text) is not None:
        tokens = _joined_words(text, tokens)
    return tokens


COMMENT = re.compile(r"/\*|--|//")
PAIRS: Final = {
    word: token_type
    for word, token_type in grammar.Boathouse.Tokenizer.KEYWORDS.items()
    if word.count(" ") == 1
}
"""Pairs of words that the tokenizer makes one token of, as GROUP BY, where blanks part them."""


def _joined_words(text: str, tokens: list[Token]) -> list[Token]:
    """Return tokens in which such pairs are one token with a comment between their words too."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        word = text[token.start : token.end + 1]  # with its quotes, if it has some
        pair = "" if last is None else f"{text[last.start : last.end + 1]} {word}".upper()
        if last is not None and pair in PAIRS:
            joined[-1] = Token(PAIRS[pair], pair, last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


def _with_plain_path(text: str) -> str:
    """Return a PUT whose path has no quotes with letters in its place, another text as it is.

    The tokenizer would read the `/*` of `file:///tmp/*` as a comment's begin. The text's length,
    and so the place of each token, stays.
    """
    head = staging.HEAD.match(text)
    start = head.end() if head else 0
    match = staging.PUT_SENT_PATH.match(text, start) or staging.PUT_PATH.match(text, start)
    if match is None:
        return text
    start, end = match.span("path")
    return text[:start] + "p" * (end - start) + text[end:]


def is_plain_name(text: str) -> bool:
    """Return whether a name as reported can be written without quotes: it is no reserved word."""
    if not names.PLAIN_UPPER.fullmatch(text):
        return False
    tokens = tokenize(text)
    return len(tokens) == 1 and tokens[0].token_type is TokenType.VAR


def _split_numbers(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.token_type is TokenType.NUMBER
            and token.start == last.end + 1
            and EXPONENT.fullmatch(token.text)
        ):
            text = last.text + token.text
            joined[-1] = Token(last.token_type, text, last.line, last.col, last.start, token.end)
        else:
            joined += _parts(token)
    return joined


def _parts(token: Token) -> list[Token]:
    """Return a number with trailing text, `1e3-2`, as the number and the rest."""
    run_on = RUN_ON.fullmatch(token.text) if token.token_type is TokenType.NUMBER else None
    if run_on is None:
        return [token]
    number, sign, rest = run_on.groups()
    at = token.start + len(number)
    token_type = TokenType.PLUS if sign == "+" else TokenType.DASH
    following = Token(TokenType.NUMBER, rest, token.line, token.col, at + 1, token.end)
    return [
        Token(TokenType.NUMBER, number, token.line, token.col, token.start, at - 1),
        Token(token_type, sign, token.line, token.col, at, at),
        *_parts(following),
    ]


EXPONENT = re.compile(r"[eE]\d+")
RUN_ON = re.compile(r"([\d.]+[eE][+-]?\d+)([+-])(.+)")


def _syntax_error_at(text: str, start: int) -> errors.SqlError:
    line, position = reading.place_of(text, start)
    return errors.syntax_error(line, position, text[start : start + 20] or "<EOF>")


def _tree(reader: reading.TokenReader) -> Any:
    """Return sqlglot's tree of all tokens from here on."""
    return _tree_of(reader, reader.rest())


def _tree_of(reader: reading.TokenReader, rest: list[Token]) -> Any:
    """Return sqlglot's tree of tokens of the reader's text."""
    while rest and rest[-1].token_type is TokenType.SEMICOLON:
        rest.pop()
    if not rest:
        raise reader.unexpected_end()
    for token in rest:
        if token.token_type is TokenType.SEMICOLON:
            raise reader.unexpected(token)
    try:
        trees = grammar.Boathouse().parser().parse(rest, reader.text)
    except grammar.GrammarFault as fault:
        raise reader.unexpected(fault.token) if fault.token else reader.unexpected_end() from None
    except grammar.Opaque as opaque:
        raise errors.unsupported(opaque.head) from None
    except RecursionError:
        raise errors.unsupported("expression nested too deeply") from None
    except Exception:  # noqa: BLE001 - becomes the one error for a text that is not SQL
        # Bad text makes the parser fail in many ways; each of them means that it is not SQL.
        raise reader.unexpected(rest[0]) from None
    if len(trees) != 1 or trees[0] is None:
        raise reader.unexpected(rest[0])
    if any(token.token_type in HIERARCHY for token in rest):
        return hierarchies.expand(trees[0])
    return trees[0]


HIERARCHY = (TokenType.CONNECT_BY, TokenType.START_WITH)


def _query_tree(reader: reading.TokenReader) -> Any:
    tree = _tree(reader)
    if not isinstance(tree, exp.Query):
        raise errors.unsupported(type(tree).__name__.upper())
    return tree


def _explain(reader: reading.TokenReader) -> operations.Operation:
    reader.accept("EXPLAIN")
    form: operations.PlanForm = "tabular"
    if reader.accept("USING"):
        if reader.accept("TEXT"):
            form = "text"
        elif reader.accept("JSON"):
            form = "json"
        elif not reader.accept("TABULAR"):
            raise errors.unsupported(f"EXPLAIN USING {reader.peek_word()}")
    head = reader.peek_word()
    if head == "EXPLAIN":
        raise reader.unexpected()
    statement = _statement(reader)
    copies = isinstance(statement, operations.CreateTable) and (
        statement.query is None or statement.copies
    )
    if copies or not isinstance(statement, EXPLAINED):
        raise errors.unsupported(f"EXPLAIN of {head}")
    return operations.Explain(statement=statement, form=form)


def _use(reader: reading.TokenReader) -> operations.Operation:
    reader.accept("USE")
    if reader.accept("SECONDARY", "ROLES"):
        use = operations.Use(object_type="secondary roles", name=(reader.ident(),))
    else:
        object_type = next(
            (word for word in ("database", "schema", "warehouse", "role") if reader.accept(word)),
            "",
        )
        use = operations.Use(object_type=object_type, name=reader.name())  # type: ignore[arg-type]  # one of the words above
    reader.finish()
    return use


def _set(reader: reading.TokenReader) -> operations.Operation:
    # A variable has one name; a qualified one would be a setting of the engine.
    start = reader.mark()
    reader.accept("SET")
    named = reader.ident_list() if reader.peek_text() == "(" else (reader.ident(),)
    reader.expect("=")
    reader.reset(start)
    tree = _tree(reader)
    if not isinstance(tree, exp.Set) or len(tree.expressions) != 1:
        raise errors.unsupported("SET")
    assignment = tree.expressions[0].this
    if not isinstance(assignment, exp.EQ):
        raise errors.unsupported("SET")
    left, right = assignment.this, assignment.expression
    is_list = isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple)
    values = list(right.expressions) if is_list else [right]
    if len(named) != len(values):
        raise errors.unsupported("SET of another number of values than variables")
    return operations.SetVariables(names=named, values=exp.Select(expressions=values))


def _unset(reader: reading.TokenReader) -> operations.Operation:
    reader.accept("UNSET")
    variable_names = reader.ident_list() if reader.peek_text() == "(" else (reader.ident(),)
    reader.finish()
    return operations.UnsetVariables(names=variable_names)


def _alter(reader: reading.TokenReader) -> operations.Operation:
    if reader.accept("ALTER", "VIEW"):
        return views.read_alter(reader)
    of_staging = staging.read_alter(reader)
    if of_staging is not None:
        return of_staging
    start = reader.mark()
    if reader.accept("ALTER", "TABLE") or reader.accept("ALTER", "ICEBERG", "TABLE"):
        return alterations.read_alter_table(reader)
    if reader.accept("ALTER", "SCHEMA"):
        return comments.read_alter_schema(reader)
    if reader.accept("ALTER", "SEQUENCE"):
        return sequences.read_alter(reader)
    if reader.accept("ALTER", "DATABASE"):
        return databases.read_alter(reader)
    if reader.accept("ALTER", "WAREHOUSE"):
        return warehouses.read_alter(reader)
    if reader.accept("ALTER", "USER"):
        return accounts.read_alter_user(reader)
    if reader.accept("ALTER", "ROLE"):
        return accounts.read_alter_role(reader)
    reader.reset(start)
    if not reader.accept("ALTER", "SESSION"):
        raise errors.unsupported(_refused_name(reader))
    if reader.accept("UNSET"):
        unset = [reader.ident().folded]
        while reader.accept(","):
            unset.append(reader.ident().folded)
        reader.finish()
        return operations.AlterSession(unset=tuple(unset))
    reader.expect("SET")
    assignments = []
    while not reader.is_at_end:
        name = reader.ident().folded
        reader.expect("=")
        assignments.append((name, reader.value()))
        reader.accept(",")
        reader.drop_semicolons()
    if not assignments:
        raise reader.unexpected()
    return operations.AlterSession(set=tuple(assignments))


def _begin(reader: reading.TokenReader) -> operations.Operation:
    if reader.accept("START"):
        reader.expect("TRANSACTION")
    else:
        reader.accept("BEGIN")
        _ = reader.accept("TRANSACTION") or reader.accept("WORK")
    name = reader.ident().folded if reader.accept("NAME") else ""
    if not reader.is_finished:
        raise errors.unsupported(BLOCK)
    return operations.BeginTransaction(name=name)


def _execute(reader: reading.TokenReader) -> operations.Operation:
    start = reader.mark()
    if not reader.accept("EXECUTE", "IMMEDIATE"):
        reader.reset(start)
        raise errors.unsupported(_refused_name(reader))
    if reader.accept("FROM"):
        raise errors.unsupported("EXECUTE IMMEDIATE FROM")
    variable, text = None, ""
    if reader.accept("$"):
        variable = reader.ident()
    elif reader.peek_text():
        raise errors.unsupported("EXECUTE IMMEDIATE of a variable of Snowflake Scripting")
    else:
        text = reader.string()
    using: list[names.Ident | str | int] = []
    if reader.accept("USING"):
        reader.expect("(")
        while True:
            if reader.accept("$"):
                using.append(reader.ident())
            elif reader.peek_text() and not reader.peek_text().isdecimal():
                raise errors.unsupported("USING a variable of Snowflake Scripting")
            else:
                value = reader.value()
                using.append(value if isinstance(value, int) else str(value))
            if not reader.accept(","):
                break
        reader.expect(")")
    reader.finish()
    return operations.ExecuteImmediate(text=text, variable=variable, using=tuple(using))


def _commit(reader: reading.TokenReader) -> operations.Operation:
    reader.accept("COMMIT")
    reader.accept("WORK")
    reader.finish()
    return operations.CommitTransaction()


def _rollback(reader: reading.TokenReader) -> operations.Operation:
    reader.accept("ROLLBACK")
    reader.accept("WORK")
    reader.finish()
    return operations.RollbackTransaction()


def _drop(reader: reading.TokenReader) -> operations.Operation:
    of_staging = staging.read_drop(reader)
    if of_staging is not None:
        return of_staging
    start = reader.mark()
    if reader.accept("DROP", "SEQUENCE"):
        return sequences.read_drop(reader)
    if reader.accept("DROP", "DATABASE"):
        return databases.read_drop(reader)
    if reader.accept("DROP", "WAREHOUSE"):
        return warehouses.read_drop(reader)
    if reader.accept("DROP", "USER"):
        return accounts.read_drop(reader, "user")
    if reader.accept("DROP", "ROLE"):
        return accounts.read_drop(reader, "role")
    reader.accept("DROP")
    if reader.accept("VIEW"):
        return views.read_drop(reader)
    _ = reader.accept("ICEBERG") or reader.accept("TRANSIENT")
    object_type = next((word for word in ("TABLE", "SCHEMA") if reader.accept(word)), None)
    if object_type is None:
        reader.reset(start)
        raise errors.unsupported(_refused_name(reader))
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.finish()
    if object_type == "TABLE":
        return operations.DropTable(name=name, if_exists=if_exists)
    return operations.DropSchema(name=name, if_exists=if_exists, cascade=cascade)


def _undrop(reader: reading.TokenReader) -> operations.Operation:
    start = reader.mark()
    reader.accept("UNDROP")
    if reader.accept("SCHEMA"):
        name = reader.name()
        reader.finish()
        return operations.UndropSchema(name=name)
    _ = reader.accept("ICEBERG")
    if not reader.accept("TABLE"):
        reader.reset(start)
        raise errors.unsupported(_refused_name(reader))
    name = reader.name()
    reader.finish()
    return operations.UndropTable(name=name)


def _create(reader: reading.TokenReader) -> operations.Operation:
    of_staging = staging.read_create(reader)
    if of_staging is not None:
        return of_staging
    start = reader.mark()
    reader.accept("CREATE")
    replace = reader.accept("OR", "REPLACE")
    if reader.accept("SEQUENCE"):
        return sequences.read_create(reader, replace=replace)
    if not replace and reader.accept("USER"):
        return accounts.read_create_user(reader)
    if not replace and reader.accept("ROLE"):
        return accounts.read_create_role(reader)
    if reader.accept("WAREHOUSE"):
        return warehouses.read_create(reader, replace=replace)
    if reader.accept("DATABASE") or reader.accept("TRANSIENT", "DATABASE"):
        return databases.read_create(reader, _read_clone, replace=replace)
    if reader.accept("SCHEMA") or reader.accept("TRANSIENT", "SCHEMA"):
        return _create_schema(reader, replace=replace)
    if views.is_create(reader, start):
        return views.read_create(reader, _query_tree)
    reader.reset(start)
    if not _is_create_table(reader):
        reader.reset(start)
        raise errors.unsupported(_refused_name(reader))
    return _create_table(reader, start)


def _create_table(reader: reading.TokenReader, start: int) -> operations.Operation:
    """Return a CREATE TABLE; the reader is past the word TABLE. start: where the statement is.

    Its column list is read here, and sqlglot parses the rest.
    """
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    if reader.accept(*TEMPLATE):
        return _create_by_template(reader, start, name)
    for copies in COPIES:
        if reader.accept(copies):
            replace, is_temporary, is_transient = _words_before(reader, start)
            return operations.CreateTable(
                name=name,
                columns=(),
                query=_source_tree(reader, copies),
                replace=replace,
                if_not_exists=if_not_exists,
                is_temporary=is_temporary,
                is_transient=is_transient,
                copies=copies,
            )
    definitions: tuple[operations.ColumnDefinition, ...] = ()
    keys: tuple[operations.KeyDefinition, ...] = ()
    list_start = list_stop = reader.mark()
    if reader.peek_text() == "(":
        definitions, keys = elements.read_elements(reader)
        list_stop = reader.mark()
    stage_format, option_start, option_stop = _read_stage_format(reader)
    reader.reset(start)
    reader.accept("CREATE")
    reader.accept("OR", "REPLACE")
    words_start = reader.mark()
    is_temporary = _accept_temporary(reader)
    words_stop = reader.mark()
    is_transient = not is_temporary and reader.accept("TRANSIENT")
    reader.reset(start)
    tokens = [
        *reader.between(start, words_start),
        *reader.between(words_stop, list_start),
        *reader.between(list_stop, option_start),
        *reader.without(start, option_stop),
    ]
    tree = _tree_of(reader, tokens)
    table = columns.create_table(tree, definitions, keys)
    return dataclasses.replace(
        table, is_temporary=is_temporary, is_transient=is_transient, stage_format=stage_format
    )


def _read_stage_format(
    reader: reading.TokenReader,
) -> tuple[operations.FormatClause | None, int, int]:
    """Return STAGE_FILE_FORMAT of the options that come next, and where it starts and stops."""
    clause, start, stop = None, reader.mark(), reader.mark()
    depth = 0
    while not reader.is_at_end and (depth or reader.peek_word() not in ("AS", ";")):
        option_start = reader.mark()
        if not depth and reader.accept(STAGE_FORMAT):
            if clause is not None:
                raise errors.incompatible_options(STAGE_FORMAT, STAGE_FORMAT)
            reader.expect("=")
            clause = staging.read_format(reader)
            start, stop = option_start, reader.mark()
            continue
        depth += {"(": 1, ")": -1}.get(reader.peek_text(), 0)
        reader.skip_one()
    return clause, start, stop


STAGE_FORMAT = alterations.STAGE_FORMAT


def _create_by_template(
    reader: reading.TokenReader, start: int, name: names.Name
) -> operations.CreateTable:
    """Return a CREATE TABLE ... USING TEMPLATE; the reader is past these words."""
    opening = reader.mark()
    before = reader.between(start, opening)
    reader.expect("(")
    depth = 1
    while depth and not reader.is_at_end:
        depth += {"(": 1, ")": -1}.get(reader.peek_text(), 0)
        reader.skip_one()
    inside = reader.between(opening, reader.mark())
    if depth:
        raise reader.unexpected_end()
    # Two tokens back: the words USING TEMPLATE.
    words = before[: -len(TEMPLATE)]
    return operations.CreateTable(
        name=name,
        columns=(),
        template=operations.ColumnTemplate(
            query=reader.text[inside[0].end + 1 : inside[-1].start],
            before=reader.text[words[0].start : words[-1].end + 1],
            after=reader.text[inside[-1].end + 1 :],
        ),
    )


TEMPLATE = ("USING", "TEMPLATE")


def _words_before(reader: reading.TokenReader, start: int) -> tuple[bool, bool, bool]:
    """Return whether a CREATE TABLE has OR REPLACE, whether it is TEMPORARY, and TRANSIENT."""
    here = reader.mark()
    reader.reset(start)
    reader.accept("CREATE")
    replace = reader.accept("OR", "REPLACE")
    is_temporary = _accept_temporary(reader)
    is_transient = not is_temporary and reader.accept("TRANSIENT")
    reader.reset(here)
    return replace, is_temporary, is_transient


def _source_tree(reader: reading.TokenReader, copies: str) -> Any:
    """Return the query of all rows of the table that LIKE or CLONE names."""
    rest = reader.rest()
    while rest and rest[-1].token_type is TokenType.SEMICOLON:
        rest.pop()
    if [token.text.upper() for token in rest[-2:]] == ["COPY", "GRANTS"]:
        rest = rest[:-2]  # Boathouse's tables have no grants of their own
    if not rest:
        raise reader.unexpected_end()
    tree = _tree_of(reader, [*grammar.Boathouse().tokenize("SELECT * FROM"), *rest])
    parts = {key for key, value in tree.args.items() if value}
    table = tree.args["from_"].this if isinstance(tree, exp.Select) else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise reader.unexpected()
    more = {key for key, value in table.args.items() if value} - {"this", "db", "catalog", "when"}
    if parts - {"expressions", "from_"} or more:
        raise reader.unexpected()
    if copies == "like" and table.args.get("when") is not None:
        raise errors.unsupported("CREATE TABLE ... LIKE ... AT")
    return tree


def _is_create_table(reader: reading.TokenReader) -> bool:
    reader.accept("CREATE")
    reader.accept("OR", "REPLACE")
    if not _accept_temporary(reader):
        for word in ("TRANSIENT", "ICEBERG"):
            reader.accept(word)
    return reader.accept("TABLE")


def _accept_temporary(reader: reading.TokenReader) -> bool:
    """Skip the words of a temporary table, if they come next."""
    start = reader.mark()
    # Snowpark's word for what ends with a stored procedure, or else with the session.
    _ = any(reader.accept(word) for word in ("LOCAL", "GLOBAL", "SCOPED"))
    if any(reader.accept(word) for word in TEMPORARY):
        return True
    reader.reset(start)
    return False


def _create_schema(reader: reading.TokenReader, *, replace: bool) -> operations.Operation:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    source = _read_clone(reader)
    comment = None
    while not reader.is_finished:
        if reader.accept("COMMENT"):
            reader.expect("=")
            comment = reader.string()
        else:
            raise errors.unsupported(f"CREATE SCHEMA ... {reader.peek_word()}")
    return operations.CreateSchema(
        name=name,
        if_not_exists=if_not_exists,
        comment=comment,
        replace=replace,
        source=source,
    )


def _read_clone(reader: reading.TokenReader) -> operations.CloneSource | None:
    """Return what CLONE names, if that word comes next."""

    def parse(tokens: Sequence[Token]) -> None:
        query = [*grammar.Boathouse().tokenize("SELECT * FROM t"), *tokens]
        tree = _tree_of(reader, query)
        table = tree.args["from_"].this if isinstance(tree, exp.Select) else None
        if not isinstance(table, exp.Table) or table.args.get("when") is None:
            raise reader.unexpected(tokens[0])

    return cloning.read_source(reader, parse)


def _describe(reader: reading.TokenReader) -> operations.Operation:
    return staging.read_describe(reader) or show.read_describe(reader)


def _insert(reader: reading.TokenReader) -> operations.Operation:
    start = reader.mark()
    reader.accept("INSERT")
    overwrite = reader.accept("OVERWRITE")  # sqlglot's tree of a multi-table INSERT has no place
    if reader.peek_word() not in ("ALL", "FIRST", "WHEN"):
        reader.expect("INTO")
    reader.reset(start)
    tree = _tree(reader)
    if isinstance(tree, exp.MultitableInserts):
        return multi_inserts.read(tree, overwrite=overwrite)
    insert = columns.insert(tree)
    return dataclasses.replace(insert, accepts_rows=bound_rows.accepts_rows(insert.source))


def _copy(reader: reading.TokenReader) -> operations.Operation:
    """Read COPY INTO; of an unload that is to be validated, the query of its rows."""
    copy = staging.read_copy(reader)
    if not isinstance(copy, operations.Unload) or not copy.returns_rows:
        return copy
    query = parse(copy.query)
    if not isinstance(query, operations.Query):
        raise errors.unsupported("COPY INTO @stage of what is no query")
    return query


def _change(reader: reading.TokenReader) -> operations.Operation:
    start = reader.mark()
    if reader.accept("DELETE"):
        reader.expect("FROM")
    reader.reset(start)
    tree = _tree(reader)
    match tree:
        case exp.Delete():
            return changes.delete(tree)
        case exp.Update():
            return changes.update(tree)
        case exp.Merge():
            return changes.merge(tree)
    raise errors.unsupported(type(tree).__name__.upper())


def _truncate(reader: reading.TokenReader) -> operations.Operation:
    reader.accept("TRUNCATE")
    if reader.accept("MATERIALIZED", "VIEW"):
        raise errors.unsupported("TRUNCATE MATERIALIZED VIEW")
    reader.accept("TABLE")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    reader.finish()
    return operations.Truncate(name=name, if_exists=if_exists)


def _refused_name(reader: reading.TokenReader) -> str:
    """Return the statement's first words, for a refusal: `ALTER TABLE`.

    Raises SqlError for a word that is the beginning of no statement: `CREATE TABEL`.
    """
    words = [reader.next_word()]
    if words[0] == "CALL" and not reader.is_finished:
        return f"CALL {names.dotted(reader.name())}"
    if words[0] in ("CREATE", "DROP", "ALTER", "UNDROP", "COPY", "EXECUTE", "COMMENT", "TRUNCATE"):
        # sqlglot makes one token of some pairs, such as FILE FORMAT.
        while reader.peek_word() and set(reader.peek_word().split()) <= STATEMENT_WORDS:
            words.append(reader.next_word())
            if words[-1].split()[-1] in OBJECT_TYPES:
                break
        if " ".join(words) in ("CREATE", "CREATE OR REPLACE", "DROP"):
            raise reader.unexpected()
    return " ".join(words)


BLOCK = "BEGIN ... END block"

NOISE = reading.words(
    """
    OR REPLACE TEMP TEMPORARY TRANSIENT VOLATILE LOCAL GLOBAL SECURE RECURSIVE ICEBERG HYBRID
    DYNAMIC EXTERNAL EVENT FILE ON INTO MATERIALIZED ROW ACCESS MASKING NETWORK RESOURCE
    AGGREGATION API APPLICATION AUTHENTICATION CATALOG COMPUTE DATA FAILOVER GIT IMAGE MANAGED
    METRIC NOTIFICATION PASSWORD PRIVACY PROJECTION REPLICATION SEARCH CORTEX SECURITY STORAGE
    """
)
OBJECT_TYPES = reading.words(
    """
    TABLE VIEW SCHEMA DATABASE WAREHOUSE STAGE SEQUENCE FUNCTION PROCEDURE TASK STREAM PIPE USER
    ROLE FORMAT POLICY INTEGRATION MONITOR SHARE TAG ACCOUNT SESSION IMMEDIATE COLUMN
    ALERT CONNECTION GROUP MODEL NOTEBOOK PACKAGE POOL REPOSITORY RULE SECRET SERVICE STREAMLIT
    VOLUME
    """
)

EXPLAINED = (
    operations.Query,
    operations.Insert,
    operations.InsertAll,
    operations.ChangeRows,
    operations.CreateTable,
)
"""Statements whose plan EXPLAIN shows; of CREATE TABLE, those with a query."""

COPIES: tuple[Literal["like", "clone"], ...] = ("like", "clone")
TEMPORARY = ("TEMP", "TEMPORARY", "VOLATILE")

STATEMENT_WORDS = frozenset((*NOISE, *OBJECT_TYPES))

READERS: dict[str, Callable[[reading.TokenReader], operations.Operation]] = {
    "EXPLAIN": _explain,
    "USE": _use,
    "SET": _set,
    "UNSET": _unset,
    "ALTER": _alter,
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "SHOW": show.read_show,
    "DESC": _describe,
    "DESCRIBE": _describe,
    "CREATE": _create,
    "DROP": _drop,
    "UNDROP": _undrop,
    "INSERT": _insert,
    "COMMENT": comments.read_comment,
    "TRUNCATE": _truncate,
    "EXECUTE": _execute,
    "GRANT": accounts.read_grant,
    "REVOKE": accounts.read_revoke,
    "DELETE": _change,
    "UPDATE": _change,
    "MERGE": _change,
    **staging.READERS,
    "COPY": _copy,
}

REFUSED = reading.words(
    """
    CALL DECLARE
    """
)
