"""rule: view metadata, format version 1: a value, its updates and its requirement.

A view is a list of versions, each with one SQL text per dialect; identical versions share an id.
Versions beyond the history size are removed, except the current one.
Source: Iceberg view spec; Iceberg REST specification, ViewUpdate and ViewRequirement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from catalog.metadata import (
    drafts,
    errors,
    json_values,
    limits,
    model,
    properties,
    requirements,
    schemas,
)
from catalog.metadata.json_values import Json

VIEW_FORMAT_VERSION = 1


class ViewMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a view's metadata file. extra: top-level fields this release does not know."""

    format_version: int = VIEW_FORMAT_VERSION
    view_uuid: str | None = None
    location: str = ""
    current_version_id: int = -1
    versions: tuple[Json, ...] = ()
    version_log: tuple[Json, ...] = ()
    schemas: tuple[Json, ...] = ()
    properties: dict[str, str] = {}
    extra: dict[str, msgspec.Raw] = {}

    def version(self, version_id: int) -> Json | None:
        return next((one for one in self.versions if one["version-id"] == version_id), None)

    def current_version(self) -> Json:
        version = self.version(self.current_version_id)
        if version is None:
            raise errors.InvalidMetadata(
                f"Cannot find current version {self.current_version_id} in view versions"
            )
        return version

    def schema(self, schema_id: int) -> Json | None:
        return next((one for one in self.schemas if one["schema-id"] == schema_id), None)

    def current_schema(self) -> Json:
        schema_id = self.current_version()["schema-id"]
        schema = self.schema(schema_id)
        if schema is None:
            raise errors.InvalidMetadata(f"Cannot find current schema with id {schema_id}")
        return schema


class _File(msgspec.Struct, rename="kebab", kw_only=True):
    format_version: int
    view_uuid: str
    location: str
    current_version_id: int
    versions: list[dict[str, Any]]
    version_log: list[dict[str, Any]]
    schemas: list[dict[str, Any]]
    properties: dict[str, str] | None = None


_decode_file = msgspec.json.Decoder(_File).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(_File))


def decode(data: bytes) -> ViewMetadata:
    """Return the view metadata in a metadata.json. Raises InvalidMetadata."""
    try:
        file = _decode_file(data)
        raw = _decode_fields(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise errors.InvalidMetadata(f"Cannot parse view metadata: {error}") from error
    if file.format_version != VIEW_FORMAT_VERSION:
        raise errors.InvalidMetadata(f"Unsupported format version: {file.format_version}")
    view = ViewMetadata(
        view_uuid=file.view_uuid,
        location=file.location,
        current_version_id=file.current_version_id,
        versions=tuple(file.versions),
        version_log=tuple(file.version_log),
        schemas=tuple(file.schemas),
        properties=file.properties or {},
        extra={name: value.copy() for name, value in raw.items() if name not in _NAMES},
    )
    try:
        for version in view.versions:
            _check_version(version)
        for schema in view.schemas:
            json_values.get_int(schemas.check_shape(schema), "schema-id")
    except errors.BadUpdate as error:
        raise errors.InvalidMetadata(str(error)) from error
    view.current_schema()
    return view


def encode(view: ViewMetadata) -> bytes:
    """Return metadata.json's bytes."""
    fields = {
        "view-uuid": view.view_uuid,
        "format-version": view.format_version,
        "location": view.location,
        "schemas": view.schemas,
        "current-version-id": view.current_version_id,
        "versions": view.versions,
        "version-log": view.version_log,
        "properties": view.properties,
    }
    return model.encode_json({**fields, **view.extra})


def new_view(
    *,
    schema: Any,
    view_version: Any,
    location: str,
    properties: Mapping[str, str] | None = None,
    view_uuid: str,
    now_ms: int,
) -> ViewMetadata:
    """Return the metadata of a new view; the version's schema-id becomes the schema's own.

    now_ms: Unix milliseconds. Raises BadUpdate.
    """
    version = {**json_values.check_object(view_version, what="view version"), "schema-id": -1}
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": view_uuid},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": dict(properties or {})},
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": drafts.LAST_ADDED},
    ]
    return apply_view_updates(None, updates, now_ms=now_ms)


