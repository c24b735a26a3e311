"""rule: a change of ALTER TABLE as updates of the Iceberg metadata.

Columns are identified by their ids, which never change and are never used again, so files that were
written before still give the right values. Types change only where Iceberg can read the old files:
wider integers, floats and decimals; and lengths of VARCHAR and BINARY, which only Boathouse knows.
A column that the partition spec or the clustering key uses is not dropped.
Source: Iceberg spec, Schema Evolution and Default Values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog import datatypes
from catalog.metadata import model, specs
from sql import column_defaults, errors, intervals, keys, offsets, tabletypes
from sql.dialect import clustering, names, operations, sqltypes

Json: TypeAlias = dict[str, Any]

FORMAT_VERSION: Final = "format-version"
DEFAULTS_FORMAT_VERSION: Final = 3
"""The first format version in which old rows have a column's default."""

LAST_ADDED: Final = -1
WIDENED: Final = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """What a change needs beside its statement.

    defaults: by the column's position in the statement. is_empty: no snapshot of the table is
    reachable by a branch or tag. foreign: the referenced columns of foreign keys that have none in
    the statement, by the key's position.
    """

    is_empty: bool
    defaults: Mapping[int, column_defaults.Default]


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaPlan:
    """The updates of one commit, empty if nothing changes. checks_nulls: columns without NULLs.

    replaces_lists: the updates replace a property that lists types, defaults or keys of several
    columns, so they are right only for the metadata on which they were planned. filled: the ids of
    new columns whose default the rows get in new files.
    """

    updates: tuple[Json, ...] = ()
    checks_nulls: tuple[str, ...] = ()
    replaces_lists: bool = False
    filled: tuple[int, ...] = ()


class _Draft:
    """A table's schema and properties while they change. Mutable."""

    def __init__(self, metadata: model.TableMetadata) -> None:
        self.metadata = metadata
        schema = metadata.current_schema()
        self.fields: list[Json] = [dict(field) for field in schema["fields"]]
        self.identifiers: list[int] = list(schema.get("identifier-field-ids") or ())
        self.declared = tabletypes.declared_types(metadata.properties)
        self.quoted = set(tabletypes.quoted_ids(metadata.properties))
        self.defaults = column_defaults.read(metadata.properties)
        self.keys = list(keys.read(metadata.properties, schema))
        of_table = offsets.companions(self.fields, metadata.properties)
        self.companion_ids = {column: field["id"] for column, field in of_table.items()}
        self.last_id = metadata.last_column_id
        self.more: list[Json] = []
        self.checks_nulls: list[str] = []
        self.filled: list[int] = []

    @property
    def companions(self) -> dict[int, Json]:
        """The columns of offsets, by the ids of their columns."""
        by_id = {field["id"]: field for field in self.fields} if self.companion_ids else {}
        return {column: by_id[companion] for column, companion in self.companion_ids.items()}

    @property
    def columns(self) -> list[Json]:
        """The columns in SQL."""
        hidden = set(self.companion_ids.values())
        return [field for field in self.fields if field["id"] not in hidden]

    def namesake(self, ident: names.Ident) -> Json | None:
        """Return the column that a new name would collide with, for readers that ignore case."""
        columns = self.columns
        positions = names.find(ident, [field["name"] for field in columns])
        return columns[positions[0]] if positions else None

    def find(self, ident: names.Ident) -> Json | None:
        columns = self.columns
        stored = [field["name"] for field in columns]
        name = names.find_exactly(ident, stored)
        return None if name is None else columns[stored.index(name)]

    def get(self, ident: names.Ident) -> Json:
        field = self.find(ident)
        if field is None:
            raise errors.invalid_identifier(ident.folded)
        return field

    def name(self, field: Json, ident: names.Ident) -> None:
        """Give a column its name, and remember that it stands in double quotes."""
        field["name"] = ident.stored
        self.quoted.discard(field["id"])
        if ident.quoted and names.PLAIN.fullmatch(ident.stored):
            self.quoted.add(field["id"])
        companions = self.companions
        for column, companion in companions.items():
            if column == field["id"] or companion["name"].upper() == field["name"].upper():
                self._name_companion(column, companion, field)

    def _name_companion(self, column: int, companion: Json, field: Json) -> None:
        """Give a column of offsets the name that follows its column's, or the next free one."""
        names_by_id = {each["id"]: each["name"] for each in [*self.fields, field]}
        del names_by_id[companion["id"]]
        name = names_by_id[column]
        taken = offsets.folded(names_by_id.values())
        companion["name"] = offsets.companion_name(name, taken)
        companion["doc"] = offsets.doc(name)

    def new_id(self) -> int:
        """Return an id that no field has had."""
        self.last_id += 1
        return self.last_id

    def finished(self) -> SchemaPlan:
        metadata, schema = self.metadata, self.metadata.current_schema()
        updates: list[Json] = []
        changed = {**schema, "fields": self.fields}
        primary = keys.identifiers(self.keys, self.fields)
        if primary or self.identifiers:
            changed["identifier-field-ids"] = primary
        before = {**schema, "fields": list(schema["fields"])}
        if changed != before:
            changed.pop("schema-id", None)
            updates.append({"action": "add-schema", "schema": changed})
            updates.append({"action": "set-current-schema", "schema-id": LAST_ADDED})
        properties = {
            tabletypes.DECLARED: tabletypes.encoded_types(self.declared),
            column_defaults.PROPERTY: column_defaults.encode(self.defaults),
            keys.PROPERTY: keys.encode(self.keys),
            tabletypes.QUOTED: tabletypes.quoted_text(self.quoted),
        }
        listing = _property_updates(properties, metadata.properties)
        return SchemaPlan(
            updates=(*updates, *listing, *self.more),
            checks_nulls=tuple(self.checks_nulls),
            replaces_lists=bool(listing),
            filled=tuple(self.filled),
        )


