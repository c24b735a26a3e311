"""Records of a Kafka topic are loaded once, by offsets that the table's record of loads keeps."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from pipeline import __main__ as command
from pipeline import errors, files, ingest, interrupts, jobs, loads, records, settings, topics
from tests.kit import kafka_broker
from tests.kit import server as server_kit
from tests.kit.kafka_broker import Broker
from tests.pipeline import wire
from tests.pipeline.lake import Lake, Small, no_spark
from tests.pipeline.test_following import Follower, follower, ids

NEW_YEAR = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NEW_YEAR_MS = 1_767_225_600_000


def load_of(broker: Broker, topic: str, target: str, **changes: Any) -> jobs.Load:
    """Return a load of a topic. changes: of jobs.Load and of settings.KafkaSource."""
    names = ("format", "columns", "properties_file", "lost_records", "records_max",
             "avro_schema_file", "bootstrap")  # fmt: skip
    parts = {name: changes.pop(name) for name in names if name in changes}
    source = settings.KafkaSource(topic=topic, **{"bootstrap": broker.bootstrap, **parts})
    options = changes.pop("options", {})
    load = jobs.Load(
        places=(),
        relation=source,
        reader=files.reader_of(source, source.format, options),
        table=settings.parse_table(f"lake.{target}"),
        **changes,
    )
    return records.prepared(load)


def run(small: Small, load: jobs.Load, *, say: Any = None) -> jobs.Loaded:
    """Load by Arrow: without a JVM."""
    return ingest.run(small.server, load, open_spark=no_spark, say=say or small.said.append)


def by_spark(lake: Lake, load: jobs.Load) -> jobs.Loaded:
    return ingest.run(lake.server, load, open_spark=lake.open_spark, say=lake.said.append)


def rows_of(*ids: int) -> list[str]:
    return [json.dumps({"id": number, "name": f"n{number}"}) for number in ids]


def test_records_are_loaded_once_as_they_come(broker: Broker, small: Small) -> None:
    broker.create("grown", partitions=2)
    broker.send("grown", rows_of(1, 2))
    broker.send("grown", [' {"id": 3,\r\n "name": "n3"}\n'], partition=1)
    load = load_of(broker, "grown", "topics_grown.t")
    plan = ingest.plan(small.server, load, open_spark=no_spark, say=print)
    assert plan is not None
    assert (plan.rows, [column.name for column in plan.columns]) == (3, ["id", "name"])
    done = run(small, load)
    assert (done.rows, done.engine) == (3, "arrow")
    assert small.rows("topics_grown.t") == [
        {"id": number, "name": f"n{number}"} for number in (1, 2, 3)
    ]
    before = small.state("topics_grown.t")
    assert run(small, load).snapshot_id is None
    assert small.state("topics_grown.t") == before

    broker.send("grown", ['{"id": 4, "name": "n4", "new": true}'], partition=1)
    assert run(small, load).columns_added == ("new",)
    broker.grow("grown", 3)
    broker.send("grown", rows_of(5), partition=2)
    with broker.transaction("one", "grown", rows_of(99)) as producer:
        assert run(small, load).rows == 1, "an open transaction is not read"
        producer.abort_transaction()
    with broker.transaction("two", "grown", rows_of(6)) as producer:
        producer.commit_transaction()
    assert run(small, load).rows == 1
    assert [row["id"] for row in small.rows("topics_grown.t")] == [1, 2, 3, 4, 5, 6]
    assert run(small, load).snapshot_id is None

    some = load_of(broker, "grown", "topics_grown.some", records_max=2)
    counts = [run(small, some).rows for _ in range(4)]
    assert (sum(counts), max(counts), counts[3]) == (6, 2, 0)
    assert [row["id"] for row in small.rows("topics_grown.some")] == [1, 2, 3, 4, 5, 6]


def test_a_broker_that_asks_for_a_password_gets_it_from_the_file_of_properties(
    broker: Broker, small: Small, tmp_path: Path
) -> None:
    broker.create("sasl")
    broker.send("sasl", rows_of(1, 2))
    properties = tmp_path / "kafka.properties"
    load = load_of(
        broker, "sasl", "topics_sasl.t", bootstrap=broker.sasl, properties_file=str(properties)
    )

    def load_with(password: str) -> jobs.Loaded:
        properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={kafka_broker.USER}\nsasl.password={password}\n"
        )
        return run(small, load)

    assert load_with(kafka_broker.PASSWORD).rows == 2
    assert [row["id"] for row in small.rows("topics_sasl.t")] == [1, 2]
    started = time.monotonic()
    with pytest.raises(errors.NoBroker, match="SASL authentication error: Auth") as caught:
        load_with("hush-and-hidden")
    assert "hush" not in str(caught.value)
    # Brokers that do not answer are waited for longer.
    assert time.monotonic() - started < topics.ANSWER_SECONDS / 2


def test_a_topic_that_has_lost_records_is_refused_or_continued(
    broker: Broker, small: Small
) -> None:
    broker.create("lost")
    broker.send("lost", rows_of(1, 2))
    load = load_of(broker, "lost", "topics_lost.t")
    skipping = load_of(broker, "lost", "topics_lost.t", lost_records="skip")
    assert run(small, load).rows == 2
    broker.send("lost", rows_of(3, 4, 5))
    broker.truncate("lost", 4)
    before = small.state("topics_lost.t")
    with pytest.raises(errors.BadArgument, match="those from 2 to 3 are lost; --lost-records"):
        run(small, load)
    assert small.state("topics_lost.t") == before
    assert run(small, skipping).rows == 1
    assert [row["id"] for row in small.rows("topics_lost.t")] == [1, 2, 5]
    assert run(small, load).snapshot_id is None

    broker.delete("lost")
    with pytest.raises(errors.BadArgument, match="there is no topic lost at "):
        run(small, load)
    broker.create("lost")
    broker.send("lost", rows_of(6))
    with pytest.raises(errors.BadArgument, match="the topic lost is another topic than the one"):
        run(small, load)
    assert run(small, skipping).rows == 1
    assert run(small, load).snapshot_id is None
    broker.send("lost", rows_of(7))
    assert run(small, load).rows == 1
    assert [row["id"] for row in small.rows("topics_lost.t")] == [1, 2, 5, 6, 7]
    whole = load_of(broker, "lost", "topics_lost.t", mode="replace")
    assert run(small, whole).rows == 2
    assert run(small, whole).snapshot_id is None
    broker.send("lost", rows_of(8))
    assert run(small, load).rows == 1
    assert [row["id"] for row in small.rows("topics_lost.t")] == [6, 7, 8]


def test_a_topic_without_records_replaces_a_table_by_an_empty_one(
    broker: Broker, small: Small
) -> None:
    broker.create("emptied")
    load = load_of(broker, "emptied", "topics_emptied.t")
    whole = load_of(broker, "emptied", "topics_emptied.t", mode="replace")
    assert run(small, whole).snapshot_id is None, "there is no table that has rows"
    broker.send("emptied", rows_of(1, 2))
    assert run(small, load).rows == 2
    broker.truncate("emptied", 2)
    assert run(small, whole).snapshot_id is not None
    assert small.rows("topics_emptied.t") == []
    assert small.types("topics_emptied.t") == {"id": "long", "name": "string"}
    assert run(small, whole).snapshot_id is None, "the table is equal to the topic"
    broker.send("emptied", rows_of(3))
    assert run(small, load).rows == 1
    assert [row["id"] for row in small.rows("topics_emptied.t")] == [3]


def test_records_that_are_no_rows_are_rejected_by_partition_and_offset(
    broker: Broker, small: Small
) -> None:
    broker.create("messy", partitions=2)
    good = '{"id": 1, "at": 1.5}'
    broker.send("messy", [good, "{", None], partition=1)
    load = load_of(broker, "messy", "topics_messy.t")
    with pytest.raises(errors.BadSource) as caught:
        run(small, load)
    assert str(caught.value) == (
        "messy: partition 1, offset 1 is not JSON: Expecting property name enclosed in double "
        "quotes; nothing was loaded"
    )
    rejecting = load_of(broker, "messy", "topics_messy.t", on_error="reject")
    assert (run(small, rejecting).rows, run(small, rejecting).snapshot_id) == (1, None)
    broker.send("messy", ['{"id": "x"}', '{"id": 2}'])
    assert run(small, rejecting).rejected == 1
    broker.send("messy", ["none is readable"])
    done = run(small, rejecting)
    assert (done.rows, done.rejected) == (0, 1)
    assert run(small, rejecting).snapshot_id is None
    assert [row["id"] for row in small.rows("topics_messy.t")] == [1, 2]
    rejected = sorted(
        small.rows("topics_messy.t__rejected"), key=lambda row: (row["source"], row["line"])
    )
    assert [(row["source"].split("/", 1)[1], row["line"], row["raw"]) for row in rejected] == [
        ("messy/0", 0, '{"id": "x"}'), ("messy/0", 2, "none is readable"),
        ("messy/1", 1, "{"), ("messy/1", 2, ""),
    ]  # fmt: skip
    assert rejected[0]["reason"].startswith("column 'id': 'x' is not a whole number")
    with pytest.raises(errors.BadSource, match="no row can be read"):
        run(small, load_of(broker, "messy", "topics_messy.new", on_error="reject", records_max=1,
                           format="csv", types={"id": "long"}))  # fmt: skip


def test_csv_and_raw_records_have_the_columns_of_kafka_that_are_named(
    broker: Broker, small: Small
) -> None:
    broker.create("lines")
    broker.send("lines", ["1;a", '2;"b;c"'], key="k", timestamp_ms=NEW_YEAR_MS)
    load = load_of(
        broker, "lines", "topics_csv.t", format="csv", options={"sep": ";"},
        types={"id": "int", "name": "string"}, columns=("key", "partition", "offset", "timestamp"),
    )  # fmt: skip
    assert run(small, load).rows == 2
    assert small.types("topics_csv.t") == {
        "kafka_key": "string", "kafka_partition": "int", "kafka_offset": "long",
        "kafka_timestamp": "timestamptz", "id": "int", "name": "string",
    }  # fmt: skip
    assert small.catalog.load_table("topics_csv.t").scan().to_arrow().to_pylist() == [
        {"kafka_key": "k", "kafka_partition": 0, "kafka_offset": offset,
         "kafka_timestamp": NEW_YEAR, "id": number, "name": name}
        for offset, number, name in [(0, 1, "a"), (1, 2, "b;c")]
    ]  # fmt: skip
    broker.send("lines", [b"\xff"], headers={"h": b"1"}, timestamp_ms=NEW_YEAR_MS)
    with pytest.raises(errors.BadSource, match="lines: partition 0, offset 2 is not UTF-8"):
        run(small, load)
    assert run(small, load_of(broker, "lines", "topics_raw.t", format="raw")).rows == 3
    rows = small.catalog.load_table("topics_raw.t").scan().to_arrow().to_pylist()
    assert rows[2] == {
        "key": None, "value": b"\xff", "topic": "lines", "partition": 0, "offset": 2,
        "timestamp": NEW_YEAR, "headers": [{"key": "h", "value": b"1"}],
    }  # fmt: skip


@pytest.mark.spark
def test_a_merge_takes_the_last_record_of_a_key_and_removes_those_without_a_value(
    broker: Broker, lake: Lake
) -> None:
    broker.create("merged", partitions=2)
    load = load_of(
        broker, "merged", "topics_merged.t", mode="merge", merge=jobs.Merge(key=("id",)),
        columns=("timestamp",),
    )  # fmt: skip
    broker.send("merged", rows_of(1, 2), timestamp_ms=NEW_YEAR_MS)
    broker.send("merged", ['{"id": 3, "name": "old"}', '{"id": 3, "name": "new"}'], partition=1,
                timestamp_ms=NEW_YEAR_MS)  # fmt: skip
    assert by_spark(lake, load).merged == jobs.MergeCounts(inserted=3, updated=0, deleted=0)
    broker.send("merged", ['{"id": 1, "name": "n1b"}'], timestamp_ms=NEW_YEAR_MS)
    broker.send("merged", [None], key="2")
    broker.send("merged", [None], key='{"id": 3}', partition=1)
    broker.send("merged", ['{"id": 3, "name": "again"}'], partition=1, timestamp_ms=NEW_YEAR_MS)
    assert by_spark(lake, load).merged == jobs.MergeCounts(inserted=0, updated=2, deleted=1)
    assert sorted(lake.rows("topics_merged.t"), key=lambda row: int(row["id"])) == [
        {"kafka_timestamp": NEW_YEAR, "id": 1, "name": "n1b"},
        {"kafka_timestamp": NEW_YEAR, "id": 3, "name": "again"},
    ]
    assert by_spark(lake, load).snapshot_id is None


@pytest.mark.spark
def test_a_load_of_records_none_of_which_is_readable_goes_on_behind_them(
    broker: Broker, lake: Lake
) -> None:
    broker.create("skipped")
    broker.send("skipped", rows_of(1))
    merging = load_of(
        broker, "skipped", "topics_skipped.merged", mode="merge", merge=jobs.Merge(key=("id",)),
        on_error="reject",
    )  # fmt: skip
    sql = "SELECT id, length(name) AS width FROM source"
    transforming = load_of(
        broker, "skipped", "topics_skipped.changed", on_error="reject",
        transforms=(jobs.SqlTransform(name="changed", sql=sql),),
    )  # fmt: skip
    for load in (merging, transforming):
        assert by_spark(lake, load).rows == 1
    source = merging.relation
    assert isinstance(source, settings.KafkaSource)
    before = topics.Brokers(source).state()
    with broker.transaction("skipped", "skipped", rows_of(99)) as producer:
        producer.abort_transaction()
    deadline = time.monotonic() + 30
    while topics.Brokers(source).state() == before:  # the mark of its end comes later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for load in (merging, transforming):
        assert by_spark(lake, load).snapshot_id is not None
        assert by_spark(lake, load).snapshot_id is None, "the end of the topic is loaded"
    broker.send("skipped", ["broken", None])
    plan = ingest.plan(lake.server, merging, open_spark=lake.open_spark, say=print)
    assert plan is not None
    assert (plan.rejected, plan.first_rows) == (2, ())
    done = by_spark(lake, merging)
    assert (done.rejected, done.rows) == (2, 0)
    assert done.merged == jobs.MergeCounts(inserted=0, updated=0, deleted=0)
    assert by_spark(lake, transforming).rejected == 2
    assert len(lake.rows("topics_skipped.merged__rejected")) == 2
    broker.send("skipped", ['{"id": 1, "name": "longer"}'])
    assert by_spark(lake, merging).merged == jobs.MergeCounts(inserted=0, updated=1, deleted=0)
    assert by_spark(lake, transforming).rows == 1
    assert lake.rows("topics_skipped.merged") == [{"id": 1, "name": "longer"}]
    assert sorted(row["width"] for row in lake.rows("topics_skipped.changed")) == [2, 6]
    # A replacing load of the same transforms is not done again.
    replacing = dataclasses.replace(transforming, mode="replace")
    broker.truncate("skipped", -1)
    assert by_spark(lake, replacing).snapshot_id is not None
    assert lake.rows("topics_skipped.changed") == []
    assert by_spark(lake, replacing).snapshot_id is None


@pytest.mark.spark
def test_values_of_avro_are_read_with_their_schema(
    broker: Broker, lake: Lake, tmp_path: Path
) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
    schema: dict[str, Any] = {"type": "record", "name": "r", "fields": fields}
    path = tmp_path / "r.avsc"
    path.write_text(json.dumps(schema))

    def datum(row: dict[str, Any]) -> bytes:
        with (tmp_path / "datum").open("wb") as stream:
            fastavro.schemaless_writer(stream, schema, row)
        return (tmp_path / "datum").read_bytes()

    broker.create("avro")
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    broker.send("avro", map(datum, rows))
    load = load_of(
        broker, "avro", "topics_avro.t", format="avro", avro_schema_file=str(path),
        columns=("offset",),
    )  # fmt: skip
    assert by_spark(lake, load).rows == 2
    assert sorted(lake.rows("topics_avro.t"), key=lambda row: int(row["id"])) == [
        {"kafka_offset": offset, **row} for offset, row in enumerate(rows)
    ]
    before = lake.state("topics_avro.t")
    broker.send("avro", [datum(rows[0]) + b"\0"])
    with pytest.raises(errors.BadSource, match="avro: partition 0, offset 2 is not a value of"):
        by_spark(lake, load)
    assert lake.state("topics_avro.t") == before


def arguments(broker: Broker, topic: str, table: str, *more: str) -> tuple[str, ...]:
    return ("--from", f"kafka:{topic}", "--bootstrap", broker.bootstrap,
            "--to", f"lake.{table}", "--engine", "arrow", *more)  # fmt: skip


def _commits(method: str, path: str) -> bool:
    return method == "POST" and "/tables/t" in path


@pytest.mark.campaign
def test_a_follower_loads_what_comes_whatever_happens_to_it(
    server: server_kit.Running, broker: Broker, small: Small, tmp_path: Path
) -> None:
    broker.create("followed")
    first = arguments(broker, "followed", "topics_followed.t")
    jobs_started: list[Follower] = []
    commits = threading.Semaphore(1)

    def strike(method: str, path: str) -> bool:
        if not _commits(method, path) or commits.acquire(blocking=False):
            return False
        door.closed.set()
        jobs_started[0].process.kill()
        return True

    with (
        wire.door(server.url, after=strike) as door,
        follower(tmp_path / "1", server, *first, url=door.url) as job,
    ):
        jobs_started.append(job)
        job.wait_until_said("following kafka:followed")
        broker.send("followed", rows_of(1))
        job.wait_for(lambda: ids(small, "topics_followed.t") == [1])
        broker.send("followed", rows_of(2))
        job.process.wait(60)  # killed as its commit was made, before it heard of it
    broker.send("followed", ['{"id": 3, "name": "n3", "more": 1.5}'])
    with follower(tmp_path / "2", server, *first) as job:
        job.wait_until_said("loaded 1 row")
        assert ids(small, "topics_followed.t") == [1, 2, 3]
        assert job.end()["rows"] == 1
    small.catalog.rename_table("topics_followed.t", "topics_followed.u")
    broker.grow("followed", 2)
    broker.send("followed", rows_of(4), partition=1)
    second = arguments(broker, "followed", "topics_followed.u", "--max-records", "2")
    with follower(tmp_path / "3", server, *second) as job:
        job.wait_for(lambda: ids(small, "topics_followed.u") == [1, 2, 3, 4])
        broker.send("followed", rows_of(*range(5, 10)))
        job.wait_for(lambda: ids(small, "topics_followed.u") == list(range(1, 10)))
        broker.send("followed", ["broken"])
        assert job.process.wait(60) == 1
    assert "followed: partition 0, offset 8 is not JSON" in job.said
    assert ids(small, "topics_followed.u") == list(range(1, 10))


@pytest.mark.long
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("moment", ["data", "manifest", "commit"])
def test_a_load_killed_at_any_moment_loads_each_record_once_when_run_again(
    server: server_kit.Running, broker: Broker, small: Small, tmp_path: Path, moment: str, side: str
) -> None:
    matches = {
        "data": lambda method, path: method == "PUT" and ".parquet" in path,
        "manifest": lambda method, path: method == "PUT" and ".avro" in path,
        "commit": _commits,
    }[moment]
    name = f"killed_{moment}_{side}"
    broker.create(name, partitions=2)
    broker.send(name, rows_of(1))
    load = load_of(broker, name, f"topics_{name}.t")
    assert run(small, load).rows == 1
    broker.send(name, rows_of(2))
    broker.send(name, rows_of(3), partition=1)
    started: list[Follower] = []

    def strike(method: str, path: str) -> bool:
        if not matches(method, path):
            return False
        door.closed.set()
        started[0].process.kill()
        return True

    with wire.door(server.url, **{side: strike}) as door:
        words = arguments(broker, name, f"topics_{name}.t")
        with follower(tmp_path, server, *words, url=door.url) as job:
            started.append(job)
            job.process.wait(120)
    assert door.closed.is_set(), job.said
    was_committed = (moment, side) == ("commit", "after")
    assert run(small, load).rows == (0 if was_committed else 2)
    assert [row["id"] for row in small.rows(f"topics_{name}.t")] == [1, 2, 3]
    assert run(small, load).snapshot_id is None


def test_two_loads_of_one_topic_load_each_record_once(broker: Broker, small: Small) -> None:
    broker.create("twice")
    broker.send("twice", rows_of(1, 2))
    load = load_of(broker, "twice", "topics_twice.t")
    done: list[jobs.Loaded] = []

    def other(line: str) -> None:
        if line.startswith("committing") and not done:
            done.append(run(small, load))

    assert run(small, load, say=other).rows == 0
    broker.send("twice", rows_of(3))
    done.clear()
    replacing = load_of(broker, "twice", "topics_twice.t", mode="replace")

    def replace(line: str) -> None:
        if line.startswith("committing") and not done:
            done.append(run(small, replacing))

    assert run(small, load, say=replace).rows == 0
    assert [row["id"] for row in small.rows("topics_twice.t")] == [1, 2, 3]


@contextlib.contextmanager
def refused(capsys: pytest.CaptureFixture[str], *words: str) -> Iterator[str]:
    assert command.main(list(words), interrupts.Interrupts()) == 2
    yield capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "kafka:t needs --bootstrap: HOST:PORT of a broker"),
        (("--bootstrap", "b:1", "--from", "s3://b/p"), "kafka:t must be the only source"),
        (("--bootstrap", "b:1", "--format", "orc"), "records of Kafka have no format orc"),
        (("--bootstrap", "b:1", "--max-records", "0"), "--max-records must be at least 1"),
        (("--bootstrap", "b:1", "--kafka-columns", "size"), "must name parts of a record"),
        (("--bootstrap", "b:1", "--master", "spark://h:7077"), "which a Spark cluster cannot"),
        (("--bootstrap", "b:1", "--watermark", "id"), "--watermark is for a source like jdbc:"),
        (
            ("--bootstrap", "b:1", "--mode", "replace", "--max-records", "1"),
            "--mode replace reads a topic whole",
        ),
        (
            ("--bootstrap", "b:1", "--follow", "--broken-sources", "fail"),
            "--broken-sources is for files",
        ),
    ],
)
def test_a_command_that_does_not_fit_a_topic_is_refused(
    server: server_kit.Running,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    words = ("ingest", "--from", "kafka:t", "--to", "lake.ns.t", "--data", str(server.data))
    with refused(capsys, *words, *options) as text:
        assert said in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--bootstrap", "b:1"), "--bootstrap is for a source like kafka:orders"),
        (("--format", "raw"), "--format raw is for a topic of Kafka"),
    ],
)
def test_options_of_a_topic_are_refused_without_one(
    server: server_kit.Running,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    words = ("ingest", "--from", "s3://b/p", "--to", "lake.ns.t", "--data", str(server.data))
    with refused(capsys, *words, *options) as text:
        assert said in text


def test_a_broker_that_does_not_answer_is_named_and_secrets_are_not(
    small: Small, unused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.topics.ANSWER_SECONDS", 1)
    properties = tmp_path / "kafka.properties"
    source = settings.KafkaSource(
        topic="t", bootstrap=unused.removeprefix("http://"), properties_file=str(properties)
    )
    load = jobs.Load(
        places=(), relation=source, reader=files.reader_of(source, "json", {}),
        table=settings.parse_table("lake.topics_refused.t"),
    )  # fmt: skip
    for text, error, said in [
        ("client.id=x\n", errors.NoBroker, "Kafka at 127.0.0.1:"),
        ("isolation.level=read_uncommitted", errors.BadArgument, "sets isolation.level itself"),
        ("no.such.name=hush-and-hidden", errors.BadArgument, 'configuration property: "no.such'),
        ("security.protocol=hush-and-hidden", errors.BadArgument, "security.protocol"),
        ("sasl.password", errors.BadArgument, "line 1 is not NAME=VALUE"),
    ]:
        properties.write_text(text)
        with pytest.raises(error, match=said) as caught:
            run(small, load)
        assert "hush" not in str(caught.value) or "security" in text
    assert loads.taken(small.server, load.table) == set()


def test_a_pipelines_file_names_a_topic() -> None:
    text = """target = "lake.sales.orders"
