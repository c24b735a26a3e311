"""Which operation a request is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.rest import routes


@pytest.mark.parametrize(
    ("method", "path", "pairs", "operation"),
    [
        ("POST", "session/v1/login-request", {"databaseName": "d", "roleName": "r", "x": "y"},
         routes.Login(database="d", schema="", warehouse="", role="r")),
        ("POST", "session/token-request", {"requestId": "r"}, routes.Renew()),
        ("POST", "session/heartbeat", {}, routes.Heartbeat()),
        ("POST", "session", {"delete": "true"}, routes.Logout()),
        ("POST", "session", {"delete": "false"}, routes.UnknownRoute()),
        ("POST", "queries/v1/query-request", {"requestId": "r", "request_guid": "g"},
         routes.RunQuery(request_id="r")),
        ("POST", "queries/v1/abort-request", {}, routes.AbortRequest()),
        ("POST", "queries/q/abort-request", {}, routes.AbortQuery(query_id="q")),
        ("GET", "queries/q/result", {}, routes.FetchResult(query_id="q")),
        ("GET", "monitoring/queries/q", {}, routes.Monitor(query_id="q")),
        ("POST", "telemetry/send", {}, routes.Telemetry()),
        ("POST", "telemetry/send/sessionless", {}, routes.Telemetry()),
        ("GET", "queries/q/chunks/7", {"expires": "9", "signature": "s"},
         routes.FetchChunk(query_id="q", index=7, expires_at_ms=9, signature="s")),
        ("GET", "queries/q/chunks/-1", {"expires": "9"}, routes.UnknownRoute()),
        ("GET", "queries/q/chunks/1", {}, routes.UnknownRoute()),
        ("GET", "queries/q/chunks/1", {"expires": "9" * 40}, routes.UnknownRoute()),
        ("GET", "queries/v1/query-request", {}, routes.UnknownRoute()),
        ("PUT", "session", {"delete": "true"}, routes.UnknownRoute()),
        ("POST", "session/authenticator-request", {}, routes.UnknownRoute()),
        ("GET", "queries", {}, routes.UnknownRoute()),
    ],
)  # fmt: skip
def test_a_request_is_one_operation(
    method: str, path: str, pairs: dict[str, str], operation: routes.Operation
) -> None:
    assert routes.identify(method, path.split("/"), list(pairs.items())) == operation


def test_the_first_of_two_values_counts() -> None:
    pairs = [("requestId", "first"), ("requestId", "second")]
    operation = routes.identify("POST", ["queries", "v1", "query-request"], pairs)
    assert operation == routes.RunQuery(request_id="first")


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["GET", "POST", "PUT", "HEAD"]),
    st.lists(st.sampled_from(["session", "v1", "queries", "chunks", "", "é", "1"]), max_size=5),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3),
)
def test_any_request_is_some_operation(
    method: str, segments: list[str], pairs: list[tuple[str, str]]
) -> None:
    assert isinstance(routes.identify(method, segments, pairs), routes.Operation)
