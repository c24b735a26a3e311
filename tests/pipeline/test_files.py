"""A pipeline's file is parsed whole, or refused with the key that is wrong."""

from __future__ import annotations

import pytest

from pipeline import errors, files, jobs, settings
from tests.kit import server as server_kit

WHOLE = """
description = "orders of the shop"
target = "lake.sales.orders"
mode = "merge"
key = ["id"]
order_by = "at"
partition_by = "month(at)"
retries = 2
keep_runs_days = 90
on_error = "reject"

[source]
from = ["s3://raw/orders/", "s3://raw/more/"]
options = { nullValue = "NA" }
schema = { id = "long" }

[[transform]]
name = "clean"
sql = "select * from source where id > 0"

[[check]]
name = "no negative amounts"
sql = "select * from target where amount < 0"
severity = "warn"
"""
LEAST = 'target = "lake.a.b"\n[source]\nfrom = ["s3://raw/"]\n'


def test_a_file_names_a_whole_load() -> None:
    pipeline = files.parse("orders", WHOLE)
    load = pipeline.load
    assert (pipeline.retries, pipeline.description) == (2, "orders of the shop")
    assert (pipeline.keep_runs_days, load.on_error) == (90, "reject")
    assert load.table.full == "lake.sales.orders"
    assert [str(place) for place in load.places] == ["s3://raw/orders/", "s3://raw/more/"]
    assert load.merge == jobs.Merge(key=("id",), order_by="at")
    assert load.partitions == settings.parse_partitions("month(at)")
    assert dict(load.types) == {"id": "long"}
    assert load.transforms == (
        jobs.SqlTransform(name="clean", sql="select * from source where id > 0"),
    )
    assert load.checks[0].severity == "warn"


def test_the_least_file_appends_csv() -> None:
    load = files.parse("least", LEAST).load
    assert (load.mode, load.reader.format, load.transforms, load.digest) == (
        "append", "csv", (), None
    )  # fmt: skip


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_runs_are_kept_for_a_day_at_least_and_a_century_at_most(days: int) -> None:
    with pytest.raises(errors.BadArgument, match=f"keep_runs_days is {days}; it must be 1 to"):
        files.parse("p", f"keep_runs_days = {days}\n{LEAST}")


def test_options_have_the_types_of_toml() -> None:
    text = LEAST + "options = { header = false, samplingRatio = 0.5, sep = ';' }"
    reader = files.parse("p", text).load.reader
    assert [reader.options[name] for name in ("header", "sep")] == ["false", ";"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("target = ", "p.toml: Invalid value"),
        ("[source]\nfrom = ['s3://raw/']", "p.toml: target is missing"),
        ("target = 'lake.a.b'", "p.toml: source is missing"),
        (LEAST + "form = 'csv'", "p.toml: source.form is no key; there are: from, format"),
        ("targt = 'x'\n" + LEAST, "p.toml: targt is no key"),
        ("target = 3", "p.toml: target must be a text"),
        ("retries = 11\n" + LEAST, "p.toml: retries is 11; it must be 0 to 10"),
        ("retries = true\n" + LEAST, "p.toml: retries must be a number"),
        ("mode = 'upsert'\n" + LEAST, "p.toml: mode is 'upsert'; it must be one of append"),
        ("mode = 'merge'\n" + LEAST, "p.toml: mode merge needs key"),
        ("key = ['id']\n" + LEAST, "p.toml: key is for mode merge"),
        (
            "mode = 'merge'\nkey = ['id']\norder_by = ''\n" + LEAST,
            "p.toml: order_by is empty: it names a column",
        ),
        (
            "schedule = '0 2 * * *'\nafter = 'q'\n" + LEAST,
            "p.toml: schedule and after exclude each other",
        ),
        ("mode = 'merge'\nkey = ['id', 'ID']\n" + LEAST, "flag name column 'id' twice"),
        ("mode = 'merge'\nkey = ['a']\ndelete_flag = 'A'\n" + LEAST, "name column 'a' twice"),
        (
            LEAST + "format = 'parquet'\nschema = { id = 'long' }",
            "p.toml: source.schema: parquet files have a schema of their own",
        ),
        ("on_error = 'skip'\n" + LEAST, "on_error is 'skip'; it must be one of fail, reject"),
        (
            "on_error = 'reject'\n" + LEAST + "format = 'orc'",
            "p.toml: --on-error reject is for csv and json",
        ),
        (LEAST + "options = { sep = [';'] }", "p.toml: source.options.sep must be a text"),
        (LEAST + "[[transform]]\nname = 'a'\n", "p.toml: transform.sql is missing"),
        (LEAST + "[[transform]]\nname = 'a b'\nsql = 's'", "must have letters, digits and _"),
        (LEAST + "[[transform]]\nname = 'Target'\nsql = 's'", "'Target' is taken"),
        (LEAST + "[[check]]\nname = 'a'\nsql = 's'\nseverity = 'no'", "check.severity is 'no'"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(text: str, words: str) -> None:
    with pytest.raises(errors.BadArgument) as raised:
        files.parse("p", text)
    assert words in str(raised.value)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "a" * 101])
def test_a_name_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(errors.BadArgument):
        files.check_name(name)


def test_every_example_has_a_transform_and_a_check_and_can_be_parsed() -> None:
    folder = server_kit.ROOT / "examples" / "pipelines"
    examples = sorted(folder.glob("*.toml"))
    assert [path.name for path in examples] == ["flights.toml"]
    for path in examples:
        load = files.parse(path.stem, path.read_text()).load
        assert load.transforms
        assert load.checks
