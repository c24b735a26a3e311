"""Rows of views that the server's SQL unloads, while other jobs unload the same view."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from pipeline import errors, settings, unloads
from tests.kit import lake_client
from tests.kit import server as server_kit
from tests.pipeline.lake import Small

TARGET = settings.parse_table("lake.unloads.t")


@pytest.fixture
def view(small: Small, server: server_kit.Running) -> settings.TargetTable:
    small.catalog.create_namespace_if_not_exists("unloads")
    with lake_client.session(server, "unloads") as sql:
        sql.answer("create or replace view v as select column1 as id from values (1), (2), (3)")
    return settings.parse_table("lake.unloads.v")


def ids_of(folder: Path) -> list[int]:
    ids: list[int] = pyarrow.dataset.dataset(folder).to_table().to_pydict()["ID"]
    return sorted(ids)


def before_get(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], None]) -> None:
    """Let act, with the text of the first GET, run before it."""
    run, texts = unloads._Sql.run, list[str]()

    def after_act(sql: unloads._Sql, text: str) -> Mapping[str, Any]:
        if text.startswith("get ") and not texts:
            texts.append(text)
            act(text)
        return run(sql, text)

    monkeypatch.setattr(unloads._Sql, "run", after_act)


def test_two_jobs_that_unload_a_view_for_a_table_at_once_get_all_rows_each(
    small: Small, view: settings.TargetTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    before_get(monkeypatch, lambda _: unloads._unload(small.server, view, TARGET, second))
    unloads._unload(small.server, view, TARGET, first)
    assert (ids_of(first), ids_of(second)) == ([1, 2, 3], [1, 2, 3])


def test_files_that_are_lost_on_the_way_fail_the_job_with_the_name_of_the_view(
    small: Small,
    view: settings.TargetTable,
    server: server_kit.Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def remove(text: str) -> None:
        with lake_client.session(server, "unloads") as sql:
            assert len(sql.rows(f"remove {text.split()[1]}")) == 1

    before_get(monkeypatch, remove)
    with pytest.raises(
        errors.SourceChanged, match=r"view:lake\.unloads\.v was unloaded as 3 rows .* of which 0 "
    ):
        unloads._unload(small.server, view, TARGET, tmp_path)


def test_files_of_a_job_that_died_are_removed_once_they_are_old(
    small: Small,
    view: settings.TargetTable,
    server: server_kit.Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched, lake_client.session(server, "unloads") as sql:

        def die(text: str) -> None:
            sql.answer(f"copy into {text.split()[1]}other from (select 1 as a)")
            patched.setattr(unloads._Sql, "run", lambda *_: 1 / 0)

        before_get(patched, die)
        with pytest.raises(ZeroDivisionError):
            unloads._unload(small.server, view, TARGET, tmp_path)
        listed = sql.rows("list @~/boathouse-pipeline/")
        assert len(listed) == 2
    for age, remaining in ((datetime.timedelta(days=1), 2), (datetime.timedelta(seconds=-5), 0)):
        monkeypatch.setattr(unloads, "STALE_AGE", age)
        folder = tmp_path / str(remaining)
        folder.mkdir()
        unloads._unload(small.server, view, TARGET, folder)
        assert ids_of(folder) == [1, 2, 3]
        with lake_client.session(server, "unloads") as sql:
            assert len(sql.rows("list @~/boathouse-pipeline/")) == remaining
