"""rule: binds where SQL has no expression: names, stages, options.

`IDENTIFIER(?)`, every `?` of COPY, EXECUTE IMMEDIATE and INFER_SCHEMA, and the stage of PUT and GET
are replaced by the bound text before the statement is parsed; the other placeholders keep their
binds. `IDENTIFIER('t')` and `IDENTIFIER($v)` are replaced by the names they spell (`spell_out`)
in statements other than queries, which resolve them themselves. Several statements of one request
share its binds (`share`). A session may have names in double quotes read in upper case (`fold`).
"""

from __future__ import annotations

import decimal
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlglot.tokenizer_core import Token, TokenType

from sql import bindings, errors
from sql.dialect import parse, reading

MENTIONS: Final = re.compile(
    rf"\bIDENTIFIER\s*\(\s*\?|\bINFER_SCHEMA\b|^{reading.LEAD}(?:COPY|PUT|GET|EXECUTE)\b",
    re.IGNORECASE,
)
MOVES: Final = re.compile(rf"{reading.LEAD}(?:PUT|GET)\b", re.IGNORECASE)
WORD: Final = re.compile(r"(?<=\s)\?(?=\s|;|$)")
"""A placeholder of PUT or GET, whose paths are no tokens."""


def fill(
    text: str, bound: Mapping[str, bindings.Binding]
) -> tuple[str, Mapping[str, bindings.Binding]]:
    """Return a text with such binds in it, and the binds of its other placeholders.

    Raises SqlError for a bind that is missing, or that is no text where it must be one.
    """
    if not bound or MENTIONS.search(text) is None:
        return text, bound
    if moves := MOVES.match(text):
        binding = bound.get("1")
        if binding is None or len(bound) != 1:
            return text, bound
        literal = _literal(1, binding)
        lead, rest = text[: moves.end()], text[moves.end() :]
        return lead + WORD.sub(lambda _: literal, rest, count=1), {}
    return _filled(text, bound)


def spell_out(text: str, variables: Mapping[str, str | None]) -> str:
    """Return a statement with the names that IDENTIFIER spells by a text or a session variable.

    Queries keep it, and so does what spells no name: binding says what is wrong with it.
    variables: the texts of the session's variables, by their names.
    """
    if SPELLS.search(text) is None or QUERIES.match(text):
        return text
    parts: list[str] = []
    at = 0
    tokens = parse.tokenize(text)
    for index, token in enumerate(tokens):
        if token.text.upper() != "IDENTIFIER" or token.token_type is not TokenType.VAR:
            continue
        words = [each.text for each in tokens[index + 1 : index + 5]]
        spelled, end = None, 0
        if words[:1] == ["("] and words[2:3] == [")"]:
            if tokens[index + 2].token_type in reading.STRINGS:
                spelled, end = words[1], tokens[index + 3].end + 1
        elif words[:2] == ["(", "$"] and words[3:] == [")"]:
            spelled, end = variables.get(words[2].upper()), tokens[index + 4].end + 1
        if spelled is None or not reading.SPELLED_NAME.fullmatch(spelled):
            continue
        parts += (text[at : token.start], spelled)
        at = end
    parts.append(text[at:])
    return "".join(parts)


def fold(text: str) -> str:
    """Return a statement with the names in double quotes in upper case.

    A letter whose upper case is longer stays. The texts of IDENTIFIER, the paths of PUT and GET,
    and the keys of a VARIANT's path do not change.
    """
    if '"' not in text or MOVES.match(text):
        return text
    parts: list[str] = []
    at = 0
    tokens = parse.tokenize(text)
    keys = _path_keys(tokens)
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.IDENTIFIER and index not in keys:
            start, end = token.start, token.end + 1
            upper = (letter.upper() for letter in text[start:end])
            folded = (
                big if len(big) == 1 else small
                for big, small in zip(upper, text[start:end], strict=True)
            )
            parts += (text[at:start], *folded)
            at = end
    return "".join((*parts, text[at:]))


def _path_keys(tokens: Sequence[Token]) -> frozenset[int]:
    """Return which tokens are keys of paths, as of `v:"a"[0]."b"`."""
    keys: set[int] = set()
    is_path, depth = False, 0
    for index, token in enumerate(tokens):
        match token.token_type:
            case TokenType.COLON:
                is_path, depth = True, 0
            case TokenType.L_BRACKET if is_path:
                depth += 1
            case TokenType.R_BRACKET if depth:
                depth -= 1
            case _ if depth:
                pass
            case TokenType.DOT:
                pass
            case _ if is_path and tokens[index - 1].token_type in (TokenType.COLON, TokenType.DOT):
                keys.add(index)
            case _:
                is_path = False
    return frozenset(keys)


