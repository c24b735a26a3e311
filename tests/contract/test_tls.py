"""A server with TLS, where bytes of bodies pass through the process."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from boto3.s3 import transfer
from botocore import config, exceptions

from server import limits
from server.transport import connection
from tests.bench import wires
from tests.kit import environments, waits
from tests.kit import server as server_kit

MIB = 1 << 20
UNREAD = 200
STREAM_HELD_BACK_BYTES = 64 * 1024
"""What uvloop's transports hold back by default before they pause their writer."""
HEALTH = b"GET /_health HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(scope="module")
def encrypted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[server_kit.Running, Path]]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    flags = ("--bucket", "raw", "--tls-cert", str(certificate), "--tls-key", str(key))
    running = server_kit.start(folder / "data", *flags)
    try:
        yield running, certificate
    finally:
        assert running.stop() == 0


def client(encrypted: tuple[server_kit.Running, Path]) -> Any:
    running, certificate = encrypted
    return boto3.client(
        "s3",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
        verify=str(certificate),
        config=config.Config(retries={"total_max_attempts": 1}),
    )


def connect(encrypted: tuple[server_kit.Running, Path]) -> ssl.SSLSocket:
    running, certificate = encrypted
    bare = socket.socket()
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    bare.settimeout(waits.WAIT_SECONDS)
    bare.connect((running.host, running.port))
    context = ssl.create_default_context(cafile=str(certificate))
    return context.wrap_socket(bare, server_hostname="127.0.0.1")


Aws = Callable[..., str]


