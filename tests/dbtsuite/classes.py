"""The test classes of dbt's adapter suite, as a module that pytest collects in dbt's environment.

Each abstract class of the suite's areas that holds tests becomes a test class here. Those that need
to know an adapter are told Snowflake's names and types; those written for another database are left
out. The environment, which `tests.dbtsuite` sets, says where the server is.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterator
from typing import Any

import dbt.tests.adapter
import pytest
from dbt.adapters.snowflake import SnowflakeAdapter
from dbt.tests.adapter.basic import expected_catalog as catalogs
from dbt.tests.util import AnyInteger, AnyString

AREAS = os.environ["LAKE_AREAS"].split(",")

OF_OTHER_DATABASES = (
    "BaseArrayUtils",  # abstract, though it has a test
    "BaseCalculateFreshnessMethod",  # calls Postgres's NOW()
    "BaseCurrentTimestamp",  # abstract, though it has a test
    "BaseCurrentTimestampNaive",  # Snowflake's is aware: BaseCurrentTimestampAware
    "BaseCurrentTimestamps",  # expects Postgres's text
    "BaseDocsGenReferences",  # expects Postgres's ownership
    "BaseGetCatalogForSingleRelation",  # leaves every expectation to the adapter
    "BaseIncrementalBadStrategy",  # dbt-snowflake meets the strategy in the second run only
    "BaseMixedNullCompare",  # fails on purpose
)


@pytest.fixture(scope="class")
def dbt_profile_target() -> dict[str, Any]:
    return {
        "type": "snowflake",
        "account": "boathouse",
        "host": "127.0.0.1",
        "port": int(os.environ["LAKE_PORT"]),
        "protocol": "http",
        "user": os.environ["LAKE_KEY"],
        "password": os.environ["LAKE_SECRET"],
        "database": "LAKE",
        "warehouse": "LOCAL",
        "threads": 4,
    }


def run_statements(self: SnowflakeAdapter, sql: str, fetch: str | None, conn: Any) -> Any:
    """Run each statement of a text, as set-up texts of the suite have several."""
    *_, last = conn.handle.execute_string(sql)
    match fetch:
        case "one":
            return last.fetchone()
        case "all":
            return last.fetchall()


SnowflakeAdapter.run_sql_for_tests = run_statements


class Docs:
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> dict[str, Any]:
        def statistic(name: str, label: str, value: Any, description: str) -> dict[str, Any]:
            return {
                "id": name,
                "label": label,
                "value": value,
                "description": description,
                "include": True,
            }

        has_any = {**catalogs.no_stats()["has_stats"], "value": True}
        rows = "An approximate count of rows in this table"
        size = "Approximate size of the table as reported by Snowflake"
        changed = "The timestamp for last update/change"
        return catalogs.base_expected_catalog(
            project,
            role=AnyString(),  # the user who made it; in Snowflake a role
            id_type="NUMBER",
            text_type="TEXT",
            time_type="TIMESTAMP_NTZ",
            view_type="VIEW",
            table_type="BASE TABLE",
            model_stats=catalogs.no_stats(),
            seed_stats={
                "has_stats": has_any,
                "row_count": statistic("row_count", "Row Count", AnyInteger(), rows),
                "bytes": statistic("bytes", "Approximate Size", AnyInteger(), size),
                "last_modified": statistic("last_modified", "Last Modified", AnyString(), changed),
            },
            case=str.upper,
        )


class SeedTypes:
    """The types that a seed's columns get, by Snowflake's names, in place of the suite's."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        types = {
            "seed_enabled": {"BIRTHDAY": "DATE", "SEED_ID": "character varying(16777216)"},
            "seed_tricky": {
                "SEED_ID": "NUMBER(38,0)",
                "SEED_ID_STR": "character varying(16777216)",
                "A_BOOL": "BOOLEAN",
                "LOOKS_LIKE_A_BOOL": "character varying(16777216)",
                "A_DATE": "TIMESTAMP_NTZ",
                "LOOKS_LIKE_A_DATE": "character varying(16777216)",
                "RELATIVE": "character varying(16777216)",
                "WEEKDAY": "character varying(16777216)",
            },
        }
        lines = ["version: 2", "seeds:"]
        for seed, columns in types.items():
            lines += [f"- name: {seed}", "  columns:"]
            for column, column_type in columns.items():
                lines += [f"  - name: {column}", "    data_tests:", "    - column_type:"]
                lines += [f"        type: {column_type}"]
        return {"schema.yml": "\n".join(lines)}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        text = "character varying"
        enabled = {"seed_id": text, "birthday": "date"}
        tricky = dict.fromkeys(("seed_id_str", "looks_like_a_bool", "looks_like_a_date"), text)
        return {
            "seeds": {
                "test": {
                    "enabled": False,
                    "quote_columns": False,
                    "seed_enabled": {"enabled": True, "+column_types": enabled},
                    "seed_tricky": {"enabled": True, "+column_types": tricky},
                }
            }
        }


class Microbatch:
    @pytest.fixture(scope="class")
    def input_model_sql(self) -> str:
        rows = [
            f"select {day} as id, to_timestamp_tz('2020-01-0{day} 00:00:00-0') as event_time"
            for day in (1, 2, 3)
        ]
        config = "{{ config(materialized='table', event_time='event_time') }}"
        return f"{config}\n{' union all '.join(rows)}"

    @pytest.fixture(scope="class")
    def insert_two_rows_sql(self, project: Any) -> str:
        rows = [f"select {day}, to_timestamp_tz('2020-01-0{day} 00:00:00-0')" for day in (4, 5)]
        return f"insert into {project.test_schema}.input_model {' union all '.join(rows)}"


TOLD = {
    "BaseDocsGenerate": Docs,
    "BaseSimpleSeedColumnOverride": SeedTypes,
    "BaseMicrobatch": Microbatch,
}
"""What a class of the suite must be told of Snowflake."""


def classes() -> Iterator[tuple[str, tuple[type, ...]]]:
    """Yield the classes of the areas that hold tests, by the names of their own here."""
    for area in AREAS:
        package = importlib.import_module(f"{dbt.tests.adapter.__name__}.{area}")
        for listed in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(listed.name)
            for name, each in inspect.getmembers(module, inspect.isclass):
                is_own = each.__module__ == module.__name__ and name.startswith("Base")
                has_tests = any(member.startswith("test") for member in dir(each))
                if is_own and has_tests and name not in OF_OTHER_DATABASES:
                    yield f"Test_{area}__{name}", (TOLD[name], each) if name in TOLD else (each,)


for label, bases in classes():
    globals()[label] = type(label, bases, {"__module__": __name__})
