"""Versions beside S3's rules as a list per key: any sequence of writes, deletions and restarts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from storage import errors, locks
from storage.model import Deleted, ObjectAttributes, ObjectInfo, Precondition, Versioning
from storage.removals import Removal
from tests.kit import folders, invariants
from tests.model import machines

Result = TypeVar("Result")
LONG = "n" * 398
KEYS = ("a", "a/b", "a/b/c", "a-b", LONG + "xx", LONG + "xxx", LONG + "/xé", LONG * 2 + "y" * 9)

keys = st.sampled_from(KEYS)
picks = st.integers(0, 1000)
data = st.one_of(
    st.binary(max_size=10),
    st.integers(65_535, 65_538).map(lambda size: hashlib.shake_128(b"s").digest(size)),
)
buckets = st.sampled_from(["one", "one", "two"])


@dataclass
class Version:
    """One version as S3's user knows it, mutable. body: None for a delete marker.

    is_held: its legal hold is on.
    """

    version_id: str
    body: bytes | None
    tags: dict[str, str] = field(default_factory=dict)
    is_held: bool = False


class VersionsMachine(machines.StorageMachine):
    """Versions by (bucket, key), newest first, and the versioning of each bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[tuple[str, str], list[Version]] = {}
        self.versioning: dict[str, Versioning | None] = {"one": None, "two": None}
        self.locking: set[str] = set()
        self.version_ids_seen: set[str] = set()

    def of(self, bucket: str, key: str) -> list[Version]:
        return self.versions.setdefault((bucket, key), [])

    def newest(self, bucket: str, key: str) -> Version | None:
        """Return the object that a plain GET reads."""
        history = self.of(bucket, key)
        return history[0] if history and history[0].body is not None else None

    def some(self, bucket: str, pick: int) -> tuple[str, str]:
        """Return a key that has versions, if one has, and one of its version ids."""
        histories = [
            (key, history)
            for (owner, key), history in sorted(self.versions.items())
            if owner == bucket and history
        ]
        if not histories or pick % 10 == 0:
            return "a", "0" * 32
        key, history = histories[pick % len(histories)]
        return key, history[pick // 7 % len(history)].version_id

    def write(self, bucket: str, key: str, version: Version) -> None:
        """Put a version before the others of its key, by the rules of the bucket's versioning."""
        history = self.of(bucket, key)
        match self.versioning[bucket]:
            case None:
                assert version.version_id == "null"
                history.clear()
            case "Suspended":
                assert version.version_id == "null"
                history[:] = [each for each in history if each.version_id != "null"]
            case "Enabled":
                assert version.version_id not in self.version_ids_seen
                self.version_ids_seen.add(version.version_id)
        history.insert(0, version)

    def written(self, info: ObjectInfo, body: bytes, tags: dict[str, str] | None = None) -> None:
        version = Version(version_id=info.version_id, body=body, tags=tags or {})
        self.write(info.bucket, info.key, version)

    @initialize(first=st.sampled_from([None, "Enabled", "Suspended"]))
    def make_buckets(self, first: Versioning | None) -> None:
        for name in ("one", "two"):
            self.run(folders.make_bucket(self.storage, name))
        if first is not None:
            self.set_versioning("one", first)

    @rule(bucket=buckets, versioning=st.sampled_from(["Enabled", "Suspended"]))
    def set_versioning(self, bucket: str, versioning: Versioning) -> None:
        bucket_id = self.storage.buckets.get(bucket).bucket_id
        setting = self.storage.buckets.set_versioning(bucket, versioning, bucket_id=bucket_id)
        if bucket in self.locking and versioning == "Suspended":
            with pytest.raises(errors.InvalidBucketState):
                self.run(setting)
            return
        self.run(setting)
        self.versioning[bucket] = versioning

    @rule(bucket=buckets, pick=st.integers(0, 3))
    def set_object_lock(self, bucket: str, pick: int) -> None:
        if pick:  # rarely, since it stays on
            return
        bucket_id = self.storage.buckets.get(bucket).bucket_id
        setting = self.storage.buckets.set_object_lock(bucket, None, bucket_id=bucket_id)
        if self.versioning[bucket] != "Enabled":
            with pytest.raises(errors.InvalidBucketState):
                self.run(setting)
            return
        self.run(setting)
        self.locking.add(bucket)

    @rule(bucket=buckets, pick=picks, is_held=st.booleans())
    def hold(self, bucket: str, pick: int, is_held: bool) -> None:
        key, version_id = self.some(bucket, pick)
        if bucket not in self.locking:
            return
        holding = self.storage.objects.set_legal_hold(bucket, key, is_held, version_id=version_id)
        for each in self.of(bucket, key):
            if each.version_id == version_id and each.body is not None:
                self.run(holding)
                each.is_held = is_held
                return
        with pytest.raises((errors.NoSuchVersion, errors.IsDeleteMarker)):
            self.run(holding)

    @rule(bucket=buckets, key=keys, body=data)
    def put(self, bucket: str, key: str, body: bytes) -> None:
        self.written(self.run(folders.put(self.storage, key, body, bucket=bucket)), body)

    @rule(bucket=buckets, key=keys, body=data)
    def put_new_only(self, bucket: str, key: str, body: bytes) -> None:
        putting = folders.put(
            self.storage, key, body, bucket=bucket, precondition=Precondition(if_none_match=("*",))
        )
        if self.newest(bucket, key) is not None:
            with pytest.raises(errors.PreconditionFailed):
                self.run(putting)
        else:
            self.written(self.run(putting), body)

    @rule(bucket=buckets, key=keys, body=data)
    def complete(self, bucket: str, key: str, body: bytes) -> None:
        uploads = self.storage.uploads
        upload = self.run(uploads.create(bucket, key, attributes=folders.PLAIN))
        received = self.run(self.storage.blobs.store(body, digests=folders.MD5))
        part = self.run(uploads.put_part(bucket, key, upload.upload_id, 1, received))
        named = [(1, part.etag)]
        info = self.run(uploads.complete(bucket, key, upload.upload_id, named))
        assert self.run(uploads.complete(bucket, key, upload.upload_id, named)) == info
        self.written(info, body)

    @rule(source=st.tuples(buckets, picks), bucket=buckets, key=keys)
    def copy(self, source: tuple[str, int], bucket: str, key: str) -> None:
        source_key, version_id = self.some(*source)
        named = [each for each in self.of(source[0], source_key) if each.version_id == version_id]
        if not named or named[0].body is None:
            with pytest.raises((errors.NoSuchVersion, errors.IsDeleteMarker)):
                self.storage.objects.head(source[0], source_key, version_id=version_id)
            return
        info = self.storage.objects.head(source[0], source_key, version_id=version_id)
        attributes = ObjectAttributes(tags={"c": "1"})
        copied = self.run(self.storage.objects.copy(info, bucket, key, attributes=attributes))
        self.written(copied, named[0].body, {"c": "1"})

    @rule(bucket=buckets, key=keys)
    def delete(self, bucket: str, key: str) -> None:
        self.deleted(bucket, key, self.run(self.storage.objects.delete(bucket, key)))

    def deleted(self, bucket: str, key: str, deleted: Deleted) -> None:
        """Do in the model what a deletion without a version id has done."""
        if self.versioning[bucket] is None:
            assert deleted == Deleted()
            self.of(bucket, key).clear()
            return
        assert deleted.is_delete_marker
        assert deleted.version_id is not None
        self.write(bucket, key, Version(version_id=deleted.version_id, body=None))

    @rule(bucket=buckets, pick=picks)
    def delete_version(self, bucket: str, pick: int) -> None:
        key, version_id = self.some(bucket, pick)
        deleting = self.storage.objects.delete(bucket, key, version_id=version_id)
        expected = self.removed(bucket, key, version_id)
        if expected is None:
            with pytest.raises(errors.ObjectLocked):
                self.run(deleting)
        else:
            assert self.run(deleting) == expected

    def removed(self, bucket: str, key: str, version_id: str) -> Deleted | None:
        """Remove a version from the model; return the expected outcome, None for a locked one."""
        history = self.of(bucket, key)
        named = [each for each in history if each.version_id == version_id]
        if named and named[0].is_held:
            return None
        for each in named:
            history.remove(each)
        is_marker = bool(named) and named[0].body is None
        return Deleted(version_id=version_id, is_delete_marker=is_marker)

    @rule(bucket=buckets, wanted=st.lists(st.one_of(keys, picks), max_size=5))
    def delete_many(self, bucket: str, wanted: list[str | int]) -> None:
        removals = [
            Removal(key=each)
            if isinstance(each, str)
            else Removal(key=self.some(bucket, each)[0], version_id=self.some(bucket, each)[1])
            for each in wanted
        ]
        outcome = self.run(self.storage.objects.delete_many(bucket, removals))
        for removal, deleted in zip(removals, outcome, strict=True):
            if removal.version_id is None:
                assert isinstance(deleted, Deleted)
                self.deleted(bucket, removal.key, deleted)
                continue
            expected = self.removed(bucket, removal.key, removal.version_id)
            if expected is None:
                assert isinstance(deleted, errors.ObjectLocked)
            else:
                assert deleted == expected

    @rule(bucket=buckets, pick=picks)
    def tag(self, bucket: str, pick: int) -> None:
        key, version_id = self.some(bucket, pick)
        tags = {"pick": str(pick)}
        tagging = self.storage.objects.set_tags(bucket, key, tags, version_id=version_id)
        for each in self.of(bucket, key):
            if each.version_id == version_id and each.body is not None:
                self.run(tagging)
                each.tags = tags
                return
        with pytest.raises((errors.NoSuchVersion, errors.IsDeleteMarker)):
            self.run(tagging)

    @rule(
        bucket=buckets,
        prefix=st.sampled_from(["", "a", "a/", LONG, LONG * 2, "zz"]),
        delimiter=st.sampled_from(["", "/", "nn"]),
        entries_max=st.integers(1, 4),
    )
    def list_pages(self, bucket: str, prefix: str, delimiter: str, entries_max: int) -> None:
        entries: list[tuple[bytes, str]] = []
        for (owner, key), history in self.versions.items():
            if owner != bucket or not history or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                cut = len(prefix) + rest.index(delimiter) + len(delimiter)
                entries.append((key[:cut].encode(), ""))
            else:
                entries += [(key.encode(), each.version_id) for each in history]
        expected = list(dict.fromkeys(sorted(entries, key=lambda entry: entry[0])))
        shown: list[tuple[bytes, str]] = []
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page = self.storage.objects.list_versions(
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=after[0],
                version_marker=after[1],
                max_keys=entries_max,
            )
            here = [(each.key.encode(), each.version_id) for each in page.versions]
            here += [(each.encode(), "") for each in page.common_prefixes]
            assert len(here) <= entries_max
            shown += sorted(here, key=lambda entry: entry[0])
            after = page.next_after
            assert len(shown) <= len(expected)
        assert shown == expected

    @rule(bucket=buckets)
    def delete_bucket(self, bucket: str) -> None:
        if any(history for (owner, _), history in self.versions.items() if owner == bucket):
            with pytest.raises(errors.BucketNotEmpty):
                self.run(self.storage.buckets.delete(bucket))
            return
        self.run(self.storage.buckets.delete(bucket))
        self.run(folders.make_bucket(self.storage, bucket))
        self.versioning[bucket] = None
        self.locking.discard(bucket)

    @rule(ms=st.sampled_from([-3_000, 1, 2_000, 61_000]))
    def sweep(self, ms: int) -> None:
        self.clock.move(ms)
        self.run(self.storage.sweep.once())

    @rule()
    def restart(self) -> None:
        self.storage.close()
        self.open()
        invariants.check_recovered(self.storage, self.root / "data")

    @invariant()
    def every_version_is_as_it_was_written(self) -> None:
        objects = self.storage.objects
        for (bucket, key), history in self.versions.items():
            for each in history:
                if each.body is None:
                    with pytest.raises(errors.IsDeleteMarker):
                        objects.head(bucket, key, version_id=each.version_id)
                    continue
                info = objects.head(bucket, key, version_id=each.version_id)
                assert objects.read(info) == each.body
                assert info.attributes.tags == each.tags
                assert bool(locks.legal_hold_of(info.attributes.headers)) == each.is_held
            newest = self.newest(bucket, key)
            if newest is not None:
                assert objects.head(bucket, key).version_id == newest.version_id
                continue
            with pytest.raises(errors.NoSuchKey) as gone:
                objects.head(bucket, key)
            assert isinstance(gone.value, errors.KeyDeleted) == bool(history)

    @invariant()
    def listings_show_the_newest_objects_and_every_version(self) -> None:
        for bucket in self.versioning:
            if not any(each.name == bucket for each in self.storage.buckets.list()):
                continue
            visible = sorted(
                (key.encode(), history[0].version_id)
                for (owner, key), history in self.versions.items()
                if owner == bucket and self.newest(owner, key) is not None
            )
            page = self.storage.objects.list(bucket)
            assert [(each.key.encode(), each.version_id) for each in page.objects] == visible
            every = [
                (key, each.version_id, number == 0, each.body is None)
                for (owner, key), history in sorted(
                    self.versions.items(), key=lambda item: item[0][1].encode()
                )
                if owner == bucket
                for number, each in enumerate(history)
            ]
            assert [
                (each.key, each.version_id, each.is_latest, each.is_delete_marker)
                for each in self.storage.objects.list_versions(bucket).versions
            ] == every

    @invariant()
    def the_folder_is_sound(self) -> None:
        invariants.check(self.storage, self.root / "data")


SHORT = settings(
    max_examples=4,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_any_sequence_of_operations_leaves_the_versions_as_s3_has_them() -> None:
    run_state_machine_as_test(VersionsMachine, settings=SHORT)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_long_sequences_of_operations_leave_the_versions_as_s3_has_them() -> None:
    thorough = settings(SHORT, max_examples=1500, stateful_step_count=60)
    run_state_machine_as_test(VersionsMachine, settings=thorough)
