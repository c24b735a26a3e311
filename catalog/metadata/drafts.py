"""rule: a table's metadata during a commit: the builder that updates change in place.

A Draft exists only within one call of `apply_parts`. It holds the parts of the base by their ids,
each copied when an update first changes it, so that an update costs what it changes, not what the
table holds. It also keeps the state of this request that `-1` and the snapshot log need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from catalog import datatypes
from catalog.metadata import errors, limits, model
from catalog.metadata.json_values import Json

LAST_ADDED = -1
"""Instead of a schema, spec or order id: the one added last in the same request."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a schema by id, and their ids by full name."""

    by_id: dict[int, datatypes.NestedField]
    ids: dict[str, int]

    @classmethod
    def of(cls, schema: Json) -> Columns:
        by_id = datatypes.columns(schema)
        return cls(
            by_id=by_id, ids={column.full_name: field_id for field_id, column in by_id.items()}
        )


class Draft:
    """The metadata so far, and this request's own changes.

    Single values are plain attributes; `touch` records that something changed. moves:
    (timestamp-ms, snapshot id) for each time main moved. snapshots_removed: the snapshot log may
    have to be cut. partition_owners: of the current specs, built when an update first needs it.
    """

    def __init__(self, base: model.TableMetadata, *, now_ms: int, creating: bool) -> None:
        self.base = base
        self.now_ms = now_ms
        self.creating = creating
        self.touched = False
        self.format_version = base.format_version
        self.table_uuid = base.table_uuid
        self.location = base.location
        self.last_sequence_number = base.last_sequence_number
        self.last_column_id = base.last_column_id
        self.current_schema_id = base.current_schema_id
        self.default_spec_id = base.default_spec_id
        self.last_partition_id = base.last_partition_id
        self.default_sort_order_id = base.default_sort_order_id
        self.current_snapshot_id = base.current_snapshot_id
        self.next_row_id = base.next_row_id
        self.last_schema_id: int | None = None
        self.last_spec_id: int | None = None
        self.last_order_id: int | None = None
        self.moves: list[tuple[int, int]] = []
        self.snapshots_removed = False
        self.schemas = Numbered(base.schemas, "schema-id")
        self.specs = Numbered(base.partition_specs, "spec-id")
        self.orders = Numbered(base.sort_orders, "order-id")
        self.snapshots = SnapshotsDraft(base.snapshots)
        self.statistics = BySnapshot(base.statistics)
        self.partition_statistics = BySnapshot(base.partition_statistics)
        self._properties: dict[str, str] | None = None
        self._property_characters = 0
        self._refs: dict[str, Json] | None = None
        self._ref_names: dict[int, set[str]] | None = None
        self._keys: dict[Any, Json] | None = None
        self._columns: tuple[Json, Columns] | None = None
        self.partition_owners: PartitionOwners | None = None

    @property
    def added_ids(self) -> Collection[int]:
        """The ids of all snapshots of add-snapshot updates, later removed ones included."""
        return self.snapshots.ids_added

    def touch(self) -> None:
        """Record that the metadata differs from the base."""
        self.touched = True

    # Schemas, specs and orders.

    def schema_to_bind(self) -> Json | None:
        """Return the schema to which specs and orders are bound: the current one.

        A table that is being created may not have one yet: DuckDB sets the current schema last.
        Then it is the last one added; the finished table is checked as a whole.
        """
        current = self.schemas.get(self.current_schema_id)
        if current is None and self.creating and self.last_schema_id is not None:
            return self.schemas.get(self.last_schema_id)
        return current

    def columns_of(self, schema: Json) -> Columns:
        """Return the columns of a schema; those of the last call are cached."""
        if self._columns is None or self._columns[0] is not schema:
            self._columns = (schema, Columns.of(schema))
        return self._columns[1]

    # Properties.

    @property
    def properties(self) -> Mapping[str, str]:
        return self.base.properties if self._properties is None else self._properties

    def set_properties(self, changes: Mapping[str, str]) -> None:
        """Set properties. Raises BadUpdate for names, values or counts beyond the limits."""
        stored = self.properties
        changed = {name: value for name, value in changes.items() if stored.get(name) != value}
        if not changed:
            return
        if self._properties is None:
            self._properties = dict(stored)
            self._property_characters = characters_of(stored)
        for name, value in changed.items():
            old = self._properties.get(name)
            self._property_characters += (
                len(name) + len(value) if old is None else len(value) - len(old)
            )
        self._properties.update(changed)
        check_properties(changed, count=len(self._properties), characters=self._property_characters)
        self.touch()

    def remove_properties(self, names: list[str]) -> None:
        present = [name for name in names if name in self.properties]
        if not present:
            return
        if self._properties is None:
            self._properties = dict(self.base.properties)
            self._property_characters = characters_of(self._properties)
        for name in present:
            value = self._properties.pop(name, None)
            if value is not None:
                self._property_characters -= len(name) + len(value)
        self.touch()

    # References.

    @property
    def refs(self) -> Mapping[str, Json]:
        return self.base.refs if self._refs is None else self._refs

    def set_ref(self, name: str, ref: Json) -> None:
        """Create or move a branch or tag. Raises BadUpdate beyond the limits."""
        if self._refs is None:
            self._refs = dict(self.base.refs)
        old = self._refs.get(name)
        if old is None and len(self._refs) >= limits.REFS_MAX:
            raise errors.BadUpdate(f"A table has at most {limits.REFS_MAX} branches and tags")
        if old is None and len(name) > limits.REF_NAME_CHARACTERS_MAX:
            raise errors.BadUpdate(
                "The name of a branch or tag is at most"
                f" {limits.REF_NAME_CHARACTERS_MAX} characters long"
            )
        self._refs[name] = ref
        if self._ref_names is not None:
            if old is not None:
                self._ref_names[old["snapshot-id"]].discard(name)
            self._ref_names.setdefault(ref["snapshot-id"], set()).add(name)
        self.touch()

    def remove_ref(self, name: str) -> None:
        if name not in self.refs:
            return
        if self._refs is None:
            self._refs = dict(self.base.refs)
        ref = self._refs.pop(name)
        if self._ref_names is not None:
            self._ref_names[ref["snapshot-id"]].discard(name)
        if name == model.MAIN_BRANCH:
            self.current_snapshot_id = None
        self.touch()

    def refs_at(self, snapshot_id: int) -> list[str]:
        """Return the names of the branches and tags at a snapshot."""
        if self._ref_names is None:
            self._ref_names = {}
            for name, ref in self.refs.items():
                self._ref_names.setdefault(ref["snapshot-id"], set()).add(name)
        return list(self._ref_names.get(snapshot_id, ()))

    # Encryption keys.

    @property
    def encryption_keys(self) -> dict[Any, Json]:
        """The keys by id. For reading; `add_key` and `remove_key` change them."""
        if self._keys is None:
            self._keys = {}
            for key in self.base.encryption_keys:
                self._keys.setdefault(key.get("key-id"), key)
        return self._keys

    def add_key(self, key_id: str, key: Json) -> None:
        keys = self.encryption_keys
        if len(keys) >= limits.ENCRYPTION_KEYS_MAX:
            raise errors.BadUpdate(
                f"A table has at most {limits.ENCRYPTION_KEYS_MAX} encryption keys"
            )
        keys[key_id] = key
        self.touch()

    def remove_key(self, key_id: str) -> None:
        if self.encryption_keys.pop(key_id, None) is not None:
            self.touch()

    def finished(self, **fields: Any) -> model.TableMetadata:
        """Return the metadata with these fields set."""
        if self._properties is not None:
            fields["properties"] = self._properties
        if self._refs is not None:
            fields["refs"] = self._refs
        if self._keys is not None:
            fields["encryption_keys"] = tuple(self._keys.values())
        fields.setdefault("table_uuid", self.table_uuid)
        fields.setdefault("location", self.location)
        return msgspec.structs.replace(
            self.base,
            format_version=self.format_version,
            last_sequence_number=self.last_sequence_number,
            last_column_id=self.last_column_id,
            current_schema_id=self.current_schema_id,
            schemas=self.schemas.finished(),
            default_spec_id=self.default_spec_id,
            partition_specs=self.specs.finished(),
            last_partition_id=self.last_partition_id,
            default_sort_order_id=self.default_sort_order_id,
            sort_orders=self.orders.finished(),
            current_snapshot_id=self.current_snapshot_id,
            next_row_id=self.next_row_id,
            statistics=self.statistics.finished(),
            partition_statistics=self.partition_statistics.finished(),
            snapshots=self.snapshots.finished(),
            **fields,
        )


