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
        ("ABORT_DETACHED_QUERY", True), ("QUERY_TAG", "x" * 2001),
    ],
)  # fmt: skip
def test_a_value_that_it_cannot_have_is_refused(name: str, text: Any) -> None:
    with pytest.raises(errors.SqlError) as caught:
        parameters.parse(name, text)
    assert caught.value.code == "001008"


def test_unknown_names_are_refused_but_drivers_own_are_sent_back() -> None:
    with pytest.raises(errors.SqlError, match="WEEK_AFTER_NEXT"):
        parameters.parse("week_after_next", 1)
    with pytest.raises(errors.SqlError, match="WEEK_AFTER_NEXT"):
        parameters.from_login({"week_after_next": 1})
    assert parameters.from_login({"client_made_up": True}) == {"CLIENT_MADE_UP": True}
    # JDBC reports how its connection was named; it asks for nothing, and hears nothing back.
    report = "_SNOWFLAKE.INTERNAL.CONNECTIONIDENTIFIERSHAPE"
    assert parameters.from_login({report: "account"}) == {}
    assert parameters.from_statement({"made_up": 1, "query_tag": "x"}) == {"QUERY_TAG": "x"}


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
