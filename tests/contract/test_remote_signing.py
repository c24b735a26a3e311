"""Remote signing: clients without keys read and write a table's files, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
import site
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import botocore
import botocore.config
import pytest
from pyiceberg.exceptions import SignError
from pyiceberg.io.fsspec import S3V4RestSigner

from server import config
from tests.kit import environments, rest
from tests.kit import s3 as kit
from tests.kit import server as server_kit

BUCKET = f"arn:aws:s3tables:{kit.REGION}:{kit.ACCOUNT}:bucket/lake"
LOAD = ["s3tables:GetTable", "s3tables:GetTableMetadataLocation"]
TABLE = "namespaces/ns/tables/t"
DELEGATION = "x-iceberg-access-delegation"


def _user(name: str, *actions: str) -> config.User:
    statement = {"Effect": "Allow", "Action": [*LOAD, *actions], "Resource": f"{BUCKET}/table/*"}
    return config.User(
        name=name,
        access_key=f"{name.upper()}KEY",
        secret_key=f"{name}-secret",
        policies=({"Version": "2012-10-17", "Statement": [statement]},),
    )


USERS = (
    _user("reader", "s3tables:GetTableData"),
    _user("writer", "s3tables:PutTableData"),
    _user("loader"),
)


@dataclass(frozen=True)
class _Keys:
    host: str
    port: int
    access_key: str
    secret_key: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    with kit.serve(tmp_path_factory.mktemp("signing") / "data", users=USERS) as place:
        with catalog(place) as client:
            for name in ("t", "t2"):
                client.make_table("ns", name)
        for name in ("t", "t2"):
            kit.client(place).put_object(Bucket="lake", Key=f"ns/{name}/data/f.parquet", Body=b"x")
        yield place


def catalog(place: kit.ObjectStore, user: str = "root") -> rest.Client:
    keys = (place.access_key, place.secret_key)
    if user != "root":
        keys = (f"{user.upper()}KEY", f"{user}-secret")
    server: Any = _Keys(place.host, place.port, *keys)
    return rest.Client(server)


def loaded(place: kit.ObjectStore, mode: str, user: str = "root") -> tuple[Any, str]:
    """A table as loaded with a delegation mode, and the caller's token."""
    with catalog(place, user) as client:
        status, table = client.ask("GET", TABLE, None, {DELEGATION: mode})
        assert status == 200
        return table, client.token


def signing_client(place: kit.ObjectStore, user: str = "root", **settings: str) -> Any:
    """boto3 without keys, whose requests PyIceberg's signer has signed by the catalog."""
    table, token = loaded(place, "remote-signing", user)
    signer = S3V4RestSigner(
        {**table["config"], "uri": f"{place.url}/iceberg", "token": token, **settings}
    )
    client = boto3.client(
        "s3",
        endpoint_url=table["config"]["s3.endpoint"],
        region_name=table["config"]["s3.region"],
        config=botocore.config.Config(
            signature_version=botocore.UNSIGNED,
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
        ),
    )
    client.meta.events.register_last("before-sign.s3", signer)
    return client


@pytest.mark.parametrize(
    ("mode", "signs"),
    [
        ("remote-signing", True),
        (" Remote-Signing ", True),
        ("vended-credentials,remote-signing", False),
        ("remote-signing, vended-credentials", False),
        ("vended-credentials", False),
        ("", False),
    ],
)
def test_a_table_is_loaded_for_signing_by_clients_that_take_no_keys(
    place: kit.ObjectStore, mode: str, signs: bool
) -> None:
    table, _ = loaded(place, mode)
    settings = table["config"]
    assert (settings.get("s3.remote-signing-enabled") == "true") is signs
    assert ("storage-credentials" in table) is not signs
    assert ("s3.access-key-id" in settings) is not signs
    # An empty one says: the table's own endpoint, no further properties and headers.
    expected = {"properties": {}, "headers": {}} if signs else None
    assert table.get("remote-signing-config") == expected
    if signs:
        assert settings["s3.signer.uri"] == settings["signer.uri"] == f"{place.url}/iceberg"
        assert settings["s3.signer.endpoint"] == settings["signer.endpoint"]
        assert settings["signer.endpoint"] == "v1/lake/namespaces/ns/tables/t/sign"
    assert settings["s3.endpoint"] == place.url