SPELLS: Final = re.compile(r"\bIDENTIFIER\s*\(", re.IGNORECASE)
QUERIES: Final = re.compile(rf"{reading.LEAD}(?:SELECT|WITH|EXPLAIN|PUT|GET)\b", re.IGNORECASE)
"""Statements that keep IDENTIFIER; the paths of PUT and GET are no tokens."""


def share(
    texts: Sequence[str], bound: Mapping[str, bindings.Binding]
) -> list[Mapping[str, bindings.Binding]]:
    """Return the binds of each of several statements, which a request has together.

    The `?` of all statements take the values in the order of the text. A statement without `?` has
    the request's binds: `:2` is the second value in each of them. Raises SqlError for a `?` that
    has no value, and for both forms in one statement.
    """
    shared: list[Mapping[str, bindings.Binding]] = []
    named = {name: binding for name, binding in bound.items() if not name.isdecimal()}
    before = 0
    for text in texts:
        tokens = parse.tokenize(text) if "?" in text or ":" in text else []
        count = sum(token.token_type is TokenType.PLACEHOLDER for token in tokens)
        if not count:
            has_colon = any(token.token_type is TokenType.COLON for token in tokens)
            shared.append(bound if has_colon else {})
            continue
        if _has_numbers(tokens):
            raise errors.unsupported("? and :1 in one of several statements")
        own = dict(named)
        for number in range(1, count + 1):
            binding = bound.get(str(before + number))
            if binding is None:
                raise errors.bad_binding(str(before + number), "is not set")
            own[str(number)] = binding
        shared.append(own)
        before += count
    return shared


def count_placeholders(texts: Sequence[str]) -> int:
    """Return how many `?` several statements have together; raises SqlError for no SQL."""
    return sum(
        token.token_type is TokenType.PLACEHOLDER
        for text in texts
        for token in (parse.tokenize(text) if "?" in text else ())
    )


def _has_numbers(tokens: Sequence[Token]) -> bool:
    """Return whether a placeholder is written as `:1`; after a text that is an object's member."""
    before = [None, *(token.token_type for token in tokens)]
    return any(
        token.token_type is TokenType.COLON
        and following.token_type is TokenType.NUMBER
        and preceding is not TokenType.STRING
        for preceding, (token, following) in zip(before, itertools.pairwise(tokens), strict=False)
    )


def _filled(
    text: str, bound: Mapping[str, bindings.Binding]
) -> tuple[str, Mapping[str, bindings.Binding]]:
    tokens = parse.tokenize(text)
    fills_all = bool(tokens) and tokens[0].text.upper() in ("COPY", "EXECUTE")
    parts: list[str] = []
    kept: dict[str, bindings.Binding] = {
        name: binding for name, binding in bound.items() if not name.isdecimal()
    }
    at = number = kept_numbers = depth = inferring = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.text.upper() == "INFER_SCHEMA":
            inferring = depth + 1
        elif depth < inferring:
            inferring = 0
        if token.token_type is not TokenType.PLACEHOLDER:
            continue
        number += 1
        binding = bound.get(str(number))
        before = [each.text.upper() for each in tokens[max(0, index - 2) : index]]
        is_name = before == ["IDENTIFIER", "("]
        if not (fills_all or inferring or is_name):
            if binding is not None:
                kept_numbers += 1
                kept[str(kept_numbers)] = binding
            continue
        if binding is None:
            raise errors.bad_binding(str(number), "not set")
        start, end, literal = token.start, token.end + 1, _literal(number, binding)
        is_closed = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.R_PAREN
        is_spelled = isinstance(binding.value, str) and reading.SPELLED_NAME.fullmatch(
            binding.value
        )
        if is_name and is_closed and is_spelled:
            # The name itself: not every statement takes IDENTIFIER where it takes a name.
            start, end, literal = tokens[index - 2].start, tokens[index + 1].end + 1, binding.value
        parts += [text[at:start], literal]
        at = end
    parts.append(text[at:])
    return "".join(parts), kept


def _literal(number: int, binding: bindings.Binding) -> str:
    if binding.is_array:
        raise errors.bad_binding(str(number), "is an array")
    value: Any = binding.value
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | decimal.Decimal() if binding.type == "fixed":
            return str(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
    raise errors.bad_binding(str(number), "is no text")
