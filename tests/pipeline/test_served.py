"""Jobs that the server runs by itself: pipelines of its folder, maintenance, and their list."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline import __main__ as command
from pipeline import (
    catalogs,
    errors,
    interrupts,
    leases,
    native,
    replicas,
    replication,
    runs,
    servers,
    sources,
)
from tests.kit import server as server_kit
from tests.kit import users, waits
from tests.pipeline.lake import Raw

SPARK_SECONDS = 900
"""Ends a wait for a job of Spark, whose start takes minutes on a busy machine."""


class Served:
    """A server with a folder of pipelines."""

    def __init__(self, running: server_kit.Running, folder: Path) -> None:
        self.running = running
        self.folder = folder
        self.endpoint = servers.find(url=None, data=str(running.data), environment={}, region=None)
        self.raw = Raw(sources.client(self.endpoint), "served-raw")

    def put(self, name: str, /, *, text: str = "", **keys: str) -> None:
        lines = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
        source = f'[source]\nfrom = ["{self.raw.uri(name)}/"]\n'
        whole = f'target = "lake.served.{name}"\n{lines}{source}{text}'
        (self.folder / f"{name}.toml").write_text(whole)

    def ask(self, method: str, path: str, *, pair: tuple[str, str] | None = None) -> Any:
        """Ask the native API as root, or with another key pair; return status and answer."""
        user, secret = pair or (self.running.access_key, self.running.secret_key)
        request = urllib.request.Request(
            f"{self.running.url}/_api/v1/{path}",
            method=method,
            headers={
                "Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["error"]

    def jobs(self, name: str) -> list[Any]:
        """Return the runs of a job, the oldest first."""
        listed = self.ask("GET", "jobs")[1]["jobs"]
        return [run for run in reversed(listed) if run["name"] == name]

    def ended(self, name: str, count: int = 1, *, seconds: float = waits.WAIT_SECONDS) -> list[Any]:
        """Wait until a job has so many runs that have ended."""

        def over() -> list[Any]:
            return [run for run in self.jobs(name) if run["state"] != "running"]

        until(lambda: len(over()) >= count, seconds=seconds)
        return over()


def until(condition: Callable[[], Any], *, seconds: float = waits.WAIT_SECONDS) -> None:
    """Wait for a state that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served")
    folder = path / "pipelines"
    folder.mkdir()
    running = server_kit.start(
        path / "data",
        *("--pipelines", str(folder), "--maintenance-interval-seconds", "0"),
        *("--config", str(users.write_settings(path))),
    )
    yield Served(running, folder)
    assert running.stop() == 0, running.log.read_text()[-4000:]


def test_the_server_runs_pipelines_one_after_the_other_and_keeps_their_runs(
    served: Served,
) -> None:
    for name in ("first", "second"):
        served.raw.put(f"{name}/1.csv", "id\n1\n2\n")
    served.put("first")
    served.put("second", after="first")
    assert served.ask("POST", "pipelines/first/run") == (202, {"asked": "first"})
    (run,) = served.ended("second")
    (first,) = served.ended("first")
    assert (run["state"], run["answer"]["rows"]) == ("succeeded", 2)
    assert run["by_server"]
    kept = runs.find(served.endpoint, "lake", first["run_id"])
    assert (kept["pipeline"], kept["rows"]) == ("first", 2)
    # The same sources again: exactly once, by the table's ledger.
    served.ask("POST", "pipelines/first/run")
    assert [each["state"] for each in served.ended("first", 2)] == ["succeeded", "nothing"]
    logs = served.running.data / "logs"
    assert "run first" in "".join(path.read_text() for path in sorted(logs.iterdir()))


def test_a_pipeline_has_the_rights_of_the_user_it_runs_as(served: Served) -> None:
    served.raw.put("alices/1.csv", "id\n1\n")
    served.put("alices", run_as="carol")
    served.ask("POST", "pipelines/alices/run")
    (run,) = served.ended("alices")
    assert run["state"] == "failed"
    assert "not authorized" in run["error"] or "denied" in run["error"].lower()
    assert run["by"].endswith(f":user/{'carol'}")
    catalog = catalogs.opened(served.endpoint, "lake")
    assert not catalog.table_exists("served.alices")


