"""What the pipeline's arguments mean."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import errors, resources, settings


def test_parse_table_takes_any_depth_of_namespace() -> None:
    assert settings.parse_table("lake.nyc.flights") == settings.TargetTable(
        warehouse="lake", namespace=("nyc",), name="flights"
    )
    deep = settings.parse_table("lake.a.b.c.t")
    assert (deep.namespace, deep.dotted) == (("a", "b", "c"), "a.b.c.t")
    assert deep.quoted == "`lake`.`a`.`b`.`c`.`t`"


@pytest.mark.parametrize("text", ["", "t", "lake.t", "lake..t", "lake.n.", "a b.c.d", "l.n.t'x"])
def test_parse_table_refuses_what_is_not_one(text: str) -> None:
    with pytest.raises(errors.BadArgument):
        settings.parse_table(text)


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://raw", "raw", ""),
        ("s3://raw/", "raw", ""),
        ("s3://raw/a/b", "raw", "a/b"),
        ("s3a://raw/a?b#c", "raw", "a?b#c"),
    ],
)
def test_parse_place_takes_a_bucket_and_a_prefix(text: str, bucket: str, prefix: str) -> None:
    assert settings.parse_place(text) == settings.ObjectPrefix(bucket=bucket, prefix=prefix)


@pytest.mark.parametrize("text", ["raw/a", "file://host/etc", "s3://", "http://raw/a"])
def test_parse_place_refuses_other_schemes(text: str) -> None:
    with pytest.raises(errors.BadArgument):
        settings.parse_place(text)


@pytest.mark.parametrize(
    ("text", "path", "matching", "other"),
    [
        ("./in", "./in", None, None),
        ("/data/in", "/data/in", None, None),
        ("file:///data/in", "/data/in", None, None),
        ("/data/*.csv", "/data", "/data/a.csv", "/data/b/a.csv"),
        ("./in/**/*.csv", "./in", "./in/b/c/a.csv", "./in/b/a.json"),
        ("./in/**/*.csv", "./in", "./in/a.csv", "./other/a.csv"),
    ],
)
def test_parse_place_takes_files_of_this_machine(
    text: str, path: str, matching: str | None, other: str | None
) -> None:
    place = settings.parse_place(text)
    assert isinstance(place, settings.LocalPath)
    assert place.path == path
    if matching is None or other is None:
        assert place.pattern is None
    else:
        assert place.pattern is not None
        assert re.fullmatch(place.pattern, matching)
        assert not re.fullmatch(place.pattern, other)


def test_parse_place_takes_wildcards_in_keys() -> None:
    place = settings.parse_place("s3://raw/in/2026-*/part*.csv")
    assert isinstance(place, settings.ObjectPrefix)
    assert (place.bucket, place.prefix) == ("raw", "in/2026-")
    assert place.pattern is not None
    assert re.fullmatch(place.pattern, "in/2026-01/part-1.csv")
    assert not re.fullmatch(place.pattern, "in/2026-01/deep/part-1.csv")


def test_parse_list_takes_a_place_in_each_line() -> None:
    assert settings.parse_list("# the first two\ns3://raw/a.csv\n\n  ./b.csv\n") == (
        settings.ObjectPrefix(bucket="raw", prefix="a.csv"),
        settings.LocalPath(path="./b.csv"),
    )
    with pytest.raises(errors.BadArgument, match=r"^the list of sources is empty$"):
        settings.parse_list("# none\n")


def test_parse_partitions_takes_every_transform_of_iceberg() -> None:
    parsed = settings.parse_partitions(
        "carrier, month(time_hour), days(d), bucket(16, id), truncate(s, 4)"
    )
    assert [(t.name, t.column, t.width) for t in parsed] == [
        ("identity", "carrier", None),
        ("month", "time_hour", None),
        ("day", "d", None),
        ("bucket", "id", 16),
        ("truncate", "s", 4),
    ]


@pytest.mark.parametrize("text", ["", "month()", "bucket(id)", "bucket(0, id)", "week(d)", "a,,b"])
def test_parse_partitions_refuses_what_is_no_transform(text: str) -> None:
    with pytest.raises(errors.BadArgument):
        settings.parse_partitions(text)


@given(st.text(max_size=40))
def test_parsers_answer_garbage_with_their_own_error(text: str) -> None:
    for parse in (settings.parse_table, settings.parse_place, settings.parse_partitions):
        try:
            parse(text)
        except errors.BadArgument:
            continue


def test_spark_settings_hold_nothing_that_the_server_hands_out_itself() -> None:
    server = settings.ServerEndpoint(
        url="http://127.0.0.1:5253", access_key="AK", secret_key="SK", region="us-east-1"
    )
    properties = settings.spark_settings(
        server,
        "lake",
        gets=resources.SparkResources(master="local[*]"),
        jars=Path("/jars"),
        java_options=(),
    )
    assert properties["spark.sql.catalog.lake.uri"] == "http://127.0.0.1:5253/iceberg"
    assert properties["spark.sql.catalog.lake.credential"] == "AK:SK"
    assert not [key for key in properties if key.startswith("spark.sql.catalog.lake.s3.")]
    assert "spark.jars" not in properties


def test_options_of_java_with_spaces_are_quoted() -> None:
    # Spark's launcher reads the text as a shell does: CommandBuilderUtils.parseOptionString.
    options = ("-Da=1", "-Dstore=/my cache/t.p12", '-Dquote=a "b\\')
    properties = settings.library_settings(jars=Path("/jars"), java_options=options)
    assert shlex.split(properties["spark.driver.extraJavaOptions"]) == list(options)


def test_spark_settings_ship_the_jars_to_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    server = settings.ServerEndpoint(url="http://h:1", access_key="a", secret_key="s", region="r")
    properties = settings.spark_settings(
        server,
        "lake",
        gets=resources.SparkResources(master="spark://m:7077"),
        jars=tmp_path,
        java_options=(),
    )
    assert properties["spark.jars"] == str(tmp_path / "a.jar")
    assert "spark.driver.host" not in properties


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://127.0.1.1:7077", True),
        ("spark://localhost:7077,localhost:7078", True),
        ("spark://[::1]:7077", True),
        ("spark://127.0.0.1:7077,10.0.0.2:7077", False),
        ("spark://m:7077", False),
        ("yarn", False),
    ],
)
def test_the_driver_is_reached_from_other_machines_unless_all_of_spark_is_here(
    tmp_path: Path, master: str, is_here: bool
) -> None:
    server = settings.ServerEndpoint(
        url="http://127.0.0.1:1", access_key="A", secret_key="s", region="r"
    )
    gets = resources.SparkResources(master=master)
    wanted = settings.spark_settings(server, "lake", gets=gets, jars=tmp_path, java_options=())
    assert (wanted.get("spark.driver.host") == "127.0.0.1") is is_here
    assert ("spark.jars" in wanted) is not master.startswith("local")


SERVER = settings.ServerEndpoint(
    url="http://127.0.0.1:1", access_key="A", secret_key="s", region="r"
)


def test_sessions_of_a_connect_server_read_raw_files_by_a_scheme_of_endpoint_and_keys() -> None:
    schemes = {
        settings.scheme_of_raw_files(dataclasses.replace(SERVER, **change))
        for change in ({}, {"url": "http://h:2"}, {"access_key": "B"}, {"secret_key": "t"})
    }
    assert len(schemes) == 4
    assert settings.scheme_of_raw_files(dataclasses.replace(SERVER)) in schemes
    wanted = settings.connect_settings(SERVER, "lake")
    (scheme,) = (name.split(".")[1] for name in wanted if name.endswith(".impl"))
    assert scheme == settings.scheme_of_raw_files(SERVER)
    assert wanted["fs.s3a.endpoint"] == "http://127.0.0.1:1"
    assert wanted["spark.sql.catalog.lake.uri"] == "http://127.0.0.1:1/iceberg"
    # Those are of Spark's start, which a session is too late for.
    assert not [name for name in wanted if name.startswith(("spark.hadoop.", "spark.driver."))]


# Expected: Spark's configuration, spark.local.dir and what overrides it.
@pytest.mark.parametrize(
    ("conf", "environment", "expected"),
    [
        ({"spark.local.dir": "/scratch"}, {}, True),
        ({}, {"SPARK_LOCAL_DIRS": "/scratch"}, True),
        ({}, {"SPARK_EXECUTOR_DIRS": "/scratch"}, True),
        ({"spark.x": "y"}, {"TMPDIR": "/scratch"}, False),
    ],
)
def test_the_user_names_the_folders_of_spark_s_files_by_a_setting_or_a_variable(
    conf: dict[str, str], environment: dict[str, str], expected: bool
) -> None:
    gets = resources.SparkResources(master="local[2]", conf=conf)
    wanted = settings.spark_settings(SERVER, "lake", gets=gets, jars=Path("/j"), java_options=())
    assert settings.has_local_folders(wanted, environment) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:9000", True), ("http://localhost:9000", True),
        ("http://[::1]:9000", True), ("http://127.1.2.3", True),
        ("http://10.0.0.1:9000", False), ("https://lake.example.org", False),
        ("http://127.example.org", False),
    ],
)  # fmt: skip
def test_loopback_addresses_are_of_this_machine_alone(url: str, expected: bool) -> None:
    assert settings.is_loopback(url) is expected
