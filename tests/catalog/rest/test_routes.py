"""Which operation a request asks for."""

from __future__ import annotations

import pytest

from catalog.rest import face, rows


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize("prefix", ["lake", None])
def test_every_operation_is_found_by_its_own_path(row: rows.RestRow, prefix: str | None) -> None:
    words = {
        "{prefix}": prefix,
        "{namespace}": "a\x1fb.c",
        "{table}": "t/1",
        "{view}": "v",
        "{function}": "f",
        "{plan-id}": "p",
    }
    parts = [words.get(part, part) for part in row.path.strip("/").split("/")]
    segments = [part for part in parts if part is not None]
    assert rows.ROUTES.find(row.method, segments) is row
    parsed = rows.ROUTES.parse(segments, ())
    assert parsed.prefix == (prefix if "{prefix}" in row.path else None)
    if "{namespace}" in row.path:
        assert parsed.namespace == ("a", "b.c")
    assert parsed.name == {"{table}": "t/1", "{view}": "v", "{function}": "f"}.get(
        next((part for part in ("{table}", "{view}", "{function}") if part in row.path), ""), ""
    )
    assert parsed.plan_id == ("p" if "{plan-id}" in row.path else "")


def test_there_are_the_35_operations_of_the_specification() -> None:
    assert len(rows.ROWS) == 35
    assert len({row.name for row in rows.ROWS}) == 35
    assert len({row.endpoint for row in rows.ROWS}) == 35


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "v1"),
        ("GET", "v1/lake"),
        ("GET", "v2/config"),
        ("POST", "v1/config"),
        ("PUT", "v1/lake/namespaces"),
        ("GET", "v1/lake/namespaces/"),
        ("GET", "v1/lake/namespaces//tables"),
        ("GET", "v1/lake/namespaces/ns/tables/"),
        ("GET", "v1/lake/namespaces/ns/things"),
        ("GET", "v1/lake/namespaces/ns/tables/t/more"),
        ("GET", "v1/lake/tables/rename"),
        ("POST", "v1/lake/other/namespaces"),
    ],
)
def test_what_the_catalog_does_not_have_is_no_operation(method: str, path: str) -> None:
    assert rows.ROUTES.find(method, path.split("/")) is None


def test_of_a_parameter_given_twice_the_first_counts() -> None:
    parsed = rows.ROUTES.parse(("v1", "config"), (("warehouse", "a"), ("warehouse", "b")))
    assert parsed.query == {"warehouse": "a"}


def test_a_remembered_path_means_what_it_meant_with_its_own_method_query_and_separator() -> None:
    path, encoded = b"/iceberg/v1/lake/namespaces/a.b/tables/t%2F1", b"snapshots=refs"
    for _ in range(2):
        for remembered in (face.identify_remembered, face.identify):
            seen = []
            for method in ("GET", "POST", "PUT"):
                for query in (b"", encoded):
                    for separator in (".", "\x1f"):
                        row, value = remembered(method, path, query, separator)
                        seen.append((row and row.name, value and (value.namespace, value.query)))
            dotted, whole = ("a", "b"), ("a.b",)
            refs = {"snapshots": "refs"}
            assert seen == [
                *(
                    (name, (namespace, query))
                    for name in ("loadTable", "updateTable")
                    for query in ({}, refs)
                    for namespace in (dotted, whole)
                ),
                *[(None, None)] * 4,
            ]


def test_the_query_that_requests_share_cannot_be_changed() -> None:
    _, value = face.identify_remembered("GET", b"/iceberg/v1/config", b"warehouse=a", ".")
    assert value is not None
    with pytest.raises(TypeError):
        value.query["warehouse"] = "b"  # type: ignore[index] # what the test is about


def test_a_warehouse_may_be_named_like_an_operation_is_not() -> None:
    segments = ("v1", "register", "namespaces")
    row = rows.ROUTES.find("GET", segments)
    assert row is not None
    assert (row.name, rows.ROUTES.parse(segments, ()).prefix) == ("listNamespaces", "register")
