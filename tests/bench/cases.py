"""The bench's cases: what is driven, against what, and how the ratio is formed.

Every case runs its stand-in and Boathouse in turn within each round, so that a noisy neighbour
meets both. A case returns one Figure per round for each side.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tests.bench import bare, floor, floor_loop, machines
from tests.kit import folders, large_buckets
from tests.kit import server as server_kit

KIB = 1024
MIB = 1024 * 1024
BUCKET = "bench"
SIGNATURES_ANEW = 2_500
"""More than a server remembers: each request has a signature that it has not seen lately."""
KEYS_ANEW = 5_000
"""More than a server remembers: no part of a request's head is one that it has seen lately."""
LISTED = (10_000, 1_000_000)
LISTED_MAP_BYTES = 8 << 30
CREATED = 1_500
"""Namespaces or tables that one round creates."""
BOTO3_SENDS = {
    "x-amz-checksum-mode": "ENABLED",
    "User-Agent": "Boto3/1.43.0 md/Botocore#1.43.0 ua/2.1 os/linux#6.1 md/arch#x86_64",
    "Accept-Encoding": "identity",
    "amz-sdk-request": "attempt=1",
}
"""The headers that boto3 adds to a GetObject, beside the id of its invocation."""
SCHEMA = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What a case works with. uniques numbers keys that must be new."""

    running: server_kit.Running
    nginx: machines.Peer | None
    seconds: float
    uniques: Iterator[int] = field(default_factory=itertools.count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Least:
    """A program that does no more than a request needs. start: it serves a folder's files."""

    name: str
    start: Callable[[Path], AbstractContextManager[bare.Bare]]


LEAST_ON_LOOP = Least(name="the least on uvloop", start=floor_loop.started)
LEAST_ON_THREADS = Least(name="digests and file alone", start=floor.started)

Pair: TypeAlias = tuple[machines.Figure, machines.Figure | None]
"""What Boathouse did in one round, and what the case's stand-in did, if it has one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One row of the table. run measures one round. target: the goal, see docs/decisions/0029;
    `bare` is the CPU of a bare uvicorn per request. prepare: fills a new data folder before its
    server starts."""

    name: str
    stand_in: str
    target: str
    run: Callable[[Bench], Pair]
    prepare: Callable[[Path], None] | None = None


def s3_cases() -> tuple[Case, ...]:
    """GET, HEAD, PUT and LIST. nginx, their stand-in, checks no signature and syncs nothing; it
    computes no digest. A floor (`floor.py`, `floor_loop.py`) sends, computes and syncs what S3
    must, and does nothing else."""
    return (
        *_cases_beside_floors(),
        _get("GET 4K signed c16", 4 * KIB, 16, "<= 2.2 bare"),
        _get("GET 64K signed c16", 64 * KIB, 16, "<= 2.2 bare"),
        _get("GET 4K signed anew c16", 4 * KIB, 16, "-", signatures=SIGNATURES_ANEW),
        _get("GET 4K as boto3 c16", 4 * KIB, 16, "-", signatures=SIGNATURES_ANEW, sent=BOTO3_SENDS),
        _get("GET 4K presigned c16", 4 * KIB, 16, "<= 2.2 bare", presigned=True),
        _get("GET 64K presigned c16", 64 * KIB, 16, "<= 2.2 bare", presigned=True),
        _get("GET 4K of 5,000 URLs c16", 4 * KIB, 16, "-", presigned=True, objects=KEYS_ANEW),
        _bodiless("HEAD 4K presigned c16", "HEAD", "<= 2 bare"),
        _bodiless("GET 304 presigned c16", "GET", "<= 2 bare", not_modified=True),
        _get("GET 1M signed c8", MIB, 8, "by its floor"),
        _get("GET 128M signed c4", 128 * MIB, 4, ">= .95"),
        _put("PUT 4K c16", 4 * KIB, 16, "<= 6 bare, >= 1.3"),
        _put("PUT 4K c1", 4 * KIB, 1, ">= .5"),
        _put("PUT 64K c16", 64 * KIB, 16, "by its floor, >= 1.0"),
        _put("PUT 4K presigned c16", 4 * KIB, 16, "<= 6 bare", presigned=True),
        _put("PUT 1M c8", MIB, 8, ">= .8"),
        _put("PUT 8M c4", 8 * MIB, 4, ">= .8"),
        _put("PUT 1M signed body c8", MIB, 8, "-", sign_payload=True),
        _put("PUT 8M signed body c4", 8 * MIB, 4, "-", sign_payload=True),
        Case(name="LIST 1,000 of 10,000", stand_in="-", target="<= 30 bare", run=_list_run),
        Case(
            name="LIST 1,000 of 1,000,000",
            stand_in="LIST of 10,000",
            target=">= .9",
            run=_list_large,
            prepare=_fill_listed,
        ),
    )


