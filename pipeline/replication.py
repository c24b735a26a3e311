"""engine: copies a table with its history into another Iceberg catalog, and keeps the copy current.

Iceberg's procedure `rewrite_table_path` writes the table's metadata anew, with the paths of the
copy, into a temporary folder of this machine. Its files and the table's data files are copied to
the target's store, and one request registers the new metadata file there. So the copy always is one
of the table's versions: a job that dies leaves files that nothing names, and the next one copies
what is missing. The copy's metadata files keep their names: the one that the target has now says
from which version the next copy continues.

The copy is for reading. A target whose metadata file is none of the source's is left as it is.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline import catalogs, errors, loads, progress, session, settings, sources

ACCESS_KEY, SECRET_KEY = "BOATHOUSE_TARGET_ACCESS_KEY", "BOATHOUSE_TARGET_SECRET_KEY"
CATALOG = "boathouse_replicated"
"""Spark's catalog for the source, which reads with the job's own keys and writes local files."""
COPIES_AT_ONCE = 8
S3_TABLES = "arn:aws:s3tables:"
NO_OVERWRITE = frozenset(
    {HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED}
)
"""Answers of catalogs that do not know `overwrite`, or whose tables cannot be registered twice."""
STAGED = "file:"
SAME_PLACE_SUFFIX = "-replica"
"""What follows the location of a copy that would have the very location of its table in its own
store: Iceberg rewrites no paths into the same ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaTarget:
    """The catalog that gets the copy: its REST URI, its warehouse, and a key pair for both faces.

    location: of the copy's files; None for the warehouse's bucket, namespace and name, with
    SAME_PLACE_SUFFIX where the table has that location too. s3_endpoint: of its store; None for the
    one that the catalog names, or AWS's.
    """

    uri: str
    warehouse: str
    access_key: str
    secret_key: str
    location: str | None = None
    s3_endpoint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Replicated:
    """What a job copied. since: the version that the copy had before; None for a first copy."""

    files: int
    size_bytes: int
    metadata_location: str
    since: str | None


def target(
    uri: str,
    warehouse: str | None,
    location: str | None,
    environment: Mapping[str, str],
    *,
    s3_endpoint: str | None = None,
) -> ReplicaTarget:
    """Return the target that a user names. Raises BadArgument."""
    if uri.startswith(S3_TABLES) or urlsplit(uri).netloc.startswith("s3tables."):
        raise errors.BadArgument(
            "--to names S3 Tables, which cannot get a copy: it has no operation that registers the "
            "metadata of a table with its history, and it writes every table's metadata itself"
        )
    if not uri.startswith(("http://", "https://")) or "@" in uri:
        raise errors.BadArgument(
            f"--to {uri.rpartition('@')[2]!r} is not the URI of a REST catalog, like "
            "https://other.example/iceberg, without credentials in it"
        )
    keys = environment.get(ACCESS_KEY), environment.get(SECRET_KEY)
    if not keys[0] or not keys[1]:
        raise errors.BadArgument(
            f"{ACCESS_KEY} and {SECRET_KEY} must name a key pair of the target"
        )
    if warehouse is None:
        raise errors.BadArgument("--to-warehouse is missing: the target's warehouse")
    if location is not None and not location.startswith("s3://"):
        raise errors.BadArgument(f"--location {location!r} does not begin with s3://")
    if s3_endpoint is not None and (
        not s3_endpoint.startswith(("http://", "https://")) or "@" in s3_endpoint
    ):
        raise errors.BadArgument(
            f"--s3-endpoint {s3_endpoint.rpartition('@')[2]!r} is not the URL of a store, without "
            "credentials in it"
        )
    return ReplicaTarget(
        uri=uri.rstrip("/"),
        warehouse=warehouse,
        access_key=keys[0],
        secret_key=keys[1],
        location=None if location is None else location.rstrip("/"),
        s3_endpoint=s3_endpoint,
    )


