"""rule: partition specs: bound to a schema, compared, numbered; the updates that touch them.

Partition field ids start at 1000 and belong for ever to one pair of source column and transform.
Source: Iceberg spec, Partitioning and Partition Evolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog import datatypes, transforms
from catalog.metadata import drafts, errors, model, reading
from catalog.metadata.drafts import Draft
from catalog.metadata.reading import Json


def check_spec(spec: Any, schema: Json, *, what: str = "partition spec") -> Json:
    """Return spec, checked to be one the schema can have: sources, transforms, distinct names.

    Field ids may be missing. Raises BadUpdate.
    """
    checked = reading.check_object(spec, what=what)
    columns = datatypes.columns(schema)
    names = {column.full_name: field_id for field_id, column in columns.items()}
    seen: set[str] = set()
    for given in reading.get_list(checked, "fields"):
        field = reading.check_object(given, what="partition field")
        name = reading.get_text(field, "name")
        source_id = source_id_of(field)
        transform = parse_transform(field)
        reading.find_int(field, "field-id")
        if not name:
            raise errors.BadUpdate("Cannot use empty partition name: ")
        if name in seen:
            raise errors.BadUpdate(f"Cannot use partition name more than once: {name}")
        seen.add(name)
        if source_id in columns and names.get(name, source_id) != source_id:
            raise errors.BadUpdate(
                f"Cannot create identity partition sourced from different field in schema: {name}"
            )
        check_source(transform, source_id, columns, name=name)
    return checked


def source_id_of(field: Json) -> int:
    """Return the source column of a spec's or order's field; v3 may write it as a list of one."""
    if field.get("source-id") is None and field.get("source-ids") is not None:
        sources = reading.get_numbers(field, "source-ids", limit=reading.INT_MAX)
        if len(sources) != 1:
            raise errors.BadUpdate("Transforms of several source columns are not supported")
        return sources[0]
    return reading.get_int(field, "source-id")


def parse_transform(field: Json) -> transforms.Transform:
    try:
        return transforms.parse(reading.get_text(field, "transform"))
    except transforms.InvalidTransform as error:
        raise errors.BadUpdate(str(error)) from error


def check_source(
    transform: transforms.Transform,
    source_id: int,
    columns: Mapping[int, datatypes.Column],
    *,
    name: str,
) -> None:
    """Check that a partition field's source column exists and suits its transform."""
    if transform.name == "void":
        return  # what is left of a field that v1 dropped; its source may be gone
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
        if datatypes.kind_of(around.type) != "struct":
            raise errors.BadUpdate(
                f"Invalid partition field parent: {datatypes.kind_of(around.type)}"
            )
        parent = around.parent


def check_default_spec(metadata: model.TableMetadata) -> None:
    """Check that the default spec fits the current schema. Raises BadUpdate."""
    columns = datatypes.columns(metadata.current_schema())
    for field in metadata.default_spec()["fields"]:
        check_source(parse_transform(field), source_id_of(field), columns, name=field["name"])


def compatible(one: Json, other: Json) -> bool:
    """Say whether two checked specs partition alike: sources, transforms and names in order."""
    return [_sameness(field) for field in one["fields"]] == [
        _sameness(field) for field in other["fields"]
    ]


def _sameness(field: Json) -> tuple[int, str, str]:
    return (source_id_of(field), str(field["transform"]).strip().lower(), field["name"])


# --- updates ------------------------------------------------------------------------------------


def apply_add_spec(draft: Draft, update: Json) -> Draft:
    """Add a partition spec, or find the one that partitions alike; `-1` then means it."""
    metadata = draft.metadata
    schema = draft.schema_to_bind()
    if schema is None:
        raise errors.BadUpdate("Cannot add a partition spec before a schema is current")
    spec = check_spec(update.get("spec"), schema)
    for known in metadata.partition_specs:
        if compatible(known, spec):
            return draft.noting(last_spec_id=known["spec-id"])
    fields, last_partition_id = _with_field_ids(metadata, spec["fields"])
    spec_id = max((known["spec-id"] for known in metadata.partition_specs), default=-1) + 1
    added = {**spec, "spec-id": spec_id, "fields": fields}
    return draft.changed(
        partition_specs=(*metadata.partition_specs, added), last_partition_id=last_partition_id
    ).noting(last_spec_id=spec_id)


def _with_field_ids(metadata: model.TableMetadata, fields: list[Json]) -> tuple[list[Json], int]:
    """Return the fields, each with an id, and the highest id ever given.

    A pair of source and transform that an older spec has keeps its id; v1 numbers by place.
    """
    owners = _owners(metadata)
    known = {pair: field_id for field_id, pairs in owners.items() for pair in pairs}
    last = metadata.last_partition_id
    numbered: list[Json] = []
    for position, field in enumerate(fields):
        pair = (source_id_of(field), str(parse_transform(field)))
        field_id = field.get("field-id")
        if metadata.format_version == 1:
            expected = model.PARTITION_ID_START + position
            if field_id is None:
                field_id = expected
            elif field_id != expected:
                raise errors.BadUpdate(
                    "Spec does not use sequential IDs that are required in v1:"
                    f" {field['name']} has {field_id}, not {expected}"
                )
        elif field_id is None:
            field_id = known.get(pair, last + 1)
        else:
            _check_owner(field_id, pair, owners.get(field_id, set()))
        last = max(last, field_id)
        numbered.append({**field, "field-id": field_id})
    ids = [field["field-id"] for field in numbered]
    if len(ids) != len(set(ids)):
        raise errors.BadUpdate(f"Partition field ids are used more than once: {ids}")
    return numbered, last


def _owners(metadata: model.TableMetadata) -> dict[int, set[tuple[int, str]]]:
    owners: dict[int, set[tuple[int, str]]] = {}
    for spec in metadata.partition_specs:
        for field in spec["fields"]:
            pair = (source_id_of(field), str(field["transform"]).strip().lower())
            owners.setdefault(field["field-id"], set()).add(pair)
    return owners


def _check_owner(field_id: int, pair: tuple[int, str], owners: set[tuple[int, str]]) -> None:
    """Manifests of all specs share one tuple of partition fields, so an id means one thing."""
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


def apply_set_default_spec(draft: Draft, update: Json) -> Draft:
    spec_id = reading.get_int(update, "spec-id")
    if spec_id == drafts.LAST_ADDED:
        if draft.last_spec_id is None:
            raise errors.BadUpdate("Cannot set last added spec: no spec has been added")
        spec_id = draft.last_spec_id
    if spec_id == draft.metadata.default_spec_id:
        return draft
    if draft.metadata.spec(spec_id) is None:
        raise errors.BadUpdate(f"Cannot set default partition spec to unknown spec: {spec_id}")
    return draft.changed(default_spec_id=spec_id)


def apply_remove_partition_specs(draft: Draft, update: Json) -> Draft:
    gone = set(reading.get_numbers(update, "spec-ids", limit=reading.INT_MAX))
    if draft.metadata.default_spec_id in gone:
        raise errors.BadUpdate("Cannot remove the default partition spec")
    known = draft.metadata.partition_specs
    kept = tuple(spec for spec in known if spec["spec-id"] not in gone)
    return draft if len(kept) == len(known) else draft.changed(partition_specs=kept)
