"""Names of buckets, table buckets and keys: every rule, with its reason."""

from __future__ import annotations

import pytest

from storage import errors, names


@pytest.mark.parametrize("name", ["abc", "a-b", "a.b.c", "0a9", "a" * 63, "my-bucket.eu", "1.2.3"])
def test_a_good_general_name_passes(name: str) -> None:
    names.check_bucket_name(name, "general")


@pytest.mark.parametrize("name", ["abc", "a-b", "0a9", "a" * 63, "lake"])
def test_a_good_table_bucket_name_passes(name: str) -> None:
    names.check_bucket_name(name, "table")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "must have"),
        ("ab", "must have"),
        ("a" * 64, "must have"),
        ("Abc", "may hold only"),
        ("a_b", "may hold only"),
        ("a b", "may hold only"),
        ("abé", "may hold only"),
        ("abc\n", "may hold only"),
        ("-abc", "must begin and end"),
        ("abc-", "must begin and end"),
        (".abc", "must begin and end"),
        ("a..b", "two dots"),
        ("192.168.5.4", "IP address"),
        ("xn--abc", "may not begin with xn--"),
        ("sthree-abc", "may not begin with sthree-"),
        ("amzn-s3-demo-abc", "may not begin with amzn-s3-demo-"),
        ("abc-s3alias", "may not end with -s3alias"),
        ("abc--ol-s3", "may not end with --ol-s3"),
        ("abc.mrap", "may not end with .mrap"),
        ("abc--x-s3", "may not end with --x-s3"),
        ("abc--table-s3", "may not end with --table-s3"),
    ],
)
def test_a_bad_general_name_is_refused_with_its_reason(name: str, reason: str) -> None:
    with pytest.raises(errors.InvalidBucketName, match=reason):
        names.check_bucket_name(name, "general")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.b", "may hold only"),
        ("aws", "may not begin with aws"),
        ("awsome", "may not begin with aws"),
        ("abc--table-s3", "may not end with --table-s3"),
    ],
)
def test_a_bad_table_bucket_name_is_refused_with_its_reason(name: str, reason: str) -> None:
    with pytest.raises(errors.InvalidBucketName, match=reason):
        names.check_bucket_name(name, "table")


@pytest.mark.parametrize("name", sorted(names.RESERVED_WORDS))
@pytest.mark.parametrize("bucket_type", ["general", "table"])
def test_the_words_of_the_other_faces_are_refused(name: str, bucket_type: str) -> None:
    with pytest.raises(errors.InvalidBucketName):
        names.check_bucket_name(name, bucket_type)  # type: ignore[arg-type] # parametrised literal


def test_a_name_that_only_begins_like_a_reserved_word_is_a_name() -> None:
    names.check_bucket_name("sessions-eu", "general")
    names.check_bucket_name("iceberg-lake", "table")


@pytest.mark.parametrize("key", ["a", "/", "//", "../..", "a%2Fb", "dir/", "é" * 512, "\x00", " "])
def test_a_key_is_taken_as_it_comes(key: str) -> None:
    assert names.check_key(key) == key.encode()


@pytest.mark.parametrize("key", ["", "a" * 1025, "é" * 513, "\ud800"])
def test_a_key_without_utf8_or_of_a_length_out_of_bounds_is_refused(key: str) -> None:
    with pytest.raises(errors.InvalidKey):
        names.check_key(key)
