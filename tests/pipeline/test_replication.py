"""A table with its history is copied to another server, and the copy kept current."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from pipeline import __main__ as command
from pipeline import copying, errors, interrupts, replicas, replication, settings
from tests.kit import examples
from tests.kit import server as server_kit
from tests.pipeline import test_maintained_tables as maintained
from tests.pipeline import wire
from tests.pipeline.lake import Lake
from tests.pipeline.test_killed import Job

NAMES = {"id": pa.int64(), "name": pa.string()}


def keys_of(other: settings.ServerEndpoint) -> dict[str, str]:
    return {replicas.ACCESS_KEY: other.access_key, replicas.SECRET_KEY: other.secret_key}


def target_of(
    other: settings.ServerEndpoint, url: str | None = None, **names: str
) -> replicas.Target:
    uri = f"{url or other.url}/iceberg"
    return replicas.parse(uri, keys_of(other), warehouse="lake", **names)


def catalog_of(other: settings.ServerEndpoint, warehouse: str = "lake") -> Any:
    return load_catalog(
        "other", type="rest", uri=other.iceberg, warehouse=warehouse,
        **settings.catalog_credentials(other),
    )  # fmt: skip


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": list(ids), "name": [f"n{each}" for each in ids]}, schema=pa.schema([*NAMES.items()])
    )


def new_table(lake: Lake, name: str) -> Any:
    levels = name.split(".")[:-1]
    for depth in range(1, len(levels) + 1):
        lake.catalog.create_namespace_if_not_exists(tuple(levels[:depth]))
    table = lake.catalog.create_table(name, schema=rows().schema)
    table.append(rows(1, 2, 3))
    return table


def copied(lake: Lake, name: str, to: replicas.Target) -> replication.Replicated | None:
    table = settings.parse_table(f"lake.{name}")
    return replication.run(lake.server, table, to, open_spark=lake.open_spark, say=lake.said.append)


class SweptStore:
    """A target's store that frees a file before, or while, the copy is shown."""

    def __init__(self, files: dict[str, bytes], *, freed: str, looks: int) -> None:
        self.files = files
        self._freed = freed
        self._looks = looks

    def sizes(self, keys: Sequence[str], *, bucket: str, prefix: str) -> Mapping[str, int]:
        assert (bucket, prefix) == ("vault", "t/")
        answer = {key: len(self.files[key]) for key in keys if key in self.files}
        self._looks -= 1
        if self._looks == 0:
            del self.files[self._freed]
        return answer

    def put(self, body: Any, *, bucket: str, key: str) -> None:
        self.files[key] = body.read()


@pytest.mark.parametrize("looks", [1, 2])
def test_a_file_of_a_dead_job_that_the_target_frees_meanwhile_is_copied_anew(
    tmp_path: Path, looks: int
) -> None:
    pairs = []
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(name.encode() * 3)
        pairs.append((f"{copying.STAGED}{tmp_path / name}", f"s3://vault/t/data/{name}"))
    left = {"t/data/a": b"aaa", "t/data/b": b"bbb"}
    store: Any = SweptStore(left, freed="t/data/b", looks=looks)
    files = copying.FileCopies(None, store, pairs, "s3://vault/t")
    files.copy_missing()
    files.copy_lost()
    # Here the copy is shown.
    files.copy_lost()
    assert store.files == {"t/data/a": b"aaa", "t/data/b": b"bbb", "t/data/c": b"ccc"}
    assert (files.files, files.size_bytes) == (2, 6)


