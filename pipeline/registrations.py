"""engine: a copy in a REST catalog: what it has now, and how it gets another version.

The catalog's `register` takes a metadata file with all its history, and replaces with `overwrite`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pipeline import catalogs, copies, errors, progress, replicas, settings, sources

NO_OVERWRITE = frozenset(
    {HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.CONFLICT, HTTPStatus.NOT_IMPLEMENTED}
)
"""Answers of catalogs that do not know `overwrite`, or whose tables cannot be registered twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestDestination:
    """A REST catalog, opened, and the name of the copy in it. store: a boto3 client."""

    catalog: Any
    store: Any
    to: replicas.RestTarget
    table: settings.TargetTable

    def find(self) -> copies.Copy | None:
        """Return what the target has; None if it has no table of the name."""
        # Imported here: a job's `--help` need not load it.
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        with catalogs.failures(), contextlib.suppress(NoSuchTableError, NoSuchNamespaceError):
            table = self.catalog.load_table((*self.table.namespace, self.table.name))
            return copies.Copy(
                location=table.location().rstrip("/"),
                metadata_location=table.metadata_location,
                table_uuid=str(table.metadata.table_uuid),
            )
        return None

    def begun(self, own: str) -> copies.Copy:
        """Return a copy without a version. own: the location of the source."""
        names = (self.to.warehouse, *self.table.namespace, self.table.name)
        location = self.to.location or "/".join(("s3:/", *names))
        if location == own:
            if self.to.location is not None:
                raise errors.BadArgument(
                    f"--location {location} is the table's own; name another one"
                )
            location += copies.SAME_PLACE_SUFFIX
        return copies.Copy(location=location)

    def sizes(self, keys: Sequence[str], *, bucket: str, prefix: str) -> Mapping[str, int]:
        """Return the sizes of the files that the store has below a prefix, by key."""
        present: dict[str, int] = {}
        with sources.asking():
            pages = self.store.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=bucket, Prefix=prefix):
                present.update((entry["Key"], entry["Size"]) for entry in page.get("Contents", ()))
        return present

    def put(self, body: Any, *, bucket: str, key: str) -> None:
        """Write a file into the store."""
        with sources.asking():
            self.store.upload_fileobj(body, bucket, key)

    def show(self, copy: copies.Copy, metadata_location: str, say: progress.Say) -> None:
        """Point the target's table at a metadata file.

        A catalog whose `register` cannot overwrite, as those over Iceberg's JDBC catalog, drops the
        copy first, with its files kept. A job that ends between the two leaves no copy, and the
        next one registers it anew.
        """
        catalog, table = self.catalog, self.table
        with catalogs.failures():
            for depth in range(1, len(table.namespace) + 1):
                catalog.create_namespace_if_not_exists(table.namespace[:depth])
            levels = catalog._encode_namespace_path(table.namespace)  # noqa: SLF001 - PyIceberg's register has no overwrite
            body: dict[str, Any] = {"name": table.name, "metadata-location": metadata_location}
            path = f"namespaces/{levels}/register"
            replaces = copy.metadata_location is not None
            first = {**body, "overwrite": True} if replaces else body
            answer = catalogs.posted(catalog, path, first)
            if replaces and answer.status_code in NO_OVERWRITE:
                say(
                    f"the target cannot replace {table.dotted} at once: it is dropped and "
                    "registered again"
                )
                catalog.drop_table((*table.namespace, table.name), purge_requested=False)
                answer = catalogs.posted(catalog, path, body)
        if not answer.ok:
            raise errors.PipelineError(f"the target refused the copy: {answer.text[:300]}")


def opened(to: replicas.RestTarget, table: settings.TargetTable) -> RestDestination:
    """Return the destination of a copy. table: its name there."""
    keys = to.keys
    with catalogs.failures():
        catalog = catalogs.opened_at(
            to.uri, to.warehouse, access_key=keys.access_key, secret_key=keys.secret_key
        )
    configured = catalog.properties
    store = sources.client_at(
        endpoint=to.s3_endpoint or configured.get("s3.endpoint"),
        region=configured.get("client.region") or configured.get("s3.region"),
        access_key=keys.access_key,
        secret_key=keys.secret_key,
    )
    return RestDestination(catalog=catalog, store=store, to=to, table=table)
