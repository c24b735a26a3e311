"""The `[[warehouses]]` of mini.toml."""

from __future__ import annotations

from typing import Any

import pytest

from server import config, warehouses

SPARK = {"name": "big", "engine": "spark"}
CONNECT = {**SPARK, "master": "sc://host:15002"}
CLUSTER = {**SPARK, "master": "spark://host:7077"}


def test_a_warehouse_has_defaults_and_its_name_in_upper_case() -> None:
    (warehouse,) = warehouses.parse([SPARK])
    assert warehouse == warehouses.Warehouse(
        name="BIG", engine="spark", master="local[2]", memory_mib=None, idle_seconds=600
    )
    assert warehouse.heap_mib == 1024
    assert warehouses.parse([{**SPARK, "memory_mib": 600}])[0].heap_mib == 600


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[16]", "spark://one:7077,two:7077", "spark://[::1]:7077",
     "sc://host", "sc://host:15002", "sc://[::1]:15002/;use_ssl=true"],
)  # fmt: skip
def test_masters_are_this_machine_standalone_clusters_and_connect_servers(master: str) -> None:
    (warehouse,) = warehouses.parse([{**SPARK, "master": master}])
    assert warehouse.master == master


def test_a_warehouse_says_how_much_of_a_cluster_it_gets() -> None:
    gets = {"cores": 4, "executor_memory_mib": 2048, "executor_cores": 2}
    (warehouse,) = warehouses.parse([{**SPARK, "master": "spark://one:7077", **gets}])
    assert {name: getattr(warehouse, name) for name in gets} == gets


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ("big", "not a list"),
        (["big"], "number 1: not a table"),
        ([{"engine": "spark"}], "name is missing"),
        ([{**SPARK, "name": "two words"}], "name is missing, or no plain name"),
        ([{"name": "big"}], "engine is none of spark"),
        ([{**SPARK, "engine": "duckdb"}], "engine is none of spark"),
        ([{**SPARK, "size": "large"}], "unknown key 'size'"),
        ([{**SPARK, "master": "sc://host/;token=t"}], "warehouse big: master is neither"),
        ([{**CONNECT, "memory_mib": 1024}], "memory_mib is for a Spark that the server starts"),
        ([{**CONNECT, "cores": 2}], "cores is for a Spark that the server starts"),
        ([{**SPARK, "master": "local[0]"}], "warehouse big: master is neither"),
        ([{**SPARK, "memory_mib": 511}], "memory_mib is not a whole number from 512"),
        ([{**SPARK, "memory_mib": True}], "memory_mib is not a whole number"),
        ([{**SPARK, "idle_seconds": 0}], "idle_seconds is not a whole number from 1"),
        ([{**SPARK, "cores": 2}], "cores is for a cluster; the master local[2] is none"),
        ([{**CLUSTER, "cores": 0}], "cores is not a whole number from 1"),
        ([{**CLUSTER, "executor_memory_mib": 511}], "executor_memory_mib is not a whole number"),
        ([{**CLUSTER, "executor_cores": "2"}], "executor_cores is not a whole number from 1"),
        ([SPARK, {**SPARK, "name": "BIG"}], "two [[warehouses]] have the same name"),
        ([{**SPARK, "name": f"w{number}"} for number in range(17)], "more than 16"),
    ],
)
def test_what_is_wrong_is_named(entries: Any, words: str) -> None:
    with pytest.raises(warehouses.InvalidWarehouse) as caught:
        warehouses.parse(entries)
    assert words in str(caught.value)


def test_a_malformed_warehouse_stops_the_start() -> None:
    with pytest.raises(config.InvalidConfig, match="engine is none of spark"):
        config.resolve({}, {}, {"warehouses": [{"name": "big", "engine": "trino"}]})
