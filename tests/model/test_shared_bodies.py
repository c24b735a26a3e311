"""Bodies that share rows of the index: each object reads back its own bytes, and no row is left."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from storage import errors
from storage.batch import Store
from storage.model import ObjectAttributes, Repeated, SharedBytes
from tests.kit import folders, invariants
from tests.model import machines

Result = TypeVar("Result")
KEYS = ("a", "b", "c", "d", "e", "f")
ALPHABET = hashlib.shake_128(b"body").digest(300_000)
SKIPPED = 3
"""Bytes of the older body that lie between the two runs of the new one."""

keys = st.sampled_from(KEYS)
picks = st.integers(0, 1000)
small = st.binary(max_size=9)


class SharedBodies(machines.StorageMachine):
    """Objects by key: their bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.run(folders.make_bucket(self.storage))
        self.put("a", 0, 150_000)

    def check_the_end(self) -> None:
        """When every object is deleted, no body is left."""
        for key in self.objects:
            self.run(self.storage.objects.delete("raw", key))
        self.sweep()
        with self.storage.index.view() as view:
            for store in (Store.BODIES, Store.BLOBS, Store.RELEASED):
                assert list(view.scan(store, b"")) == []

    async def commit(self, key: str, data: bytes, repeated: Repeated | None = None) -> bool:
        """Put data at an absent key; return whether it was absent."""
        planned = self.storage.objects.plan_put(
            self.storage.buckets.get("raw"),
            key,
            data,
            attributes=ObjectAttributes(etag="e"),
            now_ms=self.clock(),
            repeated=repeated,
        )
        try:
            await self.storage.index.commit(planned)
        except errors.ExpectationFailed:
            return False
        return True

    def some(self, pick: int) -> str | None:
        stored = sorted(self.objects)
        return stored[pick % len(stored)] if stored else None

    @rule(key=keys, start=st.integers(0, 100_000), size_bytes=st.integers(60_000, 200_000))
    def put(self, key: str, start: int, size_bytes: int) -> None:
        data = ALPHABET[start : start + size_bytes]
        is_free = key not in self.objects
        assert self.run(self.commit(key, data)) == is_free
        if is_free:
            self.objects[key] = data

    @rule(
        pick=picks,
        key=keys,
        bounds=st.tuples(st.integers(0, 200_000), st.integers(50_000, 200_000)),
        added=st.tuples(small, small, small),
        meanwhile=st.sampled_from(["", "", "delete", "replace", "replace with a file", "copy"]),
        is_first=st.booleans(),
    )
    def put_repeating(
        self,
        pick: int,
        key: str,
        bounds: tuple[int, int],
        added: tuple[bytes, bytes, bytes],
        meanwhile: str,
        is_first: bool,
    ) -> None:
        """Put a body with two runs of another, whose object changes in the same transaction."""
        older = self.some(pick)
        if older is None or key == older:
            return
        old = self.objects[older]
        start = bounds[0] % (len(old) + 1)
        runs = (old[:start], old[start + SKIPPED : start + SKIPPED + bounds[1]])
        body = added[0] + runs[0] + added[1] + runs[1] + added[2]
        second = len(added[0]) + len(runs[0]) + len(added[1])
        repeats = (
            SharedBytes(start=len(added[0]), other=0, length=len(runs[0])),
            SharedBytes(start=second, other=start + SKIPPED, length=len(runs[1])),
        )
        committing = self.commit(
            key,
            body,
            Repeated(key=older, repeats=tuple(each for each in repeats if each.length)),
        )
        is_free = key not in self.objects
        changing: Coroutine[Any, Any, Any]
        match meanwhile:
            case "delete":
                changing = self.storage.objects.delete("raw", older)
                del self.objects[older]
            case "replace":
                changing = folders.put(self.storage, older, b"small")
                self.objects[older] = b"small"
            case "replace with a file":
                changing = folders.put(self.storage, older, old[::-1])
                self.objects[older] = old[::-1]
            case "copy":
                changing = self.copied(older, "copied")
            case _:
                changing = asyncio.sleep(0)

        async def both() -> bool:
            if is_first:
                return (await asyncio.gather(committing, changing))[0]
            return (await asyncio.gather(changing, committing))[1]

        assert self.run(both()) == is_free
        if is_free:
            self.objects[key] = body

    @rule(pick=picks, key=keys)
    def copy(self, pick: int, key: str) -> None:
        source = self.some(pick)
        if source is not None:
            self.run(self.copied(source, key))

    def copied(self, source: str, key: str) -> Coroutine[Any, Any, Any]:
        self.objects[key] = self.objects[source]
        info = self.storage.objects.head("raw", source)
        return self.storage.objects.copy(info, "raw", key, attributes=ObjectAttributes())

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        key = self.some(pick)
        if key is not None:
            self.run(self.storage.objects.delete("raw", key))
            del self.objects[key]

    @rule()
    def sweep(self) -> None:
        self.clock.move(61_000)
        self.run(self.storage.sweep.once())

    @rule()
    def restart(self) -> None:
        self.storage.close()
        self.open()
        invariants.check_recovered(self.storage, self.root / "data")

    @invariant()
    def every_object_reads_back_its_bytes(self) -> None:
        for key, data in self.objects.items():
            assert folders.get(self.storage, key) == data

    @invariant()
    def the_folder_is_sound(self) -> None:
        invariants.check(self.storage, self.root / "data")


SHORT = settings(
    max_examples=4,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_bodies_that_share_rows_read_back_and_leave_nothing() -> None:
    run_state_machine_as_test(SharedBodies, settings=SHORT)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_bodies_that_share_rows_read_back_and_leave_nothing_for_long() -> None:
    thorough = settings(SHORT, max_examples=600, stateful_step_count=60)
    run_state_machine_as_test(SharedBodies, settings=thorough)