mode = "merge"
key = ["id"]

[source]
from = ["kafka:orders"]
bootstrap = "broker:9092"
columns = ["offset", "timestamp"]
properties = "/etc/kafka.properties"
lost_records = "skip"
max_records = 1000
schema = { id = "long" }
"""
    load = files.parse("orders", text).load
    assert load.relation == settings.KafkaSource(
        topic="orders", bootstrap="broker:9092", columns=("offset", "timestamp"),
        properties_file="/etc/kafka.properties", lost_records="skip", records_max=1000,
    )  # fmt: skip
    assert load.reader.format == "json"
    assert load.types == {"id": "long", "kafka_timestamp": "timestamptz"}
    assert load.merge == jobs.Merge(
        key=("id",), order_by="kafka_order", delete_flag="kafka_deleted", order_is_stored=False
    )
    for wrong, said in [
        (("bootstrap", "bootstraps"), "source.bootstraps is no key"),
        (('"skip"', '"maybe"'), "source.lost_records is 'maybe'"),
        (('"timestamp"', '"size"'), "must name parts of a record"),
        (("kafka:orders", "s3://b/p"), "source.properties is for a source like jdbc:"),
        (("kafka:orders", "kafka:a b"), "does not name a topic"),
    ]:
        with pytest.raises(errors.BadArgument, match=said):
            files.parse("orders", text.replace(*wrong))
