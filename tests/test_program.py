"""The program as a value: what `build` returns is what a user starts."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from pathlib import Path

import pytest

from pipeline import resources
from program import application, identities
from server import config
from storage import disk, opening
from tests.kit import server as servers

SETTINGS = config.resolve({"data": "unused"}, {}, {})


def built(folder: Path) -> application.Program:
    ids = itertools.count()
    storage = opening.open_storage(
        folder, disk=disk.Disk(), now_ms=lambda: 1_000, new_id=lambda: f"{next(ids):032x}"
    )
    return application.build(
        SETTINGS, storage, now_ms=lambda: 1_000, new_id=lambda: f"{next(ids):032x}"
    )


def test_ids_are_random_uuids_that_differ() -> None:
    new_id = identities.Ids()
    ids = [new_id() for _ in range(3 * identities.IDS_AT_ONCE)]
    assert len(set(ids)) == len(ids)
    parsed = [uuid.UUID(each) for each in ids]
    assert [each.hex for each in parsed] == ids
    assert {(each.version, each.variant) for each in parsed} == {(4, uuid.RFC_4122)}
    # A random digit of 768 ids lacks one of its 16 values once in 10^20 runs.
    assert all(len({each[place] for each in ids}) == 16 for place in (0, 11, 13, 15, 17, 31))


async def ask(app: application.Application, path: str) -> tuple[int, bytes]:
    """One GET, as ASGI."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def test_an_application_answers_within_its_lifespan_and_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    program = built(tmp_path / "data")

    async def live() -> tuple[tuple[int, bytes], int]:
        app = program.application
        async with app.router.lifespan_context(app):
            answer = await ask(app, "/_health")
        return answer, len(asyncio.all_tasks())

    (status, body), tasks = asyncio.run(live())
    program.storage.close()
    assert (status, b'"status":"ok"' in body) == (200, True)
    assert tasks == 1, "nothing but this test's own task is left"


def test_two_programs_live_in_one_process(tmp_path: Path) -> None:
    programs = [built(tmp_path / name) for name in ("a", "b")]

    async def live() -> list[int]:
        apps = [program.application for program in programs]
        async with (
            apps[0].router.lifespan_context(apps[0]),
            apps[1].router.lifespan_context(apps[1]),
        ):
            return [(await ask(app, "/_health"))[0] for app in apps]

    assert asyncio.run(live()) == [200, 200]
    for program in programs:
        program.storage.close()
    assert programs[0].root.access_key != programs[1].root.access_key


def test_access_log_has_a_line_for_each_request_without_its_query(tmp_path: Path) -> None:
    running = servers.start(tmp_path / "data", "--access-log")
    servers.get(running.url + "/_health")
    servers.get(running.url + "/bucket/key?token=hidden")
    assert running.stop() == 0
    lines = [line for line in running.log.read_text().splitlines() if "boathouse.access" in line]
    said = [line.split("boathouse.access: ", 1)[1] for line in lines]
    assert '127.0.0.1 "GET /_health HTTP/1.1" 200 33' in said
    assert '127.0.0.1 "GET /bucket/key?... HTTP/1.1" 404' in [
        each.rpartition(" ")[0] for each in said
    ]
    assert "hidden" not in running.log.read_text()


def test_an_access_log_is_written_only_on_request(tmp_path: Path) -> None:
    running = servers.start(tmp_path / "data", "--log-level", "info")
    servers.get(running.url + "/_health")
    assert running.stop() == 0
    assert "boathouse.access" not in running.log.read_text()


def test_a_log_level_that_does_not_exist_is_refused_by_its_flag(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="--log-level 'loud' is none of debug, info, warning"):
        servers.start(tmp_path / "data", "--log-level", "loud")


def test_settings_of_spark_of_served_jobs_are_in_no_list_of_processes() -> None:
    pairs = ["spark.hadoop.x.secret=it's a $ecret", 'spark.y="two words"', "spark.z="]
    command = application.worker_command(
        config.resolve({}, {}, {"jobs_conf": pairs, "jobs_cores": 3}),
        "http://localhost:1",
        logs=Path("logs"),
        variables={"OWN": "1"},
        environment={"JAVA_HOME": "/java", "HOME": "/root"},
    )
    assert not [each for each in command.arguments if "spark." in each or "ecret" in each]
    assert "--cores=3" in command.arguments
    conf = command.variables[resources.VARIABLES["conf"]]
    assert command.variables == {"OWN": "1", "JAVA_HOME": "/java", "BOATHOUSE_CONF": conf}
    # The child reads them as what they were.
    machine = resources.Machine(memory_bytes=None, cores=4)
    gets = resources.resolve(resources.Wishes(), command.variables, machine, is_served=True)
    assert gets.conf == {
        "spark.hadoop.x.secret": "it's a $ecret", "spark.y": '"two words"', "spark.z": ""
    }  # fmt: skip
