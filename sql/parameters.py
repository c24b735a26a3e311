"""rule: session parameters: names, defaults, parsing of values.

A parameter is listed if Boathouse honours it, if a client reads it, or if Snowflake has it and its
default is what Boathouse does: such a one takes that value alone. LOCK_TIMEOUT and
USE_CACHED_RESULT take any value, because none would change what a statement returns. ALTER SESSION
refuses any other name; a login leaves it out, as Snowflake does.
`CLIENT_PARAMETERS` are sent with a login and with every answer: drivers format values by them.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sql import errors
from sql.dialect import formats

Value = str | int | bool
ValueType = Literal["text", "number", "flag", "zone", "format", "input"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionParameter:
    """One parameter. choices: the only values, upper case; low and high: bounds of a number.

    is_fixed: Boathouse does what the default says, and refuses other values (000002).
    """

    name: str
    value_type: ValueType
    default: Value
    description: str
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = 2_147_483_647
    sent: bool = False
    is_fixed: bool = False


def _fixed(name: str, value_type: ValueType, default: Value, description: str) -> SessionParameter:
    return SessionParameter(
        name=name,
        value_type=value_type,
        default=default,
        description=description,
        is_fixed=True,
    )


def _formats(*names: str) -> tuple[SessionParameter, ...]:
    return tuple(
        SessionParameter(
            name=f"{name}_QUERY_RESULT_FORMAT",
            value_type="text",
            default=default,
            choices=("ARROW", "JSON", "ARROW_FORCE"),
            description="Format in which results reach this driver.",
            sent=True,
        )
        for name, default in ((name, "JSON" if name == "DOTNET" else "ARROW") for name in names)
    )


def _output(name: str, default: str, description: str) -> SessionParameter:
    return SessionParameter(
        name=name, value_type="format", default=default, description=description, sent=True
    )


def _input(name: str, description: str) -> SessionParameter:
    return SessionParameter(
        name=name, value_type="input", default=formats.AUTO, description=description
    )


IGNORE_CASE = "QUOTED_IDENTIFIERS_IGNORE_CASE"
ABORT_DETACHED = "ABORT_DETACHED_QUERY"
JSON_INDENT = "JSON_INDENT"

PARAMETERS: Mapping[str, SessionParameter] = {
    parameter.name: parameter
    for parameter in (
        SessionParameter(
            name="AUTOCOMMIT",
            value_type="flag",
            default=True,
            description="Each statement is its own transaction unless BEGIN opened one.",
            sent=True,
        ),
        SessionParameter(
            name="ERROR_ON_NONDETERMINISTIC_MERGE",
            value_type="flag",
            default=True,
            description="MERGE fails where several rows of its source change one row.",
        ),
        SessionParameter(
            name="ERROR_ON_NONDETERMINISTIC_UPDATE",
            value_type="flag",
            default=False,
            description="UPDATE fails where several joined rows change one row.",
        ),
        SessionParameter(
            name="TIMEZONE",
            value_type="zone",
            default="UTC",
            description="Time zone of TIMESTAMP_LTZ values and of the current time.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_SESSION_KEEP_ALIVE",
            value_type="flag",
            default=False,
            description="Drivers send heartbeats, so that an idle session stays.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_SESSION_KEEP_ALIVE_HEARTBEAT_FREQUENCY",
            value_type="number",
            default=3600,
            low=900,
            high=3600,
            description="Seconds between two heartbeats.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_PREFETCH_THREADS",
            value_type="number",
            default=4,
            low=1,
            high=10,
            description="Threads with which a driver fetches result chunks.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_MEMORY_LIMIT",
            value_type="number",
            default=1536,
            description="MiB that a driver may use for results.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_RESULT_CHUNK_SIZE",
            value_type="number",
            default=160,
            low=16,
            high=160,
            description="Largest size of a result chunk, MiB.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_TELEMETRY_ENABLED",
            value_type="flag",
            default=False,
            description="Drivers send telemetry; Boathouse drops it.",
            sent=True,
        ),
        SessionParameter(
            name="QUERY_CONTEXT_CACHE_SIZE",
            value_type="number",
            default=5,
            description="Entries of a driver's query context cache.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_STAGE_ARRAY_BINDING_THRESHOLD",
            value_type="number",
            default=0,
            description="Bind values from which a driver uses a stage; 0 is never.",
            high=0,
            sent=True,
        ),
        *_formats("PYTHON_CONNECTOR", "JDBC", "GO", "ODBC", "DOTNET"),
        SessionParameter(
            name="QUERY_RESULT_FORMAT",
            value_type="text",
            default="",
            choices=("", "ARROW", "JSON", "ARROW_FORCE"),
            description="Format in which results reach every driver; empty: the driver's own one.",
        ),
        _output(
            "TIMESTAMP_OUTPUT_FORMAT", "YYYY-MM-DD HH24:MI:SS.FF3 TZHTZM", "TIMESTAMP as text."
        ),
        _output(
            "TIMESTAMP_NTZ_OUTPUT_FORMAT", "YYYY-MM-DD HH24:MI:SS.FF3", "TIMESTAMP_NTZ as text."
        ),
        _output("TIMESTAMP_LTZ_OUTPUT_FORMAT", "", "TIMESTAMP_LTZ as text; empty: the common one."),
        _output("TIMESTAMP_TZ_OUTPUT_FORMAT", "", "TIMESTAMP_TZ as text; empty: the common one."),
        _output("DATE_OUTPUT_FORMAT", "YYYY-MM-DD", "DATE as text."),
        _output("TIME_OUTPUT_FORMAT", "HH24:MI:SS", "TIME as text."),
        SessionParameter(
            name="BINARY_OUTPUT_FORMAT",
            value_type="text",
            default="HEX",
            choices=("HEX", "BASE64"),
            description="BINARY as text.",
            sent=True,
        ),
        SessionParameter(
            name=JSON_INDENT,
            value_type="number",
            default=2,
            high=16,
            description="Blanks before each element of a VARIANT in results; 0: one line.",
        ),
        SessionParameter(
            name="TIMESTAMP_TYPE_MAPPING",
            value_type="text",
            default="TIMESTAMP_NTZ",
            choices=("TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIMESTAMP_TZ"),
            description="What TIMESTAMP without a suffix means.",
            sent=True,
        ),
        SessionParameter(
            name="CLIENT_TIMESTAMP_TYPE_MAPPING",
            value_type="text",
            default="TIMESTAMP_LTZ",
            choices=("TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIMESTAMP_TZ"),
            description="The type with which a driver binds a timestamp; sent once it is set.",
        ),
        SessionParameter(
            name="ROWS_PER_RESULTSET",
            value_type="number",
            default=0,
            description="Most rows of the result of a query; 0 is any number.",
        ),
        SessionParameter(
            name="WEEK_START",
            value_type="number",
            default=0,
            high=7,
            description="First day of a week, 1 (Monday) to 7 (Sunday); 0: Monday, days from 0.",
        ),
        SessionParameter(
            name="WEEK_OF_YEAR_POLICY",
            value_type="number",
            default=0,
            high=1,
            description="First week of a year: 0 has four days in it, 1 has January 1.",
        ),
        SessionParameter(
            name="STATEMENT_TIMEOUT_IN_SECONDS",
            value_type="number",
            default=0,
            high=604_800,
            description="Longest time a statement may run; 0 is the server's own limit.",
        ),
        SessionParameter(
            name="MULTI_STATEMENT_COUNT",
            value_type="number",
            default=1,
            high=10_000,
            description="Statements that one request must hold; 0 is any number.",
        ),
        SessionParameter(
            name="QUERY_TAG",
            value_type="text",
            default="",
            description="Free text kept with each statement of the session.",
        ),
        SessionParameter(
            name="USE_CACHED_RESULT",
            value_type="flag",
            default=False,
            description="No result is reused: each statement is computed anew, whatever is set.",
        ),
        SessionParameter(
            name=ABORT_DETACHED,
            value_type="flag",
            default=False,
            description="Statements are cancelled once their client is silent for five minutes.",
        ),
        SessionParameter(
            name=IGNORE_CASE,
            value_type="flag",
            default=False,
            description="Names in double quotes are read in upper case.",
        ),
        SessionParameter(
            name="LOCK_TIMEOUT",
            value_type="number",
            default=43_200,
            description="Seconds to wait for a lock; no statement waits for one.",
        ),
        _input("DATE_INPUT_FORMAT", "How a text becomes a DATE."),
        _input("TIME_INPUT_FORMAT", "How a text becomes a TIME."),
        _input("TIMESTAMP_INPUT_FORMAT", "How a text becomes a TIMESTAMP."),
        _fixed("BINARY_INPUT_FORMAT", "text", "HEX", "How a text becomes a BINARY."),
        _fixed("CSV_TIMESTAMP_FORMAT", "text", "", "TIMESTAMP in unloaded CSV files."),
        _fixed("DEFAULT_NULL_ORDERING", "text", "LAST", "Where ORDER BY has NULLs."),
        _fixed("STATEMENT_QUEUED_TIMEOUT_IN_SECONDS", "number", 0, "Longest wait; 0 is any."),
        _fixed("FEATURE_INTERVAL_TYPES", "text", "ENABLED", "Whether there are INTERVAL types."),
        _fixed("STRICT_JSON_OUTPUT", "flag", False, "Whether JSON output follows its standard."),
        _fixed(
            "TIMESTAMP_DAY_IS_ALWAYS_24H", "flag", False, "Whether a day of DATEADD is 24 hours."
        ),
        _fixed("TRANSACTION_ABORT_ON_ERROR", "flag", False, "Whether an error ends a transaction."),
        _fixed(
            "TRANSACTION_DEFAULT_ISOLATION_LEVEL",
            "text",
            "READ COMMITTED",
            "What the statements of a transaction see.",
        ),
        SessionParameter(
            name="TWO_DIGIT_CENTURY_START",
            value_type="number",
            default=1970,
            low=1900,
            high=2100,
            description="The first of the hundred years that YY in a format can mean.",
        ),
    )
}

ROWS_MAX = "ROWS_PER_RESULTSET"

CLIENT_PARAMETERS = tuple(parameter.name for parameter in PARAMETERS.values() if parameter.sent)

ABOUT_THE_CLIENT = (
    "CLIENT_",
    "PYTHON_",
    "JDBC_",
    "GO_",
    "ODBC_",
    "DOTNET_",
    "NODEJS_",
    "PYTHON",
    "JS_",
)
"""Prefixes of parameters that drivers set for themselves at login and only want to hear again."""


def parse(name: str, value: object) -> Value:
    """Return value as the parameter name holds it.

    value: JSON's or SQL's own type, or text. Raises SqlError 001006 for an unknown name, 001008 for
    a value that the parameter cannot have, 000002 for one that Boathouse does not honour.
    """
    parameter = PARAMETERS.get(name.upper())
    if parameter is None:
        raise errors.unknown_parameter(name.upper())
    parsed = _parsed(parameter, value)
    if parameter.is_fixed:
        text = str(parsed).upper()
        if text != str(parameter.default).upper():
            raise errors.unsupported(f"{parameter.name} = {text[:40]}")
        return parameter.default
    return parsed


def _parsed(parameter: SessionParameter, value: object) -> Value:
    match parameter.value_type:
        case "flag":
            return _flag(parameter, value)
        case "number":
            return _number(parameter, value)
        case "zone":
            return _zone(parameter, value)
        case "input":
            return _model(parameter, value)
        case "format":
            model = str(_text(parameter, value))
            if parameter.name in WITHOUT_OFFSET and formats.has_offset(model):
                raise errors.invalid_parameter(parameter.name, "its type has no offset (TZH)")
            return model
        case "text":
            return _text(parameter, value)


WITHOUT_OFFSET = frozenset({"DATE_OUTPUT_FORMAT", "TIME_OUTPUT_FORMAT"})
"""Output formats of types whose values have no offset from UTC."""


def effective(explicit: Mapping[str, Value], name: str) -> Value:
    """Return the value in force: the one that was set, else the default."""
    return explicit.get(name, PARAMETERS[name].default)


def client_parameters(explicit: Mapping[str, Value]) -> list[dict[str, Value]]:
    """Return `parameters` as a login and each answer carry them: the usual ones, and those set."""
    names = [*CLIENT_PARAMETERS, *(name for name in explicit if name not in CLIENT_PARAMETERS)]
    return [
        {"name": name, "value": explicit[name] if name in explicit else PARAMETERS[name].default}
        for name in names
    ]


def from_login(raw: Mapping[str, Any]) -> dict[str, Value]:
    """Return SESSION_PARAMETERS of a login, names in upper case.

    Drivers also send their own settings (`CLIENT_...`), which only they read: those are
    stored and sent back. Any other unknown name is left out: drivers send every option of a
    connection that they do not know themselves, and Snowflake lets such a login in.
    """
    values: dict[str, Value] = {}
    for name, value in raw.items():
        upper = str(name).upper()
        if upper in PARAMETERS:
            values[upper] = parse(upper, value)
        elif upper.startswith(ABOUT_THE_CLIENT) and isinstance(value, str | int | bool):
            values[upper] = value
    return values


def from_statement(raw: Mapping[str, Any]) -> dict[str, Value]:
    """Return `parameters` of one query request; names that are not used here are left out."""
    return {
        name.upper(): parse(name, value)
        for name, value in raw.items()
        if name.upper() in PARAMETERS and value is not None
    }


def _flag(parameter: SessionParameter, value: object) -> bool:
    text = str(value).strip().lower()
    flag = text in ("true", "1", "on")
    if not flag and text not in ("false", "0", "off"):
        raise errors.invalid_parameter(parameter.name, value)
    return flag


def _number(parameter: SessionParameter, value: object) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or len(text) > 12:
        raise errors.invalid_parameter(parameter.name, value)
    if not parameter.low <= int(text) <= parameter.high:
        raise errors.invalid_parameter(parameter.name, value)
    return int(text)


def _zone(parameter: SessionParameter, value: object) -> str:
    try:
        return zoneinfo.ZoneInfo(str(value)).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise errors.invalid_parameter(parameter.name, value) from None


def _text(parameter: SessionParameter, value: object) -> str:
    text = str(value)
    if len(text) > 2_000:
        raise errors.invalid_parameter(parameter.name, text[:40])
    if parameter.choices:
        if text.upper() not in parameter.choices:
            raise errors.invalid_parameter(parameter.name, text)
        return text.upper()
    return text


def _model(parameter: SessionParameter, value: object) -> str:
    """Return the model by which texts are read. Raises SqlError 000002 for an unknown element."""
    model = _text(parameter, value)
    if model.upper() == formats.AUTO:
        return formats.AUTO
    if not model.strip():
        raise errors.invalid_parameter(parameter.name, model)
    formats.strptime_pattern(model)
    return model
