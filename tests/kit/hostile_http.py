"""Hostile requests to the HTTP kit and the S3 face, for `tests.campaign`."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

import botocore.auth
import botocore.awsrequest
import botocore.credentials

from tests.kit import post_forms, s3, stalls

TIMEOUT_SECONDS: Final = 60
MIB: Final = stalls.MIB
HEAD_LINE_BYTES: Final = 8 * 1024


def connect(place: stalls.Target) -> socket.socket:
    return socket.create_connection((place.host, place.port), timeout=TIMEOUT_SECONDS)


def at_once(work: Callable[[int], None], count: int) -> None:
    """Call work with 0, 1, ... count - 1, each in a thread; raise the first error."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def status_of(connection: socket.socket) -> int:
    """Read until a status line is there; return its code, 0 if the connection ends without one."""
    answer = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in answer:
            part = connection.recv(65536)
            if not part:
                break
            answer += part
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def signed_headers(
    place: stalls.Target, method: str, target: str, body: bytes, *, service: str, secret_key: str
) -> dict[str, str]:
    """Headers signed by botocore for another service than s3."""
    request = botocore.awsrequest.AWSRequest(
        method=method, url=f"{place.url}{target}", data=body, headers={}
    )
    keys = botocore.credentials.Credentials(place.access_key, secret_key)
    botocore.auth.SigV4Auth(keys, service, s3.REGION).add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["host"] = f"{place.host}:{place.port}"
    return headers


def wrongly_signed_bodies(service: str, target: str) -> Callable[[stalls.Target], None]:
    """Bodies of 30 MiB at once, signed with a known access key and a wrong secret."""

    def send(place: stalls.Target) -> None:
        body = b" " * (30 * MIB)
        headers = signed_headers(
            place, "POST", target, body, service=service, secret_key="not the secret key"
        )
        head = f"POST {target} HTTP/1.1\r\ncontent-length: {len(body)}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )

        def one(_: int) -> None:
            with connect(place) as connection:
                connection.sendall(head.encode() + b"\r\n")
                with contextlib.suppress(OSError):
                    connection.sendall(body[:-1])
                    time.sleep(1)  # all but the last byte lies at the server meanwhile
                    connection.sendall(body[-1:])
                assert status_of(connection) in (0, 401, 403, 413, 429, 503)

        at_once(one, 6)

    return send


def unfinished_heads(place: stalls.Target) -> None:
    """Heads of nearly 256 KiB that never end, on 400 connections."""
    line = b"x: " + b"a" * (HEAD_LINE_BYTES - 5) + b"\r\n"
    head = b"GET / HTTP/1.1\r\nhost: a\r\n" + line * 31
    connections = []
    try:
        for _ in range(400):
            connection = connect(place)
            connections.append(connection)
            with contextlib.suppress(OSError):
                connection.sendall(head)
        time.sleep(1)
    finally:
        for connection in connections:
            connection.close()


def pipelined_heads(place: stalls.Target) -> None:
    """60 requests with heads of 200 KiB in one go, on each of 16 connections, never read."""
    line = b"x: " + b"a" * (HEAD_LINE_BYTES - 5) + b"\r\n"
    head = b"GET /plain/none HTTP/1.1\r\nhost: a\r\n" + line * 25 + b"\r\n"

    def one(_: int) -> None:
        with connect(place) as connection:
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                connection.sendall(head * 60)
            time.sleep(1)

    at_once(one, 16)


def unread_bodies(place: stalls.Target) -> None:
    """Anonymous uploads of 60 MiB, refused; the bodies are sent all the same."""
    head = b"PUT /plain/none HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (60 * MIB)

    def one(_: int) -> None:
        with connect(place) as connection:
            # A server that stops taking the body ends this by a TimeoutError, which is no reset.
            with contextlib.suppress(ConnectionError):
                connection.sendall(head)
                for _ in range(60):
                    connection.sendall(b"x" * MIB)
            assert status_of(connection) in (0, 403)

    at_once(one, 8)


