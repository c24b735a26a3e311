"""rule: the If-* conditions of reads (RFC 9110, 13.2.2), and those of writes.

If-Match takes precedence over If-Unmodified-Since, If-None-Match over If-Modified-Since. Dates in
headers have whole seconds, so an object's milliseconds are dropped before the comparison.
`check_write` runs inside the index transaction that makes the write visible.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage import errors, etags
from storage.model import Precondition

MS_PER_SECOND = 1000
COPY_SOURCE_PREFIX = "x-amz-copy-source-"
"""What the headers of a copy's conditions on its source begin with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadConditions:
    """The conditions of a read. Empty and None mean no condition; ETags are bare, or `*`."""

    if_match: tuple[str, ...] = ()
    if_none_match: tuple[str, ...] = ()
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None


def unmodified_by(
    conditions: ReadConditions, *, etag: str, modified_at_ms: int, now_ms: int
) -> str | None:
    """Return the condition by which the client already has an object's version; None if the version
    is to be sent.

    An If-Modified-Since of a later moment than now is ignored, as on AWS. Raises
    PreconditionFailed, which has the object's etag and modified_at_ms.
    """
    if conditions.if_match:
        if not etags.matches(etag, conditions.if_match):
            raise _failed("If-Match", etag, modified_at_ms)
    elif _is_after(modified_at_ms, conditions.if_unmodified_since_ms):
        raise _failed("If-Unmodified-Since", etag, modified_at_ms)
    since_ms = conditions.if_modified_since_ms
    if conditions.if_none_match:
        if etags.matches(etag, conditions.if_none_match):
            return "If-None-Match"
    elif since_ms is not None and since_ms <= now_ms and not _is_after(modified_at_ms, since_ms):
        return "If-Modified-Since"
    return None


def check_copy_source(
    conditions: ReadConditions, *, etag: str, modified_at_ms: int, now_ms: int
) -> None:
    """Raise PreconditionFailed if the source of a copy does not meet its conditions.

    The same four conditions, but S3 has no "not modified" for a copy, and their headers have
    another prefix.
    """
    try:
        condition = unmodified_by(
            conditions, etag=etag, modified_at_ms=modified_at_ms, now_ms=now_ms
        )
    except errors.PreconditionFailed as failed:
        condition = str(failed.fields["condition"])
    if condition is not None:
        raise _failed(COPY_SOURCE_PREFIX + condition, etag, modified_at_ms)


def check_write(precondition: Precondition, *, key: str, etag: str | None) -> None:
    """Raise NoSuchKey or PreconditionFailed if a write is not allowed.

    etag: of the existing object, None if there is none.
    """
    if precondition.if_match:
        if etag is None:
            raise errors.NoSuchKey(f"If-Match was sent, but {key!r} does not exist", key=key)
        if not etags.matches(etag, precondition.if_match):
            raise errors.PreconditionFailed(
                f"If-Match does not hold for {key!r}", condition="If-Match", key=key, etag=etag
            )
    if etag is not None and etags.matches(etag, precondition.if_none_match):
        raise errors.PreconditionFailed(
            f"If-None-Match does not hold for {key!r}",
            condition="If-None-Match",
            key=key,
            etag=etag,
        )


def _is_after(modified_at_ms: int, since_ms: int | None) -> bool | None:
    """Return whether it was modified after the whole second since_ms; None without a condition."""
    if since_ms is None:
        return None
    return modified_at_ms // MS_PER_SECOND > since_ms // MS_PER_SECOND


def _failed(condition: str, etag: str, modified_at_ms: int) -> errors.PreconditionFailed:
    return errors.PreconditionFailed(
        f"{condition} does not hold", condition=condition, etag=etag, modified_at_ms=modified_at_ms
    )
