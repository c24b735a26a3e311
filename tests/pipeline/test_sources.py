"""Which raw objects a load reads, as the running server lists them."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline import errors, settings, sources
from tests.pipeline.lake import Raw


def keys_of(raw: Raw, listing: tuple[sources.Source, ...] | list[sources.Source]) -> list[str]:
    return [source.place.removeprefix(raw.uri()) for source in listing]


def test_listed_gives_place_etag_and_size_in_order_of_keys(raw: Raw) -> None:
    raw.put("in/b.csv", "x\n1\n")
    raw.put("in/a é+%20.csv", "x\n")
    raw.put("other/c.csv", "x\n")
    listing = sources.listed(raw.s3, raw.place("in/"))
    assert listing == (
        sources.Source(
            place=raw.uri("in/a é+%20.csv"), etag=hashlib.md5(b"x\n").hexdigest(), size_bytes=2
        ),
        sources.Source(
            place=raw.uri("in/b.csv"), etag=hashlib.md5(b"x\n1\n").hexdigest(), size_bytes=4
        ),
    )
    assert listing[1].path == f"s3a://{raw.bucket}/in/b.csv"


def test_listed_leaves_out_markers_and_hidden_files(raw: Raw) -> None:
    for key in ("in/", "in/_SUCCESS", "in/.part.crc", "in/data.csv", "in/_temporary/part.csv"):
        raw.put(key, "x\n")
    assert keys_of(raw, sources.listed(raw.s3, raw.place("in/"))) == ["in/data.csv"]
    assert keys_of(raw, sources.listed(raw.s3, raw.place("in/d"))) == ["in/data.csv"]
    below = sources.listed(raw.s3, raw.place("in/_temporary/p"))
    assert keys_of(raw, below) == ["in/_temporary/part.csv"]


def test_listed_reads_every_page(raw: Raw) -> None:
    for number in range(1005):
        raw.put(f"in/{number:05d}.csv", "")
    assert len(sources.listed(raw.s3, raw.place("in/"))) == 1005


def test_listed_of_more_than_a_load_takes_says_so(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SOURCES_MAX", 2)
    for number in range(3):
        raw.put(f"in/{number}.csv", "")
    with pytest.raises(errors.BadArgument) as caught:
        sources.listed(raw.s3, raw.place("in/"))
    assert str(caught.value) == (
        f"more than 2 objects below s3://{raw.bucket}/in/; load a narrower prefix"
    )


def test_listed_of_an_absent_bucket_names_it(endpoint: settings.ServerEndpoint) -> None:
    place = settings.ObjectPrefix(bucket="pipeline-absent", prefix="")
    with pytest.raises(errors.BadArgument) as caught:
        sources.listed(sources.client(endpoint), place)
    assert str(caught.value) == "there is no bucket 'pipeline-absent'"


def test_listed_with_a_wrong_secret_says_that_the_server_refused(
    endpoint: settings.ServerEndpoint, raw: Raw
) -> None:
    wrong = settings.ServerEndpoint(
        url=endpoint.url, access_key=endpoint.access_key, secret_key="wrong", region=endpoint.region
    )
    with pytest.raises(errors.NoServer, match="SignatureDoesNotMatch"):
        sources.listed(sources.client(wrong), raw.place())


def test_a_file_of_this_machine_that_cannot_be_read_is_named() -> None:
    # Linux opens it, and no process can read its first page.
    with pytest.raises(errors.BadSource) as caught:
        sources.listed(None, settings.parse_place("/proc/self/mem"))
    place = f"file:///proc/{os.getpid()}/mem"
    assert str(caught.value) == f"{place} cannot be read: Input/output error"


def test_a_folder_below_that_cannot_be_read_is_named_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, scan = tmp_path / "closed", os.scandir
    closed.mkdir()
    (tmp_path / "1.csv").write_text("id\n1\n")

    def refusing(path: str) -> Any:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(errors.BadArgument) as caught:
        sources.listed(None, settings.parse_place(str(tmp_path)))
    assert str(caught.value) == f"{closed} cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("pattern", "named", "refused"),
    [
        ("*.csv", "1.csv", None),
        ("year=*/*.csv", "year=1/2.csv", None),
        ("lost*/*.csv", None, "lost+found"),
        ("**.csv", None, "lost+found"),
        ("year=*/**/3.csv", None, "year=1/lost+found"),
        ("year=**.csv", None, "year=1/lost+found"),
        ("year=2/**/*.csv", "year=2/deep/4.csv", None),
        ("*/deep/*.csv", None, "lost+found"),
    ],
)
def test_a_folder_that_cannot_be_read_fails_the_patterns_that_may_name_its_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    named: str | None,
    refused: str | None,
) -> None:
    scan = os.scandir
    for folder in ("lost+found", "year=1/lost+found", "year=2/deep"):
        (tmp_path / folder).mkdir(parents=True)
    for number, file in enumerate(("1.csv", "year=1/2.csv", "year=2/deep/4.csv")):
        (tmp_path / file).write_text(f"id\n{number}\n")

    def refusing(path: str) -> Any:
        if Path(path).name == "lost+found":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    place = settings.parse_place(f"{tmp_path}/{pattern}")
    if refused is None:
        (source,) = sources.listed(None, place)
        assert source.place == f"file://{tmp_path}/{named}"
        return
    with pytest.raises(errors.BadArgument) as caught:
        sources.listed(None, place)
    assert str(caught.value) == f"{tmp_path}/{refused} cannot be read: Permission denied"


def test_changed_names_what_was_written_again_or_went_away(raw: Raw) -> None:
    for name in ("a", "b", "c"):
        raw.put(f"in/{name}.csv", "x\n1\n")
    read = sources.listed(raw.s3, raw.place("in/"))
    raw.put("in/new.csv", "x\n")
    raw.put("in/a.csv", "x\n1\n")
    assert sources.changed(raw.s3, (raw.place("in/"),), read) == ()
    raw.put("in/b.csv", "x\n2\n")
    raw.s3.delete_object(Bucket=raw.bucket, Key="in/c.csv")
    assert keys_of(raw, sources.changed(raw.s3, (raw.place("in/"),), read)) == [
        "in/b.csv",
        "in/c.csv",
    ]
