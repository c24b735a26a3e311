"""Rows of a database are loaded once, by a watermark that the record of loads keeps."""

from __future__ import annotations

import dataclasses
import sqlite3
import threading
import zipfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import __main__ as command
from pipeline import errors, files, ingest, interrupts, jdbc, jobs, reading, settings
from tests.kit import drivers
from tests.kit import server as server_kit
from tests.pipeline import wire
from tests.pipeline.lake import Lake
from tests.pipeline.test_killed import CutOff, Job, cut_off_at_the_commit, without_files

SECRET = "hush-and-hidden"


class Database:
    """A SQLite file with a table `orders`."""

    def __init__(self, path: Path) -> None:
        self.url = f"jdbc:sqlite:{path}"
        self._path = path
        self.run("create table orders (id integer primary key, name text, amount real)")

    def run(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(statement, values)

    def add(self, *ids: int) -> None:
        for each in ids:
            self.run("insert into orders values (?, ?, ?)", each, f"n{each}", each / 2)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "shop.db")


def load_of(database: Database, target: str, **changes: Any) -> jobs.Load:
    """Return a load of `orders`. changes: of jobs.Load and of settings.JdbcSource."""
    names = (
        "url", "table", "query", "watermark", "jar", "properties_file", "answers_within_seconds"
    )  # fmt: skip
    parts = {name: changes.pop(name) for name in names if name in changes}
    parts = {"table": None if "query" in parts else "orders", "watermark": "id", **parts}
    source = settings.JdbcSource(**{"url": database.url, "jar": str(drivers.sqlite_jar()), **parts})
    return jobs.Load(
        places=(),
        relation=source,
        reader=reading.of_rows(),
        table=settings.parse_table(f"lake.{target}"),
        **changes,
    )


def run(lake: Lake, load: jobs.Load, *, say: Any = None) -> jobs.Loaded:
    said = say or lake.said.append
    return ingest.run(lake.server, load, open_spark=lake.open_spark, say=said)


@pytest.mark.spark
@pytest.mark.smoke
def test_a_load_of_a_database_reads_the_rows_above_the_last_watermark(
    lake: Lake, database: Database
) -> None:
    database.add(1, 2, 3)
    load = load_of(database, "jdbc_grown.t")
    plan = ingest.plan(lake.server, load, open_spark=lake.open_spark, say=lake.said.append)
    assert plan is not None
    assert [(column.name, column.type) for column in plan.columns] == [
        ("id", "int"), ("name", "string"), ("amount", "double"),
    ]  # fmt: skip
    assert run(lake, load).rows == 3
    place = f"{database.url} table orders"
    assert lake.taken("jdbc_grown.t") == {(place, "after nothing"), (place, "until 3")}
    database.add(5, 4)
    assert run(lake, load).rows == 2
    assert lake.rows("jdbc_grown.t") == [
        {"id": each, "name": f"n{each}", "amount": each / 2} for each in (1, 2, 3, 4, 5)
    ]
    before = lake.state("jdbc_grown.t")
    assert run(lake, load).snapshot_id is None
    assert ingest.plan(lake.server, load, open_spark=lake.open_spark, say=print) is None
    assert lake.state("jdbc_grown.t") == before
    database.run("delete from orders where id > 2")
    assert run(lake, load).snapshot_id is None
    # A database that never answers is not waited for.
    assert lake.spark.jvm.java.sql.DriverManager.getLoginTimeout() == 30


