"""Commits with wrong values in every member: refused with a reason, never a fault of the server."""

from __future__ import annotations

from typing import Any

import pytest

from storage import errors as storage_errors
from tests.catalog.metadata import samples
from tests.catalog.rest import rest_server as kit

WRONG = ("null", "text", "negative", "past 64 bits", "past 128 bits", "deep list", "list of null")
FINAL = {400: "IllegalArgumentException", 409: "CommitFailedException"}


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_commit_with_a_wrong_member_is_never_a_fault_of_the_server(
    rest: kit.RestServer, version: str
) -> None:
    rest.make_table("ns.t", properties={"format-version": version})
    for update in samples.updates():
        for path in samples.paths(update):
            for name in WRONG:
                changed = samples.replaced(update, path, samples.VALUES[name])
                answer = rest.commit("ns.t", changed)
                assert answer.status in (200, 400, 409), (path, name, answer.body)
                if answer.status != 200:
                    assert answer.json["error"]["type"] != "CommitStateUnknownException"
                    assert answer.json["error"]["message"], (path, name)
    assert rest.load("ns.t").status == 200


def test_a_commit_with_a_wrong_requirement_is_never_a_fault_of_the_server(
    rest: kit.RestServer,
) -> None:
    rest.make_table("ns.t")
    for requirement in samples.requirements():
        for path in samples.paths(requirement):
            for name in WRONG:
                if (path, name) == (("snapshot-id",), "null"):
                    continue  # requires that there be no such ref, which is true
                changed = samples.replaced(requirement, path, samples.VALUES[name])
                answer = rest.commit("ns.t", requirements=[changed])
                assert answer.status in (400, 409), (path, name, answer.body)
                assert answer.error[1] == FINAL[answer.status]


def test_add_snapshot_with_a_null_sequence_number_names_the_member(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    update = kit.add_snapshot(1, 1)[0]
    update["snapshot"]["sequence-number"] = None
    answer = rest.commit("ns.t", update)
    assert answer.error == (
        400,
        "IllegalArgumentException",
        "Cannot parse missing long: sequence-number",
    )


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        (
            [kit.set_property("a", "b")] * 25_001,
            "A commit has at most 25000 updates",
        ),
        (
            [{"action": "set-properties", "updates": {str(n): "" for n in range(10_001)}}],
            "At most 10000 properties can be set",
        ),
        (
            [kit.set_property("x" * 1_025, "")],
            "A property's name is at most 1024 characters long, not 1025",
        ),
        (
            [
                {
                    "action": "add-schema",
                    "schema": {
                        "type": "struct",
                        "fields": [
                            {"id": n, "name": f"c{n}", "required": False, "type": "int"}
                            for n in range(1, 10_002)
                        ],
                    },
                }
            ],
            "A schema has at most 10000 fields",
        ),
        ([{"action": "assign-uuid", "uuid": "u" * 256}], "uuid is at most 255 characters"),
    ],
    ids=["updates", "properties", "property name", "fields", "uuid"],
)
def test_a_commit_beyond_a_bound_names_the_bound(
    rest: kit.RestServer, updates: list[dict[str, Any]], message: str
) -> None:
    before = rest.make_table("ns.t")["metadata"]
    answer = rest.commit("ns.t", *updates)
    assert answer.status == 400
    assert message in answer.json["error"]["message"]
    assert rest.load("ns.t").json["metadata"] == before


def test_a_write_that_the_index_refused_is_not_called_unknown(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.make_table("ns.t")

    async def refuse(batch: Any) -> None:
        raise storage_errors.CommitRefused("the index refused a write")

    monkeypatch.setattr(rest.lake.storage.index, "commit", refuse)
    assert rest.commit("ns.t", kit.set_property("a", "b")).error == (
        507,
        "InsufficientStorageException",
        "the index refused a write",
    )