def test_a_broken_file_is_shown_with_its_error_and_stops_no_other(served: Served) -> None:
    (served.folder / "broken.toml").write_text("target = ")
    try:
        status, broken = served.ask("GET", "pipelines/broken")
        assert status == 200
        assert broken["error"].startswith("broken.toml: ")
        status, refusal = served.ask("POST", "pipelines/broken/run")
        assert (status, refusal["type"]) == (400, "BadPipeline")
        status, refusal = served.ask("POST", "pipelines/none/run")
        assert (status, refusal["type"]) == (404, "NoSuchPipeline")
    finally:
        (served.folder / "broken.toml").unlink()


def test_a_run_by_hand_and_one_of_the_server_exclude_each_other(served: Served) -> None:
    served.raw.put("shared/1.csv", "id\n1\n")
    served.put("shared")
    target = "lake.served.shared"
    with leases.held(served.endpoint, "shared", target, give_up=lambda: None) as own:
        status, refusal = served.ask("POST", "pipelines/shared/run")
        assert (status, refusal["type"]) == (409, "AlreadyRunning")
        with pytest.raises(errors.PipelineError, match=f"running already: run {own.run_id}"):
            leases.held(served.endpoint, "shared", target, give_up=lambda: None).__enter__()
        own.state, own.answer = "succeeded", {"rows": 1}
    (run,) = served.jobs("shared")
    assert (run["state"], run["by_server"], run["answer"]) == ("succeeded", False, {"rows": 1})


def test_the_list_has_what_a_failed_run_did(served: Served) -> None:
    served.raw.put("torn/1.json", '{"id": 1}\n{')
    text = 'format = "json"\n'
    served.put("torn", text=text)
    served.ask("POST", "pipelines/torn/run")
    served.ended("torn")
    data = str(served.running.data)
    by_hand = ["run", "torn", "--pipelines", str(served.folder), "--data", data]
    assert command.main(by_hand, interrupts.Interrupts()) == 1
    listed = served.ended("torn", 2)
    assert [run["by_server"] for run in listed] == [True, False]
    for run in listed:
        assert (run["state"], run["answer"]["status"]) == ("failed", "failed")
        assert run["answer"]["error"] == run["error"]
        assert "1.json" in run["error"]
        steps = json.loads(run["answer"]["steps"])
        assert [step["step"] for step in steps if step.get("failed")] == ["read"]
    assert listed[0]["answer"]["log"].startswith(str(served.running.data.absolute() / "logs"))
    latest = served.ask("GET", "pipelines/torn")[1]["runs"]
    assert [run["answer"] for run in latest] == [run["answer"] for run in reversed(listed)]
    (served.folder / "torn.toml").unlink()


