"""Functions of text over BINARY, and functions that kernels of their own compute."""

from __future__ import annotations

import datetime
from pathlib import Path

from tests.sql.test_answers import answers


def test_functions_of_text_take_and_return_bytes(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select x'0102' || x'ff', concat(x'01', b) from t": (b"\1\2\xff", b"\1\1\2\3"),
            "select substr(b, 2), substr(b, -2, 1), substr(b, 0, 2), substr(b, 9) from t": (
                b"\2\3", b"\2", b"\1\2", b"",
            ),
            "select left(b, 2), right(b, 1), left(b, 0) from t": (b"\1\2", b"\3", b""),
            "select lpad(b, 5, x'aabb'), rpad(b, 4, x'aa'), lpad(b, 2, x'aa') from t": (
                b"\xaa\xbb\1\2\3", b"\1\2\3\xaa", b"\1\2",
            ),
            # A place is one of bytes: the digits of 0xBC stand in those of 0xABCD.
            "select charindex(x'bc', x'abcd'), position(x'cd' in x'abcd')": (0, 2),
            "select charindex(x'ab', x'abab', 2), charindex(x'ff', b) from t": (2, 0),
            "select substr(null::binary, 1), x'01' || null::binary": (None, None),
            "select lpad(b, 5) from t": "001044",
            "select lpad(b, 5, 'x') from t": "000002",
            "select charindex('x', b) from t": "000002",
        },
        "create table t (b binary)",
        "insert into t values (x'010203')",
    )  # fmt: skip


def test_one_match_of_a_pattern_is_replaced(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            "select regexp_replace('a1b22c333', '[0-9]+', '#', 1, 2)": ("a1b#c333",),
            "select regexp_replace('a1b22', '([0-9])', '<\\\\1\\\\0>', 3)": ("a1b<22><22>",),
            "select regexp_replace('a1b1', '1', '$1', 1, 2)": ("a1b$1",),
            "select regexp_replace('a1', '1', 'x', 1, 5), regexp_replace('aé1', '1', 'x', 3)": (
                "a1",
                "aéx",
            ),
            "select regexp_replace('aaa', 'A', 'b', 2, 2, 'i')": ("aab",),
            "select regexp_replace('aaa', null, 'b', 2)": (None,),
            "select regexp_replace('aaa', '(', 'b', 2)": "100048",
            "select regexp_replace('aaa', 'a', 'b', 0)": "001044",
        },
    )


def test_similar_texts_and_names_that_are_uuids(tmp_path: Path) -> None:
    answers(
        tmp_path,
        {
            # The examples of Winkler's paper of 1990: 0.961, 0.840, 0.813.
            "select jarowinkler_similarity('MARTHA', 'marhta')": (96,),
            "select jarowinkler_similarity('DWAYNE', 'DUANE')": (84,),
            "select jarowinkler_similarity('DIXON', 'DICKSONX')": (81,),
            "select jarowinkler_similarity('', ''), jarowinkler_similarity('', 'a')": (0, 0),
            "select jarowinkler_similarity('x', 'x')": (100,),
            "select jarowinkler_similarity(null, 'a')": (None,),
            "select jarowinkler_similarity(repeat('a', 2000), repeat('b', 2000))": "100078",
            # Of RFC 9562's example of version 5: www.example.com in the namespace of DNS.
            "select uuid_string('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'www.example.com')": (
                "2ed6657d-e927-568b-95e1-2665a8aea6a2",
            ),
            "select uuid_string('x', 'y')": "100038",
            "select uuid_string('x')": "001044",
        },
    )


def test_numbers_of_any_scale_are_moments(tmp_path: Path) -> None:
    def at(*fields: int) -> datetime.datetime:
        return datetime.datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001

    answers(
        tmp_path,
        {
            "select to_timestamp_ntz(40 * 365.25 * 86400 * 1000 + 456, 3)": (
                at(2010, 1, 1, 0, 0, 0, 456000),
            ),
            "select to_timestamp(15000050, 7), to_timestamp(-1000, 9), to_timestamp(-100, 8)": (
                at(1970, 1, 1, 0, 0, 1, 500005),
                at(1969, 12, 31, 23, 59, 59, 999999),
                at(1969, 12, 31, 23, 59, 59, 999999),
            ),
            "select to_timestamp(15000005, 7)": "000002",
            "select to_timestamp(-1, 9)": "000002",
            "select to_timestamp(-1, 8)": "000002",
            "select to_timestamp(1.5, 0), to_timestamp(123, 2)": (
                at(1970, 1, 1, 0, 0, 1, 500000),
                at(1970, 1, 1, 0, 0, 1, 230000),
            ),
            "select to_timestamp(1, 10)": "000002",
        },
    )


def test_count_of_a_tables_star_counts_rows_without_null(tmp_path: Path) -> None:
    rows = "(values (1, null), (2, 3), (null, null)) t(a, b)"
    answers(tmp_path, {f"select count(t.*), count(*) from {rows}": (1, 3)})
