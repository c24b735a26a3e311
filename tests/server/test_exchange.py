"""One way for every request: the order of the steps, who is let in, and what becomes of errors."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import logging
import re
import socket
import threading
import time
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
import uvicorn
from botocore.config import Config

from server import asgi, calls, counters, errors, exchange, limits, pending
from server.access import audit, decide, model
from server.access import errors as access_errors
from server.auth import errors as auth_errors
from server.transport import connection
from storage import disk
from storage import model as storage_model
from tests.kit import waits
from tests.server import requesting
from tests.server.requesting import NOW_MS, receiving, run, signed

WIRE = {
    auth_errors.AuthError: 403,
    access_errors.AccessDenied: 403,
    errors.BodyTooLarge: 413,
    errors.RequestTooLarge: 431,
    errors.MalformedRequest: 400,
    errors.FaceNotServed: 501,
}


class EchoFace:
    """A face whose path says what it does: its operation is its tuple of segments."""

    def __init__(self, name: str = "s3") -> None:
        self.name = name
        self.services = object()
        self.authentication = ""
        self.steps: list[str] = []
        self.answer: Any = None

    def identify(self, request):
        self.steps.append("identify")
        if request.segments[:1] == ("unreadable",):
            raise errors.MalformedRequest("unreadable")
        return self.call(request, request.segments)

    def call(self, request, segments):
        word = self.authentication or (segments[0].upper() if segments else "REQUIRED")
        operation = calls.Operation(
            name="/".join(segments),
            handler=None if segments[-1:] == ("unbuilt",) else self.handle,
            demands=self.demands,
            authentication=exchange.Authentication.__members__.get(
                word.replace("-", "_"), exchange.Authentication.REQUIRED
            ),
            body_bytes_max=4 if segments[-1:] == ("documented",) else calls.NO_BODY,
        )
        return calls.Call(operation, segments, request)

    def refuse_unimplemented(self, operation):
        self.steps.append("refuse")
        return errors.FaceNotServed(f"no {operation.name}", face=self.name)

    def demands(self, services, call):
        assert services is self.services
        self.steps.append("demands")
        return (model.Demand(action="s3:PutObject", resource="arn:aws:s3:::b/k"),)

    async def handle(self, services, call):
        assert services is self.services
        self.steps.append("handle")
        request, operation = call.request, call.value
        if self.answer is not None:
            return self.answer
        match operation[-1:]:
            case ("fails",):
                raise RuntimeError("a secret detail")
            case ("denies",):
                raise access_errors.AccessDenied("no", action="a", resource="r")
            case ("reads",):
                body = await request.read(limit_bytes=1 << 20)
                return asgi.json_response({"read": len(body)})
            case ("documented",):
                return asgi.json_response({"body": call.body.decode()})
        return asgi.json_response(
            {"who": call.principal.name, "path": request.raw_path.decode(), "op": operation}
        )

    def encode_error(self, error, request):
        self.steps.append("encode_error")
        for error_class in type(error).__mro__:
            if error_class in WIRE:
                return asgi.json_response({"error": type(error).__name__}, WIRE[error_class])
        return asgi.json_response({"error": "InternalError"}, 500)


class Log(audit.Audit):
    """An audit log whose lines stay in memory."""

    def __init__(self, tmp_path) -> None:
        super().__init__(folder=tmp_path, disk=disk.Disk(), now_ms=requesting.Clock())

    @property
    def lines(self):
        return [line for log in self._logs.values() for line in log.waiting]


def make(*faces, log=None, clock=None, **settings):
    ids = itertools.count()
    ticks = itertools.count(step=2_000_000)
    return exchange.Exchange(
        faces={face.name: face for face in faces},
        verifier=requesting.verifier(clock),
        authoriser=decide.Authoriser(now_ms=requesting.Clock(), record=log.record if log else None),
        now_ms=requesting.Clock(),
        new_id=lambda: f"{next(ids):032x}",
        monotonic_ns=lambda: next(ticks),
        files=disk.Disk(),
        audit_log=log,
        **settings,
    )


def call(app, method="GET", target="/none", headers=(), body=b"", receive=None):
    """Serve one request; return status, headers and body."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in headers],
        "scheme": "http",
        "client": ("10.1.2.3", 1),
    }
    sent: list[dict] = []

    async def send(message):
        sent.append(message)

    run(app(scope, receive or receiving(body), send))
    if not sent:
        return None
    data = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), data


def call_signed(app, method="GET", target="/required", **more):
    prepared = signed(method, "http://127.0.0.1" + target, **more)
    sent = requesting.as_request(prepared)
    body = prepared.body or b""
    return call(app, method, target, tuple(sent.headers.items()), body)