def _cases_beside_floors() -> tuple[Case, ...]:
    """Requests of S3 beside programs that do the least that these need.

    The goals compare what the rows of one run take above their floors (docs/decisions/0029).
    """
    return (
        _get("GET 4K signed anew c16, its floor", 4 * KIB, 16, "-",
             signatures=SIGNATURES_ANEW, beside=LEAST_ON_LOOP),
        _get("GET 4K of 5,000 keys c16, its floor", 4 * KIB, 16, "-",
             objects=KEYS_ANEW, beside=LEAST_ON_LOOP),
        _get("GET 1M signed c8, its floor", MIB, 8, "us <= GET 4K signed anew",
             beside=LEAST_ON_LOOP),
        _put("PUT 4K c16, its floor", 4 * KIB, 16, "us <= GET of 5,000 keys",
             beside=LEAST_ON_LOOP),
        _put("PUT 64K c16, its floor", 64 * KIB, 16, "us <= PUT 4K", beside=LEAST_ON_LOOP),
        _put("PUT 1M c8, its floor", MIB, 8, ">= 1", beside=LEAST_ON_THREADS),
        _put("PUT 8M c4, its floor", 8 * MIB, 4, ">= 1", beside=LEAST_ON_THREADS),
    )  # fmt: skip


def catalog_cases() -> tuple[Case, ...]:
    """Commits, loads and creations over HTTP with authentication and all rules on."""
    return (
        Case(
            name="commit c16, 10 snapshots",
            stand_in="raw LMDB, c16",
            target="<= 18 bare",
            run=lambda bench: (_commits(bench, snapshots=10), _raw_lmdb(bench)),
        ),
        Case(
            name="commit c16, 1,000 snapshots",
            stand_in="raw LMDB, c16",
            target="<= 32 bare",
            run=lambda bench: (_commits(bench, snapshots=1000), _raw_lmdb(bench)),
        ),
        Case(
            name="loadTable, 1,000 snapshots",
            stand_in="-",
            target="<= .3 ms",
            run=lambda bench: (_load_table(bench, ""), None),
        ),
        Case(
            name="loadTable refs, 1,000 snapshots",
            stand_in="-",
            target="flat",
            run=lambda bench: (_load_table(bench, "?snapshots=refs"), None),
        ),
        Case(
            name="loadTable refs, 10,000 snapshots",
            stand_in="1,000 snapshots",
            target=">= .9",
            run=lambda bench: (
                _load_table(bench, "?snapshots=refs", snapshots=10_000),
                _load_table(bench, "?snapshots=refs"),
            ),
        ),
        Case(
            name="loadTable 304",
            stand_in="-",
            target="<= 2 bare",
            run=lambda bench: (_load_table(bench, "", not_modified=True), None),
        ),
        Case(
            name="create namespace c16",
            stand_in="-",
            target="<= 10 bare",
            run=lambda bench: (_create_namespaces(bench), None),
        ),
        Case(
            name="create table c16",
            stand_in="-",
            target="<= 21 bare",
            run=lambda bench: (_create_tables(bench), None),
        ),
    )


