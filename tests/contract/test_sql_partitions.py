"""Partitions with odd names and values, written by SQL, where every client reads them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyiceberg.catalog import Catalog

from tests.kit import lake_client
from tests.kit import s3 as kit
from tests.kit.server import Running


@pytest.fixture
def schema(server: Running) -> Iterator[tuple[str, lake_client.Session]]:
    name = f"odd{uuid.uuid4().hex[:12]}"
    with lake_client.session(server) as session:
        session.rows(f"create schema {name}")
        yield name, session


@pytest.fixture
def catalog(server: Running) -> Catalog:
    return lake_client.catalog(server)


def test_a_partition_by_a_hidden_column_and_by_a_long_value_is_read_by_all(
    server: Running, schema: tuple[str, lake_client.Session], catalog: Catalog
) -> None:
    namespace, session = schema
    values = [".hidden", "l" * 1500, "a/b"]
    session.rows(f'create table {namespace}.t (".h" text, v int) partition by (".h")')
    rows = ", ".join(f"('{value}', {number})" for number, value in enumerate(values))
    session.rows(f"insert into {namespace}.t values {rows}")
    for number, value in enumerate(values):
        text = f"select v from {namespace}.t where \".h\" = '{value}'"
        assert session.rows(text) == [(number,)]
    table = catalog.load_table(f"{namespace}.t")
    assert table.scan().to_arrow().sort_by("v").column(".h").to_pylist() == values
    page = kit.client(server).list_objects_v2(Bucket="lake", Prefix=f"{namespace}/t/data/")
    folders = sorted(row["Key"].rpartition("/")[0] for row in page["Contents"])
    assert folders == [
        f"{namespace}/t/data",
        f"{namespace}/t/data/%2Eh=.hidden",
        f"{namespace}/t/data/%2Eh=a%2Fb",
    ]