def test_a_table_that_the_caller_may_not_read_is_loaded_without_settings(
    place: kit.ObjectStore,
) -> None:
    table, _ = loaded(place, "remote-signing", "loader")
    assert table["config"] == {}
    assert "remote-signing-config" not in table


def test_pyicebergs_signer_reads_writes_lists_and_deletes(place: kit.ObjectStore) -> None:
    client = signing_client(place)
    key = "ns/t/data/d é=1/new.parquet"
    client.put_object(Bucket="lake", Key=key, Body=b"rows", ContentType="a/b")
    answer = client.get_object(Bucket="lake", Key=key, Range="bytes=1-2")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"ow", "a/b")
    assert client.head_object(Bucket="lake", Key=key)["ContentLength"] == 4
    upload = client.create_multipart_upload(Bucket="lake", Key="ns/t/data/large.parquet")
    part = client.upload_part(
        Bucket="lake",
        Key="ns/t/data/large.parquet",
        UploadId=upload["UploadId"],
        PartNumber=1,
        Body=b"part",
    )
    client.complete_multipart_upload(
        Bucket="lake",
        Key="ns/t/data/large.parquet",
        UploadId=upload["UploadId"],
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]},
    )
    listed = client.list_objects_v2(Bucket="lake", Prefix="ns/t/data/")["Contents"]
    assert {key, "ns/t/data/large.parquet"} <= {each["Key"] for each in listed}
    client.delete_object(Bucket="lake", Key=key)
    listed = client.list_objects_v2(Bucket="lake", Prefix="ns/t/data/")["Contents"]
    assert key not in {each["Key"] for each in listed}


def test_a_body_other_than_the_signed_one_is_no_deletion(place: kit.ObjectStore) -> None:
    root = kit.client(place)
    for name in ("a", "b"):
        root.put_object(Bucket="lake", Key=f"ns/t/data/{name}.parquet", Body=b"x")
    bodies = [
        f"<Delete><Object><Key>ns/t/data/{name}.parquet</Key></Object></Delete>"
        for name in ("a", "b")
    ]
    uri = f"{place.url}/lake?delete"
    status, answer = sign(place, "root", method="POST", uri=uri, body=bodies[0])
    assert status == 200
    headers = {name.lower(): text for name, (text,) in answer["headers"].items()}
    statuses = []
    for body in reversed(bodies):
        md5 = base64.b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest())
        sent = {**headers, "content-md5": md5.decode()}
        answer = kit.send(place, "POST", "/lake?delete", headers=sent, body=body.encode())
        statuses.append(answer.status)
    assert statuses == [400, 200]
    keys = [each["Key"] for each in root.list_objects_v2(Bucket="lake")["Contents"]]
    assert "ns/t/data/b.parquet" in keys
    assert "ns/t/data/a.parquet" not in keys


@pytest.mark.parametrize("path", ["v1/aws/s3/sign", "v1/lake/v1/aws/s3/sign"])
def test_clients_may_have_requests_signed_at_a_path_that_names_no_table(
    place: kit.ObjectStore, path: str
) -> None:
    """The defaults of clients that read no `signer.endpoint`."""
    client = signing_client(place, **{"signer.endpoint": path, "s3.signer.endpoint": path})
    key = f"ns/t/data/{path.count('lake')}.parquet"
    client.put_object(Bucket="lake", Key=key, Body=b"abc")
    assert client.get_object(Bucket="lake", Key=key)["Body"].read() == b"abc"
    listed = client.list_objects_v2(Bucket="lake", Prefix="ns/t/data/")
    assert key in {each["Key"] for each in listed["Contents"]}


