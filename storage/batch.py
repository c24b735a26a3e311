"""rule: an index transaction as a value: expected rows, writes, and derivations.

Every expectation of a Batch is checked before its first write, so a refused Batch leaves no trace
in the transaction that it shares with others. A derivation is called by the writer inside the
transaction and returns further writes: sequence numbers, branch heads, or writes that depend on the
state at that moment, such as a precondition. A Decision is also called inside the transaction; it
returns the whole Batch and a result for the committer. What a committer needs to know of its
transaction is such a result, never a variable that a derivation assigns. A Batch does not read or
write by itself; `storage.index` does. A table commit makes thirty of these values, so they are
msgspec Structs, which cost a tenth of dataclasses.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec

Result = TypeVar("Result")


class Store(enum.Enum):
    """The index's stores, one LMDB sub-database each. docs/ON_DISK.md describes the records."""

    META = "meta"
    BUCKETS = "buckets"
    OBJECTS = "objects"
    VERSIONS = "versions"
    PREFIXES = "prefixes"
    BODIES = "bodies"
    BLOBS = "blobs"
    UPLOADS = "uploads"
    PARTS = "parts"
    TOMBSTONES = "tombstones"
    POINTERS = "pointers"
    NAMESPACES = "namespaces"
    LOG = "log"
    REFS = "refs"
    COMMITS = "commits"
    LOCATIONS = "locations"
    IDEMPOTENCY = "idempotency"
    OUTBOX = "outbox"
    CHECKPOINTS = "checkpoints"
    LOADS = "loads"
    METRICS = "metrics"
    TAGS = "tags"
    SETTINGS = "settings"
    JOBS = "jobs"
    TOKENS = "tokens"
    SESSIONS = "sessions"
    RELEASED = "released"
    LIFECYCLES = "lifecycles"
    IDENTITIES = "identities"
    STAGES = "stages"
    WAREHOUSES = "warehouses"

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a Python call
    # and costs more than a sixth of a lookup (tests/bench).


class Expect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The store must hold exactly value under key; None means the key must be absent."""

    store: Store
    key: bytes
    value: bytes | None


class Put(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Write value under key, replacing an existing value."""

    store: Store
    key: bytes
    value: bytes


class Delete(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Remove key; an absent key is ignored."""

    store: Store
    key: bytes


Write: TypeAlias = Put | Delete


class TakesLong(Exception):
    """A Batch counted more rows than the writer takes without a long turn; see `Reading.weigh`."""


class Lookup(Protocol):
    """A view that returns the value under one key."""

    @property
    def is_committed(self) -> bool:
        """Whether the state is durable; an open write transaction may still be undone."""

    def get(self, store: Store, key: bytes) -> bytes | None: ...


class Reading(Lookup, Protocol):
    """The view of a derivation: the open transaction, with the writes of earlier Batches."""

    def scan(
        self, store: Store, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...

    def weigh(self, rows: int) -> None:
        """Count rows that a plan is about to read or write, where they may be thousands.

        Raises TakesLong if the Batch has no long turn and has counted more than it may; the index
        catches it, and plans the Batch again in its turn. Does nothing outside the transaction.
        """


class Entering(Reading, Protocol):
    """A view that also finds the first row of a range, without the cost of a scan."""

    def first(self, store: Store, start: bytes, stop: bytes) -> tuple[bytes, bytes] | None: ...

    def take(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> list[tuple[bytes, bytes]]: ...

    def take_columns(
        self, store: Store, start: bytes, stop: bytes, count: int
    ) -> tuple[list[bytes], list[bytes]]: ...


Derivation: TypeAlias = Callable[[Reading], Sequence[Write]]
"""Returns further writes, given a view with the Batch's own writes and those of earlier
derivations. It may refuse by raising: then the whole Batch is undone and the committer gets the
exception. It may run more than once."""


Check: TypeAlias = Callable[[Reading], None]
"""Raises inside the transaction if the state on which a change was decided no longer holds."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One atomic change of the index.

    makes_room: the Batch frees space, now or later; it is accepted when the disk is full.
    """

    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()
    derive: tuple[Derivation, ...] = ()
    makes_room: bool = False


class Decided(msgspec.Struct, Generic[Result], frozen=True, kw_only=True):
    """The outcome of a Decision: the committer gets `result` once `batch` is durable."""

    result: Result
    batch: Batch = Batch()


Decision: TypeAlias = Callable[[Reading], Decided[Result]]
"""Plans a Batch on the transaction that writes it, so that no other write can come between. It may
refuse by raising, and it may run more than once. It runs in the writer thread, which blocks every
other writer: it must be short."""


class OrderedPlan(msgspec.Struct, Generic[Result], frozen=True, kw_only=True):
    """One of several changes in one transaction, each with a result of its own.

    plan: returns the result and the writes, given a view with the writes of earlier plans.
    after: derivations that follow these writes.
    """

    plan: Callable[[Reading], tuple[Result, Sequence[Write]]]
    after: tuple[Derivation, ...] = ()


def decide_in_order(
    plans: Sequence[OrderedPlan[Result]], *, expects: tuple[Expect, ...] = ()
) -> Decision[list[Result]]:
    """Return the Decision that executes plans in order, after expects; it has their results."""

    def decide(reading: Reading) -> Decided[list[Result]]:
        results: list[Result] = []
        derive: list[Derivation] = []
        for ordered in plans:
            derive.append(_deriving(ordered, results))
            derive.extend(ordered.after)
        return Decided(result=results, batch=Batch(expects=expects, derive=tuple(derive)))

    return decide


def _deriving(ordered: OrderedPlan[Result], results: list[Result]) -> Derivation:
    """Return the plan as a derivation that appends its result."""

    def derive(reading: Reading) -> Sequence[Write]:
        result, writes = ordered.plan(reading)
        results.append(result)
        return writes

    return derive


def expecting(expects: Iterable[Expect], batch: Batch) -> Batch:
    """Return a Batch with further expectations, which are checked first."""
    return Batch(
        expects=(*expects, *batch.expects),
        writes=batch.writes,
        derive=batch.derive,
        makes_room=batch.makes_room,
    )


def merge(batches: Iterable[Batch]) -> Batch:
    """Return one Batch with the expectations, writes and derivations of all of them."""
    parts = tuple(batches)
    return Batch(
        expects=tuple([expect for part in parts for expect in part.expects]),
        writes=tuple([write for part in parts for write in part.writes]),
        derive=tuple([derivation for part in parts for derivation in part.derive]),
        makes_room=bool(parts) and all(part.makes_room for part in parts),
    )