@pytest.fixture
def aws(encrypted: tuple[server_kit.Running, Path], tmp_path: Path) -> Aws:
    """Runs the AWS command line in a folder of the test; returns what it prints."""
    running, certificate = encrypted
    program = environments.program("awscli", "aws")
    environment = {
        **server_kit.client_environment(),
        "AWS_ACCESS_KEY_ID": running.access_key,
        "AWS_SECRET_ACCESS_KEY": running.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": running.url,
        "AWS_CA_BUNDLE": str(certificate),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_MAX_ATTEMPTS": "1",
    }

    def run(*words: str) -> str:
        return subprocess.run(
            [str(program), *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            check=True,
        ).stdout

    return run


def test_awscli_copies_by_parts_and_back(
    encrypted: tuple[server_kit.Running, Path], aws: Aws, tmp_path: Path
) -> None:
    """With TLS it sends bodies in chunks, unsigned, with their checksum behind them."""
    body = os.urandom(9 * MIB)
    (tmp_path / "large").write_bytes(body)
    aws("s3", "cp", "large", "s3://raw/cli-parts", "--only-show-errors")
    aws("s3", "cp", "s3://raw/cli-parts", "back", "--only-show-errors")
    assert (tmp_path / "back").read_bytes() == body
    head = client(encrypted).head_object(Bucket="raw", Key="cli-parts")
    assert head["ETag"].endswith('-2"')
    assert "ContentEncoding" not in head
    client(encrypted).delete_object(Bucket="raw", Key="cli-parts")


def test_chunks_of_a_large_result_are_whole(
    encrypted: tuple[server_kit.Running, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, certificate = encrypted
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    data = wires.Wire(running).post(
        f"/queries/v1/query-request?requestId={uuid.uuid4()}",
        {"sqlText": "select seq8() as n from table(generator(rowcount => 500000)) order by n"},
    )
    parts = [base64.b64decode(data["rowsetBase64"])]
    for chunk in data["chunks"]:
        with urllib.request.urlopen(chunk["url"]) as answer:
            parts.append(answer.read())
    numbers: list[int] = []
    for part in parts:
        with pa.ipc.open_stream(part) as stream:
            numbers += stream.read_all().column(0).to_pylist()
    assert numbers == list(range(500_000))
    assert len(parts) > 1


@pytest.mark.clients
def test_awscli_copies_folders_and_removes_them(
    encrypted: tuple[server_kit.Running, Path], aws: Aws, tmp_path: Path
) -> None:
    bodies = {"large": os.urandom(9 * MIB), "small": b"small"}
    (tmp_path / "in").mkdir()
    for name, body in bodies.items():
        (tmp_path / "in" / name).write_bytes(body)
    aws("s3", "cp", "in", "s3://raw/cli/", "--recursive", "--only-show-errors")
    aws("s3", "cp", "s3://raw/cli/", "back", "--recursive", "--only-show-errors")
    for name, body in bodies.items():
        assert (tmp_path / "back" / name).read_bytes() == body
        head = client(encrypted).head_object(Bucket="raw", Key=f"cli/{name}")
        assert "aws-chunked" not in head.get("ContentEncoding", "")
    aws("s3", "rm", "s3://raw/cli/", "--recursive")
    assert client(encrypted).list_objects_v2(Bucket="raw", Prefix="cli/")["KeyCount"] == 0


def test_a_large_object_is_stored_and_read_whole(
    encrypted: tuple[server_kit.Running, Path],
) -> None:
    s3, body = client(encrypted), os.urandom(9 * MIB + 1)
    s3.put_object(Bucket="raw", Key="whole", Body=body)
    assert s3.get_object(Bucket="raw", Key="whole")["Body"].read() == body
    part = s3.get_object(Bucket="raw", Key="whole", Range="bytes=70000-8000000")
    assert part["Body"].read() == body[70_000:8_000_001]


class Trailing:
    """Notes which requests have their checksum in a trailer, as boto3 sends it with TLS."""

    def __init__(self, s3: Any) -> None:
        self.noted: list[str] = []
        s3.meta.events.register("before-send.s3", self._note)

    def _note(self, request: Any, **_: Any) -> None:
        trailer = _text(request.headers.get("X-Amz-Trailer", ""))
        if trailer:
            mode = _text(request.headers["X-Amz-Content-SHA256"])
            assert mode == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
            assert "aws-chunked" in _text(request.headers["Content-Encoding"])
            self.noted.append(trailer)


def _text(value: str | bytes) -> str:
    """botocore has headers of both types."""
    return value.decode() if isinstance(value, bytes) else value


def crc32(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_boto3_sends_a_small_body_with_its_checksum_in_the_trailer(
    encrypted: tuple[server_kit.Running, Path], encoding: str | None
) -> None:
    s3 = client(encrypted)
    trailing = Trailing(s3)
    extra = {} if encoding is None else {"ContentEncoding": encoding}
    put = s3.put_object(Bucket="raw", Key="small", Body=io.BytesIO(b"small"), **extra)
    assert trailing.noted == ["x-amz-checksum-crc32"]
    answer = s3.get_object(Bucket="raw", Key="small", ChecksumMode="ENABLED")
    assert answer["Body"].read() == b"small"
    assert answer.get("ContentEncoding") == encoding
    for each in (put, answer):
        assert each["ChecksumCRC32"] == crc32(b"small")
        assert each["ChecksumType"] == "FULL_OBJECT"


def test_boto3_uploads_parts_with_their_checksums_in_trailers(
    encrypted: tuple[server_kit.Running, Path],
) -> None:
    s3 = client(encrypted)
    trailing = Trailing(s3)
    body = os.urandom(12 * MIB)
    parts = [body[: 5 * MIB], body[5 * MIB : 10 * MIB], body[10 * MIB :]]
    settings = transfer.TransferConfig(multipart_threshold=1, multipart_chunksize=5 * MIB)
    s3.upload_fileobj(io.BytesIO(body), "raw", "parts", Config=settings)
    assert trailing.noted == ["x-amz-checksum-crc32"] * 3
    answer = s3.get_object(Bucket="raw", Key="parts", ChecksumMode="ENABLED")
    assert answer["Body"].read() == body
    assert "ContentEncoding" not in answer
    # AWS's rule for checksums of parts: that of their checksums, with their number.
    of_parts = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    assert answer["ChecksumCRC32"] == f"{crc32(of_parts)}-3"
    assert answer["ChecksumType"] == "COMPOSITE"
    listed = s3.get_object_attributes(
        Bucket="raw", Key="parts", ObjectAttributes=["ObjectParts", "Checksum"]
    )
    assert [part["ChecksumCRC32"] for part in listed["ObjectParts"]["Parts"]] == [
        crc32(part) for part in parts
    ]


def test_policies_see_the_version_of_tls(encrypted: tuple[server_kit.Running, Path]) -> None:
    running, certificate = encrypted
    s3 = client(encrypted)
    s3.create_bucket(Bucket="recent-tls")
    s3.put_object(Bucket="recent-tls", Key="k", Body=b"1")
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::recent-tls/*",
        "Condition": {"NumericGreaterThan": {"s3:TlsVersion": "1.2"}},
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    s3.put_bucket_policy(Bucket="recent-tls", Policy=json.dumps(policy))
    statuses = {}
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=str(certificate))
        context.maximum_version = version
        with contextlib.closing(
            http.client.HTTPSConnection(
                "127.0.0.1", running.port, timeout=waits.WAIT_SECONDS, context=context
            )
        ) as connection:
            connection.request("GET", "/recent-tls/k")
            statuses[version.name] = connection.getresponse().status
    assert statuses == {"TLSv1_2": 403, "TLSv1_3": 200}


def test_a_trailer_that_contradicts_the_body_stores_nothing(
    encrypted: tuple[server_kit.Running, Path],
) -> None:
    s3 = client(encrypted)
    wrong = crc32(b"other")

    def change(request: Any, **_: Any) -> None:
        request.body = _Replaced(request.body, crc32(b"small").encode(), wrong.encode())

    s3.meta.events.register("before-send.s3", change)
    with pytest.raises(exceptions.ClientError) as refused:
        s3.put_object(Bucket="raw", Key="wrong", Body=io.BytesIO(b"small"))
    assert refused.value.response["Error"]["Code"] == "BadDigest"
    listed = client(encrypted).list_objects_v2(Bucket="raw", Prefix="wrong")
    assert listed["KeyCount"] == 0


class _Replaced:
    """A body in whose bytes one text takes the place of another of its length."""

    def __init__(self, body: Any, text: bytes, other: bytes) -> None:
        data = body.read()
        assert data.count(text) == 1
        assert len(text) == len(other)
        self._rest = io.BytesIO(data.replace(text, other))

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(size)


@pytest.mark.parametrize("count", [0, 3])
def test_what_is_no_request_is_answered_behind_the_requests_before_it(
    encrypted: tuple[server_kit.Running, Path], count: int
) -> None:
    with connect(encrypted) as talk:
        talk.sendall(HEALTH * count + b"no request\r\n\r\n" + b"x" * MIB)
        answers = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while not answers.endswith(connection.INVALID) and (data := talk.recv(65536)):
                answers += data
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == count
    assert answers.endswith(connection.INVALID)


def resident_bytes(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    (kib,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(kib) * 1024


@pytest.mark.campaign
@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_downloads_that_are_not_read_hold_little_memory_each(
    encrypted: tuple[server_kit.Running, Path],
) -> None:
    """asyncio and uvloop let half a MiB wait for each by default.

    Two buffers lie between a step of a body and the socket: that of TLS, with its bound and the
    step that went beyond it, and that of the stream below, whose bound is uvloop's own and which
    gets all that TLS holds at once.
    """
    running, _ = encrypted
    s3 = client(encrypted)
    s3.put_object(Bucket="raw", Key="large", Body=bytes(8 * MIB))
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "raw", "Key": "large"})
    target = url.removeprefix(running.url)
    request = f"GET {target} HTTP/1.1\r\nHost: {running.host}:{running.port}\r\n\r\n".encode()
    talks: list[ssl.SSLSocket] = []
    try:
        talks += [connect(encrypted) for _ in range(UNREAD)]
        before = resident_bytes(running.pid)
        for talk in talks:
            talk.sendall(request)
        held, grown = 0, resident_bytes(running.pid) - before
        while grown > held:  # until it does not grow any more
            held = grown
            time.sleep(1)
            grown = resident_bytes(running.pid) - before
        of_tls = limits.TLS_HELD_BACK_BYTES_MAX + limits.COPIED_BYTES
        each_max = of_tls + (STREAM_HELD_BACK_BYTES + of_tls)
        assert held <= UNREAD * each_max, f"{held / MIB:.0f} MiB"
        # A connection of its own: the server closes one that was idle for so long.
        fresh = client(encrypted)
        assert fresh.get_object(Bucket="raw", Key="large")["ContentLength"] == 8 * MIB
    finally:
        for talk in talks:
            talk.close()


@pytest.mark.clients
@pytest.mark.spark
def test_a_job_trusts_the_certificate_of_its_server(
    encrypted: tuple[server_kit.Running, Path], tmp_path: Path
) -> None:
    running, _ = encrypted
    source = tmp_path / "rows.csv"
    source.write_text("a,b\n1,2\n3,4\n")
    words = ("ingest", "--data", str(running.data), "--from", str(source), "--engine", "spark")
    job = subprocess.run(
        [sys.executable, "-m", "pipeline", *words, "--to", "lake.tls.rows"],
        cwd=server_kit.ROOT, env=os.environ.copy(), capture_output=True, text=True,
        timeout=waits.WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert job.returncode == 0, job.stderr
    assert "loaded 2 rows" in job.stderr