def history(table: Any) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return every snapshot of a table with its rows."""
    return [
        (
            snapshot.snapshot_id,
            sorted(
                table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist(),
                key=lambda row: int(row["id"]),
            ),
        )
        for snapshot in table.metadata.snapshots
    ]


@pytest.mark.spark
@pytest.mark.smoke
def test_a_copy_has_the_table_s_whole_history_and_follows_it(
    lake: Lake, other: settings.ServerEndpoint
) -> None:
    table = new_table(lake, "rep_whole.deep.t")
    lake.spark.session.sql(
        "ALTER TABLE lake.rep_whole.deep.t SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    lake.spark.session.sql("DELETE FROM lake.rep_whole.deep.t WHERE id = 2")
    table.refresh().manage_snapshots().create_tag(
        table.refresh().current_snapshot().snapshot_id, "kept"
    ).commit()
    first = copied(lake, "rep_whole.deep.t", target_of(other))
    assert first is not None
    assert first.since is None
    copy = catalog_of(other).load_table("rep_whole.deep.t")
    assert history(copy) == history(table.refresh())
    assert [len(at) for _, at in history(copy)] == [3, 2]
    assert copy.metadata.table_uuid == table.metadata.table_uuid
    assert copy.location() == "s3://lake/rep_whole/deep/t" != table.location()
    assert set(copy.refs()) == {"main", "kept"}
    assert copied(lake, "rep_whole.deep.t", target_of(other)) is None

    version = table.metadata_location.rpartition("/")[2]
    table.append(rows(4))
    more = copied(lake, "rep_whole.deep.t", target_of(other))
    assert more is not None
    assert more.since == version
    # The rows, one manifest, the list of manifests, the metadata.
    assert more.files == 4
    copy = catalog_of(other).load_table("rep_whole.deep.t")
    assert history(copy) == history(table.refresh())
    assert copy.metadata_location == more.metadata_location


@pytest.mark.spark
@pytest.mark.parametrize(
    "writer",
    ["spark, format 3, deletion vectors", "flink's manifests, equality deletes"],
)
def test_deletes_of_every_form_are_copied(
    lake: Lake, other: settings.ServerEndpoint, writer: str
) -> None:
    lake.catalog.create_namespace_if_not_exists(maintained.NAMESPACE)
    number = [*maintained.WRITERS].index(writer)
    writing = maintained.Writing(lake=lake, duck=None, name=f"rep_deletes_{number}")
    expected = sorted(maintained.WRITERS[writer](writing).items())
    for key, value in settings.catalog_settings(other, "lake", name="replica").items():
        lake.spark.session.conf.set(key, value)

    def read(catalog: str) -> list[tuple[int, ...]]:
        columns = "id, name, _row_id" if "format 3" in writer else "id, name"
        name = f"{catalog}.{writing.ident}"
        return sorted(
            tuple(row) for row in lake.spark.session.sql(f"select {columns} from {name}").collect()
        )

    assert copied(lake, writing.ident, target_of(other)) is not None
    assert [row[:2] for row in read("replica")] == expected
    assert read("replica") == read("lake")
    writing.spark("delete from {t} where id in (7, 8)", "insert into {t} values (7, 'again')")
    more = copied(lake, writing.ident, target_of(other))
    assert more is not None
    assert more.since is not None
    changed = {**dict(expected), 7: "again"}
    del changed[8]
    assert [row[:2] for row in read("replica")] == sorted(changed.items())
    assert read("replica") == read("lake")


@pytest.mark.spark
def test_a_target_that_is_no_copy_is_left_as_it_is(
    lake: Lake, other: settings.ServerEndpoint
) -> None:
    table = new_table(lake, "rep_refused.t")
    catalog = catalog_of(other)
    catalog.create_namespace("rep_refused")
    foreign = catalog.create_table("rep_refused.t", schema=rows().schema)
    with pytest.raises(errors.BadArgument, match=r"has another table rep_refused\.t, which is no"):
        copied(lake, "rep_refused.t", target_of(other))
    assert catalog.load_table("rep_refused.t").metadata_location == foreign.metadata_location

    new_table(lake, "rep_refused.u")
    to = target_of(other, namespace="rep_refused.deep", name="v")
    assert copied(lake, "rep_refused.u", to) is not None
    changed = catalog.load_table("rep_refused.deep.v")
    assert changed.location() == "s3://lake/rep_refused/deep/v"
    changed.append(rows(9))
    table.append(rows(4))
    with pytest.raises(errors.BadArgument, match="another client has changed it"):
        copied(lake, "rep_refused.u", to)
    assert catalog.load_table("rep_refused.deep.v").metadata_location == changed.metadata_location


def _puts_a_file(method: str, path: str) -> bool:
    return method == "PUT" and path.startswith("/lake/")


def _registers(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/register")


@pytest.mark.spark
@pytest.mark.parametrize(
    "side",
    examples.short(
        ["before", "after", "with some files copied"], "after", "with some files copied"
    ),
)
def test_a_copy_cut_off_at_its_commit_is_whole_when_run_again(
    lake: Lake, other: settings.ServerEndpoint, side: str
) -> None:
    name = f"rep_cut_{side.partition(' ')[0]}.t"
    table = new_table(lake, name)
    assert copied(lake, name, target_of(other)) is not None
    before = catalog_of(other).load_table(name).metadata_location
    assert before.startswith(f"{table.location()}-replica/metadata/")
    table.append(rows(4))

    matches, passing = (_puts_a_file, 2) if " " in side else (_registers, 0)
    seen = threading.Semaphore(passing)

    def strike(method: str, path: str) -> bool:
        if matches(method, path) and not seen.acquire(blocking=False):
            door.closed.set()
        return door.closed.is_set()

    watches = {"before" if side == "before" else "after": strike}
    with wire.door(other.url, **watches) as door:
        with pytest.raises(errors.PipelineError):
            copied(lake, name, target_of(other, door.url))
        assert door.closed.is_set()
    is_before = catalog_of(other).load_table(name).metadata_location == before
    assert is_before == (side != "after")
    again = copied(lake, name, target_of(other))
    assert (again is None) == (side == "after")
    assert history(catalog_of(other).load_table(name)) == history(table.refresh())


# name -> (which request, how many of them pass first, whether the copy is registered by then)
MOMENTS = {
    "with some files copied": (_puts_a_file, 2, False),
    "with the copy registered and the answer lost": (_registers, 0, True),
}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_killed_as_it_copies_leaves_no_half_of_a_copy(
    server: server_kit.Running,
    lake: Lake,
    other: settings.ServerEndpoint,
    tmp_path: Path,
    moment: str,
) -> None:
    matches, passing, is_registered = MOMENTS[moment]
    name = f"rep_killed_{[*MOMENTS].index(moment)}.t"
    table = new_table(lake, name)
    table.append(rows(4))
    job, seen, once = Job(tmp_path, server), threading.Semaphore(passing), threading.Lock()
    job.environment |= keys_of(other)

    def strike(method: str, path: str) -> bool:
        if not matches(method, path) or seen.acquire(blocking=False):
            return False
        # First the door: between the kill and its closing another request could still pass.
        door.closed.set()
        if once.acquire(blocking=False):
            job.kill()
        return True

    with wire.door(other.url, after=strike) as door:
        said = job.run_command(
            "replicate", "--url", server.url, "--table", f"lake.{name}",
            "--to", f"{door.url}/iceberg", "--to-warehouse", "lake", "--master", "local[2]",
        )  # fmt: skip
        assert door.closed.is_set(), f"the moment never came:\n{said}\n{door.passed}"
        if not is_registered:  # Spark has ended by then
            job.wait_until_gone()
    assert job.secrets_left() == []
    catalog = catalog_of(other)
    assert catalog.table_exists(name) == is_registered
    again = copied(lake, name, target_of(other))
    assert (again is None) == is_registered
    assert history(catalog.load_table(name)) == history(table.refresh())
    assert copied(lake, name, target_of(other)) is None


ARN = "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake"


@pytest.mark.parametrize(
    ("arguments", "keys", "reason"),
    [
        (["http://o/iceberg", "--to-warehouse", "lake"], False, "must name a key pair of the"),
        (["https://s3tables.eu-west-1.amazonaws.com/iceberg"], True, "by its ARN, like arn:aws:"),
        (["arn:aws:s3tables:eu-west-1:1:bucket/b"], True, "is not the ARN of a table bucket, like"),
        (["arn:aws:s3:::lake"], True, "is not the ARN of a table bucket, like"),
        ([f"{ARN}/table/t"], True, "is not the ARN of a table bucket, like"),
        ([ARN, "--to-warehouse", "lake"], True, "--to-warehouse is for REST catalogs"),
        ([ARN, "--location", "s3://lake/t"], True, "--location is for REST catalogs"),
        ([ARN, "--to-namespace", "a.b"], True, "a namespace has one level, and names have"),
        ([ARN, "--to-table", "a-b"], True, "takes no table x.a-b"),
        ([ARN, "--to-table", ""], True, "has an empty part"),
        (["ftp://o/iceberg"], True, "is not the URI of a REST catalog"),
        (
            ["http://o/iceberg", "--to-warehouse", "lake", "--s3-endpoint", "http://me:hush@o"],
            True, "is not the URL of a store",
        ),
        *(
            ([ARN, "--s3-endpoint", wrong], True, f"'{wrong}' is not the URL of a store")
            for wrong in ("http://[bad", "http://", "http://o:port")
        ),
        (["http://me:hush@o/iceberg"], True, "without credentials in it"),
        (["https://[bad/iceberg", "--to-warehouse", "lake"], True, "is not the URI of a REST"),
        (["https:///iceberg", "--to-warehouse", "lake"], True, "is not the URI of a REST catalog"),
        (["http://o/iceberg"], True, "--to-warehouse is missing"),
        *(
            (["http://o/iceberg", "--to-warehouse", "lake", "--location", wrong], True,
             f"--location '{wrong}' is no place like s3://bucket/folder")
            for wrong in ("", "s3://", "s3://bucket", "s3:///t", "/lake/t", "s3://bucket//")
        ),
        (
            ["http://o/iceberg", "--to-warehouse", "lake", "--master", "spark://o:7077"], True,
            "which a Spark cluster cannot",
        ),
    ],
)  # fmt: skip
def test_arguments_of_a_copy_that_do_not_fit_are_refused(
    server: server_kit.Running,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    keys: bool,
    reason: str,
) -> None:
    for name in (replicas.ACCESS_KEY, replicas.SECRET_KEY):
        monkeypatch.setenv(name, "k" * 20 if keys else "")
    line = ["replicate", "--data", str(server.data), "--table", "lake.x.t", "--to", *arguments]
    assert command.main(line, interrupts.Interrupts()) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert "hush" not in said
