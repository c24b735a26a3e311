"""Every member of every update and requirement, replaced by every value it does not expect."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import errors, model, requirements, updates
from tests.catalog.metadata import samples
from tests.kit import metadata as kit

WRONG = {**samples.VALUES, "nothing": samples.ABSENT}


def test_the_samples_are_every_update_of_tables_and_every_requirement() -> None:
    assert set(samples.UPDATES) == set(updates.TABLE_UPDATES)
    assert set(samples.REQUIREMENTS) == {
        "assert-create",
        "assert-view-uuid",
        *requirements.TABLE_REQUIREMENTS,
    }
    assert len(samples.REQUIREMENTS) == 9


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("update", [*samples.updates()], ids=samples.UPDATES)
def test_an_update_with_a_wrong_member_is_refused_as_such_or_leaves_readable_metadata(
    update: dict[str, Any], version: int
) -> None:
    base = kit.with_snapshots(kit.table(version=version), 2)
    refused = 0
    for path in samples.paths(update):
        for name, value in WRONG.items():
            changed = samples.replaced(update, path, value)
            try:
                metadata = kit.apply_all(
                    base, [changed], now_ms=kit.NOW_MS + 9_000, base_location="s3://lake/m.json"
                )
                data = model.encode(metadata)
            except errors.MetadataError:
                refused += 1
                continue
            except Exception as error:
                raise AssertionError(f"{path} as {name}: {error!r}") from error
            again = model.decode(data)
            model.check_history(again)
    assert refused


@pytest.mark.parametrize("requirement", [*samples.requirements()], ids=samples.REQUIREMENTS)
def test_a_requirement_with_a_wrong_member_is_refused(requirement: dict[str, Any]) -> None:
    base = kit.with_snapshots(kit.table(), 2)
    for path in samples.paths(requirement):
        for name, value in WRONG.items():
            changed = samples.replaced(requirement, path, value)
            absent_ref = path == ("snapshot-id",) and name in ("null", "nothing")
            expected: Any = errors.RequirementFailed if absent_ref else errors.MetadataError
            if (path, name) in _STILL_TRUE:
                continue
            with pytest.raises(expected):
                requirements.check_requirements(base, [changed])


_STILL_TRUE = {
    (("default-spec-id",), "zero"),
    (("default-sort-order-id",), "zero"),
    (("current-schema-id",), "zero"),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["null", "text", "fraction", "past 64 bits", "negative", "true"])
def test_add_snapshot_with_a_wrong_sequence_number_is_refused(version: int, name: str) -> None:
    base = kit.with_snapshots(kit.table(version=version), 2)
    update = {"action": "add-snapshot", **samples.UPDATES["add-snapshot"]}
    wrong = samples.replaced(update, ("snapshot", "sequence-number"), samples.VALUES[name])
    with pytest.raises(errors.BadUpdate, match=r"sequence[- ]number"):
        kit.apply_all(base, [wrong], now_ms=1, base_location=None)
