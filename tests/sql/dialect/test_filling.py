"""Binds in place of names and stages, and those that several statements share."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from sql import bindings, errors
from sql.dialect import filling


def fixed(*values: int) -> dict[str, bindings.Binding]:
    return {
        str(number): bindings.Binding(type="fixed", values=(value,))
        for number, value in enumerate(values, 1)
    }


def values_of(shared: list[Mapping[str, bindings.Binding]]) -> list[dict[str, int]]:
    return [{name: binding.value for name, binding in each.items()} for each in shared]


def test_several_statements_take_the_values_of_a_request_in_order() -> None:
    texts = ["insert into t values (?, ?)", "select 1", "select '?', a from t where a > ?"]
    assert values_of(filling.share(texts, fixed(1, 2, 3))) == [{"1": 1, "2": 2}, {}, {"1": 3}]


def test_a_number_is_the_requests_in_each_of_several_statements() -> None:
    texts = ["select :2", "select :1, :2"]
    assert values_of(filling.share(texts, fixed(1, 2))) == [{"1": 1, "2": 2}] * 2


def test_a_name_is_bound_in_each_of_several_statements() -> None:
    named = {"a": bindings.Binding(type="fixed", values=(9,))}
    shared = filling.share(["select ?, :a", "select :a, ?"], fixed(1, 2) | named)
    assert values_of(shared) == [{"1": 1, "a": 9}, {"1": 2, "a": 9}]


def test_a_placeholder_of_several_statements_without_a_value_is_named_by_its_number() -> None:
    with pytest.raises(errors.SqlError) as caught:
        filling.share(["select ?", "select ?, ?"], fixed(1, 2))
    assert caught.value.code == "002049"
    assert "Bind variable 3 is not set" in caught.value.message


def test_both_forms_of_placeholders_in_one_of_several_statements_are_refused() -> None:
    with pytest.raises(errors.SqlError) as caught:
        filling.share(["select 1", "select ?, :1"], fixed(1))
    assert caught.value.code == "000002"


def test_a_number_in_an_object_is_no_placeholder_of_several_statements() -> None:
    texts = ["select ?", "select {'a':1, 'b': 2}, ?"]
    assert values_of(filling.share(texts, fixed(1, 2))) == [{"1": 1}, {"1": 2}]


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ('select "aB", b from "Tab"', 'select "AB", b from "TAB"'),
        ('select \'a"b"\' as "x""y"', 'select \'a"b"\' as "X""Y"'),
        ('select 1 -- "a"\n as "a"', 'select 1 -- "a"\n as "A"'),
        # The upper case of a sharp s is two letters.
        ('select 1 as "straße"', 'select 1 as "STRAßE"'),
        ('put file:///a "b" @~', 'put file:///a "b" @~'),
        ('select $$ "a" $$', 'select $$ "a" $$'),
        ('select "v":"aB"[0]."c".d."e" "x"', 'select "V":"aB"[0]."c".d."e" "X"'),
        ('select $1:"k"::"t", :1 "x", v[:2]:"k" "y"', 'select $1:"k"::"T", :1 "X", v[:2]:"k" "Y"'),
    ],
)
def test_names_in_double_quotes_are_folded_and_texts_are_not(text: str, folded: str) -> None:
    assert filling.fold(text) == folded


LEADS = ("", "/* why ? */ ", "-- COPY 'it\n", "// a /* b\n", "/* a */ -- b\n/* c\n ** d */")


@pytest.mark.parametrize("lead", LEADS)
def test_binds_after_comments_are_filled_in(lead: str) -> None:
    bound = {"1": bindings.Binding(type="text", values=("@~/a b",))}
    filled = {
        "copy into t from ?": "copy into t from '@~/a b'",
        "execute immediate ?": "execute immediate '@~/a b'",
        "PUT file:///tmp/x ?": "PUT file:///tmp/x '@~/a b'",
    }
    for text, expected in filled.items():
        assert filling.fill(lead + text, bound) == (lead + expected, {})


def test_open_comments_before_a_statement_cost_time_in_proportion_to_the_text() -> None:
    started = time.process_time()
    assert filling.MENTIONS.search("/* " * 300_000) is None
    assert time.process_time() - started < 5
