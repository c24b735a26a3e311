"""Listings over the wire: order, prefixes, delimiters, pages, tokens."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kit import s3 as kit

KEYS = (
    "a", "b/1", "b/2", "b/c/3", "b-x", "c+d e", "dir1-2", "dir1/x", "z/", "z/&<>", "é", "ü/x",
)  # fmt: skip


@pytest.fixture
def filled(s3: Any, bucket: str) -> str:
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    return bucket


def expected(
    keys: Sequence[str], *, prefix: str = "", delimiter: str = "", after: str = ""
) -> list[str]:
    """What a listing shows, by the rule as S3 states it: keys, and prefixes rolled up."""
    entries: list[str] = []
    for key in sorted(keys, key=str.encode):
        if not key.startswith(prefix) or key.encode() <= after.encode():
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = key if cut < 0 else key[: cut + len(delimiter)]
        if entry.encode() > after.encode() and entry not in entries:
            entries.append(entry)
    return entries


def shown(page: dict[str, Any]) -> list[str]:
    entries = [row["Key"] for row in page.get("Contents", [])]
    entries += [row["Prefix"] for row in page.get("CommonPrefixes", [])]
    return sorted(entries, key=str.encode)


QUERIES = list(itertools.product(("", "b", "b/", "z/", "nothing"), ("", "/", "1", "b/")))


@pytest.mark.parametrize(("prefix", "delimiter"), QUERIES)
@pytest.mark.parametrize("page_size", [1, 3, 1000])
def test_all_pages_together_show_everything_once_in_byte_order(
    s3: Any, filled: str, prefix: str, delimiter: str, page_size: int
) -> None:
    wanted = expected(KEYS, prefix=prefix, delimiter=delimiter)
    query = {"Bucket": filled, "Prefix": prefix, "Delimiter": delimiter, "MaxKeys": page_size}
    pages = [shown(page) for page in s3.get_paginator("list_objects_v2").paginate(**query)]
    assert list(itertools.chain.from_iterable(pages)) == wanted
    assert all(len(page) <= page_size for page in pages)
    pages = [shown(page) for page in s3.get_paginator("list_objects").paginate(**query)]
    assert list(itertools.chain.from_iterable(pages)) == wanted


def test_list_objects_v2_start_after_begins_behind_a_key(s3: Any, filled: str) -> None:
    page = s3.list_objects_v2(Bucket=filled, StartAfter="b/1", Delimiter="/")
    assert shown(page) == expected(KEYS, delimiter="/", after="b/1")
    assert page["StartAfter"] == "b/1"


def test_later_pages_continue_behind_the_page_before_and_still_name_start_after(
    s3: Any, filled: str
) -> None:
    query = {"Bucket": filled, "StartAfter": "b/1", "MaxKeys": 2}
    wanted = expected(KEYS, after="b/1")
    pages: list[list[str]] = []
    token: dict[str, str] = {}
    while True:
        page = s3.list_objects_v2(**query, **token)
        pages.append(shown(page))
        assert page["StartAfter"] == "b/1"
        assert page.get("ContinuationToken") == token.get("ContinuationToken")
        if not page["IsTruncated"]:
            break
        token = {"ContinuationToken": page["NextContinuationToken"]}
    assert pages == [wanted[n : n + 2] for n in range(0, len(wanted), 2)]


def test_a_page_survives_deletes_and_inserts_behind_it(s3: Any, filled: str) -> None:
    first = s3.list_objects_v2(Bucket=filled, MaxKeys=4)
    last = first["Contents"][-1]["Key"]
    s3.delete_object(Bucket=filled, Key=last)
    s3.put_object(Bucket=filled, Key=last + "0", Body=b"")
    token = first["NextContinuationToken"]
    rest = s3.list_objects_v2(Bucket=filled, ContinuationToken=token)
    assert shown(rest) == expected([*KEYS, last + "0"], after=last)
    assert rest["ContinuationToken"] == token


def test_a_token_of_another_query_or_of_none_is_refused(
    s3: Any, store: kit.ObjectStore, filled: str
) -> None:
    token = s3.list_objects_v2(Bucket=filled, MaxKeys=1)["NextContinuationToken"]
    for query in (f"prefix=b&continuation-token={token}", "continuation-token=garbage",
                  f"delimiter=%2F&continuation-token={token}"):  # fmt: skip
        answer = kit.call(store, "GET", f"/{filled}?list-type=2&{query}")
        assert (answer.status, answer.code) == (400, "InvalidArgument"), query
        assert answer.element("ArgumentName") == "continuation-token"


def test_max_keys_zero_shows_nothing_and_is_not_truncated(s3: Any, filled: str) -> None:
    for page in (
        s3.list_objects_v2(Bucket=filled, MaxKeys=0),
        s3.list_objects(Bucket=filled, MaxKeys=0),
    ):
        assert (shown(page), page["IsTruncated"], page["MaxKeys"]) == ([], False, 0)


def test_list_objects_names_the_next_marker_only_with_a_delimiter(s3: Any, filled: str) -> None:
    assert s3.list_objects(Bucket=filled, MaxKeys=2, Delimiter="/")["NextMarker"] == "b-x"
    assert "NextMarker" not in s3.list_objects(Bucket=filled, MaxKeys=2)


def test_list_objects_v2_tells_owners_only_when_asked(s3: Any, filled: str) -> None:
    plain = s3.list_objects_v2(Bucket=filled)["Contents"][0]
    shown_with_owner = s3.list_objects_v2(Bucket=filled, FetchOwner=True)["Contents"][0]
    assert "Owner" not in plain
    owner = s3.list_buckets()["Owner"]
    assert shown_with_owner["Owner"] == owner
    assert s3.list_objects(Bucket=filled)["Contents"][0]["Owner"] == owner


def test_encoding_type_url_encodes_every_name(store: kit.ObjectStore, filled: str) -> None:
    query = "list-type=2&encoding-type=url&prefix=z%2F&delimiter=%26&start-after=a%20b"
    answer = kit.call(store, "GET", f"/{filled}?{query}")
    assert answer.element("EncodingType") == "url"
    assert answer.element("Delimiter") == "%26"
    assert answer.element("StartAfter") == "a%20b"
    assert b"<CommonPrefixes><Prefix>z/%26</Prefix></CommonPrefixes>" in answer.body
    plain = kit.call(store, "GET", f"/{filled}?list-type=2&prefix=z%2F")
    assert b"<Key>z/&amp;&lt;&gt;</Key>" in plain.body


def test_a_row_tells_size_etag_time_class_and_checksum(s3: Any, bucket: str) -> None:
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"12345", ChecksumAlgorithm="CRC32C")
    (row,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    head = s3.head_object(Bucket=bucket, Key="k")
    # Clients compare the two: both have whole seconds, as on AWS.
    assert row["LastModified"] == head["LastModified"]
    del row["LastModified"]
    assert row == {
        "Key": "k",
        "Size": 5,
        "ETag": put["ETag"],
        "StorageClass": "STANDARD",
        "ChecksumAlgorithm": ["CRC32C"],
        "ChecksumType": "FULL_OBJECT",
    }


@pytest.mark.parametrize(
    "query", ["max-keys=x", "max-keys=-1", "encoding-type=base64", "list-type=3"]
)
def test_a_listing_parameter_that_makes_no_sense_is_refused(
    store: kit.ObjectStore, bucket: str, query: str
) -> None:
    answer = kit.call(store, "GET", f"/{bucket}?{query}")
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_an_empty_bucket_lists_as_empty(store: kit.ObjectStore, bucket: str) -> None:
    answer = kit.call(store, "GET", f"/{bucket}/?list-type=2")
    assert answer.element("KeyCount") == "0"
    assert answer.element("IsTruncated") == "false"
    assert answer.headers["content-type"] == "application/xml"


def test_an_empty_continuation_token_begins_at_the_start(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    page = s3.list_objects_v2(Bucket=bucket, ContinuationToken="")
    assert [row["Key"] for row in page["Contents"]] == ["k"]
