"""Whose a location is, asked of a running server by users with different rights.

A location belongs to the table that has it or had it last. Every way to name a location needs the
rights on that table's files, whatever has become of the table, its name and its namespace.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from tests.kit import lakes, rest, server, users

CREATE = [{"type": "assert-create"}]


class SharedServer:
    """A server with the five users, and one client for each."""

    def __init__(self, running: server.Running) -> None:
        self.running = running
        self._tokens: dict[str, str] = {}
        for name in ("alice", "bob"):
            assert self.root.ask("POST", "namespaces", {"namespace": [name]})[0] == 200

    @property
    def root(self) -> rest.Client:
        return self.user("root")

    def user(self, name: str) -> rest.Client:
        """A client on a fresh connection: an idle one may have been closed by the server."""
        running = self.running
        if name != "root":
            keys = {"access_key": users.access_key(name), "secret_key": users.secret_key(name)}
            running = dataclasses.replace(running, **keys)
        client = rest.Client(running, token=self._tokens.get(name))
        self._tokens[name] = client.token
        return client

    def s3(self, name: str = "root") -> Any:
        keys = (self.running.access_key, self.running.secret_key)
        if name != "root":
            keys = (users.access_key(name), users.secret_key(name))
        return boto3.client(
            "s3",
            endpoint_url=self.running.url,
            region_name="us-east-1",
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            config=botocore.config.Config(
                s3={"addressing_style": "path"}, retries={"max_attempts": 0}
            ),
        )

    def point(
        self, user: str, namespace: str, name: str, metadata_location: str
    ) -> tuple[int, Any]:
        """UpdateTableMetadataLocation of a table, whatever it pointed to: status and answer."""
        where = {
            "tableBucketARN": "arn:aws:s3tables:us-east-1:000000000000:bucket/lake",
            "namespace": namespace,
            "name": name,
        }
        token = self._s3tables("root").get_table(**where)["versionToken"]
        try:
            answer = self._s3tables(user).update_table_metadata_location(
                **where, versionToken=token, metadataLocation=metadata_location
            )
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]
        return 200, answer

    def _s3tables(self, name: str) -> Any:
        keys = (self.running.access_key, self.running.secret_key)
        if name != "root":
            keys = (users.access_key(name), users.secret_key(name))
        return boto3.client(
            "s3tables",
            endpoint_url=self.running.url,
            region_name="us-east-1",
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            config=botocore.config.Config(retries={"max_attempts": 0}),
        )

    def make(self, namespace: str, name: str, user: str | None = None, **more: Any) -> Any:
        status, created = self.user(user or namespace).ask(
            "POST",
            f"namespaces/{namespace}/tables",
            {"name": name, "schema": rest.SCHEMA, **more},
        )
        assert status == 200, created
        return created

    def gone(self, name: str, *, way: str = "drop") -> Any:
        """Make a table of bob's with a data file, take it away, and return what it was."""
        created = self.make("bob", name)
        key = f"bob/{name}/data/f.parquet"
        self.s3("bob").put_object(Bucket="lake", Key=key, Body=b"rows of bob's")
        if way == "drop":
            status, _ = self.user("bob").ask("DELETE", f"namespaces/bob/tables/{name}")
            assert status == 204
        else:
            status, _ = self.user("bob").ask("POST", f"namespaces/bob/tables/{name}/unregister")
            assert status == 200
        return created


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    folder = tmp_path_factory.mktemp("places")
    running = server.start(folder / "data", "--config", str(users.write_settings(folder)))
    try:
        yield SharedServer(running)
    finally:
        running.stop()


def name_of(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:8]}"


# Every way to name a location: each returns the status and the answer.


