"""How a job finds its server, and what it says when it does not."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import errors, native, servers, settings
from tests.kit.waits import WAIT_SECONDS

KEYS = {"access_key": "AKFOLDER", "secret_key": "folder secret"}


def folder(place: Path, *, running: object = None, keys: object = None) -> str:
    if running is not None:
        (place / "running.json").write_text(json.dumps(running))
    if keys is not None:
        (place / "root.json").write_text(json.dumps(keys))
    return str(place)


def test_find_reads_the_data_folder_of_a_running_server(tmp_path: Path) -> None:
    data = folder(tmp_path, running={"url": "http://h:1/", "region": "eu-west-1"}, keys=KEYS)
    server = servers.find(url=None, data=data, environment={}, region=None)
    assert (server.url, server.region) == ("http://h:1", "eu-west-1")
    assert (server.access_key, server.secret_key) == ("AKFOLDER", "folder secret")
    assert server.iceberg == "http://h:1/iceberg"


def test_find_prefers_its_arguments_to_running_json(tmp_path: Path) -> None:
    data = folder(tmp_path, running={"url": "http://h:1", "region": "eu-west-1"}, keys=KEYS)
    environment = {
        "BOATHOUSE_ACCESS_KEY": "AKENV",
        "BOATHOUSE_SECRET_KEY": "env secret",
        "BOATHOUSE_REGION": "us-west-2",
    }
    server = servers.find(url="http://other:2", data=data, environment=environment, region=None)
    assert (server.url, server.region) == ("http://other:2", "us-west-2")
    assert (server.access_key, server.secret_key) == ("AKENV", "env secret")
    named = servers.find(url=None, data=data, environment=environment, region="ap-south-1")
    assert (named.url, named.region) == ("http://h:1", "ap-south-1")


def test_find_with_a_url_and_keys_needs_no_folder(tmp_path: Path) -> None:
    environment = {"BOATHOUSE_ACCESS_KEY": "AK", "BOATHOUSE_SECRET_KEY": "SK"}
    data = str(tmp_path / "absent")
    server = servers.find(url="http://h:1", data=data, environment=environment, region=None)
    assert server.region == "us-east-1"


def test_find_without_a_running_server_says_how_to_start_one(tmp_path: Path) -> None:
    data = folder(tmp_path, keys=KEYS)
    with pytest.raises(errors.NoServer) as caught:
        servers.find(url=None, data=data, environment={}, region=None)
    assert str(caught.value) == (
        f"no server runs on the data folder {data!r} (it has no running.json); start one with "
        "`make run`, or name another folder with --data, or a server with --url and its keys in "
        "BOATHOUSE_ACCESS_KEY and BOATHOUSE_SECRET_KEY"
    )


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"url": 1}', "{}", "\x00"])
def test_find_with_a_damaged_file_names_it(tmp_path: Path, content: str) -> None:
    folder(tmp_path, keys=KEYS)
    (tmp_path / "running.json").write_text(content)
    with pytest.raises(errors.NoServer, match=r"running\.json"):
        servers.find(url=None, data=str(tmp_path), environment={}, region=None)


@pytest.mark.parametrize("url", ["127.0.0.1:5253", "localhost", "s3://lake", "http://", ""])
def test_find_refuses_what_is_no_url(tmp_path: Path, url: str) -> None:
    data = folder(tmp_path, running={"url": "http://h:1"}, keys=KEYS)
    with pytest.raises(errors.BadArgument) as caught:
        servers.find(url=url, data=data, environment={}, region=None)
    assert str(caught.value) == f"--url {url!r} is not a URL: write http://HOST:PORT"


@pytest.mark.parametrize("name", ["BOATHOUSE_ACCESS_KEY", "BOATHOUSE_SECRET_KEY"])
def test_find_refuses_one_key_without_the_other(tmp_path: Path, name: str) -> None:
    data = folder(tmp_path, running={"url": "http://h:1"}, keys=KEYS)
    with pytest.raises(errors.BadArgument) as caught:
        servers.find(url=None, data=data, environment={name: "alone"}, region=None)
    assert str(caught.value) == (
        "BOATHOUSE_ACCESS_KEY and BOATHOUSE_SECRET_KEY go together; one of them is not set"
    )


def test_find_with_half_of_the_keys_names_the_file(tmp_path: Path) -> None:
    data = folder(tmp_path, running={"url": "http://h:1"}, keys={"access_key": "AK"})
    with pytest.raises(errors.NoServer) as caught:
        servers.find(url=None, data=data, environment={}, region=None)
    assert str(caught.value) == (
        f"{tmp_path / 'root.json'} does not hold access_key and secret_key in a JSON object"
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(servers, "ASK_SECONDS", 0.02)


def server_at(url: str) -> settings.ServerEndpoint:
    return settings.ServerEndpoint(url=url, access_key="a", secret_key="s", region="r")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_gives_no_answer_ends_what_waits_for_it(unused: str) -> None:
    killed = threading.Event()

    def work() -> None:
        assert killed.wait(WAIT_SECONDS)
        raise RuntimeError("the JVM is gone")

    with (
        pytest.raises(errors.NoServer, match=f"^the server at {unused} does not answer; start it"),
        servers.watched(server_at(unused), give_up=killed.set),
    ):
        work()


def test_a_request_without_an_answer_names_the_server_that_is_gone(unused: str) -> None:
    with (
        pytest.raises(errors.NoServer, match=f"^the server at {unused} does not answer; start it"),
        servers.watched(server_at(unused), give_up=lambda: None),
    ):
        raise errors.NoServer("the server does not answer: connection closed")


def test_a_job_that_fails_while_its_server_answers_keeps_its_own_reason(
    endpoint: settings.ServerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = threading.Semaphore(0)
    answers = servers.answers

    def count(server: settings.ServerEndpoint) -> bool:
        try:
            return answers(server)
        finally:
            requests.release()

    def fail_when_asked(times: int) -> None:
        for _ in range(times):
            assert requests.acquire(timeout=WAIT_SECONDS)
        raise RuntimeError("its own reason")

    monkeypatch.setattr(servers, "ASK_SECONDS", 0.02)
    monkeypatch.setattr(servers, "ANSWER_SECONDS", WAIT_SECONDS)
    # Each answer begins a silence anew: it would be over by the second of them.
    monkeypatch.setattr(servers, "SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(servers, "answers", count)
    with (
        pytest.raises(RuntimeError, match="its own reason"),
        servers.watched(endpoint, give_up=lambda: pytest.fail("the server answers")),
    ):
        fail_when_asked(10)


@pytest.fixture
def garbage() -> Iterator[str]:
    """A URL at which something answers that speaks no HTTP."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(b"220 welcome\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as place:
        threading.Thread(target=place.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{place.server_address[1]}"
        place.shutdown()


def test_what_speaks_no_http_is_no_server(garbage: str) -> None:
    assert not servers.answers(server_at(garbage))
    with pytest.raises(errors.NoServer, match=r"^the server does not answer: 220 welcome"):
        native.ask(server_at(garbage), "GET", "jobs")


def serve_with_certificate(folder: Path) -> Path:
    folder.mkdir()
    bundle = folder / "certificates.pem"
    bundle.write_text("of the server\n")
    content = {"url": "https://127.0.0.1:1", "certificates": str(bundle)}
    (folder / "running.json").write_text(json.dumps(content))
    return bundle


def test_the_certificate_of_a_folder_s_server_is_trusted(tmp_path: Path) -> None:
    bundle = serve_with_certificate(tmp_path / "data")
    for environment in ({}, {"SSL_CERT_FILE": ""}):
        servers.trust(str(tmp_path / "data"), environment)
        assert environment == dict.fromkeys(servers.CERTIFICATES, str(bundle))


def test_a_server_s_certificate_is_trusted_beside_those_that_variables_name(
    tmp_path: Path,
) -> None:
    serve_with_certificate(tmp_path / "data")
    company = tmp_path / "company.pem"
    company.write_text("of a company\n")
    environment = {"SSL_CERT_FILE": str(company), "BOATHOUSE_CACHE": str(tmp_path / "cache")}
    servers.trust(str(tmp_path / "data"), environment)
    (merged,) = {environment[name] for name in servers.CERTIFICATES}
    assert set(Path(merged).read_text().split("\n")) == {"of the server", "of a company", ""}
    assert company.read_text() == "of a company\n"


def test_a_server_without_a_certificate_changes_no_trust(tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text('{"url": "http://127.0.0.1:1"}')
    environment = {"SSL_CERT_FILE": "/company.pem"}
    servers.trust(str(tmp_path), environment)
    servers.trust(str(tmp_path / "absent"), environment)
    assert environment == {"SSL_CERT_FILE": "/company.pem"}


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    serve_with_certificate(tmp_path / "data")
    absent = str(tmp_path / "absent.pem")
    with pytest.raises(errors.NoServer, match=re.escape(absent)):
        servers.trust(str(tmp_path / "data"), {"AWS_CA_BUNDLE": absent})
