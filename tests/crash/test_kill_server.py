"""kill -9 of a server that many clients write to.

What was acknowledged is there afterwards, whole; what was not is wholly there or wholly absent; the
catalog's history is one chain; and no blob lies about without a name.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kit import folders, invariants, lakes, rest, s3
from tests.kit import server as servers

BUCKET = "load"
PART_BYTES = 5 << 20
LOAD_SECONDS_MAX = 120
GONE = ""
"""Stands for the digest of an object that is not there."""


@dataclass
class Claims:
    """What one writer was told, mutable. Every writer has keys of its own.

    settled: key -> digest of what must be there. open: key -> what may be there instead, because
    the server went while it was being changed.
    """

    settled: dict[str, str] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    answers: int = 0


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Writer:
    """One connection and one seed; does something to an object until the server is gone."""

    def __init__(self, server: servers.Running, seed: str) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.name = seed
        self.claims = Claims()
        self.count = 0

    def run(self) -> Claims:
        """Work until the connection breaks; return what was claimed up to then."""
        while True:
            key = f"{self.name}/{self.random.randrange(12):02}"
            self.count += 1
            try:
                self.work(key)
            except (OSError, http.client.HTTPException):
                return self.claims

    def work(self, key: str) -> None:
        """Do one thing to one object."""
        raise NotImplementedError

    def change(self, key: str, becomes: str, work: Callable[[], None]) -> None:
        """Do what makes an object into something else; note both until it is answered."""
        self.claims.open[key] = becomes
        work()
        self.claims.settled[key] = becomes
        del self.claims.open[key]
        self.claims.answers += 1

    def body(self, size_bytes: int) -> bytes:
        return self.random.randbytes(16) * (size_bytes // 16) + str(self.count).encode()

    def ask(
        self, method: str, key: str, query: str = "", body: bytes = b"", **headers: str
    ) -> s3.Answer:
        wire = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = s3.call(self.server, method, f"/{BUCKET}/{key}{query}", wire, body)
        assert answer.status in (200, 204), (method, key, query, answer)
        return answer


class SmallWriter(Writer):
    """Puts bodies that live in the index, and deletes them."""

    def work(self, key: str) -> None:
        if key in self.claims.settled and self.random.random() < 0.3:
            self.change(key, GONE, lambda: self.do("DELETE", key))
        else:
            data = self.body(self.random.randrange(16, 60_000))
            self.change(key, digest(data), lambda: self.do("PUT", key, data))

    def do(self, method: str, key: str, data: bytes = b"") -> None:
        self.ask(method, key, body=data)


class LargeWriter(SmallWriter):
    """Puts bodies that are blobs, over one another, and deletes them."""

    def body(self, size_bytes: int) -> bytes:
        return super().body(size_bytes * 40 + 70_000)


class CopyWriter(SmallWriter):
    """Copies what it has put: copies share blobs."""

    def work(self, key: str) -> None:
        stored = [name for name, content in self.claims.settled.items() if content != GONE]
        if not stored or self.random.random() < 0.4:
            data = self.body(self.random.choice((1_000, 200_000)))
            self.change(key, digest(data), lambda: self.do("PUT", key, data))
            return
        source = self.random.choice(stored)
        if source == key:
            return
        self.change(
            key,
            self.claims.settled[source],
            lambda: void(self.ask("PUT", key, x_amz_copy_source=f"/{BUCKET}/{source}")),
        )


class PartsWriter(Writer):
    """Uploads in two parts, and gives some uploads up."""

    def work(self, key: str) -> None:
        parts = [self.body(PART_BYTES), self.body(self.random.randrange(16, 200_000))]
        upload_id = self.ask("POST", key, "?uploads").element("UploadId")
        etags = []
        for number, part in enumerate(parts, 1):
            query = f"?partNumber={number}&uploadId={upload_id}"
            etags.append(self.ask("PUT", key, query, part).headers["etag"])
        if self.random.random() < 0.2:
            self.ask("DELETE", key, f"?uploadId={upload_id}")
            return
        rows = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        document = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        self.change(
            key,
            digest(b"".join(parts)),
            lambda: void(self.ask("POST", key, f"?uploadId={upload_id}", document)),
        )


def void(_: object) -> None:
    """Forget a result."""


@dataclass
class Commits:
    """What one committer was told, mutable: numbers of its commits that were answered with 200."""

    table: str
    landed: list[int] = field(default_factory=list)
    tried: int = 0


def commit(server: servers.Running, commits: Commits, writer: int) -> Commits:
    """Append snapshots to a table, with all that optimism allows, until the server is gone."""
    try:
        with rest.Client(server) as client:
            while True:
                _, seen = client.ask("GET", f"namespaces/ns/tables/{commits.table}")
                commits.tried += 1
                snapshot_id = writer * 1_000_000 + commits.tried
                status, answer = client.commit(
                    "ns", commits.table, *rest.append(seen["metadata"], snapshot_id)
                )
                if status == 200:
                    commits.landed.append(snapshot_id)
                else:
                    assert status == 409, answer
    except (OSError, http.client.HTTPException):
        return commits


def load_and_kill(
    server: servers.Running, seed: str, answers: int, each_min: int
) -> tuple[list[Claims], list[Commits]]:
    """Let six writers and three committers work, kill the server, return what each was told.

    answers: how many of their changes are answered before the kill. each_min: how many of them, at
    least, the writers' are, and the committers'.
    """
    writers = [
        writer_class(server, f"{seed}-{writer_class.__name__.lower()}-{number}")
        for number, writer_class in enumerate(
            (SmallWriter, SmallWriter, LargeWriter, LargeWriter, CopyWriter, PartsWriter)
        )
    ]
    commits = [Commits(table=table) for table in ("shared", "shared", "alone")]
    with ThreadPoolExecutor(len(writers) + len(commits)) as pool:
        storing = [pool.submit(writer.run) for writer in writers]
        committing = [
            pool.submit(commit, server, each, number) for number, each in enumerate(commits, 1)
        ]
        deadline = time.monotonic() + LOAD_SECONDS_MAX
        while not any(each.done() for each in (*storing, *committing)):
            stored = sum(each.claims.answers for each in writers)
            committed = sum(len(each.landed) for each in commits)
            if stored + committed >= answers and min(stored, committed) >= each_min:
                break
            assert time.monotonic() < deadline, "the load did not get on"
            time.sleep(0.001)
        server.kill()
        return [each.result() for each in storing], [each.result() for each in committing]


def check(server: servers.Running, claims: list[Claims], seed: str) -> None:
    """Compare every key that a load touched with what its writer was told."""
    digests = {}
    marker = ""
    while True:
        target = f"/{BUCKET}?list-type=2&prefix={seed}-&start-after={marker}"
        page = s3.call(server, "GET", target)
        assert page.status == 200
        keys = [part.partition(b"</Key>")[0].decode() for part in page.body.split(b"<Key>")[1:]]
        for key in keys:
            answer = s3.call(server, "GET", f"/{BUCKET}/{key}")
            assert answer.status == 200, answer
            digests[key] = digest(answer.body)
        if b"<IsTruncated>true" not in page.body:
            break
        marker = keys[-1]
    for each in claims:
        for key in each.settled.keys() | each.open.keys():
            allowed = {each.settled.get(key, GONE)}
            if key in each.open:
                allowed.add(each.open[key])
            assert digests.pop(key, GONE) in allowed, key
    assert digests == {}


def check_history(server: servers.Running, commits: list[Commits]) -> None:
    """Every commit that was answered is in its table's history, and the history is one chain."""
    with rest.Client(server) as client:
        for table in ("shared", "alone"):
            status, loaded = client.ask("GET", f"namespaces/ns/tables/{table}")
            assert status == 200, loaded
            metadata = loaded["metadata"]
            snapshots = metadata.get("snapshots", [])
            ids = [each["snapshot-id"] for each in snapshots]
            assert [each.get("parent-snapshot-id") for each in snapshots] == [None, *ids[:-1]][
                : len(ids)
            ]
            assert [each["sequence-number"] for each in snapshots] == list(range(1, len(ids) + 1))
            assert metadata.get("current-snapshot-id", -1) in (ids[-1:] or [-1, None])
            of_table = [each for each in commits if each.table == table]
            landed = {number for each in of_table for number in each.landed}
            assert landed <= set(ids), table
            # At most one commit of each writer was under way, and may have landed unanswered.
            fresh = {number for number in ids if number not in landed}
            assert all(
                sum(1 for number in fresh if number // 1_000_000 == writer) <= 1
                for writer in range(1, 4)
            )


def survive(folder: Path, moments: list[tuple[str, int]], *, each_min: int = 0) -> tuple[int, int]:
    """Kill a server at each moment and look at what is left; return how much was answered."""
    server = servers.start(folder / "data", "--bucket", BUCKET)
    stored = committed = 0
    running = server
    try:
        for number, (seed, answers) in enumerate(moments):
            with rest.Client(running) as client:
                if number:
                    for table in ("shared", "alone"):
                        status, _ = client.ask("DELETE", f"namespaces/ns/tables/{table}")
                        assert status == 204
                for table in ("shared", "alone"):
                    client.make_table("ns", table)
            claims, commits = load_and_kill(running, seed, answers, each_min)
            stored += sum(each.answers for each in claims)
            committed += sum(len(each.landed) for each in commits)

            with lakes.opened(server.data, first_id=(number + 1) << 40) as lake:
                invariants.check_recovered(lake.storage, server.data)
                assert lake.broken_chain() is None
            running = servers.start(server.data)
            check(running, claims, seed)
            check_history(running, commits)
        assert running.stop() == 0
    finally:
        if running.process.poll() is None:
            running.kill()
    with lakes.opened(server.data, first_id=1 << 60) as lake:
        invariants.check(lake.storage, server.data)
    assert folders.files_of(server.data / "tmp") == []
    return stored, committed


def test_what_a_killed_server_acknowledged_is_there_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random("a short load")
    moments = [(f"s{number}", chance.randrange(40, 200)) for number in range(3)]
    started = time.monotonic()
    stored, committed = survive(tmp_path, moments, each_min=4)
    assert stored + committed >= sum(answers for _, answers in moments)
    with capsys.disabled():
        took = time.monotonic() - started
        print(f"\n[3 kills: {stored} objects, {committed} commits answered, {took:.0f} s]")
    assert min(stored, committed) > 10


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_a_server_killed_again_and_again_acknowledged_is_there_whole(tmp_path: Path) -> None:
    chance = random.Random("a long load")
    moments = [(f"l{number:03}", chance.randrange(1, 400)) for number in range(60)]
    stored, committed = survive(tmp_path, moments)
    assert stored + committed >= sum(answers for _, answers in moments)
    assert min(stored, committed) > 500
