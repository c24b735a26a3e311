"""Hostile requests to the Iceberg REST catalog, and what is kept of them, for `tests.campaign`."""

from __future__ import annotations

import gzip
import http.client
import json
import urllib.parse
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tests.kit import avrofiles, hostile_http, lakes, rest, s3, stalls

TIMEOUT_SECONDS: Final = 120
MIB: Final = stalls.MIB
Maker = Callable[[stalls.Target], bytes]


def ask(
    place: stalls.Target, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    """Send one request below the prefix `lake` as the row's principal."""
    token = _token(place)
    connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_SECONDS)
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        connection.request(method, f"/iceberg/v1/lake/{path}", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _token(place: stalls.Target) -> str:
    form = {
        "grant_type": "client_credentials",
        "client_id": place.access_key,
        "client_secret": place.secret_key,
    }
    connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/iceberg/v1/oauth/tokens", urllib.parse.urlencode(form))
        answer = json.loads(connection.getresponse().read())
        return str(answer["access_token"])
    finally:
        connection.close()


def fresh_table(place: stalls.Target, *, count: int = 1, **properties: str) -> list[Any]:
    """Make tables in the namespace alice, as root; return their names and metadata."""
    client = rest.Client(place.running)
    prefix = f"t{uuid.uuid4().hex[:8]}"
    with client:
        return [
            (f"{prefix}_{number}", client.make_table("alice", f"{prefix}_{number}", **properties))
            for number in range(count)
        ]


def sends(
    method: str, path: str, make: Maker, *, statuses: Sequence[int] = (200, 204)
) -> Callable[[stalls.Target], None]:
    """Return what sends one request. path: `{table}` is the table that was prepared."""

    def send(place: stalls.Target) -> None:
        table = place.prepared[0][0] if place.prepared else ""
        status, body = ask(place, method, path.format(table=table), make(place))
        assert status in statuses, (status, body[:500])

    return send


def commit_of(
    make: Callable[[Any], Sequence[Any]], *, statuses: Sequence[int] = (200,)
) -> Callable[[stalls.Target], None]:
    """Return what commits updates to the prepared table. make: from its metadata."""

    def body(place: stalls.Target) -> bytes:
        metadata = place.prepared[0][1]["metadata"]
        return msgspec.json.encode({"requirements": [], "updates": make(metadata)})

    return sends("POST", "namespaces/alice/tables/{table}", body, statuses=statuses)


def _fields(count: int, *, offset: int = 0) -> list[Any]:
    return [
        {"id": n + 1, "name": f"column_{n + offset}", "required": False, "type": "string"}
        for n in range(count)
    ]


def _schema_updates(count: int, fields: int) -> list[Any]:
    return [
        {"action": "add-schema", "schema": {"type": "struct", "fields": _fields(fields, offset=n)}}
        for n in range(count)
    ]


def _snapshots(metadata: Any, count: int) -> list[Any]:
    return [
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": n,
                "sequence-number": metadata["last-sequence-number"] + n,
                "timestamp-ms": metadata["last-updated-ms"] + n,
                "manifest-list": f"{metadata['location']}/metadata/snap-{n}.avro",
                "summary": {"operation": "append"},
                "schema-id": 0,
            },
        }
        for n in range(1, count + 1)
    ]


def snapshots_and_their_removal(place: stalls.Target) -> None:
    """4,000 snapshots and as many branches in one commit, then all gone in another."""
    name, table = place.prepared[0]
    count = 4_000
    branches = [
        {"action": "set-snapshot-ref", "ref-name": f"b{n}", "type": "branch", "snapshot-id": n}
        for n in range(1, count + 1)
    ]
    gone = [
        update
        for n in range(1, count + 1)
        for update in (
            {"action": "remove-snapshot-ref", "ref-name": f"b{n}"},
            {"action": "remove-snapshots", "snapshot-ids": [n]},
        )
    ]
    for updates in ([*_snapshots(table["metadata"], count), *branches], gone):
        body = msgspec.json.encode({"requirements": [], "updates": updates})
        status, answer = ask(place, "POST", f"namespaces/alice/tables/{name}", body)
        assert status == 200, answer[:500]