def slow_readers(place: stalls.Target) -> None:
    """Listings of 1,000 long keys, asked for 4 times on each of 150 connections and never read."""
    headers = s3.sign(
        place,
        "GET",
        "/plain?list-type=2",
        payload_hash=hashlib.sha256(b"").hexdigest(),
    )
    head = "GET /plain?list-type=2 HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in headers.items()
    )
    connections = []
    try:
        for _ in range(150):
            connection = connect(place)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connections.append(connection)
            connection.sendall((head + "\r\n").encode() * 4)
            time.sleep(0.05)  # so that no burst of work but what is kept is measured
        time.sleep(1)
    finally:
        for connection in connections:
            connection.close()


def pipelined_small_heads(place: stalls.Target) -> None:
    """60 small requests of many headers each, behind an answer that is never read, 300 times."""
    target = "/plain/large"
    headers = s3.sign(place, "GET", target, payload_hash=hashlib.sha256(b"").hexdigest())
    first = f"GET {target} HTTP/1.1\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in headers.items()
    )
    small = b"GET /plain/none HTTP/1.1\r\nhost: a\r\n" + b"x-ab: 12\r\n" * 250 + b"\r\n"
    connections = []
    try:
        for _ in range(300):
            connection = connect(place)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connections.append(connection)
            connection.sendall((first + "\r\n").encode() + small * 60)
            time.sleep(0.01)
        time.sleep(1)
    finally:
        for connection in connections:
            connection.close()


def make_large_object(place: stalls.Target) -> None:
    """An object of 16 MiB in the bucket `plain`."""
    s3.client(place).put_object(Bucket="plain", Key="large", Body=bytes(16 * MIB))


def make_long_keys(place: stalls.Target) -> None:
    """1,000 objects with keys of 1,000 bytes in the bucket `plain`."""
    client = s3.client(place)
    for number in range(1000):
        client.put_object(Bucket="plain", Key=f"{number:04}" + "k" * 996, Body=b"")


def many_signed_headers(place: stalls.Target) -> None:
    """Presigned queries as long as they may be: 256 signed headers, 900 pairs, each escaped."""
    names = ";".join(["host", *(f"h{number:03}" for number in range(255))])
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    credential = f"{place.access_key}%2F{moment[:8]}%2Fus-east-1%2Fs3%2Faws4_request"
    query = (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={moment}"
        f"&X-Amz-Expires=600&X-Amz-SignedHeaders={names.replace(';', '%3B')}"
        f"&X-Amz-Signature={'0' * 64}"
    )
    query += "".join(f"&%61{number:03}=%61%62%63" for number in range(900))
    for _ in range(200):
        assert s3.send(place, "GET", f"/plain/key?{query}").status in (400, 403)


def zero_keys(place: stalls.Target) -> None:
    """400 anonymous requests for a key of 5,000 escaped zero bytes."""
    for _ in range(400):
        assert s3.send(place, "GET", "/plain/" + "%00" * 5000).status in (400, 403)


def delete_documents(place: stalls.Target) -> None:
    """DeleteObjects with 1,000 keys, and XML of 4 MiB that is none of it, in turns."""
    objects = "".join(f"<Object><Key>{'k' * 1000}{n}</Key></Object>" for n in range(1000))
    good = f"<Delete>{objects}</Delete>".encode()
    deep = ("<Delete>" + "<a>" * 30 + "<b/>" * 99_000 + "</a>" * 30 + "</Delete>").encode()
    wide = ("<Delete>" + "&#97;" * 800_000 + "</Delete>").encode()
    attributes = ("<Delete " + " ".join(f'a{n}="1"' for n in range(1500)) + "/>").encode()
    for body in (good, deep, wide, attributes):
        md5 = {"content-md5": _md5(body)}
        answer = s3.call(place, "POST", "/plain?delete", md5, body)
        assert answer.status in (200, 400), (answer.status, answer.body[:300])


def _md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def complete_documents(place: stalls.Target) -> None:
    """CompleteMultipartUpload naming 10,000 parts that are not there, four at once."""
    client = s3.client(place)
    upload = client.create_multipart_upload(Bucket="plain", Key="many")["UploadId"]
    parts = "".join(
        f'<Part><PartNumber>{n}</PartNumber><ETag>"{"0" * 32}"</ETag></Part>'
        for n in range(1, 10_001)
    )
    body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()

    def one(_: int) -> None:
        answer = s3.call(place, "POST", f"/plain/many?uploadId={upload}", {}, body)
        assert answer.status == 400, answer.body[:300]

    at_once(one, 4)


