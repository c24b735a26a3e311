"""engine: counters that give each number once: sequences of a namespace, and columns of tables.

A counter is part of the settings row of its namespace or table, under an object uuid that is never
used again. Numbers are reserved inside the index transaction, so concurrent statements and restarts
never give one twice. Numbers that are reserved and not used are lost: gaps are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog import errors, idents, owners, receipts, records, sequence_errors, store
from storage import batch, settings

SEQUENCES: Final = "sequences"
COLUMNS: Final = "counters"
SEQUENCES_MAX: Final = 1_000
"""Sequences of one namespace: their row is read and written as a whole."""

COMMENT_CHARACTERS_MAX: Final = 4_096
NUMBER_LOW: Final = -(1 << 63)
NUMBER_HIGH: Final = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceState:
    """A sequence. next: the number that it gives next."""

    name: str
    next: int
    increment: int
    comment: str
    created_at_ms: int
    created_by: str


class Sequences:
    """The counters of every table bucket. Stateless beside its store."""

    def __init__(self, *, store: store.CatalogStore) -> None:
        self._store = store

    def list(self, table_bucket: str, namespace: idents.Namespace) -> tuple[SequenceState, ...]:
        """Return the sequences of a namespace, by name. Raises NoSuchNamespace."""
        with self._store.index.view() as view:
            place = self._store.place(table_bucket, view)
            key = self._key(view, place, namespace)
            rows = settings.read(view, key).get(SEQUENCES, {})
        return tuple(_sequence(name, rows[name]) for name in sorted(rows))

    async def create_sequence(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        name: str,
        *,
        start: int,
        increment: int,
        comment: str,
        replace: bool,
        by: str,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
    ) -> None:
        """Create a sequence. Raises NoSuchNamespace, SequenceAlreadyExists, InvalidName."""
        idents.check_name(name)
        _check_comment(comment)
        row = {
            "next": start,
            "increment": increment,
            "comment": comment,
            "created_at_ms": self._store.now_ms(),
            "created_by": by,
        }

        def change(rows: Mapping[str, Any]) -> dict[str, Any]:
            if name in rows and not replace:
                raise sequence_errors.SequenceAlreadyExists(f"Sequence already exists: {name}")
            if name not in rows and len(rows) >= SEQUENCES_MAX:
                raise errors.InvalidCatalogRequest(
                    f"A namespace has at most {SEQUENCES_MAX} sequences"
                )
            return {**rows, name: row}

        await self._change(table_bucket, namespace, change, judge=judge, receipt=receipt)

    async def drop_sequence(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        name: str,
        *,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
    ) -> None:
        """Drop a sequence. Raises NoSuchNamespace, NoSuchSequence."""

        def change(rows: Mapping[str, Any]) -> dict[str, Any]:
            _row_of(rows, name)
            return {other: row for other, row in rows.items() if other != name}

        await self._change(table_bucket, namespace, change, judge=judge, receipt=receipt)

    async def alter_sequence(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        name: str,
        *,
        to: str | None = None,
        increment: int | None = None,
        comment: str | None = None,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
    ) -> None:
        """Change a sequence; members that are None stay. to: its new name.

        Raises NoSuchNamespace, NoSuchSequence, SequenceAlreadyExists, InvalidName.
        """
        if to is not None:
            idents.check_name(to)
        _check_comment(comment or "")

        def change(rows: Mapping[str, Any]) -> dict[str, Any]:
            row = dict(_row_of(rows, name))
            if to is not None and to != name and to in rows:
                raise sequence_errors.SequenceAlreadyExists(f"Sequence already exists: {to}")
            if increment is not None:
                # The next number was fixed by the last one and the increment before.
                row["increment"] = increment
            if comment is not None:
                row["comment"] = comment
            others = {other: value for other, value in rows.items() if other != name}
            return {**others, name if to is None else to: row}

        await self._change(table_bucket, namespace, change, judge=judge, receipt=receipt)

    async def reserve(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        name: str,
        count: int,
        *,
        judge: owners.Recheck,
    ) -> tuple[int, int]:
        """Return the first of count numbers of a sequence, and the step to the next.

        Raises NoSuchNamespace, NoSuchSequence, CounterExhausted.
        """
        place = self._store.place(table_bucket)

        def decide(reading: batch.Reading) -> batch.Decided[tuple[int, int]]:
            key = self._key(reading, place, namespace)
            row = _row_of(settings.read(reading, key).get(SEQUENCES, {}), name)
            first, increment = int(row["next"]), int(row["increment"])
            after = _after(first, increment, count)

            def change(stored: settings.Settings) -> settings.Settings:
                rows = stored[SEQUENCES]
                return {**stored, SEQUENCES: {**rows, name: {**rows[name], "next": after}}}

            return batch.Decided(result=(first, increment), batch=settings.plan_change(key, change))

        return await self._store.decide(decide, place=place, judge=judge)

    async def reserve_for_column(
        self,
        table_bucket: str,
        object_uuid: str,
        field_id: int,
        count: int,
        *,
        start: int,
        increment: int,
    ) -> int:
        """Return the first of count numbers for a column of the table with this uuid.

        start: the first number of a column that has none yet. Raises CounterExhausted; NoSuchTable
        if the table is dropped.
        """
        place = self._store.place(table_bucket)
        key = settings.table_key(place.bucket_id, object_uuid)

        def decide(reading: batch.Reading) -> batch.Decided[int]:
            if self._store.name_of_object(reading, place, object_uuid) is None:
                raise errors.NoSuchTable(f"Table does not exist: {object_uuid}")
            counters = settings.read(reading, key).get(COLUMNS, {})
            first = int(counters.get(str(field_id), start))
            after = _after(first, increment, count)

            def change(stored: settings.Settings) -> settings.Settings:
                return {**stored, COLUMNS: {**stored.get(COLUMNS, {}), str(field_id): after}}

            return batch.Decided(result=first, batch=settings.plan_change(key, change))

        return await self._store.decide(decide, place=place)

    def columns(self, table_bucket: str, object_uuid: str) -> dict[int, int]:
        """Return the next numbers of a table's columns, by field id."""
        with self._store.index.view() as view:
            place = self._store.place(table_bucket, view)
            key = settings.table_key(place.bucket_id, object_uuid)
            stored = settings.read(view, key).get(COLUMNS, {})
        return {int(field_id): int(number) for field_id, number in stored.items()}

    async def _change(
        self,
        table_bucket: str,
        namespace: idents.Namespace,
        change: Any,
        *,
        judge: owners.Recheck,
        receipt: receipts.Receipt,
    ) -> None:
        place = self._store.place(table_bucket)

        def decide(reading: batch.Reading) -> batch.Decided[None]:
            key = self._key(reading, place, namespace)
            rows = change(settings.read(reading, key).get(SEQUENCES, {}))

            def assign(stored: settings.Settings) -> settings.Settings:
                others = {name: value for name, value in stored.items() if name != SEQUENCES}
                return {**others, SEQUENCES: rows} if rows else others

            changed = settings.plan_change(key, assign)
            return batch.Decided(result=None, batch=batch.merge((changed, receipt.plan())))

        await self._store.decide(decide, place=place, judge=judge)

    def _key(
        self, reading: batch.Reading, place: records.Place, namespace: idents.Namespace
    ) -> bytes:
        row = self._store.namespace(reading, place, namespace).row
        return settings.table_key(place.bucket_id, row.object_uuid)