def run(
    server: settings.ServerEndpoint,
    table: settings.TargetTable,
    to: ReplicaTarget,
    *,
    open_spark: session.Open,
    say: progress.Say,
) -> Replicated | None:
    """Copy what the target lacks of a table; None if it has the newest version.

    Raises BadArgument for a target that is no copy of the table, PipelineError.
    """
    answer = loads.loaded(server, table)
    if "metadata" not in answer:
        raise errors.BadArgument(f"there is no table {table.full}")
    metadata, newest = answer["metadata"], str(answer["metadata-location"])
    with catalogs.failures():
        catalog = catalogs.opened_at(
            to.uri, to.warehouse, access_key=to.access_key, secret_key=to.secret_key
        )
        copy = _copy(catalog, table)
    since = None
    own = str(metadata["location"]).rstrip("/")
    location = to.location or "/".join(("s3:/", to.warehouse, *table.namespace, table.name))
    if location == own and to.location is None:
        location += SAME_PLACE_SUFFIX
    if copy is not None:
        since = _continued(table, metadata, newest, copy)
        location = copy.location().rstrip("/")
        if to.location not in {None, location}:
            raise errors.BadArgument(f"the copy lies at {location}, not at {to.location}")
        if since == _name(newest):
            return None
    if location == own:
        raise errors.BadArgument(f"--location {location} is the table's own; name another one")
    with (
        tempfile.TemporaryDirectory(prefix="boathouse-") as folder,
        open_spark(table.warehouse) as spark,
        session.failures(),
    ):
        version, pairs = _rewritten(spark, server, table, own, location, since, folder)
        say(f"copying {progress.counted(len(pairs), 'file')} to {location}")
        files, size_bytes = _copied(sources.client(server), _store_of(catalog, to), pairs, location)
    metadata_location = f"{location}/metadata/{version}"
    with catalogs.failures():
        _register(catalog, table, metadata_location, overwrite=copy is not None, say=say)
    return Replicated(
        files=files, size_bytes=size_bytes, metadata_location=metadata_location, since=since
    )


def _copy(catalog: Any, table: settings.TargetTable) -> Any:
    """Return the target's table; None if it has none of the name."""
    # Imported here: a job's `--help` need not load it.
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    with contextlib.suppress(NoSuchTableError, NoSuchNamespaceError):
        return catalog.load_table((*table.namespace, table.name))
    return None


def _continued(
    table: settings.TargetTable, metadata: Mapping[str, Any], newest: str, copy: Any
) -> str:
    """Return the version that the target has. Raises BadArgument if it is none of the table's."""
    if str(copy.metadata.table_uuid) != metadata["table-uuid"]:
        raise errors.BadArgument(
            f"the target has another table {table.dotted}, which is no copy of {table.full}"
        )
    names = {_name(entry["metadata-file"]) for entry in metadata.get("metadata-log") or ()}
    name = _name(copy.metadata_location)
    if name not in {*names, _name(newest)}:
        raise errors.BadArgument(
            f"the target's {table.dotted} is at {name}, which is not in the metadata log of "
            f"{table.full}: another client has changed it, or it is too old; drop it there to copy "
            "it anew"
        )
    return name


def _rewritten(
    spark: session.Spark,
    server: settings.ServerEndpoint,
    table: settings.TargetTable,
    from_location: str,
    to_location: str,
    since: str | None,
    folder: str,
) -> tuple[str, Sequence[tuple[str, str]]]:
    """Write the metadata of the copy into a folder; return its version and (source, target) pairs.

    since: copy only what came after this version.
    """
    for name, value in settings.catalog_settings(server, table.warehouse, name=CATALOG).items():
        if not name.endswith("X-Iceberg-Access-Delegation"):
            spark.session.conf.set(name, value)
    spark.session.conf.set(
        f"spark.sql.catalog.{CATALOG}.io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"
    )
    name = ".".join(f"`{part}`" for part in (CATALOG, *table.namespace, table.name))
    arguments = {
        "table": name,
        "source_prefix": from_location,
        "target_prefix": to_location,
        "staging_location": f"{STAGED}{folder}/",
        **({} if since is None else {"start_version": since}),
    }
    if any("'" in value or "\\" in value for value in arguments.values()):
        raise errors.BadArgument(f"the location {to_location} has a quote or a backslash")
    listed = ", ".join(f"{key} => '{value}'" for key, value in arguments.items())
    row = spark.session.sql(f"CALL `{CATALOG}`.system.rewrite_table_path({listed})").first()
    pairs = spark.session.read.csv(str(row["file_list_location"])).collect()
    return str(row["latest_version"]), [(str(pair[0]), str(pair[1])) for pair in pairs]


