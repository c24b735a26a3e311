"""VARIANT, OBJECT and ARRAY as Snowflake documents them, through dialect and engine.

Expected values are those of Snowflake's documentation, or follow from JSON's own grammar.
"""

from __future__ import annotations

import datetime
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sql import engine, engine_datafusion, errors, kernels, limits
from tests.kit import sql_text

DATE = datetime.date


def compact(text: str | None) -> Any:
    """Return a shown value without its blanks; a cell that is no text stays."""
    if not isinstance(text, str) or text[:1] not in ("{", "["):
        return text
    value = json.loads(text.replace("undefined", '"?"'))
    spelled = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return spelled.replace('"?"', "undefined")


DOCUMENT = (
    """parse_json('{"a": {"b": [1, 2.50, {"c": null}]}, "n": "5", "x y": true, "D": 1.912e2}')"""
)

ABC = "{'a': 1, 'b': 2, 'c': 3}::map(varchar, number)"
TENS = "{'map8001': '10', 'map8002': '20'}::map(varchar, varchar)"

CASES: list[tuple[str, Any]] = [
    # two values are compared by their meaning
    ("""nullif(parse_json('{"a": 1}'), parse_json('{"a": 1.0}'))""", None),
    ("nullif(object_construct('a', 1), object_construct('a', 1))", None),
    ("nullif(object_construct('a', 1), object_construct('a', 2))", '{"a":1}'),
    ("nullif(array_construct(1), array_construct(2))", "[1]"),
    # access by constant paths
    (f"{DOCUMENT}:a.b[1]", "2.5"),
    (f"{DOCUMENT}:a.b[1]::int", Decimal(3)),
    (f"{DOCUMENT}:a.b[1]::number(9, 2)", Decimal("2.50")),
    (f"{DOCUMENT}:a.b[9]", None),
    (f"{DOCUMENT}:a:b[0]::varchar", "1"),
    (f"{DOCUMENT}['x y']::boolean", True),
    (f'{DOCUMENT}:"x y"', "true"),
    (f"{DOCUMENT}:A", None),
    (f"{DOCUMENT}:n", '"5"'),
    (f"{DOCUMENT}:n::varchar", "5"),
    (f"{DOCUMENT}:n::int + 1", Decimal(6)),
    (f"{DOCUMENT}:D", "1.912000000000000e+02"),
    (f"{DOCUMENT}:D::float", 191.2),
    (f"{DOCUMENT}:D::varchar", "191.2"),
    (f"{DOCUMENT}:a.b[2].c", "null"),
    (f"{DOCUMENT}:a.b[2].c::varchar", None),
    (f"get({DOCUMENT}, 'a'):b[0]", "1"),
    (f"get_path({DOCUMENT}, 'a.b[0]')", "1"),
    (f"get_path({DOCUMENT}, '[\"x y\"]')", "true"),
    ("array_construct(10, 20)[-1]", None),
    ("array_generate_range(5, 0, -2)", "[5,3,1]"),
    ("array_generate_range(0, 5, -2)", "[]"),
    ("array_construct(10, 20)[1 + 0]", "20"),
    ("object_construct('a', 1)[lower('A')]", "1"),
    ("get_ignore_case(parse_json('{\"aA\": 1, \"AA\": 2}'), 'aa')", "2"),
    # SQL NULL and JSON null
    ("parse_json('null')", "null"),
    ("parse_json(null)", None),
    ("parse_json('  ')", None),
    ("is_null_value(parse_json('null'))", True),
    ("is_null_value(parse_json('{}'):a)", None),
    ("strip_null_value(parse_json('null'))", None),
    ("parse_json('null') is null", False),
    ("array_construct(1, null, parse_json('null'))", "[1,undefined,null]"),
    ("object_construct('a', null, 'b', parse_json('null'))", '{"b":null}'),
    ("object_construct_keep_null('a', null)", '{"a":null}'),
    # what PARSE_JSON takes
    ("parse_json('[1, , 2]')", "[1,undefined,2]"),
    ("parse_json('[1,]')", "[1,undefined]"),
    ("parse_json('{a: 1, ''b'': \"x\"}')", '{"a":1,"b":"x"}'),
    ('parse_json(\'{"b": 1, "a": 2}\')', '{"a":2,"b":1}'),
    ("parse_json('{\"a\": 1, \"a\": 2}', 'd')", '{"a":2}'),
    ('try_parse_json(\'{"a": 1, "a": 2}\')', None),
    ("try_parse_json('{')", None),
    ("parse_json('12345678901234567890123.5')", "12345678901234567890123.5"),
    ("parse_json('12345678901234567890')", "12345678901234567890"),
    ("parse_json('1.10')", "1.1"),
    ("check_json('{\"a\": 1}')", None),
    # types
    ("typeof(parse_json('1.5'))", "DECIMAL"),
    ("typeof(1::variant)", "INTEGER"),
    ("typeof(1e0::variant)", "DOUBLE"),
    ("typeof('1'::variant)", "VARCHAR"),
    ("typeof(to_variant('2024-02-03'::date))", "DATE"),
    ("typeof(to_variant('2024-02-03 04:05:06'::timestamp_ntz))", "TIMESTAMP_NTZ"),
    ("typeof(to_variant(to_binary('F0')))", "BINARY"),
    ("typeof(parse_json('null'))", "NULL_VALUE"),
    ("typeof(array_construct(1))", "ARRAY"),
    ("to_variant('2024-02-03'::date)::date", DATE(2024, 2, 3)),
    ("to_variant('2024-02-03'::date)", '"2024-02-03"'),
    ("array_construct('2024-02-03'::date)[0]::date + 1", DATE(2024, 2, 4)),
    ("to_variant(to_binary('F0A5'))::binary", b"\xf0\xa5"),
    ("as_integer(parse_json('\"1\"'))", None),
    ("as_double(parse_json('1'))", 1.0),
    ("is_decimal(parse_json('1')) and not is_integer(parse_json('1.5'))", True),
    ("parse_json('0')::boolean", False),
    ("parse_json('true')::int", Decimal(1)),
    ("parse_json('{\"a\": 1}')::varchar", '{"a":1}'),
    ("to_json(array_construct('a', 1))", '["a",1]'),
    ("array_construct('\"', '\\\\', 'ä')::varchar", '["\\"","\\\\","ä"]'),
    # comparison
    ("parse_json('1') = 1", True),
    ("parse_json('5.5') > 5", True),
    ("parse_json('\"a\"') = 'a'", True),
    ("parse_json('1') = 1e0::variant", True),
    ('parse_json(\'{"a": 1, "b": 2}\') = parse_json(\'{"b": 2.0, "a": 1}\')', True),
    ("array_construct(1, 2) = array_construct(1, 2)", True),
    ("[[1], 2] = [[1, 2]]", False),
    ("to_variant(10) > to_variant(9)", True),
    ("parse_json('2') + 1", 3.0),
    ("coalesce(parse_json('{}'):a, 'x')", '"x"'),
    # arrays
    ("array_size(parse_json('[1, 2]'))", 2),
    ("array_size(parse_json('{}'))", None),
    ("array_append(array_construct(1), null)", "[1,undefined]"),
    ("array_prepend(array_construct(1), 'a')", '["a",1]'),
    ("array_cat([1], [2])", "[1,2]"),
    ("array_compact([1, null, 2])", "[1,2]"),
    ("array_contains(2::variant, [1, 2])", True),
    ("array_contains(3::variant, [1, null])", False),
    ("array_contains(null, [1])", None),
    ("array_contains(null, [1, null])", True),
    ("array_distinct([2, 1, 2.0, null, null])", "[2,1,undefined]"),
    ("array_except([1, 1, 2], [1])", "[1,2]"),
    ("array_intersection([1, 1, 2], [1, 1, 3])", "[1,1]"),
    ("array_flatten([[1], [2, [3]]])", "[1,2,[3]]"),
    ("array_flatten([[1], null])", None),
    ("array_generate_range(5, 1, -2)", "[5,3]"),
    ("array_insert([1], 3, 'x')", '[1,undefined,undefined,"x"]'),
    ("array_insert([1, 2], -1, 'x')", '[1,"x",2]'),
    ("array_max([3, null, 20])", "20"),
    ("array_min(['b', 'a'])", '"a"'),
    ("array_position('b'::variant, ['a', 'b'])", 1),
    ("array_remove([1, 5.00, '5', 5e0], 5)", '[1,"5"]'),
    ("array_remove_at([1, 2, 3], -1)", "[1,2]"),
    ("array_reverse([1, 2])", "[2,1]"),
    ("array_slice([0, 1, 2, 3], 1, -1)", "[1,2]"),
    ("array_sort([3, null, 10, 2])", "[2,3,10,undefined]"),
    ("array_sort([3, null, 10], false)", "[undefined,10,3]"),
    ("array_sort([3, null], true, true)", "[undefined,3]"),
    ("array_to_string(['a', null, 1.50], '-')", "a--1.5"),
    ("arrays_overlap([1, 2], [2])", True),
    ("arrays_to_object(['a', 'b'], [1, null])", '{"a":1,"b":null}'),
    ("arrays_zip([1, 2], ['x'])", '[{"$1":1,"$2":"x"},{"$1":2,"$2":null}]'),
    ("split('a,b', ',')", '["a","b"]'),
    ("strtok_to_array('a b-c', ' -')", '["a","b","c"]'),
    ("array_construct_compact(1, null)", "[1]"),
    ("to_array('x')", '["x"]'),
    # matches, URLs and addresses
    ("regexp_substr_all('a1_a2a3', 'a[0-9]')", '["a1","a2","a3"]'),
    ("regexp_substr_all('a1_a2a3', 'a([0-9])', 2, 1, 'e')", '["2","3"]'),
    ("regexp_substr_all('a', 'b')", "[]"),
    (
        "parse_url('http://USER@h.int:43/P.PHP?a=1#f')",
        '{"fragment":"f","host":"USER@h.int","parameters":{"a":"1"},"path":"P.PHP","port":"43",'
        '"query":"a=1","scheme":"http"}',
    ),
    ("parse_url('mailto:abc@xyz.com'):path::varchar", "abc@xyz.com"),
    ("parse_url('x', 1)", '{"error":"scheme not specified"}'),
    ("parse_ip('192.168.242.188/24', 'INET'):ipv4_range_end::int", Decimal(3232297727)),
    ("parse_ip('fe80::1/64', 'INET'):hex_ipv6_range_end::varchar", "FE80" + "0" * 12 + "F" * 16),
    ("parse_ip('1.2.3', 'INET', 1):error is not null", True),
    # objects
    ("{'b': 1, 'a': [1, 2]}", '{"a":[1,2],"b":1}'),
    ("object_insert({'a': 1}, 'b', 2)", '{"a":1,"b":2}'),
    ("object_insert({'a': 1}, 'a', 2, true)", '{"a":2}'),
    ("object_insert({'a': 1}, 'b', null)", '{"a":1}'),
    ("object_delete({'a': 1, 'b': 2}, 'a', 'c')", '{"b":2}'),
    ("object_pick({'a': 1, 'b': 2}, ['b'])", '{"b":2}'),
    ("object_keys({'b': 1, 'a': 2})", '["a","b"]'),
    ("json_extract_path_text('{\"a\": [1, \"x\"]}', 'a[1]')", "x"),
    # casts to structured types, and MAPs
    ("to_json([1, null, 2.5]::array(int))", "[1,undefined,3]"),
    ("(([1, 2]::array(int))[1] + 1)::varchar", "3"),
    ("to_json([[1], null]::array(array(varchar)))", '[["1"],undefined]'),
    (
        "to_json({'x': '2024-01-02', 'y': [true, null]}::object(x date, y array(boolean)))",
        '{"x":"2024-01-02","y":[true,undefined]}',
    ),
    ("({'x': '2024-01-02'}::object(x date)):x", DATE(2024, 1, 2)),
    ("({'x': 1, 'y': null}::object(x int, y float)::object(x varchar, y int)):x", "1"),
    ("parse_json('null')::array(int)", None),
    ("to_json({'a': 1, 'b': null}::map(varchar, number(5, 1)))", '{"a":1,"b":null}'),
    ("({'1': 'x'}::map(int, varchar))[1]", "x"),
    (
        f"to_json(map_cat({TENS}, {{'map8002': '30', 'map8003': '40'}}::map(varchar, varchar)))",
        '{"map8001":"10","map8002":"30","map8003":"40"}',
    ),
    (f"map_cat(null, {TENS})", None),
    (f"map_cat({TENS}, null)", None),
    (f"map_cat({TENS}, null::map(varchar, varchar))", None),
    (f"to_json(map_delete({ABC}, 'a', 'b', 'z'))", '{"c":3}'),
    (f"to_json(map_pick({ABC}, 'a', 'b', 'z'))", '{"a":1,"b":2}'),
    (f"to_json(map_pick({ABC}, ['a', 'b']))", '{"a":1,"b":2}'),
    (f"to_json(map_insert({ABC}, 'd', 4))", '{"a":1,"b":2,"c":3,"d":4}'),
    (f"to_json(map_insert({ABC}, 'a', 100, true))", '{"a":100,"b":2,"c":3}'),
    (f"to_json(map_insert({ABC}, 'a', null, true))", '{"a":null,"b":2,"c":3}'),
    (f"to_json(map_insert({ABC}, null, 5))", '{"a":1,"b":2,"c":3}'),
    ("to_json(map_delete({'1': 'x', '2': 'y'}::map(int, varchar), 1.6, 2))", '{"1":"x"}'),
    ("to_json(map_pick({'1': 'x', '2': 'y'}::map(int, varchar), 1.6))", "{}"),
    ("to_json(map_pick({'1': 'x', '2': 'y'}::map(int, varchar), [1.6]))", "{}"),
    ("to_json(map_pick({'1': 'x', '2': 'y'}::map(int, varchar), ['2.0', null]))", '{"2":"y"}'),
    ("to_json(map_insert({'1': 'x'}::map(int, varchar), 1.5, 'y'))", '{"1":"x","2":"y"}'),
    ("to_json(map_insert({'1': 'x'}::map(int, varchar), '3', 'y'))", '{"1":"x","3":"y"}'),
]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_an_expression_has_its_documented_value(expression: str, expected: Any) -> None:
    value = compact(sql_text.value(expression))
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        ("parse_json('\"abc\"')::int", "100071", 'Failed to cast variant value "abc" to FIXED'),
        ("parse_json('[1]')::int", "100071", "Failed to cast variant value [1] to FIXED"),
        ("parse_json('{a')", "100069", "Error parsing JSON"),
        (
            'parse_json(\'{"a": 1, "a": 2}\')',
            "100069",
            'Error parsing JSON: duplicate object attribute "a"',
        ),
        (
            'parse_json(\'{"a": 1, "a": NaN}\')',
            "100069",
            'Error parsing JSON: duplicate object attribute "a"',
        ),
        ("parse_url('x')", "100139", "Error parsing URL: scheme not specified"),
        ("parse_ip('x', 'INET')", "100139", "Error parsing IP"),
        ("object_insert({'a': 1}, 'a', 2)", "100104", "Duplicate field key 'a'"),
        (f"map_insert({ABC}, 'a', 2)", "100104", "Duplicate field key 'a'"),
        ("[1, 'x']::array(int)", "100071", 'Failed to cast variant value "x" to FIXED'),
        ("{'x': 1}::object(x int, y int)", "100071", 'value {"x":1} to OBJECT(x, y)'),
        ("{'x': 1, 'z': 2}::object(x int)", "100071", "to OBJECT(x)"),
        ("parse_json('1')::map(varchar, int)", "100071", "value 1 to MAP"),
        ("{'1': 1, '01': 2, '5': 3}::map(int, int)", "100104", "Duplicate field key '1'"),
        ("map_insert({'1': 'x'}::map(int, varchar), 0.9, 'y')", "100104", "field key '1'"),
        ("map_insert({'1': 'x'}::map(int, varchar), 'q', 'y')", "100038", "q"),
        ("array_flatten([[1], 2])", "100107", "Not an array"),
        ("array_insert([1], 100000000, 2)", "100039", "100000000"),
        ("array_generate_range(0, 100000000)", "100039", "100000000"),
        (
            "array_generate_range(-9223372036854775807, 9223372036854775807)",
            "100039",
            "18446744073709551614",
        ),
        ("array_construct(repeat('x', 9000000), repeat('y', 9000000))", "100078", "18000007 "),
        ("[repeat('x', 9000000), repeat('y', 9000000)]", "100078", "18000007 "),
        ("parse_json(repeat('[', 2000))", "100069", "Error parsing JSON"),
        (
            "parse_json(repeat('[', 500) || repeat(']', 500))",
            "100069",
            "Error parsing JSON: it is nested too deeply",
        ),
    ],
)
def test_a_bad_value_is_refused_with_its_number(expression: str, code: str, words: str) -> None:
    with pytest.raises(engine.EngineFault) as caught:
        sql_text.value(expression)
    assert (caught.value.cause, caught.value.code) == ("value", code)
    assert words in caught.value.message


