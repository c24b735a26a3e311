"""rule: what a key is, as far as the S3 face must know: a plain object, or a file of a table.

The S3 face serves general buckets and table buckets. Whether a key may be written, what a DELETE
does and which right it takes depends on the tables, which this package does not know: a Guard that
`mini.py` passes in returns one Ruling per key. A Ruling is a value. It names the index rows that it
was made of, and a write expects those rows in its own transaction, so that the Ruling still holds
where the write happens. Keys are decoded text, as the client means them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, Protocol, TypeAlias

import msgspec

from storage import batch, model

OnDelete: TypeAlias = Literal["remove", "tombstone", "refuse"]
Access: TypeAlias = Literal["read", "write", "list"]

SEGMENT_CHARACTERS_MAX: Final = 128
"""How much of a refused segment is shown."""


class LayoutRefused(Exception):
    """A write breaks a rule of the table bucket's file layout.

    rule: the rule's name. segment: the offending path segment. position: its index from 0.
    """

    def __init__(self, *, rule: str, segment: str, position: int, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.segment = segment
        self.position = position


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """The action and ARN that an S3 request on a key amounts to."""

    action: str
    arn: str
    context: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyEnds:
    """A body as far as it is looked at: head and tail are its first and last bytes."""

    size_bytes: int
    head: bytes
    tail: bytes
    whole: bytes | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentCheck:
    """What a body must pass to lie at a key.

    edge_bytes: how much of either end is looked at. whole_bytes_max: a body up to this size is read
    whole. judge: raises LayoutRefused; takes its time with a large body, and may run in any thread.
    """

    edge_bytes: int
    whole_bytes_max: int
    judge: Callable[[BodyEnds], None]


class Ruling(Protocol):
    """What holds for one key in one state of the index. Nothing here reads the index."""

    @property
    def bucket(self) -> model.BucketInfo | None:
        """The bucket; None if there is none of that name."""

    @property
    def expects(self) -> tuple[batch.Expect, ...]:
        """The rows of the index that the ruling was made of, beside the bucket's id."""

    @property
    def table_path(self) -> str | None:
        """Where the table begins that the key lies at or below, if it lies in one."""

    @property
    def is_aws_strict(self) -> bool:
        """Whether objects of the bucket cannot be listed, deleted, copied or tagged."""

    @property
    def is_write_once(self) -> bool:
        """Whether the key, once written, only accepts identical bytes."""

    @property
    def on_delete(self) -> OnDelete:
        """What a DELETE of the key does: remove it, write a tombstone, or be refused."""

    @property
    def content_check(self) -> ContentCheck | None:
        """What a body must pass before it gets the name; None if any will do."""

    def resource(self, access: Access) -> Resource | None:
        """Return what access to the key must be allowed to do; None means the plain S3 action."""

    def check_write(self) -> None:
        """Raise LayoutRefused if nothing may be written at the key. Needs no body."""

    def check_body(self, size_bytes: int) -> None:
        """Raise LayoutRefused (marker-body) if a body of this decoded size may not lie there."""

    def refuse_overwrite(self) -> NoReturn:
        """Raise LayoutRefused (write-once): the key was written before, with other bytes."""


class Guard(Protocol):
    """Answers everything about a key at once."""

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> Ruling:
        """Return what holds for a key now. key: of an object, or a prefix that is listed. reading:
        an open view to read from."""


class PlainRuling(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key of a general bucket, or of one that does not exist: no rule but the bucket's own.

    Every request makes one, so it is a Struct: a fifth of what a dataclass costs.
    """

    bucket: model.BucketInfo | None
    expects: tuple[batch.Expect, ...] = ()
    table_path: str | None = None
    is_aws_strict: bool = False
    is_write_once: bool = False
    on_delete: OnDelete = "remove"
    content_check: ContentCheck | None = None

    def resource(self, access: Access) -> Resource | None:
        """Ask for the plain S3 action."""
        return None

    def check_write(self) -> None:
        """Refuse nothing."""

    def check_body(self, size_bytes: int) -> None:
        """Refuse nothing."""

    def refuse_overwrite(self) -> NoReturn:
        """Never called: the key may be overwritten."""
        raise AssertionError("a key of a general bucket is not written once")


class Rulings:
    """A Guard for one request: it asks about each key once, until `forget`."""

    __slots__ = ("_guard", "_rulings")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._rulings: dict[tuple[str, str], Ruling] = {}

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> Ruling:
        """Return what held for a key when the request first asked about it."""
        ruling = self._rulings.get((bucket, key))
        if ruling is None:
            ruling = self._rulings[bucket, key] = self._guard.at(bucket, key, reading)
        return ruling

    def anew(self) -> Rulings:
        """Return the Guard of another request."""
        return Rulings(self._guard)

    def forget(self, bucket: str, key: str) -> None:
        """Ask about a key anew: the rows that its ruling was made of have changed."""
        self._rulings.pop((bucket, key), None)