def check_view_requirements(base: ViewMetadata, view_requirements: Sequence[Json]) -> None:
    """Check every requirement against the view. Raises RequirementFailed or BadRequirement."""
    if len(view_requirements) > limits.REQUIREMENTS_MAX:
        raise errors.BadRequirement(
            f"A replacement has at most {limits.REQUIREMENTS_MAX} requirements"
        )
    for requirement in view_requirements:
        try:
            checked = json_values.check_object(requirement, what="requirement")
            name = json_values.get_text(checked, "type").lower()
            if name == requirements.ASSERT_CREATE:
                raise errors.RequirementFailed("Requirement failed: view already exists")
            if name != "assert-view-uuid":
                raise errors.BadRequirement(f"Cannot check requirement {name} of a view")
            uuid = json_values.get_text(checked, "uuid")
        except errors.BadUpdate as error:
            raise errors.BadRequirement(str(error)) from error
        if uuid.lower() != (base.view_uuid or "").lower():
            raise errors.RequirementFailed(
                f"Requirement failed: view UUID does not match: expected {base.view_uuid} != {uuid}"
            )


# --- updates ------------------------------------------------------------------------------------


class ViewDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A view while updates change it. entry: the log entry of this request, if there is one."""

    view: ViewMetadata
    now_ms: int
    last_schema_id: int | None = None
    last_version_id: int | None = None
    added_version_ids: frozenset[int] = frozenset()
    entry: Json | None = None

    def changed(self, **fields: Any) -> ViewDraft:
        return msgspec.structs.replace(self, view=msgspec.structs.replace(self.view, **fields))

    def noting(self, **fields: Any) -> ViewDraft:
        return msgspec.structs.replace(self, **fields)


ViewUpdate: TypeAlias = Callable[[ViewDraft, Json], ViewDraft]


def apply_view_updates(
    base: ViewMetadata | None, updates: Sequence[Json], *, now_ms: int
) -> ViewMetadata:
    """Return base with all updates applied, in order; base itself if none changed anything.

    base: None builds a new view. now_ms: Unix milliseconds. Raises BadUpdate.
    """
    if len(updates) > limits.VIEW_UPDATES_MAX:
        raise errors.BadUpdate(f"A replacement has at most {limits.VIEW_UPDATES_MAX} updates")
    draft = ViewDraft(view=base or ViewMetadata(), now_ms=now_ms)
    for item in updates:
        update = json_values.check_object(item, what="view update")
        action = json_values.get_text(update, "action").lower()
        if action not in VIEW_UPDATES:
            raise errors.BadUpdate(f"Cannot apply update {action} to a view")
        draft = VIEW_UPDATES[action](draft, update)
    if draft.view is base:
        return base
    return _finished(draft, base)


def _finished(draft: ViewDraft, base: ViewMetadata | None) -> ViewMetadata:
    view = draft.view
    if view.view_uuid is None:
        raise errors.BadUpdate("Cannot create a view without a uuid")
    if not view.location:
        raise errors.BadUpdate("Invalid location: null")
    if not view.versions:
        raise errors.BadUpdate("Invalid view: no versions were added")
    if view.version(view.current_version_id) is None:
        raise errors.BadUpdate("Invalid view: no version is current")
    if base is not None and not properties.switched_on(
        view.properties, properties.VIEW_DROP_DIALECT_ALLOWED, default=False
    ):
        _check_dialects_kept(base.current_version(), view.current_version())
    history_size = properties.whole_number(
        view.properties, properties.VIEW_HISTORY_SIZE, properties.VIEW_HISTORY_SIZE_DEFAULT
    )
    if history_size <= 0:
        raise errors.BadUpdate(
            f"{properties.VIEW_HISTORY_SIZE} must be positive but was {history_size}"
        )
    log = view.version_log if draft.entry is None else (*view.version_log, draft.entry)
    log = log[-limits.VIEW_LOG_ENTRIES_MAX :]
    kept_max = max(len(draft.added_version_ids | {view.current_version_id}), history_size)
    kept_max = min(kept_max, limits.VIEW_VERSIONS_MAX)
    if len(view.versions) <= kept_max:
        return msgspec.structs.replace(view, version_log=log)
    kept = _newest_ids(view, kept_max)
    versions = tuple(one for one in view.versions if one["version-id"] in kept)
    # A schema is removed with the last version that has it, so their number stays bounded.
    expired = {one["schema-id"] for one in view.versions} - {one["schema-id"] for one in versions}
    return msgspec.structs.replace(
        view,
        versions=versions,
        schemas=tuple(one for one in view.schemas if one["schema-id"] not in expired),
        version_log=_log_after_last_gap(log, kept),
    )


def _newest_ids(view: ViewMetadata, count: int) -> set[int]:
    """Return count ids: of the current version and of the newest others."""
    others = sorted(
        (
            one["version-id"]
            for one in view.versions
            if one["version-id"] != view.current_version_id
        ),
        reverse=True,
    )
    return {view.current_version_id, *others[: count - 1]}


def _log_after_last_gap(log: Iterable[Json], kept: set[int]) -> tuple[Json, ...]:
    entries: list[Json] = []
    for entry in log:
        if entry.get("version-id") in kept:
            entries.append(entry)
        else:
            entries.clear()
    return tuple(entries)


def _check_dialects_kept(before: Json, after: Json) -> None:
    lost = _dialects(before) - _dialects(after)
    if lost:
        raise errors.BadUpdate(
            "Cannot replace view due to loss of view dialects"
            f" ({properties.VIEW_DROP_DIALECT_ALLOWED}=false):\n"
            f"Previous dialects: [{', '.join(sorted(_dialects(before)))}]\n"
            f"New dialects: [{', '.join(sorted(_dialects(after)))}]"
        )


def _dialects(version: Json) -> set[str]:
    return {
        one["dialect"].lower() for one in version["representations"] if one.get("type") == "sql"
    }


def apply_assign_uuid(draft: ViewDraft, update: Json) -> ViewDraft:
    uuid = json_values.get_text(update, "uuid")
    if len(uuid) > limits.UUID_CHARACTERS_MAX:
        raise errors.BadUpdate(
            f"A view's uuid is at most {limits.UUID_CHARACTERS_MAX} characters long"
        )
    view_uuid = draft.view.view_uuid
    if view_uuid is None:
        return draft.changed(view_uuid=uuid)
    if uuid.lower() != view_uuid.lower():
        raise errors.BadUpdate("Cannot reassign uuid")
    return draft


def apply_upgrade_format_version(draft: ViewDraft, update: Json) -> ViewDraft:
    version = json_values.get_int(update, "format-version")
    if version < draft.view.format_version:
        raise errors.BadUpdate(f"Cannot downgrade v{draft.view.format_version} view to v{version}")
    if version > VIEW_FORMAT_VERSION:
        raise errors.BadUpdate(f"Unsupported format version: {version}")
    return draft


def apply_set_location(draft: ViewDraft, update: Json) -> ViewDraft:
    location = json_values.get_text(update, "location").rstrip("/")
    if not location:
        raise errors.BadUpdate("Cannot set an empty location")
    return draft if location == draft.view.location else draft.changed(location=location)


def apply_set_properties(draft: ViewDraft, update: Json) -> ViewDraft:
    name = "updated" if "updated" in update and "updates" not in update else "updates"
    changes = json_values.get_text_map(update, name)
    merged = {**draft.view.properties, **changes}
    if merged == draft.view.properties:
        return draft
    drafts.check_properties(changes, count=len(merged), characters=drafts.characters_of(merged))
    return draft.changed(properties=merged)


def apply_remove_properties(draft: ViewDraft, update: Json) -> ViewDraft:
    name = "removed" if "removed" in update and "removals" not in update else "removals"
    gone = set(json_values.get_texts(update, name))
    properties_before = draft.view.properties
    kept = {name: value for name, value in properties_before.items() if name not in gone}
    return draft if len(kept) == len(properties_before) else draft.changed(properties=kept)


def apply_add_schema(draft: ViewDraft, update: Json) -> ViewDraft:
    """Add a schema, or find the identical one; `-1` names it for the rest of the request."""
    schema = schemas.check_schema(update.get("schema"), format_version=model.FORMAT_VERSION_MAX)
    identity = schemas.identity_of(schema)
    for earlier in draft.view.schemas:
        if schemas.identity_of(earlier) == identity:
            return draft.noting(last_schema_id=earlier["schema-id"])
    if len(draft.view.schemas) >= limits.VIEW_SCHEMAS_MAX:
        raise errors.BadUpdate(
            f"A view has at most {limits.VIEW_SCHEMAS_MAX} schemas; keep fewer versions"
        )
    highest = max((earlier["schema-id"] for earlier in draft.view.schemas), default=-1)
    schema_id = json_values.next_id(highest, what="a schema")
    added = {**schema, "type": "struct", "schema-id": schema_id}
    return draft.changed(schemas=(*draft.view.schemas, added)).noting(last_schema_id=schema_id)


def apply_add_view_version(draft: ViewDraft, update: Json) -> ViewDraft:
    """Add a version, or find the identical one; `-1` names it for the rest of the request."""
    version = _check_version(json_values.get_object(update, "view-version"))
    if version["schema-id"] == drafts.LAST_ADDED:
        if draft.last_schema_id is None:
            raise errors.BadUpdate("Cannot set last added schema: no schema has been added")
        version = {**version, "schema-id": draft.last_schema_id}
    if draft.view.schema(version["schema-id"]) is None:
        raise errors.BadUpdate(f"Cannot add version with unknown schema: {version['schema-id']}")
    for earlier in draft.view.versions:
        if _says_the_same(earlier, version):
            return draft.noting(last_version_id=earlier["version-id"])
    highest = max((earlier["version-id"] for earlier in draft.view.versions), default=0)
    version_id = version["version-id"]
    if version_id <= highest:
        version_id = json_values.next_id(highest, what="a view version")
    added = {**version, "version-id": version_id}
    return draft.changed(versions=(*draft.view.versions, added)).noting(
        last_version_id=version_id, added_version_ids=draft.added_version_ids | {version_id}
    )


def _check_version(version: Json) -> Json:
    json_values.get_int(version, "version-id")
    json_values.get_int(version, "schema-id")
    json_values.get_long(version, "timestamp-ms")
    json_values.get_text_map(version, "summary")
    json_values.get_texts(version, "default-namespace")
    json_values.find_text(version, "default-catalog")
    dialects = set()
    representations = json_values.get_list(version, "representations")
    if len(representations) > limits.REPRESENTATIONS_MAX:
        raise errors.BadUpdate(
            f"A view version has at most {limits.REPRESENTATIONS_MAX} representations"
        )
    for one in representations:
        representation = json_values.check_object(one, what="view representation")
        if json_values.get_text(representation, "type").lower() != "sql":
            continue  # unknown types are kept unchanged
        json_values.get_text(representation, "sql")
        dialect = json_values.get_text(representation, "dialect").lower()
        if dialect in dialects:
            raise errors.BadUpdate(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}"
            )
        dialects.add(dialect)
    return version


def _says_the_same(one: Json, other: Json) -> bool:
    return all(
        one.get(name) == other.get(name)
        for name in (
            "summary",
            "representations",
            "default-catalog",
            "default-namespace",
            "schema-id",
        )
    )


def apply_set_current_view_version(draft: ViewDraft, update: Json) -> ViewDraft:
    """Make a version current, with an entry in the version log."""
    version_id = json_values.get_int(update, "view-version-id")
    if version_id == drafts.LAST_ADDED:
        if draft.last_version_id is None:
            raise errors.BadUpdate("Cannot set last version id: no current version id has been set")
        version_id = draft.last_version_id
    if version_id == draft.view.current_version_id:
        return draft
    version = draft.view.version(version_id)
    if version is None:
        raise errors.BadUpdate(f"Cannot set current version to unknown version: {version_id}")
    added_now = version_id in draft.added_version_ids
    entry = {
        "timestamp-ms": version["timestamp-ms"] if added_now else draft.now_ms,
        "version-id": version_id,
    }
    return draft.changed(current_version_id=version_id).noting(entry=entry)


VIEW_UPDATES: Mapping[str, ViewUpdate] = {
    "assign-uuid": apply_assign_uuid,
    "upgrade-format-version": apply_upgrade_format_version,
    "set-location": apply_set_location,
    "set-properties": apply_set_properties,
    "remove-properties": apply_remove_properties,
    "add-schema": apply_add_schema,
    "add-view-version": apply_add_view_version,
    "set-current-view-version": apply_set_current_view_version,
}
