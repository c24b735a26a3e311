"""rule: the `[[mounts]]` of mini.toml: other catalogs and tables that the server shows, read-only.

A mount is either another Iceberg REST catalog (`uri`) or single tables by the location of their
metadata files (`tables`). Secrets are left out of the values' repr, so that no log shows them.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from server import entries as entry_lists
from storage import errors as storage_errors
from storage import names

MOUNTS_MAX: Final = 100
TABLES_MAX: Final = 10_000
SECONDS_MAX: Final = 3600

_TEXTS: Final = (
    "uri", "warehouse", "token", "credential", "oauth2_uri", "scope", "sigv4", "region",
    "access_key", "secret_key", "session_token", "s3_endpoint", "folder",
)  # fmt: skip
_COUNTS: Final = ("refresh_seconds", "timeout_seconds")
KEYS: Final = ("name", *_TEXTS, *_COUNTS, "tables")
_ONLY_REST: Final = ("warehouse", "token", "credential", "oauth2_uri", "scope", "sigv4")
_SIGV4_SERVICE: Final = re.compile(r"[a-z0-9-]{1,32}")


class InvalidMount(Exception):
    """A mount's entry is malformed; str() says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MountedTable:
    """A single table of a mount. namespace: its levels. metadata_location: URI or local path."""

    namespace: tuple[str, ...]
    name: str
    metadata_location: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """One mount. uri: of a REST catalog, or empty for single tables.

    sigv4: the service that requests to the catalog are signed for; empty for none. access_key and
    secret_key: for those signatures and for files in S3. folder: below which local files are read.
    refresh_seconds: how old names and states of tables may be. timeout_seconds: how long one
    request may wait.
    """

    name: str
    uri: str = ""
    warehouse: str = ""
    token: str = field(default="", repr=False)
    credential: str = field(default="", repr=False)
    oauth2_uri: str = ""
    scope: str = ""
    sigv4: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    s3_endpoint: str = ""
    folder: str = ""
    refresh_seconds: int = 10
    timeout_seconds: int = 10
    tables: tuple[MountedTable, ...] = ()
    schemas: tuple[tuple[str, ...], ...] = ()
    """Namespaces that are shown beside those of `tables`."""


def parse(entries: Any) -> tuple[Mount, ...]:
    """Return the mounts of the decoded `[[mounts]]`. Raises InvalidMount."""
    return entry_lists.parse(
        "mounts", entries, _mount, keys=KEYS, entries_max=MOUNTS_MAX, error=InvalidMount
    )


def _mount(entry: Mapping[str, Any], where: str) -> Mount:
    name = entry.get("name")
    if not isinstance(name, str):
        raise InvalidMount(f"{where}: name is missing")
    return build(name, entry, f"mini.toml mount {name}")


def build(name: str, entry: Mapping[str, Any], where: str, *, schemas: Sequence[str] = ()) -> Mount:
    """Return the mount of an entry whose keys are known ones. Raises InvalidMount.

    where: it is, for errors. schemas: to show beside those of its tables, levels joined by dots.
    """
    try:
        names.check_bucket_name(name, "table")
    except storage_errors.InvalidBucketName as error:
        raise InvalidMount(f"{where}: {error}") from None
    for key in _TEXTS:
        if key in entry and (not isinstance(entry[key], str) or not entry[key]):
            raise InvalidMount(f"{where}: {key} is not text")
    for key in _COUNTS:
        value = entry.get(key, 1)
        if type(value) is not int or not 0 <= value <= SECONDS_MAX:
            raise InvalidMount(f"{where}: {key} is not a whole number up to {SECONDS_MAX}")
    values = {key: entry[key] for key in (*_TEXTS, *_COUNTS) if key in entry}
    mount = Mount(
        name=name,
        tables=parse_tables(entry.get("tables", {}), where),
        schemas=tuple(tuple(schema.split(".")) for schema in schemas),
        **values,
    )
    check(mount, where)
    return mount


def parse_tables(entry: Any, where: str) -> tuple[MountedTable, ...]:
    """Return the tables of a mapping of `schema.table` to metadata locations."""
    if not isinstance(entry, Mapping):
        raise InvalidMount(f"{where}: tables is not a table of `schema.table` = location")
    if len(entry) > TABLES_MAX:
        raise InvalidMount(f"{where}: more than {TABLES_MAX} tables")
    tables = []
    for dotted, location in entry.items():
        *namespace, name = dotted.split(".")
        if not namespace or not all((*namespace, name)):
            raise InvalidMount(f"{where}: {dotted!r} is not a table's name, like schema.table")
        if not isinstance(location, str) or not location:
            raise InvalidMount(f"{where}: the location of {dotted} is not text")
        tables.append(
            MountedTable(namespace=tuple(namespace), name=name, metadata_location=location)
        )
    return tuple(tables)


def check(mount: Mount, where: str) -> None:
    """Raise InvalidMount unless a mount's values go together."""
    if bool(mount.uri) == bool(mount.tables):
        raise InvalidMount(
            f"{where}: needs either uri, of an Iceberg REST catalog, or tables with the locations"
            " of their metadata"
        )
    for key in ("uri", "oauth2_uri", "s3_endpoint"):
        value = getattr(mount, key)
        if value and not _is_plain_url(value):
            raise InvalidMount(f"{where}: {key} is not an http or https URL without a user")
    for key in _ONLY_REST:
        if getattr(mount, key) and not mount.uri:
            raise InvalidMount(f"{where}: {key} is for a REST catalog, and there is no uri")
    if sum(map(bool, (mount.token, mount.credential, mount.sigv4))) > 1:
        raise InvalidMount(f"{where}: only one of token, credential and sigv4 can be used")
    if bool(mount.access_key) != bool(mount.secret_key):
        raise InvalidMount(f"{where}: access_key and secret_key go together; one is missing")
    if mount.sigv4 and not (mount.access_key and mount.region):
        raise InvalidMount(f"{where}: sigv4 needs region, access_key and secret_key")
    if mount.sigv4 and not _SIGV4_SERVICE.fullmatch(mount.sigv4):
        raise InvalidMount(f"{where}: sigv4 is not a service's name, like s3tables or glue")
    if not mount.timeout_seconds:
        raise InvalidMount(f"{where}: timeout_seconds must be at least 1")


def _is_plain_url(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    has_more = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not has_more
