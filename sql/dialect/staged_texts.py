"""rule: queries of staged files: their stages become names of tables, and `$1` names of columns.

`FROM @stage (FILE_FORMAT => 'f')` becomes `FROM "@0"`, and `$2` becomes `"$2"`, so that the grammar
and the binder need not know of stages. `TABLE(INFER_SCHEMA(...))` becomes a name too. In files with
columns of their own, `$1:name` is such a column and not a member of a document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot.tokenizer_core import Token, TokenType

from sql import errors, limits
from sql.dialect import names, operations, parse, reading, staging

MENTIONS: Final = re.compile(r"\b(?:FROM|JOIN)\s+'?@|,\s*@|\bINFER_SCHEMA\s*\(", re.IGNORECASE)
"""Found in every text with staged files; other texts need not be read twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedUse:
    """Staged files that a text reads. name: of the table that stands for them in the new text.

    infers: INFER_SCHEMA of the files.
    """

    name: str
    location: operations.StageLocation
    file_format: operations.FormatClause
    pattern: str | None = None
    files: tuple[str, ...] | None = None
    infers: bool = False
    ignores_case: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Dollar:
    """`$number`, or `$number:member`, at start to end of a text. is_cast: `::` follows."""

    number: int
    start: int
    end: int
    member: str | None = None
    member_end: int = 0
    is_cast: bool = False
    has_path: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedText:
    """A text with staged files."""

    text: str
    uses: tuple[StagedUse, ...]
    dollars: tuple[Dollar, ...]
    edits: tuple[tuple[int, int, str], ...]

    @property
    def width(self) -> int:
        """The highest number of a column `$number`."""
        return max((dollar.number for dollar in self.dollars), default=0)

    @property
    def members(self) -> tuple[str, ...]:
        """The members of `$1` that the text names."""
        return tuple(
            dict.fromkeys(
                dollar.member for dollar in self.dollars if dollar.number == 1 and dollar.member
            )
        )

    @property
    def wants_document(self) -> bool:
        """Whether the text names `$1` as a whole."""
        return any(dollar.number == 1 and dollar.member is None for dollar in self.dollars)

    def rewritten(self, *, columnar: bool, as_variants: bool) -> str:
        """Return the text with names of tables and columns.

        columnar: the files have columns of their own. as_variants: such a column without a cast is
        a VARIANT.
        """
        edits = list(self.edits)
        for dollar in self.dollars:
            if not (columnar and dollar.number == 1 and dollar.member is not None):
                edits.append((dollar.start, dollar.end, names.quoted(f"${dollar.number}")))
                continue
            column = names.quoted(f"$1:{dollar.member}")
            end = dollar.member_end
            if dollar.has_path:
                column, end = column + ":", end + 1
            elif as_variants and not dollar.is_cast:
                column = f"TO_VARIANT({column})"
            edits.append((dollar.start, end, column))
        parts, at = [], 0
        for start, end, replacement in sorted(edits):
            parts += [self.text[at:start], replacement]
            at = end
        return "".join((*parts, self.text[at:]))


def find(text: str) -> StagedText | None:
    """Return a text with staged files; None for any other. Raises SqlError."""
    if MENTIONS.search(text) is None:
        return None
    tokens = parse.tokenize(text)
    uses: list[StagedUse] = []
    edits: list[tuple[int, int, str]] = []
    index = 0
    while index < len(tokens):
        use, end = _use_at(text, tokens, index, f"@{len(uses)}")
        if use is None:
            index += 1
            continue
        uses.append(use)
        edits.append((tokens[index].start, end, names.quoted(use.name)))
        while index < len(tokens) and tokens[index].start < end:
            index += 1
    if not uses:
        return None
    if len(uses) > limits.STAGED_USES_MAX:
        raise errors.unsupported(f"more than {limits.STAGED_USES_MAX} stages in one statement")
    edited = [(start, end) for start, end, _ in edits]
    return StagedText(
        text=text, uses=tuple(uses), dollars=_dollars(text, tokens, edited), edits=tuple(edits)
    )