@pytest.mark.parametrize(
    ("user", "method", "target", "expected"),
    [
        ("reader", "GET", "/lake/ns/t/data/f.parquet", 200),
        ("reader", "PUT", "/lake/ns/t/data/f.parquet", 403),
        ("loader", "GET", "/lake/ns/t/data/f.parquet", 403),
        ("reader", "GET", "/lake?list-type=2&prefix=ns/t/", 200),
        ("reader", "GET", "/lake?list-type=2&prefix=ns/", 403),
        ("reader", "GET", "/lake?list-type=2", 403),
        ("reader", "GET", "/lake/ns/none/data/f.parquet", 403),
        ("reader", "GET", "/other/ns/t/data/f.parquet", 403),
        ("root", "GET", "/lake/ns/none/data/f.parquet", 404),
        ("root", "GET", "/lake?list-type=2", 404),
        ("root", "GET", "/other/ns/t/data/f.parquet", 404),
        ("root", "GET", "/--hidden/ns/t/data/f.parquet", 404),
        ("root", "GET", "", 403),
    ],
)
def test_a_request_signed_by_its_file_needs_the_rights_on_the_files_table(
    place: kit.ObjectStore, user: str, method: str, target: str, expected: int
) -> None:
    request = {"region": kit.REGION, "headers": {}, "method": method, "uri": place.url + target}
    with catalog(place, user) as client:
        status, _, answer = client.raw("POST", "v1/aws/s3/sign", request)
    assert status == expected, answer


def test_a_deletion_signed_by_its_files_stays_within_one_table(place: kit.ObjectStore) -> None:
    def body(*keys: str) -> str:
        named = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        return f"<Delete>{named}</Delete>"

    request = {
        "region": kit.REGION,
        "headers": {},
        "method": "POST",
        "uri": f"{place.url}/lake?delete",
    }
    with catalog(place) as client:
        for keys, expected in (
            (("ns/t/data/1.parquet",), 200),
            (("ns/t/data/1.parquet", "ns/t2/data/1.parquet"), 403),
            (("ns/none/1.parquet",), 404),
        ):
            status, _, answer = client.raw(
                "POST", "v1/aws/s3/sign", {**request, "body": body(*keys)}
            )
            assert status == expected, answer


def sign(
    place: kit.ObjectStore, user: str, *, table: str = TABLE, **values: Any
) -> tuple[int, Any]:
    request = {"region": kit.REGION, "headers": {}, "method": "GET", **values}
    with catalog(place, user) as client:
        return client.ask("POST", f"{table}/sign", request)


@pytest.mark.parametrize(
    ("user", "method", "expected"),
    [
        ("reader", "GET", 200),
        ("reader", "HEAD", 200),
        ("reader", "PUT", 403),
        ("reader", "DELETE", 403),
        ("writer", "PUT", 200),
        ("writer", "GET", 403),
        ("loader", "GET", 403),
        ("loader", "PUT", 403),
    ],
)
def test_the_caller_needs_the_right_of_the_request(
    place: kit.ObjectStore, user: str, method: str, expected: int
) -> None:
    uri = f"{place.url}/lake/ns/t/data/f.parquet"
    status, answer = sign(place, user, method=method, uri=uri)
    assert status == expected
    if status == 200:
        headers = {name: text for name, (text,) in answer["headers"].items()}
        body = b"x" if method == "PUT" else b""  # a file is written once
        sent = kit.send(place, method, "/lake/ns/t/data/f.parquet", headers=headers, body=body)
        assert sent.status == 200
    else:
        assert answer["error"]["type"] == "ForbiddenException"
        assert "signature" not in str(answer).lower()


def test_a_signature_is_good_for_its_request_alone(place: kit.ObjectStore) -> None:
    """S3 checks the signature, and the scope of the key that made it."""
    uri = f"{place.url}/lake/ns/t/data/f.parquet"
    status, answer = sign(place, "root", uri=uri)
    assert status == 200
    headers = {name: text for name, (text,) in answer["headers"].items()}
    target = "/lake/ns/t/data/f.parquet"
    assert kit.send(place, "GET", target, headers=headers).status == 200
    for method, other, more in (
        ("DELETE", target, {}),
        ("PUT", target, {}),
        ("GET", "/lake/ns/t2/data/f.parquet", {}),
        ("GET", f"{target}?acl", {}),
        ("GET", "/lake?list-type=2", {}),
        ("GET", target, {"x-amz-request-payer": "requester"}),
        ("PUT", target, {"x-amz-copy-source": "/lake/ns/t2/data/f.parquet"}),
    ):
        assert kit.send(place, method, other, headers={**headers, **more}).status == 403
    with pytest.raises(SignError):
        signing_client(place).get_object(Bucket="lake", Key="ns/t2/data/f.parquet")


