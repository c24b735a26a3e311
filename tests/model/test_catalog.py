"""The catalog beside a plain dictionary: whatever is done, both say the same.

After every step: listings, loads and refusals agree, the log is one chain that leads to the state
there is, no two places overlap, and every file that was ever committed can still be read.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from catalog import errors, records, tables
from catalog.metadata import errors as metadata_errors
from tests.kit import lakes

NAMESPACE = st.sampled_from([("a",), ("b",), ("a", "x"), ("a", "x", "y")])
NAME = st.sampled_from(["t", "u", "T"])
VALUE = st.sampled_from(["1", "2", "3"])
PLACE = st.sampled_from(
    [
        None,
        "s3://lake/p/q",
        "s3://lake/p/q/r",
        "s3://lake/p/q/r/s",
        "s3://lake/p/z",
        "s3://lake/a/t",
    ]
)

Key = tuple[tuple[str, ...], str]


class Catalog(RuleBasedStateMachine):
    """namespaces: properties by path. tables, views: properties by name. used: every file ever
    made."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stack = contextlib.ExitStack()
        self.clock = lakes.Clock()
        self.ids = 1
        self.lake = self.stack.enter_context(lakes.opened(self.folder / "d", clock=self.clock))
        self.namespaces: dict[tuple[str, ...], dict[str, str]] = {}
        self.tables: dict[Key, dict[str, str]] = {}
        self.views: dict[Key, dict[str, str]] = {}
        self.uuids: dict[Key, str] = {}
        self.used: set[str] = set()

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    def ident(self, namespace: tuple[str, ...], name: str) -> Any:
        return self.lake.ident(".".join((*namespace, name)))

    def do(self, work: Any, *expected: type[Exception]) -> Any:
        """Do it; one of expected must be raised if there are any."""
        self.clock.now_ms += 1
        if expected:
            with pytest.raises(expected):
                self.lake.run(work)
            return None
        return self.lake.run(work)

    @rule(namespace=NAMESPACE, value=VALUE)
    def create_namespace(self, namespace: tuple[str, ...], value: str) -> None:
        refusals: list[type[Exception]] = []
        if namespace in self.namespaces:
            refusals.append(errors.NamespaceAlreadyExists)
        if namespace[:-1] and namespace[:-1] not in self.namespaces:
            refusals = [errors.NoSuchNamespace]
        work = self.lake.namespaces.create("lake", namespace, {"v": value}, by=lakes.BY)
        self.do(work, *refusals)
        if not refusals:
            self.namespaces[namespace] = {"v": value}

    @rule(namespace=NAMESPACE)
    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        refusals: list[type[Exception]] = []
        if namespace not in self.namespaces:
            refusals = [errors.NoSuchNamespace]
        elif any(each[0] == namespace for each in (*self.tables, *self.views)) or any(
            other[:-1] == namespace for other in self.namespaces
        ):
            refusals = [errors.NamespaceNotEmpty]
        self.do(self.lake.namespaces.drop("lake", namespace, by=lakes.BY), *refusals)
        if not refusals:
            del self.namespaces[namespace]

    @rule(namespace=NAMESPACE, value=VALUE)
    def update_namespace(self, namespace: tuple[str, ...], value: str) -> None:
        work = self.lake.namespaces.update(
            "lake", namespace, updates={"w": value}, removals=["v"], by=lakes.BY
        )
        if namespace not in self.namespaces:
            self.do(work, errors.NoSuchNamespace)
        else:
            self.do(work)
            self.namespaces[namespace] = {"w": value}

    def create(self, key: Key, work: Any, place: str | None) -> Any:
        """Create a table or view where its name is free; None if it is refused."""
        if key[0] not in self.namespaces:
            self.do(work, errors.NoSuchNamespace)
        elif key in self.tables:
            self.do(work, errors.TableAlreadyExists)
        elif key in self.views:
            self.do(work, errors.ViewAlreadyExists)
        else:
            try:
                return self.do(work)
            except errors.InvalidLocation:
                assert place is not None, "a place of our own choice is always free"
        return None

    @rule(namespace=NAMESPACE, name=NAME, value=VALUE, place=PLACE, stage=st.booleans())
    def create_table(
        self, namespace: tuple[str, ...], name: str, value: str, place: str | None, stage: bool
    ) -> None:
        work = self.lake.tables.create(
            self.ident(namespace, name),
            schema=lakes.SCHEMA,
            properties={"v": value},
            location=place,
            stage=stage,
            by=lakes.BY,
        )
        key = (namespace, name)
        loaded = self.create(key, work, place)
        if loaded is not None and not stage:
            self.note(key, loaded)
            self.tables[key] = {"v": value}
            self.uuids[key] = loaded.pointer.object_uuid

    @rule(namespace=NAMESPACE, name=NAME, value=VALUE)
    def commit(self, namespace: tuple[str, ...], name: str, value: str) -> None:
        key = (namespace, name)
        update = {"action": "set-properties", "updates": {"v": value}}
        work = self.lake.tables.commit(self.ident(namespace, name), [], [update], by=lakes.BY)
        if key not in self.tables:
            self.do(work, errors.NoSuchTable)
        else:
            self.note(key, self.do(work))
            self.tables[key]["v"] = value

    @rule(names=st.lists(st.tuples(NAMESPACE, NAME), min_size=2, max_size=3), value=VALUE)
    def commit_many(self, names: list[Key], value: str) -> None:
        update = {"action": "set-properties", "updates": {"w": value}}
        changes = [
            tables.TableChange(ident=self.ident(*key), requirements=[], updates=[update])
            for key in names
        ]
        work = self.lake.tables.commit_many(changes, by=lakes.BY)
        if any(key not in self.tables for key in names):
            self.do(work, errors.NoSuchTable)
        else:
            for key, loaded in zip(dict.fromkeys(names), self.do(work), strict=True):
                self.note(key, loaded)
            for key in names:
                self.tables[key]["w"] = value

    @rule(namespace=NAMESPACE, name=NAME)
    def commit_on_a_wrong_view(self, namespace: tuple[str, ...], name: str) -> None:
        wrong = [{"type": "assert-table-uuid", "uuid": "no"}]
        work = self.lake.tables.commit(self.ident(namespace, name), wrong, [], by=lakes.BY)
        is_table = (namespace, name) in self.tables
        self.do(work, metadata_errors.RequirementFailed if is_table else errors.NoSuchTable)

    @rule(namespace=NAMESPACE, name=NAME, purge=st.booleans())
    def drop_table(self, namespace: tuple[str, ...], name: str, purge: bool) -> None:
        key = (namespace, name)
        work = self.lake.tables.drop(self.ident(namespace, name), purge=purge, by=lakes.BY)
        if key not in self.tables:
            self.do(work, errors.NoSuchTable)
        else:
            self.do(work)
            del self.tables[key], self.uuids[key]

    @rule(namespace=NAMESPACE, name=NAME, to=st.tuples(NAMESPACE, NAME))
    def rename_table(self, namespace: tuple[str, ...], name: str, to: Key) -> None:
        key = (namespace, name)
        work = self.lake.tables.rename(self.ident(namespace, name), self.ident(*to), by=lakes.BY)
        if key not in self.tables:
            self.do(work, errors.NoSuchTable)
        elif to[0] not in self.namespaces:
            self.do(work, errors.NoSuchNamespace)
        elif to in self.tables:
            self.do(work, errors.TableAlreadyExists)
        elif to in self.views:
            self.do(work, errors.ViewAlreadyExists)
        else:
            self.do(work)
            self.tables[to] = self.tables.pop(key)
            self.uuids[to] = self.uuids.pop(key)

    @rule(namespace=NAMESPACE, name=NAME, value=VALUE, place=PLACE)
    def create_view(
        self, namespace: tuple[str, ...], name: str, value: str, place: str | None
    ) -> None:
        work = self.lake.views.create(
            self.ident(namespace, name),
            schema=lakes.SCHEMA,
            view_version=lakes.VIEW_VERSION,
            properties={"v": value},
            location=place,
            by=lakes.BY,
        )
        key = (namespace, name)
        loaded = self.create(key, work, place)
        if loaded is not None:
            self.used.add(loaded.metadata_location)
            self.views[key] = {"v": value}

    @rule(namespace=NAMESPACE, name=NAME, value=VALUE, place=PLACE)
    def replace_view(
        self, namespace: tuple[str, ...], name: str, value: str, place: str | None
    ) -> None:
        key = (namespace, name)
        updates: list[dict[str, Any]] = [{"action": "set-properties", "updates": {"v": value}}]
        if place is not None:
            updates.append({"action": "set-location", "location": place})
        work = self.lake.views.replace(self.ident(namespace, name), [], updates, by=lakes.BY)
        if key not in self.views:
            self.do(work, errors.NoSuchView)
            return
        try:
            loaded = self.do(work)
        except errors.InvalidLocation:
            assert place is not None, "a view may always stay where it is"
            return
        self.used.add(loaded.metadata_location)
        self.views[key]["v"] = value

    @rule(namespace=NAMESPACE, name=NAME)
    def drop_view(self, namespace: tuple[str, ...], name: str) -> None:
        key = (namespace, name)
        work = self.lake.views.drop(self.ident(namespace, name), by=lakes.BY)
        if key not in self.views:
            self.do(work, errors.NoSuchView)
        else:
            self.do(work)
            del self.views[key]

    @rule(namespace=NAMESPACE, name=NAME, to=st.tuples(NAMESPACE, NAME))
    def rename_view(self, namespace: tuple[str, ...], name: str, to: Key) -> None:
        key = (namespace, name)
        work = self.lake.views.rename(self.ident(namespace, name), self.ident(*to), by=lakes.BY)
        if key not in self.views:
            self.do(work, errors.NoSuchView)
        elif to[0] not in self.namespaces:
            self.do(work, errors.NoSuchNamespace)
        elif to in self.tables:
            self.do(work, errors.TableAlreadyExists)
        elif to in self.views:
            self.do(work, errors.ViewAlreadyExists)
        else:
            self.do(work)
            self.views[to] = self.views.pop(key)

    @rule(namespace=NAMESPACE, name=NAME, to=NAME)
    def move_by_unregistering(self, namespace: tuple[str, ...], name: str, to: str) -> None:
        key, target = (namespace, name), (namespace, to)
        if key not in self.tables or (target in self.tables and target != key):
            return
        if target in self.views:
            return
        last = self.do(self.lake.tables.unregister(self.ident(namespace, name), by=lakes.BY))
        again = self.do(
            self.lake.tables.register(
                self.ident(namespace, to), last.metadata_location, by=lakes.BY
            )
        )
        assert again.pointer.object_uuid == self.uuids[key]
        self.tables[target] = self.tables.pop(key)
        self.uuids[target] = self.uuids.pop(key)

    @rule()
    def restart(self) -> None:
        self.stack.close()
        self.ids += 1_000_000
        self.lake = self.stack.enter_context(
            lakes.opened(self.folder / "d", clock=self.clock, first_id=self.ids)
        )

    def note(self, key: Key, loaded: tables.LoadedTable) -> None:
        assert loaded.ident == self.ident(*key)
        assert loaded.metadata_location is not None
        self.used.add(loaded.metadata_location)

    @invariant()
    def both_say_the_same(self) -> None:
        lake = self.lake
        by_listing = {
            path: dict(lake.namespaces.load("lake", path).properties) for path in self.walk(())
        }
        assert by_listing == self.namespaces
        seen: dict[Key, dict[str, str]] = {}
        for path in by_listing:
            for ident in lake.tables.list("lake", path):
                loaded = lake.load(ident)
                key = (path, ident.name)
                properties = loaded.metadata.properties
                seen[key] = {name: properties[name] for name in ("v", "w") if name in properties}
                assert loaded.pointer.object_uuid == self.uuids[key]
                assert lake.tables.by_object_uuid("lake", self.uuids[key])[0] == ident
        assert seen == self.tables
        shown: dict[Key, dict[str, str]] = {}
        for path in by_listing:
            for name in lake.run(lake.store.page("lake", "view", path, limit=100)):
                data = lake.run(lake.views.fetch(self.ident(path, name))).data
                shown[path, name] = json.loads(data)["properties"]
        assert shown == self.views

    def walk(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        children = self.lake.namespaces.list("lake", parent)
        return [each for child in children for each in (child, *self.walk(child))]

    @invariant()
    def places_never_overlap(self) -> None:
        places = [self.lake.tables.pointer(self.ident(*key)).location + "/" for key in self.tables]
        places += [self.lake.views.pointer(self.ident(*key)).location + "/" for key in self.views]
        for one in places:
            assert sum(other.startswith(one) for other in places) == 1

    @invariant()
    def the_log_is_one_chain_to_the_state_there_is(self) -> None:
        assert self.lake.broken_chain() is None
        state: dict[tuple[str, tuple[str, ...], str], bytes] = {}
        for each in self.lake.log():
            for op in each.record.ops:
                key = (op.object_type, op.namespace, op.name)
                if op.after is None:
                    del state[key]
                else:
                    state[key] = op.after
        assert {key[1:] for key in state if key[0] == "table"} == set(self.tables)
        assert {key[1:] for key in state if key[0] == "view"} == set(self.views)
        for (entry_type, namespace, name), row in state.items():
            if entry_type == "table":
                pointer = self.lake.tables.pointer(self.ident(namespace, name))
                assert records.encode(pointer) == row
            elif entry_type == "view":
                pointer = self.lake.views.pointer(self.ident(namespace, name))
                assert records.encode(pointer) == row

    @invariant()
    def every_file_ever_committed_can_be_read(self) -> None:
        for location in self.used:
            assert self.lake.store.read_file(location, table_bucket="lake")


def test_the_catalog_agrees_with_a_dictionary() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call] - hypothesis has no types for it
        Catalog,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_catalog_agrees_with_a_dictionary_for_long() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call] - hypothesis has no types for it
        Catalog,
        settings=settings(
            max_examples=150,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
