"""Headers and query parameters as values."""

from __future__ import annotations

import base64
import hashlib

import pytest

from server.s3 import errors, fields

CRC32_OF_NOTHING = base64.b64encode(bytes(4)).decode()


def integrity(**headers: str) -> fields.Integrity:
    return fields.parse_integrity({name.replace("_", "-"): v for name, v in headers.items()})


def test_parse_integrity_of_plain_headers_is_none_at_all() -> None:
    assert integrity(content_type="text/plain") is fields.NO_INTEGRITY


def test_parse_integrity_takes_a_checksum_and_the_algorithm_that_announces_it() -> None:
    parsed = integrity(x_amz_checksum_crc32=CRC32_OF_NOTHING, x_amz_sdk_checksum_algorithm="CRC32")
    assert parsed.checksum == ("crc32", CRC32_OF_NOTHING)


def test_parse_integrity_decodes_content_md5() -> None:
    digest = hashlib.md5(b"x").digest()
    assert integrity(content_md5=base64.b64encode(digest).decode()).content_md5 == digest


@pytest.mark.parametrize("value", ["", "zzz", "AAAA", "not base64 at all!"])
def test_a_content_md5_that_is_none_is_an_invalid_digest(value: str) -> None:
    with pytest.raises(errors.InvalidDigest):
        integrity(content_md5=value)


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_sdk_checksum_algorithm": "CRC32"},
        {"x_amz_checksum_crc32": CRC32_OF_NOTHING, "x_amz_sdk_checksum_algorithm": "SHA1"},
        {"x_amz_checksum_crc32": CRC32_OF_NOTHING, "x_amz_checksum_crc32c": CRC32_OF_NOTHING},
        {"x_amz_checksum_crc32": CRC32_OF_NOTHING, "x_amz_trailer": "x-amz-checksum-crc32"},
        {"x_amz_trailer": "x-amz-checksum-sha384"},
    ],
)
def test_digests_that_contradict_each_other_are_an_invalid_request(
    headers: dict[str, str],
) -> None:
    with pytest.raises(errors.InvalidRequest):
        integrity(**headers)


@pytest.mark.parametrize(
    "headers", [{"x_amz_checksum_crc32": "AAAA"}, {"x_amz_checksum_sha256": CRC32_OF_NOTHING}]
)
def test_a_checksum_of_another_length_is_that_of_no_body(headers: dict[str, str]) -> None:
    with pytest.raises(errors.BadDigest):
        integrity(**headers)


def test_a_checksum_algorithm_that_is_not_done_is_refused_by_name() -> None:
    with pytest.raises(errors.S3FeatureNotImplemented):
        integrity(x_amz_checksum_xxhash32="AAAAAA==")


def test_user_metadata_of_two_kibibytes_is_taken_and_one_byte_more_is_not() -> None:
    fits = {"x-amz-meta-k": "v" * (fields.USER_METADATA_BYTES_MAX - 1)}
    written, _ = fields.parse_written(fits)
    assert len(written.user_metadata["k"]) == 2047
    with pytest.raises(errors.MetadataTooLarge):
        fields.parse_written({"x-amz-meta-k": "v" * fields.USER_METADATA_BYTES_MAX})


def test_headers_sent_twice_are_joined_and_those_for_others_left_out() -> None:
    raw = [
        (b"host", b"h"),
        (b"x-amz-meta-a", b"1"),
        (b"x-amz-date", b"d"),
        (b"range", b"bytes=0-"),
        (b"x-amz-meta-a", b"\xe9"),
        (b"authorization", b"secret"),
    ]
    assert fields.select_headers(raw) == {"x-amz-meta-a": "1,\xe9", "range": "bytes=0-"}


@pytest.mark.parametrize(
    "tags",
    [
        [("aws:created-by", "v")],
        [("k" * 129, "v")],
        [("k", "v" * 257)],
        [("", "v")],
        [("k", "1"), ("k", "2")],
        [("k", "(v)")],
        [("k", "a,b")],
        [("k\n", "v")],
        [("k", "\N{SMILE}")],
    ],
)
def test_tags_beyond_the_rules_are_invalid(tags: list[tuple[str, str]]) -> None:
    with pytest.raises(errors.InvalidTag):
        fields.check_tags(tags)


@pytest.mark.parametrize("value", ["a=1&a=2", "a=1,b=2", "=v", "a=" + "v" * 257, "a=%ff"])
def test_a_header_of_tags_that_are_invalid_is_an_invalid_argument(value: str) -> None:
    """AWS names the header, not the tag."""
    with pytest.raises(errors.InvalidArgument) as raised:
        fields.parse_written({"x-amz-tagging": value})
    assert raised.value.fields == {"ArgumentName": "x-amz-tagging", "ArgumentValue": value}


def test_a_header_with_a_reserved_tag_is_an_invalid_tag() -> None:
    with pytest.raises(errors.InvalidTag, match="cannot be prefixed with aws:"):
        fields.parse_written({"x-amz-tagging": "aws:a=1"})


def test_tags_have_letters_numbers_separators_and_eight_marks() -> None:
    """Amazon S3 control API, S3Tag: `[\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]`."""
    tags = {"Größe\N{NO-BREAK SPACE}٣": "長さ Ⅷ", "a_.:/=+-@": "a_.:/=+-@", "b": ""}
    assert fields.check_tags(list(tags.items())) == tags


def test_a_tag_without_an_equals_sign_has_an_empty_value() -> None:
    written, _ = fields.parse_written({"x-amz-tagging": "foo=bar&bar"})
    assert written.tags == {"foo": "bar", "bar": ""}


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("deflate, gzip", "deflate, gzip"),
        ("gzip, aws-chunked", "gzip"),
        ("aws-chunked,gzip", "gzip"),
        ("aws-chunked", None),
    ],
)
def test_content_encoding_is_stored_as_sent_without_aws_chunked(
    sent: str, stored: str | None
) -> None:
    written, _ = fields.parse_written({"content-encoding": sent})
    assert written.headers.get("content-encoding") == stored


def test_eleven_tags_are_too_many() -> None:
    with pytest.raises(errors.TooManyTags):
        fields.check_tags([(str(n), "v") for n in range(11)])


@pytest.mark.parametrize("count", [11, 12, 1000])
def test_a_header_of_too_many_tags_says_so(count: int) -> None:
    value = "&".join(f"k{n}=v" for n in range(count))
    with pytest.raises(errors.TooManyTags):
        fields.parse_written({"x-amz-tagging": value})
    ten = "&&".join(f"k{n}=v" for n in range(10)) + "&" * 1000
    written, _ = fields.parse_written({"x-amz-tagging": ten})
    assert len(written.tags) == 10


def test_ten_tags_of_the_longest_kind_are_taken() -> None:
    tags = [(f"{n}" + "k" * 127, "v" * 256) for n in range(10)]
    assert fields.check_tags(tags) == dict(tags)


def test_an_unknown_storage_class_is_invalid() -> None:
    with pytest.raises(errors.InvalidStorageClass):
        fields.parse_written({"x-amz-storage-class": "PLATINUM"})


@pytest.mark.parametrize("value", ["-1", "x", "99999999999", "1.5", "٣"])
def test_a_page_size_that_is_no_count_is_refused(value: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        fields.parse_page_size({"max-keys": value}, "max-keys")


def test_a_length_that_is_no_number_is_refused() -> None:
    with pytest.raises(errors.InvalidArgument):
        fields.parse_size({"content-length": "4, 4"})
