"""Session parameters."""

from __future__ import annotations

from typing import Any

import pytest

from sql import errors, parameters


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("autocommit", "false", False), ("AUTOCOMMIT", True, True), ("AUTOCOMMIT", "1", True),
        ("STATEMENT_TIMEOUT_IN_SECONDS", "5", 5), ("STATEMENT_TIMEOUT_IN_SECONDS", 5, 5),
        ("TIMEZONE", "Europe/Stockholm", "Europe/Stockholm"), ("QUERY_TAG", "x", "x"),
        ("BINARY_OUTPUT_FORMAT", "base64", "BASE64"), ("ROWS_PER_RESULTSET", "10", 10),
        ("client_timestamp_type_mapping", "timestamp_ntz", "TIMESTAMP_NTZ"),
        ("python_connector_query_result_format", "json", "JSON"),
        ("DATE_OUTPUT_FORMAT", "DD.MM.YYYY", "DD.MM.YYYY"),
        ("DATE_INPUT_FORMAT", "dd.mm.yyyy", "dd.mm.yyyy"), ("TIME_INPUT_FORMAT", "auto", "AUTO"),
    ],
)  # fmt: skip
def test_a_value_is_read_by_its_parameters_kind(name: str, text: Any, value: Any) -> None:
    assert parameters.parse(name, text) == value
    assert type(parameters.parse(name, text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AUTOCOMMIT", "maybe"), ("STATEMENT_TIMEOUT_IN_SECONDS", "-1"),
        ("STATEMENT_TIMEOUT_IN_SECONDS", True), ("STATEMENT_TIMEOUT_IN_SECONDS", "9" * 20),
        ("CLIENT_STAGE_ARRAY_BINDING_THRESHOLD", 1), ("TIMEZONE", "Mars"), ("TIMEZONE", ""),
        ("TIMEZONE", "../../etc/passwd"), ("BINARY_OUTPUT_FORMAT", "OCTAL"),
        ("DATE_OUTPUT_FORMAT", "YYYY TZH"), ("TIME_OUTPUT_FORMAT", "HH24 TZHTZM"),
        ("JSON_INDENT", 17), ("JSON_INDENT", -1),
        ("ABORT_DETACHED_QUERY", "soon"), ("QUERY_TAG", "x" * 2001),
        ("TWO_DIGIT_CENTURY_START", 1899), ("LOCK_TIMEOUT", -1),
    ],
)  # fmt: skip
def test_a_value_that_it_cannot_have_is_refused(name: str, text: Any) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parameters.parse(name, text)
    assert caught.value.code == "001008"


def test_an_input_format_of_unknown_elements_is_refused_by_them() -> None:
    with pytest.raises(errors.SqlError, match="QQ") as caught:
        parameters.parse("DATE_INPUT_FORMAT", "YYYY-QQ")
    assert caught.value.code == "000002"
    with pytest.raises(errors.SqlError) as caught:
        parameters.parse("DATE_INPUT_FORMAT", " ")
    assert caught.value.code == "001008"


def test_unknown_names_are_refused_but_drivers_own_are_sent_back() -> None:
    with pytest.raises(errors.SqlError, match="WEEK_AFTER_NEXT"):
        parameters.parse("week_after_next", 1)
    # Drivers send each option that they do not know; a login is let in, and nothing is kept of it.
    assert parameters.from_login({"week_after_next": 1, "query_tag": "x"}) == {"QUERY_TAG": "x"}
    assert parameters.from_login({"client_made_up": True}) == {"CLIENT_MADE_UP": True}
    # JDBC reports how its connection was named; it asks for nothing, and hears nothing back.
    report = "_SNOWFLAKE.INTERNAL.CONNECTIONIDENTIFIERSHAPE"
    assert parameters.from_login({report: "account"}) == {}
    assert parameters.from_statement({"made_up": 1, "query_tag": "x"}) == {"QUERY_TAG": "x"}


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("BINARY_INPUT_FORMAT", "hex", "BASE64"),
        ("STRICT_JSON_OUTPUT", "false", "true"), ("DEFAULT_NULL_ORDERING", "last", "FIRST"),
        ("TRANSACTION_ABORT_ON_ERROR", False, True),
        ("TRANSACTION_DEFAULT_ISOLATION_LEVEL", "read committed", "SERIALIZABLE"),
        ("STATEMENT_QUEUED_TIMEOUT_IN_SECONDS", 0, 5),
    ],
)  # fmt: skip
def test_a_parameter_whose_default_alone_is_honoured_refuses_others_by_name(
    name: str, own: Any, other: Any
) -> None:
    assert parameters.parse(name, own) == parameters.PARAMETERS[name].default
    assert parameters.from_login({name: own}) == {name: parameters.PARAMETERS[name].default}
    with pytest.raises(errors.SqlError, match=name) as caught:
        parameters.from_login({name: other})
    assert caught.value.code == "000002"


def test_clients_get_every_output_format_and_whatever_was_set() -> None:
    explicit: dict[str, parameters.Value] = {"QUERY_TAG": "x", "TIMEZONE": "Asia/Tokyo"}
    sent = {item["name"]: item["value"] for item in parameters.client_parameters(explicit)}
    types = (
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
        "TIMESTAMP_LTZ",
        "TIMESTAMP_TZ",
        "DATE",
        "TIME",
        "BINARY",
    )
    assert {f"{type_name}_OUTPUT_FORMAT" for type_name in types} <= sent.keys()
    assert (sent["QUERY_TAG"], sent["TIMEZONE"]) == ("x", "Asia/Tokyo")
    assert sent["AUTOCOMMIT"] is True


def test_every_default_is_a_value_that_the_parameter_can_have() -> None:
    for name, parameter in parameters.PARAMETERS.items():
        assert parameters.parse(name, parameter.default) == parameter.default
