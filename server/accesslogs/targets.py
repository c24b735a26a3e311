"""rule: where the access records of a bucket are delivered, and the keys of the objects with them.

The target is a setting of the bucket whose requests are logged. Source: Amazon S3 user guide,
"Logging requests with server access logging"; service models of `s3` and `s3tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from storage import locks, model

SETTING: Final = "access_log"
"""The setting of a bucket whose requests are logged."""
UNIQUE_CHARACTERS: Final = 16
DAY_MS: Final = 86_400_000

KeyFormat: TypeAlias = Literal["simple", "EventTime", "DeliveryTime"]


class LogTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where records go.

    key_format: `simple`, or the date by which keys are partitioned. None: the target names none,
    and its keys are simple.
    """

    bucket: str
    prefix: str
    key_format: KeyFormat | None


class UnusableTarget(Exception):
    """Records cannot be delivered to the bucket. `str()` is one sentence for the user."""


def target_of(settings: Mapping[str, Any]) -> LogTarget | None:
    """Return the target in a bucket's settings; None if its requests are not logged."""
    value = settings.get(SETTING)
    return None if value is None else LogTarget(**value)


def with_target(settings: Mapping[str, Any], target: LogTarget | None) -> dict[str, Any]:
    """Return a bucket's settings with another target."""
    others = {name: value for name, value in settings.items() if name != SETTING}
    return others if target is None else {**others, SETTING: msgspec.structs.asdict(target)}


def day_of(target: LogTarget, at_ms: int) -> int:
    """Return the start of the day by which a record's object is chosen; 0 if days are mixed."""
    return at_ms - at_ms % DAY_MS if target.key_format == "EventTime" else 0


def key_of(
    target: LogTarget, source: model.BucketInfo, *, region: str, at_ms: int, unique: str
) -> str:
    """Return the key of an object with records.

    at_ms: the time of delivery, or the start of the records' day for `EventTime`. unique: text that
    makes the key unique.
    """
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    name = f"{moment:%Y-%m-%d-%H-%M-%S}-{unique}"
    if target.key_format in (None, "simple"):
        return f"{target.prefix}{name}"
    partition = f"{source.owner}/{region}/{source.name}/{moment:%Y/%m/%d}"
    return f"{target.prefix}{partition}/{name}"


def check_target(source: model.BucketInfo, bucket: model.BucketInfo) -> None:
    """Raise UnusableTarget for a bucket that may not receive the records of a source."""
    if bucket.type != "general":
        raise UnusableTarget("The target bucket for logging must be a general purpose bucket.")
    if bucket.owner != source.owner:
        raise UnusableTarget(
            "The owner for the bucket to be logged and the target bucket must be the same."
        )
    if source.type == "table" and bucket.object_lock:
        raise UnusableTarget("The target bucket for logging must not have Object Lock enabled.")
    if locks.default_of(bucket.settings) is not None:
        raise UnusableTarget(
            "The target bucket for logging must not have a default retention period."
        )
