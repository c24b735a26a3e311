"""A catalog over a real data folder, without a server: what mini.py wires, for tests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from catalog import history, idents, owners, records
from catalog.namespaces import Namespaces
from catalog.store import CatalogStore
from catalog.tables import LoadedTable, Tables
from catalog.views import Views
from program import application
from server.access import decide, model
from server.accesslogs import delivery
from storage import opening
from storage.disk import Disk
from storage.model import BucketInfo

ACCOUNT = "000000000000"
BY = "arn:aws:iam::000000000000:root"
ROOT = model.Principal(
    type="root",
    name="root",
    arn=BY,
    account_id=ACCOUNT,
    canonical_id="c",
    display_name="root",
)
NOW_MS = 1_800_000_000_000
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}
VIEW_VERSION: dict[str, Any] = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": NOW_MS,
    "summary": {},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
"""A version of a view, with one SQL text."""

Result = TypeVar("Result")


class Clock:
    """A clock that only moves when told to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True, kw_only=True)
class Lake:
    """Storage and catalog of one folder, with the table bucket `lake`."""

    storage: opening.Storage
    store: CatalogStore
    namespaces: Namespaces
    tables: Tables
    views: Views
    clock: Clock

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run(work)

    def load(self, ident: idents.TableIdent) -> LoadedTable:
        """Return a table whose metadata is small enough to be read without a turn of a loop."""
        fetching = self.tables.fetch(ident)
        try:
            fetching.send(None)
        except StopIteration as done:
            loaded: LoadedTable = done.value
            return loaded
        raise AssertionError("await tables.fetch: this metadata is decoded in a child process")

    def ident(self, dotted: str) -> idents.TableIdent:
        *namespace, name = dotted.split(".")
        return idents.TableIdent(table_bucket="lake", namespace=tuple(namespace), name=name)

    def log(self, table_bucket: str = "lake") -> list[history.Commit]:
        with self.storage.index.view() as view:
            return history.read(view, self.store.place(table_bucket).bucket_id)

    def broken_chain(self, table_bucket: str = "lake") -> str | None:
        """What is wrong with the log of a table bucket, or None."""
        bucket_id = self.store.place(table_bucket).bucket_id
        with self.storage.index.view() as view:
            return history.find_break(
                history.read(view, bucket_id), history.head(view, bucket_id, "main").head
            )


def permit_all(path: str, owner: owners.LocationOwner | None) -> None:
    """Permit every location, as to a caller who may do everything."""


def place(*, bucket_id: int = 1) -> records.Place:
    """The main branch of a table bucket that need not be there."""
    return records.Place(
        bucket=BucketInfo(
            name="lake",
            bucket_id=bucket_id,
            type="table",
            owner=ACCOUNT,
            region="us-east-1",
            created_at_ms=NOW_MS,
        )
    )


def pointer_after(op: records.Op) -> records.Pointer:
    """What a commit left of a table that it did not drop."""
    assert op.after is not None
    return records.decode(op.after, records.Pointer)


def ids(start: int = 1) -> Callable[[], str]:
    """Return unique ids that look random enough: the counter leads."""
    counter = itertools.count(start)
    return lambda: f"{next(counter) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}"


def of_program(program: application.Program) -> Lake:
    """Storage and catalog of a program that was built with a Clock."""
    clock = program.catalog.now_ms
    assert isinstance(clock, Clock)
    return Lake(
        storage=program.storage,
        store=program.catalog,
        namespaces=program.namespaces,
        tables=program.tables,
        views=program.views,
        clock=clock,
    )


def access_logs_of(lake: Lake, authoriser: decide.Authoriser) -> delivery.AccessLogs:
    """The access records of a lake without a server: no request is noted."""
    storage = lake.storage
    return delivery.AccessLogs(
        index=storage.index,
        buckets=storage.buckets,
        objects=storage.objects,
        blobs=storage.blobs,
        authoriser=authoriser,
        places_by_face={},
        canonical_id_of=str,
        region="us-east-1",
        host_id="",
        now_ms=lake.clock,
        new_id=lake.store.new_id,
    )


@contextmanager
def opened(
    path: Path, *, clock: Clock | None = None, first_id: int = 1, disk: Disk | None = None
) -> Iterator[Lake]:
    """Open the folder at path, with the table bucket `lake` in it."""
    clock = clock or Clock()
    new_id = ids(first_id)
    storage = opening.open_storage(
        path,
        disk=disk or Disk(),
        now_ms=clock,
        new_id=new_id,
        map_size_bytes=1 << 30,
        reserve_bytes=64 << 10,
    )
    try:
        store = CatalogStore(
            index=storage.index,
            buckets=storage.buckets,
            objects=storage.objects,
            blobs=storage.blobs,
            now_ms=clock,
            new_id=new_id,
        )
        if "lake" not in {bucket.name for bucket in storage.buckets.list()}:
            asyncio.run(
                storage.buckets.create(
                    "lake", bucket_type="table", owner=ACCOUNT, region="us-east-1"
                )
            )
        yield Lake(
            storage=storage,
            store=store,
            namespaces=Namespaces(store=store),
            tables=Tables(store=store),
            views=Views(store=store),
            clock=clock,
        )
    finally:
        storage.close()
