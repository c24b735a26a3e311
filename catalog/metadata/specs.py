"""rule: partition specs: validation, comparison, numbering, and their updates.

Partition field ids start at 1000; each belongs for ever to one pair of source column and transform.
Source: Iceberg spec, Partitioning and Partition Evolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog import datatypes, transforms
from catalog.metadata import drafts, errors, json_values, limits, model
from catalog.metadata.drafts import Draft
from catalog.metadata.json_values import Json


def check_spec(spec: Any, columns: drafts.Columns, *, what: str = "partition spec") -> Json:
    """Return spec after checking sources, transforms and names against a schema.

    columns: the schema's. Field ids may be missing. Raises BadUpdate.
    """
    checked = json_values.check_object(spec, what=what)
    seen: set[str] = set()
    for item in check_fields(checked, what=what):
        field = json_values.check_object(item, what="partition field")
        name = json_values.get_text(field, "name")
        source_id = source_id_of(field)
        transform = parse_transform(field)
        json_values.find_int(field, "field-id")
        if not name:
            raise errors.BadUpdate("Cannot use empty partition name: ")
        if name in seen:
            raise errors.BadUpdate(f"Cannot use partition name more than once: {name}")
        seen.add(name)
        if source_id in columns.by_id and columns.ids.get(name, source_id) != source_id:
            raise errors.BadUpdate(
                f"Cannot create identity partition sourced from different field in schema: {name}"
            )
        check_source(transform, source_id, columns.by_id, name=name)
    return checked


def check_fields(checked: Json, *, what: str) -> list[Any]:
    """Return the fields of a spec or sort order, whose number is bounded. Raises BadUpdate."""
    fields = json_values.get_list(checked, "fields")
    if len(fields) > limits.PARTITION_FIELDS_MAX:
        raise errors.BadUpdate(f"A {what} has at most {limits.PARTITION_FIELDS_MAX} fields")
    return fields


def source_id_of(field: Json) -> int:
    """Return the source column of a spec's or order's field; v3 may write it as a list of one."""
    if field.get("source-id") is None and field.get("source-ids") is not None:
        sources = json_values.get_numbers(field, "source-ids", limit=json_values.INT_MAX)
        if len(sources) != 1:
            raise errors.BadUpdate("Transforms of several source columns are not supported")
        return sources[0]
    return json_values.get_int(field, "source-id")


def parse_transform(field: Json) -> transforms.Transform:
    try:
        return transforms.parse(json_values.get_text(field, "transform"))
    except transforms.InvalidTransform as error:
        raise errors.BadUpdate(str(error)) from error


def check_source(
    transform: transforms.Transform,
    source_id: int,
    columns: Mapping[int, datatypes.NestedField],
    *,
    name: str,
) -> None:
    """Check that a partition field's source column exists and suits its transform."""
    if transform.name == "void":
        return  # a field that v1 dropped; its source may be gone
    source = columns.get(source_id)
    if source is None:
        raise errors.BadUpdate(
            f"Cannot find source column for partition field: {name}: {transform}({source_id})"
        )
    if not datatypes.is_primitive(source.type):
        raise errors.BadUpdate(f"Cannot partition by non-primitive source field: {source.type}")
    if not transforms.accepts(transform, source.type):
        raise errors.BadUpdate(f"Invalid source type {source.type} for transform: {transform}")
    parent = source.parent
    while parent is not None:
        around = columns[parent]
        if datatypes.name_of(around.type) != "struct":
            raise errors.BadUpdate(
                f"Invalid partition field parent: {datatypes.name_of(around.type)}"
            )
        parent = around.parent


def check_default_spec(metadata: model.TableMetadata) -> None:
    """Check that the default spec fits the current schema. Raises BadUpdate."""
    columns = datatypes.columns(metadata.current_schema())
    for field in metadata.default_spec()["fields"]:
        check_source(parse_transform(field), source_id_of(field), columns, name=field["name"])


def identity_of(spec: Json) -> tuple[tuple[int, str, str], ...]:
    """Return a hashable value that is equal for specs that partition alike."""
    return tuple([_sameness(field) for field in spec["fields"]])


def _sameness(field: Json) -> tuple[int, str, str]:
    return (source_id_of(field), str(field["transform"]).strip().lower(), field["name"])


# --- updates ------------------------------------------------------------------------------------