def snapshots_of_another_table(place: stalls.Target) -> bytes:
    """9,000 snapshots, each of which names a manifest list in another table's place."""
    other = place.prepared[1][1]["metadata"]
    updates = _snapshots(other, 9_000)
    return msgspec.json.encode({"requirements": [], "updates": updates})


def too_many_changes(place: stalls.Target) -> bytes:
    change = {
        "identifier": {"namespace": ["alice"], "name": place.prepared[0][0]},
        "requirements": [],
        "updates": [],
    }
    return msgspec.json.encode({"table-changes": [change] * 15_000})


def one_table_400_times(place: stalls.Target) -> bytes:
    name = place.prepared[0][0]
    return msgspec.json.encode(
        {
            "table-changes": [
                {
                    "identifier": {"namespace": ["alice"], "name": name},
                    "requirements": [],
                    "updates": [{"action": "set-properties", "updates": {f"p{n}": "v" * 100}}],
                }
                for n in range(400)
            ]
        }
    )


def many_tables(place: stalls.Target) -> bytes:
    return msgspec.json.encode(
        {
            "table-changes": [
                {
                    "identifier": {"namespace": ["alice"], "name": name},
                    "requirements": [],
                    "updates": [{"action": "set-properties", "updates": {"p": "v"}}],
                }
                for name, _ in place.prepared
            ]
        }
    )


def wide_table(place: stalls.Target) -> bytes:
    schema = {"type": "struct", "fields": _fields(10_000)}
    return msgspec.json.encode({"name": f"w{uuid.uuid4().hex[:8]}", "schema": schema})


def s3tables(body: bytes, *, status: int) -> Callable[[stalls.Target], None]:
    """Return what sends a CreateTableBucket with this body."""

    def send(place: stalls.Target) -> None:
        headers = hostile_http.signed_headers(
            place, "PUT", "/buckets", body, service="s3tables", secret_key=place.secret_key
        )
        answer = s3.send(place, "PUT", "/buckets", headers, body)
        assert answer.status == status, answer.body[:500]

    return send


def put(place: stalls.Target, path: str, body: bytes) -> None:
    answer = s3.call(place, "PUT", "/" + path, body=body)
    assert answer.status == 200, answer.body[:500]


def long_list_of_loads(place: stalls.Target) -> list[Any]:
    loads = [{"source": f"s3://plain/in/{n:07}.parquet", "etag": "e"} for n in range(100_000)]
    put(place, "plain/loads.json", msgspec.json.encode(loads))
    return fresh_table(place)


def take_long_list(metadata: Any) -> list[Any]:
    (update,) = _snapshots(metadata, 1)
    update["snapshot"]["summary"]["boathouse.loads"] = '{"object": "s3://plain/loads.json"}'
    return [update]


def large_metadata(place: stalls.Target) -> list[Any]:
    """A registered table whose metadata file has 30 MiB of snapshots."""
    (name, table) = fresh_table(place)[0]
    metadata = table["metadata"]
    snapshot = _snapshots(metadata, 1)[0]["snapshot"]
    snapshot["summary"]["note"] = "x" * 700
    metadata["snapshots"] = [{**snapshot, "snapshot-id": n} for n in range(1, 30_001)]
    metadata["current-snapshot-id"] = 30_000
    metadata["last-sequence-number"] = 1
    metadata["refs"] = {"main": {"snapshot-id": 30_000, "type": "branch"}}
    location = f"{metadata['location']}/metadata/00001-{uuid.uuid4()}.metadata.json"
    put(place, location.removeprefix("s3://"), msgspec.json.encode(metadata))
    with rest.Client(place.running) as client:
        status, _ = client.ask("POST", f"namespaces/alice/tables/{name}/unregister", {})
        assert status == 200
        request = {"name": name, "metadata-location": location}
        status, answer = client.ask("POST", "namespaces/alice/register", request)
        assert status == 200, answer
    return [(name, {"metadata": {**metadata, "snapshots": []}})]


