"""rule: Snowflake's grammar as sqlglot reads it for Boathouse.

Differences from stock sqlglot: every function call keeps its own name (for the allow-list), every
item of a select list keeps its own text (Snowflake names columns by it), a construct that sqlglot
would accept as opaque text is refused, and an error has its position.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import errors as sqlglot_errors
from sqlglot import exp, parser
from sqlglot.dialects import snowflake
from sqlglot.parsers.snowflake import SnowflakeParser
from sqlglot.tokenizer_core import Token, TokenType

from sql.dialect import names

TEXT = "text"
"""Key of an expression's meta: its own source text."""
TOP = "top"
"""Key of the meta of a limit that stands before the select list: sqlglot's own."""
PLACE = "place"
"""Key of the meta of LIMIT, FETCH and OFFSET, which may come in any order: a later one has a higher
number."""


LITERAL_TYPES = (
    TokenType.DATE,
    TokenType.TIME,
    TokenType.TIMESTAMP,
    TokenType.TIMESTAMPLTZ,
    TokenType.TIMESTAMPTZ,
    TokenType.TIMESTAMPNTZ,
)


class GrammarFault(sqlglot_errors.ParseError):
    """The text is not SQL; token is where parsing stopped."""

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message)
        self.token = token


class Opaque(Exception):
    """A statement whose first words sqlglot parses, but not the rest."""

    def __init__(self, head: str) -> None:
        super().__init__(head)
        self.head = head


INTERVAL_FIELDS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})

ESCAPED_LITERALS = {"D": "TO_DATE", "T": "TO_TIME", "TS": "TO_TIMESTAMP"}
"""The words of ODBC's literals, as in {d '2024-01-01'}, and the functions that read them.

ODBC has one format for each, so the session's formats of input do not count: AUTO reads it.
"""

ESCAPED_TYPES = {
    "BIGINT": "BIGINT",
    "BIT": "BOOLEAN",
    "CHAR": "VARCHAR",
    "DATE": "DATE",
    "DECIMAL": "DECIMAL(38, 10)",
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "INTEGER": "BIGINT",
    "NUMERIC": "DECIMAL(38, 10)",
    "REAL": "DOUBLE",
    "SMALLINT": "BIGINT",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
    "TINYINT": "BIGINT",
    "TYPE_DATE": "DATE",
    "TYPE_TIME": "TIME",
    "TYPE_TIMESTAMP": "TIMESTAMP",
    "VARCHAR": "VARCHAR",
    "WVARCHAR": "VARCHAR",
}
"""ODBC's types in {fn CONVERT(value, SQL_...)}, and Snowflake's."""

FUNCTION_PARSERS_KEPT = ("CAST", "TRY_CAST", "EXTRACT", "POSITION")