def plan(
    metadata: model.TableMetadata, change: operations.SchemaChange, resolved: Resolved
) -> SchemaPlan:
    """Return the updates of a change; raises SqlError if the table cannot have it."""
    draft = _Draft(metadata)
    match change:
        case operations.AddColumns():
            _add_columns(draft, change, resolved)
        case operations.DropColumns():
            _drop_columns(draft, change)
        case operations.RenameColumn():
            _rename_column(draft, change)
        case operations.ChangeColumns():
            for position, column_change in enumerate(change.changes):
                _change_column(draft, column_change, resolved.defaults.get(position))
        case operations.AddKey():
            _add_key(draft, change.key)
        case operations.DropKey():
            _drop_key(draft, change)
        case operations.ClusterBy():
            _cluster_by(draft, change.keys)
        case operations.SetTableProperties():
            _set_properties(draft, dict(change.properties))
    return draft.finished()


def requirements(metadata: model.TableMetadata, planned: SchemaPlan) -> list[Json]:
    """Return the requirements under which a plan is right: the table is as it was read."""
    main = metadata.refs.get(model.MAIN_BRANCH)
    required: list[Json] = [
        {"type": "assert-table-uuid", "uuid": metadata.table_uuid},
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id},
        {
            "type": "assert-last-assigned-field-id",
            "last-assigned-field-id": metadata.last_column_id,
        },
        {"type": "assert-default-spec-id", "default-spec-id": metadata.default_spec_id},
        {
            "type": "assert-default-sort-order-id",
            "default-sort-order-id": metadata.default_sort_order_id,
        },
    ]
    if planned.checks_nulls or any(update["action"] == "add-schema" for update in planned.updates):
        snapshot_id = None if main is None else main["snapshot-id"]
        required.append(
            {"type": "assert-ref-snapshot-id", "ref": model.MAIN_BRANCH, "snapshot-id": snapshot_id}
        )
    return required


# The changes


def _add_columns(draft: _Draft, change: operations.AddColumns, resolved: Resolved) -> None:
    added: list[names.Ident] = []
    metadata = draft.metadata
    packs = tabletypes.packs_variants(metadata.properties, draft.fields, metadata.format_version)
    for position, column in enumerate(change.columns):
        if draft.namesake(column.name) is not None:
            if change.if_not_exists:
                continue
            raise _already_exists(column.name)
        assert column.type is not None, "the grammar requires a type"
        added.append(column.name)
        field_id = draft.new_id()
        field: Json = {
            "id": field_id,
            "name": column.name.stored,
            "required": column.required,
            "type": tabletypes.stored_form(
                tabletypes.new_column_type(column.type, packs=packs), draft.new_id
            ),
        }
        if column.comment:
            field["doc"] = column.comment
        default = resolved.defaults.get(position)
        _check_old_rows(column, default, resolved)
        if default is not None and default.constant is not None:
            field["write-default"] = default.constant
            if draft.metadata.format_version >= DEFAULTS_FORMAT_VERSION:
                field["initial-default"] = default.constant
            elif not resolved.is_empty and not default.is_null:
                draft.filled.append(field_id)
        elif default is not None and not default.is_null:
            draft.defaults[field_id] = default
        declared = tabletypes.declared_text(column.type)
        if declared is not None:
            draft.declared[field_id] = declared
        draft.name(field, column.name)
        draft.fields.append(field)
    for key in change.keys:
        if all(ident in added for ident in key.columns):
            _add_key(draft, key)