class Numbered:
    """Schemas, specs or orders by id, in their order, and by their identity."""

    __slots__ = ("_base", "_changed", "_highest", "_ids", "_items", "_name")

    def __init__(self, items: tuple[Json, ...], name: str) -> None:
        self._base = items
        self._name = name
        self._items: dict[Any, Json] | None = None
        self._ids: dict[Any, Any] | None = None
        self._changed = False
        self._highest: int | None = None

    def __len__(self) -> int:
        return len(self._base) if self._items is None else len(self._items)

    def get(self, number: int) -> Json | None:
        if self._items is None:
            return next((item for item in self._base if item.get(self._name) == number), None)
        return self._items.get(number)

    def values(self) -> list[Json]:
        return list(self._own().values())

    def find(self, identity: Any, identity_of: Any) -> int | None:
        """Return the id of the first item with this identity.

        identity_of: returns a value that is equal for equivalent items; always the same function.
        """
        if self._ids is None:
            self._ids = {}
            for number, item in self._own().items():
                self._ids.setdefault(identity_of(item), number)
        number = self._ids.get(identity)
        return None if number is None else int(number)

    def highest(self, *, default: int) -> int:
        """Return the highest id in use."""
        if self._highest is None:
            self._highest = max(
                (number for number in self._own() if isinstance(number, int)), default=default
            )
        return self._highest

    def add(self, number: int, item: Json, identity: Any) -> None:
        """Add an item under a free id. identity: as for `find`."""
        self._own()[number] = item
        if self._highest is not None:
            self._highest = max(self._highest, number)
        if self._ids is not None:
            self._ids.setdefault(identity, number)
        self._changed = True

    def remove(self, numbers: set[int]) -> bool:
        """Remove items; return whether there were any."""
        items = self._own()
        present = [number for number in numbers if number in items]
        for number in present:
            del items[number]
        if present:
            self._ids = None
            self._highest = None
            self._changed = True
        return bool(present)

    def finished(self) -> tuple[Json, ...]:
        if not self._changed or self._items is None:
            return self._base
        return tuple(self._items.values())

    def _own(self) -> dict[Any, Json]:
        if self._items is None:
            self._items = {}
            for item in self._base:
                self._items.setdefault(item.get(self._name), item)
        return self._items


