"""rule: names of databases, schemas, warehouses and roles, between their two spellings.

Snowflake folds unquoted names to upper case; the lake stores them in lower case. So a stored name
that is plain lower case is *reported* in upper case, and a name from outside is *read* by the same
rule. What stands in quotes is exact. Columns and tables inside a statement are the dialect's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")

ANY_ROLE = frozenset(
    {"ACCOUNTADMIN", "ORGADMIN", "PUBLIC", "SECURITYADMIN", "SYSADMIN", "USERADMIN"}
)
"""Snowflake's own roles. Here they are names for what the caller may do anyway: a role widens or
narrows rights only when it is a role of the access model."""


def reported(stored: str) -> str:
    """Return a stored name as clients see it."""
    return stored.upper() if PLAIN.fullmatch(stored) else stored


def unquoted(identifier: str) -> tuple[str, bool]:
    """Return an identifier's text, and whether it stood in double quotes."""
    text = identifier.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('""', '"'), True
    return text, False


def resolve(identifier: str, stored: Iterable[str]) -> str | None:
    """Return which of the stored names an identifier means, or None.

    Quoted: the exact name, or the upper-case form of a lower-case one. Unquoted: any letter case;
    of names that differ in case only it means the lower-case one, which is how new unquoted names
    are stored, and without it the upper-case one.
    """
    text, quoted = unquoted(identifier)
    stored_names = list(stored)
    if quoted:
        if text in stored_names:
            return text
        return next((name for name in stored_names if reported(name) == text), None)
    folded = [name for name in stored_names if name.upper() == text.upper()]
    if len(folded) > 1:
        preferred = (text.lower(), text.upper())
        return next((name for name in preferred if name in folded), None)
    return folded[0] if folded else None


def label(identifier: str) -> str:
    """Return a warehouse's or role's name as it is reported: unquoted names in upper case."""
    text, quoted = unquoted(identifier)
    return text if quoted else text.upper()
