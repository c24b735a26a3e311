"""Child processes get what they need of the server's environment, and none of its secrets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server import children
from tests.kit import hostile_sql, rest, server, stalls, users

SECRETS = {
    "BOATHOUSE_ACCESS_KEY": "ROOTACCESSKEYOFTHETEST",
    "BOATHOUSE_SECRET_KEY": "root-secret-of-the-test-0123456789",
    "AWS_SECRET_ACCESS_KEY": "cloud-secret-of-the-test",
    "AWS_SESSION_TOKEN": "cloud-token-of-the-test",
    "GITHUB_TOKEN": "another-secret-of-the-test",
    "DATABASE_URL": "postgres://user:password-of-the-test@host/db",
}


def test_a_childs_environment_holds_what_programs_need_and_nothing_else() -> None:
    needed = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "/p", "HOME": "/h"}
    own = {**needed, **SECRETS, "HTTP_PROXY": "p"}
    assert children.environment(own, MORE="m") == {**needed, "MORE": "m"}


PROBE = """
import gc

collects_among_imports = gc.isenabled()


def main(arguments):
    print(collects_among_imports, gc.isenabled(), gc.get_freeze_count() > 0, arguments)
"""


def test_a_child_looks_for_cycles_when_it_has_imported_and_not_among_its_imports(
    tmp_path: Path,
) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    shown = subprocess.check_output(
        [sys.executable, "-m", "server.starting", "probe", "3", "x"],
        cwd=server.ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        text=True,
    )
    assert shown == "False True True ['3', 'x']\n"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Running]:
    """A server with secrets in its environment, whose children have compiled and run a query."""
    folder = tmp_path_factory.mktemp("busy")
    running = server.start(
        folder / "data",
        *("--config", str(users.write_settings(folder))),
        environment=SECRETS,
    )
    try:
        assert running.access_key == SECRETS["BOATHOUSE_ACCESS_KEY"]
        with rest.Client(running) as client:
            client.ask("POST", "namespaces", {"namespace": ["ns"]})
            client.make_table("ns", "t")
        target = stalls.Target(
            running=running, access_key=running.access_key, secret_key=running.secret_key
        )
        connection = hostile_sql.Connection(target)
        inserted = connection.run("insert into lake.ns.t values (1)")
        assert inserted["success"], inserted
        assert connection.run("select * from lake.ns.t where id + 1 > 1")["success"]
        assert connection.run(f"select {hostile_sql.joined('{0}', 3_000)}")["success"]
        yield running
    finally:
        assert running.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_child_of_a_server_holds_a_secret_of_its_environment(busy: server.Running) -> None:
    environments = [
        ((process / "cmdline").read_bytes(), (process / "environ").read_bytes())
        for process in _children(busy.pid)
    ]
    assert any(b"sql.worker" in command for command, _ in environments)
    assert any(b"sql.compiling_child" in command for command, _ in environments)
    for command, environment in environments:
        for name, value in SECRETS.items():
            assert f"{name}=".encode() not in environment, command
            assert value.encode() not in environment, command


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_and_its_children_load_arrow_without_numpy_and_pandas(
    busy: server.Running,
) -> None:
    libraries = {"pyarrow": 0, "numpy": 0, "pandas": 0}
    for process in (Path(f"/proc/{busy.pid}"), *_children(busy.pid)):
        for library in libraries:
            libraries[library] += f"/{library}/" in (process / "maps").read_text()
    assert libraries["pyarrow"] >= 2, "the server and a child that runs queries"
    assert (libraries["numpy"], libraries["pandas"]) == (0, 0)


def test_samples_load_with_keys_that_stand_in_the_settings_alone(tmp_path: Path) -> None:
    settings = tmp_path / "mini.toml"
    settings.write_text(
        'access_key = "SETTINGSACCESSKEY"\nsecret_key = "secret-of-the-settings-1"\n'
    )
    running = server.start(tmp_path / "data", "--sample-data", "--config", str(settings))
    try:
        deadline = time.monotonic() + 60
        while "try: " not in running.log.read_text():
            assert time.monotonic() < deadline, running.log.read_text()
            time.sleep(0.05)
        with rest.Client(running) as client:
            status, _ = client.ask("GET", "namespaces/samples/tables/penguins")
        assert status == 200
    finally:
        assert running.stop() == 0


def _children(pid: int) -> list[Path]:
    """Return the folders in /proc of a process's children."""
    return [
        Path(f"/proc/{child}")
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