def _check_old_rows(
    column: operations.ColumnDefinition,
    default: column_defaults.Default | None,
    resolved: Resolved,
) -> None:
    """Raise SqlError if the rows that the table has cannot have a value of a new column."""
    has_value = default is not None and not default.is_null
    shown = column.name.folded
    if resolved.is_empty:
        return
    if has_value and default is not None and default.constant is None:
        raise errors.SqlError(
            "002262",
            "22000",
            f"SQL compilation error:\nCannot add column '{shown}' with non-constant default to a"
            " non-empty table.",
            phase="COMPILATION",
        )
    if column.required and not has_value:
        raise errors.SqlError(
            "002074",
            "22000",
            f"SQL compilation error:\nNon-nullable column '{shown}' cannot be added to a non-empty"
            " table unless it has a non-null default value.",
            phase="COMPILATION",
        )


def _drop_columns(draft: _Draft, change: operations.DropColumns) -> None:
    partitioned = {specs.source_id_of(dict(f)) for f in draft.metadata.default_spec()["fields"]}
    sorted_by = {specs.source_id_of(dict(f)) for f in draft.metadata.default_sort_order()["fields"]}
    for ident in change.columns:
        field = draft.find(ident)
        if field is None:
            if change.if_exists:
                continue
            raise errors.invalid_identifier(ident.folded)
        field_ids = {field["id"], *_nested_ids(field)}
        companion = draft.companions.get(field["id"])
        if companion is not None:
            field_ids.add(companion["id"])
        if field_ids & partitioned:
            raise _cannot_drop(ident, "the table is partitioned by it")
        if field_ids & sorted_by:
            raise _cannot_drop(ident, "it is part of the clustering key: DROP CLUSTERING KEY first")
        if any(field["id"] in key.columns for key in draft.keys):
            raise _cannot_drop(ident, "it is part of a key: drop the key first")
        draft.fields.remove(field)
        if companion is None:
            draft.declared.pop(field["id"], None)
        else:  # time travel still reads both columns, which need their properties
            draft.fields.remove(companion)
            del draft.companion_ids[field["id"]]
        draft.defaults.pop(field["id"], None)
        draft.quoted.discard(field["id"])
    if not draft.columns:
        raise _cannot_drop(change.columns[-1], "it is the table's only column")


def _nested_ids(field: Json) -> set[int]:
    schema = {"type": "struct", "fields": [field]}
    return set(datatypes.columns(schema))


def _rename_column(draft: _Draft, change: operations.RenameColumn) -> None:
    field = draft.get(change.column)
    standing = draft.namesake(change.to)
    if standing is not None and standing is not field:
        raise _already_exists(change.to)
    draft.name(field, change.to)


def _change_column(
    draft: _Draft,
    change: operations.ColumnChange,
    default: column_defaults.Default | None,
) -> None:
    field = draft.get(change.column)
    if change.type is not None:
        _change_type(draft, field, change.column, change.type)
    if change.required is not None and change.required != field["required"]:
        if change.required:
            draft.checks_nulls.append(field["name"])
        elif any(key.type == "primary" and field["id"] in key.columns for key in draft.keys):
            raise errors.unsupported(
                f"DROP NOT NULL of {change.column.folded}, which is part of the primary key"
            )
        field["required"] = change.required
    if change.comment is not None:
        field.pop("doc", None)
        if change.comment:
            field["doc"] = change.comment
    if change.default is not None:
        field.pop("write-default", None)
        draft.defaults.pop(field["id"], None)
        if default is not None and default.constant is not None:
            field["write-default"] = default.constant
        elif default is not None and not default.is_null:
            draft.defaults[field["id"]] = default


