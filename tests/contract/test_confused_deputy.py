"""The server opens files with its own rights, and names of files come from clients.

mallory may do everything in one namespace of the table bucket, and nothing elsewhere. She names
another table's file, an object of a general bucket, a file of another host and one of this machine
in every place that takes a name. Nothing of them is read for her, and nothing changes. What root
names, who may name anything, the server does not fetch from elsewhere either.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sql import shell
from tests.kit import access_table, aws, lakes, programs, rest, waits

HERE = "arn:aws:iam::000000000000"
BUCKET = f"arn:aws:s3tables:{aws.REGION}:000000000000:bucket/lake"
DAY_MS = 86_400_000
SECRET = "the-word-that-nothing-may-show"
NUMBERS = itertools.count(1)
MALLORY = aws.keys_of("mallory")
POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3tables:*", "lake:RunMaintenance"],
            "Resource": "*",
            "Condition": {"StringEquals": {"s3tables:namespace": "mine"}},
        }
    ],
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A server with a victim's table, a general bucket, and a host that counts its visitors."""

    server: aws.Server
    other_host: socket.socket
    victims: dict[str, str]

    def ask(
        self, method: str, path: str, body: Any = None, *, keys: aws.Keys = MALLORY
    ) -> tuple[int, Any]:
        """Status and JSON of the REST catalog's answer."""
        return aws.signed(self.server, keys, method, f"/iceberg/v1/lake/{path}", body)

    def make(self, **more: Any) -> tuple[str, str]:
        """Make a table of mallory's; return its name and location."""
        name = f"t{next(NUMBERS)}"
        body = {"name": name, "schema": rest.SCHEMA, **more}
        status, created = self.ask("POST", "namespaces/mine/tables", body)
        assert status == 200, created
        return name, created["metadata"]["location"]

    def put(self, uri: str, content: Any) -> None:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        body = json.dumps(content).encode()
        self.server.client("s3", MALLORY).put_object(Bucket=bucket, Key=key, Body=body)

    def sql(self, text: str, keys: aws.Keys = MALLORY) -> Any:
        """The rows of a statement, or its refusal."""
        client = shell.Client(url=self.server.url)
        client.login(user=keys.access_key, password=keys.secret_key, database="", schema="")
        try:
            return [answer["rowset"] for answer in client.query(text)]
        except shell.ShellError as error:
            return str(error)
        finally:
            client.logout()

    def visitors(self) -> int:
        """How many connections the other host got."""
        count = 0
        try:
            while True:
                self.other_host.accept()[0].close()
                count += 1
        except BlockingIOError:
            return count


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("deputy")
    on_disk = folder / "secret.metadata.json"
    on_disk.write_text(SECRET)
    users = programs.users({"mallory": [POLICY]})
    other_host = programs.listen()
    other_host.listen()
    other_host.setblocking(False)
    with aws.serving(folder / "data", users=[*users.values()], sql_workers=0) as server:
        s3 = server.client("s3")
        s3.create_bucket(Bucket="vault")
        s3.put_object(Bucket="vault", Key="k/x.metadata.json", Body=SECRET.encode())
        host = f"http://127.0.0.1:{other_host.getsockname()[1]}/k/x.metadata.json"
        victims = {
            "general bucket": "s3://vault/k/x.metadata.json",
            "another host": host,
            "this machine": on_disk.as_uri(),
            "a path": str(on_disk),
        }
        place = Place(server=server, other_host=other_host, victims=victims)
        for namespace in ("mine", "theirs"):
            body = {"namespace": [namespace]}
            assert place.ask("POST", "namespaces", body, keys=aws.ROOT)[0] == 200
        result = place.sql(f"create table lake.theirs.secret as select '{SECRET}' as w", aws.ROOT)
        assert isinstance(result, list), result
        loaded = place.ask("GET", "namespaces/theirs/tables/secret", keys=aws.ROOT)[1]
        victims["another table"] = loaded["metadata"]["snapshots"][0]["manifest-list"]
        victims["another table's metadata"] = loaded["metadata-location"]
        yield place
    other_host.close()


