"""`python -m pipeline`: arguments, sentences and exit codes, without Spark."""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from pipeline import __main__ as command
from pipeline import commandline, errors, interrupts, progress
from tests.kit import server as server_kit
from tests.kit import waits
from tests.pipeline.lake import Raw

INGEST = ("ingest", "--from", "s3://raw/in/", "--to", "lake.ns.t")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = command.main(list(arguments), interrupts.Interrupts())
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: job"),
        (("orphan",), "invalid choice: 'orphan'"),
        (("ingest", "--to", "lake.a.b"), "the following arguments are required: --from"),
        (("ingest", "--from", "s3://raw"), "the following arguments are required: --to"),
        ((*INGEST, "--format", "xml"), "invalid choice: 'xml'"),
        ((*INGEST, "--mode", "update"), "invalid choice: 'update'"),
        (("compact",), "the following arguments are required: --table"),
        (("compact", "--table", "l.n.t", "--min-input-files", "x"), "invalid int value: 'x'"),
        (("expire", "--table", "l.n.t", "--retain-last", "x"), "invalid int value: 'x'"),
    ],
)
def test_wrong_flags_end_with_2_and_name_themselves(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(list(arguments), interrupts.Interrupts())
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pipeline: ")
    assert said in line
    of_job = f" {arguments[0]}" if arguments not in ((), ("orphan",)) else ""
    assert line.endswith(f"; `python -m pipeline{of_job} --help` says what there is")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("ingest", "--from", "s3://raw/in/a.JSONL.gz", "--to", "lake.ns.t"),
            "pipeline: ingest failed: s3://raw/in/a.JSONL.gz looks like json: add --format json, "
            "or --format csv if it is CSV",
        ),
        (
            ("ingest", "--from", "s3://raw/a.csv", "--from", "./b.parquet", "--to", "lake.ns.t"),
            "pipeline: ingest failed: ./b.parquet looks like parquet: add --format parquet, "
            "or --format csv if it is CSV",
        ),
        (
            ("ingest", "--from", "raw/in", "--to", "lake.a.b"),
            "pipeline: ingest failed: 'raw/in' is not a source: write s3://bucket/prefix, or "
            "./raw/in for a file or folder of this machine",
        ),
        (
            ("ingest", "--from", "s3://raw", "--to", "lake.t"),
            "pipeline: ingest failed: 'lake.t' is not a table: write warehouse.namespace.table, "
            "like lake.sales.orders",
        ),
        (
            (*INGEST, "--mode", "merge"),
            "pipeline: ingest failed: --mode merge needs --key: the columns that identify a row",
        ),
        (
            (*INGEST, "--mode", "replace", "--order-by", "at"),
            "pipeline: ingest failed: --order-by is for --mode merge",
        ),
        (
            (*INGEST, "--partition-by", "week(d)"),
            "pipeline: ingest failed: 'week(d)' is not a partition transform: use column, "
            "year(c), month(c), day(c), hour(c), bucket(n, c) or truncate(n, c)",
        ),
        (
            (*INGEST, "--partition-by", ""),
            "pipeline: ingest failed: --partition-by has an empty entry: write column, "
            "month(c), ...",
        ),
        (
            (*INGEST, "--option", "nullValue"),
            "pipeline: ingest failed: --option 'nullValue' is not NAME=VALUE",
        ),
        (
            (*INGEST, "--option", "seperator=;", "--format", "orc"),
            "pipeline: ingest failed: --option seperator: orc has no such option; it has "
            "ignoreCorruptFiles, ignoreMissingFiles, mergeSchema, modifiedAfter, modifiedBefore, "
            "pathGlobFilter, recursiveFileLookup",
        ),
        (
            (*INGEST, "--schema", "./none.txt"),
            "pipeline: ingest failed: --schema './none.txt' is neither a file nor a table like "
            "lake.sales.orders",
        ),
        (
            (*INGEST, "--schema", "lake.pipeline.none"),
            "pipeline: ingest failed: there is no table lake.pipeline.none",
        ),
        (
            (*INGEST, "--schema", "lake.a.b", "--format", "parquet"),
            "pipeline: ingest failed: --schema: parquet files have a schema of their own",
        ),
        (
            (*INGEST[:2], "@/no/such/list", *INGEST[3:]),
            "pipeline: ingest failed: --from @/no/such/list: the list cannot be read: [Errno 2] "
            "No such file or directory: '/no/such/list'",
        ),
        (
            (*INGEST[:2], "./in", *INGEST[3:], "--master", "spark://host:7077"),
            "pipeline: ingest failed: a Spark cluster cannot read ./in, a file of this machine; "
            "put it into a bucket, or use --master 'local[*]'",
        ),
        (
            ("expire", "--table", "lake.a.b", "--older-than", "yesterday"),
            "pipeline: expire failed: --older-than 'yesterday' is neither an age like 7d nor a "
            "time like 2026-01-01T00:00:00",
        ),
        (
            ("compact", "--table", "t"),
            "pipeline: compact failed: 't' is not a table: write warehouse.namespace.table, "
            "like lake.sales.orders",
        ),
        (
            (*INGEST[:2], "s3://pipeline-no-such-bucket/", *INGEST[3:]),
            "pipeline: ingest failed: there is no bucket 'pipeline-no-such-bucket'",
        ),
        (
            (*INGEST, "--option", "quote=''"),
            "pipeline: ingest failed: --option quote='': it must be one character",
        ),
        (
            ("compact", "--table", "lake.a.b", "--min-input-files", "0"),
            "pipeline: compact failed: --min-input-files is 0; it must be at least 1",
        ),
        (
            ("compact", "--table", "lake.a.b", "--target-file-size-mib", "-5"),
            "pipeline: compact failed: --target-file-size-mib is -5; it must be at least 1",
        ),
        (
            ("expire", "--table", "lake.a.b", "--retain-last", "0"),
            "pipeline: expire failed: --retain-last is 0; it must be at least 1",
        ),
        (
            ("compact", "--table", "lake.a.b", "--master", "host:7077"),
            "pipeline: compact failed: --master 'host:7077' is no master of Spark: write local[*], "
            "spark://host:7077, yarn, k8s://..., or sc://host:port of a Spark Connect server",
        ),
        (
            ("expire", "--table", "lake.a.b", "--retain-last", "2147483648"),
            "pipeline: expire failed: --retain-last is 2147483648; it must be at most 2147483647",
        ),
        (
            ("expire", "--table", "lake.a.b", "--older-than", ""),
            "pipeline: expire failed: --older-than '' is neither an age like 7d nor a time like "
            "2026-01-01T00:00:00",
        ),
        (
            (*INGEST, "--schema", ""),
            "pipeline: ingest failed: --schema '' is neither a file nor a table like "
            "lake.sales.orders",
        ),
        (
            (*INGEST, "--mode", "merge", "--key", "id", "--order-by", ""),
            "pipeline: ingest failed: --order-by is empty: it names a column",
        ),
        (
            (*INGEST, "--delete-flag", " "),
            "pipeline: ingest failed: --delete-flag is empty: it names a column",
        ),
        *(
            ((*INGEST, "--follow", "--every", text), f"pipeline: ingest failed: --every {said}")
            for text, said in (
                ("", "'' is not a time like 10s, 5m or 1h"),
                ("25h", "25h is longer than a day, 24h"),
            )
        ),
        *(
            ((*INGEST, "--engine", "arrow", *option),
             f"pipeline: ingest failed: {option[0]} is for Spark, which --engine arrow does not "
             "start")
            for option in (
                ("--master", "local[2]"), ("--spark-ui",), ("--driver-memory", "1g"),
                ("--cores", "2"), ("--conf", "spark.a=1"),
            )
        ),
        (
            ("list", "--pipelines", "/no/such/folder"),
            "pipeline: list failed: there is no folder /no/such/folder; --pipelines names another",
        ),
        # Without a start of Spark, which takes seconds.
        *(
            ((job, "--table", "lake.pipeline.none"),
             f"pipeline: {job} failed: there is no table lake.pipeline.none")
            for job in ("compact", "expire", "manifests", "statistics")
        ),
        *(
            ((job, "--table", "nowhere.a.b"),
             f"pipeline: {job} failed: there is no table bucket 'nowhere'")
            for job in ("compact", "expire", "manifests", "statistics")
        ),
    ],
)  # fmt: skip
def test_wrong_values_end_with_2_and_one_sentence(
    server: server_kit.Running,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    assert run(capsys, *arguments, "--data", str(server.data)) == (2, [said])


def test_the_files_of_a_list_need_their_format_and_the_list_none(
    server: server_kit.Running, raw: Raw, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    listed = tmp_path / "list.json"
    arguments = ("ingest", "--from", f"@{listed}", "--to", "lake.pipeline_none.t")
    refused = f"no objects at {raw.uri('a.csv')}"
    needs = f"{raw.uri('b.orc')} looks like orc: add --format orc, or --format csv if it is CSV"
    for names, said in ((("a.csv",), refused), (("a.csv", "b.orc"), needs)):
        listed.write_text("\n".join(raw.uri(name) for name in names))
        answer = run(capsys, *arguments, "--data", str(server.data))
        assert answer == (2, [f"pipeline: ingest failed: {said}"])


def test_ingest_of_an_empty_place_ends_with_2(
    server: server_kit.Running, raw: Raw, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (raw.uri("in/"), raw.uri("in/2026-*/a**.csv"), "./tests/pipeline/*.orc"):
        arguments = ("ingest", "--from", place, "--to", "lake.pipeline_none.t")
        assert run(capsys, *arguments, "--data", str(server.data)) == (
            2,
            [f"pipeline: ingest failed: no objects at {place}"],
        )


def test_a_dry_run_shows_schema_partitions_size_and_rows_and_writes_nothing(
    server: server_kit.Running, raw: Raw, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    raw.put("in/1.csv", "id,day\n1,2026-01-09\n")
    listing = tmp_path / "list"
    listing.write_text(f"# sources\n{raw.uri('in/*.csv')}\n")
    arguments = (
        "ingest",
        "--from",
        f"@{listing}",
        "--to",
        "lake.dry.t",
        "--data",
        str(server.data),
    )
    dry = (*arguments, "--partition-by", "day", "--dry-run")
    code, said = run(capsys, *dry)
    assert (code, said[:-1]) == (
        0,
        [
            "pipeline: arrow reads 1 object, 20 bytes, 1 row; 0 loaded before",
            "pipeline: creates lake.dry.t, partitioned by identity(day)",
            "pipeline:   id   int",
            "pipeline:   day  date",
            "pipeline: first rows:",
            'pipeline:   {"id": 1, "day": "2026-01-09"}',
        ],
    )
    assert said[-1].startswith("pipeline: planned the load, wrote nothing, in ")
    assert run(capsys, *arguments)[0] == 0
    code, said = run(capsys, *arguments, "--dry-run")
    assert code == 0
    assert said[0].startswith("pipeline: would load nothing: everything was loaded before in ")


def test_a_disk_without_room_ends_with_1_and_one_sentence(
    server: server_kit.Running,
    raw: Raw,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw.put("in/1.csv", "id\n1\n2,3\n")

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/rows")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    arguments = ("ingest", "--from", raw.uri("in/"), "--to", "lake.pipeline_none.t")
    data = ("--on-error", "reject", "--data", str(server.data))
    reason = "[Errno 28] No space left on device: '/tmp/rows'"
    assert run(capsys, *arguments, *data) == (1, [f"pipeline: ingest failed: {reason}"])


def test_a_folder_without_a_server_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capsys, *INGEST, "--data", str(tmp_path))
    assert code == 1
    assert said[0].startswith("pipeline: ingest failed: no server runs on the data folder ")


def test_a_server_that_ended_without_a_word_ends_with_1(
    tmp_path: Path, unused: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "running.json").write_text(json.dumps({"url": unused}))
    keys = {"access_key": "AK", "secret_key": "SK"}
    (tmp_path / "root.json").write_text(json.dumps(keys))
    code, said = run(capsys, *INGEST, "--data", str(tmp_path))
    assert (code, len(said)) == (1, 1)
    assert said[0].startswith("pipeline: ingest failed: the server does not answer: ")


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("7d", datetime.timedelta(days=7)),
        ("12h", datetime.timedelta(hours=12)),
        ("90m", datetime.timedelta(minutes=90)),
        ("0s", datetime.timedelta()),
    ],
)
def test_older_than_takes_an_age(text: str, ago: datetime.timedelta) -> None:
    before = datetime.datetime.now(datetime.UTC)
    moment = commandline.moment(text)
    assert before <= moment + ago <= datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
        ("2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
        ("2026-01-02T03:04:05+02:00", datetime.datetime(2026, 1, 2, 1, 4, 5, tzinfo=datetime.UTC)),
    ],
)
def test_older_than_takes_a_time_in_utc_unless_it_says(
    text: str, moment: datetime.datetime
) -> None:
    assert commandline.moment(text) == moment


@pytest.mark.parametrize("text", ["", "d", "-7d", "7w", "7 d", "99999999999d"])
def test_older_than_refuses_what_is_neither(text: str) -> None:
    with pytest.raises(errors.BadArgument):
        commandline.moment(text)


def test_samples_loads_once_and_a_second_time_changes_nothing(
    server: server_kit.Running, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = []
    for _ in range(2):
        assert (
            command.main(["samples", "--data", str(server.data), "--json"], interrupts.Interrupts())
            == 0
        )
        outcomes.append(json.loads(capsys.readouterr().out))
    for outcome in outcomes:
        assert (outcome["rows"], outcome["table"]) == (344, "samples.penguins")
    arguments = ("statistics", "--table", "lake.samples.penguins", "--columns", "sex,nope")
    code, (said,) = run(capsys, *arguments, "--data", str(server.data))
    assert code == 2
    assert said.startswith(
        "pipeline: statistics failed: --columns names 'nope', but the columns are: species, "
    )


def test_samples_of_a_warehouse_that_is_not_there_end_with_one_sentence(
    server: server_kit.Running, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("samples", "--warehouse", "nowhere", "--data", str(server.data))
    code, said = run(capsys, *arguments)
    assert (code, len(said)) == (1, 1)
    assert said[0].startswith("pipeline: samples failed: the server refused: ")
    assert "Warehouse does not exist: nowhere" in said[0]


def test_samples_without_a_server_end_with_one_sentence(
    unused: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOATHOUSE_ACCESS_KEY", "AK")
    monkeypatch.setenv("BOATHOUSE_SECRET_KEY", "SK")
    code, said = run(capsys, "samples", "--url", unused)
    assert (code, len(said)) == (1, 1)
    assert said[0].startswith("pipeline: samples failed: the server does not answer: ")


def test_a_proxy_in_the_environment_does_not_stand_before_this_machine(
    server: server_kit.Running, unused: str
) -> None:
    environment = server_kit.client_environment()
    environment |= dict.fromkeys(("http_proxy", "HTTP_PROXY"), unused)
    environment |= {"no_proxy": "elsewhere.example"}
    commands = (
        ("samples",),
        ("ingest", "--from", "s3://pipeline-no-such-bucket/", "--to", "lake.a.b"),
    )
    for arguments, code in zip(commands, (0, 2), strict=True):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *arguments, "--data", str(server.data)],
            cwd=server_kit.ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
    assert "there is no bucket 'pipeline-no-such-bucket'" in done.stderr


def test_help_needs_neither_a_server_nor_spark() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pipeline", "--help"],
        cwd=server_kit.ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("usage: python -m pipeline")
    for heavy in ("pyspark", "boto3", "pyarrow"):
        assert f" {heavy}\n" not in done.stderr, f"--help imports {heavy}"


def test_an_interrupted_job_ends_with_130_and_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        interrupts.Interrupts().interrupt(signal.SIGTERM, None)

    monkeypatch.setattr(command.servers, "find", interrupted)
    assert run(capsys, *INGEST) == (
        130,
        ["pipeline: ingest was interrupted; run the same command again to finish it"],
    )


def test_an_interrupt_that_a_library_swallowed_ends_the_job_before_its_next_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interruption = interrupts.Interrupts()

    def swallowing(options: object, server: object, say: progress.Say) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            interruption.interrupt(signal.SIGINT, None)
        say("the next step")

    monkeypatch.setattr(command.servers, "find", lambda **_: None)
    monkeypatch.setitem(command.JOBS, "ingest", swallowing)
    assert command.main(list(INGEST), interruption) == command.INTERRUPTED
    assert capsys.readouterr().err.splitlines() == [
        "pipeline: ingest was interrupted; run the same command again to finish it"
    ]


def lose(number: signal.Signals) -> None:
    """Send this process a signal whose exception is discarded, as a finaliser does with it."""

    class Finalised:
        def __del__(self) -> None:
            signal.raise_signal(number)
            time.monotonic()  # the handler has run before this ends

    Finalised()


def wait_for_timers() -> None:
    """Wait until what was lost would have come again."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(waits.WAIT_SECONDS)


@pytest.mark.parametrize("is_cancel", [False, True])
def test_a_signal_that_comes_in_a_finaliser_ends_a_job_that_waits(
    capsys: pytest.CaptureFixture[str], interruption: interrupts.Interrupts, is_cancel: bool
) -> None:
    def wait() -> None:
        lose(interrupts.CANCEL if is_cancel else signal.SIGINT)
        threading.Event().wait(waits.WAIT_SECONDS)

    with pytest.raises(KeyboardInterrupt) as caught, interruption.of_one_job():
        wait()
    assert isinstance(caught.value, interrupts.JobCancelled) == is_cancel
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, interrupts.CANCEL])
def test_the_cleanup_of_a_job_that_its_next_step_ended_is_not_interrupted_again(
    interruption: interrupts.Interrupts, number: signal.Signals
) -> None:
    cleaned = []

    def step() -> None:
        lose(number)
        try:
            interruption.before(print)("the next step")
        finally:
            wait_for_timers()
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt), interruption.of_one_job():
        step()
    assert cleaned


def test_an_interrupt_that_was_lost_at_the_end_of_a_job_leaves_its_success(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    interruption: interrupts.Interrupts,
) -> None:
    def loses(*_: object) -> tuple[dict[str, object], str]:
        lose(signal.SIGINT)
        return {}, "loaded all"

    monkeypatch.setattr(command.servers, "find", lambda **_: None)
    monkeypatch.setitem(command.JOBS, "ingest", loses)
    assert command.main(list(INGEST), interruption) == 0
    wait_for_timers()
    assert capsys.readouterr().err.startswith("pipeline: loaded all in ")


LEAST = 'target = "lake.a.b"\n[source]\nfrom = ["./files/"]\n'


def test_list_names_a_broken_pipeline_and_shows_the_others(
    server: server_kit.Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    described = f'description = "All of it."\n{LEAST}'
    for name, text in (("a", described), ("b", "target ="), ("c d", LEAST), ("e", LEAST)):
        (tmp_path / f"{name}.toml").write_text(text)
    code, said = run(capsys, "list", "--pipelines", str(tmp_path), "--data", str(server.data))
    assert code == 0
    assert (said[0], said[3]) == (
        "pipeline: a: append into lake.a.b: All of it.", "pipeline: e: append into lake.a.b"
    )  # fmt: skip
    assert said[1].startswith("pipeline: b: cannot be run: b.toml: Invalid value")
    assert said[2].startswith("pipeline: c d: cannot be run: 'c d' is not a pipeline's name")
    assert said[4].startswith(f"pipeline: 4 pipelines in {tmp_path}, 2 of them cannot be run, in")


def test_run_of_a_pipeline_that_is_not_there_names_those_that_are(
    server: server_kit.Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refused(folder: Path) -> str:
        return f"pipeline: run failed: there is no pipeline orders; {folder} has "

    arguments = ("run", "orders", "--data", str(server.data), "--pipelines")
    assert run(capsys, *arguments, str(tmp_path)) == (2, [refused(tmp_path) + "none"])
    for name in ("order", "customers"):
        (tmp_path / f"{name}.toml").write_text(LEAST)
    assert run(capsys, *arguments, str(tmp_path)) == (2, [refused(tmp_path) + "customers, order"])


def test_a_pipeline_of_local_files_does_not_run_on_a_cluster(
    server: server_kit.Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.toml").write_text(LEAST)
    data = ("--data", str(server.data))
    code, said = run(
        capsys, "run", "a", "--pipelines", str(tmp_path), "--master", "spark://x:1", *data
    )
    assert (code, len(said)) == (2, 1)
    assert "a Spark cluster cannot read ./files/" in said[0]
    code, said = run(capsys, "history", "--limit", "0", *data)
    assert (code, said) == (2, ["pipeline: history failed: --limit is 0; it must be at least 1"])


def test_a_pipelines_list_of_sources_lies_beside_its_file(
    server: server_kit.Running, raw: Raw, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        raw.put(f"in/{name}.csv", f"name\n{name}\n")
    listed = tmp_path / "lists" / "of.txt"
    listed.parent.mkdir()
    listed.write_text(f"# two of three\n{raw.uri('in/a.csv')}\n{raw.uri('in/c.csv')}\n")
    text = 'target = "lake.listed.t"\n[source]\nfrom = ["@lists/of.txt"]\n'
    (tmp_path / "listed.toml").write_text(text)
    arguments = ("run", "listed", "--pipelines", str(tmp_path), "--data", str(server.data))
    code, said = run(capsys, *arguments)
    assert code == 0, said
    assert "loaded 2 rows from 2 objects" in said[-1]

    listed.chmod(0o666)
    code, said = run(capsys, *arguments)
    reason = f"every user may write {listed}; run `chmod o-w` on it"
    assert (code, said) == (2, [f"pipeline: run failed: listed.toml: {reason}"])
    listed.chmod(0o600)
    listed.write_text("# none\n")
    code, said = run(capsys, *arguments)
    assert said == [
        "pipeline: run failed: listed.toml: source.from @lists/of.txt: the list of sources is empty"
    ]
    listed.unlink()
    code, said = run(capsys, *arguments)
    assert code == 2
    assert said[0].startswith(
        "pipeline: run failed: listed.toml: source.from @lists/of.txt: the list cannot be read"
    )


@pytest.mark.parametrize(
    ("outcome", "seconds", "said"),
    [
        ({"bytes_read": 31_000_000}, 10.0, "loaded it in 10.0 s, 3.1 MB/s"),
        ({"bytes_read": 999_999}, 10.0, "loaded it in 10.0 s"),
        ({"bytes_read": None}, 10.0, "loaded it in 10.0 s"),
        ({}, 0.04, "loaded it in 0.0 s"),
    ],
)
def test_the_closing_sentence_has_the_time_and_of_a_large_load_the_rate(
    outcome: dict[str, int | None], seconds: float, said: str
) -> None:
    assert command._timed("loaded it", outcome, seconds) == said