def test_a_policy_ends_signatures_that_were_made_before(place: kit.ObjectStore) -> None:
    uri = f"{place.url}/lake/ns/t/data/f.parquet"
    _, answer = sign(place, "reader", uri=uri)
    headers = {name: text for name, (text,) in answer["headers"].items()}
    target = "/lake/ns/t/data/f.parquet"
    assert kit.send(place, "GET", target, headers=headers).status == 200
    tables = boto3.client(
        "s3tables",
        endpoint_url=place.url,
        region_name=kit.REGION,
        aws_access_key_id=place.access_key,
        aws_secret_access_key=place.secret_key,
    )
    tables.put_table_bucket_policy(
        tableBucketARN=BUCKET,
        resourcePolicy=(
            '{"Statement": {"Effect": "Deny", "Principal": {"AWS": '
            f'"arn:aws:iam::{kit.ACCOUNT}:user/reader"}}, "Action": "s3tables:GetTableData", '
            f'"Resource": "{BUCKET}/table/*"}}}}'
        ),
    )
    try:
        assert kit.send(place, "GET", target, headers=headers).status == 403
        assert sign(place, "reader", uri=uri)[0] == 403
    finally:
        tables.delete_table_bucket_policy(tableBucketARN=BUCKET)


def test_cached_answers_are_for_reads_alone(place: kit.ObjectStore) -> None:
    request = {"region": kit.REGION, "headers": {}, "uri": f"{place.url}/lake/ns/t/data/f.parquet"}
    with catalog(place) as client:
        for method, expected in (("GET", "private"), ("PUT", "no-cache")):
            _, headers, _ = client.raw("POST", f"{TABLE}/sign", {**request, "method": method})
            assert headers["cache-control"] == expected


def test_a_table_that_does_not_exist_signs_nothing(place: kit.ObjectStore) -> None:
    uri = f"{place.url}/lake/ns/none/data/f"
    status, answer = sign(place, "root", table="namespaces/ns/tables/none", uri=uri)
    assert (status, answer["error"]["type"]) == (404, "NoSuchTableException")


PYICEBERG = """
import os, sys
sys.path.append(os.environ["PACKAGES"])  # PyIceberg; s3fs and its botocore come first
import pyarrow
from pyiceberg.catalog.rest import RestCatalog
catalog = RestCatalog(
    "lake",
    uri=os.environ["URL"] + "/iceberg",
    warehouse="lake",
    credential=os.environ["KEY"] + ":" + os.environ["SECRET"],
    **{"header.X-Iceberg-Access-Delegation": "remote-signing"},
)
catalog.create_namespace("pyiceberg")
rows = pyarrow.table({"id": pyarrow.array(range(1000), pyarrow.int64())})
table = catalog.create_table("pyiceberg.signed", schema=rows.schema)
assert "s3.access-key-id" not in table.io.properties, table.io.properties
table.append(rows)
again = catalog.load_table("pyiceberg.signed")
assert type(again.io).__name__ == "FsspecFileIO"
assert again.scan(row_filter="id >= 10").to_arrow().num_rows == 990
again.append(rows)
assert catalog.load_table("pyiceberg.signed").scan().count() == 2000
"""


def test_pyiceberg_writes_and_reads_a_table_without_keys(place: kit.ObjectStore) -> None:
    (packages,) = [path for path in site.getsitepackages() if path.endswith("site-packages")]
    done = subprocess.run(
        [str(environments.python("s3fs")), "-c", PYICEBERG],
        env={
            **server_kit.client_environment(),
            "PATH": os.environ["PATH"],
            "PACKAGES": packages,
            "URL": place.url,
            "KEY": place.access_key,
            "SECRET": place.secret_key,
            # Its threads share one S3FileSystem, and each takes the signer out for a moment when it
            # begins: a request of another thread is then sent unsigned.
            "PYICEBERG_MAX_WORKERS": "1",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