@pytest.mark.spark
def test_a_query_is_replaced_and_merged_whole_without_a_watermark(
    lake: Lake, database: Database
) -> None:
    database.add(1, 2)
    query = "select id, name from orders where id < 10"
    replacing = load_of(database, "jdbc_query.t", query=query, watermark=None, mode="replace")
    merging = load_of(
        database, "jdbc_query.m", query=query, watermark=None, mode="merge",
        merge=jobs.Merge(key=("id",)),
    )  # fmt: skip
    assert run(lake, replacing).rows == 2
    assert run(lake, merging).merged == jobs.MergeCounts(inserted=2, updated=0, deleted=0)
    database.run("update orders set name = 'new' where id = 2")
    database.add(3, 11)
    assert run(lake, replacing).rows == 3
    assert run(lake, merging).merged == jobs.MergeCounts(inserted=1, updated=2, deleted=0)
    rows = [{"id": 1, "name": "n1"}, {"id": 2, "name": "new"}, {"id": 3, "name": "n3"}]
    assert lake.rows("jdbc_query.t") == lake.rows("jdbc_query.m") == rows
    appending = load_of(database, "jdbc_query.t", query=query)
    with pytest.raises(errors.BadArgument, match="was loaded whole, without --watermark"):
        run(lake, appending)
    with_watermark = load_of(database, "jdbc_query.t", query=query, mode="replace")
    assert run(lake, with_watermark).rows == 3
    database.add(4)
    assert run(lake, appending).rows == 1
    assert [row["id"] for row in lake.rows("jdbc_query.t")] == [1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_load_of_a_database_beside_another_one_adds_no_row_twice(
    lake: Lake, database: Database, mode: settings.Mode
) -> None:
    target = f"jdbc_twice_{mode}.t"
    database.add(1)
    load = load_of(database, target)
    run(lake, load)
    database.add(2)
    others: list[jobs.Loaded | None] = []

    def say(line: str) -> None:
        if line.startswith("committing") and not others:
            others.append(None)
            database.add(3)
            others.append(run(lake, load_of(database, target, mode=mode)))

    done = run(lake, load, say=say)
    assert others[-1] is not None
    assert (others[-1].rows, done.rows) == (2 if mode == "append" else 3, 0)
    assert [row["id"] for row in lake.rows(target)] == [1, 2, 3]


@pytest.mark.spark
def test_a_merge_by_a_column_of_versions_brings_in_the_rows_that_changed(
    lake: Lake, database: Database
) -> None:
    database.run("create table items (id integer, name text, version integer)")
    database.run("insert into items values (1, 'a', 1), (2, 'b', 2)")
    load = load_of(
        database, "jdbc_versions.t", table="items", watermark="version", mode="merge",
        merge=jobs.Merge(key=("id",), order_by="version"),
    )  # fmt: skip
    assert run(lake, load).merged == jobs.MergeCounts(inserted=2, updated=0, deleted=0)
    database.run("update items set name = 'c', version = 3 where id = 1")
    database.run("insert into items values (3, 'd', 4)")
    assert run(lake, load).merged == jobs.MergeCounts(inserted=1, updated=1, deleted=0)
    assert run(lake, load).snapshot_id is None
    assert [(row["id"], row["name"]) for row in lake.rows("jdbc_versions.t")] == [
        (1, "c"), (2, "b"), (3, "d"),
    ]  # fmt: skip


@pytest.mark.spark
def test_watermarks_that_could_lose_rows_are_refused(lake: Lake, database: Database) -> None:
    database.add(1)
    database.run("alter table orders add column version integer")
    for watermark, reason in (
        ("version", "'version', which is NULL in some rows"),
        ("name", "'name', a column of type string; it must hold whole numbers"),
        ("nope", "'nope', but the columns are: id, name, amount, version"),
    ):
        with pytest.raises(errors.PipelineError, match=reason):
            run(lake, load_of(database, "jdbc_refused.t", watermark=watermark))
    assert lake.state("jdbc_refused.t") is None


@pytest.mark.spark
def test_errors_of_a_database_show_no_password(
    lake: Lake, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    properties = tmp_path / "shop.properties"
    properties.write_text(f"# of the shop\nuser = column\npassword = {SECRET}\n")
    query = f"select [{SECRET}] from orders"
    for more in ({"properties_file": str(properties)}, {}):
        with pytest.raises(errors.SparkFailed, match=r"no such column: \.\.\.\)?$"):
            run(lake, load_of(database, "jdbc_secret.t", query=query, **more))
        monkeypatch.setenv(jdbc.PASSWORD, SECRET)


SILENT = """
import java.lang.reflect.*;
import java.sql.*;
import java.util.*;

public class Silent implements Driver, InvocationHandler {
    private int seconds = 0;

    public boolean acceptsURL(String url) { return url.startsWith("jdbc:silent:"); }
    public Connection connect(String url, Properties properties) {
        return (Connection) proxy(Connection.class);
    }
    public DriverPropertyInfo[] getPropertyInfo(String url, Properties properties) { return null; }
    public int getMajorVersion() { return 1; }
    public int getMinorVersion() { return 0; }
    public boolean jdbcCompliant() { return false; }
    public java.util.logging.Logger getParentLogger() { return null; }

    private static Object proxy(Class type) {
        ClassLoader loader = Silent.class.getClassLoader();
        return Proxy.newProxyInstance(loader, new Class[] {type}, new Silent());
    }

    public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
        String name = method.getName();
        if (name.equals("prepareStatement")) return proxy(PreparedStatement.class);
        if (name.equals("setQueryTimeout")) seconds = ((Integer) arguments[0]).intValue();
        if (name.equals("executeQuery")) {
            Thread.sleep(seconds == 0 ? Long.MAX_VALUE : seconds * 1000L);
            throw new SQLTimeoutException("no answer in " + seconds + " s");
        }
        return method.getReturnType() == boolean.class ? Boolean.FALSE : null;
    }
}
"""


def silent_jar(lake: Lake, folder: Path) -> Path:
    """Return the jar of a driver whose database takes queries and answers none."""
    (folder / "Silent.java").write_text(SILENT)
    jvm = lake.spark.jvm
    compiler = jvm.org.codehaus.janino.Compiler()  # Spark has it for its own code
    compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
    files = lake.spark.java_gateway.new_array(jvm.java.io.File, 1)
    files[0] = jvm.java.io.File(str(folder / "Silent.java"))
    compiler.compile(files)
    with zipfile.ZipFile(folder / "silent.jar", "w") as jar:
        jar.write(folder / "Silent.class", "Silent.class")
        jar.writestr(jdbc.DRIVERS, "Silent\n")
    return folder / "silent.jar"


@pytest.mark.spark
def test_a_database_that_takes_a_query_and_never_answers_is_waited_for_as_long_as_the_load_says(
    lake: Lake, database: Database, tmp_path: Path
) -> None:
    jar = silent_jar(lake, tmp_path)
    load = load_of(
        database, "jdbc_silent.t", url="jdbc:silent:db", jar=str(jar), answers_within_seconds=1
    )
    with pytest.raises(errors.SparkJobFailed) as caught:
        run(lake, load)
    assert str(caught.value) == (
        "jdbc:silent:db did not answer a query within 1 s, the time that --jdbc-timeout or "
        "source.timeout gives it: no answer in 1 s"
    )
    assert lake.state("jdbc_silent.t") is None
    file = tmp_path / "silent.properties"
    file.write_text("querytimeout=1\n")
    assert isinstance(load.relation, settings.JdbcSource)
    source = dataclasses.replace(
        load.relation, answers_within_seconds=3600, properties_file=str(file)
    )
    with pytest.raises(errors.SparkJobFailed, match=r"within 1 s, the time that querytimeout in "):
        run(lake, dataclasses.replace(load, relation=source))


USER_REQUEST = "ERROR: canceling statement due to user request"


def explained_after(
    monkeypatch: pytest.MonkeyPatch, source: Any, said: str, *, passed_seconds: float
) -> str:
    """Return the text of an error with these words that Spark has after some seconds."""
    clock = iter((100.0, 100.0 + passed_seconds))
    monkeypatch.setattr(jdbc, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(errors.SparkJobFailed) as caught, jdbc.explained(source):
        raise errors.SparkJobFailed(said)
    return str(caught.value)


def test_postgresql_s_words_for_a_query_that_took_too_long_are_followed_by_the_option(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = load_of(database, "jdbc_late.t", answers_within_seconds=60).relation
    said = explained_after(monkeypatch, source, USER_REQUEST, passed_seconds=60.5)
    assert said == (
        f"{database.url} did not answer a query within 60 s, the time that --jdbc-timeout or "
        f"source.timeout gives it: {USER_REQUEST}"
    )


@pytest.mark.parametrize(
    ("seconds", "passed_seconds", "said"),
    [
        (60, 61, "no such table"),
        (60, 61, "ERROR: canceling statement due to statement timeout"),
        (60, 61, "ERROR: canceling statement due to lock timeout"),
        (60, 61, "ERROR: canceling statement due to conflict with recovery"),
        (60, 30, USER_REQUEST),  # of pg_cancel_backend
        (0, 61, USER_REQUEST),
    ],
)
def test_queries_that_end_for_other_reasons_than_the_load_s_time_name_no_option(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    passed_seconds: int,
    said: str,
) -> None:
    source = load_of(database, "jdbc_late.t", answers_within_seconds=seconds).relation
    assert explained_after(monkeypatch, source, said, passed_seconds=passed_seconds) == said


def test_the_time_in_the_file_of_properties_goes_before_the_option_s(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "shop.properties"
    load = load_of(database, "jdbc_late.t", answers_within_seconds=3600, properties_file=str(file))
    file.write_text("querytimeout = 300\n")
    said = explained_after(monkeypatch, load.relation, USER_REQUEST, passed_seconds=301)
    assert said == (
        f"{database.url} did not answer a query within 300 s, the time that querytimeout in "
        f"{file} gives it: {USER_REQUEST}"
    )
    file.write_text("queryTimeout = 5m\n")
    assert isinstance(load.relation, settings.JdbcSource)
    with pytest.raises(errors.BadArgument, match=r"queryTimeout in .* is not a number of"):
        jdbc.check(load.relation)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["jdbc:sqlite:x.db", "--jdbc-jar", "d.jar"], "needs --jdbc-table or --jdbc-query"),
        (["jdbc:sqlite:x.db", "--jdbc-table", "t"], "needs --jdbc-jar"),
        (
            ["jdbc:sqlite:x.db", "--jdbc-table", "t", "--jdbc-jar", "d.jar"],
            "name a column of whole numbers that only grows as --watermark",
        ),
        (
            ["jdbc:sqlite:x.db", "--jdbc-table", "t", "--jdbc-jar", __file__, "--mode", "replace"],
            "is not the jar of a JDBC driver",
        ),
        (["jdbc:pg://h/d?user=a&password=hush-and-hidden"], "has credentials in it"),
        (["jdbc:pg://me:hush-and-hidden@h/d"], "has credentials in it"),
        (["s3://b/x", "--watermark", "id"], "--watermark is for a source like jdbc:"),
        (["s3://b/x", "--jdbc-timeout", "5m"], "--jdbc-timeout is for a source like jdbc:"),
        (
            ["jdbc:x:y", "--jdbc-table", "t", "--jdbc-jar", "d.jar", "--jdbc-timeout", "soon"],
            "--jdbc-timeout 'soon' is not a time like 10s, 5m or 1h",
        ),
    ],
)
def test_arguments_of_a_database_that_do_not_fit_are_refused_without_secrets(
    server: server_kit.Running,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    reason: str,
) -> None:
    line = ["ingest", "--data", str(server.data), "--to", "lake.x.t", "--from", *arguments]
    assert command.main(line, interrupts.Interrupts()) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert SECRET not in said


def test_a_pipeline_s_file_names_a_database() -> None:
    text = """
        target = "lake.shop.orders"
        [source]
        from = ["jdbc:postgresql://db/shop"]
        table = "public.orders"
        watermark = "id"
        jar = "postgresql.jar"
        properties = "shop.properties"
    """
    source = settings.JdbcSource(
        url="jdbc:postgresql://db/shop", table="public.orders", watermark="id",
        jar="postgresql.jar", properties_file="shop.properties",
    )  # fmt: skip
    assert files.parse("shop", text).load.relation == source
    assert source.answers_within_seconds == 3600
    timed = files.parse("shop", f'{text}timeout = "10m"').load.relation
    assert timed == dataclasses.replace(source, answers_within_seconds=600)
    with pytest.raises(errors.BadArgument, match=r"shop.toml: source\.timeout '10' is not a time"):
        files.parse("shop", f'{text}timeout = "10"')
    with pytest.raises(errors.BadArgument, match=r"source\.jar: the jar of the database's driver"):
        files.parse("shop", text.replace("jar = ", "#"))


def _commits(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/tables/t")


@pytest.mark.spark
def test_a_load_of_a_database_cut_off_ahead_of_its_commit_loads_each_row_once_when_run_again(
    lake: Lake, database: Database
) -> None:
    database.add(1)
    load = load_of(database, "jdbc_cut.t")
    run(lake, load)
    database.add(2)
    before = lake.state("jdbc_cut.t")
    with pytest.raises(CutOff):
        run(lake, load, say=cut_off_at_the_commit)
    assert without_files(lake.state("jdbc_cut.t")) == without_files(before)
    assert run(lake, load).rows == 1
    assert run(lake, load).snapshot_id is None
    assert [row["id"] for row in lake.rows("jdbc_cut.t")] == [1, 2]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_load_of_a_database_killed_at_its_commit_loads_each_row_once_when_run_again(
    server: server_kit.Running, lake: Lake, database: Database, tmp_path: Path, side: str
) -> None:
    database.add(1)
    table = f"jdbc_killed_{side}.t"
    load = load_of(database, table, partitions=settings.parse_partitions("id"))
    run(lake, load)
    database.add(2)
    job, struck = Job(tmp_path, server), threading.Event()
    job.environment[jdbc.PASSWORD] = SECRET

    def strike(method: str, path: str) -> bool:
        if not _commits(method, path):
            return False
        struck.set()
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    jar = str(drivers.sqlite_jar())
    with wire.door(server.url, **watches) as door:
        said = job.run(
            door.url, database.url, f"lake.{table}", "--partition-by", "id", "--jdbc-jar", jar,
            "--jdbc-table", "orders", "--watermark", "id",
        )  # fmt: skip
        assert struck.is_set(), said
    job.wait_until_gone()
    assert job.secrets_left() == []
    assert run(lake, load).rows == (0 if side == "after" else 1)
    assert [row["id"] for row in lake.rows(table)] == [1, 2]
