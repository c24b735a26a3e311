"""Batches as values."""

from __future__ import annotations

from collections.abc import Sequence

from storage import batch
from storage.batch import Batch, Delete, Expect, Put, Reading, Store, Write


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
