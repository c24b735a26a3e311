"""rule: a bucket's lifecycle rules: which versions and uploads are due to go or to move, and when.

A day is a fixed number of milliseconds, counted from the Unix epoch: 86,400,000 makes it a day of
UTC. What is due after a number of days is due at the first beginning of a day at or after that
time, as on AWS. Rules that are disabled are kept and have no effect. A delete marker has no tags
and no size, so that a rule which asks for either does not apply to it. A storage class is a word
of a version's record, which reads and listings show. A version moves in one direction, from the
first class to the last one.

Reads no clock and no index. Source: Amazon S3 user guide, "Lifecycle configuration elements".
"""

from __future__ import annotations

import bisect
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

SETTING: Final = "lifecycle"
"""The setting of a bucket that has rules: the digest of its record in Store.LIFECYCLES."""
RULES_MAX: Final = 1_000
TAGS_MAX: Final = 10
"""Tags of an object, as S3 allows them."""
NEWER_MAX: Final = 100
"""Newer noncurrent versions that a rule may keep."""

CLASSES: Final = ("STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR")
"""The storage classes to which a rule moves, in the order in which AWS moves through them; versions
of any other class come before the first. AWS does not move from the third to the fourth."""
MOVED_BYTES_MIN: Final = 128 * 1024
"""Smaller versions do not move unless the rule's filter names a size."""

MINIMUM: Final = "all_storage_classes_128K"
MINIMUMS: Final = frozenset({MINIMUM, "varies_by_storage_class"})
"""S3's names for MOVED_BYTES_MIN. The second one differs for archives alone, to which no rule
moves."""

Written: TypeAlias = Literal["prefix", "filter", "and"]
"""The form in which a rule names what it applies to, so that it is shown as it was put."""


class Transition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The move of current versions to a storage class, after days or at a fixed moment."""

    storage_class: str
    days: int | None = None
    at_ms: int | None = None


class NoncurrentTransition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The move of noncurrent versions to a storage class. newer: how many of them do not move."""

    storage_class: str
    days: int
    newer: int | None = None


