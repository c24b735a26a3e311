"""Bodies, without a server."""

from __future__ import annotations

import gzip

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql import errors, limits, sessions
from sql.rest import refusals, wire
from tests.kit import examples
from tests.sql import test_sessions

SESSION = sessions.Session(id=1, principal=test_sessions.ALICE, client_app_id="PythonConnector")


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ('Snowflake Token="abc"', "abc"), ('snowflake token="a=b=="', "a=b=="),
        ("Snowflake Token=abc", "abc"), ('Snowflake Token="None"', None), (None, None),
        ('Snowflake Token=""', None), ("Bearer abc", None), ("Snowflake abc", None), ("", None),
        ('Basic Token="abc"', None),
    ],
)  # fmt: skip
def test_the_token_stands_in_its_own_scheme(header: str | None, token: str | None) -> None:
    assert wire.session_token(header) == token


@pytest.mark.parametrize(
    ("client", "settings_given", "session_given", "expected"),
    [
        ("PythonConnector", {}, {}, "arrow"),
        ("JavaScript", {}, {}, "json"),
        (".NET", {}, {}, "json"),
        ("Go", {}, {}, "arrow"),
        ("Go", {"GO_QUERY_RESULT_FORMAT": "JSON"}, {}, "json"),
        ("Go", {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}, {}, "arrow"),
        ("JDBC", {}, {"JDBC_QUERY_RESULT_FORMAT": "JSON"}, "json"),
        ("PythonConnector", {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "ARROW"},
         {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}, "arrow"),
        ("PythonConnector", {}, {"QUERY_RESULT_FORMAT": "JSON"}, "json"),
        ("PythonConnector", {"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "ARROW"},
         {"QUERY_RESULT_FORMAT": "JSON"}, "arrow"),
        ("Go", {"QUERY_RESULT_FORMAT": "JSON"}, {}, "json"),
        ("", {}, {}, "arrow"),
    ],
)  # fmt: skip
def test_the_format_follows_the_client_and_its_parameter(
    client: str,
    settings_given: dict[str, str],
    session_given: dict[str, str],
    expected: str,
) -> None:
    session = sessions.Session(
        id=1,
        principal=test_sessions.ALICE,
        client_app_id=client,
        parameters=dict(session_given),
    )
    assert wire.select_format(session, settings_given) == expected


@pytest.mark.parametrize(
    ("size", "accepted", "address", "expected"),
    [
        (10_000, "gzip", "192.0.2.1", True), (10_000, "br, gzip;q=0.5", "192.0.2.1", True),
        (10_000, "*", "192.0.2.1", True), (10_000, "identity", "192.0.2.1", False),
        (10_000, None, "192.0.2.1", False), (100, "gzip", "192.0.2.1", False),
        (10_000, "gzip", "127.0.0.1", False), (10_000, "gzip", "::1", False),
        (10_000, "gzip", "", True),
    ],
)  # fmt: skip
def test_only_far_clients_get_large_answers_compressed(
    size: int, accepted: str | None, address: str, expected: bool
) -> None:
    assert wire.should_compress(size, accepted, address) is expected


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([None, "gzip", "identity", "br", ""]))
def test_any_body_inflates_or_is_malformed(body: bytes, encoding: str | None) -> None:
    try:
        plain = wire.inflate(body, encoding, limit_bytes=1000)
    except errors.MalformedBody:
        plain = b""
    assert len(plain) <= 1000


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=3000))
def test_what_was_gzipped_comes_back_or_is_too_long(plain: bytes) -> None:
    packed = gzip.compress(plain)
    if len(plain) <= 1000:
        assert wire.inflate(packed, "gzip", limit_bytes=1000) == plain
    else:
        with pytest.raises(errors.MalformedBody):
            wire.inflate(packed, "gzip", limit_bytes=1000)


def test_one_byte_beyond_the_bound_is_too_long() -> None:
    with pytest.raises(errors.MalformedBody, match="longer than 1000 bytes"):
        wire.inflate(gzip.compress(b"x" * 1001), "gzip", limit_bytes=1000)
    assert len(wire.inflate(gzip.compress(b"x" * 1000), "gzip", limit_bytes=1000)) == 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["sqlText", "bindings", "parameters", "describeOnly", "asyncExec", "bindStage", "data",
     "LOGIN_NAME", "SESSION_PARAMETERS", "AUTHENTICATOR", "requestId"]
)  # fmt: skip


