"""`audit = "all"`: the audit log has the reads of every face, apart from changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kit import lake_client, rest, s3
from tests.kit import server as server_kit


def lines_of(data: Path, topic: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted((data / "audit").glob(f"{topic}-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def actions_of(lines: list[dict[str, Any]]) -> set[str]:
    return {line["action"] for line in lines if "action" in line}


def use(running: server_kit.Running) -> None:
    """Write and read on the faces of S3, the catalog and SQL."""
    for method in ("PUT", "GET", "GET", "HEAD"):
        body = b"x" if method == "PUT" else b""
        assert s3.call(running, method, "/plain/k", body=body).status == 200
    assert s3.call(running, "GET", "/plain/none").status == 404
    with lake_client.session(running) as session:
        session.rows("create schema lake.ns")
        session.rows("create table lake.ns.t (id int)")
        assert session.rows("select count(*) from lake.ns.t") == [(0,)]
    lake_client.catalog(running).load_table("ns.t")
    with rest.Client(running) as client:
        views = "ns%1Fouter,ns%1Finner"
        assert client.ask("GET", f"namespaces/ns/tables/t?referenced-by={views}")[0] == 200


def test_all_reads_are_recorded_with_their_outcomes(tmp_path: Path) -> None:
    running = server_kit.start(tmp_path / "data", "--bucket", "plain", "--audit", "all")
    try:
        use(running)
    finally:
        assert running.stop() == 0

    reads = lines_of(tmp_path / "data", "reads")
    objects = [line for line in reads if line.get("place") == "plain/k"]
    assert [line["action"] for line in objects] == ["s3:GetObject"] * 3
    assert {line["event"] for line in objects} == {"allow"}
    outcomes = {line["request_id"]: line["status"] for line in reads if line["event"] == "outcome"}
    assert [outcomes[line["request_id"]] for line in objects] == [200, 200, 200]
    (missing,) = (line for line in reads if line.get("place") == "plain/none")
    assert outcomes[missing["request_id"]] == 404
    loads = [line for line in reads if line.get("action") == "s3tables:GetTableMetadataLocation"]
    faces = {line["face"] for line in loads}
    assert faces == {"iceberg", "snowflake"}

    through = [line for line in reads if line.get("referenced_by")]
    assert {line["referenced_by"] for line in through} == {"ns\x1fouter,ns\x1finner"}
    assert actions_of(through) == {"s3tables:GetTable", "s3tables:GetTableMetadataLocation"}

    changes = lines_of(tmp_path / "data", "audit")
    assert not actions_of(changes) & actions_of(reads)


def test_by_default_reads_have_no_record(tmp_path: Path) -> None:
    running = server_kit.start(tmp_path / "data", "--bucket", "plain")
    try:
        use(running)
    finally:
        assert running.stop() == 0
    assert not lines_of(tmp_path / "data", "reads")
    assert "s3:PutObject" in actions_of(lines_of(tmp_path / "data", "audit"))