class LifecycleRule(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One rule, as the index has it. prefix: None if the filter does not name one.

    size_greater_than, size_less_than: bytes, both exclusive. expiration_at_ms: a fixed moment.
    removes_markers: ExpiredObjectDeleteMarker, None if the rule does not name it. newer_noncurrent:
    how many noncurrent versions are kept whatever their age.
    """

    id: str
    is_enabled: bool
    written: Written
    prefix: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    size_greater_than: int | None = None
    size_less_than: int | None = None
    expiration_days: int | None = None
    expiration_at_ms: int | None = None
    removes_markers: bool | None = None
    noncurrent_days: int | None = None
    newer_noncurrent: int | None = None
    abort_days: int | None = None
    transitions: tuple[Transition, ...] = ()
    noncurrent_transitions: tuple[NoncurrentTransition, ...] = ()

    @property
    def cost(self) -> int:
        """Comparisons of a version with this rule."""
        return 1 + len(self.transitions) + len(self.noncurrent_transitions)


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """When a rule applies to something: Unix milliseconds. rule_id: that rule's id."""

    at_ms: int
    rule_id: str


class JudgedVersion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What rules look at in a version. is_marker: it is a delete marker."""

    key: bytes
    size_bytes: int
    tags: Mapping[str, str]
    modified_at_ms: int
    is_marker: bool = False
    storage_class: str = "STANDARD"


class NoncurrentMove(msgspec.Struct, frozen=True, kw_only=True):
    """A noncurrent version's move that is due. kept: newer noncurrent versions that it needs."""

    storage_class: str
    kept: int


def moves(source: str, target: str) -> bool:
    """Return whether a version of one storage class can move to another one of CLASSES."""
    if source not in CLASSES:
        return True
    if (source, target) == ("ONEZONE_IA", "GLACIER_IR"):
        return False
    return CLASSES.index(source) < CLASSES.index(target)


def digest(record: bytes) -> str:
    """Return the name of a record of rules, which changes with every change of them."""
    return hashlib.blake2b(record, digest_size=16).hexdigest()


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """The enabled rules of one prefix, arranged so that few are compared with a version.

    plain: without tags and sizes, only those that no other one outdoes. sized: with sizes and
    without tags. tagged: by their first tag.
    """

    plain: tuple[LifecycleRule, ...]
    sized: tuple[LifecycleRule, ...]
    tagged: Mapping[tuple[str, str], tuple[LifecycleRule, ...]]

    @property
    def cost(self) -> int:
        """The most comparisons of a version with these rules."""
        longest = max((_cost(rules) for rules in self.tagged.values()), default=0)
        return _cost(self.plain) + _cost(self.sized) + TAGS_MAX * longest


class Lifecycle:
    """The enabled rules of a bucket, by prefix. day_ms: the length of a day.

    The rules of a prefix are arranged when a key has it: a request needs a few prefixes of a
    thousand. count: of the rules. aborts: one of the rules aborts uploads. transitions: one of them
    moves versions to another storage class.
    """

    def __init__(self, rules: Iterable[LifecycleRule], *, day_ms: int) -> None:
        self.day_ms = day_ms
        enabled = [rule for rule in rules if rule.is_enabled]
        self.count = len(enabled)
        self.aborts = any(rule.abort_days is not None for rule in enabled)
        self.transitions = any(rule.cost > 1 for rule in enabled)
        by_prefix: dict[bytes, list[LifecycleRule]] = {}
        for rule in enabled:
            prefix = (rule.prefix or "").encode("utf-8", "surrogatepass")
            by_prefix.setdefault(prefix, []).append(rule)
        self._by_prefix: Mapping[bytes, Sequence[LifecycleRule]] = by_prefix
        self._groups: dict[bytes, _Group] = {}
        self._lengths = sorted({len(prefix) for prefix in by_prefix})

    @functools.cached_property
    def cost(self) -> int:
        """The most comparisons that a version needs."""
        largest = max((self._group_of(prefix).cost for prefix in self._by_prefix), default=0)
        return len(self._lengths) * (1 + largest)

    def prefixes(self) -> tuple[bytes, ...]:
        """Return the prefixes outside of which no rule applies, ascending and apart."""
        outer: list[bytes] = []
        for prefix in sorted(self._by_prefix):
            if not outer or not prefix.startswith(outer[-1]):
                outer.append(prefix)
        return tuple(outer)

    def expiration(self, subject: JudgedVersion) -> Due | None:
        """Return when the current version expires, and by which rule; the earliest counts."""
        earliest: Due | None = None
        for rule in self._applying(subject):
            at_ms = rule.expiration_at_ms
            if rule.expiration_days is not None:
                at_ms = self._after(subject.modified_at_ms, rule.expiration_days)
            if at_ms is not None and (earliest is None or at_ms < earliest.at_ms):
                earliest = Due(at_ms=at_ms, rule_id=rule.id)
        return earliest

    def removes_marker(self, subject: JudgedVersion, *, now_ms: int) -> bool:
        """Return whether a delete marker is due to go that is the only version of its key.

        ExpiredObjectDeleteMarker removes it at once, an expiration when it is due.
        """
        due = self.expiration(subject)
        if due is not None and due.at_ms <= now_ms:
            return True
        return any(rule.removes_markers for rule in self._applying(subject))

    def noncurrent_kept(
        self, subject: JudgedVersion, *, noncurrent_since_ms: int, newer: int, now_ms: int
    ) -> int | None:
        """Return how many newer noncurrent versions allow the removal of this one; None for never.

        newer: how many there are. noncurrent_since_ms: when the version after it was written.
        """
        allowing: int | None = None
        for rule in self._applying(subject):
            if rule.noncurrent_days is None:
                continue
            kept = rule.newer_noncurrent or 0
            if (
                kept <= newer
                and (allowing is None or kept < allowing)
                and self._after(noncurrent_since_ms, rule.noncurrent_days) <= now_ms
            ):
                allowing = kept
        return allowing

    def transition(self, subject: JudgedVersion, *, now_ms: int) -> str | None:
        """Return the storage class to which the current version is due to move; None for no move.

        Of several the last one in the order of CLASSES counts.
        """
        target: str | None = None
        for rule in self._applying(subject):
            if not _moves_size(rule, subject.size_bytes):
                continue
            for each in rule.transitions:
                at_ms = each.at_ms
                if each.days is not None:
                    at_ms = self._after(subject.modified_at_ms, each.days)
                if (
                    at_ms is not None
                    and at_ms <= now_ms
                    and moves(subject.storage_class, each.storage_class)
                    and (
                        target is None or CLASSES.index(target) < CLASSES.index(each.storage_class)
                    )
                ):
                    target = each.storage_class
        return target

    def noncurrent_transition(
        self, subject: JudgedVersion, *, noncurrent_since_ms: int, newer: int, now_ms: int
    ) -> NoncurrentMove | None:
        """Return the move of a noncurrent version that is due; None for no move.

        The arguments are those of `noncurrent_kept`, the choice that of `transition`.
        """
        best: NoncurrentMove | None = None
        for rule in self._applying(subject):
            if not _moves_size(rule, subject.size_bytes):
                continue
            for each in rule.noncurrent_transitions:
                move = NoncurrentMove(storage_class=each.storage_class, kept=each.newer or 0)
                if (
                    move.kept <= newer
                    and self._after(noncurrent_since_ms, each.days) <= now_ms
                    and moves(subject.storage_class, each.storage_class)
                    and (best is None or _order(best) < _order(move))
                ):
                    best = move
        return best

    def abort(self, key: bytes, *, initiated_at_ms: int) -> Due | None:
        """Return when an upload of a key is aborted, and by which rule; the earliest counts."""
        earliest: Due | None = None
        for group in self._groups_of(key):
            for rule in group.plain:  # a rule that aborts has neither tags nor sizes
                if rule.abort_days is not None:
                    at_ms = self._after(initiated_at_ms, rule.abort_days)
                    if earliest is None or at_ms < earliest.at_ms:
                        earliest = Due(at_ms=at_ms, rule_id=rule.id)
        return earliest

    def _after(self, start_ms: int, days: int) -> int:
        """Return the first beginning of a day that is days after start_ms, or later."""
        day_ms = self.day_ms
        return -(-(start_ms + days * day_ms) // day_ms) * day_ms

    def _applying(self, subject: JudgedVersion) -> Iterator[LifecycleRule]:
        """Yield the rules that apply to a version."""
        for group in self._groups_of(subject.key):
            yield from group.plain
            if subject.is_marker:
                continue
            for rule in group.sized:
                if _fits_sizes(rule, subject.size_bytes):
                    yield rule
            if group.tagged:
                for tag in subject.tags.items():
                    for rule in group.tagged.get(tag, ()):
                        if _fits_sizes(rule, subject.size_bytes) and all(
                            subject.tags.get(name) == value for name, value in rule.tags
                        ):
                            yield rule

    def _groups_of(self, key: bytes) -> Iterator[_Group]:
        """Yield the rules of each prefix that the key has."""
        for length in self._lengths[: bisect.bisect_right(self._lengths, len(key))]:
            prefix = key[:length]
            if prefix in self._by_prefix:
                yield self._group_of(prefix)

    def _group_of(self, prefix: bytes) -> _Group:
        """Return the arranged rules of a prefix."""
        group = self._groups.get(prefix)
        if group is None:
            group = self._groups[prefix] = _group(self._by_prefix[prefix])
        return group


def _group(rules: Sequence[LifecycleRule]) -> _Group:
    plain: list[LifecycleRule] = []
    sized: list[LifecycleRule] = []
    tagged: dict[tuple[str, str], list[LifecycleRule]] = {}
    for rule in rules:
        if rule.tags:
            tagged.setdefault(rule.tags[0], []).append(rule)
        elif rule.size_greater_than is None and rule.size_less_than is None:
            plain.append(rule)
        else:
            sized.append(rule)
    return _Group(
        plain=_foremost(plain),
        sized=tuple(sized),
        tagged={tag: tuple(some) for tag, some in tagged.items()},
    )


def _foremost(rules: Sequence[LifecycleRule]) -> tuple[LifecycleRule, ...]:
    """Return the rules that do something before all others of the same selection do it."""
    first: dict[tuple[str, object], tuple[int, LifecycleRule]] = {}
    for rule in rules:
        actions: tuple[tuple[tuple[str, object], int | None], ...] = (
            (("expiration days", 0), rule.expiration_days),
            (("expiration date", 0), rule.expiration_at_ms),
            (("markers", 0), 0 if rule.removes_markers else None),
            (("noncurrent", rule.newer_noncurrent or 0), rule.noncurrent_days),
            (("abort", 0), rule.abort_days),
            *((("move days", each.storage_class), each.days) for each in rule.transitions),
            *((("move date", each.storage_class), each.at_ms) for each in rule.transitions),
            *(
                (("move noncurrent", (each.storage_class, each.newer or 0)), each.days)
                for each in rule.noncurrent_transitions
            ),
        )
        for action, moment in actions:
            if moment is not None and (action not in first or moment < first[action][0]):
                first[action] = moment, rule
    return tuple(dict.fromkeys(rule for _, rule in first.values()))


def _cost(rules: Iterable[LifecycleRule]) -> int:
    return sum(rule.cost for rule in rules)


def _order(move: NoncurrentMove) -> tuple[int, int]:
    """The order of moves by preference: the last class, and of one class the fewest versions."""
    return CLASSES.index(move.storage_class), -move.kept


def _moves_size(rule: LifecycleRule, size_bytes: int) -> bool:
    """Return whether a rule moves versions of a size to which it applies."""
    names_size = rule.size_greater_than is not None or rule.size_less_than is not None
    return names_size or size_bytes >= MOVED_BYTES_MIN


def _fits_sizes(rule: LifecycleRule, size_bytes: int) -> bool:
    over, under = rule.size_greater_than, rule.size_less_than
    return (over is None or size_bytes > over) and (under is None or size_bytes < under)