def _change_type(draft: _Draft, field: Json, ident: names.Ident, wanted: sqltypes.SqlType) -> None:
    own = tabletypes.sql_type(field["type"], draft.declared.get(field["id"]))
    # Digits that a declaration names cut a value of more; those of a bare type refuse it.
    if sqltypes.shown(own) == sqltypes.shown(wanted) and own.digits == wanted.digits:
        return
    if own.structure is not None or wanted.structure is not None:
        raise errors.unsupported(
            f"ALTER COLUMN from {sqltypes.shown(own)} to {sqltypes.shown(wanted)}"
        )
    new_type = tabletypes.iceberg_type(wanted)
    fits = own.name == wanted.name and (
        field["type"] == new_type or _is_wider(field["type"], new_type)
    )
    if own.name in ("text", "binary") and wanted.length is not None:
        fits = fits and own.length is not None and wanted.length >= own.length
        fits = fits or own == wanted
    if own.name in intervals.NAMES:
        fits = False
    if own.name in sqltypes.CLOCKS:
        fits = fits and wanted.scale >= own.scale
    if not fits:
        raise errors.SqlError(
            "002108",
            "22000",
            f"SQL compilation error:\ncannot change column {ident.folded} from type"
            f" {sqltypes.shown(own)} to {sqltypes.shown(wanted)}",
            phase="COMPILATION",
        )
    field["type"] = new_type
    draft.declared.pop(field["id"], None)
    declared = tabletypes.declared_text(wanted)
    if declared is not None:
        draft.declared[field["id"]] = declared


def _is_wider(old: Any, new: str) -> bool:
    if not isinstance(old, str):
        return False
    if datatypes.name_of(old) == datatypes.name_of(new) == "decimal":
        (precision, scale), (wider, new_scale) = (
            datatypes.decimal_of(old),
            datatypes.decimal_of(new),
        )
        return wider >= precision and scale == new_scale
    return (datatypes.name_of(old), new) in WIDENED


def _add_key(draft: _Draft, key: operations.KeyDefinition) -> None:
    columns = [draft.get(ident) for ident in key.columns]
    if key.type == "primary":
        if any(other.type == "primary" for other in draft.keys):
            raise errors.already_exists("Primary key", names.dotted(key.columns))
        for field in columns:
            if not field["required"]:
                field["required"] = True
                draft.checks_nulls.append(field["name"])
    if key.name is not None and any(other.name == key.name.stored for other in draft.keys):
        raise errors.already_exists("Constraint", key.name.folded)
    draft.keys.append(keys.of_definition(key, tuple(field["id"] for field in columns)))


def _drop_key(draft: _Draft, change: operations.DropKey) -> None:
    ids = tuple(draft.get(ident)["id"] for ident in change.columns)
    for key in draft.keys:
        if change.name is not None:
            is_meant = names.find_exactly(change.name, [key.name or ""]) is not None
        else:
            is_meant = key.type == change.key_type and (not ids or key.columns == ids)
        if is_meant:
            draft.keys.remove(key)
            return
    shown = change.name.folded if change.name else f"{change.key_type.upper()} KEY"
    raise errors.does_not_exist("Constraint", shown)


def _cluster_by(draft: _Draft, listed: Sequence[operations.ClusterKey]) -> None:
    order_fields = clustering.sort_fields(
        (transform, draft.get(ident)) for transform, ident in listed
    )
    order = {"order-id": 1 if order_fields else 0, "fields": order_fields}
    draft.more.append({"action": "add-sort-order", "sort-order": order})
    draft.more.append({"action": "set-default-sort-order", "sort-order-id": LAST_ADDED})


def _set_properties(draft: _Draft, changes: dict[str, str | None]) -> None:
    version = changes.pop(FORMAT_VERSION, None)
    if version is not None:
        draft.more.append({"action": "upgrade-format-version", "format-version": int(version)})
    draft.more += _property_updates(changes, draft.metadata.properties)


def _property_updates(changes: Mapping[str, str | None], before: Mapping[str, str]) -> list[Json]:
    assigned = {
        name: value
        for name, value in changes.items()
        if value is not None and before.get(name) != value
    }
    removed = [name for name, value in changes.items() if value is None and name in before]
    updates: list[Json] = []
    if assigned:
        updates.append({"action": "set-properties", "updates": assigned})
    if removed:
        updates.append({"action": "remove-properties", "removals": removed})
    return updates


def _already_exists(ident: names.Ident) -> errors.SqlError:
    return errors.SqlError(
        "001430",
        "42601",
        f"SQL compilation error:\ncolumn '{ident.folded}' already exists",
        phase="COMPILATION",
    )


def _cannot_drop(ident: names.Ident, reason: str) -> errors.SqlError:
    return errors.SqlError(
        "002262",
        "22000",
        f"SQL compilation error:\ncannot drop column '{ident.folded}': {reason}.",
        phase="COMPILATION",
    )
