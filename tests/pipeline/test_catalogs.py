"""The catalog as jobs of Python use it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

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
