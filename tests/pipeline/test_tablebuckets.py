"""A table with its history is copied into a table bucket, through AWS's s3tables API.

The target is a second server; `vault` is a bucket of it that offers on objects what AWS offers, so
nothing is listed or deleted there. Both servers have a bucket `lake`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore.stub import Stubber

from pipeline import __main__ as command
from pipeline import (
    copies,
    errors,
    interrupts,
    replicas,
    replication,
    settings,
    sources,
    tablebuckets,
)
from tests.kit import server as server_kit
from tests.pipeline import test_replication as replicated
from tests.pipeline import wire
from tests.pipeline.lake import Lake, no_spark
from tests.pipeline.test_killed import Job
from tests.sql.rest import raw

ENDPOINTS = ("AWS_ENDPOINT_URL_S3TABLES", "AWS_ENDPOINT_URL_S3")
MAINTENANCE = ("icebergCompaction", "icebergSnapshotManagement")


@pytest.fixture
def aws(other: settings.ServerEndpoint, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An s3tables client of the target, which AWS's variables name for the test."""
    for name, value in environment_of(other, other.url).items():
        monkeypatch.setenv(name, value)
    return sources.client(other, "s3tables")


def environment_of(other: settings.ServerEndpoint, url: str) -> dict[str, str]:
    return {
        **dict.fromkeys(ENDPOINTS, url),
        "AWS_ACCESS_KEY_ID": other.access_key,
        "AWS_SECRET_ACCESS_KEY": other.secret_key,
    }


def arn_of(aws: Any, bucket: str) -> str:
    listed = aws.list_table_buckets()["tableBuckets"]
    return next(str(each["arn"]) for each in listed if each["name"] == bucket)


def target_of(aws: Any, bucket: str = "vault", **names: str) -> replicas.Target:
    return replicas.parse(arn_of(aws, bucket), {}, **names)


def state(aws: Any, name: str, bucket: str = "vault") -> tuple[str | None, str]:
    namespace, _, table = name.partition(".")
    answer = aws.get_table_metadata_location(
        tableBucketARN=arn_of(aws, bucket), namespace=namespace, name=table
    )
    return answer.get("metadataLocation"), answer["versionToken"]


@contextmanager
def closing_at(
    monkeypatch: pytest.MonkeyPatch, other: settings.ServerEndpoint, **watches: wire.Watch
) -> Iterator[wire.Door]:
    """Put a door before the target, for both of its APIs."""
    with wire.door(other.url, **watches) as door, monkeypatch.context() as patch:
        for name in ENDPOINTS:
            patch.setenv(name, door.url)
        yield door


def commits(method: str, path: str) -> bool:
    return method == "PUT" and path.endswith("/metadata-location")


@pytest.mark.spark
def test_a_copy_in_a_table_bucket_has_the_whole_history_and_follows_it(
    lake: Lake, other: settings.ServerEndpoint, aws: Any
) -> None:
    table = replicated.new_table(lake, "tb_whole.deep.t")
    table.append(replicated.rows(4))
    table.delete("id = 2")
    first_snapshot = table.refresh().metadata.snapshots[0].snapshot_id
    (
        table.manage_snapshots()
        .create_tag(first_snapshot, "kept")
        .create_branch(first_snapshot, "aside")
        .commit()
    )
    to = target_of(aws, namespace="tb_whole", name="copied")
    first = replicated.copied(lake, "tb_whole.deep.t", to)
    assert first is not None
    assert first.since is None

    catalog = replicated.catalog_of(other, "vault")
    copy = catalog.load_table("tb_whole.copied")
    assert replicated.history(copy) == replicated.history(table.refresh())
    assert [len(at) for _, at in replicated.history(copy)] == [3, 4, 3]
    assert copy.metadata.table_uuid == table.metadata.table_uuid
    assert set(copy.refs()) == {"main", "kept", "aside"}
    assert copy.scan().use_ref("kept").to_arrow().num_rows == 3
    client = raw.Client(url=other.url)
    client.login(CLIENT_APP_ID="test", LOGIN_NAME=other.access_key, PASSWORD=other.secret_key)
    counted = client.query("SELECT SUM(id), COUNT(*) FROM vault.tb_whole.copied")
    with pa.ipc.open_stream(base64.b64decode(counted.data["rowsetBase64"])) as stream:
        assert [column.to_pylist() for column in stream.read_all().columns] == [[8], [3]]
    # S3 Tables would otherwise give the copy versions of its own.
    maintenance = aws.get_table_maintenance_configuration(
        tableBucketARN=arn_of(aws, "vault"), namespace="tb_whole", name="copied"
    )["configuration"]
    assert {name: maintenance[name]["status"] for name in MAINTENANCE} == dict.fromkeys(
        MAINTENANCE, "disabled"
    )
    assert replicated.copied(lake, "tb_whole.deep.t", to) is None

    version = table.metadata_location.rpartition("/")[2]
    table.append(replicated.rows(5))
    more = replicated.copied(lake, "tb_whole.deep.t", to)
    assert more is not None
    # The rows, one manifest, the list of manifests, the metadata.
    assert (more.since, more.files) == (version, 4)
    copy = catalog.load_table("tb_whole.copied")
    assert replicated.history(copy) == replicated.history(table.refresh())
    assert copy.metadata_location == more.metadata_location