def _get(
    name: str,
    size_bytes: int,
    connections: int,
    target: str,
    *,
    presigned: bool = False,
    signatures: int = 1,
    sent: Mapping[str, str] | None = None,
    beside: Least | None = None,
    objects: int = 1,
) -> Case:
    """Return the case of a GET. signatures: how many requests are signed, to be sent in turn.

    sent: headers of all of them. beside: the stand-in instead of nginx. objects: of how many keys.
    """

    def run(bench: Bench) -> Pair:
        key = f"get-{size_bytes}"
        body = _stored(bench, key, size_bytes)
        sign = machines.presigned_request if presigned else machines.signed_request
        named = (
            [{}]
            if signatures == 1
            else [
                {**(sent or {}), "amz-sdk-invocation-id": str(uuid.UUID(int=number))}
                for number in range(signatures)
            ]
        )
        paths = [f"/{BUCKET}/{key}"]
        if objects > 1:
            paths = _many_stored(bench, key, body, objects)
        requests = [
            sign(bench.running, "GET", path, headers=headers) for path in paths for headers in named
        ]
        ours = machines.drive(
            bench.running.url,
            bench.running.pid,
            requests,
            connections=connections,
            seconds=bench.seconds,
            megabytes_each=size_bytes / 1e6,
        )
        theirs = None
        with _peer(bench, beside) as peer:
            if peer is not None:
                (peer.folder / key).write_bytes(body)
                theirs = machines.drive(
                    peer.url,
                    peer.pid,
                    [machines.raw_request("GET", f"{peer.url}/{key}")],
                    connections=connections,
                    seconds=bench.seconds,
                    megabytes_each=size_bytes / 1e6,
                )
        return ours, theirs

    return Case(name=name, stand_in=beside.name if beside else "nginx", target=target, run=run)


@contextmanager
def _peer(bench: Bench, beside: Least | None) -> Iterator[machines.Peer | None]:
    """Yield the stand-in of a case: nginx, if it is installed, or the least program, started."""
    if beside is None:
        yield bench.nginx
        return
    with (
        tempfile.TemporaryDirectory(dir=bench.running.data.parent) as folder,
        beside.start(Path(folder)) as least,
    ):
        yield machines.Peer(url=least.url, pid=least.pid, folder=Path(folder))


def _bodiless(name: str, method: str, target: str, *, not_modified: bool = False) -> Case:
    def run(bench: Bench) -> Pair:
        key = "bodiless"
        _stored(bench, key, 4 * KIB)
        headers = {}
        if not_modified:
            etag = machines.s3(bench.running).head_object(Bucket=BUCKET, Key=key)["ETag"]
            headers = {"If-None-Match": etag}
        request = machines.presigned_request(
            bench.running, method, f"/{BUCKET}/{key}", headers=headers
        )
        figure = machines.drive(
            bench.running.url,
            bench.running.pid,
            [request],
            connections=16,
            seconds=bench.seconds,
            expected=frozenset({304 if not_modified else 200}),
            bodiless=True,
        )
        return figure, None

    return Case(name=name, stand_in="-", target=target, run=run)