def test_steps_come_in_order():
    face = EchoFace()
    status, headers, body = call_signed(make(face))
    assert status == 200
    assert face.steps == ["identify", "demands", "handle"]
    assert json.loads(body) == {"who": "root", "path": "/required", "op": ["required"]}
    assert headers[b"x-amz-request-id"] == b"0" * 31 + b"1"
    assert headers[b"server"] == b"Boathouse"
    assert headers[b"date"] == b"Fri, 21 Nov 2025 16:00:00 GMT"


def test_request_ids_differ():
    app = make(EchoFace())
    ids = {call(app)[1][b"x-amz-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_operation_that_needs_no_credential_asks_for_none():
    face = EchoFace()
    status, _, body = call(make(face), target="/none", headers=[("authorization", "AWS4-nonsense")])
    assert status == 200
    assert json.loads(body)["who"] == "anonymous"
    assert "demands" not in face.steps


def test_face_that_authenticates_itself_is_left_to_it():
    face = EchoFace("snowflake")
    headers = [("authorization", 'Snowflake Token="x"')]
    status, _, body = call(make(face), target="/session//v1", headers=headers)
    assert status == 403  # its word here is REQUIRED, and the verifier takes no such token
    face.authentication = "SELF"
    status, _, body = call(make(face), target="/session//v1", headers=headers)
    assert status == 200
    assert json.loads(body)["path"] == "/session/v1"


def test_missing_credential_is_refused_where_one_is_required():
    face = EchoFace()
    status, _, body = call(make(face), target="/required")
    assert (status, json.loads(body)) == (403, {"error": "MissingCredentials"})
    assert "handle" not in face.steps


def test_anonymous_caller_goes_to_the_decision_where_that_is_allowed():
    face = EchoFace()
    status, _, body = call(make(face), target="/signed-or-anonymous")
    assert (status, json.loads(body)) == (403, {"error": "AccessDenied"})
    assert face.steps[-2:] == ["demands", "encode_error"]


def test_wrong_credential_is_refused_also_where_none_is_required():
    status, _, body = call_signed(
        make(EchoFace()), target="/signed-or-anonymous", secret_key="wrong"
    )
    assert (status, json.loads(body)) == (403, {"error": "SignatureDoesNotMatch"})


def test_user_without_policies_can_do_nothing():
    alice = requesting.ALICE
    status, _, body = call_signed(
        make(EchoFace()), access_key=alice.access_key, secret_key=alice.secret_key
    )
    assert (status, json.loads(body)) == (403, {"error": "AccessDenied"})


def test_error_while_identifying_is_the_faces_to_encode():
    status, _, body = call(make(EchoFace()), target="/unreadable")
    assert (status, json.loads(body)) == (400, {"error": "MalformedRequest"})


def test_unforeseen_error_is_a_500_without_its_detail_and_logged(caplog):
    with caplog.at_level(logging.ERROR):
        status, headers, body = call_signed(make(EchoFace()), target="/required/fails")
    assert status == 500
    assert b"secret detail" not in body
    assert "a secret detail" in caplog.text
    assert headers[b"x-amz-request-id"].decode() in caplog.text


def test_refusals_are_not_logged_as_failures(caplog):
    call_signed(make(EchoFace()), target="/required/denies")
    assert caplog.text == ""


@pytest.mark.parametrize("service", ["sts", "iam"])
def test_an_api_without_a_face_answers_501_to_an_authorised_caller(service):
    app = make(EchoFace())
    status, headers, body = call_signed(app, "POST", "/", service=service, body=b"Action=X")
    assert status == 501
    assert re.search(rb"<Code>NotImplemented</Code><Message>[^<]*" + service.encode(), body)
    assert headers[b"content-type"] == b"text/xml"
    for more, code in (
        ({"secret_key": "wrong"}, b"SignatureDoesNotMatch"),
        ({"access_key": "UNKNOWN"}, b"InvalidClientTokenId"),
        ({"at_ms": NOW_MS - 3_600_000}, b"SignatureDoesNotMatch"),
    ):
        status, headers, body = call_signed(app, "POST", "/", service=service, **more)
        assert status == 403
        assert re.search(rb"<Code>%s</Code>" % code, body)
        assert headers[b"x-amz-request-id"] in body
        assert (b"The request signature we calculated" in body) is ("secret_key" in more)


def test_api_without_a_face_reads_no_more_than_it_must():
    app = make(EchoFace())
    body = b"a" * (limits.SIGNED_BODY_BYTES_MAX + 1)
    status, _, answer = call_signed(app, "POST", "/", service="sts", body=body)
    assert (status, b"<Code>RequestEntityTooLarge</Code>" in answer) == (413, True)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/" + "a" * limits.PATH_BYTES_MAX, ()),
        ("/none?" + "a" * (limits.QUERY_BYTES_MAX + 1), ()),
        ("/none", [(f"x-{i}", "") for i in range(limits.HEADERS_MAX + 1)]),
        ("/none", [("x-a", "v" * limits.HEADERS_BYTES_MAX)]),
    ],
)
def test_request_beyond_its_bounds_is_refused_before_it_is_read(target, headers):
    face = EchoFace()
    status, _, body = call(make(face), target=target, headers=headers)
    assert (status, json.loads(body)) == (431, {"error": "RequestTooLarge"})
    assert "identify" not in face.steps


