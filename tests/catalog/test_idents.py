"""How names are checked and how they travel."""

from __future__ import annotations

import pytest

from catalog import errors, idents


def test_a_namespace_travels_with_unit_separators_between_its_levels() -> None:
    assert idents.parse_namespace("a\x1fb.c") == ("a", "b.c")
    assert idents.format_namespace(("a", "b.c")) == "a\x1fb.c"


def test_a_table_is_shown_with_dots() -> None:
    ident = idents.TableIdent(table_bucket="lake", namespace=("a", "b"), name="t")
    assert ident.dotted() == "a.b.t"


@pytest.mark.parametrize("name", ["t", "Große Tabelle", "a.b", "a/b", "%2F", "x" * 255])
def test_a_name_keeps_its_case_and_its_signs(name: str) -> None:
    idents.check_name(name)


@pytest.mark.parametrize("name", ["", "a\x1fb", "a\nb", "t@dev", "x" * 256, "é" * 128, "\ud800"])
def test_a_name_that_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidName):
        idents.check_name(name)


def test_a_namespace_has_one_to_sixteen_levels_and_400_bytes() -> None:
    assert idents.check_namespace(["a"] * 16) == ("a",) * 16
    for refused in ([], ["a"] * 17, ["a", ""], ["x" * 200, "y" * 200]):
        with pytest.raises(errors.InvalidName):
            idents.check_namespace(refused)
    assert idents.check_namespace(["x" * 200, "y" * 199])
