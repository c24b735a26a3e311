"""Names of resources, as AWS writes them."""

from __future__ import annotations

import pytest

from server.access import arns, errors


def test_arns_are_written_as_aws_does():
    assert arns.bucket_arn("photos") == "arn:aws:s3:::photos"
    assert arns.object_arn("photos", "a/b:c") == "arn:aws:s3:::photos/a/b:c"
    assert (
        arns.table_bucket_arn("us-east-1", "000000000000", "lake")
        == "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
    )
    assert (
        arns.table_arn("us-east-1", "000000000000", "lake", "u-1")
        == "arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/u-1"
    )
    assert arns.root_arn("000000000000") == "arn:aws:iam::000000000000:root"
    assert arns.user_arn("000000000000", "alice") == "arn:aws:iam::000000000000:user/alice"


@pytest.mark.parametrize(
    "text",
    [
        arns.object_arn("b", "key:with\nall/kinds"),
        arns.table_arn("r", "1", "lake", "u"),
        arns.root_arn("1"),
    ],
)
def test_parsed_arn_writes_itself_again(text):
    assert str(arns.parse_arn(text)) == text


def test_parse_arn_reads_its_parts():
    arn = arns.parse_arn("arn:aws:s3tables:eu-west-1:123456789012:bucket/lake")
    assert (arn.service, arn.region, arn.account, arn.resource) == (
        "s3tables",
        "eu-west-1",
        "123456789012",
        "bucket/lake",
    )


@pytest.mark.parametrize(
    "text", ["", "arn", "arn:aws:s3:::", "aws:s3:::b", "arn:aws::::b", "s3://b"]
)
def test_what_is_no_arn_is_refused(text):
    with pytest.raises(errors.MalformedARN):
        arns.parse_arn(text)