class Boathouse(snowflake.Snowflake):
    """The dialect for parsing. It is never used for writing."""

    class Tokenizer(snowflake.Snowflake.Tokenizer):
        COMMANDS: ClassVar[Any] = set()
        # `?::` is an operator of another dialect, and here a bind that is cast.
        KEYWORDS: ClassVar[Any] = {
            word: token
            for word, token in snowflake.Snowflake.Tokenizer.KEYWORDS.items()
            if token is not TokenType.QDCOLON
        }

    class Parser(SnowflakeParser):
        FUNCTIONS: ClassVar[Any] = {}
        FUNCTION_PARSERS: ClassVar[Any] = {
            name: read
            for name, read in parser.Parser.FUNCTION_PARSERS.items()
            if name in FUNCTION_PARSERS_KEPT
        }
        # A parameter of a lambda stays a column, which the lambda's scope resolves.
        LAMBDAS: ClassVar[Any] = {
            **SnowflakeParser.LAMBDAS,
            TokenType.ARROW: lambda self, parameters: self.expression(
                exp.Lambda(this=self._parse_disjunction(), expressions=parameters)
            ),
        }
        PRIMARY_PARSERS: ClassVar[Any] = {
            **SnowflakeParser.PRIMARY_PARSERS,
            TokenType.NUMBER: lambda self, token: self.parsed_number(token),
        }
        HISTORICAL_DATA_KIND: ClassVar[Any] = {*parser.Parser.HISTORICAL_DATA_KIND, "REF"}

        def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
            def parse_one() -> exp.Expr | None:
                first = self._curr
                item = self._parse_expression()
                if item is not None and first:
                    item.meta[TEXT] = self._find_sql(first, self._prev)
                return item

            return self._parse_items(parse_one, may_trail=True), None

        def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
            return self._parse_items(parse_method, sep)

        def _parse_items(
            self, parse_item: Any, sep: TokenType = TokenType.COMMA, *, may_trail: bool = False
        ) -> list[Any]:
            # Stock sqlglot leaves out an item that is missing: it would read (1,,2) as (1, 2).
            item = parse_item()
            items = [] if item is None else [item]
            while self._match(sep):
                if item is None:
                    self.raise_error("an item is missing", self._prev)
                item = parse_item()
                if item is not None:
                    items.append(item)
                elif not may_trail:
                    self.raise_error("an item is missing")
            return items

        def parsed_number(self, token: Token) -> exp.Expr:
            # The tokenizer takes 1e3.5 for a number, and 2e, which stages' paths have.
            try:
                float(token.text)
            except ValueError:
                self.raise_error("no number", token)
            return self.expression(exp.Literal(this=token.text, is_string=False), token)

        def _parse_limit(
            self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False
        ) -> exp.Expr | None:
            limit = super()._parse_limit(this, top=top, skip_limit_token=skip_limit_token)
            if isinstance(limit, exp.Limit | exp.Fetch):
                limit.meta[PLACE] = self._index
            return limit

        def _parse_offset(self, this: exp.Expr | None = None) -> exp.Expr | None:
            offset = super()._parse_offset(this)
            if isinstance(offset, exp.Offset):
                offset.meta[PLACE] = self._index
            return offset

        def _parse_insert_table(self) -> exp.Expr | None:
            # INSERT ... SET is of another dialect.
            table = super()._parse_insert_table()
            if self._match(TokenType.SET, advance=False):
                self.raise_error("SET")
            return table

        def _parse_connect(self, skip_start_token: bool = False) -> exp.Connect | None:
            connect = super()._parse_connect(skip_start_token)
            if connect is not None and skip_start_token:
                # START WITH comes last in the text, by which placeholders are numbered.
                connect.set("start", connect.args.pop("start", None))
            return connect

        def _parse_connect_with_prior(self) -> exp.Expr | None:
            """Parse CONNECT BY's condition, where PRIOR binds as a sign does.

            Stock sqlglot reads `PRIOR a + b` as PRIOR of the sum. It also writes PRIOR into what
            all parsers share, where it stays after a syntax error.
            """
            own: Any = self
            outside = own.NO_PAREN_FUNCTION_PARSERS
            own.NO_PAREN_FUNCTION_PARSERS = {
                **outside,
                "PRIOR": lambda _: self.expression(exp.Prior(this=self._parse_unary())),
            }
            try:
                return self._parse_disjunction()
            finally:
                own.NO_PAREN_FUNCTION_PARSERS = outside

        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
            """Parse the list or query after IN; sqlglot takes none for an unknown field."""
            parsed = super()._parse_in(this, alias)
            members = ("expressions", "query", "unnest", "field")
            if not any(parsed.args.get(name) for name in members):
                self.raise_error("a list is missing")
            return parsed

        def _parse_join(self, *arguments: Any, **options: Any) -> exp.Join | None:
            is_comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
            join = super()._parse_join(*arguments, **options)
            if is_comma and join is None:
                self.raise_error("a table is missing")
            return join

        def build_cast(self, strict: bool, **parts: Any) -> exp.Expr:
            # Stock sqlglot makes TRY_CAST to BOOLEAN a call of a function.
            return parser.Parser.build_cast(self, strict, **parts)

        def _parse_type(
            self, parse_interval: bool = True, fallback_to_identifier: bool = False
        ) -> exp.Expr | None:
            # DATE '2024-01-01'::TIMESTAMP casts the date, not its text.
            curr, following = self._curr, self._next
            before_text = following and following.token_type is TokenType.STRING
            if curr and before_text and curr.token_type in LITERAL_TYPES:
                target = self._parse_types(check_func=True, allow_identifiers=False)
                cast = self.expression(exp.Cast(this=self._parse_primary(), to=target))
                return self._parse_column_ops(cast)
            return super()._parse_type(parse_interval, fallback_to_identifier)

        def _parse_types(self, *places: Any, **options: Any) -> exp.Expr | None:
            return self._parse_interval_type() or super()._parse_types(*places, **options)

        def _parse_interval(
            self, require_interval: bool = True, parse_function_unit: bool = True
        ) -> exp.Add | exp.Interval | None:
            # Stock sqlglot reads `INTERVAL '1 day' + '2024-01-01'::date` as two intervals.
            start = self._index
            if self._match(TokenType.INTERVAL) and self._match(TokenType.STRING, advance=False):
                text = self._parse_primary()
                assert text is not None, "a string is an expression"
                return self._parse_interval_span(text, parse_function_unit=parse_function_unit)
            self._retreat(start)
            return super()._parse_interval(require_interval, parse_function_unit)

        def _parse_interval_type(self) -> exp.Expr | None:
            # Stock sqlglot reads no numbers of digits: INTERVAL DAY(5) TO SECOND(9).
            is_type = self._next is not None and self._next.text.upper() in INTERVAL_FIELDS
            if not is_type or not self._match(TokenType.INTERVAL):
                return None
            spelled = self._parse_interval_field()
            if self._match_text_seq("TO"):
                spelled += f" TO {self._parse_interval_field()}"
            unit = exp.Var(this=spelled)
            return self.expression(exp.DataType(this=exp.Interval(unit=unit)))

        def _parse_interval_field(self) -> str:
            if self._curr is None or self._curr.text.upper() not in INTERVAL_FIELDS:
                self.raise_error("Expected a field of an interval")
            word = self._curr.text.upper()
            self._advance()
            if not self._match(TokenType.L_PAREN):
                return word
            digits = self._curr.text if self._match(TokenType.NUMBER, advance=False) else ""
            self._advance()
            self._match_r_paren()
            return f"{word}({digits})"

        def _parse_cluster_property(self) -> exp.ClusterProperty:
            self._match_text_seq("LINEAR")
            keys = self._parse_wrapped_csv(self._parse_disjunction)
            return self.expression(exp.ClusterProperty(expressions=keys))

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            """Parse a bracket, or one of ODBC's literals, such as {ts '2024-01-01 00:00:00'}."""
            tokens = self._tokens[self._index : self._index + 3]
            if (
                this is None
                and [token.token_type for token in tokens[::2]]
                == [TokenType.L_BRACE, TokenType.STRING]
                and tokens[1].text.upper() in ESCAPED_LITERALS
            ):
                self._advance(2)
                parts = [self._parse_primary(), exp.Literal.string("AUTO")]
                name = ESCAPED_LITERALS[tokens[1].text.upper()]
                literal = self.expression(exp.Anonymous(this=name, expressions=parts))
                self._close_escape()
                return literal
            return super()._parse_bracket(this)

        def _parse_function(self, *arguments: Any, **options: Any) -> exp.Expr | None:
            """Parse a call, also as ODBC escapes it: {fn UPPER(a)}, {fn CONVERT(a, SQL_DOUBLE)}."""
            tokens = [token.text.upper() for token in self._tokens[self._index : self._index + 2]]
            if tokens != ["{", "FN"]:
                return super()._parse_function(*arguments, **options)
            self._advance(2)
            call = self._parse_function_call(*arguments, **options)
            if call is None:
                self.raise_error("a call is missing")
            self._close_escape()
            parts: list[Any] = call.expressions if isinstance(call, exp.Anonymous) else []
            if call is None or len(parts) != 2 or call.name.upper() != "CONVERT":
                return call
            word = parts[1].sql("snowflake").upper().removeprefix("SQL_")
            if word not in ESCAPED_TYPES:
                raise Opaque(f"CONVERT ... {parts[1].sql('snowflake')}")
            target = exp.DataType.build(ESCAPED_TYPES[word], dialect="snowflake")
            return self.expression(exp.Cast(this=parts[0], to=target))

        def _close_escape(self) -> None:
            if not self._match(TokenType.R_BRACE):
                self.raise_error("Expected }")

        def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
            # NTH_VALUE(a, 2) FROM LAST OVER (...): a table may be named LAST.
            following = self._tokens[self._index + 2 : self._index + 3]
            if following and following[0].text.upper() in ("IGNORE", "RESPECT", "OVER"):
                if self._match_text_seq("FROM", "LAST"):
                    raise Opaque("NTH_VALUE ... FROM LAST")
                self._match_text_seq("FROM", "FIRST")
            return super()._parse_window(this, alias=alias)

        def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
            # `database..table.column`: between the dots stands the schema PUBLIC.
            dots = [token and token.token_type for token in (self._curr, self._next)]
            is_bare = isinstance(this, exp.Column) and not this.args.get("table")
            if this is not None and is_bare and dots == [TokenType.DOT] * 2:
                self._advance()
                schema = exp.Identifier(this=names.PUBLIC.text, quoted=True)
                this = self.expression(exp.Column(this=schema, table=this.this))
            return super()._parse_column_ops(this)

        def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
            # A key of ROLLUP may be a comparison, as one beside it may.
            if with_prefix or not self._match_set((TokenType.CUBE, TokenType.ROLLUP)):
                return super()._parse_cube_or_rollup(with_prefix)
            part = exp.Cube if self._prev.token_type is TokenType.CUBE else exp.Rollup
            return self.expression(
                part(expressions=self._parse_wrapped_csv(self._parse_disjunction))
            )

        def _parse_grouping_set(self) -> exp.Expr | None:
            return (
                self._parse_grouping_sets()
                or self._parse_cube_or_rollup()
                or self._parse_disjunction()
            )

        def _parse_as_command(self, start: Token) -> exp.Command:
            head = start.text.upper()
            rest = self._curr.text.upper() if self._curr and self._curr is not start else ""
            raise Opaque(f"{head} ... {rest}" if rest else head)

        def raise_error(self, message: str, token: Any = None) -> None:
            place = token or self._curr or None
            raise GrammarFault(message, place if place and place.text else None)
