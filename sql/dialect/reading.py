"""rule: a cursor over tokens, for statements that are parsed word by word."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from sql import errors
from sql.dialect import names

NAME_PART = re.compile(r'"(?:[^"]|"")+"|[A-Za-z_][\w$]*')
SPELLED_NAME = re.compile(rf"(?:{NAME_PART.pattern})(?:\.(?:{NAME_PART.pattern})){{0,2}}")
LEAD = r"(?:/\*(?s:.*?)(?:\*/|\Z)|(?:--|//)[^\n]*|\W)*+"
"""What may stand before the first word of a statement: comments and signs."""


def place_of(text: str, start: int) -> tuple[int, int]:
    """Return line (from 1) and position (from 0) of an offset."""
    return text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1)


CLOSED = re.compile(
    r"""
    [^'"$/-]++ | '(?:[^'\\]|\\.|'')*+' | "(?:[^"]|"")*+" | \$\$.*?\$\$ | \$(?!\$)
    | /\*.*?\*/ | (?:--|//)[^\n]* | -(?!-) | /(?![/*])
    """,
    re.DOTALL | re.VERBOSE,
)
"""A part of a text whose quotes and comments are closed."""


def open_place(text: str) -> int:
    """Return the offset of the first quote or comment that nothing closes, or the text's length."""
    at = 0
    while (match := CLOSED.match(text, at)) is not None:
        at = match.end()
    return at


def words(text: str) -> tuple[str, ...]:
    """Return the words of a table that is written as text."""
    return tuple(text.split())


class TokenReader:
    """Tokens from left to right; words are compared without regard to case."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._index = 0

    @property
    def is_at_end(self) -> bool:
        return self._index >= len(self._tokens)

    @property
    def is_finished(self) -> bool:
        """Whether only semicolons are left."""
        return all(token.token_type is TokenType.SEMICOLON for token in self._tokens[self._index :])

    @property
    def is_at_string(self) -> bool:
        return not self.is_at_end and self._tokens[self._index].token_type in STRINGS

    def mark(self) -> int:
        return self._index

    def reset(self, mark: int) -> None:
        self._index = mark

    def rest(self) -> list[Token]:
        return self._tokens[self._index :]

    def between(self, start: int, stop: int) -> list[Token]:
        """Return the tokens between two marks."""
        return self._tokens[start:stop]

    def without(self, start: int, stop: int) -> list[Token]:
        """Return the tokens from here on, but those between two marks."""
        return [*self._tokens[self._index : start], *self._tokens[stop:]]

    def skip_one(self) -> None:
        """Skip the next token, if there is one."""
        self._index = min(self._index + 1, len(self._tokens))

    def drop_semicolons(self) -> None:
        while not self.is_at_end and self._tokens[self._index].token_type is TokenType.SEMICOLON:
            self._index += 1

    def peek_text(self) -> str:
        """Return the next token's text; "" at the end or before a string."""
        if self.is_at_end or self._tokens[self._index].token_type in LITERALS:
            return ""
        return str(self._tokens[self._index].text)

    def peek_word(self) -> str:
        """Return the next token in upper case, unless it is quoted."""
        return self.peek_text().upper()

    def next_word(self) -> str:
        word = self.peek_word()
        self._index += 1
        return word

    def accept(self, *words: str) -> bool:
        """Skip these words if they come next."""
        # sqlglot joins some pairs of words into one token; compare word by word.
        wanted = " ".join(word.upper() for word in words)
        taken = ""
        for index in range(self._index, len(self._tokens)):
            token = self._tokens[index]
            if token.token_type in LITERALS:
                return False
            taken = f"{taken} {' '.join(token.text.upper().split())}".lstrip()
            if taken == wanted:
                self._index = index + 1
                return True
            if not wanted.startswith(f"{taken} "):
                return False
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.unexpected()

    def ident(self) -> names.Ident:
        """Read one identifier."""
        if self.is_at_end:
            raise self.unexpected()
        token = self._tokens[self._index]
        if token.token_type is TokenType.IDENTIFIER:
            self._index += 1
            return names.Ident(text=token.text, quoted=True)
        if token.token_type in LITERALS or not is_word(token.text):
            raise self.unexpected()
        self._index += 1
        return names.Ident(text=token.text)

    def ident_list(self) -> tuple[names.Ident, ...]:
        self.expect("(")
        idents = [self.ident()]
        while self.accept(","):
            idents.append(self.ident())
        self.expect(")")
        return tuple(idents)

    def name(self) -> names.Name:
        """Read one to three identifiers joined by dots; `a..b` is in the schema PUBLIC.

        IDENTIFIER('a.b') is the name that its text spells.
        """
        if self.accept("IDENTIFIER", "("):
            text = self.string()
            self.expect(")")
            return spelled_name(text)
        parts = [self.ident()]
        if self.accept(".", "."):
            return parts[0], names.PUBLIC, self.ident()
        while len(parts) < 3 and self.accept("."):
            parts.append(self.ident())
        return tuple(parts)

    def string(self) -> str:
        if self.is_at_end or self._tokens[self._index].token_type not in STRINGS:
            raise self.unexpected()
        self._index += 1
        return str(self._tokens[self._index - 1].text)

    def number(self, *, digits_max: int = 12) -> int:
        text = "" if self.is_at_end else self._tokens[self._index].text
        if not text.isdecimal() or len(text) > digits_max:
            raise self.unexpected()
        self._index += 1
        return int(text)

    def value(self) -> str | int | bool:
        """Read a parameter's value: a string, a number, TRUE or FALSE, or a bare word."""
        if self.is_at_end:
            raise self.unexpected()
        token = self._tokens[self._index]
        if token.token_type in STRINGS:
            return self.string()
        if token.token_type is TokenType.NUMBER and token.text.isdecimal():
            return self.number()
        if token.text == "-":
            self._index += 1
            return -self.number()
        word = self.ident()
        return {"TRUE": True, "FALSE": False}.get(word.folded, word.folded)

    def finish(self) -> None:
        """Raise unless the statement ends here."""
        self.drop_semicolons()
        if not self.is_at_end:
            raise self.unexpected()

    def unexpected(self, token: Token | None = None) -> errors.SqlError:
        """Return the syntax error at token, or here."""
        if token is None and not self.is_at_end:
            token = self._tokens[self._index]
        if token is None:
            return self.unexpected_end()
        line, position = place_of(self.text, token.start)
        return errors.syntax_error(line, position, self.text[token.start : token.end + 1])

    def unexpected_end(self) -> errors.SqlError:
        """Return the syntax error of a text that ends too early."""
        line, position = place_of(self.text, len(self.text.rstrip()))
        return errors.syntax_error(line, position, "<EOF>")


STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
LITERALS = (*STRINGS, TokenType.NUMBER, TokenType.IDENTIFIER)


def spelled_name(text: str) -> names.Name:
    """Return the name that the text of IDENTIFIER spells; raises SqlError."""
    if not SPELLED_NAME.fullmatch(text):
        raise errors.unsupported(f"IDENTIFIER('{text[:100]}')")
    return tuple(names.parse(part) for part in NAME_PART.findall(text))


def is_word(text: str) -> bool:
    """Say whether text is a bare word."""
    return (
        bool(text)
        and (text[0].isalpha() or text[0] == "_")
        and (text.replace("_", "a").replace("$", "a").isalnum())
    )