def small_chunks(place: stalls.Target) -> None:
    """An aws-chunked body of 60,000 chunks of 16 bytes, each signed."""
    answer = s3.stream(
        place,
        "PUT",
        "/plain/chunks",
        [b"0123456789abcdef"] * 60_000,
        mode="STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    )
    assert answer.status in (200, 400), answer.body[:300]


def tiny_transfer_chunks(place: stalls.Target) -> None:
    """A body in transfer chunks of one byte, 300,000 of them, for a key of one's own."""
    headers = s3.sign(
        place,
        "PUT",
        "/plain/bytes",
        {"transfer-encoding": "chunked"},
        payload_hash="UNSIGNED-PAYLOAD",
    )
    answer = s3.send(place, "PUT", "/plain/bytes", headers, [b"1\r\na\r\n" * 300_000, b"0\r\n\r\n"])
    assert answer.status in (200, 400, 411), answer.body[:300]


FORM_HEADERS: Final = {"content-type": f"multipart/form-data; boundary={post_forms.BOUNDARY}"}


def unfinished_forms(place: stalls.Target) -> None:
    """Forms of 90 KiB of fields without a file, from 400 connections that then wait."""
    fields = {f"x-ignore-{number}": "a" * 1024 for number in range(85)}
    body = post_forms.encode(fields, b"").partition(b'name="file"')[0]
    head = (
        b"POST /plain HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in FORM_HEADERS.items()).encode()
    )
    connections = []
    try:
        for _ in range(400):
            connection = connect(place)
            connections.append(connection)
            with contextlib.suppress(OSError):
                connection.sendall(head + b"\r\n" + body)
        time.sleep(1)
    finally:
        for connection in connections:
            connection.close()


def forms_in_tiny_chunks(place: stalls.Target) -> None:
    """Fields that stop just below their bound, in transfer chunks of one byte."""
    fields = {"x-ignore-a": "\r\n--" * 18_000}
    framed = b"".join(b"1\r\n%c\r\n" % byte for byte in post_forms.encode(fields, b""))
    headers = {**FORM_HEADERS, "transfer-encoding": "chunked"}
    answer = s3.send(place, "POST", "/plain", headers, [framed, b"0\r\n\r\n"])
    assert answer.status in (400, 403), answer.body[:300]


def forms_of_beginning_delimiters(place: stalls.Target) -> None:
    """Files of 32 MiB in which a delimiter begins at every place, four at once."""
    content = f"\r\n--{post_forms.BOUNDARY[:-1]}".encode() * (32 * MIB // 36)

    def one(number: int) -> None:
        proof = post_forms.signed(place, [{"bucket": "plain"}, ["starts-with", "$key", ""]])
        body = post_forms.encode({"key": f"form-{number}", **proof}, content)
        answer = s3.send(place, "POST", "/plain", FORM_HEADERS, body)
        assert answer.status == 204, answer.body[:300]

    at_once(one, 4)


def large_post_policies(place: stalls.Target) -> None:
    """Policies of 64 KiB with 1,000 conditions, signed, 50 one after another."""
    conditions = [["starts-with", f"$x-ignore-{number}", ""] for number in range(999)]
    proof = post_forms.signed(place, [{"bucket": "plain"}, *conditions])
    body = post_forms.encode({"key": "form", **proof}, b"x")
    for _ in range(50):
        answer = s3.send(place, "POST", "/plain", FORM_HEADERS, body)
        assert answer.status in (400, 403), answer.body[:300]


def many_connections(place: stalls.Target) -> None:
    """2,000 connections that say nothing."""
    connections: list[socket.socket] = []
    try:
        for _ in range(2000):
            with contextlib.suppress(OSError):
                connections.append(connect(place))
        time.sleep(1)
    finally:
        for connection in connections:
            connection.close()


def wrong_passwords(place: stalls.Target) -> None:
    """2,000 Basic credentials, each with another name of 6 KiB."""
    for number in range(2000):
        text = base64.b64encode(f"{number:06}{'n' * 6000}:password".encode()).decode()
        answer = s3.send(place, "GET", "/_metrics", {"authorization": f"Basic {text}"})
        assert answer.status in (401, 429), answer.body[:300]


def bogus_tokens(place: stalls.Target) -> None:
    """500 bearer tokens of 8 KiB that are no tokens, and 500 that look like one."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT","kid":"none"}').decode().strip("=")
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "x" * 4000}).encode()).decode().strip("=")
    for number in range(500):
        for token in ("x" * 8000 + str(number), f"{head}.{claims}.{number:043}"):
            answer = s3.send(
                place, "GET", "/iceberg/v1/config", {"authorization": f"Bearer {token}"}
            )
            assert answer.status == 401, answer.body[:300]


ROWS: Final = (
    stalls.Hostile(
        name="six-bodies-of-30-MiB-wrongly-signed-for-s3tables",
        principal="carol",
        growth_mib=10,
        send=wrongly_signed_bodies("s3tables", "/buckets"),
    ),
    stalls.Hostile(
        name="six-bodies-of-30-MiB-wrongly-signed-for-iceberg",
        principal="carol",
        growth_mib=48,
        send=wrongly_signed_bodies("s3tables", "/iceberg/v1/transactions/commit"),
    ),
    stalls.Hostile(
        name="unfinished-heads-on-400-connections",
        principal=stalls.ANONYMOUS,
        growth_mib=96,
        send=unfinished_heads,
    ),
    stalls.Hostile(
        name="pipelined-heads-on-16-connections",
        principal=stalls.ANONYMOUS,
        growth_mib=96,
        send=pipelined_heads,
    ),
    stalls.Hostile(
        name="pipelined-small-heads-behind-an-unread-answer",
        principal=stalls.ROOT,
        growth_mib=128,
        send=pipelined_small_heads,
        prepare=make_large_object,
    ),
    stalls.Hostile(
        name="bodies-of-refused-uploads",
        principal=stalls.ANONYMOUS,
        growth_mib=40,
        send=unread_bodies,
    ),
    stalls.Hostile(
        name="listings-that-are-never-read",
        principal=stalls.ROOT,
        growth_mib=96,
        send=slow_readers,
        prepare=make_long_keys,
    ),
    stalls.Hostile(
        name="presigned-queries-with-256-signed-headers",
        principal="carol",
        growth_mib=20,
        send=many_signed_headers,
    ),
    stalls.Hostile(
        name="keys-of-5000-zero-bytes",
        principal=stalls.ANONYMOUS,
        growth_mib=20,
        send=zero_keys,
    ),
    stalls.Hostile(
        name="xml-as-large-as-it-may-be",
        principal=stalls.ROOT,
        growth_mib=96,
        send=delete_documents,
    ),
    stalls.Hostile(
        name="four-completions-of-10000-parts",
        principal=stalls.ROOT,
        growth_mib=96,
        send=complete_documents,
    ),
    stalls.Hostile(
        name="60000-signed-chunks-of-16-bytes",
        principal=stalls.ROOT,
        growth_mib=30,
        send=small_chunks,
    ),
    stalls.Hostile(
        name="300000-transfer-chunks-of-one-byte",
        principal=stalls.ROOT,
        growth_mib=30,
        send=tiny_transfer_chunks,
    ),
    stalls.Hostile(
        name="400-unfinished-forms",
        principal=stalls.ANONYMOUS,
        growth_mib=96,
        send=unfinished_forms,
    ),
    stalls.Hostile(
        name="a-form-in-transfer-chunks-of-one-byte",
        principal=stalls.ANONYMOUS,
        growth_mib=30,
        send=forms_in_tiny_chunks,
    ),
    stalls.Hostile(
        name="four-files-of-beginning-delimiters",
        principal=stalls.ROOT,
        growth_mib=96,
        send=forms_of_beginning_delimiters,
    ),
    stalls.Hostile(
        name="post-policies-of-1000-conditions",
        principal=stalls.ROOT,
        growth_mib=20,
        send=large_post_policies,
    ),
    stalls.Hostile(
        name="2000-silent-connections",
        principal=stalls.ANONYMOUS,
        growth_mib=40,
        send=many_connections,
    ),
    stalls.Hostile(
        name="2000-wrong-passwords-for-long-names",
        principal=stalls.ANONYMOUS,
        growth_mib=30,
        send=wrong_passwords,
    ),
    stalls.Hostile(
        name="1000-tokens-that-are-none",
        principal=stalls.ANONYMOUS,
        growth_mib=20,
        send=bogus_tokens,
    ),
)