@pytest.mark.parametrize(
    "expression",
    [
        "greatest(to_variant(9), to_variant(10))",
        "least_ignore_nulls([1], [2])",
        "try_cast(parse_json('1') as int)",
        "array_size(1)",
        "is_array(1)",
        "1:a",
        "{'a': 1} + 1",
        "'[1]'::array(int)",
        "[1]::map(varchar, int)",
        "[1]::array(varchar(3))",
        "[1]::array(variant)",
        "{'a': 1}::object(a int not null)",
        "{'a': 1}::map(float, int)",
        "try_cast('[1]' as array(int))",
        "map_cat({'a': 1}, {'b': 2})",
    ],
)
def test_a_value_of_another_type_is_refused(expression: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        sql_text.bind(f"select {expression}")
    assert caught.value.code in ("001065", "001044", "001003", "000002")


def test_a_value_is_shown_indented_with_its_members_in_order() -> None:
    assert sql_text.value("object_construct('b', [1, null], 'a', {})") == (
        '{\n  "a": {},\n  "b": [\n    1,\n    undefined\n  ]\n}'
    )


def test_a_path_with_its_cast_is_one_kernel() -> None:
    bound, _ = sql_text.bind("select v:a.b[0]::int from (select parse_json('{}') as v) as t")
    assert [name for name in bound.functions if name != "_v_parse_json"] == ["_v_to_fixed_38_0"]


def rows(text: str) -> list[tuple[Any, ...]]:
    return [tuple(compact(cell) for cell in row) for row in sql_text.answer(text).rows]


def test_values_are_ordered_by_type_and_size_and_not_by_their_text() -> None:
    listed = "values ([3]), ([20]), (['a']), ([1, 2]), ([]), (parse_json('null')::array)"
    assert rows(f"select column1 from {listed} order by 1") == [
        ("[]",),
        ("[1,2]",),
        ("[3]",),
        ("[20]",),
        ('["a"]',),
        (None,),
    ]
    numbers = "select column1 as v from values (10::variant), (9), (-1), (-20), (1e2::variant)"
    assert rows(f"select v from ({numbers}) order by v desc") == [
        ("1.000000000000000e+02",),
        ("10",),
        ("9",),
        ("-1",),
        ("-20",),
    ]
    assert rows(f"select min(v), max(v) from ({numbers})") == [("-20", "1.000000000000000e+02")]


def test_groups_are_of_equal_values() -> None:
    listed = 'values (parse_json(\'{"a":1,"b":2}\')), (parse_json(\'{"b":2, "a":1.0}\'))'
    assert rows(f"select column1, count(*) from {listed} group by column1") == [
        ('{"a":1,"b":2}', 2)
    ]


def test_aggregates_collect_values_without_nulls() -> None:
    table = "values (1, 'b'), (1, 'a'), (1, null), (2, null)"
    assert rows(
        "select column1, array_agg(column2) within group (order by column2), "
        f"array_agg(distinct column1) from {table} group by column1 order by column1"
    ) == [(1, '["a","b"]', "[1]"), (2, "[]", "[2]")]
    assert rows(
        "select array_agg(distinct column1) within group (order by column1 desc) "
        "from values (9), (10), (9)"
    ) == [("[10,9]",)]
    assert rows("select object_agg(column2, column1) from values (1, 'b'), (2, 'a')") == [
        ('{"a":2,"b":1}',)
    ]
    assert rows("select array_agg(column1) from values (1) where false") == [("[]",)]
    assert rows(
        "select array_agg(column1) over (order by column1 rows between 1 preceding and current "
        "row) from values (1), (2), (3)"
    ) == [("[1]",), ("[1,2]",), ("[2,3]",)]


def test_an_array_of_a_group_is_no_longer_than_a_value_can_be() -> None:
    with pytest.raises(engine.EngineFault) as caught:
        rows("select array_agg(repeat('x', 9000000)) from (values (1), (2)) t(n)")
    assert (caught.value.cause, caught.value.code) == ("value", "100078")


def test_the_texts_of_one_batch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEATED_BYTES_MAX", 10)
    texts = pa.array(['"1234"', None, '"5678"'])
    to_json = kernels.kernel("_v_to_json", zone="UTC")
    assert len(to_json.function(texts[:2])) == 2
    with pytest.raises(ValueError, match="Resources exhausted"):
        to_json.function(texts)
    random_text = kernels.kernel("_randstr", zone="UTC")
    with pytest.raises(ValueError, match="Resources exhausted"):
        random_text.function(pa.array([6, 6]), pa.array([1, 2]))


def test_a_function_without_memory_ends_its_query_as_one() -> None:
    fault = engine_datafusion.fault_of(Exception("PyErr { type: <class 'MemoryError'>, value"))
    assert fault.cause == "resources"


def test_the_greatest_key_is_one_by_size() -> None:
    table = "values ('a', 9::variant), ('b', 10), ('c', null)"
    assert rows(f"select max_by(column1, column2), min_by(column1, column2) from {table}") == [
        ("b", "a")
    ]


def test_mode_is_the_most_frequent_value() -> None:
    table = "values (1, 1.5), (1, 2.5), (1, 2.5), (2, null)"
    assert rows(f"select column1, mode(column2) from {table} group by 1 order by 1") == [
        (1, Decimal("2.5")),
        (2, None),
    ]


def test_count_leaves_out_json_null() -> None:
    assert rows(
        "select count(column1:a), count(column1) from values (parse_json('{\"a\": null}')), "
        "(parse_json('{\"a\": 1}')), (parse_json('{}'))"
    ) == [(1, 3)]


def test_an_object_of_a_star_has_the_columns_as_members() -> None:
    assert rows("select object_construct(*) from values (1, 'x'), (2, null)") == [
        ('{"COLUMN1":1,"COLUMN2":"x"}',),
        ('{"COLUMN1":2}',),
    ]
    assert rows("select object_construct(* exclude column1) from values (1, 'x')") == [
        ('{"COLUMN2":"x"}',)
    ]


def test_a_float_in_a_value_becomes_a_number_as_another_float_does() -> None:
    rng = random.Random(7)
    floats = [0.5, -0.5, 2.5, 1.005, 2.675, 1e-7, -0.0, 0.49999999999999994, 4503599627370497.5]
    floats += [rng.uniform(-1, 1) * 10.0 ** rng.randint(-6, 12) for _ in range(200)]
    floats += [rng.randrange(10**6) / 1000 + 0.0005 for _ in range(200)]
    tables = {"t": pa.table({"f": pa.array(floats)})}
    for scale in (0, 2, 3, 12):
        number = f"number(38, {scale})"
        rows = sql_text.answer(
            f"select f::{number}, f::variant::{number}, ([f]::array({number}))[0],"
            f" ({{'a': f}}::object(a {number})):a from t",
            tables,
        ).rows
        assert [set(row) for row in rows] == [{row[0]} for row in rows]
    assert str(sql_text.value("1.005::float::variant::number(10, 2)")) == "1.00"
    assert str(sql_text.value("parse_json('1.005')::number(10, 2)")) == "1.01"
