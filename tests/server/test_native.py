"""Health, metrics, and the frame of the native API."""

from __future__ import annotations

import base64
import re

import orjson
import pytest

from server import asgi, calls, counters, errors, exchange, native
from server.access import decide, model
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from tests.kit import s3
from tests.server import requesting
from tests.server.requesting import request, run


class Missing(Exception):
    """A fact of a floor above."""


async def load(services, call):
    if call.value["warehouse"] == "absent":
        raise Missing("no such warehouse")
    return asgi.json_response(
        {
            "services": services,
            "warehouse": call.value["warehouse"],
            "table": native.parameters_of(call).get("table"),
            "who": call.principal.name,
            "body": call.body.decode(),
        }
    )


async def whole(services, call):
    return asgi.Response(202, (), b"whole")


def demands(services, call):
    assert services == "the floor's"
    return (model.Demand(action="s3tables:GetTable", resource=call.value["warehouse"]),)


LOADS = "/_api/v1/warehouses/{warehouse}/loads"
FLOOR = native.Floor(
    rows=(
        native.NativeRow(
            method="GET",
            template=LOADS,
            operation=calls.Operation(
                name="load", handler=load, demands=demands, body_bytes_max=100
            ),
            summary="",
        ),
        native.NativeRow(
            method="POST",
            template=LOADS,
            operation=calls.Operation(name="whole", handler=whole, demands=demands),
            summary="",
        ),
    ),
    services="the floor's",
    wire_errors={Missing: (404, "NoSuchWarehouse")},
)


def make():
    return native.NativeFace(counts=counters.Counters(), version="1.2.3", floors=(FLOOR,))


def answer(face, sent):
    """What the exchange would do, without credentials being looked at."""
    caller = requesting.verifier(open_to_all=True)
    try:
        return run(_handle(face, sent, caller))
    except Exception as error:  # noqa: BLE001 - as the exchange does
        return face.encode_error(error, sent)


async def _handle(face, sent, verifier):
    call = face.identify(sent)
    call.caller = await verifier.verify(sent, "native")
    if call.operation.body_bytes_max:
        call.body = await sent.read(limit_bytes=call.operation.body_bytes_max)
    return await call.operation.handler(face.services, call)


def test_health_answers_without_credentials():
    face = make()
    operation = face.identify(request(target="/_health")).operation
    assert operation.authentication is exchange.Authentication.NONE
    response = answer(face, request(target="/_health"))
    assert (response.status, orjson.loads(response.body)) == (
        200,
        {"status": "ok", "version": "1.2.3"},
    )


@pytest.mark.parametrize(
    "target", ["/_metrics", "/_api/v1/warehouses/w/loads", "/_api/v1/none", "/_console", "/_x"]
)
def test_nothing_but_health_answers_without_credentials(target):
    face = make()
    operation = face.identify(request(target=target)).operation
    assert operation.authentication is exchange.Authentication.REQUIRED


def test_route_gets_its_labels_parameters_and_caller():
    face = make()
    sent = request(
        target="/_api/v1/warehouses/a%2Fb/loads?table=ns.t&table=other",
        headers=[("host", "localhost:1")],
        body=b"x",
    )
    call = face.identify(sent)
    assert call.operation.demands(face.services, call) == (
        model.Demand(action="s3tables:GetTable", resource="a/b"),
    )
    response = answer(face, sent)
    assert orjson.loads(response.body) == {
        "services": "the floor's",
        "warehouse": "a/b",
        "table": "ns.t",
        "who": "root",
        "body": "x",
    }


def test_handler_may_return_a_whole_answer():
    response = answer(make(), request("POST", "/_api/v1/warehouses/w/loads"))
    assert response == asgi.Response(202, (), b"whole")


@pytest.mark.parametrize(
    ("method", "target", "status", "name"),
    [
        ("GET", "/_api/v1/nothing", 404, "NoSuchRoute"),
        ("GET", "/_api/v1/warehouses//loads", 404, "NoSuchRoute"),
        ("GET", "/_api/v1/warehouses/w/loads/", 404, "NoSuchRoute"),
        ("GET", "/_api/v2/warehouses/w/loads", 404, "NoSuchRoute"),
        ("GET", "/_api", 404, "NoSuchRoute"),
        ("GET", "/_console", 404, "NoSuchRoute"),
        ("DELETE", "/_api/v1/warehouses/w/loads", 405, "MethodNotAllowed"),
        ("POST", "/_health", 405, "MethodNotAllowed"),
        ("PUT", "/_metrics", 405, "MethodNotAllowed"),
        ("GET", "/_api/v1/warehouses/absent/loads", 404, "NoSuchWarehouse"),
    ],
)
def test_what_is_not_there_is_named(method, target, status, name):
    response = answer(make(), request(method, target))
    assert response.status == status
    error = orjson.loads(response.body)["error"]
    assert error["type"] == name
    assert error["request_id"] == "r" * 32


