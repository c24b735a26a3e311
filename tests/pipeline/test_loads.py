"""How a load tells what it read, and how it learns what was read before."""

from __future__ import annotations

import json
import uuid

import pytest

from pipeline import errors, loads, settings, sources
from tests.pipeline.lake import Raw, a_load


def read(count: int) -> list[sources.Source]:
    return [
        sources.Source(place=f"s3://raw/{number:06d}.csv", etag=f"{number:032x}", size_bytes=1)
        for number in range(count)
    ]


def rows(count: int) -> list[dict[str, str]]:
    return [
        {"source": f"s3://raw/{number:06d}.csv", "etag": f"{number:032x}"}
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [1, 100])
def test_summary_of_up_to_a_hundred_sources_holds_the_list(raw: Raw, count: int) -> None:
    entries = loads.summary(
        raw.s3, read(count), a_load("lake.a.b", place=raw.place()), load_id="unused"
    )
    assert entries.keys() == {"boathouse.loads", "boathouse.loads.mode"}
    assert entries["boathouse.loads.mode"] == "append"
    assert json.loads(entries["boathouse.loads"]) == rows(count)


def test_summary_of_more_names_an_object_that_holds_the_list(raw: Raw) -> None:
    load = a_load("lake.a.b", place=raw.place(), mode="replace")
    for load_id in (uuid.uuid4().hex, uuid.uuid4().hex):
        entries = loads.summary(raw.s3, read(101), load, load_id=load_id)
        assert entries == {
            "boathouse.loads": json.dumps({"object": f"s3://boathouse-loads/{load_id}.json"}),
            "boathouse.loads.mode": "replace",
        }
        body = raw.s3.get_object(Bucket="boathouse-loads", Key=f"{load_id}.json")["Body"].read()
        assert json.loads(body) == rows(101)


def test_taken_of_a_table_that_is_not_there_is_empty(endpoint: settings.ServerEndpoint) -> None:
    for name in ("lake.pipeline_absent.t", "lake.a.b.c.t"):
        assert loads.taken(endpoint, settings.parse_table(name)) == set()


def test_taken_of_a_warehouse_that_is_not_there_names_it(endpoint: settings.ServerEndpoint) -> None:
    with pytest.raises(errors.BadArgument) as caught:
        loads.taken(endpoint, settings.parse_table("nowhere.a.t"))
    assert str(caught.value) == "there is no table bucket 'nowhere'"


def test_taken_with_a_wrong_secret_says_that_the_server_refused(
    endpoint: settings.ServerEndpoint,
) -> None:
    wrong = settings.ServerEndpoint(
        url=endpoint.url, access_key=endpoint.access_key, secret_key="wrong", region=endpoint.region
    )
    with pytest.raises(errors.NoServer, match=r"^the server at 127.0.0.1:\d+ refuses the keys: "):
        loads.taken(wrong, settings.parse_table("lake.a.b"))


def test_taken_without_a_server_says_that_none_answers(unused: str) -> None:
    absent = settings.ServerEndpoint(
        url=unused, access_key="AK", secret_key="SK", region="us-east-1"
    )
    with pytest.raises(errors.NoServer, match=f"no server answers at {unused}/iceberg"):
        loads.taken(absent, settings.parse_table("lake.a.b"))