def _use_at(
    text: str, tokens: Sequence[Token], index: int, name: str
) -> tuple[StagedUse | None, int]:
    token = tokens[index]
    before = tokens[index - 1].text.upper() if index else ""
    if token.text.upper() == "TABLE" and _texts(tokens, index + 1, 3) == ("(", "INFER_SCHEMA", "("):
        return _infer(text, tokens, index, name)
    is_string = token.token_type in reading.STRINGS and token.text.startswith("@")
    is_bare = token.token_type is TokenType.PARAMETER and token.text == "@"
    # After a comma a text may be any value.
    if before not in (("FROM", "JOIN", ",") if is_bare else ("FROM", "JOIN")):
        return None, 0
    if not (is_string or is_bare):
        return None, 0
    reader = reading.TokenReader(text, list(tokens[index:]))
    location = staging.read_location(reader)
    end = _end_before(reader, tokens, index)
    options: dict[str, Any] = {}
    if reader.peek_text() == "(" and _texts(reader.rest(), 1, 1)[0] in ("FILE_FORMAT", "PATTERN"):
        options = _arguments(reader)
        end = _end_before(reader, tokens, index)
    file_format = _format(options.pop("FILE_FORMAT", None))
    pattern = options.pop("PATTERN", None)
    if options:
        raise errors.unsupported(f"FROM @stage ({next(iter(options))} => ...)")
    use = StagedUse(name=name, location=location, file_format=file_format, pattern=pattern)
    return use, end


def _infer(
    text: str, tokens: Sequence[Token], index: int, name: str
) -> tuple[StagedUse | None, int]:
    reader = reading.TokenReader(text, list(tokens[index:]))
    for word in ("TABLE", "(", "INFER_SCHEMA"):
        reader.expect(word)
    options = _arguments(reader)
    reader.expect(")")
    end = _end_before(reader, tokens, index)
    location = options.pop("LOCATION", None)
    if not isinstance(location, str):
        raise errors.invalid_parameter("LOCATION", location)
    files = options.pop("FILES", None)
    ignores_case = options.pop("IGNORE_CASE", False) is True
    file_format = _format(options.pop("FILE_FORMAT", None))
    if options:
        raise errors.unsupported(f"INFER_SCHEMA ({next(iter(options))} => ...)")
    use = StagedUse(
        name=name,
        location=staging.parse_location(location),
        file_format=file_format,
        files=(files,) if isinstance(files, str) else files,
        infers=True,
        ignores_case=ignores_case,
    )
    return use, end


def _format(value: Any) -> operations.FormatClause:
    if value is None:
        return operations.FormatClause()
    return operations.FormatClause(name=staging.spelled_name(str(value)))


def _arguments(reader: reading.TokenReader) -> dict[str, Any]:
    """Read `(NAME => value, ...)`."""
    arguments: dict[str, Any] = {}
    reader.expect("(")
    while not reader.accept(")"):
        argument = reader.ident().folded
        reader.expect("=>")
        rest = reader.rest()
        is_name = argument == "FILE_FORMAT" and rest and rest[0].token_type not in reading.STRINGS
        if is_name:
            arguments[argument] = ".".join(names.written_ident(each) for each in reader.name())
        else:
            arguments[argument] = staging.read_value(reader)
        reader.accept(",")
    return arguments


def _end_before(reader: reading.TokenReader, tokens: Sequence[Token], index: int) -> int:
    """Return where the last token ends that the reader has read."""
    return tokens[index + reader.mark() - 1].end + 1


def _texts(tokens: Sequence[Token], start: int, count: int) -> tuple[str, ...]:
    texts = [token.text.upper() for token in tokens[start : start + count]]
    return tuple(texts + [""] * (count - len(texts)))


def _dollars(
    text: str, tokens: Sequence[Token], edited: Sequence[tuple[int, int]]
) -> tuple[Dollar, ...]:
    dollars: list[Dollar] = []
    for index, token in enumerate(tokens[:-1]):
        number = tokens[index + 1]
        is_dollar = token.token_type is TokenType.PARAMETER and token.text == "$"
        if not is_dollar or not number.text.isdecimal() or number.start != token.end + 1:
            continue
        if any(start <= token.start < end for start, end in edited):
            continue
        if not 1 <= int(number.text[:6]) <= limits.STAGED_COLUMNS_MAX:
            raise errors.invalid_identifier(f"${number.text[:20]}")
        following = tokens[index + 2 : index + 5]
        member, member_end = None, 0
        if len(following) >= 2 and following[0].text == ":":
            name = following[1]
            if name.token_type is TokenType.IDENTIFIER or reading.is_word(name.text):
                member, member_end = name.text, name.end + 1
        after = following[2].text if member is not None and len(following) > 2 else ""
        dollars.append(
            Dollar(
                number=int(number.text),
                start=token.start,
                end=number.end + 1,
                member=member,
                member_end=member_end,
                is_cast=after == "::",
                has_path=after == ".",
            )
        )
    return tuple(dollars)
