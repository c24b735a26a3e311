"""S3 as Polars uses it, in an environment of its own."""

from __future__ import annotations

from tests.kit import client_programs, environments
from tests.kit.server import Running

ONE_CASE = """
import os
import polars as pl

options = {
    "aws_access_key_id": os.environ["KEY"],
    "aws_secret_access_key": os.environ["SECRET"],
    "aws_endpoint_url": os.environ["URL"],
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
}
root = "s3://" + os.environ["BUCKET"]
frame = pl.DataFrame({"id": range(200_000), "name": [f"n {n}" for n in range(200_000)]})
for part in range(3):
    rows = frame.filter(pl.col("id") % 3 == part)
    rows.write_parquet(f"{root}/t/p={part}/rows.parquet", storage_options=options)
everything = pl.scan_parquet(f"{root}/t/", hive_partitioning=True, storage_options=options)
assert everything.sort("id").select("id", "name").collect().equals(frame)
point = everything.filter(pl.col("id") == 4711).select("name", "p").collect()
assert point.rows() == [("n 4711", 1)]
everything.filter(pl.col("id") < 10).sink_csv(f"{root}/out.csv", storage_options=options)
assert pl.read_csv(f"{root}/out.csv", storage_options=options).height == 10
"""


def test_polars_writes_scans_and_filters(server: Running) -> None:
    command = [str(environments.python("s3clients")), "-c", ONE_CASE]
    client_programs.run(server, command, with_bucket=True)