def load_and_commit_large(place: stalls.Target) -> None:
    name = place.prepared[0][0]
    path = f"namespaces/alice/tables/{name}"
    update = {"action": "set-properties", "updates": {"a": uuid.uuid4().hex}}
    body = msgspec.json.encode({"requirements": [], "updates": [update]})
    for method, query, content in (
        ("GET", "", None),
        ("GET", "?snapshots=refs", None),
        ("POST", "", body),
        ("GET", "?snapshots=refs", None),
    ):
        status, answer = ask(place, method, path + query, content)
        assert status == 200, answer[:500]


def lists() -> bytes:
    """Return 13,000,001 empty lists in 37 MiB of JSON, or in 40 KB of gzip."""
    return b"[" + b"[]," * 13_000_000 + b"[]]"


def metadata_with(name: str, value: Callable[[], bytes]) -> Callable[[Any], bytes]:
    """Return what makes JSON of a table's metadata with one field replaced."""
    return lambda metadata: msgspec.json.encode({**metadata, name: msgspec.Raw(value())})


def _listed() -> bytes:
    return b'[{"type":"struct","schema-id":0,"snapshot-id":1,"fields":[],"x":' + lists() + b"}]"


def _listed_in_1_mib() -> bytes:
    return b'[{"order-id":0,"fields":[' + b"[]," * 340_000 + b"[]]}]"


def _many_properties() -> bytes:
    return msgspec.json.encode({str(number): "" for number in range(2_000_000)})


def _many_snapshots() -> bytes:
    return b"[" + b",".join(b'{"snapshot-id":%d}' % number for number in range(1_000_000)) + b"]"


def many_wide_schemas() -> bytes:
    """55 schemas of 10,000 fields each, in 34 MiB."""
    fields = _fields(10_000)
    return msgspec.json.encode(
        [{"type": "struct", "schema-id": number, "fields": fields} for number in range(55)]
    )


def foreign_metadata(
    make: Callable[[Any], bytes], *, suffix: str = ".metadata.json"
) -> Callable[[stalls.Target], list[Any]]:
    """Return what puts a metadata file below a table's location and forgets the table.

    Prepared are the table's name, and the file's location.
    """

    def prepare(place: stalls.Target) -> list[Any]:
        (name, table) = fresh_table(place)[0]
        metadata = table["metadata"]
        location = f"{metadata['location']}/metadata/00001-{uuid.uuid4()}{suffix}"
        data = make(metadata)
        put(place, location.removeprefix("s3://"), gzip.compress(data) if ".gz" in suffix else data)
        with rest.Client(place.running) as client:
            status, _ = client.ask("POST", f"namespaces/alice/tables/{name}/unregister", {})
            assert status == 200
        return [(name, location)]

    return prepare


def register(place: stalls.Target) -> None:
    """Register the prepared file, which is refused."""
    name, location = place.prepared[0]
    request = msgspec.json.encode({"name": name, "metadata-location": location})
    status, answer = ask(place, "POST", "namespaces/alice/register", request)
    assert status == 400, (status, answer[:500])


def register_and_load(place: stalls.Target) -> None:
    """Register the prepared file, and load and change its table."""
    name, location = place.prepared[0]
    path = f"namespaces/alice/tables/{name}"
    update = {"action": "set-properties", "updates": {"a": "b"}}
    for method, target, content in (
        ("POST", "namespaces/alice/register", {"name": name, "metadata-location": location}),
        ("GET", path, None),
        ("POST", path, {"requirements": [], "updates": [update]}),
        ("GET", path + "?snapshots=refs", None),
    ):
        body = None if content is None else msgspec.json.encode(content)
        status, answer = ask(place, method, target, body)
        assert status == 200, (status, answer[:500])


def fresh_view(place: stalls.Target) -> list[Any]:
    """Make a view in the namespace alice, as root; return its name and metadata."""
    name = f"v{uuid.uuid4().hex[:8]}"
    view = {"name": name, "schema": lakes.SCHEMA, "view-version": lakes.VIEW_VERSION}
    with rest.Client(place.running) as client:
        client.ask("POST", "namespaces", {"namespace": ["alice"]})
        status, created = client.ask("POST", "namespaces/alice/views", view)
        assert status == 200, created
    return [(name, created)]