def test_a_stored_file_that_is_cut_short_is_logged_as_damage_and_counted_as_a_failure(
    tmp_path, caplog
):
    (tmp_path / "blob").write_bytes(b"12345")
    face = EchoFace()
    app = make(face)
    piece = storage_model.FileSlice(path=tmp_path / "blob", offset=0, length=10)
    face.answer = asgi.Response(200, (), (piece,))
    assert call(app)[2] == b"12345"
    assert "a stored body is shorter than its record" in caplog.text
    assert "blob ends at 5, before 10" in caplog.text
    assert app.counts.faces["s3"].requests == {500: 1}
    assert app.counts.disconnects == 0


def test_answer_that_cannot_begin_becomes_an_error(tmp_path, caplog):
    face = EchoFace()
    app = make(face)
    face.answer = asgi.Response(
        200,
        (),
        (storage_model.FileSlice(path=tmp_path / "gone", offset=0, length=5),),
    )
    status, _, body = call_signed(app)
    assert (status, json.loads(body)) == (500, {"error": "InternalError"})
    face.answer = asgi.Response(200, (("x-a", "b\r\nc: d"),))
    status, _, body = call_signed(app)
    assert (status, json.loads(body)) == (400, {"error": "MalformedRequest"})
    assert app.counts.faces["s3"].requests == {500: 1, 400: 1}


def test_face_that_cannot_even_encode_its_error_still_gets_a_500(caplog):
    face = EchoFace()
    face.encode_error = None
    status, _, body = call_signed(make(face), target="/required/fails")
    assert (status, body) == (500, b"")
    assert "a secret detail" in caplog.text


def test_client_that_leaves_is_counted_and_not_answered(caplog):
    app = make(EchoFace())
    gone = receiving([b"x"], then_disconnect=True)
    assert call(app, "PUT", "/none/reads", receive=gone) is None
    assert app.counts.disconnects == 1
    assert app.counts.in_flight == 0
    assert caplog.text == ""


def test_served_requests_are_counted_by_face_and_status():
    app = make(EchoFace())
    call(app)
    call(app, "PUT", "/none/reads", body=b"12345")
    call(app, target="/required")
    row = app.counts.faces["s3"]
    assert row.requests == {200: 2, 403: 1}
    assert row.received_bytes == 5
    assert row.duration_ns == 6_000_000
    assert sum(row.buckets) == 3


def test_counters_put_durations_below_their_bounds():
    counts = counters.Counters()
    for duration_ns in (0, 1_000_000, 1_000_001, 70_000_000_000):
        counts.record("s3", 200, duration_ns=duration_ns, received_bytes=0, sent_bytes=0)
    assert counts.faces["s3"].buckets == [2, 1, 0, 0, 0, 0, 0, 0, 1]


# The audit log


def test_write_is_taken_down_before_and_after(tmp_path):
    log = Log(tmp_path)
    call_signed(make(EchoFace(), log=log), "PUT")
    allowed, outcome = log.lines
    assert allowed["event"] == "allow"
    assert allowed["principal"] == "arn:aws:iam::000000000000:root"
    assert allowed["action"] == "s3:PutObject"
    assert allowed["credential"] == requesting.ACCESS_KEY
    assert allowed["request_id"] == outcome["request_id"] == "0" * 31 + "1"
    assert allowed["ip"] == "10.1.2.3"
    assert (outcome["event"], outcome["status"], outcome["ms"]) == ("outcome", 200, 2.0)
    assert allowed["at_ms"] == NOW_MS


