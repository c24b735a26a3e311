"""Child processes get what they need of the server's environment, and none of its secrets."""

from __future__ import annotations

import sys
import time
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_child_of_a_server_holds_a_secret_of_its_environment(tmp_path: Path) -> None:
    running = server.start(
        tmp_path / "data",
        *("--config", str(users.write_settings(tmp_path))),
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
        environments = _environments_of_children(running.pid)
        assert any(b"sql.worker" in command for command, _ in environments)
        assert any(b"sql.compiling_child" in command for command, _ in environments)
        for command, environment in environments:
            for name, value in SECRETS.items():
                assert f"{name}=".encode() not in environment, command
                assert value.encode() not in environment, command
    finally:
        assert running.stop() == 0


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


def _environments_of_children(pid: int) -> list[tuple[bytes, bytes]]:
    commands = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            folder = Path(f"/proc/{child}")
            commands.append(((folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()))
    return commands