@examples.at_most(300)
@given(st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON), max_size=5))
def test_any_json_is_a_request_or_one_of_our_faults(body: dict[str, object]) -> None:
    try:
        data = orjson.dumps(body)
    except TypeError:
        return
    for parse in (wire.parse_login, wire.parse_abort):
        with _our_faults():
            parse(data)
    with _our_faults():
        wire.submission(wire.parse_query(data), "r", SESSION)


class _our_faults:  # noqa: N801 - reads as a statement
    """Lets nothing through but the two faults that a body can be."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, error_type: type | None, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, errors.MalformedBody | errors.SqlError)


def test_a_fault_always_fills_its_data() -> None:
    answer = refusals.fault_answer(errors.syntax_error(3, 4, "x"), "q")
    assert answer["code"] == "001003"
    assert answer["data"]["errorCode"] == "001003"
    assert answer["data"]["sqlState"] == "42000"
    assert (answer["data"]["line"], answer["data"]["pos"]) == (3, 4)
    assert answer["data"]["type"] == "COMPILATION"
    assert answer["data"]["queryId"] == "q"
    refusal = refusals.refusal_answer(errors.login_refused())
    assert refusal["data"]["errorCode"] == refusal["code"] == "390100"
    assert refusal["data"]["sqlState"] == "28000"


def test_a_text_beyond_the_bound_is_refused() -> None:
    body = b'{"sqlText": "' + b"x" * (limits.TEXT_LENGTH_MAX + 1) + b'"}'
    with pytest.raises(errors.SqlError) as caught:
        wire.submission(wire.parse_query(body), "r", SESSION)
    assert caught.value.code == "000625"


def test_a_large_body_is_read_in_parts_to_the_same_request() -> None:
    binds = {
        str(n): {"type": "TEXT", "value": [f"v{n}-{row}" for row in range(50)]} for n in range(200)
    }
    document = {
        "sqlText": "insert into t values (?) -- \u00fc\u20ac",
        "bindings": binds,
        "parameters": {"QUERY_TAG": "x"},
        "asyncExec": True,
    }
    body = orjson.dumps(document)
    assert len(body) > limits.QUERY_BODY_HERE_BYTES_MAX
    request = wire.parse_query(body)
    assert request.text == document["sqlText"]
    assert request.raw_bindings == binds
    assert request.raw_parameters == {"QUERY_TAG": "x"}
    assert request.is_async


@pytest.mark.parametrize(
    "body",
    [
        b"[%s]",
        b'{"sqlText": "%s"',
        b'{"sqlText": ["%s"]}',
        b'{"bindings": ["%s"]}',
        b'{"bindings": {"1": {"%s}}',
        b'{"sqlText": "\xff%s"}',
        b'{"parameters": "%s"}',
    ],
)
def test_a_large_body_that_is_none_is_malformed(body: bytes) -> None:
    with pytest.raises(errors.MalformedBody):
        wire.parse_query(body % (b"x" * limits.QUERY_BODY_HERE_BYTES_MAX))


def test_more_binds_than_a_request_may_have_are_refused_before_they_are_read() -> None:
    binds = {str(n): {"type": "FIXED", "value": "1"} for n in range(limits.BINDS_MAX + 1)}
    with pytest.raises(errors.SqlError) as caught:
        wire.parse_query(orjson.dumps({"bindings": binds}))
    assert caught.value.code == "002049"


def test_large_binds_stay_text_beside_a_request_that_is_read() -> None:
    binds = {"1": {"type": "TEXT", "value": ["x" * 100] * (limits.BINDS_THREAD_BYTES_MAX // 100)}}
    request = wire.parse_query(orjson.dumps({"sqlText": "insert", "bindings": binds}))
    assert request.text == "insert"
    assert request.raw_bindings is None
    assert orjson.loads(request.large_bindings or b"") == binds


@pytest.mark.parametrize("name", ["sqlText", "parameters", "asyncExec", "unknown"])
def test_a_member_of_very_many_lists_is_not_decoded(name: str) -> None:
    body = b'{"%s": [%s[]], "sqlText": "select 1"}' % (name.encode(), b"[]," * 1_000_000)
    if name == "parameters":
        with pytest.raises(errors.MalformedBody):
            wire.parse_query(body)
    else:
        request = wire.parse_query(body)
        assert (request.text, request.is_async) == ("select 1", False)
