"""engine: copies a table with its history into another Iceberg catalog, and keeps the copy current.

Iceberg's procedure `rewrite_table_path` writes the table's metadata anew, with the paths of the
copy, into a temporary folder of this machine. Its files and the table's data files are copied to
the target's store, and one request makes the new metadata file the copy's there. So the copy always
is one of the table's versions: a job that dies leaves files that nothing names, and the next one
copies what is missing. The copy's metadata files keep their names: the one that the target has now
says from which version the next copy continues.

A copy at the very location that the table has in its own store needs no other paths: then the
procedure only lists the files, and the table's own are copied.

The copy is for reading. A target whose metadata file is none of the source's is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import (
    copies,
    copying,
    errors,
    loads,
    progress,
    registrations,
    replicas,
    session,
    settings,
    sources,
    tablebuckets,
    workfolders,
)

CATALOG = "boathouse_replicated"
"""Spark's catalog for the source, which reads with the job's own keys and writes local files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replicated:
    """What a job copied. since: the version that the copy had before; None for a first copy."""

    files: int
    size_bytes: int
    metadata_location: str
    since: str | None


def run(
    server: settings.ServerEndpoint,
    table: settings.TargetTable,
    to: replicas.Target,
    *,
    open_spark: session.Open,
    say: progress.Say,
) -> Replicated | None:
    """Copy what the target lacks of a table; None if it has the newest version.

    Raises BadArgument for a target that is no copy of the table, PipelineError.
    """
    name = replicas.name_of(table, to)
    answer = loads.loaded(server, table)
    if "metadata" not in answer:
        raise errors.BadArgument(f"there is no table {table.full}")
    metadata, newest = answer["metadata"], str(answer["metadata-location"])
    destination: copies.Destination = (
        registrations.opened(to, name)
        if isinstance(to, replicas.RestTarget)
        else tablebuckets.opened(to, name)
    )
    since = None
    own = str(metadata["location"]).rstrip("/")
    copy = destination.find()
    if copy is not None and copy.metadata_location is not None:
        since = _continued(table, metadata, newest, name, copy.metadata_location, copy.table_uuid)
        if isinstance(to, replicas.RestTarget) and to.location not in {None, copy.location}:
            raise errors.BadArgument(
                f"the copy that is there lies at {copy.location}, not at {to.location}: name "
                "that location, or none, or another table for a new copy"
            )
        if since == _name(newest):
            return None
    else:
        copy = destination.begun(own)
    with (
        workfolders.opened() as folder,
        open_spark(table.warehouse) as spark,
        session.failures(),
    ):
        version, pairs = _rewritten(spark, server, table, own, copy.location, since, str(folder))
        say(f"copying {progress.counted(len(pairs), 'file')} to {copy.location}")
        files = copying.FileCopies(sources.client(server), destination, pairs, copy.location)
        files.copy_missing()
        files.copy_lost()
        metadata_location = f"{copy.location}/metadata/{version}"
        destination.show(copy, metadata_location, say)
        files.copy_lost()
    return Replicated(
        files=files.files,
        size_bytes=files.size_bytes,
        metadata_location=metadata_location,
        since=since,
    )


def _continued(
    table: settings.TargetTable,
    metadata: Mapping[str, Any],
    newest: str,
    name: settings.TargetTable,
    metadata_location: str,
    table_uuid: str | None,
) -> str:
    """Return the version that the target has. Raises BadArgument if it is none of the table's."""
    if table_uuid != metadata["table-uuid"]:
        raise errors.BadArgument(
            f"the target has another table {name.dotted}, which is no copy of {table.full}"
        )
    versions = {_name(entry["metadata-file"]) for entry in metadata.get("metadata-log") or ()}
    version = _name(metadata_location)
    if version not in {*versions, _name(newest)}:
        raise errors.BadArgument(
            f"the target's {name.dotted} is at {version}, which is not in the metadata log of "
            f"{table.full}: another client has changed it, or it is too old; drop it there to copy "
            "it anew"
        )
    return version


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
    rewritten_to = to_location
    if to_location == from_location:
        rewritten_to += copies.SAME_PLACE_SUFFIX
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
        "target_prefix": rewritten_to,
        "staging_location": f"{copying.STAGED}{folder}/",
        **({} if since is None else {"start_version": since}),
    }
    if any("'" in value or "\\" in value for value in arguments.values()):
        raise errors.BadArgument(f"the location {to_location} has a quote or a backslash")
    listed = ", ".join(f"{key} => '{value}'" for key, value in arguments.items())
    row = spark.session.sql(f"CALL `{CATALOG}`.system.rewrite_table_path({listed})").first()
    pairs = spark.session.read.csv(str(row["file_list_location"])).collect()
    if to_location == from_location:
        names = [to_location + str(pair[1]).removeprefix(rewritten_to) for pair in pairs]
        return str(row["latest_version"]), [(name, name) for name in names]
    return str(row["latest_version"]), [(str(pair[0]), str(pair[1])) for pair in pairs]


def _name(location: str) -> str:
    return location.rpartition("/")[2]
