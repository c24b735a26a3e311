"""What a person meets who runs `mini.py`: one line for each mistake, and a server that lasts."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

import mini
from catalog import records
from catalog.rest import rows as iceberg_rows
from pipeline import machine
from server import config, connect
from server.aws import model as aws_model
from server.s3 import rows as s3_rows
from storage import batch, opening
from tests.kit import folders, lakes, rest, s3, waits
from tests.kit import server as servers
from tests.storage.test_opening import BIG, filled

MINI = servers.ROOT / "mini.py"
END_SECONDS = 60
DRAIN_SECONDS_MIN = 20
"""Less than the time that a server gives requests in flight."""

PENGUINS = ["SPECIES,BIRDS,GRAMS", "Adelie,152,3701", "Chinstrap,68,3733", "Gentoo,124,5076"]
"""What the sample query gives, worked out from pipeline/data/penguins.csv by hand."""
FORGED = (
    "AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/{service}/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=" + "0" * 64
)


def run(
    folder: Path,
    *arguments: str,
    environment: dict[str, str] | None = None,
    python: tuple[str, ...] = (sys.executable,),
) -> subprocess.CompletedProcess[str]:
    """Run `mini.py` in a folder until it ends by itself."""
    return subprocess.run(
        [*python, str(MINI), *arguments],
        cwd=folder,
        env={**servers.client_environment(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        check=False,
    )


def run_here(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `mini.py` in this process, for the cases of a table: a start costs 0.15 CPU seconds."""
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, servers.client_environment(), clear=True),
        contextlib.redirect_stdout(io.StringIO()) as printed,
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        code = mini.main(list(arguments))
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), said.getvalue())


def refusal(folder: Path, *arguments: str, **options: Any) -> str:
    """Run what must be refused: exit code 1, nothing printed, and one line that says why."""
    return refused(run(folder, *arguments, **options))


def refusal_here(folder: Path, *arguments: str) -> str:
    """The same in this process."""
    return refused(run_here(folder, *arguments))


def refused(ended: subprocess.CompletedProcess[str]) -> str:
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    said = servers.but_for_lateness(ended.stderr)
    assert said.endswith("\n")
    assert said.count("\n") == 1, ended.stderr
    assert "Traceback" not in said
    return said.removesuffix("\n")


def until(condition: Any) -> Any:
    """Return what a condition gives, as soon as it is true."""
    deadline = time.monotonic() + END_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
    return result


@pytest.fixture
def own(tmp_path: Path) -> Iterator[servers.Running]:
    """A server of the test's own."""
    running = servers.start(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Running]:
    """A server for tests that only look at it."""
    running = servers.start(tmp_path_factory.mktemp("shared") / "data")
    yield running
    assert running.stop() == 0


# One line for each mistake.


def test_start_without_the_packages_says_what_to_run(tmp_path: Path) -> None:
    said = refusal(tmp_path, "--port", "0", python=(sys.executable, "-I", "-S"))
    assert said == (
        "Boathouse's packages are not installed for this Python (lmdb is missing). "
        "Run `make run`, or `make setup` followed by `.venv/bin/python mini.py`."
    )
    assert list(tmp_path.iterdir()) == []


