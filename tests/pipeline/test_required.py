"""Loads into tables with required columns, columns that identify rows, and nested fields."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg import schema as iceberg_schema
from pyiceberg import types

from pipeline import errors, jobs
from tests.pipeline.lake import Lake, Raw

pytestmark = pytest.mark.spark


def make(lake: Lake, name: str) -> Any:
    """Create a table whose id identifies rows and is required, as are parts of the others."""
    lake.catalog.create_namespace_if_not_exists("required")
    nested = types.StructType(types.NestedField(4, "a", types.LongType(), required=True))
    columns = iceberg_schema.Schema(
        types.NestedField(1, "id", types.LongType(), required=True),
        types.NestedField(2, "name", types.StringType(), required=False),
        types.NestedField(3, "part", nested, required=False),
        types.NestedField(
            6, "tags", types.ListType(7, types.StringType(), element_required=True), required=False
        ),
        identifier_field_ids=[1],
    )
    return lake.catalog.create_table(f"required.{name}", schema=columns)


def line(number: int | None, name: str = "x") -> str:
    number_text = "null" if number is None else str(number)
    return f'{{"id": {number_text}, "name": "{name}", "part": {{"a": 1}}, "tags": ["t"]}}\n'


def test_a_load_keeps_required_columns_required_and_refuses_rows_without_them(
    lake: Lake, raw: Raw
) -> None:
    before = make(lake, "t").schema()
    raw.put("in/1.json", line(1) + line(2))
    assert lake.ingest(raw, "required.t", format="json").rows == 2
    loaded = lake.catalog.load_table("required.t").schema()
    assert loaded == before
    assert loaded.identifier_field_ids == [1]

    state = lake.state("required.t")
    raw.put("in/2.json", line(3) + line(None))
    with pytest.raises(errors.PipelineError, match=r"(?i)null"):
        lake.ingest(raw, "required.t", format="json")
    assert lake.state("required.t") == state

    raw.put("in/2.json", line(3)[:-2] + ', "more": 5}\n')
    assert lake.ingest(raw, "required.t", format="json").columns_added == ("more",)
    fields = {
        field.name: field.required
        for field in lake.catalog.load_table("required.t").schema().fields
    }
    assert fields == {"id": True, "name": False, "part": False, "tags": False, "more": False}


def test_a_merge_by_the_identifier_keeps_it(lake: Lake, raw: Raw) -> None:
    before = make(lake, "m").schema()
    raw.put("in/1.json", line(1) + line(2))
    lake.ingest(raw, "required.m", format="json")
    raw.put("in/2.json", line(2, "changed") + line(3))
    done = lake.ingest(
        raw, "required.m", format="json", mode="merge",
        merge=jobs.Merge(key=("id",), order_by=None, delete_flag=None),
    )  # fmt: skip
    assert done.merged == jobs.MergeCounts(inserted=1, updated=1, deleted=0)
    assert [row["name"] for row in lake.rows("required.m")] == ["x", "changed", "x"]
    assert lake.catalog.load_table("required.m").schema() == before


@pytest.mark.parametrize("engine", ["spark", "arrow"])
def test_a_nested_field_that_a_later_file_lacks_is_absent(
    lake: Lake, raw: Raw, engine: Any
) -> None:
    raw.put("in/1.json", '{"id": 1, "part": {"a": 1, "b": "x"}}\n')
    lake.ingest(raw, f"required.nested_{engine}", format="json", engine=engine)
    raw.put("in/2.json", '{"id": 2, "part": {"a": 2}}\n')
    lake.ingest(raw, f"required.nested_{engine}", format="json", engine=engine)
    assert [row["part"] for row in lake.rows(f"required.nested_{engine}")] == [
        {"a": 1, "b": "x"}, {"a": 2, "b": None}
    ]  # fmt: skip
