"""Lifecycle rules beside a plain model: any sequence of writes, tags, locks, rules and days.

The model is a list of versions per key, newest first. After runs of the sweep until nothing
changes, every version that the rules name is gone or has its storage class, and no other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from storage import expiry, lifecycle
from storage.model import ObjectAttributes, Versioning
from tests.kit import examples, folders, invariants
from tests.model import machines

Outcome = TypeVar("Outcome")
DAY_MS = 100
RUNS_MAX = 20
KEYS = ("a", "p/a", "p/a", "p/a", "p/" + "k" * 900)
TAGS = ({}, {"t": "1"}, {"t": "1", "u": "2"})

keys = st.sampled_from(KEYS)
tags = st.sampled_from(TAGS)
histories = st.lists(
    st.tuples(st.sampled_from([b"12", b"123"]), tags, st.sampled_from([0, 0, 0, 1])),
    min_size=1,
    max_size=6,
)
waits = st.sampled_from([1, 50, 100, 100, 250])
days = st.sampled_from([None, 1, 1, 2])
CLASSES = ("STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", "GLACIER_IR")
"""Storage classes in the order in which versions move."""


def move(storage_class: str, days: int) -> lifecycle.Transition:
    return lifecycle.Transition(storage_class=storage_class, days=days)


lifecycle_rules = st.fixed_dictionaries(
    {
        "is_enabled": st.sampled_from([True, True, True, False]),
        "prefix": st.sampled_from([None, None, "", "p/", "p/a"]),
        "tags": st.sampled_from([(), (), (), (("t", "1"),)]),
        "size_greater_than": st.sampled_from([None, None, None, 2]),
        "expiration_days": days,
        "removes_markers": st.sampled_from([None, True]),
        "noncurrent_days": days,
        "newer_noncurrent": st.sampled_from([None, 1, 2]),
        "abort_days": days,
        "transitions": st.sampled_from(
            [(), (), (move("STANDARD_IA", 1),), (move("STANDARD_IA", 1), move("GLACIER_IR", 2))]
        ),
        "noncurrent_transitions": st.sampled_from(
            [
                (),
                (),
                (lifecycle.NoncurrentTransition(storage_class="INTELLIGENT_TIERING", days=1),),
            ]
        ),
    }
).map(
    lambda each: {
        **each,
        # Tags and sizes go with neither of the two.
        **(
            {"abort_days": None, "removes_markers": None}
            if each["tags"] or each["size_greater_than"] is not None
            else {}
        ),
    }
)


@dataclass
class Version:
    """One version, mutable. body: None for a delete marker."""

    written_ms: int
    body: bytes | None
    is_null: bool
    tags: dict[str, str] = field(default_factory=dict)
    is_held: bool = False
    storage_class: str = "STANDARD"


def at_a_day(start_ms: int, count: int) -> int:
    """Return the first beginning of a day that is count days after a moment, or later."""
    end_ms = start_ms + count * DAY_MS
    return end_ms if end_ms % DAY_MS == 0 else end_ms + DAY_MS - end_ms % DAY_MS


class LifecycleMachine(machines.StorageMachine):
    """Versions by key, uploads by id, and the rules of one bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, list[Version]] = {}
        self.uploads: dict[tuple[str, str], int] = {}
        self.versioning: Versioning | None = None
        self.rules: list[lifecycle.LifecycleRule] = []

    def open(self) -> None:
        super().open()
        self.expiry = expiry.Expiry(
            index=self.storage.index,
            buckets=self.storage.buckets,
            blobs=self.storage.blobs,
            now_ms=self.clock,
            new_id=self.ids,
            day_ms=DAY_MS,
        )

    def check_the_end(self) -> None:
        invariants.check(self.storage, self.root / "data")

    def write(self, key: str, body: bytes | None, tags: dict[str, str] | None = None) -> None:
        """Put a version before the others of its key, by the bucket's versioning."""
        self.clock.move(1)
        version = Version(
            written_ms=self.clock(),
            body=body,
            is_null=self.versioning != "Enabled",
            tags=dict(tags or {}),
        )
        history = self.versions.setdefault(key, [])
        if self.versioning is None:
            history.clear()
        elif self.versioning == "Suspended":
            history[:] = [each for each in history if not each.is_null]
        history.insert(0, version)

    @initialize(
        versioning=st.sampled_from([None, "Enabled", "Enabled", "Enabled", "Suspended"]),
        some=st.lists(lifecycle_rules, min_size=1, max_size=2),
    )
    def make(self, versioning: Versioning | None, some: list[dict[str, Any]]) -> None:
        self.run(folders.make_bucket(self.storage))
        self.set_rules(some)
        if versioning is not None:
            self.set_versioning(versioning)

    @rule(versioning=st.sampled_from(["Enabled", "Suspended"]))
    def set_versioning(self, versioning: Versioning) -> None:
        if self.storage.buckets.get("raw").object_lock:
            return
        self.run(self.storage.buckets.set_versioning("raw", versioning, bucket_id=1))
        self.versioning = versioning

    @rule(some=st.lists(lifecycle_rules, max_size=3))
    def set_rules(self, some: list[dict[str, Any]]) -> None:
        self.rules = [
            lifecycle.LifecycleRule(id=str(number), written="filter", **each)
            for number, each in enumerate(some)
        ]
        self.run(self.storage.buckets.set_lifecycle("raw", self.rules, bucket_id=1))

    @rule(
        key=keys,
        written=histories,
        gap_ms=st.sampled_from([1, 30, 60]),
        ms=waits,
    )
    def put_and_sweep(
        self, key: str, written: list[tuple[bytes, dict[str, str], int]], gap_ms: int, ms: int
    ) -> None:
        self.put(key, written, gap_ms)
        self.sweep(ms)

    def put(self, key: str, written: list[tuple[bytes, dict[str, str], int]], gap_ms: int) -> None:
        for body, named, is_held in written:
            self.write(key, body, named)
            attributes = ObjectAttributes(tags=named)
            self.run(folders.put(self.storage, key, body, attributes=attributes))
            if is_held:
                self.hold(key, True)
            self.clock.move(gap_ms)

    @rule(key=keys)
    def delete(self, key: str) -> None:
        if self.versioning is None:
            self.versions.pop(key, None)
        else:
            self.write(key, None)
        self.run(self.storage.objects.delete("raw", key))

    @rule(key=keys, named=tags)
    def retag(self, key: str, named: dict[str, str]) -> None:
        history = self.versions.get(key)
        if history and history[0].body is not None:
            history[0].tags = dict(named)
            self.run(self.storage.objects.set_tags("raw", key, named))

    @rule(key=keys, is_held=st.booleans())
    def change_hold(self, key: str, is_held: bool) -> None:
        self.hold(key, is_held)

    def hold(self, key: str, is_held: bool) -> None:
        history = self.versions.get(key)
        if self.versioning != "Enabled" or not history or history[0].body is None:
            return
        if not self.storage.buckets.get("raw").object_lock:
            self.run(self.storage.buckets.set_object_lock("raw", None, bucket_id=1))
        history[0].is_held = is_held
        self.run(self.storage.objects.set_legal_hold("raw", key, is_held))

    @rule(key=keys)
    def upload(self, key: str) -> None:
        self.clock.move(1)
        upload = self.run(self.storage.uploads.create("raw", key, attributes=folders.PLAIN))
        self.uploads[key, upload.upload_id] = self.clock()

    @rule()
    def restart(self) -> None:
        self.storage.close()
        self.open()

    @rule(ms=waits)
    def sweep(self, ms: int) -> None:
        """Run the rules until nothing is due; a run may leave what its own writes made due."""
        self.clock.move(ms)
        for _ in range(RUNS_MAX):
            if not self.run(self.expiry.once()):
                break
        else:
            raise AssertionError("the sweep does not end")
        for _ in range(RUNS_MAX):
            if not self.sweep_model():
                break

    def sweep_model(self) -> int:
        """Do one run's work on the model; return the number of changes."""
        changes, now_ms = 0, self.clock()
        for key, history in sorted(self.versions.items()):
            newest = history[0]
            due = [
                version
                for place, version in enumerate(history)
                if place and self.noncurrent_is_due(key, place, version)
            ]
            going = [version for version in due if not version.is_held]
            expires = any(
                each.expiration_days is not None
                and at_a_day(newest.written_ms, each.expiration_days) <= now_ms
                for each in self.applying(key, newest)
            )
            if newest.body is None:
                lone = any(each.removes_markers for each in self.applying(key, newest))
                if len(history) == 1 and (expires or lone):
                    going.append(newest)
            elif expires and self.versioning is None:
                going.append(newest)
            for place, version in enumerate(history):
                if version not in due and (place or not expires):
                    changes += self.move_model(key, place, version)
            changes += len(going)
            history[:] = [each for each in history if each not in going]
            if newest.body is not None and expires and self.versioning is not None:
                self.mark(history, now_ms)
                changes += 1
        self.versions = {key: history for key, history in self.versions.items() if history}
        for (key, upload_id), initiated_ms in list(self.uploads.items()):
            if any(
                each.is_enabled
                and key.startswith(each.prefix or "")
                and each.abort_days is not None
                and at_a_day(initiated_ms, each.abort_days) <= now_ms
                for each in self.rules
            ):
                del self.uploads[key, upload_id]
                changes += 1
        return changes

    def move_model(self, key: str, place: int, version: Version) -> bool:
        """Move a version to the last class that is due; return whether it moved. A rule moves
        bodies of these sizes only if it names a size."""
        since_ms = self.versions[key][place - 1].written_ms if place else version.written_ms
        due = [
            each.storage_class
            for rule in self.applying(key, version)
            if version.body is not None and rule.size_greater_than is not None
            for each in (rule.noncurrent_transitions if place else rule.transitions)
            if each.days is not None and at_a_day(since_ms, each.days) <= self.clock()
        ]
        last = max([version.storage_class, *due], key=CLASSES.index)
        moved = last != version.storage_class
        version.storage_class = last
        return moved

    def mark(self, history: list[Version], now_ms: int) -> None:
        """Write the delete marker of an expired object."""
        if self.versioning == "Suspended":
            history[:] = [each for each in history if not each.is_null]
        is_null = self.versioning == "Suspended"
        history.insert(0, Version(written_ms=now_ms, body=None, is_null=is_null))

    def noncurrent_is_due(self, key: str, place: int, version: Version) -> bool:
        history = self.versions[key]
        since_ms = history[place - 1].written_ms
        return any(
            each.noncurrent_days is not None
            and place - 1 >= (each.newer_noncurrent or 0)
            and at_a_day(since_ms, each.noncurrent_days) <= self.clock()
            for each in self.applying(key, version)
        )

    def applying(self, key: str, version: Version) -> Sequence[lifecycle.LifecycleRule]:
        selected = [
            each for each in self.rules if each.is_enabled and key.startswith(each.prefix or "")
        ]
        if version.body is None:
            return [each for each in selected if not each.tags and each.size_greater_than is None]
        size_bytes = len(version.body)
        return [
            each
            for each in selected
            if set(each.tags) <= set(version.tags.items())
            and (each.size_greater_than is None or size_bytes > each.size_greater_than)
        ]

    def seen(self) -> dict[str, list[tuple[bytes | None, bool, str]]]:
        histories: dict[str, list[tuple[bytes | None, bool, str]]] = {}
        for each in self.storage.objects.list_versions("raw").versions:
            body, storage_class = None, "STANDARD"
            if not each.is_delete_marker:
                storage_class = each.storage_class
                named = {"version_id": each.version_id}
                body = self.storage.objects.read(
                    self.storage.objects.head("raw", each.key, **named)
                )
            version = (body, each.version_id == "null", storage_class)
            histories.setdefault(each.key, []).append(version)
        return histories

    def modelled(self) -> dict[str, list[tuple[bytes | None, bool, str]]]:
        return {
            key: [(each.body, each.is_null, each.storage_class) for each in history]
            for key, history in self.versions.items()
            if history
        }

    @invariant()
    def the_store_has_what_the_model_has(self) -> None:
        if "raw" not in {bucket.name for bucket in self.storage.buckets.list()}:
            return
        assert self.seen() == self.modelled()
        listed = self.storage.uploads.list("raw").uploads
        assert {(each.key, each.upload_id) for each in listed} == set(self.uploads)