def test_start_on_a_taken_port_names_the_port_and_touches_nothing(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal(tmp_path, "--port", str(port))
    assert said == (
        f"mini.py: port {port} on 127.0.0.1 is taken by another process; stop it, or choose "
        "another with --port (0 takes a free one)."
    )
    assert list(tmp_path.iterdir()) == []


def test_start_on_a_held_folder_names_its_holder(shared: servers.Running, tmp_path: Path) -> None:
    said = refusal(tmp_path, "--port", "0", "--data", str(shared.data))
    assert said == (
        f"mini.py: another process holds the data folder {shared.data} (a server at {shared.url}, "
        f"process {shared.pid}); stop it, or choose another folder with --data."
    )
    assert servers.get(shared.url + "/_health")[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_without_a_query_has_not_loaded_arrow(shared: servers.Running) -> None:
    maps = Path(f"/proc/{shared.pid}/maps").read_text()
    assert ("/lmdb/" in maps, "/pyarrow/" in maps) == (True, False)


def test_start_on_a_newer_format_asks_for_a_newer_release(tmp_path: Path) -> None:
    assert servers.start(tmp_path / "data").stop() == 0
    place = tmp_path / "data" / "format.json"
    newer = {**json.loads(place.read_text()), "format": opening.FORMAT + 1}
    place.write_text(json.dumps(newer))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    said = refusal(tmp_path, "--port", "0", "--data", "data")
    assert said == (
        f"mini.py: the data folder {tmp_path / 'data'} has on-disk format "
        f"{opening.FORMAT + 1}, this release reads up to {opening.FORMAT}; "
        "start it with a newer release"
    )
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}


def test_start_without_the_index_names_the_way_back_and_keeps_every_blob(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "index")
    before = folders.blob_files(tmp_path / "data")
    said = refusal(tmp_path, "--port", "0", "--data", "data")
    assert said == (
        f"mini.py: the data folder {tmp_path / 'data'} has lost its index: put index/ back from a "
        "backup; without it the blobs have no names"
    )
    assert folders.blob_files(tmp_path / "data") == before


def test_recover_lists_what_it_would_remove_and_removes_it_with_yes(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    shutil.copytree(tmp_path / "data" / "index", tmp_path / "backup")
    storage = folders.open_folder(tmp_path / "data", ids=folders.Ids("later"))
    asyncio.run(folders.put(storage, "later", BIG))
    storage.close()
    shutil.rmtree(tmp_path / "data" / "index")
    shutil.copytree(tmp_path / "backup", tmp_path / "data" / "index")
    said = refusal(tmp_path, "--port", "0", "--data", "data")
    assert said == (
        "mini.py: 1 of 4 blobs were named before and the index does not name them now, so the "
        "index is older: put the newest index/ back, or let `mini.py recover --yes` remove the "
        "blobs"
    )
    heading = (
        f"Boathouse {config.VERSION}  recover data\n  blobs    4 files, {4 * len(BIG)} bytes\n"
    )
    unnamed = (
        f"  unnamed  remove 1 files, {len(BIG)} bytes, 25.0 % of all: 1 were named by the index "
        "before, 0 were being received\n"
    )
    dry = run(tmp_path, "recover", "--data", "data")
    ending = "  nothing was changed; `mini.py recover --yes` repairs the folder\n"
    assert (dry.returncode, dry.stdout, dry.stderr) == (0, heading + unnamed + ending, "")
    assert len(folders.blob_files(tmp_path / "data")) == 4
    done = run(tmp_path, "recover", "--data", "data", "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (0, heading + unnamed + "  done\n", "")
    assert len(folders.blob_files(tmp_path / "data")) == 3
    again = run(tmp_path, "recover", "--data", "data")
    assert again.stdout.endswith("  nothing to repair\n")
    assert servers.start(tmp_path / "data").stop() == 0


def test_recover_checks_the_commit_log_of_each_table_bucket(tmp_path: Path) -> None:
    with lakes.opened(tmp_path / "data") as lake:
        for name in ("one", "two", "three"):
            lake.run(lake.namespaces.create("lake", (name,), by=lakes.BY))
        place = lake.store.place("lake")
    whole = run(tmp_path, "recover", "--data", "data")
    assert whole.returncode == 0
    assert whole.stdout.splitlines()[2:] == [
        "  logs     3 commits in 1 table buckets",
        "  nothing to repair",
    ]
    with lakes.opened(tmp_path / "data") as lake:
        key = records.log_key(place.bucket_id, 2)
        value = lake.storage.index.get(batch.Store.LOG, key)
        assert value is not None
        changed = msgspec.structs.replace(records.decode(value, records.LogRecord), author="other")
        write = batch.Put(store=batch.Store.LOG, key=key, value=records.encode(changed))
        lake.run(lake.storage.index.commit(batch.Batch(writes=(write,))))
    for options in ((), ("--yes",)):
        broken = run(tmp_path, "recover", "--data", "data", *options)
        assert broken.returncode == 0
        assert broken.stdout.splitlines()[2:] == [
            "  logs     3 commits in 1 table buckets",
            "  broken   1 logs; no repair mends a log: put index/ back from a backup",
            "           lake: commit 3 does not name the one before as its parent",
            "  nothing to repair",
        ]


def test_recover_of_a_held_folder_names_its_holder(shared: servers.Running, tmp_path: Path) -> None:
    ended = run(tmp_path, "recover", "--data", str(shared.data), "--yes")
    assert ended.returncode == 1
    assert ended.stderr == (
        f"mini.py: another process holds the data folder {shared.data} (a server at {shared.url}, "
        f"process {shared.pid}); stop it first.\n"
    )


def test_recover_of_no_data_folder_makes_none(tmp_path: Path) -> None:
    ended = run(tmp_path, "recover", "--data", "data", "--yes")
    assert (ended.returncode, ended.stderr) == (1, "mini.py: data is not a data folder\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("port = [", "mini.py: mini.toml: Invalid value (at end of document)"),
        (
            "prot = 1",
            "mini.py: mini.toml: unknown key 'prot'; did you mean port?; the keys are "
            + ", ".join([*(setting.name for setting in config.SETTINGS), *config.FURTHER_KEYS]),
        ),
        (
            "[table_buckets.lake]\nlayuot = 'strict'",
            "mini.py: mini.toml [table_buckets.lake]: unknown key 'layuot'; "
            "did you mean layout?; the keys are layout, "
            "require_registered, aws_strict, requested_location, unreferenced_days, "
            "noncurrent_days, history_days, dropped_table_days, purge_on_drop, manifests_max, "
            "statistics_snapshots, protected",
        ),
        (
            "[table_buckets.lake]\nlayout = 'strickt'",
            "mini.py: mini.toml [table_buckets.lake] layout: 'strickt' is not one of off, names, "
            "strict",
        ),
        (
            "[table_buckets.lake]\nrequire_registered = 'yes'",
            "mini.py: mini.toml [table_buckets.lake] require_registered: 'yes' is not true or "
            "false",
        ),
        (
            "[table_buckets.Lake]",
            "mini.py: mini.toml [table_buckets.Lake]: the bucket name 'Lake' may hold only "
            "lower-case letters, digits and hyphens",
        ),
        (
            "[table_buckets]\nlake = 'strict'",
            "mini.py: mini.toml [table_buckets.lake]: not a table",
        ),
        ("users = 3", "mini.py: mini.toml users: not a list of [[users]] tables"),
        (
            "port = 'one'",
            "mini.py: mini.toml port: 'one' is not a whole number that is not negative",
        ),
        ("port = 65536", "mini.py: --port 65536 is not a port (0 to 65535)"),
        (
            "table_buckets = []",
            "mini.py: at least one --table-bucket is needed: it is the default warehouse",
        ),
        ("[[users]]\nname = 'a'", "mini.py: mini.toml [[users]] number 1: access_key is missing"),
        (
            "[[users]]\nname = 'a'\naccess_key = 'k'\nsecret_key = 's'\npolicies = ['{']",
            "mini.py: mini.toml [[users]] number 1: a policy is not valid JSON: Expecting property "
            "name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
    ],
)  # fmt: skip
def test_a_broken_settings_file_is_refused_by_name(
    tmp_path: Path, document: str, said: str
) -> None:
    (tmp_path / "mini.toml").write_text(document)
    assert refusal_here(tmp_path) == said
    assert [path.name for path in tmp_path.iterdir()] == ["mini.toml"]


def test_a_settings_file_that_is_named_and_absent_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "--config", "no.toml") == "mini.py: no.toml does not exist"
    named = {"BOATHOUSE_CONFIG": "no.toml"}
    assert refusal(tmp_path, environment=named) == "mini.py: no.toml does not exist"


def test_a_settings_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mini.toml").write_bytes(b"data = '\xff'")
    assert refusal(tmp_path).startswith("mini.py: mini.toml: ")


def test_a_policy_that_says_nothing_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mini.toml").write_text(
        "[[users]]\nname = 'a'\naccess_key = 'k'\nsecret_key = 's'\n"
        "[[users.policies]]\nStatement = 1"
    )
    assert refusal(tmp_path, "--port", "0").startswith("mini.py: ")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_no_auth_is_refused_where_others_reach_the_server(tmp_path: Path, host: str) -> None:
    assert refusal_here(tmp_path, "--no-auth", "--host", host) == (
        f"mini.py: --no-auth is refused on {host}: it would give root's rights to every "
        "client that reaches this machine. Use --host 127.0.0.1, or leave --no-auth out."
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--host", "192.0.2.1"], "mini.py: cannot listen on 192.0.2.1:0: "),
        (["--host", "no such host"], "mini.py: cannot listen on no such host:0: "),
        (["--account", "1"], "mini.py: account '1' is not 12 digits"),
        (["--tls-cert", "a.pem"], "mini.py: --tls-cert and --tls-key go together"),
        (["--tls-cert", "a.pem", "--tls-key", "b.pem"], "mini.py: --tls-cert a.pem is not a file"),
        (["--table-bucket", "iceberg"], "mini.py: the bucket name 'iceberg' is a word"),
        (["--bucket", "Not_A_Name"], "mini.py: the bucket name 'Not_A_Name' may hold only"),
        (["--bucket", "lake"], "mini.py: 'lake' is a table bucket already"),
        (["--data", "file"], "mini.py: --data file is a file, not a folder"),
        (["--data", "a\nb"], "mini.py: --data 'a\\nb': its path contains a control character or"),
        (
            ["--data", "a\udcff"],
            "mini.py: --data 'a\\udcff': its path contains a control character or",
        ),
        (["--ready-file", "no/ready.json"], "mini.py: --ready-file no/ready.json: its folder"),
        (
            ["--jobs-memory-mib", "99999999"],
            "mini.py: --jobs-memory-mib 99999999 is more than the ",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, flags: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("a file")
    assert refusal_here(tmp_path, "--port", "0", *flags).startswith(said)


def test_a_warehouse_with_more_memory_than_the_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mini.toml").write_text(
        '[[warehouses]]\nname = "big"\nengine = "spark"\nmemory_mib = 16777216\n'
    )
    said = refusal(tmp_path, "--port", "0")
    assert said.startswith(
        "mini.py: mini.toml warehouse BIG: memory_mib 16777216 is more than the "
    )
    assert said.endswith(" MiB that this machine has")


def test_a_heap_is_compared_with_a_containers_limit_if_the_settings_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{958 << 20}\n")
    monkeypatch.setattr(machine, "CGROUP_LIMITS", (limit,))
    big = {"name": "big", "engine": "spark"}
    mini._check_memory(config.resolve({}, {}, {"warehouses": [big]}))
    mini._check_memory(config.resolve({"jobs_memory_mib": 958}, {}, {}))
    with pytest.raises(config.InvalidConfig) as caught:
        mini._check_memory(config.resolve({}, {}, {"warehouses": [{**big, "memory_mib": 1024}]}))
    assert str(caught.value) == (
        "mini.toml warehouse BIG: memory_mib 1024 is more than the 958 MiB that this machine has"
    )


def test_a_data_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    said = refusal(tmp_path, "--port", "0", "--data", "file/data")
    place = tmp_path.resolve() / "file" / "data"
    assert said == f"mini.py: {place} cannot be used: Not a directory"


def test_a_server_in_the_usual_folder_prints_the_short_commands(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(MINI), "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=servers.client_environment(),
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        commands = [line for line in itertools.takewhile(unready, lines) if "mini.py" in line]
    finally:
        process.terminate()
        assert process.wait(END_SECONDS) == 0
    clients = "|".join(sorted(connect.CLIENTS))
    assert commands == [
        '  try         .venv/bin/python mini.py sql "select current_version()"\n',
        f"  clients     .venv/bin/python mini.py connect {clients}\n",
    ]


def unready(line: str) -> bool:
    return not line.startswith("ready in ")


def test_a_ready_file_that_cannot_be_written_ends_the_server(tmp_path: Path) -> None:
    """A process that waits for the file would wait for ever; here a folder has its name."""
    (tmp_path / "ready.json").mkdir()
    assert "ready.json" in refusal(tmp_path, "--port", "0", "--ready-file", "ready.json")


def test_keys_that_were_damaged_are_named_and_kept(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "root.json").write_text("{")
    said = refusal(tmp_path, "--port", "0", "--data", "data")
    place = tmp_path.resolve() / "data" / "root.json"
    assert said == (
        f"mini.py: {place} cannot be read; restore it from a backup, or move it away to get "
        "new keys"
    )
    assert (tmp_path / "data" / "root.json").read_text() == "{"


@pytest.mark.parametrize("arguments", [["--prot", "1"], ["--port", "one"], ["connect", "cobol"]])
def test_an_unknown_flag_shows_the_usage(tmp_path: Path, arguments: list[str]) -> None:
    ended = run(tmp_path, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "usage: mini.py" in ended.stderr
    assert arguments[-1] in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


# The first start, and the second.


def test_first_start_shows_the_keys_once_and_keeps_them_from_others(tmp_path: Path) -> None:
    first = servers.start(tmp_path / "data")
    keys = json.loads((first.data / "root.json").read_text())
    assert stat.S_IMODE((first.data / "root.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((first.data / "keys.json").stat().st_mode) == 0o600
    assert (keys["access_key"], keys["secret_key"]) == (first.access_key, first.secret_key)
    assert first.stop() == 0
    clients = "|".join(sorted(connect.CLIENTS))
    banner = (
        rf"Boathouse {re.escape(config.VERSION)}  {re.escape(first.url)}\n"
        rf"  access key  {first.access_key}\n"
        rf"  secret key  {re.escape(first.secret_key)}   \(shown this once\)\n"
        rf"  keys        {re.escape(str(first.data))}/root.json\n"
        rf"  data        {re.escape(str(first.data))}\n"
        rf"  try         \.venv/bin/python mini\.py sql --data {re.escape(str(first.data))} "
        r'"select current_version\(\)"' + "\n"
        r"  clients     \.venv/bin/python mini\.py connect --data "
        rf"{re.escape(str(first.data))} {re.escape(clients)}\n"
        r"ready in \d+\.\d s\n"
    )
    assert re.fullmatch(banner, servers.but_for_lateness(first.log.read_text()))

    first.log.unlink()
    second = servers.start(tmp_path / "data")
    assert second.stop() == 0
    assert (second.access_key, second.secret_key) == (first.access_key, first.secret_key)
    assert second.secret_key not in second.log.read_text()


def test_second_start_is_ready_soon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert servers.start(tmp_path / "data").stop() == 0
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(MINI), "--data", "data", "--port", "0", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=servers.client_environment(),
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        seconds = time.monotonic() - started
        assert servers.get(said["url"] + "/_health")[0] == 200
    finally:
        process.terminate()
        assert process.wait(END_SECONDS) == 0
    # A figure to read, not a limit: a busy machine is no defect.
    with capsys.disabled():
        print(f"\n[second start: {seconds:.2f} s, of which its own {said['ready_seconds']:.2f} s]")
    assert said["ready_seconds"] <= seconds


def test_json_is_one_object_with_everything_a_script_needs(tmp_path: Path) -> None:
    serving = [sys.executable, str(MINI), "--data", "data", "--port", "0"]
    process = subprocess.Popen(
        [*serving, "--json", "--ready-file", "ready.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=servers.client_environment(),
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        ready = json.loads((tmp_path / "ready.json").read_text())
    finally:
        process.terminate()
        assert process.wait(END_SECONDS) == 0
    assert process.stdout.read() == b""
    keys = json.loads((tmp_path / "data" / "root.json").read_text())
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", ready["url"])
    assert ready == {
        "url": ready["url"],
        "access_key": keys["access_key"],
        "secret_key": keys["secret_key"],
        "data": str((tmp_path / "data").resolve()),
        "pid": process.pid,
    }
    assert said == {**ready, "ready_seconds": said["ready_seconds"]}
    assert 0 < said["ready_seconds"] < END_SECONDS
    assert not (tmp_path / "data" / "running.json").exists()


def test_every_way_to_set_a_setting_works_and_a_flag_wins(tmp_path: Path) -> None:
    (tmp_path / "mini.toml").write_text(
        'region = "eu-west-1"\ntable_buckets = ["file"]\nbuckets = ["raw"]\ndata = "nowhere"\n'
        'account = "111111111111"\n'
    )
    running = servers.start(
        tmp_path / "data",
        *["--config", str(tmp_path / "mini.toml"), "--region", "eu-west-3"],
        environment={
            "BOATHOUSE_TABLE_BUCKET": "one, two",
            "BOATHOUSE_REGION": "eu-west-2",
            "BOATHOUSE_ACCESS_KEY": "AKPERSON",
            "BOATHOUSE_SECRET_KEY": "a secret of her own",
            "BOATHOUSE_JSON": "yes",
        },
    )
    try:
        assert (running.access_key, running.secret_key) == ("AKPERSON", "a secret of her own")
        assert not (running.data / "root.json").exists()
        names = {bucket["Name"] for bucket in s3.client(running).list_buckets()["Buckets"]}
        assert names == {"one", "two", "raw"}
        running_file = json.loads((running.data / "running.json").read_text())
        assert running_file["region"] == "eu-west-3"
        assert running_file["table_buckets"] == ["one", "two"]
        keys = {"BOATHOUSE_ACCESS_KEY": "AKPERSON", "BOATHOUSE_SECRET_KEY": "a secret of her own"}
        shown = run(tmp_path, "connect", "boto3", "--data", "data", environment=keys)
        assert "a secret of her own" in shown.stdout
        arns = [bucket["arn"] for bucket in table_buckets(running)]
        assert arns == [
            "arn:aws:s3tables:eu-west-3:111111111111:bucket/one",
            "arn:aws:s3tables:eu-west-3:111111111111:bucket/two",
        ]
    finally:
        assert running.stop() == 0
    assert servers.but_for_lateness(running.log.read_text()).count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_buckets_of_the_flags_are_there_and_stay(tmp_path: Path) -> None:
    flags = [
        "--table-bucket",
        "lake",
        "--table-bucket",
        "dev",
        "--bucket",
        "raw",
        "--bucket",
        "b2b",
    ]
    first = servers.start(tmp_path / "data", *flags)
    try:
        s3.client(first).put_object(Bucket="raw", Key="k", Body=b"kept")
    finally:
        assert first.stop() == 0
    second = servers.start(tmp_path / "data", *flags)
    try:
        client = s3.client(second)
        assert {row["Name"] for row in client.list_buckets()["Buckets"]} == {
            *("b2b", "dev", "lake", "raw")
        }
        assert [row["name"] for row in table_buckets(second)] == ["dev", "lake"]
        assert client.get_object(Bucket="raw", Key="k")["Body"].read() == b"kept"
    finally:
        assert second.stop() == 0


def table_buckets(running: servers.Running) -> list[dict[str, Any]]:
    import boto3

    client = boto3.client(
        "s3tables",
        endpoint_url=running.url,
        region_name="eu-west-3" if "eu-west-3" in running.log.read_text() else s3.REGION,
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )
    listed: list[dict[str, Any]] = client.list_table_buckets()["tableBuckets"]
    return sorted(listed, key=lambda row: str(row["name"]))


# The end.


BODY = bytes(range(256)) * 1024


def send_half(running: servers.Running) -> http.client.HTTPConnection:
    """Begin to put `raw/late`; return the connection once half of BODY has arrived."""
    s3.client(running).create_bucket(Bucket="raw")
    headers = s3.sign(running, "PUT", "/raw/late", payload_hash="UNSIGNED-PAYLOAD")
    sending = http.client.HTTPConnection(running.host, running.port, timeout=END_SECONDS)
    sending.putrequest("PUT", "/raw/late", skip_host=True, skip_accept_encoding=True)
    for name, value in {**headers, "content-length": str(len(BODY))}.items():
        sending.putheader(name, value)
    sending.endheaders(BODY[: len(BODY) // 2])
    # It has arrived once the server counts a second request beside the one that asks.
    until(lambda: b"boathouse_requests_in_flight 2" in admin(running, "/_metrics")[1])
    return sending


def test_sigterm_lets_a_request_in_flight_finish(own: servers.Running) -> None:
    sending = send_half(own)
    own.process.send_signal(signal.SIGTERM)
    until(lambda: refuses(own))
    assert own.process.poll() is None
    sending.send(BODY[len(BODY) // 2 :])
    answer = sending.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    sending.close()
    assert own.process.wait(END_SECONDS) == 0
    assert not (own.data / "running.json").exists()

    again = servers.start(own.data)
    try:
        body = s3.client(again).get_object(Bucket="raw", Key="late")["Body"].read()
    finally:
        assert again.stop() == 0
    assert body == BODY


def test_sigterm_waits_little_for_clients_that_have_stopped(own: servers.Running) -> None:
    s3.client(own).create_bucket(Bucket="raw")
    s3.client(own).put_object(Bucket="raw", Key="large", Body=bytes(32 << 20))
    sending = [begin_put(own, "raw", f"late-{number}", 4 << 20) for number in range(3)]
    reading = http.client.HTTPConnection(own.host, own.port, timeout=END_SECONDS)
    headers = s3.sign(own, "GET", "/raw/large", payload_hash="UNSIGNED-PAYLOAD")
    reading.request("GET", "/raw/large", headers=headers)
    assert reading.getresponse().read(1) == b"\0"
    until(lambda: list((own.data / "tmp").iterdir()))
    own.process.send_signal(signal.SIGTERM)
    assert own.process.wait(DRAIN_SECONDS_MIN) == 0
    assert [each.getresponse().status for each in sending] == [400] * 3
    for each in (*sending, reading):
        each.close()
    assert list((own.data / "tmp").iterdir()) == []
    assert "Traceback" not in own.log.read_text()


def begin_put(
    running: servers.Running, bucket: str, key: str, size_bytes: int
) -> http.client.HTTPConnection:
    """Begin to put an object and stop one byte before its end."""
    headers = s3.sign(running, "PUT", f"/{bucket}/{key}", payload_hash="UNSIGNED-PAYLOAD")
    sending = http.client.HTTPConnection(running.host, running.port, timeout=END_SECONDS)
    sending.putrequest("PUT", f"/{bucket}/{key}", skip_host=True, skip_accept_encoding=True)
    for name, value in {**headers, "content-length": str(size_bytes)}.items():
        sending.putheader(name, value)
    sending.endheaders(bytes(size_bytes - 1))
    return sending


def test_a_body_that_stops_is_a_request_timeout_and_nothing_of_it_stays(tmp_path: Path) -> None:
    running = servers.start(tmp_path / "data", "--bucket", "raw", "--idle-timeout-seconds", "1")
    try:
        sending = begin_put(running, "raw", "k", 4 << 20)
        answer = sending.getresponse()
        body = answer.read()
        assert (answer.status, b"<Code>RequestTimeout</Code>" in body) == (400, True)
        assert answer.getheader("connection") == "close"
        sending.close()
        until(lambda: not list((running.data / "tmp").iterdir()))
        assert s3.client(running).list_objects_v2(Bucket="raw")["KeyCount"] == 0
    finally:
        assert running.stop() == 0


def test_a_second_ctrl_c_ends_requests_in_flight(own: servers.Running) -> None:
    sending = send_half(own)
    own.process.send_signal(signal.SIGINT)
    until(lambda: refuses(own))
    assert own.process.poll() is None
    own.process.send_signal(signal.SIGINT)
    assert own.process.wait(DRAIN_SECONDS_MIN) == 0
    sending.close()
    again = servers.start(own.data)
    try:
        assert s3.client(again).list_objects_v2(Bucket="raw")["KeyCount"] == 0
    finally:
        assert again.stop() == 0


def refuses(running: servers.Running) -> bool:
    try:
        socket.create_connection((running.host, running.port), timeout=5).close()
    except OSError:
        return True
    return False


def admin(running: servers.Running, path: str) -> tuple[int, bytes]:
    """GET a path of the native API as root."""
    token = rest.Client(running).token
    connection = http.client.HTTPConnection(running.host, running.port, timeout=waits.WAIT_SECONDS)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_ctrl_c_ends_the_server_with_exit_code_0(own: servers.Running) -> None:
    with rest.Client(own) as client:
        client.make_table("ns", "t")
    own.process.send_signal(signal.SIGINT)
    assert own.process.wait(END_SECONDS) == 0
    assert "Traceback" not in own.log.read_text()
    again = servers.start(own.data)
    try:
        with rest.Client(again) as client:
            assert client.ask("GET", "namespaces/ns/tables/t")[0] == 200
    finally:
        assert again.stop() == 0


def test_a_killed_server_leaves_neither_a_worker_nor_a_lock(
    own: servers.Running, tmp_path: Path
) -> None:
    result = run(
        tmp_path,
        "sql",
        "select sum(column1) as a from values (40), (2)",
        "--data",
        str(own.data),
        "--format",
        "csv",
    )
    assert (result.returncode, result.stdout.splitlines()) == (0, ["A", "42"]), result.stderr
    workers = children_of(own.pid)
    assert workers
    own.kill()
    again = servers.start(own.data)
    try:
        until(lambda: not any(is_there(pid) for pid in workers))
        assert servers.get(again.url + "/_health")[0] == 200
    finally:
        assert again.stop() == 0


def is_there(pid: int) -> bool:
    """Say whether a process runs; one that only waits for its parent to look does not."""
    state = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    pairs = zip(map(int, listed[::2]), map(int, listed[1::2]), strict=True)
    return [child for child, parent in pairs if parent == pid]


def test_no_auth_admits_every_local_client_and_logs_a_warning(tmp_path: Path) -> None:
    running = servers.start(tmp_path / "data", "--no-auth")
    try:
        assert servers.get(running.url + "/lake")[0] == 200
        assert servers.get(running.iceberg + "/v1/config")[0] == 200
        warning = "  WARNING     --no-auth: every process on this machine has root's rights\n"
        assert warning in running.log.read_text()
    finally:
        assert running.stop() == 0


# No face admits a request without a credential.


def doors() -> list[tuple[str, str, str]]:
    """Every route of every face: method, path, and the service a forged signature names."""
    requests = []
    methods = ("GET", "HEAD", "PUT", "POST", "DELETE")
    for path in ("/", "/kept", "/kept/k", "/lake", "/lake/ns/t/data/f.parquet", "/new"):
        methods_of_path = methods if path != "/" else ("GET", "HEAD")
        requests += [(method, path, "s3") for method in methods_of_path]
    for row in s3_rows.ROWS:
        if row.subresource:
            below = "/kept" if row.scope == "bucket" else "/kept/k"
            requests += [(method, f"{below}?{row.subresource}", "s3") for method in row.methods]
    for operation in aws_model.load("s3tables").operations.values():
        parts = [part if isinstance(part, str) else "x" for part in operation.route]
        requests.append((operation.method, "/" + "/".join(parts), "s3tables"))
    labels = {"prefix": "lake", "namespace": "ns", "table": "t", "view": "v"}
    for route in iceberg_rows.ROWS:
        if route.name != "getToken":
            path = re.sub(r"\{([^}]*)\}", lambda m: labels.get(m.group(1), "x"), route.path)
            requests.append((route.method, "/iceberg" + path, "s3tables"))
    for path in (
        *("/_metrics", "/_console", "/_api/v1/x", "/_api/v1/warehouses/lake/loads?table=ns.t"),
        *("/_api/v1/warehouses/lake/metrics?table=ns.t",),
    ):
        requests += [(method, path, "") for method in methods]
    return requests


def test_no_face_answers_anything_but_health_without_a_credential(shared: servers.Running) -> None:
    with rest.Client(shared) as client:
        client.make_table("ns", "t")
        root = client.token
    s3.client(shared).create_bucket(Bucket="kept")
    s3.client(shared).put_object(Bucket="kept", Key="k", Body=b"kept")
    before = everything(shared, root)
    connection = http.client.HTTPConnection(shared.host, shared.port, timeout=waits.WAIT_SECONDS)
    requests = refused = absent = 0
    for method, path, service in doors():
        forged = FORGED.format(key=shared.access_key, service=service)
        signed = {"authorization": forged, "x-amz-date": "20260101T000000Z"}
        # Another name each time: one that fails often is told to wait.
        stranger = base64.b64encode(f"stranger{requests}:boathouse".encode()).decode()
        proofs: list[dict[str, str]] = [
            {},
            {"authorization": "Bearer " + root[:-4] + "AAAA"},
            {"authorization": "Basic " + stranger},
            {"authorization": 'Snowflake Token="None"'},
        ]
        for headers in [*proofs, *([signed] if service else [])]:
            connection.request(method, path, b"{}" if method in ("PUT", "POST") else None, headers)
            answer = connection.getresponse()
            body = answer.read()
            # A POST to a bucket must be a form: 412 comes before the form's proof is read.
            refusals = (400, 401, 403, 405, *([412] if method == "POST" else []))
            if answer.status == 404:
                # Every caller learns that a bucket does not exist. A request without a signature
                # names no service: a route of s3tables is then the path of such a bucket.
                assert re.split("[/?]", path)[1] not in ("kept", "lake", "iceberg"), (path, body)
                assert headers is not signed
                assert method == "HEAD" or b"<Code>NoSuchBucket</Code>" in body, (path, body)
                absent += 1
            else:
                assert answer.status in refusals, (method, path, headers, body)
            refused += answer.status in (401, 403)
            requests += 1
    connection.close()
    # The rest are no requests at all: a method that no path takes, a body without its digest.
    assert requests > 900
    assert refused > 0.5 * (requests - absent), (refused, absent, requests)
    assert everything(shared, root) == before

    assert servers.get(shared.url + "/_health")[0] == 200


def everything(running: servers.Running, token: str) -> Any:
    """What the server holds, as root sees it."""
    client = s3.client(running)
    buckets = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    with rest.Client(running, token=token) as catalog:
        return (
            buckets,
            [row["name"] for row in table_buckets(running)],
            [
                [(row["Key"], row["ETag"], row["LastModified"]) for row in page.get("Contents", [])]
                for page in (client.list_objects_v2(Bucket=name) for name in [*buckets, "lake"])
            ],
            catalog.ask("GET", "namespaces"),
            catalog.ask("GET", "namespaces/ns/tables/t"),
        )


SNOWFLAKE_DOORS = (
    ("POST", "/session/v1/login-request?databaseName=lake"),
    ("POST", "/session/token-request"),
    ("POST", "/session/heartbeat"),
    ("POST", "/session?delete=true"),
    ("POST", "/queries/v1/query-request?requestId=1"),
    ("POST", "/queries/v1/abort-request"),
    ("POST", "/queries/1/abort-request"),
    ("GET", "/queries/1/result"),
    ("GET", "/queries/1/chunks/0?expires=9999999999999&signature=00"),
    ("GET", "/monitoring/queries/1"),
)


def test_the_snowflake_face_answers_refusals_alone_without_a_credential(
    shared: servers.Running,
) -> None:
    proofs: list[dict[str, str]] = [
        {},
        {"authorization": 'Snowflake Token="None"'},
        {"authorization": 'Snowflake Token="' + rest.Client(shared).token + '"'},
    ]
    for method, path in SNOWFLAKE_DOORS:
        for headers in proofs:
            connection = http.client.HTTPConnection(
                shared.host, shared.port, timeout=waits.WAIT_SECONDS
            )
            body = json.dumps({"data": {"LOGIN_NAME": shared.access_key}, "sqlText": "select 1"})
            connection.request(method, path, body if method == "POST" else None, headers)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if answer.status == 200:  # a fault of a session, as drivers want it
                said = json.loads(content)
                assert said["success"] is False, (path, said)
                assert "token" not in (said.get("data") or {}), (path, said)
            else:
                assert answer.status in (401, 403), (method, path, answer.status, content)


# The other subcommands.


@pytest.mark.parametrize("client", sorted(connect.CLIENTS))
def test_connect_prints_settings_with_address_and_keys(
    server: servers.Running, tmp_path: Path, client: str
) -> None:
    ended = run_here(tmp_path, "connect", client, "--data", str(server.data))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert server.access_key in ended.stdout
    assert server.secret_key in ended.stdout
    assert server.url in ended.stdout or f"{server.port}" in ended.stdout
    other = run_here(tmp_path, "connect", client, "--data", str(server.data), "--warehouse", "mine")
    assert other.returncode == 0
    assert ("mine" in other.stdout) == (client != "boto3")


def write_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a certificate that no authority signed, and its key. name: as OpenSSL has it."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=boathouse", "-addext", f"subjectAltName={name}",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[servers.Running, Path]]:
    """A server with a certificate of its own, and that certificate."""
    folder = tmp_path_factory.mktemp("encrypted")
    certificate, key = write_certificate(folder, "IP:127.0.0.1")
    flags = ("--sample-data", "--tls-cert", str(certificate), "--tls-key", str(key))
    running = servers.start(folder / "data", *flags)
    yield running, certificate
    assert running.stop() == 0
    assert not (running.data / "certificates.pem").exists()


def test_sql_and_samples_trust_the_certificate_of_their_server(
    encrypted: tuple[servers.Running, Path], tmp_path: Path
) -> None:
    running, _ = encrypted
    words = ("sql", "select count(*) from samples.penguins", "--data", str(running.data))

    def counted() -> str:
        return run(tmp_path, *words, "--format", "csv").stdout

    until(lambda: "344" in counted())


def test_the_file_of_trusted_certificates_holds_no_key(
    encrypted: tuple[servers.Running, Path],
) -> None:
    running, certificate = encrypted
    text = (running.data / "certificates.pem").read_text()
    assert text.startswith(certificate.read_text().strip())
    assert "PRIVATE KEY" not in text


def test_sql_says_how_a_self_signed_certificate_is_trusted(
    encrypted: tuple[servers.Running, Path], tmp_path: Path
) -> None:
    running, certificate = encrypted
    elsewhere = tmp_path / "data"  # as a copy of a folder from before the server had a certificate
    elsewhere.mkdir()
    shutil.copy(running.data / "root.json", elsewhere)
    content = json.loads((running.data / "running.json").read_text())
    del content["certificates"]
    (elsewhere / "running.json").write_text(json.dumps(content))
    words = ("sql", "select 1", "--data", str(elsewhere))
    refused = run(tmp_path, *words)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"the certificate of {running.url} is not trusted: self-signed certificate; if it is "
        "self-signed, set SSL_CERT_FILE to its PEM file\n"
    )
    assert run(tmp_path, *words, environment={"SSL_CERT_FILE": str(certificate)}).returncode == 0


@pytest.mark.parametrize("text", ["put file:///tmp/rows.csv @~/in", "select 1; get @~ file:///tmp"])
def test_sql_does_not_pass_over_a_transfer_of_files(
    encrypted: tuple[servers.Running, Path], tmp_path: Path, text: str
) -> None:
    ended = run(tmp_path, "sql", text, "--data", str(encrypted[0].data))
    assert ended.returncode == 1
    assert ended.stderr == (
        "the file was not transferred: PUT and GET need a Snowflake driver, see "
        "`mini.py connect snowflake`\n"
    )


def test_a_certificate_for_another_address_is_said_at_the_start(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path, "DNS:lake.example.com")
    flags = ("--tls-cert", str(certificate), "--tls-key", str(key))
    running = servers.start(tmp_path / "data", *flags)
    try:
        until(
            lambda: "clients on this machine refuse https://127.0.0.1:" in running.log.read_text()
        )
        said = running.log.read_text()
        assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in said
    finally:
        assert running.stop() == 0


def test_a_certificate_without_its_key_is_refused_by_name(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path, "IP:127.0.0.1")
    other = tmp_path / "other"
    other.mkdir()
    _, foreign = write_certificate(other, "IP:127.0.0.1")
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "rsa", "-aes256", "-passout", "pass:x", "-in", str(key), "-out", str(locked)],
        check=True,
        capture_output=True,
    )
    for wrong in (foreign, locked, certificate):
        said = refusal(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(wrong))
        assert said.startswith(
            f"mini.py: --tls-cert {certificate} and --tls-key {wrong} are no certificate and its "
            "key, in PEM and not encrypted: "
        )


@pytest.mark.parametrize("client", sorted(connect.CLIENTS))
def test_connect_over_https_says_how_a_self_signed_certificate_is_trusted(
    encrypted: tuple[servers.Running, Path], tmp_path: Path, client: str
) -> None:
    ended = run_here(tmp_path, "connect", client, "--data", str(encrypted[0].data))
    first, _, rest = ended.stdout.partition("\n")
    assert "If the server's certificate is self-signed: " in first
    assert first.startswith("-- " if client == "duckdb" else "# ")
    assert encrypted[0].access_key in rest


@pytest.mark.parametrize("command", [["sql", "select 1"], ["connect", "boto3"]])
def test_a_subcommand_without_a_server_says_what_to_run(tmp_path: Path, command: list[str]) -> None:
    assert refusal(tmp_path, *command) == (
        "No server runs on the data folder './boathouse-data'. Start one with `make run`, or "
        "name another folder with --data."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_subcommand_after_a_crash_does_not_take_the_dead_for_the_living(
    own: servers.Running, tmp_path: Path
) -> None:
    own.kill()
    assert (own.data / "running.json").exists()
    said = refusal(tmp_path, "connect", "boto3", "--data", str(own.data))
    assert said.startswith(f"No server runs on the data folder {str(own.data)!r}.")


def test_sample_data_is_loaded_through_the_catalog_once(tmp_path: Path) -> None:
    for _ in range(2):
        running = servers.start(tmp_path / "data", "--sample-data")
        try:
            log = running.log
            until(lambda log=log: "try: .venv/bin/python mini.py sql " in log.read_text())
            with rest.Client(running) as client:
                status, loaded = client.ask("GET", "namespaces/samples/tables/penguins")
            assert status == 200
            (snapshot,) = loaded["metadata"]["snapshots"]
            assert snapshot["summary"]["total-records"] == "344"
            printed = log.read_text().rpartition("try: .venv/bin/python mini.py ")[2]
            result = run(tmp_path, *shlex.split(printed), "--format", "csv")
            assert (result.returncode, result.stderr) == (0, "")
            assert result.stdout.splitlines() == PENGUINS
        finally:
            assert running.stop() == 0
        assert "Traceback" not in running.log.read_text()
        running.log.unlink()


def test_a_low_limit_of_open_files_is_raised() -> None:
    code = (
        "import resource, mini; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard)); mini._raise_files_limit();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=servers.ROOT, capture_output=True, check=True, timeout=60
    )
    assert int(shown.stdout) > 100


def test_version_is_the_one_of_the_code(tmp_path: Path) -> None:
    ended = run(tmp_path, "--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, f"Boathouse {config.VERSION}\n", "",
    )  # fmt: skip
