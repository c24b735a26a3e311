"""rule: the interface through which the S3 face learns the rules of a key.

The S3 face serves general buckets and table buckets. In a table bucket the tables decide whether a
key may be written, what a DELETE does and which action it demands. This package does not import the
catalog: `program.application` passes in a Guard, which returns one Ruling per key. A Ruling is a
value. It has the index rows that it depends on, and a write expects those rows in its transaction,
so that the Ruling still holds at that moment. Keys are decoded text.
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
"""The length at which an error cuts the refused segment."""


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
    """The action and ARN that an S3 request on a key demands."""

    action: str
    arn: str
    context: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyEnds:
    """The examined part of a body: head and tail are its first and last bytes."""

    size_bytes: int
    head: bytes
    tail: bytes
    whole: bytes | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentCheck:
    """The check of a body before it is stored at a key.

    edge_bytes: how much of either end is examined. whole_bytes_max: a body up to this size is read
    whole. judge: raises LayoutRefused; slow for a large body, and may run in any thread.
    """

    edge_bytes: int
    whole_bytes_max: int
    judge: Callable[[BodyEnds], None]


class Ruling(Protocol):
    """The rules of one key in one state of the index. Its methods do not read the index."""

    @property
    def bucket(self) -> model.BucketInfo | None:
        """The bucket; None if it does not exist."""

    @property
    def expects(self) -> tuple[batch.Expect, ...]:
        """The rows of the index that the ruling depends on, beside the bucket's id."""

    @property
    def table_path(self) -> str | None:
        """The location path of the table that contains the key; None if no table does."""

    @property
    def is_aws_strict(self) -> bool:
        """Whether objects of the bucket cannot be listed, deleted, copied or tagged."""

    @property
    def is_write_once(self) -> bool:
        """Whether a written key accepts only identical bytes."""

    @property
    def on_delete(self) -> OnDelete:
        """The effect of a DELETE of the key: removal, a tombstone, or a refusal."""

    @property
    def content_check(self) -> ContentCheck | None:
        """The check of a body before it is stored at the key; None if every body may be."""

    def resource(self, access: Access) -> Resource | None:
        """Return the action and ARN that access to the key demands; None means the S3 action."""

    def check_write(self) -> None:
        """Raise LayoutRefused if the key may not be written, whatever the body."""

    def check_body(self, size_bytes: int) -> None:
        """Raise LayoutRefused (marker-body) for a body of a size that the key refuses."""

    def refuse_overwrite(self) -> NoReturn:
        """Raise LayoutRefused (write-once): the key exists with other bytes."""


class Guard(Protocol):
    """Returns the Ruling of a key."""

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> Ruling:
        """Return the current Ruling of a key. key: of an object, or the prefix of a listing.
        reading: an open view to read from."""


class PlainRuling(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The Ruling of a key in a general bucket, or in one that does not exist: no table rules apply.

    record: of the bucket, as the index has it. Every request makes one, so it is a Struct: a fifth
    of what a dataclass costs.
    """

    bucket: model.BucketInfo | None
    record: bytes | None = None
    table_path: str | None = None
    is_aws_strict: bool = False
    is_write_once: bool = False
    on_delete: OnDelete = "remove"
    content_check: ContentCheck | None = None

    @property
    def expects(self) -> tuple[batch.Expect, ...]:
        """The bucket's record: the rights of the request were judged by the policy in it."""
        if self.bucket is None or self.record is None:
            return ()
        name = self.bucket.name.encode()
        return (batch.Expect(store=batch.Store.BUCKETS, key=name, value=self.record),)

    def resource(self, access: Access) -> Resource | None:
        """Return None: the S3 action applies."""
        return None

    def check_write(self) -> None:
        """Refuse nothing."""

    def check_body(self, size_bytes: int) -> None:
        """Refuse nothing."""

    def refuse_overwrite(self) -> NoReturn:
        """Never called: the key may be overwritten."""
        raise AssertionError("a key of a general bucket is not written once")


class Rulings:
    """A Guard for one request: it keeps the Ruling of each key until `forget`.

    reads_tags: a policy that the request was judged by is about the tags of objects. Mutable.
    """

    __slots__ = ("_guard", "_rulings", "reads_tags")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.reads_tags = False
        self._rulings: dict[tuple[str, str], Ruling] = {}

    def at(self, bucket: str, key: str, reading: batch.Reading | None = None) -> Ruling:
        """Return the Ruling of a key: the first one that the request asked for."""
        ruling = self._rulings.get((bucket, key))
        if ruling is None:
            ruling = self._rulings[bucket, key] = self._guard.at(bucket, key, reading)
        return ruling

    def anew(self) -> Rulings:
        """Return the Guard of another request."""
        return Rulings(self._guard)

    def forget(self, bucket: str, key: str) -> None:
        """Drop the Ruling of a key: the rows that it depends on have changed."""
        self._rulings.pop((bucket, key), None)
