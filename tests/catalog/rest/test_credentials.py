"""Vended keys: used as a client uses them, signed, on the S3 face."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore import auth, awsrequest
from botocore.credentials import Credentials

from tests.catalog.rest import rest_server as kit
from tests.kit import lakes

READ = ["s3tables:GetTable", "s3tables:GetTableMetadataLocation", "s3tables:GetTableData"]


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[kit.RestServer]:
    # botocore signs by its own clock, so ours must show the same time.
    now_ms = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
    with kit.opened(
        tmp_path / "d",
        users={"reader": [kit.allow(READ, f"{kit.BUCKET_ARN}/table/*")]},
        clock=lakes.Clock(now_ms),
    ) as opened:
        opened.make_table("ns.orders")
        opened.make_table("ns.orders2")
        yield opened


def send(
    rest: kit.RestServer,
    config: dict[str, str],
    method: str,
    path: str,
    body: bytes | None = None,
) -> kit.Answer:
    request = awsrequest.AWSRequest(
        method=method,
        url=f"http://{kit.HOST}{path}",
        data=body or b"",
        headers={"host": kit.HOST},
    )
    request.headers["x-amz-content-sha256"] = hashlib.sha256(body or b"").hexdigest()
    credentials = Credentials(
        config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"]
    )
    auth.S3SigV4Auth(credentials, "s3", kit.REGION).add_auth(request)
    return rest.send(method, path, body, dict(request.headers.items()))


def keys(rest: kit.RestServer, user: str = "root") -> dict[str, str]:
    config: dict[str, str] = rest.load("ns.orders", user=user).json["config"]
    return config


def test_vended_keys_read_and_write_their_table(rest: kit.RestServer) -> None:
    config = keys(rest)
    assert send(rest, config, "PUT", "/lake/ns/orders/data/f.parquet", b"PAR1").status == 200
    answer = send(rest, config, "GET", "/lake/ns/orders/data/f.parquet")
    assert (answer.status, answer.body) == (200, b"PAR1")
    listed = send(rest, config, "GET", "/lake?list-type=2&prefix=ns%2Forders%2F")
    assert listed.status == 200
    assert b"f.parquet" in listed.body
    assert send(rest, config, "DELETE", "/lake/ns/orders/data/f.parquet").status == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/lake/ns/orders2/data/f.parquet", None),
        ("PUT", "/lake/ns/orders2/data/f.parquet", b"x"),
        ("PUT", "/lake/ns/ordersX/data/f.parquet", b"x"),
        ("GET", "/lake?list-type=2&prefix=ns%2Forders", None),
        ("GET", "/lake?list-type=2", None),
        ("GET", "/lake?list-type=2&prefix=ns%2Forders2%2F", None),
        ("PUT", "/other", None),
        ("GET", "/", None),
        ("DELETE", "/lake", None),
        ("HEAD", "/lake", None),
        ("GET", "/lake?versioning", None),
    ],
)
def test_vended_keys_open_nothing_beside_their_table(
    rest: kit.RestServer, method: str, path: str, body: bytes | None
) -> None:
    assert send(rest, keys(rest), method, path, body).status == 403


def test_vended_keys_tell_where_their_bucket_is(rest: kit.RestServer) -> None:
    """Clients without a region ask for it first."""
    answer = send(rest, keys(rest), "GET", "/lake?location")
    assert (answer.status, b"LocationConstraint" in answer.body) == (200, True)
    # The rights of the user bound those of the keys, here as everywhere.
    assert send(rest, keys(rest, "reader"), "GET", "/lake?location").status == 403


def test_keys_of_a_reader_write_nothing(rest: kit.RestServer) -> None:
    config = keys(rest, "reader")
    send(rest, keys(rest), "PUT", "/lake/ns/orders/data/f.parquet", b"PAR1")
    assert send(rest, config, "GET", "/lake/ns/orders/data/f.parquet").status == 200
    for method in ("PUT", "DELETE"):
        body = b"x" if method == "PUT" else None
        refused = send(rest, config, method, "/lake/ns/orders/data/g.parquet", body)
        assert refused.status == 403


def test_keys_end(rest: kit.RestServer) -> None:
    config = keys(rest)
    path = f"/lake/ns/orders/metadata/{'x'}.avro"
    assert send(rest, config, "GET", path).status == 404
    rest.lake.clock.now_ms += 3_601_000
    # The signature is an hour old by then as well, so ask with the clock moved back a little less.
    ended = send(rest, config, "GET", path)
    assert ended.status in (400, 403)


def test_a_token_of_other_keys_opens_nothing(rest: kit.RestServer) -> None:
    one, two = keys(rest), keys(rest, "reader")
    mixed = {**one, "s3.session-token": two["s3.session-token"]}
    assert send(rest, mixed, "GET", "/lake/ns/orders/data/f.parquet").status in (400, 403)


def test_vended_keys_do_not_open_the_catalog(rest: kit.RestServer) -> None:
    config = keys(rest)
    bearer = {"authorization": f"Bearer {config['s3.session-token']}"}
    assert rest.send("GET", "/iceberg/v1/lake/namespaces", headers=bearer).status == 401


def test_keys_are_the_same_for_a_while_and_then_new(rest: kit.RestServer) -> None:
    now = rest.lake.clock.now_ms
    rest.lake.clock.now_ms = now - now % (15 * 60 * 1000)
    first = keys(rest)
    assert keys(rest) == first
    rest.lake.clock.now_ms += 15 * 60 * 1000
    assert keys(rest)["s3.access-key-id"] != first["s3.access-key-id"]


def test_a_session_token_is_no_bearer_token(rest: kit.RestServer) -> None:
    """It stands in every presigned URL, and says nothing without the secret key."""
    config = rest.load("ns.orders").json["config"]
    headers = {"authorization": f"Bearer {config['s3.session-token']}"}
    for path in ("/iceberg/v1/config?warehouse=lake", "/iceberg/v1/lake/namespaces"):
        status, error_type, message = rest.send("GET", path, headers=headers).error
        assert (status, error_type) == (401, "NotAuthorizedException")
        assert "the token is for another use" in message
