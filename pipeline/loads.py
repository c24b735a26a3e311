"""engine: the server's record of which source objects a table has loaded.

The server keeps one row per source, written in the transaction that commits the rows' snapshot and
outliving that snapshot. The snapshot's summary carries the list; a long list is an object that the
summary names.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pipeline import errors, jobs, settings, sources

SUMMARY_KEY = "boathouse.loads"
MODE_KEY = "boathouse.loads.mode"
ALREADY_TAKEN = "already taken in"
"""What the server's refusal says when the table has a source of the load."""
INLINE_MAX = 100
TRANSFORMS = "transforms"
LISTS_BUCKET = "boathouse-loads"
TIMEOUT_SECONDS = 30


def token(server: settings.ServerEndpoint) -> str:
    """Return an OAuth token for the server. Raises NoServer."""
    if server.bearer:
        return server.bearer
    form = urllib.parse.urlencode(
        {
            "grant_type": "client_credentials",
            "client_id": server.access_key,
            "client_secret": server.secret_key,
        }
    ).encode()
    answer = _ask(urllib.request.Request(f"{server.iceberg}/v1/oauth/tokens", data=form))
    return str(answer["access_token"])


def taken(server: settings.ServerEndpoint, table: settings.TargetTable) -> set[tuple[str, str]]:
    """Return (place, ETag) of every source the table has loaded; empty if the table does not exist.

    Raises BadArgument if the warehouse does not exist, NoServer.
    """
    bearer = token(server)
    pairs: set[tuple[str, str]] = set()
    after = ""
    while True:
        query = urllib.parse.urlencode({"table": table.dotted, "after": after})
        warehouse = urllib.parse.quote(table.warehouse, safe="")
        request = urllib.request.Request(
            f"{server.url}/_api/v1/warehouses/{warehouse}/loads?{query}",
            headers={"Authorization": f"Bearer {bearer}"},
        )
        answer = _ask(request, table=table)
        pairs.update((row["source"], row["etag"]) for row in answer["loads"])
        after = answer.get("next") or ""
        if not after:
            return pairs


def content(
    server: settings.ServerEndpoint, table: settings.TargetTable, s3: Any
) -> set[tuple[str, str]] | None:
    """Return (place, ETag) of the sources whose rows are the table's whole content.

    None if that is not certain. It is certain if a replacing load wrote the current snapshot, or a
    snapshot followed only by compactions. Raises BadArgument if the warehouse does not exist,
    NoServer.
    """
    own = metadata(server, table)
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in own.get("snapshots", ())}
    snapshot = by_id.get(own.get("current-snapshot-id"))
    # Iceberg's "replace" is a snapshot with the same rows in other files.
    while snapshot is not None and snapshot["summary"].get("operation") == "replace":
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
    if snapshot is None or snapshot["summary"].get(MODE_KEY) != "replace":
        return None
    rows = json.loads(snapshot["summary"][SUMMARY_KEY])
    if isinstance(rows, dict):
        bucket, _, key = str(rows["object"]).removeprefix("s3://").partition("/")
        try:
            rows = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        except s3.exceptions.ClientError:
            return None
    return {(row["source"], row["etag"]) for row in rows}


def columns(server: settings.ServerEndpoint, table: settings.TargetTable) -> dict[str, Any]:
    """Return the columns of a table: Iceberg types by name. Raises BadArgument, NoServer."""
    types = columns_if_any(server, table)
    if not types:
        raise errors.BadArgument(f"there is no table {table.full}")
    return types


def columns_if_any(server: settings.ServerEndpoint, table: settings.TargetTable) -> dict[str, Any]:
    """Return the columns of a table: Iceberg types by name; none if it does not exist."""
    own = metadata(server, table)
    for schema in own.get("schemas", ()):
        if schema["schema-id"] == own["current-schema-id"]:
            return {column["name"]: column["type"] for column in schema["fields"]}
    return {}


def metadata(server: settings.ServerEndpoint, table: settings.TargetTable) -> Any:
    """Return a table's metadata; none of it if the table does not exist. Raises as `loaded`."""
    return loaded(server, table).get("metadata", {})


