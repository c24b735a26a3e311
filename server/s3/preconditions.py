"""rule: the If-* headers of a request as values; storage evaluates them.

A date that cannot be parsed is ignored (RFC 9110, section 13.1.3). A list of ETags that cannot be
parsed raises InvalidArgument: a write whose condition was ignored could replace an object. An empty
list matches no ETag.
"""

from __future__ import annotations

import datetime
import email.utils
from collections.abc import Iterable
from typing import Final, Protocol

from server.s3 import errors
from storage import conditions, etags, model

NO_CONDITIONS: Final = conditions.ReadConditions()


class HeaderView(Protocol):
    """A request's headers, by lower-case name. `items` yields each value of a repeated header."""

    def get(self, name: str, /) -> str | None: ...

    def items(self) -> Iterable[tuple[str, str]]: ...


def parse_read(headers: HeaderView, *, prefix: str = "") -> conditions.ReadConditions:
    """Return the conditions of a read; prefix is `x-amz-copy-source-` for the source of a copy."""
    return conditions.ReadConditions(
        if_match=_etags(headers, prefix + "if-match"),
        if_none_match=_etags(headers, prefix + "if-none-match"),
        if_modified_since_ms=parse_date(headers.get(prefix + "if-modified-since")),
        if_unmodified_since_ms=parse_date(headers.get(prefix + "if-unmodified-since")),
    )


def parse_write(headers: HeaderView) -> model.Precondition:
    """Return the conditions under which a write may become visible.

    Raises S3FeatureNotImplemented for If-Unmodified-Since, which S3 has for reads alone: a write
    that ignored it could replace what its client has not seen. If-Modified-Since is about reads
    (RFC 9110, section 13.1.3).
    """
    if headers.get("if-unmodified-since") is not None:
        raise _not_done("if-unmodified-since")
    if headers.get("if-match") is None and headers.get("if-none-match") is None:
        return model.ALWAYS
    if_match = _etags(headers, "if-match")
    if_none_match = _etags(headers, "if-none-match")
    if not if_match and not if_none_match:
        return model.ALWAYS
    return model.Precondition(if_match=if_match, if_none_match=if_none_match)


def check_none(headers: HeaderView) -> None:
    """Raise S3FeatureNotImplemented for a condition of a write that has none as a whole."""
    for name in ("if-match", "if-none-match", "if-unmodified-since"):
        if headers.get(name) is not None:
            raise _not_done(name)


def parse_if_range(value: str) -> str:
    """Return the ETag that an If-Range header names; it may lack its quotes, as in conditions.

    A date is the ETag of no object, so that its range is never sent: an object may change twice
    within the second of a date (RFC 9110, sections 8.8.2.2 and 13.1.5). So is a weak ETag.
    """
    return value.removeprefix('"').removesuffix('"')


def parse_date(value: str | None) -> int | None:
    """Return an HTTP date as Unix milliseconds, or None if it is malformed.

    A date without a zone, such as that of C's asctime, is in UTC (RFC 9110, section 5.6.7).
    """
    if value is None:
        return None
    try:
        moment = email.utils.parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return int(moment.timestamp()) * 1000
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def _not_done(name: str) -> errors.S3FeatureNotImplemented:
    return errors.S3FeatureNotImplemented(
        f"A header you provided implies functionality that is not implemented: {name}",
        Header=name.title(),
    )


def _etags(headers: HeaderView, name: str) -> tuple[str, ...]:
    """Return the ETags that a header lists, none without the header."""
    value = headers.get(name)
    if value is None:
        return ()
    listed = etags.parse_list(value)
    if listed is None:
        raise errors.InvalidArgument(
            f"{name} is not a list of ETags", ArgumentName=name, ArgumentValue=value
        )
    return listed