def versions_with_schemas(place: stalls.Target) -> bytes:
    """500 schemas and as many versions of one view, each with 20 dialects."""
    updates: list[Any] = []
    for number in range(500):
        texts = [
            {"type": "sql", "sql": f"select {number}", "dialect": f"d{dialect}"}
            for dialect in range(20)
        ]
        version = {**lakes.VIEW_VERSION, "version-id": number + 2, "schema-id": -1}
        version["representations"] = [*lakes.VIEW_VERSION["representations"], *texts]
        updates += _schema_updates(1, 5)
        updates[-1]["schema"]["fields"][0]["name"] = f"n{number}"
        updates.append({"action": "add-view-version", "view-version": version})
    return msgspec.json.encode({"requirements": [], "updates": updates})


def view_metadata_of_lists(place: stalls.Target) -> list[Any]:
    """Put metadata of a view, 2 MiB of empty lists, below the location of one that was dropped."""
    name, created = fresh_view(place)[0]
    metadata = created["metadata"]
    metadata["versions"][0]["x"] = msgspec.Raw(b"[" + b"[]," * 690_000 + b"[]]")
    location = f"{metadata['location']}/metadata/00001-{uuid.uuid4()}.metadata.json"
    put(place, location.removeprefix("s3://"), msgspec.json.encode(metadata))
    with rest.Client(place.running) as client:
        assert client.ask("DELETE", f"namespaces/alice/views/{name}")[0] == 204
    return [(name, location)]


def register_view(place: stalls.Target) -> None:
    """Register the prepared file, which is refused."""
    name, location = place.prepared[0]
    request = msgspec.json.encode({"name": name, "metadata-location": location})
    status, answer = ask(place, "POST", "namespaces/alice/register-view", request)
    assert status == 400, (status, answer[:500])


def many_names(place: stalls.Target) -> None:
    with rest.Client(place.running) as client:
        for number in range(2_000):
            client.ask("POST", "namespaces", {"namespace": ["alice", f"n{number:05}"]})


def list_names(place: stalls.Target) -> None:
    for query in ("", "&pageToken=&pageSize=10000"):
        status, answer = ask(place, "GET", f"namespaces?parent=alice{query}")
        assert status == 200, answer[:500]


def hostile_list(name: str) -> Callable[[stalls.Target], list[Any]]:
    """Return what makes a table whose current snapshot has this hostile manifest list."""

    def prepare(place: stalls.Target) -> list[Any]:
        (table, created) = fresh_table(place)[0]
        metadata = created["metadata"]
        updates = [
            *_snapshots(metadata, 1),
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": 1,
            },
        ]
        location = updates[0]["snapshot"]["manifest-list"].removeprefix("s3://")
        put(place, location, avrofiles.hostile_lists()[name]())
        with rest.Client(place.running) as client:
            status, answer = client.commit("alice", table, updates)
            assert status == 200, answer
        # The first statement of all starts the SQL face, which is not what is measured here.
        query(place, "select 1")
        return [(table, created)]

    return prepare


def select(place: stalls.Target) -> None:
    """Query the prepared table by SQL; whatever the answer says, it comes."""
    query(place, f"select * from {place.prepared[0][0]}")


def query(place: stalls.Target, statement: str) -> None:
    data = {
        "data": {
            "LOGIN_NAME": place.access_key,
            "PASSWORD": place.secret_key,
            "ACCOUNT_NAME": "local",
        }
    }
    session = _sql(place, "/session/v1/login-request?databaseName=lake&schemaName=alice", data, "")
    text = {"sqlText": statement, "sequenceId": 1}
    path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
    _sql(place, path, text, session["data"]["token"])


def _sql(place: stalls.Target, path: str, value: Any, token: str) -> Any:
    connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_SECONDS)
    headers = {"content-type": "application/json", "accept": "application/json"}
    if token:
        headers["authorization"] = f'Snowflake Token="{token}"'
    try:
        connection.request("POST", path, json.dumps(value), headers)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:500]
        return json.loads(body)
    finally:
        connection.close()


