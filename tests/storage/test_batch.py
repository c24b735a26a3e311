"""Batches as values."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storage import batch, errors
from storage.batch import Batch, Delete, Expect, OrderedPlan, Put, Reading, Store, Write
from storage.opening import Storage
from tests.kit import folders


def nothing(reading: Reading) -> Sequence[Write]:
    return ()


def test_merge_keeps_everything_in_order() -> None:
    one = Batch(
        expects=(Expect(store=Store.REFS, key=b"a", value=None),),
        writes=(Put(store=Store.REFS, key=b"a", value=b"1"),),
        derive=(nothing,),
    )
    two = Batch(writes=(Delete(store=Store.REFS, key=b"b"),))
    merged = batch.merge((one, two))
    assert merged == Batch(
        expects=one.expects, writes=(*one.writes, *two.writes), derive=(nothing,)
    )


def test_merge_makes_room_only_if_all_do() -> None:
    freeing, filling = Batch(makes_room=True), Batch()
    assert batch.merge((freeing, freeing)).makes_room
    assert not batch.merge((freeing, filling)).makes_room
    assert not batch.merge(()).makes_room


def test_stores_are_distinct_keys_of_a_dictionary() -> None:
    assert len({store: store.value for store in Store}) == len(Store)
    assert Store("objects") is Store.OBJECTS


def test_plans_in_order_see_the_writes_before_them_and_return_their_results(
    storage: Storage,
) -> None:
    index = storage.index

    def appending(text: bytes) -> OrderedPlan[bytes | None]:
        def plan(reading: Reading) -> tuple[bytes | None, Sequence[Write]]:
            before = reading.get(Store.REFS, b"a")
            return before, (Put(store=Store.REFS, key=b"a", value=(before or b"") + text),)

        return OrderedPlan(plan=plan, after=(copy,))

    def copy(reading: Reading) -> Sequence[Write]:
        value = reading.get(Store.REFS, b"a")
        assert value is not None
        return (Put(store=Store.REFS, key=b"copy of " + value, value=b""),)

    def refuse(reading: Reading) -> tuple[bytes | None, Sequence[Write]]:
        raise ValueError("no")

    plans = [appending(text) for text in (b"1", b"2", b"3")]
    absent = Expect(store=Store.REFS, key=b"a", value=None)

    async def scenario() -> None:
        refused = batch.decide_in_order((plans[0], OrderedPlan(plan=refuse)))
        with pytest.raises(ValueError, match="no"):
            await index.decide(refused)
        decision = batch.decide_in_order(plans, expects=(absent,))
        assert await index.decide(decision) == [None, b"1", b"12"]
        with pytest.raises(errors.ExpectationFailed):
            await index.decide(decision)

    folders.run(scenario())
    with index.view() as view:
        rows = dict(view.scan(Store.REFS, b"a", b"d"))
    assert rows == {b"a": b"123", b"copy of 1": b"", b"copy of 12": b"", b"copy of 123": b""}