@pytest.mark.spark
def test_a_copy_at_the_location_that_the_table_has_in_its_own_store_is_whole(
    lake: Lake, other: settings.ServerEndpoint, aws: Any
) -> None:
    table = replicated.new_table(lake, "tb_same.t")
    lake.spark.session.sql(
        "ALTER TABLE lake.tb_same.t SET TBLPROPERTIES ('write.delete.mode'='merge-on-read', "
        "'write.metadata.compression-codec'='gzip')"
    )
    lake.spark.session.sql("DELETE FROM lake.tb_same.t WHERE id = 2")
    assert replicated.copied(lake, "tb_same.t", target_of(aws, "lake")) is not None
    catalog = replicated.catalog_of(other)
    copy = catalog.load_table("tb_same.t")
    assert copy.location() == table.location()
    assert copy.metadata_location == table.refresh().metadata_location
    assert copy.metadata_location.endswith(".gz.metadata.json")
    assert replicated.history(copy) == replicated.history(table)
    assert [len(at) for _, at in replicated.history(copy)] == [3, 2]
    table.append(replicated.rows(4))
    more = replicated.copied(lake, "tb_same.t", target_of(aws, "lake"))
    assert more is not None
    assert more.files == 4
    assert replicated.history(catalog.load_table("tb_same.t")) == replicated.history(table)


@pytest.mark.spark
def test_a_table_that_is_no_copy_and_a_copy_with_another_writer_are_left_as_they_are(
    lake: Lake, other: settings.ServerEndpoint, aws: Any
) -> None:
    table = replicated.new_table(lake, "tb_refused.t")
    catalog = replicated.catalog_of(other, "vault")
    catalog.create_namespace("tb_refused")
    catalog.create_table("tb_refused.foreign", schema=replicated.rows().schema)
    before = state(aws, "tb_refused.foreign")
    with pytest.raises(errors.BadArgument, match=r"another table tb_refused\.foreign, which is no"):
        replicated.copied(lake, "tb_refused.t", target_of(aws, name="foreign"))
    assert state(aws, "tb_refused.foreign") == before

    # A writer that comes while a job copies, and changes what the job continues.
    assert replicated.copied(lake, "tb_refused.t", target_of(aws)) is not None
    table.append(replicated.rows(4))

    def write(line: str) -> None:
        if line.startswith("copying "):
            catalog.load_table("tb_refused.t").append(replicated.rows(9))

    source = settings.parse_table("lake.tb_refused.t")
    with pytest.raises(errors.PipelineError, match="while this job ran: the target has that"):
        replication.run(lake.server, source, target_of(aws), open_spark=lake.open_spark, say=write)
    changed = catalog.load_table("tb_refused.t")
    assert sorted(changed.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 9]
    with pytest.raises(errors.BadArgument, match="another client has changed it"):
        replicated.copied(lake, "tb_refused.t", target_of(aws))
    assert state(aws, "tb_refused.t")[0] == changed.metadata_location


