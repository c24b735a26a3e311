"""rule: what the S3 face asks of whoever knows tables.

The S3 face serves table buckets and general buckets alike; what differs in a table bucket is
answered by a Guard that `mini.py` passes in. This module knows no table: it names the questions,
and answers them for a house without tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, Protocol, TypeAlias

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
class Content:
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
    judge: Callable[[Content], None]


class Guard(Protocol):
    """The questions. Keys are decoded text, as the client means them."""

    def check_write(self, bucket: str, key: str) -> None:
        """Raise LayoutRefused if nothing may ever be written at key. Called before the body."""

    def check_body(self, bucket: str, key: str, size_bytes: int) -> None:
        """Raise LayoutRefused (marker-body) if a body of this decoded size may not lie at key."""

    def content_check(self, bucket: str, key: str) -> ContentCheck | None:
        """Return what a body must pass before it gets the name key; None if any will do."""

    def write_once(self, bucket: str, key: str) -> bool:
        """Say whether key, once written, only accepts identical bytes."""

    def refuse_overwrite(self, key: str) -> NoReturn:
        """Raise LayoutRefused (write-once): key was written before, with other bytes."""

    def is_aws_strict(self, bucket: str) -> bool:
        """Say whether objects of the bucket cannot be listed, deleted, copied or tagged."""

    def on_delete(self, bucket: str, key: str) -> OnDelete:
        """Say what a DELETE of key does: remove it, write a tombstone, or be refused."""

    def resource_of(self, bucket: str, key: str, access: Access) -> Resource | None:
        """Return what access to key must be allowed to do; None means the plain S3 action."""


class OpenGuard:
    """The answers where no bucket is a table bucket."""

    def check_write(self, bucket: str, key: str) -> None:
        """Refuse nothing."""

    def check_body(self, bucket: str, key: str, size_bytes: int) -> None:
        """Refuse nothing."""

    def content_check(self, bucket: str, key: str) -> ContentCheck | None:
        """Look at no body."""
        return None

    def write_once(self, bucket: str, key: str) -> bool:
        """Let every key be overwritten."""
        return False

    def refuse_overwrite(self, key: str) -> NoReturn:
        """Never called."""
        raise AssertionError("nothing is written once here")

    def is_aws_strict(self, bucket: str) -> bool:
        """Offer every operation."""
        return False

    def on_delete(self, bucket: str, key: str) -> OnDelete:
        """Remove every key."""
        return "remove"

    def resource_of(self, bucket: str, key: str, access: Access) -> Resource | None:
        """Ask for the plain S3 action."""
        return None