def test_denial_and_refusal_are_taken_down(tmp_path):
    log = Log(tmp_path)
    app = make(EchoFace(), log=log)
    call(app, target="/signed-or-anonymous")
    call_signed(app, secret_key="wrong")
    assert [(line["event"], line.get("reason")) for line in log.lines] == [
        ("deny", "no-allow"),
        ("outcome", None),
        ("refuse", "SignatureDoesNotMatch"),
        ("outcome", None),
    ]
    assert requesting.SECRET_KEY not in str(log.lines)


def test_request_that_changes_nothing_leaves_no_line(tmp_path):
    log = Log(tmp_path)
    call(make(EchoFace(), log=log))
    assert log.lines == []


# Lifespan


def test_a_row_without_handler_is_refused_once_its_caller_may_ask_for_it():
    face = EchoFace()
    assert call(make(face), target="/required/unbuilt")[0] in (401, 403)
    assert face.steps == ["identify", "encode_error"]
    face.steps.clear()
    status, _, _ = call_signed(make(face), target="/required/unbuilt")
    assert face.steps == ["identify", "demands", "refuse", "encode_error"]
    assert status == 501


def test_a_document_is_read_before_its_handler_and_within_its_bound():
    face = EchoFace()
    status, _, body = call(make(face), "PUT", "/none/documented", body=b"four")
    assert (status, json.loads(body)) == (200, {"body": "four"})
    face.steps.clear()
    assert call(make(face), "PUT", "/none/documented", body=b"fives")[0] == 413
    assert "handle" not in face.steps


def test_a_document_that_its_signature_covers_is_within_its_bound_too():
    face = EchoFace("s3tables")
    target = "/required/documented"
    status, _, body = call_signed(make(face), "PUT", target, body=b"four", service="s3tables")
    assert (status, json.loads(body)) == (200, {"body": "four"})
    face.steps.clear()
    status, _, _ = call_signed(make(face), "PUT", target, body=b"fives", service="s3tables")
    assert status == 413
    assert "handle" not in face.steps


# Over a socket, under the server that people run


@contextmanager
def served(app, http=connection.Connection):
    settings = uvicorn.Config(
        app,
        http=http,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        ws="none",
        log_level="critical",
        lifespan="off",
    )
    server = uvicorn.Server(settings)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(waits.WAIT_SECONDS)
        assert not thread.is_alive()


class PendingFace(EchoFace):
    """A face whose answers wait for `future`. planted: what `finish` raises."""

    planted: Exception | None = None

    async def handle(self, services, call):
        raise AssertionError("not called")

    def call(self, request, segments):
        operation = calls.Operation(
            name="x", handler=self.wait, authentication=exchange.Authentication.NONE
        )
        return calls.Call(operation, segments, request)

    def wait(self, services, call):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_later(0.01, future.set_result, b"result")

        def finish(done):
            if self.planted is not None:
                raise self.planted
            if call.value == ("later",):
                return self.answer_later(done)
            return asgi.json_response({"result": done.result().decode()})

        return pending.Pending(future, finish)

    async def answer_later(self, done):
        await asyncio.sleep(0)
        return asgi.json_response({"result": "later"})


@pytest.mark.parametrize("transport", ["asgi", "socket"])
def test_answer_that_waits_for_a_future_is_sent_once_it_is_done(transport):
    face = PendingFace()
    app = make(face)

    def ask(target):
        if transport == "asgi":
            status, _, body = call(app, target=target)
            return status, json.loads(body)
        with served(app, connection.Connection) as port:
            client = http.client.HTTPConnection("127.0.0.1", port)
            try:
                client.request("GET", target)
                answer = client.getresponse()
                return answer.status, json.loads(answer.read())
            finally:
                client.close()

    assert ask("/now") == (200, {"result": "result"})
    assert ask("/later") == (200, {"result": "later"})
    face.planted = access_errors.AccessDenied("no", action="a", resource="r")
    assert ask("/now") == (403, {"error": "AccessDenied"})
    face.planted = RuntimeError("planted")
    assert ask("/now") == (500, {"error": "InternalError"})
    assert app.counts.in_flight == 0