# The places that take a name of a file or of a folder. Each returns what mallory is answered.


def snapshot(uri: str, **more: Any) -> list[dict[str, Any]]:
    """The updates of a commit whose snapshot has this manifest list."""
    value = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": programs.wall_clock_ms(),
        "manifest-list": uri,
        "summary": {"operation": "append", **more},
        "schema-id": 0,
    }
    reference = {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": 1,
    }
    return [{"action": "add-snapshot", "snapshot": value}, reference]


def statistics(uri: str, **more: Any) -> dict[str, Any]:
    return {"snapshot-id": 1, "statistics-path": uri, "file-size-in-bytes": 9, **more}


def commit(place: Place, updates: Any) -> Any:
    name, _ = place.make()
    body = {"requirements": [], "updates": updates}
    return place.ask("POST", f"namespaces/mine/tables/{name}", body)


def manifest_list(place: Place, uri: str) -> Any:
    return commit(place, snapshot(uri))


def manifests(place: Place, uri: str) -> Any:
    (added, reference) = snapshot(uri)
    value = {key: each for key, each in added["snapshot"].items() if key != "manifest-list"}
    return commit(place, [{**added, "snapshot": {**value, "manifests": [uri]}}, reference])


def table_statistics(place: Place, uri: str) -> Any:
    value = statistics(uri, **{"file-footer-size-in-bytes": 4, "blob-metadata": []})
    return commit(place, [{"action": "set-statistics", "snapshot-id": 1, "statistics": value}])


def partition_statistics(place: Place, uri: str) -> Any:
    update = {"action": "set-partition-statistics", "partition-statistics": statistics(uri)}
    return commit(place, [update])


def list_of_loads(place: Place, uri: str) -> Any:
    name, location = place.make()
    loads = json.dumps({"object": uri})
    updates = snapshot(f"{location}/metadata/x.avro", **{"boathouse.loads": loads})
    body = {"requirements": [], "updates": updates}
    return place.ask("POST", f"namespaces/mine/tables/{name}", body)


def transaction(place: Place, uri: str) -> Any:
    name, _ = place.make()
    identifier = {"namespace": ["mine"], "name": name}
    change = {"identifier": identifier, "requirements": [], "updates": snapshot(uri)}
    return place.ask("POST", "transactions/commit", {"table-changes": [change]})


def creation_by_commit(place: Place, uri: str) -> Any:
    updates = [
        {**each, "uuid": str(uuid.uuid4())} if each["action"] == "assign-uuid" else each
        for each in access_table.CREATION
    ]
    body = {
        "requirements": [{"type": "assert-create"}],
        "updates": [*updates, *snapshot(uri)],
    }
    return place.ask("POST", f"namespaces/mine/tables/c{next(NUMBERS)}", body)


def metadata_location(place: Place, uri: str) -> Any:
    body = {"name": f"r{next(NUMBERS)}", "metadata-location": uri}
    return place.ask("POST", "namespaces/mine/register", body)


def metadata_location_over_a_table(place: Place, uri: str) -> Any:
    body = {"name": place.make()[0], "metadata-location": uri, "overwrite": True}
    return place.ask("POST", "namespaces/mine/register", body)


def metadata_location_of_a_view(place: Place, uri: str) -> Any:
    body = {"name": f"r{next(NUMBERS)}", "metadata-location": uri}
    return place.ask("POST", "namespaces/mine/register-view", body)


def metadata_of_her_own(place: Place, uri: str) -> Any:
    name, location = place.make()
    _, loaded = place.ask("GET", f"namespaces/mine/tables/{name}")
    added, _ = snapshot(uri)
    content = {**loaded["metadata"], "snapshots": [added["snapshot"]], "last-sequence-number": 1}
    own = f"{location}/metadata/00001-{uuid.uuid4()}.metadata.json"
    place.put(own, content)
    return metadata_location_of(place, name, own)


def metadata_location_of(place: Place, name: str, uri: str) -> Any:
    table = {"tableBucketARN": BUCKET, "namespace": "mine", "name": name}
    client = place.server.client("s3tables", MALLORY)
    token = client.get_table(**table)["versionToken"]
    try:
        client.update_table_metadata_location(**table, versionToken=token, metadataLocation=uri)
    except client.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], str(error)
    return 200, None