@pytest.mark.spark
@pytest.mark.parametrize(
    "side",
    ["before", "with the empty table created", pytest.param("after", marks=pytest.mark.long)],
)
def test_a_copy_cut_off_at_its_commit_is_whole_when_run_again(
    lake: Lake,
    other: settings.ServerEndpoint,
    aws: Any,
    monkeypatch: pytest.MonkeyPatch,
    side: str,
) -> None:
    has_files = side in ("before", "after")
    name = f"tb_cut_{side.partition(' ')[0]}.t"
    table = replicated.new_table(lake, name)
    # Without the namespace CreateTable is refused, and repeated.
    aws.create_namespace(tableBucketARN=arn_of(aws, "vault"), namespace=[name.partition(".")[0]])

    def creates(method: str, path: str) -> bool:
        return method == "PUT" and path.endswith(f"/{name.partition('.')[0]}")

    watches = {side: commits} if has_files else {"after": creates}
    raised = errors.OutcomeUnknown if has_files else errors.PipelineError
    with closing_at(monkeypatch, other, **watches) as door:
        with pytest.raises(raised, match="run the same command again" if has_files else ""):
            replicated.copied(lake, name, target_of(aws))
        assert door.closed.is_set()
    assert (state(aws, name)[0] is None) == (side != "after")
    again = replicated.copied(lake, name, target_of(aws))
    assert (again is None) == (side == "after")
    # All files were there, of the same sizes, when it came to the commit.
    assert again is None or (again.files == 0) == has_files
    copy = replicated.catalog_of(other, "vault").load_table(name)
    assert replicated.history(copy) == replicated.history(table.refresh())


@pytest.mark.parametrize(
    ("status", "raised", "reason"),
    [
        (500, errors.OutcomeUnknown, "may or may not have the newest version; run the same"),
        (503, errors.OutcomeUnknown, "may or may not have the newest version; run the same"),
        (400, errors.PipelineError, "the target refused UpdateTableMetadataLocation: it says"),
    ],
)
def test_a_commit_that_the_target_fails_may_have_happened(
    status: int, raised: type[errors.PipelineError], reason: str
) -> None:
    client = boto3.client(
        "s3tables", region_name="eu-west-1", aws_access_key_id="k", aws_secret_access_key="s"
    )
    arn = "arn:aws:s3tables:eu-west-1:111122223333:bucket/vault"
    table = settings.parse_table("vault.x.t")
    to = tablebuckets.TableBucketDestination(tables=client, store=None, arn=arn, table=table)
    copy = copies.Copy(location="s3://own", version_token="1")
    with Stubber(client) as stub:
        stub.add_client_error(
            "update_table_metadata_location",
            service_error_code="E",
            service_message="it says why",
            http_status_code=status,
        )
        with pytest.raises(errors.PipelineError, match=reason) as caught:
            to.show(copy, "s3://own/metadata/2.json", lambda line: None)
    assert type(caught.value) is raised