def loaded(server: settings.ServerEndpoint, table: settings.TargetTable) -> Any:
    """Return the catalog's answer to a load of the table; without metadata if it does not exist.

    Raises BadArgument if the warehouse does not exist, NoServer.
    """
    return _entry(server, table, "tables")


def check_table(server: settings.ServerEndpoint, table: settings.TargetTable) -> None:
    """Raise BadArgument unless the table exists; NoServer."""
    if "metadata" not in _entry(server, table, "tables", query="?snapshots=refs"):
        raise errors.BadArgument(f"there is no table {table.full}")


def view_metadata(server: settings.ServerEndpoint, view: settings.TargetTable) -> Any:
    """Return a view's metadata; none of it if the view does not exist. Raises as `loaded`."""
    return _entry(server, view, "views").get("metadata", {})


def _entry(
    server: settings.ServerEndpoint,
    table: settings.TargetTable,
    collection: Literal["tables", "views"],
    query: str = "",
) -> Any:
    config = urllib.parse.urlencode({"warehouse": table.warehouse})
    config_answer = _ask(_request(server, f"/iceberg/v1/config?{config}"), table=table)
    prefix = {**config_answer["defaults"], **config_answer["overrides"]}.get(
        "prefix", table.warehouse
    )
    parts = (prefix, "namespaces", "\x1f".join(table.namespace), collection, table.name)
    path = "/".join(urllib.parse.quote(part, safe="") for part in parts)
    return _ask(_request(server, f"/iceberg/v1/{path}{query}"), table=table)


def _request(server: settings.ServerEndpoint, path: str) -> urllib.request.Request:
    return urllib.request.Request(
        server.url + path, headers={"Authorization": f"Bearer {token(server)}"}
    )


def of_transforms(load: jobs.Load) -> tuple[tuple[str, str], ...]:
    """Return the (name, digest) that stands beside a replacing load's sources, for its transforms.

    With it a load whose transforms have changed replaces the table again.
    """
    digest = load.digest
    return () if digest is None or load.mode != "replace" else ((TRANSFORMS, digest),)


def summary(
    s3: Any,
    read: Sequence[sources.Source],
    load: jobs.Load,
    *,
    load_id: str,
    claims: Iterable[tuple[str, str]] = (),
) -> dict[str, str]:
    """Return the snapshot summary entries that name the sources of a load, and its other claims.

    The server knows two modes: a merge adds its sources to the table's, as an append does.
    """
    mode = "replace" if load.mode == "replace" else "append"
    pairs = [*((source.place, source.etag) for source in read), *claims, *of_transforms(load)]
    rows = [{"source": source, "etag": etag} for source, etag in pairs]
    if len(rows) <= INLINE_MAX:
        return {SUMMARY_KEY: json.dumps(rows), MODE_KEY: mode}
    key = f"{load_id}.json"
    with sources.asking():
        create_lists_bucket(s3)
        s3.put_object(Bucket=LISTS_BUCKET, Key=key, Body=json.dumps(rows).encode())
    return {SUMMARY_KEY: json.dumps({"object": f"s3://{LISTS_BUCKET}/{key}"}), MODE_KEY: mode}


def create_lists_bucket(s3: Any) -> None:
    """Create the bucket of what loads store beside their tables, unless it is there."""
    with contextlib.suppress(
        s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists
    ):
        s3.create_bucket(Bucket=LISTS_BUCKET)


def _ask(request: urllib.request.Request, *, table: settings.TargetTable | None = None) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")[:300]
        if error.code == 404 and table is not None:
            if "NoSuchWarehouseException" not in text:
                return {"loads": [], "next": None}
            raise errors.BadArgument(f"there is no table bucket {table.warehouse!r}") from error
        if error.code == 401:
            raise errors.NoServer(
                f"the server at {request.host} refuses the keys: the access key or the secret key "
                "is wrong; BOATHOUSE_ACCESS_KEY and BOATHOUSE_SECRET_KEY name another pair"
            ) from error
        raise errors.NoServer(
            f"the server refused {request.full_url}: {error.code} {text}"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise errors.NoServer(f"no server answers at {request.full_url}: {error}") from error