def test_an_unknown_path_names_the_list_of_paths():
    response = answer(make(), request("GET", "/_api/v1/nothing"))
    message = orjson.loads(response.body)["error"]["message"]
    assert "GET /_api/v1/openapi.json" in message


def test_a_request_without_credentials_learns_which_are_accepted(server):
    answered = s3.send(server, "GET", "/_api/v1/openapi.json", {})
    assert answered.status == 401
    message = orjson.loads(answered.body)["error"]["message"]
    assert "curl -u ACCESS_KEY:SECRET_KEY" in message
    pair = base64.b64encode(f"{server.access_key}:{server.secret_key}".encode()).decode()
    answered = s3.send(server, "GET", "/_api/v1/openapi.json", {"authorization": f"Basic {pair}"})
    assert answered.status == 200


def test_wrong_method_lists_those_there_are():
    response = answer(make(), request("DELETE", "/_api/v1/warehouses/w/loads"))
    assert ("allow", "GET, HEAD, POST") in response.headers


def test_every_error_of_the_kit_has_its_status():
    face = make()
    families = (errors.KitError, auth_errors.AuthError, auth_errors.PayloadError)
    unseen = {
        errors.ClientDisconnected,  # never answered
        access_errors.NoSuchAccessKey,  # a fact for the verifier, which raises its own
        access_errors.WrongPassword,
        access_errors.InvalidJWT,
        access_errors.ExpiredJWT,
        access_errors.InvalidPAT,
        access_errors.ExpiredPAT,
        access_errors.CorruptKeys,  # ends the start
    }
    for family in (*families, access_errors.AccessError):
        for error_class in family.__subclasses__():
            if error_class in unseen or not error_class.__module__.startswith("server."):
                continue
            if error_class.__module__.startswith("server.access.principals"):
                continue
            error = error_class("said", allowed=("GET",))
            assert face.encode_error(error, request()).status < 500 or error_class in (
                errors.FaceNotServed,
                errors.ServerBusy,
                access_errors.AuditUnavailable,
            ), error_class


def test_unforeseen_error_tells_nothing():
    response = make().encode_error(RuntimeError("a secret"), request())
    assert response.status == 500
    assert b"a secret" not in response.body


def test_unauthorized_says_what_is_taken():
    response = make().encode_error(auth_errors.MissingCredentials("none"), request())
    assert response.status == 401
    assert response.headers[-1][0] == "www-authenticate"


LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.]+')


def test_metrics_are_prometheus_text():
    counts = counters.Counters()
    counts.record("s3", 200, duration_ns=2_000_000, received_bytes=3, sent_bytes=4)
    counts.record("s3", 404, duration_ns=200_000_000_000, received_bytes=0, sent_bytes=5)
    text = native.format_metrics(counts)
    lines = text.splitlines()
    assert text.endswith("\n")
    for line in lines:
        assert line.startswith(("# HELP boathouse_", "# TYPE boathouse_")) or LINE.fullmatch(line)
    assert 'boathouse_requests_total{face="s3",status="404"} 1' in lines
    assert 'boathouse_request_seconds_bucket{face="s3",le="0.001"} 0' in lines
    assert 'boathouse_request_seconds_bucket{face="s3",le="0.005"} 1' in lines
    assert 'boathouse_request_seconds_bucket{face="s3",le="60"} 1' in lines
    assert 'boathouse_request_seconds_bucket{face="s3",le="+Inf"} 2' in lines
    assert 'boathouse_request_seconds_count{face="s3"} 2' in lines
    assert 'boathouse_request_seconds_sum{face="s3"} 200.002000000' in lines
    assert 'boathouse_sent_bytes_total{face="s3"} 9' in lines


def test_metrics_are_served_to_an_administrator():
    face = make()
    call = face.identify(request(target="/_metrics"))
    assert call.operation.demands(face.services, call) == (native.METRICS_DEMAND,)
    response = answer(face, request(target="/_metrics"))
    assert response.status == 200
    assert response.headers == (("content-type", native.METRICS_TYPE),)


def test_health_says_why_writes_are_refused():
    face = native.NativeFace(
        counts=counters.Counters(), version="1", refuses_writes=lambda: "disk full"
    )

    response = answer(face, request(target="/_health"))

    assert response.status == 200
    assert orjson.loads(response.body) == {"status": "disk full", "version": "1"}


def test_reading_metrics_is_no_write():
    recorded = []
    authoriser = decide.Authoriser(now_ms=lambda: 0, record=lambda *line: recorded.append(line))

    authoriser.check(requesting.people().root, native.METRICS_DEMAND)

    assert recorded == []
