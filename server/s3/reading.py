"""rule: conditions and ranges of a read (RFC 9110, sections 13 and 14), as S3 judges them.

If-Match outranks If-Unmodified-Since, and If-None-Match outranks If-Modified-Since. Dates count
whole seconds. An unreadable date or range is as good as none; several ranges mean the whole body.
A range past the end is a fact and is raised: this module picks no status.
"""

from __future__ import annotations

import email.utils
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from server.s3 import errors
from storage import model

Outcome = Literal["proceed", "not-modified", "failed"]

_RANGE_DIGITS_MAX = 19


class HeaderView(Protocol):
    """A request's headers, by lower-case name. `items` repeats a name that came repeatedly."""

    def get(self, name: str) -> str | None: ...

    def items(self) -> Iterable[tuple[str, str]]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What a read asks of the object. ETags are bare; "*" stands for any. Times are Unix ms."""

    if_match: tuple[str, ...] = ()
    if_none_match: tuple[str, ...] = ()
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None


NO_CONDITIONS = Conditions()


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeRequest:
    """`first-last`, `first-` (last None), or the final `last` bytes (first None)."""

    first: int | None
    last: int | None


def parse_etags(value: str) -> tuple[str, ...]:
    """Return the bare ETags of an If-Match or If-None-Match value; weak marks are dropped."""
    found = []
    for part in value.split(","):
        etag = part.strip().removeprefix("W/").strip('"')
        if etag:
            found.append(etag)
    return tuple(found)


def parse_date(value: str) -> int | None:
    """Return an HTTP date as Unix milliseconds, or None if it is none."""
    try:
        parsed = email.utils.parsedate_to_datetime(value)
        return int(parsed.timestamp()) * 1000
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def parse_conditions(headers: HeaderView, *, prefix: str = "") -> Conditions:
    """Return the four conditions; prefix is "" for a read, "x-amz-copy-source-" for a copy."""
    if_match = headers.get(prefix + "if-match")
    if_none_match = headers.get(prefix + "if-none-match")
    modified_since = headers.get(prefix + "if-modified-since")
    unmodified_since = headers.get(prefix + "if-unmodified-since")
    return Conditions(
        if_match=parse_etags(if_match) if if_match else (),
        if_none_match=parse_etags(if_none_match) if if_none_match else (),
        if_modified_since_ms=parse_date(modified_since) if modified_since else None,
        if_unmodified_since_ms=parse_date(unmodified_since) if unmodified_since else None,
    )


def judge(conditions: Conditions, *, etag: str, modified_at_ms: int) -> tuple[Outcome, str]:
    """Return what the conditions make of an object, and the header that decided ("" for none)."""
    if conditions is NO_CONDITIONS:
        return "proceed", ""
    modified_ms = modified_at_ms - modified_at_ms % 1000
    if conditions.if_match:
        if not _matches(conditions.if_match, etag):
            return "failed", "If-Match"
    elif (
        conditions.if_unmodified_since_ms is not None
        and modified_ms > conditions.if_unmodified_since_ms
    ):
        return "failed", "If-Unmodified-Since"
    if conditions.if_none_match:
        if _matches(conditions.if_none_match, etag):
            return "not-modified", "If-None-Match"
    elif (
        conditions.if_modified_since_ms is not None
        and modified_ms <= conditions.if_modified_since_ms
    ):
        return "not-modified", "If-Modified-Since"
    return "proceed", ""


def parse_range(value: str) -> RangeRequest | None:
    """Return the one range that a Range header asks for; None means the whole body."""
    unit, equals, spec = value.partition("=")
    if not equals or unit.strip().lower() != "bytes" or "," in spec:
        return None
    first, dash, last = (part.strip() for part in spec.partition("-"))
    if not dash or len(first) > _RANGE_DIGITS_MAX or len(last) > _RANGE_DIGITS_MAX:
        return None
    if (first and not _is_number(first)) or (last and not _is_number(last)):
        return None
    if not first:
        return RangeRequest(first=None, last=int(last)) if last else None
    if not last:
        return RangeRequest(first=int(first), last=None)
    if int(last) < int(first):
        return None
    return RangeRequest(first=int(first), last=int(last))


def resolve_range(wanted: RangeRequest, *, size_bytes: int) -> model.ByteRange:
    """Return the bytes of a body of that size that the range covers; raises InvalidRange."""
    if wanted.first is None:
        count = min(wanted.last or 0, size_bytes)
        if count == 0:
            raise _unsatisfiable(wanted, size_bytes)
        return model.ByteRange(start=size_bytes - count, stop=size_bytes)
    if wanted.first >= size_bytes:
        raise _unsatisfiable(wanted, size_bytes)
    last = size_bytes - 1 if wanted.last is None else min(wanted.last, size_bytes - 1)
    return model.ByteRange(start=wanted.first, stop=last + 1)


def _unsatisfiable(wanted: RangeRequest, size_bytes: int) -> errors.InvalidRange:
    first = "" if wanted.first is None else str(wanted.first)
    last = "" if wanted.last is None else str(wanted.last)
    return errors.InvalidRange(
        "The requested range is not satisfiable",
        RangeRequested=f"bytes={first}-{last}",
        ActualObjectSize=str(size_bytes),
    )


def _matches(wanted: tuple[str, ...], etag: str) -> bool:
    return "*" in wanted or etag in wanted


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