def update_table_metadata_location(place: Place, uri: str) -> Any:
    return metadata_location_of(place, place.make()[0], uri)


def location_of_a_table(place: Place, uri: str) -> Any:
    body = {"name": f"l{next(NUMBERS)}", "schema": rest.SCHEMA, "location": folder_of(uri)}
    return place.ask("POST", "namespaces/mine/tables", body)


def location_of_a_view(place: Place, uri: str) -> Any:
    body = {
        "name": f"l{next(NUMBERS)}",
        "schema": rest.SCHEMA,
        "view-version": lakes.VIEW_VERSION,
        "location": folder_of(uri),
    }
    return place.ask("POST", "namespaces/mine/views", body)


def new_location(place: Place, uri: str) -> Any:
    return commit(place, [{"action": "set-location", "location": folder_of(uri)}])


def path_of_data(place: Place, uri: str) -> Any:
    updates = {"write.data.path": folder_of(uri)}
    return commit(place, [{"action": "set-properties", "updates": updates}])


def folder_of(uri: str) -> str:
    return uri.rpartition("/")[0].removesuffix("/metadata")


def copy_source(place: Place, uri: str) -> Any:
    return copied(place, place.server.client("s3", MALLORY), uri)


def vended_copy_source(place: Place, uri: str) -> Any:
    return copied(place, vended(place, aws.ROOT), uri)