def test_history_and_show_have_the_runs_that_go_on_and_those_that_were_lost(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ("--data", str(served.running.data))

    def said(*arguments: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = command.main([*arguments, *data], interrupts.Interrupts())
        lines = capsys.readouterr().err.splitlines()
        return code, [line.removeprefix("pipeline: ") for line in lines]

    monkeypatch.setattr(leases, "PROLONG_SECONDS", 0.01)
    with leases.held(served.endpoint, "seen", "lake.served.seen", give_up=lambda: None) as own:
        own.latest = "writing 1 object: 7 rows"
        until(lambda: served.jobs("seen")[0]["progress"] == own.latest)
        code, lines = said("history", "seen")
        assert (code, len(lines)) == (0, 2)
        assert f" {own.run_id} seen running for " in lines[0]
        assert lines[0].endswith(" s: writing 1 object: 7 rows")
        code, lines = said("show", own.run_id)
        assert (code, lines[:2]) == (0, [f"run_id: {own.run_id}", "pipeline: seen"])
        assert "status: running" in lines
        assert "progress: writing 1 object: 7 rows" in lines
        own.state = "failed"
    # As the server lists a run whose client was killed a minute ago.
    ask = native.ask

    def lost(*arguments: Any) -> Any:
        answer = ask(*arguments)
        for run in answer.get("jobs", [answer]):
            if run["run_id"] == own.run_id:
                run |= {"state": "interrupted", "error": "lost: the process that ran it ended"}
        return answer

    monkeypatch.setattr(native, "ask", lost)
    code, lines = said("history", "seen")
    assert f" {own.run_id} seen interrupted in " in lines[0]
    assert lines[0].endswith(" s: lost: the process that ran it ended")
    code, lines = said("show", own.run_id)
    assert code == 0
    assert "error: lost: the process that ran it ended" in lines
    code, lines = said("show", "0" * 32)
    assert (code, lines[0][:37]) == (2, "show failed: there is no run 00000000")
    # A run by hand says first which one it is, and its row of the table is shown once.
    served.raw.put("seen/1.csv", "id\n1\n")
    served.put("seen")
    code, lines = said("run", "seen", "--pipelines", str(served.folder))
    assert code == 0
    run_id = served.jobs("seen")[-1]["run_id"]
    assert lines[0] == f"run {run_id} of seen into lake.served.seen"
    code, lines = said("history", "seen")
    assert [run_id in line for line in lines] == [True, False, False]
    assert lines[0].endswith(" s: 1 row")
    assert lines[2].startswith("2 runs in ")
    code, lines = said("history", "seen", "--limit", "1")
    assert (len(lines), run_id in lines[0]) == (2, True)
    assert lines[1].startswith("the latest 1 run, --limit shows more, in ")
    (served.folder / "seen.toml").unlink()


def test_a_load_by_hand_is_listed_while_it_goes_on_and_after(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served.raw.put("byhand/1.csv", "id\n1\n2\n")
    data = ("--data", str(served.running.data))
    load = ("ingest", "--from", served.raw.uri("byhand/"), "--to", "lake.served.byhand", *data)

    def runs_of_it() -> list[Any]:
        listed = served.ask("GET", "jobs")[1]["jobs"]
        return [run for run in listed if run["target"] == "lake.served.byhand"]

    during: list[Any] = []
    monkeypatch.setattr(
        command.ingest, "run", lambda *_, run=command.ingest.run, **options: (
            during.extend(runs_of_it()), run(*_, **options)
        )[1]
    )  # fmt: skip
    assert command.main(list(load), interrupts.Interrupts()) == 0
    assert [(run["task"], run["state"], run["by_server"]) for run in during] == [
        ("ingest", "running", False)
    ]
    (run,) = runs_of_it()
    assert (run["run_id"], run["state"], run["answer"]["rows"]) == (
        during[0]["run_id"], "succeeded", 2
    )  # fmt: skip
    assert command.main(list(load), interrupts.Interrupts()) == 0
    served.raw.put("byhand/2.json", "{")
    assert command.main([*load, "--format", "json"], interrupts.Interrupts()) != 0
    assert [each["state"] for each in runs_of_it()] == ["failed", "nothing", "succeeded"]
    assert runs_of_it()[0]["error"]
    capsys.readouterr()
    command.main(["history", *data], interrupts.Interrupts())
    shown = [line for line in capsys.readouterr().err.splitlines() if "byhand" in line]
    assert f" {run['run_id']} ingest of lake.served.byhand succeeded in " in shown[-1]
    assert shown[-1].endswith(": 2 rows")
    # A caller without the right to write the table loads nothing by it, and is not listed.
    pair = (users.access_key("carol"), users.secret_key("carol"))
    for task in ("ingest", "compaction", "replication"):
        path = f"jobs?task={task}&target=lake.served.byhand"
        assert served.ask("POST", path, pair=pair)[0] in (403, 404)
    assert served.ask("POST", "jobs?task=what&target=lake.served.byhand")[0] == 400


def test_a_copy_by_hand_is_listed_while_it_goes_on_and_after(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = "https://other.example/iceberg"
    for name in (replicas.ACCESS_KEY, replicas.SECRET_KEY):
        monkeypatch.setenv(name, "k" * 20)
    data = ("--data", str(served.running.data))
    copy = ["replicate", "--table", "lake.served.copied", "--to", target, *data]
    copy += ["--to-warehouse", "lake"]
    copied = replication.Replicated(
        files=3, size_bytes=500, metadata_location="s3://lake/t/metadata/2.json", since=None
    )
    outcomes: list[replication.Replicated | None] = [copied, None]
    during: list[Any] = []

    def run(*_: Any, **__: Any) -> replication.Replicated | None:
        during.extend(served.jobs("lake.served.copied"))
        if not outcomes:
            raise errors.PipelineError("the target does not answer")
        return outcomes.pop(0)

    monkeypatch.setattr(command.replication, "run", run)
    codes = [command.main(copy, interrupts.Interrupts()) for _ in range(3)]
    assert codes == [0, 0, 1]
    listed = served.jobs("lake.served.copied")
    assert [(run["task"], run["by_server"]) for run in listed] == [("replication", False)] * 3
    assert [run["state"] for run in during if run["run_id"] == listed[0]["run_id"]] == [
        "running", "succeeded", "succeeded"
    ]  # fmt: skip
    assert [(run["state"], run["error"]) for run in listed] == [
        ("succeeded", None), ("nothing", None), ("failed", "the target does not answer")
    ]  # fmt: skip
    assert (listed[0]["answer"]["to"], listed[0]["answer"]["files"]) == (target, 3)
    capsys.readouterr()
    command.main(["history", *data], interrupts.Interrupts())
    shown = [line for line in capsys.readouterr().err.splitlines() if "served.copied" in line]
    assert f" {listed[0]['run_id']} replication of lake.served.copied succeeded in " in shown[-1]
    assert shown[-1].endswith(": 3 files")


def test_runs_are_listed_by_pipeline_state_and_number(served: Served) -> None:
    run_ids = []
    for state in ("succeeded", "failed", "failed"):
        with leases.held(served.endpoint, "told", "lake.served.t", give_up=lambda: None) as own:
            own.state = state
            run_ids.append(own.run_id)
    with leases.held(served.endpoint, "untold", "lake.served.t", give_up=lambda: None) as own:
        pass
    served.put("told")

    def listed(path: str) -> list[str]:
        status, answer = served.ask("GET", path)
        assert status == 200, answer
        return [run["run_id"] for run in answer.get("jobs", answer.get("runs"))]

    newest_first = run_ids[::-1]
    assert listed("jobs?pipeline=told") == newest_first
    assert listed("jobs?limit=1") == [own.run_id]
    assert listed("jobs?pipeline=told&state=failed&limit=1") == newest_first[:1]
    assert listed("pipelines/told") == newest_first
    assert listed("pipelines/told?state=succeeded") == run_ids[:1]
    assert listed("pipelines/told?limit=2") == newest_first[:2]
    for query, count in (("", 1), ("?limit=0", 0), ("?limit=9&state=failed", 2)):
        pipelines = served.ask("GET", f"pipelines{query}")[1]["pipelines"]
        (listed_pipeline,) = [each for each in pipelines if each["name"] == "told"]
        assert len(listed_pipeline["runs"]) == count
    for query in ("state=done", "limit=-1", "limit=x", "limit=10000"):
        status, refusal = served.ask("GET", f"jobs?{query}")
        assert (status, refusal["type"]) == (400, "BadRequest")
        assert repr(query.partition("=")[2]) in refusal["message"]
    earlier = leases.earlier(served.endpoint, "told", "lake.served.t", "0" * 32)
    assert [run.run_id for run in earlier] == newest_first[:2]
    assert leases.earlier(served.endpoint, "told", "lake.served.other", "0" * 32) == []
    assert leases.interrupted_as(served.endpoint, run_ids[0]) == "interrupted"
    (served.folder / "told.toml").unlink()


def test_a_load_by_hand_that_meets_a_full_disk_is_listed_with_it(served: Served) -> None:
    name, said = "lake.served.full", "[Errno 28] No space left on device: '/tmp/part'"
    with (
        pytest.raises(OSError, match="No space left on device"),
        leases.noted(served.endpoint, "ingest", name, give_up=lambda: None),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/part")
    assert [(run["state"], run["error"]) for run in served.jobs(name)] == [("failed", said)]


def test_a_run_by_hand_ends_when_it_is_cancelled(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "PROLONG_SECONDS", 0.01)
    given_up: list[bool] = []
    with (
        contextlib.suppress(KeyboardInterrupt),
        leases.held(
            served.endpoint, "long", "lake.served.long", give_up=lambda: given_up.append(True)
        ) as own,
    ):
        assert leases.cancel(served.endpoint, own.run_id)["is_cancelled"]
        assert leases.interrupted_as(served.endpoint, own.run_id) == "cancelled"
        until(lambda: given_up)
        raise KeyboardInterrupt  # as give_up makes one in a program
    assert [run["state"] for run in served.jobs("long")] == ["cancelled"]
    with pytest.raises(errors.PipelineError, match="has ended"):
        leases.cancel(served.endpoint, own.run_id)


@pytest.mark.parametrize("is_cancel", [True, False])
def test_a_cancel_or_ctrl_c_after_a_run_has_ended_leaves_it_as_it_ended(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    interruption: interrupts.Interrupts,
    is_cancel: bool,
) -> None:
    monkeypatch.setattr(leases, "PROLONG_SECONDS", 0.01)
    name = f"late{is_cancel}".lower()
    asks, has_ended, ask = threading.Event(), threading.Event(), native.ask

    def late(*arguments: Any) -> Any:
        answer = ask(*arguments)
        if threading.current_thread() is threading.main_thread() or not answer["is_cancelled"]:
            return answer
        asks.set()
        assert has_ended.wait(waits.WAIT_SECONDS)
        time.sleep(0.05)  # the main thread waits for this one by now
        if not is_cancel:
            leases.interrupt_this_process()
        return answer

    monkeypatch.setattr(native, "ask", late)
    expected: Any = contextlib.nullcontext() if is_cancel else pytest.raises(KeyboardInterrupt)
    give_up = interrupts.cancel_one_job
    with (
        expected,
        interruption.of_one_job(),
        leases.held(served.endpoint, name, f"lake.served.{name}", give_up=give_up) as own,
    ):
        leases.cancel(served.endpoint, own.run_id)
        assert asks.wait(waits.WAIT_SECONDS)
        own.state = "succeeded"
        has_ended.set()
    assert [run["state"] for run in served.jobs(name)] == ["succeeded"]


def test_a_cancel_ends_one_job_of_a_shell_and_the_next_line_is_done(
    served: Served,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    interruption: interrupts.Interrupts,
) -> None:
    monkeypatch.setattr(leases, "PROLONG_SECONDS", 0.01)
    served.raw.put("typed/1.csv", "id\n1\n")
    load = f"ingest --from {served.raw.uri('typed/')} --to lake.served.typed\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(load * 2))
    run, cancelled = command.ingest.run, []

    def run_or_wait(*arguments: Any, **options: Any) -> Any:
        if cancelled:
            return run(*arguments, **options)
        (job,) = served.jobs("lake.served.typed")
        cancelled.append(leases.cancel(served.endpoint, job["run_id"]))
        threading.Event().wait(waits.WAIT_SECONDS)
        raise AssertionError("the job goes on")

    monkeypatch.setattr(command.ingest, "run", run_or_wait)
    code = command.main(["shell", "--data", str(served.running.data)], interruption)
    interrupts.cancel_one_job()  # one that comes late ends nothing
    said = capsys.readouterr().err
    assert code == 1, said
    assert "pipeline: the job was cancelled; the same line again does what it left\n" in said
    assert "shell failed: 1 of 2 jobs failed" in said
    assert [run["state"] for run in served.jobs("lake.served.typed")] == ["cancelled", "succeeded"]


def test_list_shows_which_pipelines_of_its_folder_the_server_refuses(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    served.put("late", schedule="61 * * * *")
    served.put("egg", after="hen")
    served.put("hen", after="egg")
    arguments = ["list", "--pipelines", str(served.folder), "--data", str(served.running.data)]
    try:
        assert command.main(arguments, interrupts.Interrupts()) == 0
        lines = capsys.readouterr().err.splitlines()
        reasons = {
            name: line.partition(": the server does not run it: ")[2]
            for name in ("late", "egg", "hen")
            for line in lines
            if line.startswith(f"pipeline: {name}: ")
        }
        assert "61" in reasons["late"]
        assert reasons["hen"] == "hen.toml: after leads back to 'hen'"
        assert reasons["egg"] == "egg.toml: after leads back to 'egg'"
    finally:
        for name in ("late", "egg", "hen"):
            (served.folder / f"{name}.toml").unlink()


def test_other_users_see_their_own_runs_alone_and_start_nothing(served: Served) -> None:
    with leases.held(served.endpoint, "mine", "lake.served.mine", give_up=lambda: None) as own:
        assert served.ask("POST", f"jobs?pipeline=p&target=lake.s.{'t' * 1000}")[0] == 400
        pair = (users.access_key("carol"), users.secret_key("carol"))
        assert served.ask("GET", "jobs", pair=pair) == (200, {"jobs": []})
        for method, path in (("GET", f"jobs/{own.run_id}"), ("DELETE", f"jobs/{own.run_id}")):
            assert served.ask(method, path, pair=pair)[0] == 404
        for method, path in (
            ("GET", "pipelines"),
            ("POST", "pipelines/first/run"),
            ("POST", "maintenance"),
            ("POST", "jobs?pipeline=p&target=lake.served.p"),
        ):
            assert served.ask(method, path, pair=pair)[0] == 403, path


def test_a_success_that_a_writer_of_the_table_claims_starts_no_other_users_pipeline(
    served: Served,
) -> None:
    catalogs.opened(served.endpoint, "lake").create_namespace_if_not_exists("alice")
    followed, follower = served.folder / "claimed.toml", served.folder / "follows.toml"
    followed.write_text('target = "lake.alice.claimed"\n')
    follower.write_text('target = "lake.served.follows"\nafter = "claimed"\n')
    alice = dataclasses.replace(
        served.endpoint, access_key=users.access_key("alice"), secret_key=users.secret_key("alice")
    )

    def claim(endpoint: Any) -> None:
        with leases.held(endpoint, "claimed", "lake.alice.claimed", give_up=lambda: None) as own:
            own.state = "succeeded"

    try:
        served.ask("POST", "pipelines/follows/run")  # the server knows both files then
        served.ended("follows")
        claim(alice)
        assert [run["state"] for run in served.jobs("claimed")] == ["succeeded"]
        assert served.ask("GET", "pipelines/follows")[1]["due_at_ms"] is None
        assert len(served.jobs("follows")) == 1
        claim(served.endpoint)
        served.ended("follows", 2)
    finally:
        follower.unlink()
        followed.unlink()


def test_a_killed_child_loads_nothing_twice(served: Served) -> None:
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    for number in range(40):
        served.raw.put(f"killed/{number}.csv", "id\n" + "1\n" * 50)
    served.put("killed")
    served.ask("POST", "pipelines/killed/run")

    def child() -> int | None:
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(served.running.pid)],
            capture_output=True, text=True, check=False,  # it fails where there is none
        ).stdout  # fmt: skip
        for line in listed.splitlines():
            if "-m pipeline serve" in line:
                return int(line.split()[0])
        return None

    pids: list[int | None] = []

    def is_under_way() -> bool:
        pids[:] = [child()]
        runs_of_it = served.jobs("killed")
        ended = any(run["state"] != "running" for run in runs_of_it)
        return ended or (pids[0] is not None and bool(runs_of_it))

    until(is_under_way)
    (pid,) = pids
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    (first, *_) = served.ended("killed")
    assert first["state"] in {"interrupted", "succeeded"}
    served.ask("POST", "pipelines/killed/run")
    last = served.ended("killed", 2)[-1]
    assert last["state"] in {"succeeded", "nothing"}
    # The next run has written the row of the one that was killed.
    kept = runs.find(served.endpoint, "lake", first["run_id"])
    assert kept["status"] == first["state"]
    if first["state"] == "interrupted":
        assert (kept["rows"], kept["engine"]) == (None, None)
        assert kept["error"] == first["error"]
        assert str(served.running.data / "logs" / "jobs-") in first["error"]
    written = runs.find(served.endpoint, "lake", last["run_id"])["log"]
    assert Path(written).parent == served.running.data.absolute() / "logs"
    table = catalogs.opened(served.endpoint, "lake").load_table("served.killed")
    assert table.scan().to_arrow().num_rows == 40 * 50


@pytest.mark.spark
def test_spark_compacts_a_table_that_needs_it_and_runs_a_pipeline_with_transforms(
    served: Served,
) -> None:
    catalog = catalogs.opened(served.endpoint, "lake")
    catalog.create_namespace_if_not_exists("kept")
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table("kept.t", schema=schema)
    for number in range(20):
        table.append(pa.Table.from_pylist([{"id": number}], schema=schema))
    assert len(list(table.scan().plan_files())) == 20
    s3tables = sources.client(served.endpoint, "s3tables")
    arn = s3tables.list_table_buckets()["tableBuckets"][0]["arn"]

    def status() -> Any:
        answer = s3tables.get_table_maintenance_job_status(
            tableBucketARN=arn, namespace="kept", name="t"
        )
        return answer["status"]["icebergCompaction"]

    assert status() == {"status": "Not_Yet_Run"}
    text = '[[transform]]\nname = "t"\nsql = "select id * 2 as id from source"\n'
    served.raw.put("transformed/1.csv", "id\n1\n2\n")
    served.put("transformed", text=text)
    assert served.ask("POST", "maintenance")[0] == 202
    served.ask("POST", "pipelines/transformed/run")
    until(lambda: status()["status"] != "Not_Yet_Run", seconds=SPARK_SECONDS)
    assert status()["status"] == "Successful", status()
    table.refresh()
    assert len(list(table.scan().plan_files())) == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(20))
    (run,) = served.ended("transformed", seconds=SPARK_SECONDS)
    assert (run["state"], run["answer"]["engine"]) == ("succeeded", "spark"), run["error"]
    rows = catalog.load_table("served.transformed").scan().to_arrow()["id"].to_pylist()
    assert sorted(rows) == [2, 4]
    kept = list((served.running.data / "logs").glob("spark-*.log"))
    assert any("WARN" in path.read_text() for path in kept), kept
