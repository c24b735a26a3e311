"""S3 as s3fs uses it, in an environment of its own: its pins clash with the server's."""

from __future__ import annotations

import pytest

from tests.kit import client_programs, environments
from tests.kit.server import Running

PRELUDE = """
import os, s3fs
fs = s3fs.S3FileSystem(
    key=os.environ["KEY"], secret=os.environ["SECRET"],
    endpoint_url=os.environ["URL"], client_kwargs={"region_name": "us-east-1"},
)
bucket = os.environ["BUCKET"]
"""

ONE_CASE = """
fs.mkdir(bucket)
body = os.urandom(12_000_000)
with fs.open(f"{bucket}/d/large", "wb", block_size=5 * 2**20) as out:
    out.write(body)
fs.pipe_file(f"{bucket}/d/small", b"tiny")
assert fs.cat_file(f"{bucket}/d/large") == body
assert fs.cat_file(f"{bucket}/d/large", start=10, end=20) == body[10:20]
assert sorted(fs.ls(f"{bucket}/d")) == [f"{bucket}/d/large", f"{bucket}/d/small"]
try:
    fs.pipe_file(f"{bucket}/d/small", b"again", mode="create")
except FileExistsError:
    pass
else:
    raise AssertionError("an exclusive create overwrote a file")
fs.copy(f"{bucket}/d/large", f"{bucket}/d/copy")
assert fs.info(f"{bucket}/d/copy")["size"] == len(body)
fs.rm(f"{bucket}/d", recursive=True)
fs.invalidate_cache()
assert fs.ls(bucket) == []
fs.rmdir(bucket)
"""

MORE = """
fs.mkdir(bucket)
fs.pipe({f"{bucket}/x/{n:03d}": str(n).encode() for n in range(120)})
assert len(fs.find(bucket)) == 120
assert len(fs.glob(f"{bucket}/x/01*")) == 10
assert fs.exists(f"{bucket}/x") and not fs.exists(f"{bucket}/y")
assert fs.isdir(f"{bucket}/x") and fs.isfile(f"{bucket}/x/000")
with fs.open(f"{bucket}/x/000", "ab") as out:
    out.write(b" appended")
assert fs.cat_file(f"{bucket}/x/000") == b"0 appended"
fs.touch(f"{bucket}/t")
assert fs.info(f"{bucket}/t")["size"] == 0
fs.setxattr(f"{bucket}/t", copy_kwargs={"ContentType": "x/y"}, colour="blue")
assert fs.getxattr(f"{bucket}/t", "colour") == "blue"
fs.put_tags(f"{bucket}/t", {"a": "1"})
assert fs.get_tags(f"{bucket}/t") == {"a": "1"}
fs.mv(f"{bucket}/x/001", f"{bucket}/x/moved é")
assert fs.cat_file(f"{bucket}/x/moved é") == b"1"
import urllib.request
assert urllib.request.urlopen(fs.sign(f"{bucket}/x/002")).read() == b"2"
fs.rm(bucket, recursive=True)
"""


def run(server: Running, program: str) -> None:
    command = [str(environments.python("s3fs")), "-c", PRELUDE + program]
    client_programs.run(server, command)


def test_s3fs_writes_reads_lists_and_creates_exclusively(server: Running) -> None:
    run(server, ONE_CASE)


@pytest.mark.clients
def test_s3fs_finds_appends_moves_tags_and_signs(server: Running) -> None:
    run(server, MORE)