def vended_read(place: Place, uri: str) -> Any:
    """Keys that are vended to root open one table all the same."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    client = vended(place, aws.ROOT)
    return aws.refusal(client.get_object, Bucket=bucket or "lake", Key=key)


def vended_deletion(place: Place, uri: str) -> Any:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    client = vended(place, aws.ROOT)
    return aws.refusal(client.delete_object, Bucket=bucket or "lake", Key=key)


def vended(place: Place, keys: aws.Keys) -> Any:
    name, _ = place.make()
    _, loaded = place.ask("GET", f"namespaces/mine/tables/{name}/credentials", keys=keys)
    config = loaded["storage-credentials"][0]["config"]
    return place.server.client(
        "s3",
        aws.Keys(
            access_key=config["s3.access-key-id"],
            secret_key=config["s3.secret-access-key"],
            token=config["s3.session-token"],
        ),
    )


def copied(place: Place, client: Any, uri: str) -> Any:
    _, location = place.make()
    key = location.removeprefix("s3://lake/") + "/data/copy.parquet"
    source = uri.removeprefix("s3://")
    return aws.refusal(client.copy_object, Bucket="lake", Key=key, CopySource=source)


def signature(place: Place, uri: str) -> Any:
    name, _ = place.make()
    target = place.server.url + "/" + uri.removeprefix("s3://") if uri.startswith("s3:") else uri
    body = {"region": aws.REGION, "method": "GET", "uri": target, "headers": {}}
    return place.ask("POST", f"namespaces/mine/tables/{name}/sign", body)


def table_function_of_sql(place: Place, uri: str) -> Any:
    answer = place.sql(f"select * from '{uri}'")
    assert isinstance(answer, str), answer
    return 400, answer


WAYS: tuple[Callable[[Place, str], Any], ...] = (
    manifest_list,
    manifests,
    table_statistics,
    partition_statistics,
    list_of_loads,
    transaction,
    creation_by_commit,
    metadata_location,
    metadata_location_over_a_table,
    metadata_location_of_a_view,
    metadata_of_her_own,
    update_table_metadata_location,
    location_of_a_table,
    location_of_a_view,
    new_location,
    path_of_data,
    copy_source,
    vended_copy_source,
    vended_read,
    vended_deletion,
    signature,
    table_function_of_sql,
)


REFUSED: dict[Callable[[Place, str], Any], set[int]] = {
    # What cannot be such a name at all is malformed; the rest is denied.
    list_of_loads: {400, 403},
    location_of_a_table: {400, 403},
    location_of_a_view: {400, 403},
    new_location: {400, 403},
    path_of_data: {400},
    update_table_metadata_location: {400},
    table_function_of_sql: {400},
}


@pytest.mark.parametrize("way", WAYS, ids=lambda each: each.__name__)
def test_a_name_of_a_file_opens_nothing_that_its_writer_may_not_read(
    place: Place, way: Callable[[Place, str], Any]
) -> None:
    statuses = REFUSED.get(way, {403})
    for victim, uri in place.victims.items():
        if "vended" in way.__name__ and not uri.startswith("s3:"):
            continue  # keys are for objects
        status, answer = way(place, uri)
        assert status in statuses, (victim, status, answer)
        assert SECRET not in str(answer)
    assert place.visitors() == 0
    rows = place.sql("select w from lake.theirs.secret", aws.ROOT)
    assert rows == [[[SECRET]]]
    vault = place.server.client("s3").get_object(Bucket="vault", Key="k/x.metadata.json")
    assert vault["Body"].read() == SECRET.encode()


@pytest.mark.parametrize("victim", ["general bucket", "another host", "this machine", "a path"])
def test_the_server_fetches_no_other_host_and_no_file_of_this_machine_for_root(
    place: Place, victim: str
) -> None:
    """Root may name any file. A reader gets an error, and the sweep keeps what the table has."""
    name, _ = place.make()
    path = f"namespaces/mine/tables/{name}"
    body = {"requirements": [], "updates": snapshot(place.victims[victim])}
    assert place.ask("POST", path, body, keys=aws.ROOT)[0] == 200
    for keys in (aws.ROOT, MALLORY):
        status, planned = place.ask("POST", f"{path}/plan", {}, keys=keys)
        assert (status, SECRET in str(planned)) in ((400, False), (403, False), (404, False))
        assert SECRET not in str(place.sql(f"select * from lake.mine.{name}", keys))
    dropped = place.ask("DELETE", f"{path}?purgeRequested=true", keys=aws.ROOT)
    assert dropped[0] == 204
    sweep(place)
    assert place.visitors() == 0
    vault = place.server.client("s3").get_object(Bucket="vault", Key="k/x.metadata.json")
    assert vault["Body"].read() == SECRET.encode()


def sweep(place: Place) -> None:
    """Run a sweep of the table bucket to its end, as of a time when everything is old."""
    target = "/_api/v1/warehouses/lake/sweep"

    def request(method: str) -> Any:
        return aws.signed(place.server, aws.ROOT, method, target, service="execute-api")

    place.server.clock.offset_ms = 400 * DAY_MS
    try:
        assert request("POST")[0] == 202
        deadline = time.monotonic() + waits.WAIT_SECONDS
        while (report := request("GET")[1])["state"] in ("waiting", "running"):
            assert time.monotonic() < deadline, report
    finally:
        place.server.clock.offset_ms = 0
    assert report["state"] == "done", report


def test_a_purge_of_a_table_that_names_anothers_files_frees_none_of_them(place: Place) -> None:
    name, location = place.make()
    path = f"namespaces/mine/tables/{name}"
    updates = snapshot(place.victims["another table"])
    body = {"requirements": [], "updates": updates}
    assert place.ask("POST", path, body, keys=aws.ROOT)[0] == 200
    assert place.sql(f"select count(*) from lake.mine.{name}", aws.ROOT) == [[["1"]]]
    refused = place.sql(f"select * from lake.mine.{name}")
    assert "is not authorized to read" in refused
    # The keys that come with the table are for its own folder, whatever its metadata names.
    _, loaded = place.ask("GET", f"{path}/credentials")
    assert [each["prefix"] for each in loaded["storage-credentials"]] == [f"{location}/"]
    own = f"{location}/data/f.parquet"
    place.put(own, "rows")
    assert place.ask("DELETE", f"{path}?purgeRequested=true")[0] == 204
    sweep(place)
    assert place.sql("select w from lake.theirs.secret", aws.ROOT) == [[[SECRET]]]
    get = place.server.client("s3").get_object
    assert aws.refusal(get, Bucket="lake", Key=own.removeprefix("s3://lake/")) == (404, "NoSuchKey")
