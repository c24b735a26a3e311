"""The catalog as jobs of Python use it."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
import requests

from pipeline import catalogs, errors, settings


@pytest.fixture
def catalog(endpoint: settings.ServerEndpoint) -> Any:
    opened = catalogs.opened(endpoint, "lake")
    opened.create_namespace_if_not_exists("renewed")
    return opened


def change(catalog: Any, name: str) -> catalogs.CatalogChange:
    """A table with one more property."""
    catalog.create_table_if_not_exists(f"renewed.{name}", schema=pa.schema({"k": pa.int64()}))
    transaction = catalog.load_table(f"renewed.{name}").transaction()
    transaction.set_properties(changed="yes")
    return catalogs.change_of(settings.parse_table(f"lake.renewed.{name}"), transaction)


def test_a_commit_after_its_token_has_ended_gets_another(catalog: Any) -> None:
    changes = [change(catalog, "one"), change(catalog, "two")]
    catalog._session.auth.auth_manager._token = "ended"
    catalogs.commit(catalog, changes)
    for name in ("one", "two"):
        assert catalog.load_table(f"renewed.{name}").properties["changed"] == "yes"


def test_a_second_refusal_is_the_answer(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [change(catalog, "three")]
    refreshed: list[int] = []
    monkeypatch.setattr(catalog, "_refresh_token", lambda: refreshed.append(1))
    catalog._session.auth.auth_manager._token = "ended"
    with pytest.raises(errors.PipelineError, match="the server refused"):
        catalogs.commit(catalog, changes)
    assert refreshed == [1]


def answering(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, status: int, count: int, **headers: str
) -> list[float]:
    """Let a catalog answer so many posts with an error of its own; return the pauses to come."""
    post, left, pauses = catalog._session.post, [None] * count, []

    def answer(url: str, **options: Any) -> Any:
        if not left:
            return post(url, **options)
        left.pop()
        refusal = requests.Response()
        refusal.status_code = status
        refusal.headers.update(headers)
        refusal._content = b'{"error": {"message": "the disk is full"}}'
        return refusal

    monkeypatch.setattr(catalog._session, "post", answer)
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_a_commit_that_certainly_did_not_happen_is_a_refusal(
    catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [change(catalog, "full")]
    answering(catalog, monkeypatch, 507, 1)
    with pytest.raises(
        errors.PipelineError, match="the server refused: the disk is full"
    ) as raised:
        catalogs.commit(catalog, changes)
    assert type(raised.value) is errors.PipelineError
    answering(catalog, monkeypatch, 500, 1)
    with pytest.raises(errors.OutcomeUnknown):
        catalogs.commit(catalog, changes)


@pytest.mark.parametrize(
    ("headers", "pause"),
    [({"Retry-After": "2"}, 2), ({"Retry-After": "3600"}, 30), ({}, 1),
     ({"Retry-After": "Sat, 01 Aug 2026 12:00:00 GMT"}, 1)],
)  # fmt: skip
def test_a_busy_server_is_asked_again_when_it_says(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], pause: float
) -> None:
    name = f"busy_{len(str(headers))}"
    changes = [change(catalog, name)]
    pauses = answering(catalog, monkeypatch, 429, 4, **headers)
    catalogs.commit(catalog, changes)
    assert catalog.load_table(f"renewed.{name}").properties["changed"] == "yes"
    assert pauses == [pause] * 4


def test_a_server_that_stays_busy_refuses_in_the_end(
    catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [change(catalog, "too_busy")]
    pauses = answering(catalog, monkeypatch, 429, 5)
    with pytest.raises(errors.PipelineError, match="the server refused: the disk is full"):
        catalogs.commit(catalog, changes)
    assert len(pauses) == 4
    assert "changed" not in catalog.load_table("renewed.too_busy").properties
