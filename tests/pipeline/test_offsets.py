"""Which offsets of a topic a load reads, by hand-written records of loads."""

from __future__ import annotations

import pytest

from pipeline import errors, offsets

FIRST_LOAD = {"until ID 0:3 1:5", "after ID nothing"}
SECOND_LOAD = {"until ID 0:4 1:5", "after ID 0:3 1:5"}


def topic(
    first: offsets.Positions, end: offsets.Positions, *, topic_id: str = "ID"
) -> offsets.TopicState:
    return offsets.TopicState(
        cluster="CLUSTER", topic="orders", topic_id=topic_id, first=first, end=end
    )


def remaining(
    state: offsets.TopicState, etags: set[str], lost: str = "fail"
) -> offsets.OffsetRange | None:
    return offsets.remaining(state, etags, lost_records=lost)  # type: ignore[arg-type] - one of both


def test_the_first_load_reads_what_the_topic_has() -> None:
    state = topic({0: 2, 1: 0}, {0: 3, 1: 5})
    assert remaining(state, set()) == offsets.OffsetRange(
        start={0: 2, 1: 0}, until={0: 3, 1: 5}, claim="after ID nothing"
    )
    assert state.place == "kafka:CLUSTER/orders"
    assert offsets.etag_of(state, {1: 5, 0: 3}) == "until ID 0:3 1:5"


@pytest.mark.parametrize("record", [FIRST_LOAD, FIRST_LOAD | SECOND_LOAD])
def test_a_later_load_continues_the_last_one(record: set[str]) -> None:
    end = 4 if record == FIRST_LOAD else 6
    rows = remaining(topic({0: 0, 1: 0}, {0: end, 1: 5}), record)
    assert rows == offsets.OffsetRange(
        start={0: end - 1 if end == 4 else 4, 1: 5}, until={0: end, 1: 5},
        claim="after ID 0:3 1:5" if end == 4 else "after ID 0:4 1:5",
    )  # fmt: skip
    assert remaining(topic({0: 0, 1: 0}, {0: 3 if end == 4 else 4, 1: 5}), record) is None


def test_a_new_partition_is_read_from_its_first_offset() -> None:
    rows = remaining(topic({0: 0, 1: 0, 2: 0}, {0: 3, 1: 5, 2: 7}), FIRST_LOAD)
    assert rows is not None
    assert rows.start == {0: 3, 1: 5, 2: 0}
    assert rows.records_max == 7


def test_dropped_records_are_an_error_that_names_them_or_are_skipped() -> None:
    state = topic({0: 0, 1: 9}, {0: 3, 1: 12})
    with pytest.raises(errors.BadArgument, match=(
        r"the topic orders: partition 1 begins at offset 9, but the table has the records before "
        r"offset 5 alone: those from 5 to 8 are lost; --lost-records skip"
    )):  # fmt: skip
        remaining(state, FIRST_LOAD)
    rows = remaining(state, FIRST_LOAD, "skip")
    assert rows is not None
    assert (rows.start, rows.claim) == ({0: 3, 1: 9}, "after ID 0:3 1:5")
    assert remaining(topic({0: 0, 1: 5}, {0: 3, 1: 5}), FIRST_LOAD) is None


@pytest.mark.parametrize("lost", ["fail", "skip"])
def test_a_topic_that_ends_before_the_last_load_is_an_error(lost: str) -> None:
    with pytest.raises(errors.BadArgument, match=(
        r"partition 1 ends at offset 4, but the table has the records before offset 5"
    )):  # fmt: skip
        remaining(topic({0: 0, 1: 0}, {0: 3, 1: 4}), FIRST_LOAD, lost)


def test_a_topic_made_anew_is_an_error_or_begins_a_chain_of_its_own() -> None:
    state = topic({0: 0}, {0: 2}, topic_id="NEW")
    with pytest.raises(errors.BadArgument, match="is another topic than the one of this name"):
        remaining(state, FIRST_LOAD)
    rows = remaining(state, FIRST_LOAD, "skip")
    assert rows == offsets.OffsetRange(start={0: 0}, until={0: 2}, claim="after NEW nothing")
    both = FIRST_LOAD | {"until NEW 0:2", "after NEW nothing"}
    assert remaining(state, both) is None
    rows = remaining(topic({0: 0}, {0: 3}, topic_id="NEW"), both)
    assert rows is not None
    assert rows.claim == "after NEW 0:2"


def test_a_topic_without_records_is_an_empty_range_of_a_load_that_reads_it_whole() -> None:
    state = topic({0: 3, 1: 0}, {0: 3, 1: 0})
    assert remaining(state, set()) is None
    assert offsets.remaining(
        state, set(), lost_records="fail", is_whole=True
    ) == offsets.OffsetRange(start={0: 3, 1: 0}, until={0: 3, 1: 0}, claim="after ID nothing")


def test_more_partitions_than_a_row_of_the_record_can_name_are_refused() -> None:
    many = dict.fromkeys(range(400), 10**9)
    with pytest.raises(errors.BadArgument, match="has 400 partitions"):
        offsets.etag_of(topic(many, many), many)
    few = dict.fromkeys(range(250), 10**9)
    assert len(offsets.etag_of(topic(few, few), few)) <= 4096
