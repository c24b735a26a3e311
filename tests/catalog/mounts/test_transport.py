"""Requests of mounts against servers that answer badly, slowly, or lead elsewhere."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import errors
from catalog.mounts import catalogs, sources, transport
from server import mounts
from storage import disk

JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"


def read_body(connection: socket.socket, data: bytes) -> None:
    """Read what is left of a body: the kernel resets a connection that is closed over unread bytes.

    data: what has been read, the head and the body's beginning.
    """
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    left = int(length[1]) - len(body) if length else 0
    while left > 0 and (more := connection.recv(65536)):
        left -= len(more)


@contextlib.contextmanager
def answering(serve: Callable[[socket.socket, bytes], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that passes each connection and its request's head to serve; and the requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    data = connection.recv(65536)
                    if not data:
                        break
                    head += data
                requests.append(head)
                read_body(connection, head)
                with contextlib.suppress(OSError):
                    serve(connection, head)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.close()


def other(url: str, **more: str) -> catalogs.OtherCatalog:
    mount = mounts.Mount(name="prod", uri=url, timeout_seconds=1, **more)  # type: ignore[arg-type]
    return catalogs.OtherCatalog(mount, now_ms=lambda: 1_700_000_000_000)


def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else() -> None:
    with (
        answering(lambda connection, _: connection.sendall(JSON + b"{}")) as (elsewhere, stolen),
        answering(
            lambda connection, _: connection.sendall(
                b"HTTP/1.1 307 Moved\r\ncontent-length: 0\r\n"
                + f"location: {elsewhere}/\r\n\r\n".encode()
            )
        ) as (url, _),
    ):
        with pytest.raises(errors.MountUnavailable, match="status 307"):
            other(url, token="hush").listing()
        assert stolen == []


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"",
        JSON + b"[1",
        JSON + b"[]",
        JSON + b"[" * 100_000,
        JSON + b'{"overrides": {"prefix": 7}}',
        b"HTTP/1.1 500 Oh\r\ncontent-length: 4\r\n\r\nhush",
        b"HTTP/1.1 403 No\r\ncontent-length: 4\r\n\r\nhush",
    ],
)
def test_an_answer_that_is_not_a_catalogs_is_one_error_without_its_text(answer: bytes) -> None:
    with (
        answering(lambda connection, _: connection.sendall(answer)) as (url, _),
        pytest.raises(errors.MountUnavailable, match="The mount prod is not available") as refused,
    ):
        other(url, token="hush").listing()
    assert "hush" not in str(refused.value)


def test_an_answer_by_single_bytes_ends_after_three_timeouts() -> None:
    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(JSON + b'{"a": "')
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    started = time.monotonic()
    with (
        answering(drip) as (url, _),
        pytest.raises(errors.MountUnavailable, match="takes too long"),
    ):
        other(url).listing()
    assert time.monotonic() - started < 10


VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


@pytest.mark.parametrize(
    ("configuration", "status", "expected"),
    [
        ({"endpoints": [VIEWS]}, 200, {("a",): ["v"]}),
        ({"overrides": {"view-endpoints-supported": "true"}}, 200, {("a",): ["v"]}),
        ({"endpoints": [VIEWS]}, 403, {("a",): []}),
        ({"endpoints": [VIEWS]}, 501, {("a",): []}),
        # A catalog that does not say that it lists views is not asked: 500 would fail the listing.
        ({"endpoints": []}, 500, {("a",): []}),
        ({}, 500, {("a",): []}),
    ],
)
def test_views_are_listed_of_a_catalog_that_says_it_has_them(
    configuration: dict[str, Any], status: int, expected: dict[tuple[str, ...], list[str]]
) -> None:
    def serve(connection: socket.socket, head: bytes) -> None:
        if head.startswith(b"GET /v1/config"):
            connection.sendall(JSON + json.dumps(configuration).encode())
        elif b"/a/views?" in head:
            # A table's name is a table's, also where the other catalog has a view of it.
            body = b'{"identifiers": [{"namespace": ["a"], "name": "v"}, {"name": "t"}]}'
            connection.sendall(JSON.replace(b"200", str(status).encode()) + body)
        elif b"/a/tables?" in head:
            connection.sendall(JSON + b'{"identifiers": [{"namespace": ["a"], "name": "t"}]}')
        elif b"parent=" in head:
            connection.sendall(JSON + b'{"namespaces": []}')
        else:
            connection.sendall(JSON + b'{"namespaces": [["a"]]}')

    with answering(serve) as (url, _):
        listed = other(url).listing()
    assert (listed.tables, listed.views) == ({("a",): ["t"]}, expected)


def test_client_credentials_become_a_token_before_the_first_request() -> None:
    def serve(connection: socket.socket, head: bytes) -> None:
        if head.startswith(b"POST /v1/oauth/tokens"):
            connection.sendall(JSON + b'{"access_token": "t1", "expires_in": 3600}')
        elif b"authorization: Bearer t1" not in head:
            connection.sendall(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
        elif head.startswith(b"GET /v1/config"):
            connection.sendall(JSON + b'{"overrides": {"prefix": "p/q"}, "defaults": {}}')
        elif head.startswith(b"GET /v1/p/q/namespaces?pageToken= "):
            connection.sendall(JSON + b'{"namespaces": [["a"]], "next-page-token": "2"}')
        elif head.startswith(b"GET /v1/p/q/namespaces?pageToken=2 "):
            connection.sendall(JSON + b'{"namespaces": [["b"], ["c\\u0000"], "x", [1]]}')
        elif b"parent=" in head:
            connection.sendall(JSON + b'{"namespaces": []}')
        else:
            connection.sendall(
                JSON + b'{"identifiers": [{"namespace": ["a"], "name": "t"}, {"name": "n@m"}, 7]}'
            )

    with answering(serve) as (url, requests):
        listing = other(url, credential="id:secret").listing().tables
    assert listing == {("a",): ["t"], ("b",): ["t"]}
    assert requests[0].startswith(b"POST")
    assert sum(request.startswith(b"POST") for request in requests) == 1


def test_a_table_that_does_not_exist_is_no_fault_of_the_mount() -> None:
    def serve(connection: socket.socket, head: bytes) -> None:
        missing = b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"
        connection.sendall(JSON + b"{}" if head.startswith(b"GET /v1/config") else missing)

    with answering(serve) as (url, _), pytest.raises(errors.NoSuchTable):
        other(url).load(("a",), "t")


def source(**more: str) -> sources.FileSource:
    mount = mounts.Mount(name="prod", timeout_seconds=1, **more)  # type: ignore[arg-type]
    return sources.FileSource(mount, local=disk.Disk(), now_ms=lambda: 1_700_000_000_000)


def read(reading: sources.FileSource, uri: str, vended: dict[str, str], bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    reading.read(uri, pieces.append, vended=sources.vended(vended, []), bytes_max=bytes_max)
    return b"".join(pieces)


def test_a_catalog_cannot_lead_the_server_to_another_s3_endpoint() -> None:
    with answering(lambda connection, _: connection.sendall(JSON + b"data")) as (url, requests):
        with pytest.raises(errors.MountUnavailable, match="set s3_endpoint"):
            read(source(uri="http://127.0.0.2:1"), "s3://b/k", {"s3.endpoint": url}, 100)
        assert requests == []
        assert read(source(uri=url), "s3://b/k k", {"s3.endpoint": url + "/x"}, 100) == b"data"
        assert requests[0].startswith(b"GET /b/k%20k ")


def test_a_file_that_is_too_long_ends_early_or_is_missing_is_an_error() -> None:
    keys = {"s3.access-key-id": "a", "s3.secret-access-key": "hush"}

    def serve(connection: socket.socket, head: bytes) -> None:
        assert b"hush" not in head
        assert b"Credential=a/20231114/us-east-1/s3/aws4_request" in head
        if b"/missing" in head:
            connection.sendall(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
        elif b"/short" in head:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ndata")
        else:
            connection.sendall(JSON + b"x" * 1000)

    with answering(serve) as (url, _):
        reading = source(uri=url, s3_endpoint=url)
        with pytest.raises(errors.MountUnavailable, match="longer than 100 bytes"):
            read(reading, "s3://b/long", keys, 100)
        with pytest.raises(errors.MountUnavailable):
            read(reading, "s3://b/short", keys, 100)
        with pytest.raises(errors.MetadataFileMissing):
            read(reading, "s3://b/missing", keys, 100)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd", "/etc/passwd", "file://elsewhere/lake/x", "relative/x", "s3://bucket",
        "gs://bucket/key", "{folder}/../outside", "{folder}/link", "{folder}", "{folder}/absent",
        "file:{folder}/%2e%2e/outside", "\x00",
    ],
)  # fmt: skip
def test_a_local_file_outside_the_folder_is_never_read(uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    (tmp_path / "outside").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "inside").write_text("fine")
    reading = source(folder=str(folder))
    with pytest.raises(errors.MetadataFileMissing):
        read(reading, uri.replace("{folder}", str(folder)), {}, 100)
    for inside in (f"{folder}/inside", f"file:{folder}/inside", f"file://{folder}/inside"):
        assert read(reading, inside, {}, 100) == b"fine"
    with pytest.raises(errors.MetadataFileMissing):
        read(source(), f"{folder}/inside", {}, 100)


def test_the_signature_of_a_request_has_no_secret_and_the_session_token() -> None:
    keys = transport.Keys(
        access_key="a", secret_key="hush", session_token="t", region="eu-west-1", service="s3"
    )
    headers = transport.signature(
        keys, "GET", "https://s3.example.org/b/k?x=1", b"", now_ms=1_700_000_000_000
    )
    assert headers["x-amz-security-token"] == "t"
    assert "hush" not in repr(headers) + repr(keys)
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=a/20231114/eu-west-1")
