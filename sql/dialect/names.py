"""rule: resolves Snowflake names to stored names, and formats stored names.

Tables of other engines have lower-case names; Snowflake folds unquoted ones to upper case. So a
stored name that is plain lower case is shown, and resolved, as if it were upper case; any other
name is not changed. New unquoted names are stored in lower case, so an unquoted name resolves to
the lower-case form first: a name that another client stores in upper case never replaces it. Then
it resolves to the upper-case form, and then to any that differs in case only. A quoted name
resolves to its own spelling, or to the upper-case form of a lower-case name. The names of a login
and of a statement follow the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
PLAIN_UPPER = re.compile(r"[A-Z_][A-Z0-9_$]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ident:
    """One identifier as written."""

    text: str
    quoted: bool = False

    @property
    def folded(self) -> str:
        """The name in Snowflake's terms."""
        return self.text if self.quoted else self.text.upper()

    @property
    def stored(self) -> str:
        """The stored name of a new object of this name."""
        return self.text if self.quoted else self.text.lower()


Name = tuple[Ident, ...]

PUBLIC = Ident(text="PUBLIC")
"""The schema that is meant by `database..table`."""


def parse(identifier: str) -> Ident:
    """Return the identifier that a login's text spells: quoted if it stands in double quotes."""
    text = identifier.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return Ident(text=text[1:-1].replace('""', '"'), quoted=True)
    return Ident(text=text)


def shown(stored: str) -> str:
    """Return the name that results and SHOW report for a stored name."""
    return stored.upper() if PLAIN.fullmatch(stored) else stored


def find(ident: Ident, stored: Sequence[str]) -> list[int]:
    """Return the positions of the stored names that ident refers to; several are ambiguous."""
    if ident.quoted:
        exact = [index for index, name in enumerate(stored) if name == ident.text]
        return exact or [index for index, name in enumerate(stored) if shown(name) == ident.text]
    for spelling in spellings(ident):
        exact = [index for index, name in enumerate(stored) if name == spelling]
        if exact:
            return exact
    wanted = ident.text.upper()
    return [index for index, name in enumerate(stored) if name.upper() == wanted]


def find_shown(ident: Ident, shown_names: Sequence[str]) -> list[int]:
    """Return the positions of the names that ident refers to, of names as Snowflake reports them.

    An unquoted identifier that refers to none refers to those that differ in case only.
    """
    exact = [index for index, name in enumerate(shown_names) if name == ident.folded]
    if exact or ident.quoted:
        return exact
    return [index for index, name in enumerate(shown_names) if name.upper() == ident.folded]


def find_one(ident: Ident, stored: Sequence[str]) -> str | None:
    """Return the stored name that ident refers to; None if there is none, or several."""
    positions = find(ident, stored)
    return stored[positions[0]] if len(positions) == 1 else None


def find_exactly(ident: Ident, stored: Sequence[str]) -> str | None:
    """Return the stored name of one of ident's spellings; None if there is none.

    Statements that change something look names up so: for them a name that differs in case from
    all spellings is another one.
    """
    return next((spelling for spelling in spellings(ident) if spelling in stored), None)


def spellings(ident: Ident) -> tuple[str, ...]:
    """Return the stored names to which ident resolves first, in order; `find` tries all others."""
    if not ident.quoted:
        return ident.text.lower(), ident.text.upper()
    lower = ident.text.lower()
    return (ident.text, lower) if shown(lower) == ident.text != lower else (ident.text,)


def of_database(table_bucket: str) -> str:
    """Return a database's stored name: its table bucket's, with `_` for each hyphen.

    So a name that is no identifier in SQL is one, and the names of Snowflake's databases, which
    have `_`, are names of table buckets, which have none. A name that begins with a digit stays.
    """
    name = table_bucket.replace("-", "_")
    return name if PLAIN.fullmatch(name) else table_bucket


def table_bucket_of(ident: Ident) -> str:
    """Return the name of the table bucket that CREATE DATABASE makes for ident."""
    plain = ident.folded
    return plain.lower().replace("_", "-") if PLAIN_UPPER.fullmatch(plain) else ident.stored


def shown_database(table_bucket: str) -> str:
    """Return the name that results and SHOW report for a database."""
    return shown(of_database(table_bucket))


def find_database(ident: Ident, table_buckets: Sequence[str]) -> str | None:
    """Return the table bucket of the database that ident refers to; None if there is none.

    The name may also be the table bucket's own: a login's text needs no quotes for a hyphen.
    """
    if ident.stored in table_buckets:
        return ident.stored
    positions = find(ident, [of_database(name) for name in table_buckets])
    return table_buckets[positions[0]] if len(positions) == 1 else None


def dotted(name: Sequence[Ident]) -> str:
    """Return the name as in messages: folded, joined by dots."""
    return ".".join(ident.folded for ident in name)


def quoted(name: str) -> str:
    """Return name as an identifier of the engine's SQL."""
    return '"' + name.replace('"', '""') + '"'


def written(name: str) -> str:
    """Return a stored name as it is written in Snowflake SQL."""
    display = shown(name)
    return display if PLAIN_UPPER.fullmatch(display) else quoted(display)


def written_ident(ident: Ident) -> str:
    """Return an identifier as it is written in Snowflake SQL."""
    return quoted(ident.text) if ident.quoted else ident.text


def like_pattern(pattern: str) -> re.Pattern[str]:
    """Return SHOW's LIKE as a pattern: % and _, case-insensitive, backslash escapes."""
    parts = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\" and index + 1 < len(pattern):
            index += 1
            parts.append(re.escape(pattern[index]))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        index += 1
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