def _json(text: bytes) -> Maker:
    return lambda place: text


COMMIT: Final = "namespaces/alice/tables/{table}"
VIEW: Final = "namespaces/alice/views/{table}"

ROWS: Final = (
    stalls.Hostile(
        name="1000-schemas-in-one-commit",
        principal="alice",
        growth_mib=64,
        prepare=fresh_table,
        send=commit_of(lambda _: _schema_updates(990, 10)),
    ),
    stalls.Hostile(
        name="one-schema-of-10000-fields",
        principal="alice",
        growth_mib=96,
        prepare=fresh_table,
        send=commit_of(lambda _: _schema_updates(1, 10_000)),
    ),
    stalls.Hostile(
        name="a-new-table-of-10000-fields",
        principal="alice",
        growth_mib=96,
        prepare=fresh_table,
        send=sends("POST", "namespaces/alice/tables", wide_table),
    ),
    stalls.Hostile(
        name="25000-updates-of-properties",
        principal="alice",
        growth_mib=64,
        prepare=fresh_table,
        send=commit_of(
            lambda _: [
                {"action": "set-properties", "updates": {f"p{n % 9_000}": str(n)}}
                for n in range(25_000)
            ]
        ),
    ),
    stalls.Hostile(
        name="100000-updates-of-properties",
        principal="alice",
        growth_mib=64,
        prepare=fresh_table,
        send=commit_of(
            lambda _: [{"action": "set-properties", "updates": {"p": ""}}] * 100_000,
            statuses=(400,),
        ),
    ),
    stalls.Hostile(
        name="7-MiB-of-properties",
        principal="alice",
        growth_mib=128,
        prepare=fresh_table,
        send=commit_of(
            lambda _: [
                {"action": "set-properties", "updates": {str(n): "\n" * 350 for n in range(9_900)}}
            ]
        ),
    ),
    stalls.Hostile(
        name="400-changes-of-one-table-in-a-transaction",
        principal="alice",
        growth_mib=32,
        prepare=fresh_table,
        send=sends("POST", "transactions/commit", one_table_400_times),
    ),
    stalls.Hostile(
        name="500-tables-in-a-transaction",
        principal="alice",
        growth_mib=96,
        prepare=lambda place: fresh_table(place, count=500),
        send=sends("POST", "transactions/commit", many_tables),
    ),
    stalls.Hostile(
        name="4000-snapshots-and-branches-and-their-removal",
        principal="alice",
        growth_mib=96,
        prepare=fresh_table,
        send=snapshots_and_their_removal,
    ),
    stalls.Hostile(
        name="9000-snapshots-of-another-tables-files",
        principal="alice",
        growth_mib=96,
        prepare=lambda place: fresh_table(place, count=2),
        send=sends("POST", COMMIT, snapshots_of_another_table),
    ),
    stalls.Hostile(
        name="15000-changes-in-a-transaction",
        principal="alice",
        growth_mib=64,
        prepare=fresh_table,
        send=sends("POST", "transactions/commit", too_many_changes, statuses=(400,)),
    ),
    stalls.Hostile(
        name="500-schemas-and-versions-of-a-view",
        principal="alice",
        growth_mib=64,
        prepare=fresh_view,
        send=sends("POST", VIEW, versions_with_schemas),
    ),
    stalls.Hostile(
        name="1-MiB-of-empty-lists-in-a-version-of-a-view",
        principal="alice",
        growth_mib=40,
        prepare=fresh_view,
        send=sends(
            "POST",
            VIEW,
            _json(b'{"updates":[{"a":[' + b"[]," * (MIB // 3 - 20) + b"[]]}]}"),
            statuses=(400,),
        ),
    ),
    stalls.Hostile(
        name="metadata-of-2-MiB-of-lists-to-be-registered-as-a-view",
        principal="alice",
        growth_mib=40,
        prepare=view_metadata_of_lists,
        send=register_view,
    ),
    stalls.Hostile(
        name="8-MiB-of-empty-lists",
        principal="alice",
        growth_mib=40,
        prepare=fresh_table,
        send=sends(
            "POST",
            COMMIT,
            _json(b'{"a":[' + b"[]," * (8 * MIB // 3 - 10) + b"[]]}"),
            statuses=(400,),
        ),
    ),
    stalls.Hostile(
        name="150000-values-of-no-meaning",
        principal="alice",
        growth_mib=64,
        prepare=fresh_table,
        send=sends(
            "POST",
            COMMIT,
            _json(b'{"updates":[' + b"[]," * 74_000 + b'[]],"requirements":[]}'),
            statuses=(400,),
        ),
    ),
    stalls.Hostile(
        name="32-MiB-to-an-operation-that-names-a-table",
        principal="alice",
        growth_mib=40,
        prepare=fresh_table,
        send=sends("POST", "tables/rename", _json(b"[" * (32 * MIB - 1)), statuses=(413,)),
    ),
    stalls.Hostile(
        name="lists-nested-100000-deep",
        principal="alice",
        growth_mib=16,
        prepare=fresh_table,
        send=sends("POST", COMMIT, _json(b"[" * 100_000 + b"]" * 100_000), statuses=(400,)),
    ),
    stalls.Hostile(
        name="100000-sources-taken-in",
        principal=stalls.ROOT,
        growth_mib=256,
        prepare=long_list_of_loads,
        send=commit_of(take_long_list),
    ),
    stalls.Hostile(
        name="30-MiB-of-metadata-loaded-and-changed",
        principal="alice",
        growth_mib=512,
        prepare=large_metadata,
        send=load_and_commit_large,
    ),
    *(
        stalls.Hostile(
            name=f"metadata-of-{name}-to-be-registered",
            principal="alice",
            growth_mib=128,
            prepare=foreign_metadata(metadata_with(field, value), suffix=suffix),
            send=register,
        )
        for name, field, value, suffix in (
            ("40-KB-that-unpack-to-13-million-lists", "schemas", _listed, ".gz.metadata.json"),
            ("13-million-lists-beside-the-fields", "schemas", _listed, ".metadata.json"),
            ("350000-lists", "sort-orders", _listed_in_1_mib, ".metadata.json"),
            ("2-million-properties", "properties", _many_properties, ".metadata.json"),
            ("1-snapshot-of-13-million-lists", "snapshots", _listed, ".metadata.json"),
            ("1-million-snapshots", "snapshots", _many_snapshots, ".metadata.json"),
        )
    ),
    stalls.Hostile(
        name="55-schemas-of-10000-fields-registered-loaded-and-changed",
        principal="alice",
        growth_mib=640,
        prepare=foreign_metadata(metadata_with("schemas", many_wide_schemas)),
        send=register_and_load,
    ),
    stalls.Hostile(
        name="1-MiB-of-empty-lists-to-s3tables",
        principal=stalls.ROOT,
        growth_mib=32,
        send=s3tables(
            b'{"name":"a-bucket","tags":[' + b"[]," * (MIB // 3 - 20) + b"[]]}", status=400
        ),
    ),
    stalls.Hostile(
        name="70000-tags-to-s3tables",
        principal=stalls.ROOT,
        growth_mib=64,
        send=s3tables(
            b'{"name":"a-bucket","tags":{'
            + b",".join(b'"%d":""' % n for n in range(70_000))
            + b"}}",
            status=400,
        ),
    ),
    stalls.Hostile(
        name="2000-namespaces-listed-whole",
        principal=stalls.ROOT,
        growth_mib=16,
        prepare=many_names,
        send=list_names,
    ),
    *(
        stalls.Hostile(
            name=f"a-manifest-list-of-{name.replace(' ', '-').replace(',', '')}",
            principal="alice",
            growth_mib=300,
            prepare=hostile_list(name),
            send=select,
        )
        for name in (
            "400,000 records in 2 KiB of xz",
            "250 MB in 250 KiB of deflate",
            "items of one byte and 500 nulls",
            "names that nest to 2^40 types",
        )
    ),
)
