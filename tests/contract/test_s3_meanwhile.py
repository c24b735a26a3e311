"""Requests that are under way while a table is created around their key."""

from __future__ import annotations

import concurrent.futures
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import botocore.exceptions
import pytest

from tests.kit import rest
from tests.kit import s3 as kit
from tests.kit.server import Running

RUNS = 40
RUNS_MAX = 400
"""How many runs may pass until a registration has won one: the machine decides who does."""
ANSWER_SECONDS = 120


@pytest.fixture
def s3(server: Running) -> Any:
    return kit.client(server)


@pytest.fixture
def catalog(server: Running) -> Iterator[rest.Client]:
    with rest.Client(server) as client:
        yield client


@pytest.fixture
def namespace(catalog: rest.Client) -> str:
    name = f"ns{uuid.uuid4().hex[:12]}"
    assert catalog.ask("POST", "namespaces", {"namespace": [name]})[0] == 200
    return name


def create_table(catalog: rest.Client, namespace: str, name: str) -> dict[str, Any]:
    status, answer = catalog.ask(
        "POST", f"namespaces/{namespace}/tables", {"name": name, "schema": rest.SCHEMA}
    )
    assert status == 200, answer
    return dict(answer["metadata"])


class HalfPut:
    """A PutObject that has passed its first judgement: the server asks for the body."""

    def __init__(self, server: Running, key: str, body: bytes) -> None:
        target = f"/lake/{key}"
        signed = kit.sign(server, "PUT", target, payload_hash="UNSIGNED-PAYLOAD")
        headers = {**signed, "content-length": str(len(body)), "expect": "100-continue"}
        lines = [f"PUT {target} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        self._body = body
        self._socket = socket.create_connection((server.host, server.port), ANSWER_SECONDS)
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        assert self._socket.recv(4096).startswith(b"HTTP/1.1 100 ")
        self._socket.sendall(body[: len(body) // 2])

    def finish(self) -> tuple[int, str | None]:
        """Send the rest; return the status and the layout rule that the answer names."""
        self._socket.sendall(self._body[len(self._body) // 2 :])
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._socket.recv(4096)
        self._socket.close()
        first, *lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(first.split()[1]), headers.get("x-boathouse-layout-rule")


@pytest.mark.parametrize("size_bytes", [1_000, 3_000_000])
def test_a_put_is_judged_by_the_table_created_before_its_body_was_complete(
    server: Running, s3: Any, catalog: rest.Client, namespace: str, size_bytes: int
) -> None:
    key = f"{namespace}/t/z/data/f.parquet"
    put = HalfPut(server, key, b"b" * size_bytes)
    create_table(catalog, namespace, "t")
    assert put.finish() == (403, "no-anchor")
    assert kit.call(server, "GET", f"/lake/{key}").status == 404
    listed = s3.list_objects_v2(Bucket="lake", Prefix=f"{namespace}/t/z")
    assert "Contents" not in listed


def test_a_multipart_upload_is_judged_by_the_table_created_before_it_was_completed(
    server: Running, s3: Any, catalog: rest.Client, namespace: str
) -> None:
    call = {"Bucket": "lake", "Key": f"{namespace}/t/z/data/f.parquet"}
    call["UploadId"] = s3.create_multipart_upload(**call)["UploadId"]
    etag = s3.upload_part(PartNumber=1, Body=b"part", **call)["ETag"]
    create_table(catalog, namespace, "t")
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        s3.complete_multipart_upload(
            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **call
        )
    assert caught.value.response["Error"]["Rule"] == "no-anchor"
    assert kit.call(server, "GET", f"/lake/{call['Key']}").status == 404
    s3.abort_multipart_upload(**call)


def test_a_put_and_a_table_around_its_key_at_once_never_break_the_layout(
    server: Running, namespace: str
) -> None:
    """Whichever comes first: a table is made beside files that are there, never around them."""
    with rest.Client(server) as creator, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for run in range(RUNS):
            key = f"{namespace}/t{run}/z/data/f.parquet"
            together = threading.Barrier(2)

            def create(
                name: str = f"t{run}", together: threading.Barrier = together
            ) -> dict[str, Any]:
                together.wait(ANSWER_SECONDS)
                return create_table(creator, namespace, name)

            def put(key: str = key, together: threading.Barrier = together) -> kit.Answer:
                together.wait(ANSWER_SECONDS)
                return kit.call(server, "PUT", f"/lake/{key}", body=b"PAR1")

            creating, putting = pool.submit(create), pool.submit(put)
            location, answer = creating.result()["location"], putting.result()
            is_around = f"s3://lake/{key}".startswith(f"{location}/")
            if answer.status == 200:
                assert not is_around
            else:
                assert answer.headers["x-boathouse-layout-rule"] == "no-anchor"
                assert is_around
            read = kit.call(server, "GET", f"/lake/{key}")
            assert read.status == (200 if answer.status == 200 else 404)


@pytest.mark.parametrize("other", ["delete", "delete many", "put"])
def test_register_and_a_change_of_the_metadata_file_at_once_leave_both_or_neither(
    server: Running, s3: Any, catalog: rest.Client, namespace: str, other: str
) -> None:
    """A registered table's metadata file is there, and is the one that was registered."""
    metadata = create_table(catalog, namespace, "base")
    registered = 0
    with (
        rest.Client(server) as registrar,
        concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool,
    ):
        for run in range(RUNS_MAX):
            if run >= RUNS and registered:
                break
            name = f"t{run}"
            key = f"{namespace}/{name}/metadata/v1.metadata.json"
            metadata["location"] = f"s3://lake/{namespace}/{name}"
            metadata["table-uuid"] = str(uuid.uuid4())
            bodies = [
                json.dumps({**metadata, "properties": {"version": version}}).encode()
                for version in ("one", "two")
            ]
            s3.put_object(Bucket="lake", Key=key, Body=bodies[0])
            together = threading.Barrier(2)

            def register(
                name: str = name, key: str = key, together: threading.Barrier = together
            ) -> tuple[int, Any]:
                request = {
                    "name": name,
                    "metadata-location": f"s3://lake/{key}",
                }
                together.wait(ANSWER_SECONDS)
                return registrar.ask("POST", f"namespaces/{namespace}/register", request)

            def change(
                key: str = key,
                body: bytes = bodies[1],
                together: threading.Barrier = together,
            ) -> int:
                together.wait(ANSWER_SECONDS)
                if other == "delete":
                    return kit.call(server, "DELETE", f"/lake/{key}").status
                if other == "delete many":
                    named = {"Objects": [{"Key": key}]}
                    answer = s3.delete_objects(Bucket="lake", Delete=named)
                    return 204 if "Deleted" in answer else 400
                return kit.call(server, "PUT", f"/lake/{key}", body=body).status

            registering, changing = pool.submit(register), pool.submit(change)
            (status, answer), changed = registering.result(), changing.result()
            read = kit.call(server, "GET", f"/lake/{key}")
            if other == "put":
                assert status == 200, answer
                assert changed in (200, 403)
                assert read.body == bodies[changed == 200]
                assert answer["metadata"]["properties"] == json.loads(read.body)["properties"]
            else:
                assert changed == 204
                assert (status == 200) == (read.status == 200), (status, answer)
                assert status == 200 or read.status == 404
                assert read.status == 404 or read.body == bodies[0]
            registered += status == 200
            shown, _ = catalog.ask("GET", f"namespaces/{namespace}/tables/{name}")
            assert shown == (200 if status == 200 else 404)
    assert registered > 0