def stored_rows(
    reading: batch.Lookup, bucket_id: int, namespace: records.NamespaceRow
) -> Mapping[str, Any]:
    """Return the stored sequences of a namespace, by name."""
    rows = settings.read(reading, settings.table_key(bucket_id, namespace.object_uuid))
    stored: Mapping[str, Any] = rows.get(SEQUENCES, {})
    return stored


def _row_of(rows: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in rows:
        raise sequence_errors.NoSuchSequence(f"Sequence does not exist: {name}")
    row: Mapping[str, Any] = rows[name]
    return row


def _sequence(name: str, row: Mapping[str, Any]) -> SequenceState:
    return SequenceState(
        name=name,
        next=row["next"],
        increment=row["increment"],
        comment=row["comment"],
        created_at_ms=row["created_at_ms"],
        created_by=row["created_by"],
    )


def _after(first: int, increment: int, count: int) -> int:
    """Return the number after count numbers; every number, and that one, fits 64 bits."""
    after = first + increment * count
    if not NUMBER_LOW <= after <= NUMBER_HIGH:
        raise sequence_errors.CounterExhausted(
            f"The numbers of a sequence after {first} leave 64 bits"
        )
    return after


def _check_comment(comment: str) -> None:
    if len(comment) > COMMENT_CHARACTERS_MAX:
        raise errors.InvalidCatalogRequest(
            f"A comment is at most {COMMENT_CHARACTERS_MAX} characters long"
        )
