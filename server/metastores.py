"""rule: Embucket's METASTORE_CONFIG as settings of this server.

A database of a volume of type `s3-tables` becomes a mount of that table bucket, one whose `tables`
have the locations of their metadata a mount of those tables. A database of a volume of type
`memory` becomes a table bucket: its tables are new ones anyway. An empty database of another volume
is refused, since new tables would be stored here and not in the volume.
Source: Embucket, configuration of the metastore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from server import mounts

_ARN: Final = re.compile(r"arn:aws[a-z-]*:s3tables:([a-z0-9-]+):[0-9]+:bucket/([a-z0-9-]+)")
_ORIGIN: Final = re.compile(r"https?://[^/]+")

_LISTS: Final = ("volumes", "databases", "schemas", "tables")
_VOLUME_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("region", "bucket", "endpoint", "credentials"),
    "s3-tables": ("endpoint", "credentials", "arn"),
    "file": ("path",),
    "memory": (),
}
_OF_EVERY_VOLUME: Final = ("ident", "type", "database", "should_refresh")
_CREDENTIAL_KEYS: Final = (
    "credential_type", "aws-access-key-id", "aws-secret-access-key", "aws-session-token",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Metastore:
    """What a file describes. schemas: (table bucket, schema) to create where they are absent."""

    mounts: tuple[mounts.Mount, ...]
    table_buckets: tuple[str, ...]
    schemas: tuple[tuple[str, str], ...]


def parse(document: Any, where: str) -> Metastore:
    """Return what a decoded file describes; all scalars are texts. Raises InvalidMount."""
    if not isinstance(document, Mapping):
        raise mounts.InvalidMount(f"{where}: not a mapping")
    _check_keys(document, _LISTS, where)
    volumes: dict[str, Mapping[str, Any]] = {}
    volume_of: dict[str, str] = {}
    for entry in _entries(document, "volumes", where):
        ident = _text(entry, "ident", f"{where} volumes")
        type_name = _text(entry, "type", f"{where} volume {ident}")
        if type_name not in _VOLUME_KEYS:
            raise mounts.InvalidMount(
                f"{where} volume {ident}: type {type_name!r} is none of {', '.join(_VOLUME_KEYS)}"
            )
        allowed = (*_OF_EVERY_VOLUME, *_VOLUME_KEYS[type_name])
        _check_keys(entry, allowed, f"{where} volume {ident}")
        volumes[ident] = entry
        if entry.get("database"):
            volume_of[_text(entry, "database", where)] = ident
    for entry in _entries(document, "databases", where):
        _check_keys(entry, ("ident", "volume", "should_refresh"), f"{where} databases")
        volume_of.setdefault(
            _text(entry, "ident", f"{where} databases"),
            _text(entry, "volume", f"{where} databases"),
        )
    schemas = [
        (_text(entry, "database", f"{where} schemas"), _text(entry, "schema", f"{where} schemas"))
        for entry in _entries(document, "schemas", where)
    ]
    tables: dict[str, dict[str, str]] = {}
    for entry in _entries(document, "tables", where):
        _check_keys(entry, ("database", "schema", "table", "metadata_location"), f"{where} tables")
        database, schema, table, location = (
            _text(entry, key, f"{where} tables")
            for key in ("database", "schema", "table", "metadata_location")
        )
        tables.setdefault(database, {})[f"{schema}.{table}"] = location
    for database in (*tables, *(database for database, _ in schemas)):
        if database not in volume_of:
            raise mounts.InvalidMount(f"{where}: there is no database {database}")
    mounted: list[mounts.Mount] = []
    table_buckets: list[str] = []
    created: list[tuple[str, str]] = []
    for database, ident in volume_of.items():
        if ident not in volumes:
            raise mounts.InvalidMount(f"{where} database {database}: there is no volume {ident}")
        volume, its_tables = volumes[ident], tables.get(database, {})
        its_schemas = [schema for each, schema in schemas if each == database]
        name = database.lower().replace("_", "-")
        described = f"{where} database {database}"
        if volume["type"] == "memory" and not its_tables:
            table_buckets.append(name)
            created += [(name, schema.lower()) for schema in its_schemas]
        else:
            mounted.append(_mount(name, volume, its_tables, its_schemas, described))
    return Metastore(
        mounts=tuple(mounted), table_buckets=tuple(table_buckets), schemas=tuple(created)
    )


def _mount(
    name: str,
    volume: Mapping[str, Any],
    tables: Mapping[str, str],
    schemas: Iterable[str],
    where: str,
) -> mounts.Mount:
    values: dict[str, Any] = {}
    match volume["type"]:
        case "s3-tables":
            match = _ARN.fullmatch(_text(volume, "arn", where))
            if match is None:
                raise mounts.InvalidMount(f"{where}: {volume['arn']!r} is not a table bucket's ARN")
            region = match[1]
            endpoint = volume.get("endpoint") or f"https://s3tables.{region}.amazonaws.com/iceberg"
            if tables:
                raise mounts.InvalidMount(
                    f"{where}: tables of a volume of type s3-tables are those of its table bucket,"
                    " and are not listed by metadata_location"
                )
            values = {"uri": endpoint, "warehouse": match[0], "sigv4": "s3tables"}
            values |= {"region": region, **_keys(volume, where)}
            origin = _ORIGIN.match(str(volume.get("endpoint", "")))
            if origin:
                values["s3_endpoint"] = origin[0]
        case "s3":
            values = {key: volume[key] for key in ("region",) if key in volume}
            if volume.get("endpoint"):
                values["s3_endpoint"] = volume["endpoint"]
            values |= _keys(volume, where)
        case "file":
            values = {"folder": _text(volume, "path", where)}
    if volume["type"] != "s3-tables" and not tables:
        raise mounts.InvalidMount(
            f"{where}: it has no tables, and new ones would be stored in this server and not in"
            f" the volume {volume['ident']}: name it in table_buckets instead"
        )
    return mounts.build(
        name,
        {**values, "tables": dict(tables)},
        where,
        schemas=() if volume["type"] == "s3-tables" else tuple(schemas),
    )


def _keys(volume: Mapping[str, Any], where: str) -> dict[str, str]:
    entry = volume.get("credentials")
    if entry is None:
        return {}
    if not isinstance(entry, Mapping):
        raise mounts.InvalidMount(f"{where}: credentials is not a mapping")
    _check_keys(entry, _CREDENTIAL_KEYS, f"{where} credentials")
    if entry.get("credential_type") != "access_key":
        raise mounts.InvalidMount(f"{where}: only the credential_type access_key is supported")
    keys = {
        "access_key": _text(entry, "aws-access-key-id", f"{where} credentials"),
        "secret_key": _text(entry, "aws-secret-access-key", f"{where} credentials"),
    }
    if entry.get("aws-session-token"):
        keys["session_token"] = entry["aws-session-token"]
    return keys


def _entries(document: Mapping[str, Any], key: str, where: str) -> Sequence[Mapping[str, Any]]:
    entries = document.get(key) or ()
    if isinstance(entries, str) or not all(isinstance(each, Mapping) for each in entries):
        raise mounts.InvalidMount(f"{where}: {key} is not a list of mappings")
    return tuple(entries)


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise mounts.InvalidMount(f"{where}: {key} is missing")
    return value


def _check_keys(entry: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in entry:
        if key not in allowed:
            raise mounts.InvalidMount(
                f"{where}: unknown key {key!r}; the keys are {', '.join(allowed)}"
            )