@pytest.mark.spark
def test_a_commit_whose_answer_is_lost_once_is_no_conflict(
    lake: Lake, other: settings.ServerEndpoint, aws: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated.new_table(lake, "tb_lost.t")
    lost: list[str] = []

    def lose(method: str, path: str) -> bool:
        if commits(method, path) and not lost:
            lost.append(path)
            return True
        return False

    with closing_at(monkeypatch, other, after=lose) as door:
        reopen = door.closed.clear
        monkeypatch.setattr(door.closed, "set", reopen)
        done = replicated.copied(lake, "tb_lost.t", target_of(aws))
    assert len(lost) == 1
    assert done is not None
    assert state(aws, "tb_lost.t")[0] == done.metadata_location


def creates(method: str, path: str) -> bool:
    return method == "PUT" and path.startswith("/tables/") and path.endswith("/tb_killed_0")


# name -> (which request, ahead of it or behind it, whether all files are copied by then)
MOMENTS = {
    "with the empty table created": (creates, "after", False),
    "with its files copied": (commits, "before", True),
}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_job_leaves_an_empty_table_that_the_next_one_fills(
    server: server_kit.Running,
    lake: Lake,
    other: settings.ServerEndpoint,
    aws: Any,
    tmp_path: Path,
    moment: str,
) -> None:
    matches, side, has_files = MOMENTS[moment]
    name = f"tb_killed_{[*MOMENTS].index(moment)}.t"
    table = replicated.new_table(lake, name)
    # Without the namespace CreateTable is refused, and repeated.
    aws.create_namespace(tableBucketARN=arn_of(aws, "vault"), namespace=[name.partition(".")[0]])
    job = Job(tmp_path, server)

    def strike(method: str, path: str) -> bool:
        if not matches(method, path):
            return False
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    with wire.door(other.url, **watches) as door:
        job.environment |= environment_of(other, door.url)
        said = job.run_command(
            "replicate", "--url", server.url, "--table", f"lake.{name}",
            "--to", arn_of(aws, "vault"), "--master", "local[2]",
        )  # fmt: skip
        assert door.closed.is_set(), f"the moment never came:\n{said}\n{door.passed}"
    assert job.secrets_left() == []
    assert state(aws, name)[0] is None
    again = replicated.copied(lake, name, target_of(aws))
    assert again is not None
    assert (again.files == 0) == has_files
    copy = replicated.catalog_of(other, "vault").load_table(name)
    assert replicated.history(copy) == replicated.history(table.refresh())
    assert replicated.copied(lake, name, target_of(aws)) is None


def test_what_a_target_refuses_is_said_in_one_sentence(
    server: server_kit.Running,
    endpoint: settings.ServerEndpoint,
    other: settings.ServerEndpoint,
    aws: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unused: str,
) -> None:
    catalog = replicated.catalog_of(endpoint)
    catalog.create_namespace_if_not_exists("tb_said")
    catalog.create_table("tb_said.t", schema=replicated.rows().schema)
    arn = arn_of(aws, "vault")

    def said(to: str, code: int) -> str:
        line = ["replicate", "--data", str(server.data), "--table", "lake.tb_said.t", "--to", to]
        assert command.main(line, interrupts.Interrupts()) == code
        last = capsys.readouterr().err.strip().splitlines()[-1]
        return last.removeprefix("pipeline: replicate failed: ")

    missing = arn.replace("bucket/vault", "bucket/nowhere")
    assert said(missing, 2) == f"there is no table bucket {missing}"
    elsewhere = arn.replace(arn.split(":")[4], "999999999999")
    assert said(elsewhere, 2) == f"there is no table bucket {elsewhere}"

    iam = boto3.client(
        "iam", endpoint_url=other.url, region_name="us-east-1",
        aws_access_key_id=other.access_key, aws_secret_access_key=other.secret_key,
    )  # fmt: skip
    iam.create_user(UserName="nina")
    key = iam.create_access_key(UserName="nina")["AccessKey"]
    monkeypatch.setenv(replicas.ACCESS_KEY, key["AccessKeyId"])
    assert said(arn, 2).endswith("must name a key pair of the target")
    monkeypatch.setenv(replicas.SECRET_KEY, key["SecretAccessKey"])
    assert said(arn, 1).startswith("the target refused GetTableMetadataLocation: ")
    monkeypatch.setenv(replicas.SECRET_KEY, "another")
    assert "refused GetTableMetadataLocation: The request signature" in said(arn, 1)
    for name in (replicas.ACCESS_KEY, replicas.SECRET_KEY):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "absent")
    assert "there is no key pair of the target: The config profile (absent)" in said(arn, 2)
    monkeypatch.delenv("AWS_PROFILE")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    assert said(arn, 2).startswith("there is no key pair of the target: Unable to locate cred")
    for name, value in environment_of(other, unused).items():
        monkeypatch.setenv(name, value)
    assert said(arn, 1).startswith("the target does not answer: Could not connect to the endpoint")
    listed = aws.list_tables(tableBucketARN=arn, prefix="t")["tables"]
    assert not [each for each in listed if each["namespace"] == ["tb_said"]]


def test_a_copy_whose_maintenance_may_not_be_turned_off_is_not_begun(
    endpoint: settings.ServerEndpoint, other: settings.ServerEndpoint, aws: Any
) -> None:
    catalog = replicated.catalog_of(endpoint)
    catalog.create_namespace_if_not_exists("tb_denied")
    catalog.create_table("tb_denied.t", schema=replicated.rows().schema)
    policy = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3tables:*", '
        '"Resource": "*"}, {"Effect": "Deny", "Action": '
        '"s3tables:PutTableMaintenanceConfiguration", "Resource": "*"}]}'
    )
    iam = boto3.client(
        "iam", endpoint_url=other.url, region_name="us-east-1",
        aws_access_key_id=other.access_key, aws_secret_access_key=other.secret_key,
    )  # fmt: skip
    iam.create_user(UserName="olga")
    iam.put_user_policy(UserName="olga", PolicyName="most", PolicyDocument=policy)
    key = iam.create_access_key(UserName="olga")["AccessKey"]
    keys = {replicas.ACCESS_KEY: key["AccessKeyId"], replicas.SECRET_KEY: key["SecretAccessKey"]}
    to = replicas.parse(arn_of(aws, "vault"), keys)
    source = settings.parse_table("lake.tb_denied.t")
    with pytest.raises(errors.PipelineError, match="refused PutTableMaintenanceConfiguration: "):
        replication.run(endpoint, source, to, open_spark=no_spark, say=print)
    assert state(aws, "tb_denied.t")[0] is None
