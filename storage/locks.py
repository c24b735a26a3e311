"""rule: object lock: which versions may not be removed, and until when.

A version's lock stands among its stored headers, in the form in which a GET shows it: a retention
(mode and date) and a legal hold. A version is locked while its retention has not ended or its legal
hold is on. A GOVERNANCE retention yields to a caller who may bypass it, a COMPLIANCE retention can
only be extended. A bucket's settings have the retention of new versions whose writer names none.

Judged inside the transaction that removes or changes. Reads no clock.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec

from storage import errors, records
from storage.model import ObjectAttributes

Mode: TypeAlias = Literal["GOVERNANCE", "COMPLIANCE"]

MODE: Final = "x-amz-object-lock-mode"
RETAIN_UNTIL: Final = "x-amz-object-lock-retain-until-date"
LEGAL_HOLD: Final = "x-amz-object-lock-legal-hold"
HEADERS: Final = frozenset({MODE, RETAIN_UNTIL, LEGAL_HOLD})
"""The stored headers that are a version's lock."""
DEFAULT_RETENTION: Final = "object_lock_default"
"""The setting of a bucket with the retention of its new versions."""
MS_PER_DAY: Final = 86_400_000
DAYS_PER_YEAR: Final = 365

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionRetention:
    """A version must stay until a moment: Unix milliseconds."""

    mode: Mode
    until_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultRetention:
    """The retention of a bucket's new versions, from their writing on."""

    mode: Mode
    unit: Literal["Days", "Years"]
    count: int

    @property
    def ms(self) -> int:
        """The length of the retention."""
        return self.count * MS_PER_DAY * (DAYS_PER_YEAR if self.unit == "Years" else 1)


def retention_of(headers: Mapping[str, str]) -> VersionRetention | None:
    """Return the retention among a version's stored headers, also one that has ended."""
    mode = headers.get(MODE)
    if mode is None:
        return None
    until_ms = parse_moment(headers[RETAIN_UNTIL])
    assert until_ms is not None, "a stored date was formatted here"
    return VersionRetention(
        mode="COMPLIANCE" if mode == "COMPLIANCE" else "GOVERNANCE", until_ms=until_ms
    )


def legal_hold_of(headers: Mapping[str, str]) -> bool | None:
    """Return whether a version's legal hold is on; None if it never had one."""
    text = headers.get(LEGAL_HOLD)
    return None if text is None else text == "ON"


def headers_of(retention: VersionRetention | None, legal_hold: bool | None) -> dict[str, str]:
    """Return a lock as stored headers."""
    headers: dict[str, str] = {}
    if retention is not None:
        headers[MODE] = retention.mode
        headers[RETAIN_UNTIL] = format_moment(retention.until_ms)
    if legal_hold is not None:
        headers[LEGAL_HOLD] = "ON" if legal_hold else "OFF"
    return headers


def without(headers: Mapping[str, str]) -> dict[str, str]:
    """Return stored headers without a lock: a copy does not take over its source's."""
    return {name: value for name, value in headers.items() if name not in HEADERS}


def default_of(settings: Mapping[str, Any]) -> DefaultRetention | None:
    """Return the retention of new versions that a bucket's settings have."""
    value = settings.get(DEFAULT_RETENTION)
    return None if value is None else DefaultRetention(**value)


def settings_of(default: DefaultRetention | None) -> dict[str, Any]:
    """Return a retention of new versions as settings."""
    if default is None:
        return {}
    return {DEFAULT_RETENTION: {"mode": default.mode, "unit": default.unit, "count": default.count}}


def attributes_of_new(
    bucket_row: bytes, attributes: ObjectAttributes, *, now_ms: int
) -> ObjectAttributes:
    """Return the attributes of a new version: the bucket's retention if its writer names none.

    bucket_row: the bucket's record.
    """
    if not records.has_object_lock(bucket_row) or MODE in attributes.headers:
        return attributes
    default = default_of(records.decode_bucket(bucket_row).settings)
    if default is None:
        return attributes
    retention = VersionRetention(mode=default.mode, until_ms=now_ms + default.ms)
    headers = {**attributes.headers, **headers_of(retention, None)}
    return msgspec.structs.replace(attributes, headers=headers)


def with_retention(
    record: records.ObjectRecord, retention: VersionRetention | None, *, now_ms: int, bypass: bool
) -> records.ObjectRecord:
    """Return a version with another retention, or with none.

    bypass: the caller may bypass GOVERNANCE. Raises ObjectLocked, RetentionInPast.
    """
    if retention is not None:
        check_future(retention, now_ms=now_ms)
    before = retention_of(record.attributes.headers)
    if before is not None and before.until_ms > now_ms:
        is_extended = (
            retention is not None
            and retention.mode == before.mode
            and retention.until_ms >= before.until_ms
        )
        yields = before.mode == "GOVERNANCE" and bypass
        if not (is_extended or yields):
            raise errors.ObjectLocked(
                f"a {before.mode} retention can only be extended", mode=before.mode
            )
    return _with_lock(record, retention, legal_hold_of(record.attributes.headers))


def with_legal_hold(record: records.ObjectRecord, legal_hold: bool) -> records.ObjectRecord:
    """Return a version with its legal hold on or off."""
    return _with_lock(record, retention_of(record.attributes.headers), legal_hold)


def check_removal(record: records.ObjectRecord, *, now_ms: int, bypass: bool) -> None:
    """Raise ObjectLocked unless a version may be removed. bypass: as for `with_retention`."""
    headers = record.attributes.headers
    if legal_hold_of(headers):
        raise errors.ObjectLocked("the version has a legal hold", mode="LEGAL_HOLD")
    retention = retention_of(headers)
    if retention is None or retention.until_ms <= now_ms:
        return
    if retention.mode == "COMPLIANCE" or not bypass:
        raise errors.ObjectLocked(
            f"a {retention.mode} retention protects the version until "
            f"{format_moment(retention.until_ms)}",
            mode=retention.mode,
        )


def check_new(headers: Mapping[str, str], *, now_ms: int) -> None:
    """Raise RetentionInPast if a writer names a retention that would have ended."""
    if MODE in headers:
        retention = retention_of(headers)
        assert retention is not None
        check_future(retention, now_ms=now_ms)


def check_future(retention: VersionRetention, *, now_ms: int) -> None:
    """Raise RetentionInPast for a retention that would have ended."""
    if retention.until_ms <= now_ms:
        raise errors.RetentionInPast(
            f"a retention cannot end in the past, at {format_moment(retention.until_ms)}",
            until_ms=retention.until_ms,
        )


def parse_moment(text: str) -> int | None:
    """Return an ISO 8601 moment with its zone as Unix milliseconds, or None if it is none.

    A moment that is not in the years 1 to 9999 of UTC is none: `format_moment` cannot show it.
    """
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return None
        moment = moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)


def format_moment(at_ms: int) -> str:
    """Return a moment in ISO 8601, in whole seconds where it has no milliseconds."""
    moment = _EPOCH + datetime.timedelta(milliseconds=at_ms)
    text = moment.replace(tzinfo=None).isoformat(timespec="seconds")
    fraction = at_ms % 1000
    return f"{text}.{fraction:03d}Z" if fraction else f"{text}Z"


def _with_lock(
    record: records.ObjectRecord, retention: VersionRetention | None, legal_hold: bool | None
) -> records.ObjectRecord:
    headers = {**without(record.attributes.headers), **headers_of(retention, legal_hold)}
    attributes = msgspec.structs.replace(record.attributes, headers=headers)
    return records.with_attributes(record, attributes)
