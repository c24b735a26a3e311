"""The log: one chain per table bucket."""

from __future__ import annotations

import msgspec
import pytest

from catalog import history, records
from storage import batch
from tests.kit import lakes

FIRST = records.Op(
    object_type="namespace", namespace=(), name="ns", before=None, after=b"1", summary={}
)


def draft(*ops: records.Op, message: str = "") -> history.CommitDraft:
    return history.CommitDraft(
        bucket_id=1,
        branch="main",
        author="me",
        via="rest",
        message=message,
        time_ms=5,
        ops=ops,
    )


def commit(lake: lakes.Lake, *drafts: history.CommitDraft) -> None:
    derive = tuple(history.append(each) for each in drafts)
    lake.run(lake.storage.index.commit(batch.Batch(derive=derive)))


def test_a_bucket_without_commits_has_a_branch_main_all_the_same(lake: lakes.Lake) -> None:
    with lake.storage.index.view() as view:
        head = history.head(view, 1, "main")
        assert (head.branch_id, head.head, head.state) == (1, b"", "live")
        assert history.last_sequence(view, 1) == 0


def test_each_commit_names_the_one_before_and_the_head_is_the_last(lake: lakes.Lake) -> None:
    second = msgspec.structs.replace(FIRST, before=b"1", after=b"2")
    commit(lake, draft(FIRST))
    commit(lake, draft(second, message="twice"))
    one, two = lake.log()
    assert (one.sequence, two.sequence) == (1, 2)
    assert one.record.parents == ()
    assert two.record.parents == (one.commit_id,)
    assert two.record.message == "twice"
    assert lake.broken_chain() is None
    key = records.commit_key(1, two.commit_id)
    assert lake.storage.index.get(batch.Store.COMMITS, key) == records.encode_sequence(2)


def test_two_commits_of_one_transaction_follow_each_other(lake: lakes.Lake) -> None:
    commit(lake, draft(FIRST), draft(msgspec.structs.replace(FIRST, name="other")))
    assert [each.sequence for each in lake.log()] == [1, 2]
    assert lake.broken_chain() is None


def test_a_commit_to_another_branch_follows_the_newest_of_the_bucket(lake: lakes.Lake) -> None:
    for number, branch in enumerate(("main", "main", "dev", "main", "dev")):
        named = draft(msgspec.structs.replace(FIRST, name=str(number)))
        commit(lake, msgspec.structs.replace(named, branch=branch))
    log = lake.log()
    assert [each.sequence for each in log] == [1, 2, 3, 4, 5]
    one, two, three, four, five = [each.commit_id for each in log]
    parents = [each.record.parents for each in log]
    assert parents == [(), (one,), (), (two,), (three,)]
    assert len({one, two, three, four, five}) == 5


def test_buckets_have_logs_of_their_own(lake: lakes.Lake) -> None:
    commit(lake, draft(FIRST))
    other = history.CommitDraft(
        bucket_id=2, branch="main", author="me", via="rest", message="", time_ms=5, ops=(FIRST,)
    )
    commit(lake, other)
    with lake.storage.index.view() as view:
        assert history.last_sequence(view, 1) == history.last_sequence(view, 2) == 1
        assert len(history.read(view, 2)) == 1


def test_a_log_is_read_in_parts(lake: lakes.Lake) -> None:
    for number in range(5):
        commit(lake, draft(msgspec.structs.replace(FIRST, name=str(number))))
    with lake.storage.index.view() as view:
        part = history.read(view, 1, after=1, limit=2)
    assert [each.sequence for each in part] == [2, 3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parents": (b"x" * 16,)}, "commit 2 does not name the one before"),
        ({"parents": ()}, "commit 2 does not name the one before"),
        ({"ops": (FIRST,)}, "commit 2 changes"),
    ],
)
def test_a_broken_chain_is_seen(change: dict[str, object], said: str) -> None:
    one = records.LogRecord(
        parents=(), branch="main", author="", via="", message="", time_ms=1, ops=(FIRST,)
    )
    id_of = history.commit_id_of
    first = history.Commit(sequence=1, commit_id=id_of(records.encode(one)), record=one)
    good = records.LogRecord(
        parents=(first.commit_id,),
        branch="main",
        author="",
        via="",
        message="",
        time_ms=1,
        ops=(msgspec.structs.replace(FIRST, before=b"1", after=None),),
    )
    second = history.Commit(sequence=2, commit_id=id_of(records.encode(good)), record=good)
    assert history.find_break([first, second], second.commit_id) is None
    assert history.find_break([first, second], first.commit_id) is not None
    assert history.find_break([second], second.commit_id) == "commit 2 follows 0"
    bad = msgspec.structs.replace(good, **change)
    changed = history.Commit(sequence=2, commit_id=id_of(records.encode(bad)), record=bad)
    reason = history.find_break([first, changed], changed.commit_id)
    assert reason is not None
    assert reason.startswith(said)


def test_a_commit_is_summed_up_by_its_snapshot_or_its_updates() -> None:
    snapshot = {
        "snapshot-id": 7,
        "summary": {"operation": "append", "added-records": "3", "engine": "x"},
    }
    assert history.summarise(
        [{"action": "set-properties"}, {"action": "add-snapshot", "snapshot": snapshot}]
    ) == {"operation": "append", "snapshot-id": 7, "added-records": "3"}
    assert history.summarise([{"action": "add-schema"}, {"action": "add-schema"}]) == {
        "operation": "update",
        "updates": ["add-schema"],
    }
