"""S3 as Arrow's C++ file system uses it: everything in parts, aws-chunked over plain HTTP."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.kit import s3 as kit
from tests.kit.server import Running


@pytest.fixture
def files(server: Running) -> pafs.S3FileSystem:
    return pafs.S3FileSystem(
        endpoint_override=server.url,
        access_key=server.access_key,
        secret_key=server.secret_key,
        region=kit.REGION,
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )


def test_pyarrow_writes_reads_and_lists(files: pafs.S3FileSystem) -> None:
    bucket = kit.unique_name()
    files.create_dir(bucket)
    body = hashlib.shake_256(b"pyarrow").digest(12_000_000)
    for name, data in (("small", b"tiny"), ("large", body), ("empty", b"")):
        with files.open_output_stream(f"{bucket}/d/{name}") as out:
            out.write(data)
        with files.open_input_file(f"{bucket}/d/{name}") as source:
            assert source.read() == data
    infos = files.get_file_info(pafs.FileSelector(f"{bucket}/d"))
    assert sorted((info.base_name, info.size) for info in infos) == [
        ("empty", 0),
        ("large", len(body)),
        ("small", 4),
    ]
    files.copy_file(f"{bucket}/d/small", f"{bucket}/d/copy of small")
    files.delete_dir_contents(f"{bucket}/d")
    assert files.get_file_info(pafs.FileSelector(f"{bucket}/d", allow_not_found=True)) == []


@pytest.mark.clients
def test_pyarrow_writes_a_partitioned_data_set_and_filters_it(files: pafs.S3FileSystem) -> None:
    bucket = kit.unique_name()
    files.create_dir(bucket)
    table = pa.table({"n": range(100_000), "part": [f"p {n % 5}" for n in range(100_000)]})
    pq.write_to_dataset(table, f"{bucket}/t", partition_cols=["part"], filesystem=files)
    data = ds.dataset(f"{bucket}/t", filesystem=files, partitioning="hive")
    assert data.count_rows() == 100_000
    assert data.count_rows(filter=ds.field("part") == "p 3") == 20_000


@pytest.mark.clients
def test_pyarrow_makes_and_removes_directories(files: pafs.S3FileSystem) -> None:
    bucket = kit.unique_name()
    files.create_dir(f"{bucket}/a/b", recursive=True)
    assert files.get_file_info(f"{bucket}/a/b").type == pafs.FileType.Directory
    assert files.get_file_info(f"{bucket}/a/c").type == pafs.FileType.NotFound
    with files.open_output_stream(f"{bucket}/a/b/f", metadata={"Content-Type": "x/y"}) as out:
        out.write(b"x")
    with files.open_input_stream(f"{bucket}/a/b/f") as source:
        assert source.metadata()["Content-Type"] == b"x/y"
    files.move(f"{bucket}/a/b/f", f"{bucket}/a/b/g")
    files.delete_file(f"{bucket}/a/b/g")
    files.delete_dir(f"{bucket}/a")
    files.delete_dir(bucket)
    assert files.get_file_info(bucket).type == pafs.FileType.NotFound