@pytest.mark.parametrize("at_once", [500, 2])
@examples.at_most(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    versioning=st.sampled_from([None, "Enabled", "Enabled", "Enabled", "Suspended"]),
    some=st.lists(lifecycle_rules, min_size=1, max_size=2),
    written=st.lists(
        st.tuples(st.sampled_from(["p/a", "p/b"]), histories, st.sampled_from([1, 30, 60])),
        min_size=1,
        max_size=3,
    ),
    removed=st.booleans(),
    passed=st.lists(waits, min_size=2, max_size=5),
)
def test_of_histories_lifecycle_rules_remove_what_the_model_removes(
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    versioning: Versioning | None,
    some: list[dict[str, Any]],
    written: list[tuple[str, list[tuple[bytes, dict[str, str], int]], int]],
    removed: bool,
    passed: list[int],
) -> None:
    """at_once: versions of one step of the walk."""
    monkeypatch.setattr(expiry, "VERSIONS_AT_ONCE", at_once)
    machine = LifecycleMachine()
    try:
        machine.make(versioning, some)
        for key, history, gap_ms in written:
            machine.put(key, history, gap_ms)
        if removed:
            machine.delete("p/a")
        for ms in passed:
            machine.sweep(ms)
            machine.the_store_has_what_the_model_has()
    finally:
        machine.teardown()


@pytest.mark.generated
def test_in_any_order_of_events_lifecycle_rules_remove_what_the_model_removes() -> None:
    run_state_machine_as_test(
        LifecycleMachine,
        settings=settings(
            max_examples=examples.number_of(20),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
