"""rule: where a copy of a table goes, as the options of `replicate` name it.

A target is a REST catalog, by its URI, or a table bucket of S3 Tables, by its ARN. A REST catalog
needs a key pair of its own; a table bucket is reached as AWS's own tools reach it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from pipeline import errors, settings

ACCESS_KEY, SECRET_KEY = "BOATHOUSE_TARGET_ACCESS_KEY", "BOATHOUSE_TARGET_SECRET_KEY"
ARN_BEGINNING = "arn:"
_TABLE_BUCKET = re.compile(
    r"arn:aws[-a-z0-9]*:s3tables:([-a-z0-9]+):[0-9]{12}:bucket/[a-z0-9_-]{3,63}\Z"
)
_LOCATION = re.compile(r"s3://[^/]+/.*[^/].*")
_TABLE_BUCKET_WORD = re.compile(r"[0-9a-z_]{1,255}\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyPair:
    """An access key and its secret."""

    access_key: str
    secret_key: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RestTarget:
    """A REST catalog that gets the copy, under the table's own name or another.

    location: of the copy's files; None for the warehouse's bucket, namespace and name. s3_endpoint:
    of its store; None for the one that the catalog names, or AWS's.
    """

    uri: str
    warehouse: str
    keys: KeyPair
    location: str | None = None
    s3_endpoint: str | None = None
    namespace: tuple[str, ...] | None = None
    name: str | None = None

    def __str__(self) -> str:
        return self.uri


@dataclass(frozen=True, kw_only=True, slots=True)
class TableBucketTarget:
    """A table bucket of S3 Tables that gets the copy, under the table's own name or another.

    keys: None for those that AWS's own tools would take. s3_endpoint: None for the one that AWS's
    configuration names.
    """

    arn: str
    region: str
    keys: KeyPair | None = None
    s3_endpoint: str | None = None
    namespace: tuple[str, ...] | None = None
    name: str | None = None

    def __str__(self) -> str:
        return self.arn


Target: TypeAlias = RestTarget | TableBucketTarget


def parse(
    to: str,
    environment: Mapping[str, str],
    *,
    warehouse: str | None = None,
    location: str | None = None,
    s3_endpoint: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
) -> Target:
    """Return the target that a user names. Raises BadArgument."""
    host = _host(to)
    if host.startswith("s3tables."):
        raise errors.BadArgument(
            "--to names the REST catalog of S3 Tables, which cannot register a table with its "
            "history; name the table bucket by its ARN, like "
            "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake"
        )
    is_bucket = to.startswith(ARN_BEGINNING)
    if not is_bucket and (not to.startswith(("http://", "https://")) or "@" in to or not host):
        raise errors.BadArgument(
            f"--to {to.rpartition('@')[2]!r} is not the URI of a REST catalog, like "
            "https://other.example/iceberg, without credentials in it, nor the ARN of a table "
            "bucket"
        )
    bucket = _TABLE_BUCKET.match(to)
    if is_bucket and bucket is None:
        raise errors.BadArgument(
            f"--to {to!r} is not the ARN of a table bucket, like "
            "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake"
        )
    keys = _keys(environment, is_needed=bucket is None)
    if s3_endpoint is not None and (
        not s3_endpoint.startswith(("http://", "https://"))
        or "@" in s3_endpoint
        or not _host(s3_endpoint)
    ):
        raise errors.BadArgument(
            f"--s3-endpoint {s3_endpoint.rpartition('@')[2]!r} is not the URL of a store, without "
            "credentials in it"
        )
    levels = None if namespace is None else tuple(namespace.split("."))
    if "" in (*(levels or ()), name):
        raise errors.BadArgument("--to-namespace or --to-table has an empty part")
    if bucket is not None:
        for option, value in (("--to-warehouse", warehouse), ("--location", location)):
            if value is not None:
                raise errors.BadArgument(
                    f"{option} is for REST catalogs: the ARN names the table bucket, which gives "
                    "the copy its location"
                )
        return TableBucketTarget(
            arn=to,
            region=bucket.group(1),
            keys=keys,
            s3_endpoint=s3_endpoint,
            namespace=levels,
            name=name,
        )
    if warehouse is None:
        raise errors.BadArgument("--to-warehouse is missing: the target's warehouse")
    if location is not None and _LOCATION.fullmatch(location) is None:
        raise errors.BadArgument(f"--location {location!r} is no place like s3://bucket/folder")
    assert keys is not None
    return RestTarget(
        uri=to.rstrip("/"),
        warehouse=warehouse,
        keys=keys,
        location=None if location is None else location.rstrip("/"),
        s3_endpoint=s3_endpoint,
        namespace=levels,
        name=name,
    )


def name_of(table: settings.TargetTable, to: Target) -> settings.TargetTable:
    """Return the name of the copy. Raises BadArgument for one that S3 Tables does not take."""
    namespace, name = to.namespace or table.namespace, to.name or table.name
    if isinstance(to, RestTarget):
        return settings.TargetTable(warehouse=to.warehouse, namespace=namespace, name=name)
    copy = settings.TargetTable(warehouse=to.arn.rpartition("/")[2], namespace=namespace, name=name)
    if len(namespace) > 1 or not all(map(_TABLE_BUCKET_WORD.match, (*namespace, name))):
        raise errors.BadArgument(
            f"S3 Tables takes no table {copy.dotted}: a namespace has one level, and names have "
            "lowercase letters, digits and _ alone; name others by --to-namespace and --to-table"
        )
    return copy


def _host(uri: str) -> str:
    """Return the host that a URI names; "" if it names none, or no number as the port."""
    try:
        parts = urlsplit(uri)
        return (parts.hostname or "") if parts.port is None or parts.port else ""
    except ValueError:
        return ""


def _keys(environment: Mapping[str, str], *, is_needed: bool) -> KeyPair | None:
    """Return the key pair of the target; None without one, which AWS's configuration then has."""
    access_key, secret_key = environment.get(ACCESS_KEY), environment.get(SECRET_KEY)
    if access_key and secret_key:
        return KeyPair(access_key=access_key, secret_key=secret_key)
    if is_needed or access_key or secret_key:
        raise errors.BadArgument(
            f"{ACCESS_KEY} and {SECRET_KEY} must name a key pair of the target"
        )
    return None