def _put(
    name: str,
    size_bytes: int,
    connections: int,
    target: str,
    *,
    presigned: bool = False,
    sign_payload: bool = False,
    beside: Least | None = None,
) -> Case:
    """Return the case of a PUT. beside: the stand-in instead of nginx."""
    keys = max(connections * 2, min(256, (256 * MIB) // size_bytes))

    def run(bench: Bench) -> Pair:
        _bucket(bench)
        sign: Callable[..., bytes] = machines.presigned_request
        if not presigned:
            sign = functools.partial(machines.signed_request, sign_payload=sign_payload)
        body = os.urandom(size_bytes)
        number = next(bench.uniques)
        paths = [f"put-{size_bytes}-{number}-{index}" for index in range(keys)]
        ours = machines.drive(
            bench.running.url,
            bench.running.pid,
            [sign(bench.running, "PUT", f"/{BUCKET}/{path}", body) for path in paths],
            connections=connections,
            seconds=bench.seconds,
            megabytes_each=size_bytes / 1e6,
        )
        theirs = None
        with _peer(bench, beside) as peer:
            if peer is not None:
                theirs = machines.drive(
                    peer.url,
                    peer.pid,
                    [machines.raw_request("PUT", f"{peer.url}/{p}", None, body) for p in paths],
                    connections=connections,
                    seconds=bench.seconds,
                    megabytes_each=size_bytes / 1e6,
                    expected=frozenset({200, 201, 204}),
                )
        return ours, theirs

    stand_in = beside.name if beside else "nginx dav, no sync"
    return Case(name=name, stand_in=stand_in, target=target, run=run)


def _fill_listed(data: Path) -> None:
    """Create the buckets that `_list_large` compares; each has its keys at the same place."""
    opened = folders.open_folder(data, map_size_bytes=LISTED_MAP_BYTES)
    try:
        for count in LISTED:
            folders.run(large_buckets.make(opened, f"listed-{count}", count))
    finally:
        opened.close()


def _list_large(bench: Bench) -> Pair:
    figures = []
    for count in LISTED:
        request = machines.signed_request(
            bench.running,
            "GET",
            f"/listed-{count}?list-type=2&max-keys=1000&start-after=deep%2F{count // 2 - 2000:08}",
        )
        figures.append(
            machines.drive(
                bench.running.url,
                bench.running.pid,
                [request],
                connections=1,
                seconds=bench.seconds,
            )
        )
    few, many = figures
    return many, few


def _list_run(bench: Bench) -> Pair:
    s3 = machines.s3(bench.running)
    bucket = "bench-list"
    if bucket not in {entry["Name"] for entry in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=bucket)
        requests = [
            machines.signed_request(bench.running, "PUT", f"/{bucket}/k/{index:06}", b"x")
            for index in range(10_000)
        ]
        machines.drive(
            bench.running.url,
            bench.running.pid,
            requests,
            connections=16,
            seconds=120,
            cycle=False,
        )
    request = machines.signed_request(
        bench.running, "GET", f"/{bucket}?list-type=2&max-keys=1000&start-after=k%2F004000"
    )
    figure = machines.drive(
        bench.running.url, bench.running.pid, [request], connections=1, seconds=bench.seconds
    )
    return figure, None


def _bucket(bench: Bench) -> None:
    s3 = machines.s3(bench.running)
    if BUCKET not in {entry["Name"] for entry in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket=BUCKET)


def _stored(bench: Bench, key: str, size_bytes: int) -> bytes:
    _bucket(bench)
    s3 = machines.s3(bench.running)
    body = os.urandom(size_bytes)
    s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    return body


def _many_stored(bench: Bench, prefix: str, body: bytes, count: int) -> list[str]:
    """Store a body under so many keys; return their paths."""
    paths = [f"/{BUCKET}/{prefix}-{number}" for number in range(count)]
    machines.drive(
        bench.running.url,
        bench.running.pid,
        [machines.signed_request(bench.running, "PUT", path, body) for path in paths],
        connections=16,
        seconds=120,
        cycle=False,
    )
    return paths


def _commits(bench: Bench, *, snapshots: int) -> machines.Figure:
    """Sixteen writers, each on a table of its own that has this many snapshots already."""
    rest = Rest(bench.running)
    rest.namespace("bench")
    number = next(bench.uniques)
    tables = [rest.table("bench", f"c{snapshots}_{number}_{index}") for index in range(16)]
    for table in tables:
        rest.add_snapshots(table, snapshots)
    # Requests in turn: writer by writer, so that no table is ever hot.
    rounds = 40
    requests = []
    for step in range(rounds):
        for table in tables:
            requests.append(rest.commit_request(table, snapshots + step))
    return machines.drive(
        bench.running.url,
        bench.running.pid,
        requests,
        connections=16,
        seconds=120,
        cycle=False,
        lanes=True,
    )


def _load_table(
    bench: Bench, query: str, *, snapshots: int = 1000, not_modified: bool = False
) -> machines.Figure:
    rest = Rest(bench.running)
    rest.namespace("bench")
    name = f"load_{next(bench.uniques)}"
    table = rest.table("bench", name)
    rest.add_snapshots(table, snapshots)
    path = f"{rest.prefix}/namespaces/bench/tables/{name}{query}"
    headers = {"Authorization": f"Bearer {rest.token}"}
    expected = frozenset({200})
    if not_modified:
        request = urllib.request.Request(rest.base + path, headers=headers)
        with urllib.request.urlopen(request) as answer:
            headers["If-None-Match"] = answer.headers["ETag"]
        expected = frozenset({304})
    return machines.drive(
        bench.running.url,
        bench.running.pid,
        [machines.raw_request("GET", rest.base + path, headers)],
        connections=16,
        seconds=bench.seconds,
        expected=expected,
    )


def _create_namespaces(bench: Bench) -> machines.Figure:
    """Sixteen clients, each namespace new."""
    rest = Rest(bench.running)
    number = next(bench.uniques)
    requests = [
        rest.request(f"{rest.prefix}/namespaces", {"namespace": [f"n{number}_{index}"]})
        for index in range(CREATED)
    ]
    # A commit whose creators conflict falsely is measured too; tests, not the bench, refuse that.
    return _drive_once(bench, requests, expected=frozenset({200, 409}))


def _create_tables(bench: Bench) -> machines.Figure:
    """Sixteen clients, each table new, all in one namespace."""
    rest = Rest(bench.running)
    namespace = f"t{next(bench.uniques)}"
    rest.namespace(namespace)
    requests = [
        rest.request(
            f"{rest.prefix}/namespaces/{namespace}/tables",
            {"name": f"t{index}", "schema": SCHEMA},
        )
        for index in range(CREATED)
    ]
    return _drive_once(bench, requests)


def _drive_once(
    bench: Bench, requests: Sequence[bytes], *, expected: frozenset[int] = frozenset({200})
) -> machines.Figure:
    return machines.drive(
        bench.running.url,
        bench.running.pid,
        requests,
        connections=16,
        seconds=120,
        cycle=False,
        expected=expected,
    )


def _raw_lmdb(bench: Bench) -> machines.Figure:
    """LMDB alone, one thread, sixteen changes of two small keys per transaction."""
    import time

    import lmdb

    with tempfile.TemporaryDirectory(dir=bench.running.data.parent) as folder:
        environment = lmdb.open(folder, map_size=1 << 30)
        started, cpu = time.perf_counter(), time.process_time()
        done = 0
        while time.perf_counter() - started < bench.seconds:
            with environment.begin(write=True) as transaction:
                for _ in range(16):
                    done += 1
                    transaction.put(b"k%08d" % done, b"v" * 135)
                    transaction.put(b"p%08d" % (done % 16), b"v" * 135)
        seconds, spent = time.perf_counter() - started, time.process_time() - cpu
        environment.close()
    return machines.Figure(
        answers=done,
        seconds=seconds,
        cpu_us=spent / done * 1e6,
        p50_ms=0.0,
        p99_ms=0.0,
        megabytes=0.0,
    )


class Rest:
    """A raw Iceberg REST client for setting cases up."""

    def __init__(self, running: server_kit.Running) -> None:
        self.base = running.iceberg
        self.prefix = "/v1/lake"
        form = urllib.parse.urlencode(
            {
                "grant_type": "client_credentials",
                "client_id": running.access_key,
                "client_secret": running.secret_key,
            }
        ).encode()
        with urllib.request.urlopen(self.base + "/v1/oauth/tokens", data=form) as answer:
            self.token = json.loads(answer.read())["access_token"]

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            self.base + path,
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    def namespace(self, name: str) -> None:
        try:
            self.post(f"{self.prefix}/namespaces", {"namespace": [name]})
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def table(self, namespace: str, name: str) -> str:
        self.post(f"{self.prefix}/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA})
        return f"{self.prefix}/namespaces/{namespace}/tables/{name}"

    def add_snapshots(self, table: str, count: int) -> None:
        """Bring a table to count snapshots, a hundred per commit."""
        for first in range(0, count, 100):
            steps = range(first, min(first + 100, count))
            updates = [update for step in steps for update in _updates(step, table)]
            self.post(table, {"requirements": [], "updates": updates})

    def commit_request(self, table: str, step: int) -> bytes:
        return self.request(table, self.commit_body(table, step))

    def commit_body(self, table: str, step: int) -> dict[str, Any]:
        return {"requirements": [], "updates": _updates(step, table)}

    def request(self, path: str, body: Any) -> bytes:
        """A whole POST, ready to be sent."""
        return machines.raw_request(
            "POST",
            self.base + path,
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            json.dumps(body).encode(),
        )


def _updates(step: int, table: str) -> Sequence[dict[str, Any]]:
    """Return the updates of an append. Its manifest list lies where clients write it: in the folder
    of its table, so that no right on another's file is asked for. table: its path."""
    name = table.rpartition("/")[2]
    snapshot = {
        "snapshot-id": 1000 + step,
        "sequence-number": step + 1,
        "timestamp-ms": 1_760_000_000_000 + step,
        "manifest-list": f"s3://lake/bench/{name}/metadata/snap-{1000 + step}-1-bench.avro",
        "summary": {
            "operation": "append",
            "added-data-files": "1",
            "added-records": "1000",
            "added-files-size": "40000",
            "total-records": str((step + 1) * 1000),
            "total-data-files": str(step + 1),
        },
        "schema-id": 0,
    }
    if step:
        snapshot["parent-snapshot-id"] = 999 + step
    return (
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
         "snapshot-id": 1000 + step},
    )  # fmt: skip