class PartitionOwners:
    """Source column and transform by partition field id, in any spec, and the id of each pair."""

    def __init__(self) -> None:
        self.pairs: dict[int, set[tuple[int, str]]] = {}
        self.ids: dict[tuple[int, str], int] = {}

    def add(self, field_id: int, pair: tuple[int, str]) -> None:
        self.pairs.setdefault(field_id, set()).add(pair)
        self.ids[pair] = field_id


class SnapshotsDraft:
    """The base's snapshots without removed ones and with added ones; the text is joined once."""

    __slots__ = ("_base", "_removed", "added", "ids_added")

    def __init__(self, base: model.Snapshots) -> None:
        self._base = base
        self._removed: set[int] = set()
        self.added: dict[int, bytes] = {}
        self.ids_added: set[int] = set()

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self.added or (
            snapshot_id in self._base and snapshot_id not in self._removed
        )

    def add(self, snapshot_id: int, text: bytes) -> None:
        self.added[snapshot_id] = text
        self.ids_added.add(snapshot_id)

    def remove(self, snapshot_id: int) -> None:
        if self.added.pop(snapshot_id, None) is None:
            self._removed.add(snapshot_id)

    def finished(self) -> model.Snapshots:
        kept = self._base.without(self._removed) if self._removed else self._base
        return kept.extended(self.added) if self.added else kept


class BySnapshot:
    """Statistics files by their snapshot, in order."""

    __slots__ = ("_base", "_changed", "_files")

    def __init__(self, files: tuple[Json, ...]) -> None:
        self._base = files
        self._files: dict[Any, tuple[Json, ...]] | None = None
        self._changed = False

    def put(self, file: Json) -> bool:
        """Replace the file of its snapshot; return whether that changes anything."""
        files = self._own()
        snapshot_id = file["snapshot-id"]
        old = files.pop(snapshot_id, None)
        if old is not None and file in old:
            files[snapshot_id] = old
            return False
        if len(files) >= limits.STATISTICS_MAX:
            raise errors.BadUpdate(f"A table has at most {limits.STATISTICS_MAX} statistics files")
        files[snapshot_id] = (file,)
        self._changed = True
        return True

    def remove(self, snapshot_id: int) -> bool:
        """Remove a snapshot's files; return whether there were any."""
        if not self._base and self._files is None:
            return False
        present = self._own().pop(snapshot_id, None) is not None
        self._changed = self._changed or present
        return present

    def finished(self) -> tuple[Json, ...]:
        if not self._changed or self._files is None:
            return self._base
        return tuple(file for files in self._files.values() for file in files)

    def _own(self) -> dict[Any, tuple[Json, ...]]:
        if self._files is None:
            self._files = {}
            for file in self._base:
                snapshot_id = file.get("snapshot-id")
                self._files[snapshot_id] = (*self._files.get(snapshot_id, ()), file)
        return self._files


def characters_of(properties: Mapping[str, str]) -> int:
    return sum(map(len, properties.keys())) + sum(map(len, properties.values()))


def check_properties(changes: Mapping[str, str], *, count: int, characters: int) -> None:
    """Check the limits of properties. count, characters: of all properties together."""
    if count > limits.PROPERTIES_MAX:
        raise errors.BadUpdate(f"At most {limits.PROPERTIES_MAX} properties can be set")
    if characters > limits.PROPERTY_CHARACTERS_MAX:
        raise errors.BadUpdate(
            f"Properties are at most {limits.PROPERTY_CHARACTERS_MAX} characters long in all"
        )
    longest = max(map(len, changes), default=0)
    if longest > limits.PROPERTY_NAME_CHARACTERS_MAX:
        raise errors.BadUpdate(
            f"A property's name is at most {limits.PROPERTY_NAME_CHARACTERS_MAX} characters long,"
            f" not {longest}"
        )
