"""The store beside a plain dictionary: any sequence of operations, listings and restarts."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from storage import checksums, errors
from storage.model import ByteRange, Deleted, ObjectAttributes, Precondition
from storage.removals import Removal
from tests.kit import folders, invariants
from tests.model import machines

Result = TypeVar("Result")
LONG = "n" * 398
KEYS = (
    "a", "a/", "a/b", "a-b", "é", "\x00",
    LONG + "xx", LONG + "xxx", LONG + "/xé", LONG * 2, LONG * 2 + "yyyyy", LONG * 2 + "yyyyya/b",
)  # fmt: skip
"""Few, so that operations meet; neighbours in byte order, on both sides of 400 and 800 bytes."""

keys = st.sampled_from(KEYS)
picks = st.integers(0, 1000)
data = st.one_of(
    st.binary(max_size=20),
    st.integers(65_530, 65_545).map(lambda size: hashlib.shake_128(b"s").digest(size)),
    st.integers(1_048_570, 1_048_580).map(lambda size: hashlib.shake_128(b"b").digest(size)),
)
buckets = st.sampled_from(["one", "one", "one", "two"])


class StoreMachine(machines.StorageMachine):
    """Objects by (bucket, key): bytes, whether tombstoned, tags. Uploads by id: key and parts."""

    uploads: Bundle[tuple[str, str, str]] = Bundle("uploads")

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], tuple[bytes, bool, dict[str, str]]] = {}
        self.parts: dict[tuple[str, str, str], dict[int, bytes]] = {}

    def open(self) -> None:
        super().open()
        self.storage.uploads._part_bytes_min = 10

    def some(self, bucket: str, key: str, pick: int) -> tuple[str, str]:
        """Return the name drawn, or, more often, one that exists: so that operations meet."""
        stored = sorted(self.objects)
        return (bucket, key) if not stored or pick % 4 == 0 else stored[pick % len(stored)]

    @initialize()
    def make_buckets(self) -> None:
        for name in ("one", "two"):
            self.run(folders.make_bucket(self.storage, name))

    @rule(bucket=buckets, key=keys, body=data)
    def put(self, bucket: str, key: str, body: bytes) -> None:
        self.run(folders.put(self.storage, key, body, bucket=bucket))
        self.objects[bucket, key] = (body, False, {})

    @rule(bucket=buckets, key=keys, pick=picks, body=data)
    def put_new_only(self, bucket: str, key: str, pick: int, body: bytes) -> None:
        bucket, key = self.some(bucket, key, pick)
        putting = folders.put(
            self.storage, key, body, bucket=bucket, precondition=Precondition(if_none_match=("*",))
        )
        if (bucket, key) in self.objects:
            with pytest.raises(errors.PreconditionFailed):
                self.run(putting)
        else:
            self.run(putting)
            self.objects[bucket, key] = (body, False, {})

    @rule(bucket=buckets, key=keys, pick=picks, body=data, same=st.booleans())
    def put_once(self, bucket: str, key: str, pick: int, body: bytes, same: bool) -> None:
        bucket, key = self.some(bucket, key, pick)
        if same and (bucket, key) in self.objects:
            body = self.objects[bucket, key][0]
        putting = folders.put(
            self.storage, key, body, bucket=bucket, precondition=Precondition(write_once=True)
        )
        before = self.objects.get((bucket, key))
        if before is not None and before[0] != body:
            with pytest.raises(errors.ContentDiffers):
                self.run(putting)
        else:
            self.run(putting)
            self.objects[bucket, key] = (body, False, {})

    @rule(
        source=st.tuples(buckets, keys, picks),
        place=st.tuples(buckets, keys, picks),
    )
    def copy(self, source: tuple[str, str, int], place: tuple[str, str, int]) -> None:
        self.copy_object(self.some(*source), self.some(*place))

    def copy_object(self, source: tuple[str, str], place: tuple[str, str]) -> None:
        if source not in self.objects:
            with pytest.raises(errors.NoSuchKey):
                self.storage.objects.head(*source)
            return
        info = self.storage.objects.head(*source)
        self.run(
            self.storage.objects.copy(info, *place, attributes=ObjectAttributes(tags={"c": "1"}))
        )
        self.objects[place] = (self.objects[source][0], False, {"c": "1"})

    @rule(bucket=buckets, key=keys, pick=picks)
    def delete(self, bucket: str, key: str, pick: int) -> None:
        bucket, key = self.some(bucket, key, pick)
        self.run(self.storage.objects.delete(bucket, key))
        self.objects.pop((bucket, key), None)

    @rule(bucket=buckets, chosen=st.lists(keys, max_size=6))
    def delete_many(self, bucket: str, chosen: list[str]) -> None:
        removals = [Removal(key=key) for key in chosen]
        outcome = self.run(self.storage.objects.delete_many(bucket, removals))
        assert outcome == [Deleted()] * len(chosen)
        for key in chosen:
            self.objects.pop((bucket, key), None)

    @rule(bucket=buckets, key=keys, pick=picks)
    def tombstone(self, bucket: str, key: str, pick: int) -> None:
        bucket, key = self.some(bucket, key, pick)
        self.run(self.storage.objects.tombstone(bucket, key, by="me"))
        if (bucket, key) in self.objects:
            body, _, tags = self.objects[bucket, key]
            self.objects[bucket, key] = (body, True, tags)

    @rule(bucket=buckets, key=keys, pick=picks)
    def restore(self, bucket: str, key: str, pick: int) -> None:
        bucket, key = self.some(bucket, key, pick)
        if (bucket, key) not in self.objects:
            return
        body, hidden, tags = self.objects[bucket, key]
        shown = self.run(folders.remove_tombstone(self.storage, key, bucket=bucket))
        assert shown == (1 if hidden else 0)
        self.objects[bucket, key] = (body, False, tags)

    @rule(target=uploads, bucket=buckets, key=keys)
    def create_upload(self, bucket: str, key: str) -> tuple[str, str, str]:
        upload = self.run(self.storage.uploads.create(bucket, key, attributes=folders.PLAIN))
        identity = (bucket, key, upload.upload_id)
        self.parts[identity] = {}
        return identity

    @rule(upload=uploads, number=st.integers(1, 4), body=data)
    def put_part(self, upload: tuple[str, str, str], number: int, body: bytes) -> None:
        received = self.run(self.storage.blobs.store(body, digests=folders.MD5))
        putting = self.storage.uploads.put_part(*upload, number, received)
        if upload not in self.parts:
            with pytest.raises(errors.NoSuchUpload):
                self.run(putting)
            return
        self.run(putting)
        self.parts[upload][number] = body

    @rule(
        upload=uploads,
        number=st.integers(1, 4),
        source=st.tuples(buckets, keys, picks),
        bounds=st.tuples(st.integers(0, 70_000), st.integers(0, 70_000)),
    )
    def copy_part(
        self,
        upload: tuple[str, str, str],
        number: int,
        source: tuple[str, str, int],
        bounds: tuple[int, int],
    ) -> None:
        self.copy_range(upload, number, self.some(*source), bounds)

    def copy_range(
        self,
        upload: tuple[str, str, str],
        number: int,
        source: tuple[str, str],
        bounds: tuple[int, int],
    ) -> None:
        if source not in self.objects or upload not in self.parts:
            return
        body = self.objects[source][0]
        start, stop = sorted(bound % (len(body) + 1) for bound in bounds)
        byte_range = None if start == stop else ByteRange(start=start, stop=stop)
        info = self.storage.objects.head(*source)
        self.run(self.storage.uploads.copy_part(*upload, number, info, byte_range))
        self.parts[upload][number] = body if byte_range is None else body[start:stop]

    @rule(upload=uploads, unnamed=st.sets(st.integers(1, 4), max_size=2))
    def complete(self, upload: tuple[str, str, str], unnamed: set[int]) -> None:
        stored = self.parts.get(upload)
        if stored is None:
            return
        named = [
            (number, hashlib.md5(body).hexdigest())
            for number, body in sorted(stored.items())
            if number not in unnamed
        ]
        completing = self.storage.uploads.complete(*upload, named)
        bodies = [stored[number] for number, _ in named]
        if not named:
            with pytest.raises(errors.InvalidPart):
                self.run(completing)
        elif any(len(body) < 10 for body in bodies[:-1]):
            with pytest.raises(errors.PartTooSmall):
                self.run(completing)
        else:
            info = self.run(completing)
            assert self.run(self.storage.uploads.complete(*upload, named)) == info
            self.objects[upload[0], upload[1]] = (b"".join(bodies), False, {})
            del self.parts[upload]

    @rule(upload=consumes(uploads))
    def abort(self, upload: tuple[str, str, str]) -> None:
        aborting = self.storage.uploads.abort(*upload)
        if self.parts.pop(upload, None) is None:
            with pytest.raises(errors.NoSuchUpload):
                self.run(aborting)
        else:
            self.run(aborting)

    @rule(
        bucket=buckets,
        prefix=st.sampled_from(["", "a", "a/", "é", LONG, LONG * 2, "zz"]),
        delimiter=st.sampled_from(["", "/", "é", "//", "nn"]),
        entries_max=st.integers(1, 4),
        tombstoned=st.booleans(),
    )
    def list_pages(
        self, bucket: str, prefix: str, delimiter: str, entries_max: int, tombstoned: bool
    ) -> None:
        entries: dict[bytes, bool] = {}
        for (owner, key), (_, hidden, _) in self.objects.items():
            if owner != bucket or not key.startswith(prefix) or (hidden and not tombstoned):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                cut = len(prefix) + rest.index(delimiter) + len(delimiter)
                entries[key[:cut].encode()] = True
            else:
                entries[key.encode()] = False
        listed: list[tuple[bytes, bool]] = []
        after: str | None = ""
        for _ in range(len(entries) + 1):
            if after is None:
                break
            page = self.storage.objects.list(
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                start_after=after,
                max_keys=entries_max,
                include_tombstoned=tombstoned,
            )
            here = [(info.key.encode(), False) for info in page.objects]
            here += [(each.encode(), True) for each in page.common_prefixes]
            assert len(here) <= entries_max
            listed += sorted(here)
            after = page.next_after
        assert after is None
        assert listed == sorted(entries.items())

    @rule(ms=st.sampled_from([1, 2_000, 61_000]))
    def sweep(self, ms: int) -> None:
        self.clock.move(ms)
        self.run(self.storage.sweep.once())

    @rule()
    def restart(self) -> None:
        self.storage.close()
        self.open()
        invariants.check_recovered(self.storage, self.root / "data")

    @precondition(lambda self: self.objects)
    @invariant()
    def every_object_is_as_it_was_written(self) -> None:
        for (bucket, key), (body, hidden, tags) in self.objects.items():
            info = self.storage.objects.head(bucket, key)
            assert self.storage.objects.read(info) == body
            assert info.crc64nvme == checksums.crc64nvme(body)
            assert (info.tombstoned_at_ms is not None) == hidden
            assert info.attributes.tags == tags

    @invariant()
    def the_folder_is_sound(self) -> None:
        invariants.check(self.storage, self.root / "data")


SHORT = settings(
    max_examples=4,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_any_sequence_of_operations_leaves_the_store_as_the_dictionary() -> None:
    run_state_machine_as_test(StoreMachine, settings=SHORT)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_long_sequences_of_operations_leave_the_store_as_the_dictionary() -> None:
    thorough = settings(SHORT, max_examples=1500, stateful_step_count=60)
    run_state_machine_as_test(StoreMachine, settings=thorough)
