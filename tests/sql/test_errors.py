"""Numbers that clients match."""

from __future__ import annotations

import inspect

import pytest

from sql import errors


@pytest.mark.parametrize(
    ("error", "code", "sqlstate", "part"),
    [
        (errors.syntax_error(2, 7, "x"), "001003", "42000",
         "SQL compilation error:\nsyntax error line 2 at position 7 unexpected 'x'."),
        (errors.empty_statement(), "000900", "42601", "Empty SQL statement"),
        (errors.unsupported("GEOGRAPHY"), "000002", "0A000", "GEOGRAPHY"),
        (errors.does_not_exist("Object", "T"), "002003", "42S02",
         "Object 'T' does not exist or not authorized"),
        (errors.described_does_not_exist("Table", "T"), "002003", "02000",
         "does not exist or not authorized"),
        (errors.show_in_missing_schema(), "002043", "02000",
         "Object does not exist, or operation cannot be performed"),
        (errors.already_exists("Table", "T"), "002002", "42710", "already exists"),
        (errors.invalid_identifier("X"), "000904", "42000", "invalid identifier 'X'"),
        (errors.unknown_function("F"), "002140", "42601", "F"),
        (errors.no_current_database(), "090105", "22000",
         "This session does not have a current database"),
        (errors.no_current_schema(), "090106", "22000", "current schema"),
        (errors.bad_number("x"), "100038", "22018", "x"),
        (errors.bad_timestamp("x"), "100035", "22007", "x"),
        (errors.bad_timestamp("x", "Date"), "100040", "22007", "Date 'x'"),
        (errors.bad_timestamp("x", "Time"), "100108", "22007", "Time 'x'"),
        (errors.ambiguous_column("A"), "002028", "42601", "ambiguous column name 'A'"),
        (errors.division_by_zero(), "100051", "22012", "Division by zero"),
        (errors.too_long("x"), "100078", "22001", "x"),
        (errors.null_into_not_null("A"), "100072", "22000", "A"),
        (errors.canceled(), "000604", "57014", "SQL execution canceled"),
        (errors.timed_out(5), "000630", "57014", "5 second"),
        (errors.result_unknown("q"), "000612", "02000", "q"),
        (errors.result_scan_unknown("q"), "000709", "02000", "q"),
        (errors.information_schema_too_large(), "090030", "22000", "too much data"),
        (errors.internal_error("r"), "000603", "XX000", "r"),
    ],
    ids=lambda value: value.code if isinstance(value, errors.SqlError) else "",
)  # fmt: skip
def test_a_fault_has_the_protocols_numbers(
    error: errors.SqlError, code: str, sqlstate: str, part: str
) -> None:
    assert (error.code, error.sqlstate) == (code, sqlstate)
    assert part in error.message
    assert str(error) == error.message


def test_every_constructor_makes_a_code_that_clients_can_read_as_a_number() -> None:
    constructed = 0
    for name, function in inspect.getmembers(errors, inspect.isfunction):
        if name.startswith("_"):
            continue
        arguments = {
            parameter.name: 1 if parameter.annotation in ("int", "int | None") else "x"
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is inspect.Parameter.empty
        }
        error = function(**arguments)
        assert len(error.code) == 6, name
        assert error.code.isdigit(), name
        assert len(error.sqlstate) == 5, name
        constructed += 1
    assert constructed > 35
