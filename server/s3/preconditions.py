"""rule: the If-* headers of a request as values; storage evaluates them.

A date that cannot be parsed is ignored (RFC 9110, section 13.1.3). An empty If-Match matches no
ETag.
"""

from __future__ import annotations

import email.utils
from collections.abc import Iterable
from typing import Final, Protocol

from storage import conditions, etags, model

NO_CONDITIONS: Final = conditions.ReadConditions()


class HeaderView(Protocol):
    """A request's headers, by lower-case name. `items` yields each value of a repeated header."""

    def get(self, name: str, /) -> str | None: ...

    def items(self) -> Iterable[tuple[str, str]]: ...


def parse_read(headers: HeaderView, *, prefix: str = "") -> conditions.ReadConditions:
    """Return the conditions of a read; prefix is `x-amz-copy-source-` for the source of a copy."""
    if_match = headers.get(prefix + "if-match")
    if_none_match = headers.get(prefix + "if-none-match")
    return conditions.ReadConditions(
        if_match=() if if_match is None else etags.parse_list(if_match),
        if_none_match=() if if_none_match is None else etags.parse_list(if_none_match),
        if_modified_since_ms=parse_date(headers.get(prefix + "if-modified-since")),
        if_unmodified_since_ms=parse_date(headers.get(prefix + "if-unmodified-since")),
    )


def parse_write(headers: HeaderView) -> model.Precondition:
    """Return the conditions under which a write may become visible."""
    if_match = headers.get("if-match")
    if_none_match = headers.get("if-none-match")
    if if_match is None and if_none_match is None:
        return model.ALWAYS
    return model.Precondition(
        if_match=() if if_match is None else etags.parse_list(if_match),
        if_none_match=() if if_none_match is None else etags.parse_list(if_none_match),
    )


def parse_date(value: str | None) -> int | None:
    """Return an HTTP date as Unix milliseconds, or None if it is malformed."""
    if value is None:
        return None
    try:
        return int(email.utils.parsedate_to_datetime(value).timestamp()) * 1000
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