def create(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    body = {"name": name_of("c"), "schema": rest.SCHEMA, "location": location}
    return shared.user(user).ask("POST", "namespaces/alice/tables", body)


def stage(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    body = {"name": name_of("s"), "schema": rest.SCHEMA, "location": location, "stage-create": True}
    return shared.user(user).ask("POST", "namespaces/alice/tables", body)


def creation_of(location: str) -> list[dict[str, Any]]:
    return [
        {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": rest.SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]


def create_by_commit(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    return shared.user(user).commit("alice", name_of("cc"), creation_of(location), CREATE)


def create_by_transaction(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    change = {
        "identifier": {"namespace": ["alice"], "name": name_of("ct")},
        "requirements": CREATE,
        "updates": creation_of(location),
    }
    return shared.user(user).ask("POST", "transactions/commit", {"table-changes": [change]})


def set_location(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    name = name_of("l")
    shared.make("alice", name, user="alice")
    updates = [{"action": "set-location", "location": location}]
    return shared.user(user).commit("alice", name, updates)


def set_location_by_transaction(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    name = name_of("lt")
    shared.make("alice", name, user="alice")
    change = {
        "identifier": {"namespace": ["alice"], "name": name},
        "requirements": [],
        "updates": [{"action": "set-location", "location": location}],
    }
    return shared.user(user).ask("POST", "transactions/commit", {"table-changes": [change]})


def register(shared: SharedServer, user: str, location: str, **more: Any) -> tuple[int, Any]:
    """Register the metadata file that lies in the location already."""
    key = location.removeprefix("s3a://").removeprefix("s3://").rstrip("/").partition("/")[2]
    listed = shared.s3().list_objects_v2(Bucket="lake", Prefix=f"{key}/metadata/")["Contents"]
    uri = f"s3://lake/{listed[0]['Key']}"
    body = {"name": name_of("r"), "metadata-location": uri, **more}
    return shared.user(user).ask("POST", "namespaces/alice/register", body)


WAYS = (
    create,
    stage,
    create_by_commit,
    create_by_transaction,
    set_location,
    set_location_by_transaction,
    register,
)
Way = Callable[[SharedServer, str, str], tuple[int, Any]]


@pytest.mark.parametrize("user", ["alice", "dave"])
@pytest.mark.parametrize("removal", ["drop", "unregister"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_location_of_a_table_that_is_gone_is_refused_to_who_may_not_read_its_files(
    shared: SharedServer, way: Way, removal: str, user: str
) -> None:
    name = name_of("gone")
    before = shared.gone(name, way=removal)
    status, answer = way(shared, user, f"s3://lake/bob/{name}")
    assert (status, answer["error"]["type"]) == (403, "ForbiddenException"), answer
    # Nothing was taken: the owner has his table back as it was, under any name.
    body = {"name": name_of("back"), "metadata-location": before["metadata-location"]}
    status, back = shared.user("bob").ask("POST", "namespaces/bob/register", body)
    assert status == 200, back
    assert back["metadata"] == before["metadata"]
    read = shared.s3("bob").get_object(Bucket="lake", Key=f"bob/{name}/data/f.parquet")
    assert read["Body"].read() == b"rows of bob's"
    with pytest.raises(ClientError, match="AccessDenied"):
        shared.s3(user).get_object(Bucket="lake", Key=f"bob/{name}/data/f.parquet")


def new_view(name: str) -> dict[str, Any]:
    return {"name": name, "schema": lakes.SCHEMA, "view-version": lakes.VIEW_VERSION}


def create_view(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    body = {**new_view(name_of("v")), "location": location}
    return shared.user(user).ask("POST", "namespaces/alice/views", body)


def set_location_of_view(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    name = name_of("vl")
    status, created = shared.user("alice").ask("POST", "namespaces/alice/views", new_view(name))
    assert status == 200, created
    body = {"updates": [{"action": "set-location", "location": location}]}
    return shared.user(user).ask("POST", f"namespaces/alice/views/{name}", body)


def register_view(shared: SharedServer, user: str, location: str) -> tuple[int, Any]:
    """Register a view's file that lies in the location already."""
    _, created = shared.root.ask("POST", "namespaces/alice/views", new_view(name_of("vr")))
    key = location.removeprefix("s3://lake/") + f"/metadata/{name_of('v')}.metadata.json"
    content = {**created["metadata"], "location": location, "view-uuid": str(uuid.uuid4())}
    shared.s3().put_object(Bucket="lake", Key=key, Body=json.dumps(content).encode())
    body = {"name": name_of("r"), "metadata-location": f"s3://lake/{key}"}
    return shared.user(user).ask("POST", "namespaces/alice/register-view", body)


@pytest.mark.parametrize("user", ["alice", "dave"])
@pytest.mark.parametrize("removal", ["drop", "unregister"])
@pytest.mark.parametrize("way", [create_view, set_location_of_view, register_view])
def test_a_location_of_a_table_that_is_gone_is_no_views_of_who_may_not_read_its_files(
    shared: SharedServer, way: Way, removal: str, user: str
) -> None:
    name = name_of("gone")
    before = shared.gone(name, way=removal)
    status, answer = way(shared, user, f"s3://lake/bob/{name}")
    assert (status, answer["error"]["type"]) == (403, "ForbiddenException"), answer
    body = {"name": name, "metadata-location": before["metadata-location"]}
    assert shared.user("bob").ask("POST", "namespaces/bob/register", body)[0] == 200


@pytest.mark.parametrize("way", WAYS[:-1], ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("s3a://lake/bob/{name}", 403),
        ("s3n://lake/bob/{name}/", 403),
        ("s3://lake/bob/{name}/", 403),
        ("s3://lake/bob/{name}/data", 403),
        ("s3://lake/bob/{name}/data/x=1/y", 403),
        ("s3://lake/bob", 400),
        ("s3://lake", 400),
        ("s3://other/bob/{name}", 400),
        ("s3://lake/alice/../bob/{name}", 400),
        ("s3://lake//bob/{name}", 400),
        ("S3://lake/bob/{name}", 400),
        ("/lake/bob/{name}", 400),
        ("http://127.0.0.1/lake/bob/{name}", 400),
    ],
)
def test_no_spelling_of_a_location_goes_around_its_owner(
    shared: SharedServer, way: Way, form: str, status: int
) -> None:
    name = name_of("gone")
    shared.gone(name)
    answer = way(shared, "alice", form.format(name=name))
    assert answer[0] == status, answer


@pytest.mark.parametrize("way", WAYS[:-1], ids=lambda way: way.__name__)
def test_a_location_around_a_table_that_is_gone_is_refused(shared: SharedServer, way: Way) -> None:
    name = name_of("deep")
    shared.make("bob", name, user="root", location=f"s3://lake/bob/{name}/a/b")
    assert shared.user("bob").ask("DELETE", f"namespaces/bob/tables/{name}")[0] == 204
    for user in ("alice", "bob", "root"):
        if user == "bob":
            continue
        status, answer = way(shared, user, f"s3://lake/bob/{name}")
        assert (status, answer["error"]["type"]) == (400, "ValidationException"), answer


def test_percent_signs_in_a_location_are_letters_and_open_no_other_place(
    shared: SharedServer,
) -> None:
    name = name_of("gone")
    shared.gone(name)
    status, answer = create(shared, "alice", f"s3://lake/bob/%67{name[1:]}")
    assert status == 200, answer
    assert answer["metadata"]["location"] == f"s3://lake/bob/%67{name[1:]}"
    with pytest.raises(ClientError, match="AccessDenied"):
        shared.s3("alice").get_object(Bucket="lake", Key=f"bob/{name}/data/f.parquet")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_rights_on_a_dropped_table_allow_reuse_of_its_location(
    shared: SharedServer, way: Way
) -> None:
    name = name_of("gone")
    shared.gone(name)
    status, answer = way(shared, "root", f"s3://lake/bob/{name}")
    assert status in (200, 204), answer


@pytest.mark.parametrize(
    "name", ["write.data.path", "write.metadata.path", "write.object-storage.path",
             "write.folder-storage.path", "flink.manifests.location"]
)  # fmt: skip
def test_no_property_sends_writers_to_files_of_another_table(
    shared: SharedServer, name: str
) -> None:
    table = name_of("gone")
    shared.gone(table)
    mine = name_of("p")
    created = shared.make("alice", mine)
    for place in ("data", "metadata"):
        for home in (
            f"s3://lake/bob/{table}",
            f"{created['metadata']['location']}/../../bob/{table}",
        ):
            value = f"{home}/{place}"
            updates = [{"action": "set-properties", "updates": {name: value}}]
            status, answer = shared.user("alice").commit("alice", mine, updates)
            assert (status, answer["error"]["type"]) == (400, "ValidationException"), answer
            body = {"name": name_of("q"), "schema": rest.SCHEMA, "properties": {name: value}}
            status, _ = shared.user("alice").ask("POST", "namespaces/alice/tables", body)
            assert status == 400


def test_a_location_stays_its_owners_when_the_namespace_is_gone_too(
    tmp_path: Path,
) -> None:
    running = server.start(tmp_path / "data", "--config", str(users.write_settings(tmp_path)))
    try:
        shared = SharedServer(running)
        before = shared.gone("t")
        assert shared.root.ask("DELETE", "namespaces/bob")[0] == 204
        for user in ("alice", "dave"):
            for way in WAYS:
                assert way(shared, user, "s3://lake/bob/t")[0] == 403
            with pytest.raises(ClientError, match="AccessDenied"):
                shared.s3(user).get_object(Bucket="lake", Key="bob/t/data/f.parquet")
        assert shared.root.ask("POST", "namespaces", {"namespace": ["bob"]})[0] == 200
        body = {"name": "t", "metadata-location": before["metadata-location"]}
        assert shared.user("bob").ask("POST", "namespaces/bob/register", body)[0] == 200
    finally:
        running.stop()


def test_a_location_is_its_last_owners_not_its_first(shared: SharedServer) -> None:
    name = name_of("moved")
    shared.make("alice", name)
    rename = {
        "source": {"namespace": ["alice"], "name": name},
        "destination": {"namespace": ["bob"], "name": name},
    }
    assert shared.root.ask("POST", "tables/rename", rename)[0] == 204
    shared.s3("bob").put_object(Bucket="lake", Key=f"alice/{name}/data/f.parquet", Body=b"bob's")
    assert shared.user("bob").ask("DELETE", f"namespaces/bob/tables/{name}")[0] == 204
    for way in WAYS:
        assert way(shared, "alice", f"s3://lake/alice/{name}")[0] == 403
    with pytest.raises(ClientError, match="AccessDenied"):
        shared.s3("alice").get_object(Bucket="lake", Key=f"alice/{name}/data/f.parquet")
    key = shared.s3("bob").get_object(Bucket="lake", Key=f"alice/{name}/data/f.parquet")
    assert key["Body"].read() == b"bob's"


@pytest.mark.parametrize("way", WAYS[:-1], ids=lambda way: way.__name__)
def test_files_that_no_table_owns_are_the_table_buckets(shared: SharedServer, way: Way) -> None:
    name = name_of("loose")
    shared.s3().put_object(Bucket="lake", Key=f"any/{name}/data/f.parquet", Body=b"x")
    assert way(shared, "alice", f"s3://lake/any/{name}")[0] == 403
    assert way(shared, "root", f"s3://lake/any/{name}")[0] in (200, 204)


def test_a_namespace_location_hands_out_no_place_that_was_used(shared: SharedServer) -> None:
    """A namespace's location is where its tables go; what was used, or has files, is left alone."""
    gone, loose = name_of("gone"), name_of("loose")
    shared.gone(gone)
    shared.s3().put_object(Bucket="lake", Key=f"bob/{loose}/data/f.parquet", Body=b"x")
    properties = {"updates": {"location": "s3://lake/bob"}}
    assert shared.user("alice").ask("POST", "namespaces/alice/properties", properties)[0] == 200
    try:
        for name in (gone, loose):
            created = shared.make("alice", name)
            assert created["metadata"]["location"].startswith(f"s3://lake/bob/{name}-")
    finally:
        removal = {"removals": ["location"]}
        assert shared.user("alice").ask("POST", "namespaces/alice/properties", removal)[0] == 200


# Registered metadata files.


def put_metadata(
    shared: SharedServer, key: str, before: Any, *, user: str = "root", **more: Any
) -> str:
    body = json.dumps({**before["metadata"], **more}).encode()
    shared.s3(user).put_object(Bucket="lake", Key=key, Body=body)
    return f"s3://lake/{key}"


def test_a_metadata_file_outside_the_location_it_claims_is_not_registered(
    shared: SharedServer,
) -> None:
    before = shared.make("alice", name_of("m"))
    home = f"any/{name_of('claimed')}"
    elsewhere = [
        f"any/{name_of('other')}/metadata/v1.metadata.json",
        f"{home}2/metadata/v1.metadata.json",
        f"{home}/below/metadata/v1.metadata.json",
    ]
    for key in elsewhere:
        uri = put_metadata(shared, key, before, location=f"s3://lake/{home}")
        body = {"name": name_of("r"), "metadata-location": uri}
        status, answer = shared.root.ask("POST", "namespaces/alice/register", body)
        assert (status, answer["error"]["type"]) == (400, "BadRequestException"), key
        assert "location" in answer["error"]["message"] or "layout" in answer["error"]["message"]


def test_a_registered_metadata_file_cannot_be_removed_or_replaced(shared: SharedServer) -> None:
    before = shared.make("alice", name_of("m"))
    home = f"any/{name_of('claimed')}"
    key = f"{home}/metadata/v1.metadata.json"
    more = {"location": f"s3://lake/{home}", "table-uuid": str(uuid.uuid4())}
    uri = put_metadata(shared, key, before, **more)
    name = name_of("r")
    body = {"name": name, "metadata-location": uri}
    status, registered = shared.root.ask("POST", "namespaces/alice/register", body)
    assert status == 200, registered
    with pytest.raises(ClientError, match="write-once"):
        shared.s3().put_object(Bucket="lake", Key=key, Body=b"{}")
    shared.s3().delete_object(Bucket="lake", Key=key)
    read = shared.s3().get_object(Bucket="lake", Key=key)["Body"].read()
    assert json.loads(read)["table-uuid"] == more["table-uuid"]


def test_a_metadata_file_of_mine_that_claims_anothers_location_is_not_registered(
    shared: SharedServer,
) -> None:
    name = name_of("gone")
    before = shared.gone(name)
    mine = shared.make("alice", name_of("mine"))
    key = mine["metadata"]["location"].removeprefix("s3://lake/") + "/metadata/fake.metadata.json"
    uri = put_metadata(shared, key, before, user="alice", location=f"s3://lake/bob/{name}")
    body = {"name": name_of("r"), "metadata-location": uri}
    status, answer = shared.user("alice").ask("POST", "namespaces/alice/register", body)
    assert status == 400, answer
    body["overwrite"] = True
    body["name"] = mine["metadata"]["location"].rpartition("/")[2]
    status, answer = shared.user("alice").ask("POST", "namespaces/alice/register", body)
    assert status == 400, answer


# Metadata that a client wrote whole, and the files of others that it names.


def naming(field: str, uri: str) -> dict[str, Any]:
    """Return members of table metadata in which a field names a file."""
    statistics = {"snapshot-id": 5, "statistics-path": uri, "file-size-in-bytes": 9}
    if field == "statistics":
        return {field: [{**statistics, "file-footer-size-in-bytes": 4, "blob-metadata": []}]}
    if field == "partition-statistics":
        return {field: [statistics]}
    snapshot = {
        "snapshot-id": 5,
        "sequence-number": 1,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"operation": "append"},
        "manifest-list": uri,
    }
    if field == "manifests":
        del snapshot["manifest-list"], snapshot["sequence-number"]
        return {
            "format-version": 1,
            "schema": rest.SCHEMA,
            "partition-spec": [],
            "snapshots": [{**snapshot, "manifests": [uri]}],
        }
    return {"snapshots": [snapshot], "last-sequence-number": 1}


NAMING = ("manifest-list", "manifests", "statistics", "partition-statistics")


@pytest.mark.parametrize("field", NAMING)
@pytest.mark.parametrize("way", ["register", "register over", "UpdateTableMetadataLocation"])
def test_metadata_of_mine_that_names_files_of_another_table_is_not_taken(
    shared: SharedServer, way: str, field: str
) -> None:
    """As in a commit: what the writer may not read, others shall not read for him."""
    theirs = f"s3://lake/bob/{name_of('secret')}"
    shared.make("bob", theirs.rpartition("/")[2])
    name = name_of("mine")
    mine = shared.make("alice", name)
    before = shared.user("alice").ask("GET", f"namespaces/alice/tables/{name}")[1]
    home = mine["metadata"]["location"]

    def point(uri: str, *, user: str = "alice") -> tuple[int, Any]:
        key = f"{home.removeprefix('s3://lake/')}/metadata/{name_of('f')}.metadata.json"
        location = put_metadata(shared, key, mine, user="alice", **naming(field, uri))
        if way == "UpdateTableMetadataLocation":
            return shared.point(user, "alice", name, location)
        body = {"name": name, "metadata-location": location, "overwrite": True}
        if way == "register":
            body = {"name": name_of("r"), "metadata-location": location}
        return shared.user(user).ask("POST", "namespaces/alice/register", body)

    if way == "register":
        assert shared.user("alice").ask("DELETE", f"namespaces/alice/tables/{name}")[0] == 204
    file = f"{theirs.removeprefix('s3://lake/')}/metadata/x.avro"
    for uri in (f"s3://lake/{file}", f"s3a://lake/{file}", f"{home}/../../{file}"):
        status, answer = point(uri)
        assert status == 403, answer
        assert f"is not authorized to read {uri}" in str(answer)
    if way != "register":
        after = shared.user("alice").ask("GET", f"namespaces/alice/tables/{name}")[1]
        assert after["metadata-location"] == before["metadata-location"]
    assert point(f"{home}/metadata/x.avro")[0] == 200
    if way != "register":
        assert point(f"{theirs}/metadata/x.avro", user="root")[0] == 200