def apply_add_spec(draft: Draft, update: Json) -> None:
    """Add a partition spec, or reuse one that partitions alike; `-1` then refers to it."""
    schema = draft.schema_to_bind()
    if schema is None:
        raise errors.BadUpdate("Cannot add a partition spec before a schema is current")
    spec = check_spec(update.get("spec"), draft.columns_of(schema))
    identity = identity_of(spec)
    same = draft.specs.find(identity, identity_of)
    if same is not None:
        draft.last_spec_id = same
        return
    if len(draft.specs) >= limits.SPECS_MAX:
        raise errors.BadUpdate(f"A table has at most {limits.SPECS_MAX} partition specs")
    fields, draft.last_partition_id = _with_field_ids(draft, spec["fields"])
    spec_id = json_values.next_id(draft.specs.highest(default=-1), what="a partition spec")
    draft.specs.add(spec_id, {**spec, "spec-id": spec_id, "fields": fields}, identity)
    draft.last_spec_id = spec_id
    draft.touch()


def _with_field_ids(draft: Draft, fields: list[Json]) -> tuple[list[Json], int]:
    """Return the fields, each with an id, and the highest id ever assigned.

    A pair of source and transform in an older spec keeps its id; v1 numbers by position.
    """
    owners = _owners(draft)
    last = draft.last_partition_id
    numbered: list[Json] = []
    pairs: list[tuple[int, str]] = []
    for position, field in enumerate(fields):
        pair = (source_id_of(field), str(parse_transform(field)))
        field_id = field.get("field-id")
        if draft.format_version == 1:
            expected = model.PARTITION_ID_START + position
            if field_id is None:
                field_id = expected
            elif field_id != expected:
                raise errors.BadUpdate(
                    "Spec does not use sequential IDs that are required in v1:"
                    f" {field['name']} has {field_id}, not {expected}"
                )
        elif field_id is None:
            field_id = owners.ids.get(pair, last + 1)
        else:
            _check_owner(field_id, pair, owners.pairs.get(field_id, set()))
        last = max(last, field_id)
        numbered.append({**field, "field-id": field_id})
        pairs.append((pair[0], str(field["transform"]).strip().lower()))
    ids = [field["field-id"] for field in numbered]
    if len(ids) != len(set(ids)):
        raise errors.BadUpdate(f"Partition field ids are used more than once: {ids}")
    for field_id, pair in zip(ids, pairs, strict=True):
        owners.add(field_id, pair)
    return numbered, last


def _owners(draft: Draft) -> drafts.PartitionOwners:
    owners = draft.partition_owners
    if owners is None:
        owners = draft.partition_owners = drafts.PartitionOwners()
        for spec in draft.specs.values():
            for field in spec["fields"]:
                pair = (source_id_of(field), str(field["transform"]).strip().lower())
                owners.add(field["field-id"], pair)
    return owners


def _check_owner(field_id: int, pair: tuple[int, str], owners: set[tuple[int, str]]) -> None:
    """Manifests of all specs share one tuple of partition fields, so an id has one meaning."""
    if field_id < model.PARTITION_ID_START:
        raise errors.BadUpdate(
            f"Partition field ids start at {model.PARTITION_ID_START}: {field_id}"
        )
    for source_id, transform in owners:
        same_source = source_id == pair[0]
        if not same_source or not (transform == pair[1] or "void" in (transform, pair[1])):
            raise errors.BadUpdate(
                f"Partition field id {field_id} already belongs to {transform}({source_id})"
            )


def apply_set_default_spec(draft: Draft, update: Json) -> None:
    spec_id = json_values.get_int(update, "spec-id")
    if spec_id == drafts.LAST_ADDED:
        if draft.last_spec_id is None:
            raise errors.BadUpdate("Cannot set last added spec: no spec has been added")
        spec_id = draft.last_spec_id
    if spec_id == draft.default_spec_id:
        return
    if draft.specs.get(spec_id) is None:
        raise errors.BadUpdate(f"Cannot set default partition spec to unknown spec: {spec_id}")
    draft.default_spec_id = spec_id
    draft.touch()


def apply_remove_partition_specs(draft: Draft, update: Json) -> None:
    gone = set(json_values.get_numbers(update, "spec-ids", limit=json_values.INT_MAX))
    if draft.default_spec_id in gone:
        raise errors.BadUpdate("Cannot remove the default partition spec")
    if draft.specs.remove(gone):
        draft.partition_owners = None
        draft.touch()
