"""Which snapshots of a table a load reads, from its metadata and the record of loads."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import errors, lineage, settings

SOURCE = settings.TableSource(table=settings.parse_table("lake.a.t"))
UUID = "11111111-2222-3333-4444-555555555555"
PLACE = f"table:{UUID}"
NAMED = ("table:lake.a.t", UUID)
REFUSED = r"lake\.a\.t has not only grown since the last load: {}"


def metadata(*snapshots: tuple[int, int | None, str], current: int | None = None) -> dict[str, Any]:
    """Return a table's metadata. snapshots: (id, parent, operation); current: the last of them."""
    rows = [
        {
            "snapshot-id": one,
            "summary": {"operation": operation, "added-files-size": str(one * 100)},
            **({} if parent is None else {"parent-snapshot-id": parent}),
        }
        for one, parent, operation in snapshots
    ]
    last = snapshots[-1][0] if snapshots else -1
    return {
        "table-uuid": UUID, "snapshots": rows, "current-snapshot-id": current or last
    }  # fmt: skip


def added(
    table: dict[str, Any], taken: set[lineage.Pair], *, may_read_whole: bool = False
) -> tuple[int | None, int | None, set[lineage.Pair]]:
    """Return the range that a load reads, and every row that it adds to the record."""
    portion = lineage.adding(SOURCE, table, taken, may_read_whole=may_read_whole)
    rows = {pair for pair, _ in portion.fresh} | set(portion.claims)
    if portion.rows is None:
        assert not rows
        return None, None, rows
    return portion.rows.after, portion.rows.until, rows


def of(*etags: str) -> set[lineage.Pair]:
    return {(PLACE, etag) for etag in etags}


FIRST = ((1, None, "append"), (2, 1, "overwrite"))
RECORD = {*of("1", "2", "after nothing"), NAMED}


def test_the_first_load_reads_the_table_whole_and_names_its_whole_history() -> None:
    assert added(metadata(*FIRST), set()) == (None, 2, RECORD)
    portion = lineage.adding(SOURCE, metadata(*FIRST), set(), may_read_whole=False)
    assert [size for _, size in portion.fresh] == [100, 200]


def test_a_later_load_reads_what_was_appended_since_and_passes_over_compactions() -> None:
    table = metadata(*FIRST, (3, 2, "append"), (4, 3, "replace"), (5, 4, "append"))
    assert added(table, RECORD) == (2, 5, of("3", "4", "5", "after 2"))
    assert added(table, RECORD | of("3", "4", "5", "after 2")) == (None, None, set())


def test_expired_snapshots_before_the_last_load_change_nothing() -> None:
    table = metadata((2, 1, "overwrite"), (3, 2, "append"))
    assert added(table, RECORD) == (2, 3, of("3", "after 2"))


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_changed_rows_refuse_an_append_and_are_read_whole_by_a_merge(operation: str) -> None:
    table = metadata(*FIRST, (3, 2, operation))
    with pytest.raises(errors.BadArgument, match=REFUSED.format("its snapshot 3 changes rows")):
        added(table, RECORD)
    assert added(table, RECORD, may_read_whole=True) == (None, 3, of("3", "after 2"))


def test_expiry_of_the_snapshot_loaded_last_refuses_an_append() -> None:
    table = metadata((4, 3, "append"), (5, 4, "append"))
    with pytest.raises(errors.BadArgument, match=REFUSED.format("the snapshot that was loaded")):
        added(table, RECORD)
    assert added(table, RECORD, may_read_whole=True) == (None, 5, of("4", "5"))


def test_a_rollback_is_recognised_also_when_the_lost_snapshots_have_expired() -> None:
    record = RECORD | of("3", "after 2")
    back = metadata(*FIRST, (3, 2, "append"), current=2)
    forth = metadata(*FIRST, (9, 2, "append"))
    for table in (back, forth):
        with pytest.raises(
            errors.BadArgument, match=REFUSED.format("it was rolled back to snapshot 2")
        ):
            added(table, record)
    assert added(forth, record, may_read_whole=True) == (None, 9, of("9"))
    with pytest.raises(errors.BadArgument, match="it has no snapshot any more"):
        added(metadata(), record)


def test_two_loads_that_continue_one_snapshot_share_a_row_of_the_record() -> None:
    _, _, one = added(metadata(*FIRST, (3, 2, "append")), RECORD)
    _, _, longer = added(metadata(*FIRST, (3, 2, "append"), (4, 3, "append")), RECORD)
    _, _, forked = added(metadata(*FIRST, (8, 2, "append")), RECORD)
    _, _, begun = added(metadata((4, 3, "append")), set())
    _, _, begun_before = added(metadata((3, None, "append")), set())
    assert one & longer
    assert one & forked
    assert begun & begun_before


def test_another_table_of_the_name_refuses_an_append() -> None:
    record = {("table:lake.a.t", "another"), ("table:another", "7")}
    with pytest.raises(errors.BadArgument, match="is another table than the one of this name"):
        added(metadata(*FIRST), record)
    assert added(metadata(*FIRST), record, may_read_whole=True) == (None, 2, RECORD)


def test_a_renamed_table_continues_where_it_was() -> None:
    record = {*of("1", "2", "after nothing"), ("table:lake.a.old", UUID)}
    assert added(metadata(*FIRST, (3, 2, "append")), record) == (
        2, 3, {*of("3", "after 2"), NAMED}
    )  # fmt: skip


def test_replacing_reads_the_table_whole_unless_the_target_is_equal() -> None:
    portion = lineage.replacing(SOURCE, metadata(*FIRST), None)
    assert portion.rows is not None
    assert (portion.rows.after, portion.rows.until) == (None, 2)
    assert {pair for pair, _ in portion.fresh} | set(portion.claims) == RECORD
    assert lineage.replacing(SOURCE, metadata(*FIRST), RECORD).rows is None
    changed = lineage.replacing(SOURCE, metadata(*FIRST, (3, 2, "delete")), RECORD)
    assert changed.rows is not None
    with pytest.raises(errors.BadArgument, match="has no snapshot"):
        lineage.replacing(SOURCE, metadata(), None)


def test_a_table_without_a_snapshot_gives_an_append_nothing() -> None:
    assert added(metadata(), set()) == (None, None, set())
