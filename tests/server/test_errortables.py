"""The row that answers an error."""

from __future__ import annotations

from server import errortables


class Base(Exception):
    pass


class Middle(Base):
    pass


class Leaf(Middle):
    pass


def test_find_prefers_the_nearest_base() -> None:
    table = {Base: "base", Middle: "middle"}
    assert [errortables.find(error(), table) for error in (Base, Middle, Leaf)] == [
        "base",
        "middle",
        "middle",
    ]


def test_find_of_an_error_without_a_row_returns_none() -> None:
    assert errortables.find(ValueError("x"), {Base: "base"}) is None
    assert errortables.find(Base("x"), {Middle: "middle"}) is None


def test_find_in_several_tables_prefers_the_nearer_base_and_then_the_earlier_table() -> None:
    own, common = {Base: "own base"}, {Base: "common base", Middle: "common middle"}
    assert errortables.find(Leaf(), own, common) == "common middle"
    assert errortables.find(Base(), own, common) == "own base"
