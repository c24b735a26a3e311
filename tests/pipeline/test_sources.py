"""Which raw objects a load reads, as the running server lists them."""

from __future__ import annotations

import gzip
import hashlib

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


def test_changed_names_what_was_written_again_or_went_away(raw: Raw) -> None:
    for name in ("a", "b", "c"):
        raw.put(f"in/{name}.csv", "x\n1\n")
    read = sources.listed(raw.s3, raw.place("in/"))
    raw.put("in/new.csv", "x\n")
    raw.put("in/a.csv", "x\n1\n")
    assert sources.changed(raw.s3, raw.place("in/"), read) == ()
    raw.put("in/b.csv", "x\n2\n")
    raw.s3.delete_object(Bucket=raw.bucket, Key="in/c.csv")
    assert keys_of(raw, sources.changed(raw.s3, raw.place("in/"), read)) == ["in/b.csv", "in/c.csv"]


def test_by_header_groups_files_whose_first_lines_are_the_same(raw: Raw) -> None:
    raw.put("in/1.csv", "a,b\n1,2\n")
    raw.put("in/2.csv", "b,a\n2,1\n")
    raw.put("in/3.csv", "a,b")
    raw.put("in/4.csv", b"\xef\xbb\xbfa,b\r\n3,4\r\n")
    raw.put("in/5.csv", "")
    raw.put("in/6.csv", "a, b\n")
    groups = sources.by_header(raw.s3, sources.listed(raw.s3, raw.place("in/")))
    assert [keys_of(raw, group) for group in groups] == [
        ["in/1.csv", "in/3.csv", "in/4.csv"],
        ["in/2.csv"],
        ["in/6.csv"],
    ]


def test_by_header_looks_into_packed_files(raw: Raw) -> None:
    for number, moment in enumerate((1, 2)):
        body = gzip.compress(f"a,b\n{number},x\n".encode() * 9000, mtime=moment)
        raw.put(f"in/{number}.csv.gz", body)
    raw.put("in/2.csv", "a,b\n2,y\n")
    raw.put("in/3.csv.gz", "a,b\n3,z\n")
    groups = sources.by_header(raw.s3, sources.listed(raw.s3, raw.place("in/")))
    assert [keys_of(raw, group) for group in groups] == [
        ["in/0.csv.gz", "in/1.csv.gz", "in/2.csv", "in/3.csv.gz"]
    ]


def test_by_header_of_empty_files_only_says_that_no_column_has_a_name(raw: Raw) -> None:
    raw.put("in/1.csv", "")
    raw.put("in/2.csv", "\n")
    with pytest.raises(errors.BadArgument) as caught:
        sources.by_header(raw.s3, sources.listed(raw.s3, raw.place("in/")))
    assert str(caught.value) == "every CSV file is empty: there is no header to name columns"


def test_by_header_of_a_file_that_went_away_says_so(raw: Raw) -> None:
    raw.put("in/1.csv", "a\n1\n")
    listing = sources.listed(raw.s3, raw.place("in/"))
    raw.s3.delete_object(Bucket=raw.bucket, Key="in/1.csv")
    with pytest.raises(errors.SourceChanged) as caught:
        sources.by_header(raw.s3, listing)
    assert str(caught.value) == (
        "in/1.csv was deleted while it was being read; nothing was loaded, "
        "run the same command again"
    )
