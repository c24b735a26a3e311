"""Rights are judged on the table that a write changes, not on what its name meant before.

Each test lets another client in between the moment in which a request is allowed and its write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from server import asgi
from tests.catalog.rest import rest_server as kit
from tests.catalog.rest.test_access import ANY_TABLE, BUCKET, NEW_VIEW
from tests.kit import lakes

BY = lakes.BY
NEW = {"name": "new", "schema": kit.SCHEMA}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[kit.RestServer]:
    people = {
        "lister": [kit.allow("s3tables:ListTables", BUCKET)],
        "creator": [
            kit.allow(
                ["s3tables:CreateTable", "s3tables:PutTableData", "s3tables:ListTables"],
                [BUCKET, f"{BUCKET}/table/*"],
            )
        ],
        "all": [kit.allow("s3tables:*", [BUCKET, ANY_TABLE])],
    }
    with kit.opened(tmp_path / "d", users=people) as opened:
        opened.make_namespace("hr")
        yield opened


@contextmanager
def before_a_write(rest: kit.RestServer, work: Callable[[], Awaitable[Any]]) -> Iterator[None]:
    """Let work happen once, right before the next write is planned."""
    write = rest.lake.store.write

    async def later(plan: Any, **more: Any) -> Any:
        patched.undo()
        await work()
        return await write(plan, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rest.lake.store, "write", later)
        yield


def make(rest: kit.RestServer) -> Callable[[], Awaitable[Any]]:
    return lambda: rest.lake.tables.create(rest.lake.ident("hr.new"), schema=lakes.SCHEMA, by=BY)


def make_empty(rest: kit.RestServer) -> Callable[[], Awaitable[Any]]:
    return lambda: rest.lake.tables.create_empty(rest.lake.ident("hr.new"), by=BY)


TABLE = "namespaces/hr/tables/new"
CREATION = {
    "requirements": [{"type": "assert-create"}],
    "updates": [
        {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": kit.SCHEMA, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ],
}
CHANGE = {"requirements": [], "updates": [kit.set_property("a", "b")]}
RENAME = {
    "source": {"namespace": ["hr"], "name": "new"},
    "destination": {"namespace": ["hr"], "name": "mine"},
}


@pytest.mark.parametrize(
    ("user", "method", "path", "body"),
    [
        ("lister", "DELETE", TABLE, None),
        ("lister", "DELETE", f"{TABLE}?purgeRequested=true", None),
        ("lister", "POST", f"{TABLE}/unregister", None),
        ("lister", "POST", TABLE, CHANGE),
        (
            "lister",
            "POST",
            "transactions/commit",
            {"table-changes": [{"identifier": RENAME["source"], **CHANGE}]},
        ),
        ("creator", "POST", "tables/rename", RENAME),
    ],
    ids=["drop", "purge", "unregister", "commit", "transaction", "rename"],
)
def test_a_table_that_appears_after_the_rights_were_judged_is_not_changed(
    rest: kit.RestServer, user: str, method: str, path: str, body: Any
) -> None:
    assert rest.ask(method, path, body, user=user).status in (404, 406)
    with before_a_write(rest, make(rest)):
        answer = rest.ask(method, path, body, user=user)
    assert answer.error[:2] == (403, "ForbiddenException")
    loaded = rest.lake.load(rest.lake.ident("hr.new"))
    assert "a" not in loaded.metadata.properties
    assert not rest.lake.tables.exists(rest.lake.ident("hr.mine"))


VIEW = "namespaces/hr/views/new"


@pytest.mark.parametrize(
    ("user", "method", "path", "body"),
    [
        ("lister", "DELETE", VIEW, None),
        ("lister", "POST", VIEW, CHANGE),
        ("creator", "POST", "views/rename", RENAME),
    ],
    ids=["drop", "replace", "rename"],
)
def test_a_view_that_appears_after_the_rights_were_judged_is_not_changed(
    rest: kit.RestServer, user: str, method: str, path: str, body: Any
) -> None:
    def make_view() -> Awaitable[Any]:
        return rest.lake.views.create(
            rest.lake.ident("hr.new"),
            schema=kit.SCHEMA,
            view_version=NEW_VIEW["view-version"],
            by=BY,
        )

    assert rest.ask(method, path, body, user=user).status == 404
    with before_a_write(rest, make_view):
        answer = rest.ask(method, path, body, user=user)
    assert answer.error[:2] == (403, "ForbiddenException")
    loaded = rest.ask("GET", VIEW)
    assert (loaded.status, loaded.json["metadata"]["properties"]) == (200, {})


def test_a_table_made_without_metadata_meanwhile_is_not_adopted_by_a_creator(
    rest: kit.RestServer,
) -> None:
    ident = rest.lake.ident("hr.new")
    with before_a_write(rest, make_empty(rest)):
        answer = rest.ask("POST", TABLE, CREATION, user="creator")
    assert answer.error[:2] == (403, "ForbiddenException")
    assert rest.lake.tables.awaits_metadata(ident)
    rest.run(rest.lake.tables.drop(ident, by=BY))
    with before_a_write(rest, make_empty(rest)):
        answer = rest.ask("POST", "namespaces/hr/tables", NEW, user="creator")
    assert answer.error[:2] == (409, "AlreadyExistsException")
    assert rest.lake.tables.awaits_metadata(ident)
    assert rest.ask("POST", TABLE, CREATION, user="all").status == 200


def test_a_table_created_again_meanwhile_is_authorised_as_the_new_table(
    rest: kit.RestServer,
) -> None:
    ident = rest.lake.ident("hr.new")
    first = rest.run(rest.lake.tables.create_empty(ident, by=BY))

    async def make_anew() -> None:
        await rest.lake.tables.drop(ident, by=BY)
        await rest.lake.tables.create_empty(ident, by=BY)

    with before_a_write(rest, make_anew):
        answer = rest.ask("POST", "namespaces/hr/tables", NEW, user="all")
    assert answer.status == 200
    assert rest.lake.tables.pointer(ident).object_uuid != first.object_uuid


def test_a_body_that_comes_after_its_table_was_made_is_judged_anew(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = asgi.Request.read

    async def slow(request: asgi.Request, **more: Any) -> bytes:
        if request.raw_path.endswith(b"/metrics"):
            await make(rest)()
        return await read(request, **more)

    report = {"report-type": "scan-report"}
    assert rest.ask("POST", f"{TABLE}/metrics", report, user="lister").status == 404
    monkeypatch.setattr(asgi.Request, "read", slow)
    monkeypatch.setattr(asgi.Request, "read_now", lambda *_, **__: None)  # it has not arrived yet
    answer = rest.ask("POST", f"{TABLE}/metrics", report, user="lister")
    assert answer.error[:2] == (403, "ForbiddenException")
    assert rest.lake.tables.metrics(rest.lake.ident("hr.new")) == ()
