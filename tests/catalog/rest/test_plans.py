"""Scan planning over HTTP: files, residuals and delete files of a scan, in one or more answers."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from catalog import deletes, manifests
from catalog.commits import LoadedTable
from catalog.rest import plan_tasks, plans, scan_tasks
from tests.catalog.rest import rest_server as kit
from tests.kit import datafiles, lakes

TABLE = "namespaces/ns/tables/t"
PLAN = f"{TABLE}/plan"
TASKS = f"{TABLE}/tasks"
BY_ID = {
    "fields": [{"source-id": 1, "field-id": 1000, "name": "tens", "transform": "truncate[10]"}]
}
BY_NAME = {"fields": [{"source-id": 2, "field-id": 1001, "name": "name", "transform": "identity"}]}
READ = ["s3tables:GetTable", "s3tables:GetTableMetadataLocation", "s3tables:GetTableData"]
USERS = {
    "reader": [kit.allow(READ, f"{kit.BUCKET_ARN}/table/*")],
    "looker": [kit.allow(READ[:2], f"{kit.BUCKET_ARN}/table/*")],
    "reader_of_t": [
        kit.allow(
            READ,
            f"{kit.BUCKET_ARN}/table/*",
            Condition={"StringEquals": {"s3tables:tableName": "t"}},
        )
    ],
}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[kit.RestServer]:
    with kit.opened(tmp_path / "data", users=USERS) as opened:
        yield opened


@pytest.fixture
def bench(rest: kit.RestServer) -> datafiles.Bench:
    return datafiles.bench(rest.lake)


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in numbers]


def create(rest: kit.RestServer, bench: datafiles.Bench, **more: Any) -> LoadedTable:
    loaded: LoadedTable = rest.run(bench.create(**more))
    return loaded


def append(
    rest: kit.RestServer, bench: datafiles.Bench, loaded: LoadedTable, *files: Any
) -> LoadedTable:
    """Append data files in one commit. files: of (rows, partition)."""

    async def work() -> LoadedTable:
        written = [
            await bench.write(loaded, file_rows, partition=partition)
            for file_rows, partition in files
        ]
        return await bench.appends.commit_files(
            loaded.ident, written, operation="append", principal=lakes.ROOT
        )

    after: LoadedTable = rest.run(work())
    return after


def plan(rest: kit.RestServer, *, user: str = "root", **request: Any) -> Any:
    """The answer to a plan. request: its members, with underscores."""
    body = {name.replace("_", "-"): value for name, value in request.items()}
    answer = rest.ask("POST", PLAN, body, user=user)
    assert answer.status == 200, answer.body
    assert answer.json["status"] == "completed"
    return answer.json


def names(answer: Any) -> list[str]:
    return [task["data-file"]["file-path"].rpartition("/")[2] for task in answer["file-scan-tasks"]]


def test_plan_of_a_table_without_snapshots_has_no_files(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    create(rest, bench)
    answer = plan(rest, filter={"type": "eq", "term": "id", "value": 1})
    assert answer.keys() == {"status", "file-scan-tasks", "storage-credentials"}
    assert answer["file-scan-tasks"] == []


def test_plan_describes_files_and_vends_the_keys_of_load_table(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = append(rest, bench, create(rest, bench), (rows(1, 2, 3), ()))
    answer = plan(rest)
    assert answer.keys() == {"status", "file-scan-tasks", "storage-credentials"}
    assert answer["storage-credentials"] == rest.load("ns.t").json["storage-credentials"]
    (task,) = answer["file-scan-tasks"]
    assert task.keys() == {"data-file", "residual-filter"}
    assert task["residual-filter"] is True
    file = task["data-file"]
    size = len(bench.read(loaded, file["file-path"]))
    assert file == {
        "spec-id": 0,
        "content": "data",
        "file-path": f"{loaded.metadata.location}/data/00000.parquet",
        "file-format": "parquet",
        "partition": [],
        "file-size-in-bytes": size,
        "record-count": 3,
        **{name: file[name] for name in ("split-offsets",) if name in file},
    }


def test_plan_prunes_by_partitions_of_several_specs_and_by_bounds(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = create(rest, bench, partition_spec=BY_ID)
    loaded = append(
        rest,
        bench,
        loaded,
        (rows(1, 5), (0,)),
        (rows(12), (10,)),
        (rows(17), (10,)),
    )
    spec = {"action": "add-spec", "spec": {"spec-id": 1, **BY_NAME}}
    answer = rest.commit("ns.t", spec, {"action": "set-default-spec", "spec-id": -1})
    assert answer.status == 200, answer.body
    loaded = rest.lake.load(loaded.ident)
    append(rest, bench, loaded, ([{"id": 13, "name": "x"}], ("x",)), (rows(14), ("n14",)))

    def planned(op: str, term: str, value: Any) -> dict[str, Any]:
        answer = plan(rest, filter={"type": op, "term": term, "value": value})
        return {
            name: task["residual-filter"]
            for name, task in zip(names(answer), answer["file-scan-tasks"], strict=True)
        }

    above = {"type": "gt-eq", "term": "id", "value": 13}
    assert planned("gt-eq", "id", 13) == {
        "00002.parquet": above,
        "00003.parquet": above,
        "00004.parquet": above,
    }
    assert planned("lt", "id", 10) == {"00000.parquet": True}
    assert planned("eq", "name", "x") == {"00003.parquet": True}
    by_name = {"type": "eq", "term": "name", "value": "n12"}
    # "n12" is between "n1" and "n5"
    assert planned("eq", "name", "n12") == {"00000.parquet": by_name, "00001.parquet": by_name}
    (first,) = plan(rest, filter={"type": "eq", "term": "id", "value": 14})["file-scan-tasks"]
    assert (first["data-file"]["spec-id"], first["data-file"]["partition"]) == (1, ["n14"])


def test_plan_of_a_snapshot_reads_what_it_held_with_its_own_schema_if_asked(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = append(rest, bench, create(rest, bench), (rows(1), ()))
    first = loaded.metadata.current_snapshot_id
    field = {"id": 3, "name": "more", "required": False, "type": "int"}
    fields = [*lakes.SCHEMA["fields"], field]
    rest.commit(
        "ns.t",
        {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    append(rest, bench, loaded, (rows(2), ()))
    assert sorted(names(plan(rest))) == ["00000.parquet", "00001.parquet"]
    assert names(plan(rest, snapshot_id=first)) == ["00000.parquet"]
    more = {"type": "not-null", "term": "more"}
    assert names(plan(rest, snapshot_id=first, filter=more)) == ["00000.parquet"]
    request = {"snapshot-id": first, "filter": more, "use-snapshot-schema": True}
    assert rest.ask("POST", PLAN, request).error == (
        400,
        "BadRequestException",
        "Malformed request: filter: Cannot find field 'more' in the schema",
    )


def test_plan_between_two_snapshots_reads_what_appends_have_added(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = create(rest, bench)
    snapshots = []
    for number in range(4):
        loaded = append(rest, bench, loaded, (rows(number), ()))
        snapshots.append(loaded.metadata.current_snapshot_id)
    answer = plan(rest, start_snapshot_id=snapshots[0], end_snapshot_id=snapshots[2])
    assert names(answer) == ["00001.parquet", "00002.parquet"]
    same = plan(rest, start_snapshot_id=snapshots[1], end_snapshot_id=snapshots[1])
    assert names(same) == []
    backwards = {"start-snapshot-id": snapshots[2], "end-snapshot-id": snapshots[0]}
    assert rest.ask("POST", PLAN, backwards).error == (
        400,
        "BadRequestException",
        f"Starting snapshot {snapshots[2]} is not a parent ancestor of end snapshot {snapshots[0]}",
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"snapshot-id": 99}, "Snapshot does not exist: 99"),
        (
            {"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 2},
            "Malformed request: a scan has a snapshot-id, or both a start-snapshot-id and an"
            " end-snapshot-id, or none of them",
        ),
        (
            {"end-snapshot-id": 1},
            "Malformed request: a scan has a snapshot-id, or both a start-snapshot-id and an"
            " end-snapshot-id, or none of them",
        ),
        (
            {"select": ["id", "unknown"]},
            "Malformed request: select: Cannot find field 'unknown' in the schema",
        ),
        (
            {"select": ["ID"]},
            "Malformed request: select: Cannot find field 'ID' in the schema",
        ),
        (
            {"stats-fields": ["gone"]},
            "Malformed request: stats-fields: Cannot find field 'gone' in the schema",
        ),
        ({"filter": {"type": "like"}}, "Malformed request: filter: Unknown expression type: like"),
    ],
)
def test_plan_that_makes_no_sense_is_refused_with_its_reason(
    rest: kit.RestServer, bench: datafiles.Bench, request_: dict[str, Any], message: str
) -> None:
    append(rest, bench, create(rest, bench), (rows(1), ()))
    assert rest.ask("POST", PLAN, request_).error == (400, "BadRequestException", message)


def test_plan_without_case_finds_columns_in_any_case(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    append(rest, bench, create(rest, bench), (rows(1), ()), (rows(5), ()))
    answer = plan(
        rest,
        filter={"type": "eq", "term": "ID", "value": 5},
        select=["ID", "Name", "_file", "_row_id"],
        case_sensitive=False,
    )
    assert names(answer) == ["00001.parquet"]
    assert answer["file-scan-tasks"][0]["residual-filter"]["term"] == "id"


def test_plan_sends_metrics_of_the_columns_that_are_named(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    append(rest, bench, create(rest, bench), (rows(3, 9), ()))
    (task,) = plan(rest, stats_fields=["id"])["file-scan-tasks"]
    file = task["data-file"]
    assert file["value-counts"] == {"keys": [1], "values": [2]}
    assert file["null-value-counts"] == {"keys": [1], "values": [0]}
    assert file["lower-bounds"] == {"keys": [1], "values": ["0300000000000000"]}
    assert file["upper-bounds"] == {"keys": [1], "values": ["0900000000000000"]}


def test_plan_stops_once_it_has_the_rows_that_are_wanted(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = create(rest, bench)
    append(rest, bench, loaded, *[(rows(number, number), ()) for number in range(5)])
    assert len(names(plan(rest, min_rows_requested=3))) == 2
    filtered = plan(
        rest, min_rows_requested=3, filter={"type": "not-eq", "term": "name", "value": "z"}
    )
    assert len(names(filtered)) == 5


def test_large_plan_is_paged_and_its_tasks_need_no_memory_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FILES_MAX", 3)
    with kit.opened(tmp_path / "data") as rest:
        bench = datafiles.bench(rest.lake)
        loaded = create(rest, bench)
        for start in range(0, 40, 10):
            loaded = append(
                rest, bench, loaded, *[(rows(number), ()) for number in range(start, start + 10)]
            )
        assert len(names(plan(rest))) == 3
        request = {"filter": {"type": "not-eq", "term": "id", "value": 5}, "stats-fields": ["id"]}
        first = rest.ask("POST", PLAN, request).json
        later = append(rest, bench, loaded, (rows(99), ()))
        assert later.metadata.current_snapshot_id != loaded.metadata.current_snapshot_id
    with kit.opened(tmp_path / "data", first_id=100_000) as rest:
        waiting = list(first["plan-tasks"])
        assert len(waiting) > 1
        answers = [first]
        while waiting:
            answer = rest.ask("POST", TASKS, {"plan-task": waiting.pop()})
            assert answer.status == 200, answer.body
            assert len(names(answer.json)) <= 3
            waiting += answer.json.get("plan-tasks", [])
            answers.append(answer.json)
        planned = sorted(name for answer in answers for name in names(answer))
        expected = {f"{number:05}.parquet" for number in range(40)} - {"00005.parquet"}
        assert planned == sorted(expected)
        task = answers[-1]["file-scan-tasks"][0]
        assert task["residual-filter"] == request["filter"]
        assert task["data-file"]["lower-bounds"]["keys"] == [1]


def test_plan_task_that_is_forged_or_of_another_table_or_expired_does_not_exist(
    rest: kit.RestServer, bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FILES_MAX", 1)
    loaded = create(rest, bench)
    loaded = append(rest, bench, loaded, *[(rows(number), ()) for number in range(3)])
    create(rest, bench, dotted="ns.other")
    (text,) = plan(rest)["plan-tasks"]
    forged = [text[:-2] + "AA", text[::-1], "", "Ω", "a" * 100]
    for each in forged:
        answer = rest.ask("POST", TASKS, {"plan-task": each})
        assert answer.error == (
            404,
            "NoSuchPlanTaskException",
            "The plan task is not one of this server",
        )
    other = rest.ask("POST", "namespaces/ns/tables/other/tasks", {"plan-task": text})
    assert other.error[:2] == (404, "NoSuchPlanTaskException")
    old = loaded.metadata.current_snapshot_id
    append(rest, bench, loaded, (rows(9), ()))
    rest.commit("ns.t", {"action": "remove-snapshots", "snapshot-ids": [old]})
    expired = rest.ask("POST", TASKS, {"plan-task": text})
    assert expired.error[:2] == (404, "NoSuchPlanTaskException")


def test_plan_task_survives_as_it_was_sealed() -> None:
    task = plan_tasks.PlanTask(
        object_uuid="u",
        snapshot_id=2**62,
        after=None,
        schema_id=3,
        filter=b'{"type":"eq"}',
        case_sensitive=False,
        stats_fields=(1, 2),
        manifest=4,
        entry=5,
        end=6,
        rows=7,
    )
    key = plan_tasks.key_of(b"k" * 32)
    text = plan_tasks.seal(task, key=key)
    assert plan_tasks.unseal(text, key=key) == task
    for other in (b"k" * 32, plan_tasks.key_of(b"l" * 32)):
        with pytest.raises(plan_tasks.InvalidPlanTask):
            plan_tasks.unseal(text, key=other)


def test_plan_task_that_cannot_be_read_does_not_exist(
    rest: kit.RestServer, bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FILES_MAX", 1)
    append(rest, bench, create(rest, bench), *[(rows(number), ()) for number in range(3)])
    (text,) = plan(rest)["plan-tasks"]
    monkeypatch.setattr(plan_tasks, "TASK_BYTES_MAX", 20)
    answer = rest.ask("POST", TASKS, {"plan-task": text})
    assert answer.error[:2] == (404, "NoSuchPlanTaskException")


def test_plan_by_a_filter_that_no_plan_task_has_room_for_is_refused(
    rest: kit.RestServer, bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FILES_MAX", 1)
    columns = [
        {"id": 3, "name": "x" * 2_000, "required": False, "type": "long"},
        {"id": 4, "name": "\u20ac" * 2_000, "required": False, "type": "long"},
    ]
    schema = {**lakes.SCHEMA, "fields": [*lakes.SCHEMA["fields"], *columns]}
    loaded = create(rest, bench, schema=schema)
    append(rest, bench, loaded, *[(rows(number), ()) for number in range(3)])

    def filter_of(predicates: int, field_id: int) -> Any:
        leaf = {"type": "is-null", "term": {"type": "reference", "id": field_id}}
        chain: Any = leaf
        for _ in range(predicates - 1):
            chain = {"type": "and", "left": chain, "right": leaf}
        return chain

    refused = rest.ask("POST", PLAN, {"filter": filter_of(300, 3)})
    assert refused.error == (
        400,
        "BadRequestException",
        "Malformed request: filter: The names of a filter's columns have at most 524288 characters",
    )
    refused = rest.ask("POST", PLAN, {"filter": filter_of(200, 4)})
    assert refused.error == (
        400,
        "BadRequestException",
        "Malformed request: filter: longer than 1048576 bytes",
    )
    (text,) = plan(rest, filter=filter_of(160, 4))["plan-tasks"]
    answer = rest.ask("POST", TASKS, {"plan-task": text})
    assert (answer.status, len(names(answer.json))) == (200, 1)


def test_plan_has_no_id_so_none_is_found_or_cancelled(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    append(rest, bench, create(rest, bench), (rows(1), ()))
    assert "plan-id" not in plan(rest)
    for method in ("GET", "DELETE"):
        assert rest.ask(method, f"{PLAN}/some-id").error == (
            404,
            "NoSuchPlanIdException",
            "Plan does not exist: some-id; every plan is answered at once",
        )
        missing = rest.ask(method, "namespaces/ns/tables/none/plan/some-id")
        assert missing.error[:2] == (404, "NoSuchTableException")


def test_planning_needs_the_right_to_read_the_data(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    append(rest, bench, create(rest, bench), (rows(1), ()))
    assert len(names(plan(rest, user="reader"))) == 1
    for method, path, body in (
        ("POST", PLAN, {}),
        ("POST", TASKS, {"plan-task": "x"}),
        ("GET", f"{PLAN}/x", None),
        ("DELETE", f"{PLAN}/x", None),
    ):
        refused = rest.ask(method, path, body, user="looker")
        assert refused.error[:2] == (403, "ForbiddenException")


def test_plan_refuses_a_file_of_another_table_to_those_who_may_not_read_it(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    other = create(rest, bench, dotted="ns.other")
    loaded = create(rest, bench)

    async def work() -> None:
        foreign = await bench.write(other, rows(1))
        await bench.appends.commit_files(
            loaded.ident, [foreign], operation="append", principal=lakes.ROOT
        )

    rest.run(work())
    assert len(names(plan(rest))) == 1
    assert len(names(plan(rest, user="reader"))) == 1
    refused = rest.ask("POST", PLAN, {}, user="reader_of_t")
    assert refused.error[:2] == (403, "ForbiddenException")


def test_plan_names_the_delete_files_of_each_data_file(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = create(rest, bench, properties={"format-version": "3"})

    async def work() -> None:
        files = [await bench.write(loaded, rows(number)) for number in range(3)]
        at = f"{loaded.metadata.location}/data"
        await bench.files.write(
            f"{at}/vectors.puffin", b"PFA1", table_bucket="lake", owner=lakes.ACCOUNT
        )
        appended = await bench.appends.commit_files(
            loaded.ident, files, operation="append", principal=lakes.ROOT
        )
        vectors = [
            manifests.DataFile(
                file_path=f"{at}/vectors.puffin",
                file_format="PUFFIN",
                record_count=1,
                file_size_in_bytes=4,
                content=manifests.Content.POSITION_DELETES,
                referenced_data_file=files[number].file_path,
                content_offset=4 + number,
                content_size_in_bytes=10,
            )
            for number in (0, 2)
        ]
        equality = manifests.DataFile(
            file_path=f"{at}/equality.parquet",
            file_format="PARQUET",
            record_count=2,
            file_size_in_bytes=20,
            content=manifests.Content.EQUALITY_DELETES,
            equality_ids=(1,),
        )
        await bench.appends.commit_files(
            loaded.ident,
            [*vectors, equality],
            operation="delete",
            based_on=appended.metadata.current_snapshot_id,
            principal=lakes.ROOT,
        )

    rest.run(work())
    answer = plan(rest)
    at = f"{loaded.metadata.location}/data"
    listed = answer["delete-files"]
    by_name = {
        name: [listed[place] for place in task.get("delete-file-references", [])]
        for name, task in zip(names(answer), answer["file-scan-tasks"], strict=True)
    }
    equality = {
        "spec-id": 0,
        "content": "equality-deletes",
        "file-path": f"{at}/equality.parquet",
        "file-format": "parquet",
        "partition": [],
        "file-size-in-bytes": 20,
        "record-count": 2,
        "equality-ids": [1],
    }

    def vector(number: int) -> dict[str, Any]:
        return {
            "spec-id": 0,
            "content": "position-deletes",
            "file-path": f"{at}/vectors.puffin",
            "file-format": "puffin",
            "partition": [],
            "file-size-in-bytes": 4,
            "record-count": 1,
            "referenced-data-file": f"{at}/{number:05}.parquet",
            "content-offset": 4 + number,
            "content-size-in-bytes": 10,
        }

    assert by_name == {
        "00000.parquet": [equality, vector(0)],
        "00001.parquet": [equality],
        "00002.parquet": [equality, vector(2)],
    }
    assert len(listed) == 3
    rows_of = {
        name: (task["data-file"]["first-row-id"], task["data-file"]["data-sequence-number"])
        for name, task in zip(names(answer), answer["file-scan-tasks"], strict=True)
    }
    assert sorted(rows_of.values()) == [(0, 1), (1, 1), (2, 1)]


def test_equality_delete_of_a_spec_of_void_fields_applies_to_every_older_file(
    rest: kit.RestServer, bench: datafiles.Bench
) -> None:
    loaded = create(rest, bench, partition_spec=BY_ID)
    loaded = append(rest, bench, loaded, (rows(1), (0,)), (rows(12), (10,)))
    void = {"source-id": 1, "field-id": 1000, "name": "tens", "transform": "void"}
    answer = rest.commit(
        "ns.t",
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": [void]}},
        {"action": "set-default-spec", "spec-id": -1},
    )
    assert answer.status == 200, answer.body
    loaded = rest.lake.load(loaded.ident)
    equality = manifests.DataFile(
        file_path=f"{loaded.metadata.location}/data/equality.parquet",
        file_format="PARQUET",
        record_count=1,
        file_size_in_bytes=20,
        spec_id=1,
        partition=(None,),
        content=manifests.Content.EQUALITY_DELETES,
        equality_ids=(1,),
    )
    rest.run(
        bench.appends.commit_files(
            loaded.ident,
            [equality],
            operation="delete",
            based_on=loaded.metadata.current_snapshot_id,
            principal=lakes.ROOT,
        )
    )
    append(rest, bench, rest.lake.load(loaded.ident), (rows(13), (None,)))
    answer = plan(rest)
    references = {
        name: task.get("delete-file-references", [])
        for name, task in zip(names(answer), answer["file-scan-tasks"], strict=True)
    }
    assert references == {"00000.parquet": [0], "00001.parquet": [0], "00002.parquet": []}


def test_plan_takes_turns_by_the_delete_files_that_it_compares(
    rest: kit.RestServer, bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = create(rest, bench)
    loaded = append(rest, bench, loaded, *[(rows(number), ()) for number in range(20)])
    turns = 0

    async def turn(seconds: float) -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(seconds)

    shown = types.SimpleNamespace(sleep=turn, to_thread=asyncio.to_thread)
    monkeypatch.setattr(plans, "asyncio", shown)
    monkeypatch.setattr(plans, "WORK_BYTES_AT_ONCE", 400 * scan_tasks.COMPARISON_COST_BYTES)
    plan(rest)
    before, turns = turns, 0
    wide = [
        manifests.DataFile(
            file_path=f"{loaded.metadata.location}/data/p{number}.parquet",
            file_format="PARQUET",
            record_count=2,
            file_size_in_bytes=20,
            content=manifests.Content.POSITION_DELETES,
            metrics=manifests.Metrics(
                lower_bounds={deletes.FILE_PATH_ID: b"a"}, upper_bounds={deletes.FILE_PATH_ID: b"b"}
            ),
        )
        for number in range(200)
    ]
    rest.run(
        bench.appends.commit_files(
            loaded.ident,
            wide,
            operation="delete",
            based_on=loaded.metadata.current_snapshot_id,
            principal=lakes.ROOT,
        )
    )
    answer = plan(rest)
    assert "delete-files" not in answer
    assert len(names(answer)) == 20
    assert turns >= before + 8  # 200 of the 400 comparisons of a turn for each of 20 files


def test_plans_at_once_answer_alike(rest: kit.RestServer, bench: datafiles.Bench) -> None:
    append(rest, bench, create(rest, bench), *[(rows(number), ()) for number in range(20)])

    async def work() -> list[bytes]:
        answers = await asyncio.gather(*(rest.exchange("POST", PLAN, {}) for _ in range(8)))
        return [answer.body for answer in answers]

    bodies = rest.run(work())
    assert len({msgspec.json.encode(msgspec.json.decode(body)) for body in bodies}) == 1


def test_a_long_or_deep_filter_is_planned_page_by_page_or_refused(
    rest: kit.RestServer, bench: datafiles.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FILES_MAX", 1)
    append(rest, bench, create(rest, bench), *[(rows(number), ()) for number in range(2)])
    leaf = {"type": "not-eq", "term": "id", "value": 7}
    chain: Any = leaf
    for _ in range(300):
        chain = {"type": "and", "left": chain, "right": leaf}
    (text,) = plan(rest, filter=chain)["plan-tasks"]
    answer = rest.ask("POST", TASKS, {"plan-task": text})
    assert (answer.status, len(names(answer.json))) == (200, 1)
    term: Any = "id"
    for _ in range(200):
        term = {"type": "transform", "transform": "bucket[2]", "term": term}
    deep = {"filter": {"type": "eq", "term": term, "value": 1}}
    assert rest.ask("POST", PLAN, deep).error == (
        400,
        "BadRequestException",
        "Malformed request: filter: A term nests at most 20 levels",
    )