def test_refused_upload_that_expects_100_moves_no_byte_and_closes():
    with served(make(EchoFace())) as port, socket.create_connection(("127.0.0.1", port)) as wire:
        wire.settimeout(waits.WAIT_SECONDS)
        wire.sendall(
            b"PUT /required/reads HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"
            b"expect: 100-continue\r\n\r\n"
        )
        answer = b""
        while data := wire.recv(65536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"connection: close" in answer
    assert b"100 Continue" not in answer


def test_accepted_upload_gets_100_continue_and_keeps_the_connection():
    with served(make(EchoFace())) as port, socket.create_connection(("127.0.0.1", port)) as wire:
        wire.settimeout(waits.WAIT_SECONDS)
        wire.sendall(
            b"PUT /none/reads HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"
            b"expect: 100-continue\r\n\r\n"
        )
        assert wire.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(b"hello")
        answer = b""
        while not answer.endswith(b'{"read":5}'):
            data = wire.recv(65536)
            assert data, answer
            answer += data
        wire.sendall(b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n")
        assert wire.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_refused_upload_that_does_not_wait_still_reads_its_answer():
    with served(make(EchoFace())) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("PUT", "/required/reads", body=bytes(8 << 20))
        assert connection.getresponse().read() == b'{"error":"MissingCredentials"}'
        connection.request("GET", "/none")
        assert connection.getresponse().status == 200
        connection.close()


def test_large_file_arrives_whole_although_another_client_disconnects(tmp_path):
    path = tmp_path / "large"
    data = bytes(range(256)) * (1 << 15)
    path.write_bytes(data)
    face = EchoFace()
    app = make(face)
    face.answer = asgi.Response(
        200, (), (storage_model.FileSlice(path=path, offset=1, length=len(data) - 1),)
    )
    with served(app) as port:
        with socket.create_connection(("127.0.0.1", port)) as wire:
            wire.sendall(b"GET /none HTTP/1.1\r\nhost: x\r\n\r\n")
            assert wire.recv(1000).startswith(b"HTTP/1.1 200 ")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(2):
            connection.request("GET", "/none")
            assert connection.getresponse().read() == data[1:]
        connection.request("HEAD", "/none")
        head = connection.getresponse()
        assert (head.getheader("content-length"), head.read()) == (str(len(data) - 1), b"")
        connection.close()
        deadline = time.monotonic() + 60
        while app.counts.in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
    assert app.counts.in_flight == 0
    assert app.counts.disconnects <= 1


def test_boto3_reaches_a_face_by_every_style_of_address(monkeypatch):
    """Real HTTP: what botocore signs and urllib3 sends is what is verified here."""
    # Not every machine resolves names below localhost.
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **named: resolve(
            "127.0.0.1" if str(host).endswith(".localhost") else host, *more, **named
        ),
    )
    seen = []

    class NotingFace(EchoFace):
        def identify(self, request):
            seen.append((request.method, request.raw_path, request.host.partition(":")[0]))
            return self.call(request, ("required",))

    face = NotingFace()
    face.answer = asgi.Response(200, (("etag", '"x"'),))
    app = make(face, clock=lambda: int(time.time() * 1000))
    with served(app) as port:
        for style, host in (("path", "127.0.0.1"), ("virtual", "localhost")):
            client = boto3.client(
                "s3",
                endpoint_url=f"http://{host}:{port}",
                aws_access_key_id=requesting.ACCESS_KEY,
                aws_secret_access_key=requesting.SECRET_KEY,
                region_name="us-east-1",
                config=Config(s3={"addressing_style": style}, retries={"max_attempts": 0}),
            )
            client.put_object(Bucket="photos", Key="a b/日+", Body=b"x", Metadata={"k": "v"})
            client.close()
    assert seen == [
        ("PUT", b"/photos/a%20b/%E6%97%A5%2B", "127.0.0.1"),
        ("PUT", b"/a%20b/%E6%97%A5%2B", "photos.localhost"),
    ]


def test_begin_ends_a_coroutine_that_never_waits():
    async def work():
        pass

    assert exchange._begin(work()) is None


def test_a_begun_coroutine_goes_on_in_a_task():
    async def talk():
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        steps = []

        async def work():
            steps.append("begun")
            steps.append(await first)
            await asyncio.sleep(0)
            try:
                await second
            except OSError as error:
                steps.append(str(error))
            raise LookupError("the end")

        rest = exchange._begin(work())
        assert steps == ["begun"]
        first.set_result("first")  # before any task waits for it
        loop.call_later(0.01, second.set_exception, OSError("second"))

        async def finish():
            await rest

        with pytest.raises(LookupError, match="the end"):
            await asyncio.create_task(finish())
        return steps

    assert run(talk()) == ["begun", "first", "second"]


@pytest.mark.parametrize("waits_again", [False, True])
def test_a_begun_coroutine_meets_its_cancellation(waits_again):
    async def talk():
        met = []

        async def work():
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                met.append("cancelled")
                if waits_again:
                    await asyncio.sleep(0.01)
                    met.append("waited")
                raise

        rest = exchange._begin(work())

        async def finish():
            await rest

        task = asyncio.create_task(finish())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return met

    assert run(talk()) == ["cancelled", *(["waited"] if waits_again else [])]