def _copied(
    source: Any, destination: Any, pairs: Sequence[tuple[str, str]], location: str
) -> tuple[int, int]:
    """Copy the files that the target lacks; return their number and their bytes.

    pairs: from a bucket or a local file, to a bucket. A file of the same name and size is one that
    an earlier job copied: names have UUIDs, and metadata that is rewritten again differs in the
    marks between its blocks alone. A store of tables refuses other bytes under the name of a file.
    """
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    present: dict[str, int] = {}
    pages = destination.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{prefix}/"
    )
    with sources.asking():
        for page in pages:
            present.update((entry["Key"], entry["Size"]) for entry in page.get("Contents", ()))

    def copy(pair: tuple[str, str]) -> int | None:
        bucket, _, key = pair[1].removeprefix("s3://").partition("/")
        with sources.asking(), _opened(source, pair[0]) as (body, size_bytes):
            if present.get(key) == size_bytes:
                return None
            destination.upload_fileobj(body, bucket, key)
        return size_bytes

    with concurrent.futures.ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        copies = [pool.submit(copy, pair) for pair in pairs]
        try:
            sizes = [size for each in copies if (size := each.result()) is not None]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return len(sizes), sum(sizes)


@contextlib.contextmanager
def _opened(source: Any, uri: str) -> Iterator[tuple[Any, int]]:
    """Open a file of the source; yield its bytes and their number."""
    if uri.startswith(STAGED):
        path = Path(uri.removeprefix(STAGED))
        with path.open("rb") as file:
            yield file, path.stat().st_size
        return
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    answer = source.get_object(Bucket=bucket, Key=key)
    with contextlib.closing(answer["Body"]) as body:
        yield body, int(answer["ContentLength"])


def _store_of(catalog: Any, to: ReplicaTarget) -> Any:
    """Return a boto3 client for the target's store, which its catalog names."""
    return sources.client_at(
        endpoint=to.s3_endpoint or catalog.properties.get("s3.endpoint"),
        region=catalog.properties.get("client.region") or catalog.properties.get("s3.region"),
        access_key=to.access_key,
        secret_key=to.secret_key,
    )


def _register(
    catalog: Any,
    table: settings.TargetTable,
    metadata_location: str,
    *,
    overwrite: bool,
    say: progress.Say,
) -> None:
    """Point the target's table at a metadata file.

    A catalog whose `register` cannot overwrite, as those over Iceberg's JDBC catalog, drops the
    copy first, with its files kept. A job that ends between the two leaves no copy, and the next
    one registers it anew.
    """
    for depth in range(1, len(table.namespace) + 1):
        catalog.create_namespace_if_not_exists(table.namespace[:depth])
    levels = catalog._encode_namespace_path(table.namespace)  # noqa: SLF001 - PyIceberg's register has no overwrite
    body: dict[str, Any] = {"name": table.name, "metadata-location": metadata_location}
    path = f"namespaces/{levels}/register"
    answer = catalogs.posted(catalog, path, {**body, "overwrite": True} if overwrite else body)
    if overwrite and answer.status_code in NO_OVERWRITE:
        say(f"the target cannot replace {table.dotted} at once: it is dropped and registered again")
        catalog.drop_table((*table.namespace, table.name), purge_requested=False)
        answer = catalogs.posted(catalog, path, body)
    if not answer.ok:
        raise errors.PipelineError(f"the target refused the copy: {answer.text[:300]}")


def _name(location: str) -> str:
    return location.rpartition("/")[2]
