"""Lifecycle rules as boto3 sees them: the document, its refusals, the headers, and what goes."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import botocore.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server import errors as kit_errors
from server.s3 import errors, lifecycles
from storage import lifecycle
from tests.kit import s3 as kit
from tests.kit import waits

PAST = datetime.datetime(2015, 1, 1, tzinfo=datetime.UTC)
UTC_MIDNIGHT = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}


def rule(**members: Any) -> dict[str, Any]:
    return {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, **members}


def put(s3: Any, bucket: str, *rules: dict[str, Any]) -> Any:
    return s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)}
    )


def refusal(work: Any, *arguments: Any, **params: Any) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        work(*arguments, **params)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


DAYS = {"Days": 3}
RULES = [
    {"ID": "old form", "Status": "Enabled", "Prefix": "a/", "Expiration": DAYS},
    {"ID": "no prefix", "Status": "Disabled", "Prefix": "", "Expiration": {"Date": PAST}},
    rule(ID="empty", Filter={}, Expiration={"ExpiredObjectDeleteMarker": True}),
    rule(ID="tag", Filter={"Tag": {"Key": "k @", "Value": "v = é"}}, Expiration=DAYS),
    rule(ID="over", Filter={"ObjectSizeGreaterThan": 0}, Expiration=DAYS),
    rule(ID="under", Filter={"ObjectSizeLessThan": 9}, Expiration=DAYS),
    rule(
        ID="and",
        Filter={
            "And": {
                "Prefix": "p/",
                "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}],
                "ObjectSizeGreaterThan": 5,
                "ObjectSizeLessThan": 7,
            }
        },
        Expiration={"Days": 2**31 - 1},
        NoncurrentVersionExpiration={"NoncurrentDays": 4, "NewerNoncurrentVersions": 100},
    ),
    rule(
        ID="all",
        Expiration={"ExpiredObjectDeleteMarker": False},
        NoncurrentVersionExpiration={"NoncurrentDays": 4},
        AbortIncompleteMultipartUpload={"DaysAfterInitiation": 7},
    ),
    rule(
        ID="moves",
        Expiration={"Days": 400},
        Transitions=[
            {"Days": 30, "StorageClass": "STANDARD_IA"},
            {"Days": 90, "StorageClass": "INTELLIGENT_TIERING"},
            {"Days": 180, "StorageClass": "GLACIER_IR"},
        ],
        NoncurrentVersionTransitions=[
            {"NoncurrentDays": 0, "StorageClass": "ONEZONE_IA", "NewerNoncurrentVersions": 2}
        ],
        NoncurrentVersionExpiration={"NoncurrentDays": 1},
    ),
    rule(ID="a date", Transitions=[{"Date": PAST, "StorageClass": "GLACIER_IR"}]),
]


def test_rules_are_put_shown_replaced_and_removed(s3: Any, bucket: str) -> None:
    absent = (404, "NoSuchLifecycleConfiguration")
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == absent
    for rules in (RULES, RULES[:1]):
        answer = put(s3, bucket, *rules)
        assert answer["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
        shown = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
        assert shown["Rules"] == rules
        assert shown["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    for _ in range(2):
        answer = s3.delete_bucket_lifecycle(Bucket=bucket)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
        assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == absent


def test_rules_without_an_id_get_one_each(s3: Any, bucket: str) -> None:
    unnamed = {"Status": "Enabled", "Filter": {"Prefix": "p"}, "Expiration": DAYS}
    put(s3, bucket, unnamed, unnamed, {**unnamed, "ID": ""})
    shown = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    names = [each.pop("ID") for each in shown]
    assert shown == [unnamed] * 3
    assert len(set(names)) == 3
    assert all(names)


INVALID = (400, "InvalidArgument")
MALFORMED = (400, "MalformedXML")
CONTRADICTORY = (400, "InvalidRequest")
TAG = {"Tag": {"Key": "k", "Value": "v"}}


def moved(*transitions: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"Transitions": list(transitions), **members}


@pytest.mark.parametrize(
    ("members", "refused"),
    [
        ({"ID": "i" * 256, "Expiration": DAYS}, INVALID),
        ({"Status": "enabled", "Expiration": DAYS}, MALFORMED),
        ({}, CONTRADICTORY),
        ({"Prefix": "p", "Expiration": DAYS}, MALFORMED),
        ({"Filter": {"Prefix": "p", **TAG}, "Expiration": DAYS}, MALFORMED),
        ({"Filter": {"And": {"Prefix": "p"}}, "Expiration": DAYS}, MALFORMED),
        ({"Filter": {"Prefix": "p" * 1025}, "Expiration": DAYS}, CONTRADICTORY),
        (
            {"Filter": {"Tag": {"Key": "k" * 129, "Value": "v"}}, "Expiration": DAYS},
            (400, "InvalidTag"),
        ),
        (
            {"Filter": {"Tag": {"Key": "aws:k", "Value": ""}}, "Expiration": DAYS},
            (400, "InvalidTag"),
        ),
        (
            {"Filter": {"And": {"Tags": [TAG["Tag"], TAG["Tag"]]}}, "Expiration": DAYS},
            CONTRADICTORY,
        ),
        ({"Filter": {"ObjectSizeGreaterThan": -1}, "Expiration": DAYS}, INVALID),
        ({"Filter": {"ObjectSizeLessThan": 0}, "Expiration": DAYS}, INVALID),
        (
            {
                "Filter": {"And": {"ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 5}},
                "Expiration": DAYS,
            },
            CONTRADICTORY,
        ),
        ({"Expiration": {"Days": 0}}, INVALID),
        ({"Expiration": {"Days": -1}}, INVALID),
        ({"Expiration": {"Days": 2**31}}, INVALID),
        ({"Expiration": {}}, MALFORMED),
        ({"Expiration": {"Days": 1, "Date": PAST}}, MALFORMED),
        ({"Expiration": {"Date": PAST.replace(hour=1)}}, INVALID),
        ({"Expiration": {"Date": PAST.replace(year=1969)}}, INVALID),
        ({"Filter": TAG, "Expiration": {"ExpiredObjectDeleteMarker": True}}, CONTRADICTORY),
        (
            {
                "Filter": {"ObjectSizeLessThan": 5},
                "Expiration": {"ExpiredObjectDeleteMarker": True},
            },
            CONTRADICTORY,
        ),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 0}}, INVALID),
        ({"NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 1}}, MALFORMED),
        (
            {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 101}},
            INVALID,
        ),
        ({"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 0}}, INVALID),
        ({"AbortIncompleteMultipartUpload": {}}, MALFORMED),
        (
            {"Filter": TAG, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
            CONTRADICTORY,
        ),
        (moved({"Date": PAST.replace(hour=5), "StorageClass": "GLACIER"}), INVALID),
        (moved({"Days": 1, "StorageClass": "GLACIER"}), (501, "NotImplemented")),
        (moved({"Days": 1, "StorageClass": "STANDARD"}), MALFORMED),
        (moved({"Days": 1}), MALFORMED),
        (moved({"StorageClass": "STANDARD_IA"}), MALFORMED),
        (moved({"Days": 1, "Date": PAST, "StorageClass": "STANDARD_IA"}), MALFORMED),
        (moved({"Days": -1, "StorageClass": "STANDARD_IA"}), INVALID),
        (moved({"Date": PAST, "StorageClass": "GLACIER_IR"}, Expiration=DAYS), CONTRADICTORY),
        (moved({"Days": 3, "StorageClass": "GLACIER_IR"}, Expiration=DAYS), INVALID),
        (
            moved({"Date": PAST, "StorageClass": "GLACIER_IR"}, Expiration={"Date": PAST}),
            INVALID,
        ),
        (
            moved(
                {"Days": 1, "StorageClass": "GLACIER_IR"},
                {"Days": 2, "StorageClass": "GLACIER_IR"},
            ),
            CONTRADICTORY,
        ),
        (
            moved(
                {"Days": 30, "StorageClass": "GLACIER_IR"},
                {"Days": 60, "StorageClass": "STANDARD_IA"},
            ),
            INVALID,
        ),
        (
            moved(
                {"Days": 30, "StorageClass": "ONEZONE_IA"},
                {"Days": 60, "StorageClass": "GLACIER_IR"},
            ),
            INVALID,
        ),
        (
            {"NoncurrentVersionTransitions": [{"NoncurrentDays": 1, "StorageClass": "GLACIER"}]},
            (501, "NotImplemented"),
        ),
        (
            {
                "NoncurrentVersionTransitions": [
                    {"NoncurrentDays": 4, "StorageClass": "STANDARD_IA"}
                ],
                "NoncurrentVersionExpiration": {"NoncurrentDays": 4},
            },
            INVALID,
        ),
        (
            {
                "NoncurrentVersionTransitions": [
                    {
                        "NoncurrentDays": 1,
                        "NewerNoncurrentVersions": 0,
                        "StorageClass": "STANDARD_IA",
                    }
                ],
            },
            INVALID,
        ),
    ],
)
def test_a_rule_that_aws_refuses_or_that_cannot_be_done_is_refused(
    s3: Any, bucket: str, members: dict[str, Any], refused: tuple[int, str]
) -> None:
    put(s3, bucket, RULES[0])
    assert refusal(put, s3, bucket, rule(**members)) == refused
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == RULES[:1]


def test_the_refusal_of_a_move_to_an_archive_names_the_classes_that_are_none(
    s3: Any, bucket: str
) -> None:
    transition = {"Days": 30, "StorageClass": "GLACIER"}
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        put(s3, bucket, rule(Transitions=[transition], Expiration={"Days": 90}))
    message = refused.value.response["Error"]["Message"]
    assert "STANDARD_IA, INTELLIGENT_TIERING, ONEZONE_IA, GLACIER_IR" in message


def test_ids_are_unique_and_rules_at_most_a_thousand(s3: Any, bucket: str) -> None:
    assert refusal(put, s3, bucket, RULES[0], {**RULES[2], "ID": "old form"}) == INVALID
    many = [
        rule(ID=f"rule {number}", Filter={"Prefix": f"{number}/"}, Expiration=DAYS)
        for number in range(lifecycle.RULES_MAX + 1)
    ]
    assert refusal(put, s3, bucket, *many) == CONTRADICTORY
    put(s3, bucket, *many[:-1])
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == many[:-1]
    assert refusal(put, s3, bucket) == MALFORMED
    long = s3.put_object(Bucket=bucket, Key="999/a")
    assert long["Expiration"].endswith('rule-id="rule%20999"')


def test_many_rules_are_formatted_in_a_thread(
    store: kit.ObjectStore, s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand rules take some milliseconds, in which the event loop serves others."""
    threads: list[int] = []
    document = lifecycles.document

    def noting(rules: Sequence[lifecycle.LifecycleRule]) -> bytes:
        threads.append(threading.get_ident())
        return document(rules)

    monkeypatch.setattr(lifecycles, "document", noting)

    async def thread_of_the_loop() -> int:
        return threading.get_ident()

    for count in (1, lifecycle.RULES_MAX):
        rules = [{**RULES[0], "ID": str(number)} for number in range(count)]
        put(s3, bucket, *rules)
        assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == rules
    serving = store.run(thread_of_the_loop())
    assert [each == serving for each in threads] == [True, False]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<Tagging/>",
        b"<LifecycleConfiguration/>",
        b"<LifecycleConfiguration><Other/></LifecycleConfiguration>",
        b"<LifecycleConfiguration><Rule/></LifecycleConfiguration>",
        b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix/>"
        b"<Expiration><Days>1</Days></Expiration><Expiration><Days>2</Days></Expiration></Rule>"
        b"</LifecycleConfiguration>",
        b"<LifecycleConfiguration><Rule><Status>Enabled</Status>"
        b"<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
        b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix/>"
        b"<Expiration><Days>1e3</Days></Expiration></Rule></LifecycleConfiguration>",
        b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix/>"
        b"<Expiration><Date>20200101x</Date></Expiration></Rule></LifecycleConfiguration>",
        b"<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix/><Other/>"
        b"<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
        # Each would select more objects if what does not belong there were ignored.
        *(
            b"<LifecycleConfiguration><Rule><Status>Enabled</Status>%s"
            b"<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>" % selection
            for selection in (
                b"<Filter>logs/</Filter>",
                b"<Prefix>lo<b>gs/</b></Prefix>",
                b"<Filter><Prefix><Prefix>logs/</Prefix></Prefix></Filter>",
                b"<Filter><And>logs/<Prefix>l</Prefix><ObjectSizeLessThan>9</ObjectSizeLessThan>"
                b"</And></Filter>",
                b"<Filter><Tag><Key>k</Key><Value>v<b>w</b></Value></Tag></Filter>",
            )
        ),
    ],
)
def test_a_document_of_another_shape_is_malformed(
    store: kit.ObjectStore, bucket: str, document: bytes
) -> None:
    answer = kit.call(store, "PUT", f"/{bucket}?lifecycle", body=document)
    assert answer.status == 400
    assert b"<Code>MalformedXML</Code>" in answer.body


def test_the_minimum_size_of_transitions_is_one_of_two_names_and_shown(
    s3: Any, bucket: str
) -> None:
    """Amazon S3 user guide: the names differ for Glacier Flexible Retrieval and Deep Archive."""
    rules = {"Bucket": bucket, "LifecycleConfiguration": {"Rules": RULES[:1]}}
    name = "TransitionDefaultMinimumObjectSize"
    for minimum in ("varies_by_storage_class", "all_storage_classes_128K"):
        assert s3.put_bucket_lifecycle_configuration(**rules, **{name: minimum})[name] == minimum
        assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)[name] == minimum
    other = {**rules, name: "all_storage_classes_64K"}
    assert refusal(s3.put_bucket_lifecycle_configuration, **other) == (400, "InvalidRequest")


def test_a_table_bucket_has_no_lifecycle_rules(s3: Any) -> None:
    assert refusal(put, s3, "lake", RULES[0])[0] == 405
    assert refusal(s3.delete_bucket_lifecycle, Bucket="lake")[0] == 405
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket="lake") == (
        404,
        "NoSuchLifecycleConfiguration",
    )


# Headers.


def expiration(answer: dict[str, Any]) -> tuple[datetime.datetime, str] | None:
    text = answer.get("Expiration")
    if text is None:
        return None
    match = re.fullmatch(r'expiry-date="(.+ GMT)", rule-id="(.+)"', text)
    assert match is not None
    return email.utils.parsedate_to_datetime(match[1]), match[2]


def midnight_after(written: datetime.datetime, days: int) -> datetime.datetime:
    """AWS's rule: days after the writing, rounded up to the next midnight of UTC."""
    return written.replace(**UTC_MIDNIGHT) + datetime.timedelta(days=days + 1)  # type: ignore[arg-type]


def test_every_write_and_read_of_an_object_that_expires_says_when(s3: Any, bucket: str) -> None:
    put(s3, bucket, rule(ID="a rule/1", Filter={"Prefix": "p/"}, Expiration={"Days": 3}))
    answers = [s3.put_object(Bucket=bucket, Key="p/a", Body=b"x" * 10)]
    answers.append(s3.copy_object(Bucket=bucket, Key="p/b", CopySource=f"{bucket}/p/a"))
    upload = s3.create_multipart_upload(Bucket=bucket, Key="p/c")
    named = {"Bucket": bucket, "Key": "p/c", "UploadId": upload["UploadId"]}
    etag = s3.upload_part(**named, PartNumber=1, Body=b"part")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    answers.append(s3.complete_multipart_upload(**named, MultipartUpload=parts))
    for key in ("p/a", "p/b", "p/c"):
        answers.append(s3.head_object(Bucket=bucket, Key=key))
        answers.append(s3.get_object(Bucket=bucket, Key=key))
    answers.append(s3.get_object(Bucket=bucket, Key="p/a", Range="bytes=0-1"))
    for number, key in enumerate(("p/a", "p/b", "p/c")):
        written = s3.head_object(Bucket=bucket, Key=key)["LastModified"]
        expected = midnight_after(written, 3), "a%20rule%2F1"
        of_key = [answers[number], *answers[3 + 2 * number : 5 + 2 * number]]
        assert [expiration(answer) for answer in of_key] == [expected] * 3
    assert expiration(answers[-1]) == expiration(answers[0])
    assert expiration(s3.put_object(Bucket=bucket, Key="q", Body=b"x")) is None
    assert expiration(s3.head_object(Bucket=bucket, Key="q")) is None


def test_the_header_follows_tags_sizes_and_the_earliest_rule(s3: Any, bucket: str) -> None:
    put(
        s3,
        bucket,
        rule(ID="tag", Filter=TAG, Expiration={"Days": 1}),
        rule(ID="size", Filter={"ObjectSizeGreaterThan": 5}, Expiration={"Days": 2}),
        rule(ID="date", Expiration={"Date": PAST}, Status="Disabled"),
    )

    def rule_of(answer: dict[str, Any]) -> str | None:
        shown = expiration(answer)
        return None if shown is None else shown[1]

    assert rule_of(s3.put_object(Bucket=bucket, Key="a", Body=b"12345")) is None
    assert rule_of(s3.put_object(Bucket=bucket, Key="a", Body=b"123456")) == "size"
    s3.put_object_tagging(Bucket=bucket, Key="a", Tagging={"TagSet": [TAG["Tag"]]})
    assert rule_of(s3.head_object(Bucket=bucket, Key="a")) == "tag"
    assert rule_of(s3.put_object(Bucket=bucket, Key="b", Body=b"1", Tagging="k=v")) == "tag"
    s3.delete_bucket_lifecycle(Bucket=bucket)
    assert rule_of(s3.head_object(Bucket=bucket, Key="a")) is None


def test_a_version_that_is_named_has_no_expiration(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    put(s3, bucket, rule(Expiration=DAYS))
    first = s3.put_object(Bucket=bucket, Key="a")["VersionId"]
    s3.put_object(Bucket=bucket, Key="a")
    assert expiration(s3.head_object(Bucket=bucket, Key="a", VersionId=first)) is None
    assert expiration(s3.head_object(Bucket=bucket, Key="a")) is not None


def test_an_upload_says_when_it_is_aborted(s3: Any, bucket: str) -> None:
    put(
        s3,
        bucket,
        rule(
            ID="é",
            Filter={"Prefix": "p"},
            AbortIncompleteMultipartUpload={"DaysAfterInitiation": 2},
        ),
    )
    upload = s3.create_multipart_upload(Bucket=bucket, Key="p")
    page = s3.list_parts(Bucket=bucket, Key="p", UploadId=upload["UploadId"])
    (listed,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    for answer in (upload, page):
        assert answer["AbortDate"] == midnight_after(listed["Initiated"], 2)
        assert answer["AbortRuleId"] == "%C3%A9"
    assert "AbortDate" not in s3.create_multipart_upload(Bucket=bucket, Key="q")


def test_an_object_that_expires_after_the_year_9999_has_no_date(s3: Any, bucket: str) -> None:
    """The header is a date of HTTP, whose years have four digits."""
    aborting = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2**31 - 1}}
    put(s3, bucket, rule(Expiration={"Days": 2**31 - 1}, **aborting))
    assert expiration(s3.put_object(Bucket=bucket, Key="a", Body=b"x")) is None
    assert expiration(s3.head_object(Bucket=bucket, Key="a")) is None
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"x"
    assert "AbortDate" not in s3.create_multipart_upload(Bucket=bucket, Key="a")
    last = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
    put(s3, bucket, rule(ID="last", Expiration={"Date": last}))
    assert expiration(s3.head_object(Bucket=bucket, Key="a")) == (last, "last")


# What goes, in a server whose day is a second.


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("quick") / "data"
    with kit.serve(folder, lifecycle_day_seconds=1) as running:
        yield kit.client(running)


@pytest.fixture(scope="module")
def fresh(quick: Any) -> Callable[[], str]:
    numbers = itertools.count(1)

    def make() -> str:
        name = f"quick-{next(numbers):04d}"
        quick.create_bucket(Bucket=name)
        return name

    return make


def until(holds: Callable[[], bool]) -> None:
    """Wait for a state that must come."""
    end = time.monotonic() + waits.WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, "the state did not come"
        time.sleep(0.05)


def keys_of(s3: Any, bucket: str) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_the_server_removes_what_a_filter_names(quick: Any, fresh: Callable[[], str]) -> None:
    bucket = fresh()
    for key, tags in (("p/a", "k=v"), ("p/b", ""), ("q/a", "k=v"), ("p/long", "k=v")):
        body = b"x" * (100 if "long" in key else 10)
        quick.put_object(Bucket=bucket, Key=key, Body=body, Tagging=tags)
    selection = {"And": {"Prefix": "p/", "Tags": [TAG["Tag"]], "ObjectSizeLessThan": 100}}
    put(quick, bucket, rule(Filter=selection, Expiration={"Date": PAST}))
    until(lambda: keys_of(quick, bucket) == ["p/b", "p/long", "q/a"])


def test_the_server_keeps_versions_and_removes_noncurrent_ones_markers_and_uploads(
    quick: Any, fresh: Callable[[], str]
) -> None:
    bucket = fresh()
    quick.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for number in range(3):
        quick.put_object(Bucket=bucket, Key="stays", Body=bytes([number]))
        quick.put_object(Bucket=bucket, Key="goes", Body=bytes([number]))
    quick.delete_object(Bucket=bucket, Key="goes")
    quick.create_multipart_upload(Bucket=bucket, Key="u")
    put(
        quick,
        bucket,
        rule(
            Expiration={"ExpiredObjectDeleteMarker": True},
            NoncurrentVersionExpiration={"NoncurrentDays": 1},
            AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1},
        ),
    )

    def is_done() -> bool:
        listed = quick.list_object_versions(Bucket=bucket)
        uploads = quick.list_multipart_uploads(Bucket=bucket)
        return (
            [each["Key"] for each in listed.get("Versions", ())] == ["stays"]
            and "DeleteMarkers" not in listed
            and "Uploads" not in uploads
        )

    until(is_done)
    assert quick.get_object(Bucket=bucket, Key="stays")["Body"].read() == b"\x02"


def test_the_server_moves_large_objects_to_another_storage_class_and_changes_nothing_else(
    quick: Any, fresh: Callable[[], str]
) -> None:
    bucket = fresh()
    quick.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    large = b"l" * (128 * 1024)
    first = quick.put_object(Bucket=bucket, Key="a", Body=large, Metadata={"m": "1"}, Tagging="k=v")
    quick.put_object(Bucket=bucket, Key="a", Body=large)
    quick.put_object(Bucket=bucket, Key="small", Body=large[1:])
    before = quick.head_object(Bucket=bucket, Key="a", VersionId=first["VersionId"])
    put(
        quick,
        bucket,
        rule(
            Transitions=[{"Days": 0, "StorageClass": "INTELLIGENT_TIERING"}],
            NoncurrentVersionTransitions=[{"NoncurrentDays": 0, "StorageClass": "GLACIER_IR"}],
        ),
    )

    def classes() -> list[tuple[str, str]]:
        versions = quick.list_object_versions(Bucket=bucket)["Versions"]
        return [(each["Key"], each["StorageClass"]) for each in versions]

    expected = [("a", "INTELLIGENT_TIERING"), ("a", "GLACIER_IR"), ("small", "STANDARD")]
    until(lambda: classes() == expected)
    after = quick.head_object(Bucket=bucket, Key="a", VersionId=first["VersionId"])
    assert after.pop("StorageClass") == "GLACIER_IR"
    for answer in (before, after):
        del answer["ResponseMetadata"]
    assert after == before
    assert quick.get_object(Bucket=bucket, Key="a")["Body"].read() == large


tag_characters = st.characters(categories=("L", "N", "Z"), include_characters="_.:/=+-@")
tags = st.dictionaries(
    st.text(tag_characters, min_size=1, max_size=9).filter(
        lambda name: not name.startswith("aws:")
    ),
    st.text(tag_characters, max_size=9),
    max_size=3,
).map(lambda each: tuple(each.items()))
days = st.integers(1, 2**31 - 1)
MOVE = lifecycle.Transition(storage_class="ONEZONE_IA", days=0)
MOVE_OF_NONCURRENT = lifecycle.NoncurrentTransition(storage_class="STANDARD_IA", days=0)


@st.composite
def rules(draw: st.DrawFn) -> lifecycle.LifecycleRule:
    """A rule that S3 takes."""
    names = draw(tags)
    over = draw(st.none() | st.integers(0, 10))
    prefix = draw(st.none() | st.text(st.characters(codec="utf-8", exclude_categories=("C",))))
    count = len(names) + (over is not None) + (prefix is not None)
    written: lifecycle.Written = "and" if count > 1 else "filter"
    if prefix is not None and count == 1 and draw(st.booleans()):
        written = "prefix"
    return lifecycle.LifecycleRule(
        id=draw(st.uuids()).hex,
        is_enabled=draw(st.booleans()),
        written=written,
        prefix=prefix,
        tags=names,
        size_greater_than=over,
        expiration_days=draw(days),
        noncurrent_days=draw(st.none() | days),
        transitions=draw(st.sampled_from([(), (MOVE,)])),
        noncurrent_transitions=draw(st.sampled_from([(), (MOVE_OF_NONCURRENT,)])),
    )


@given(st.lists(rules(), min_size=1, max_size=4, unique_by=lambda each: each.id))
def test_rules_that_are_written_are_read_as_they_were(some: list[lifecycle.LifecycleRule]) -> None:
    assert lifecycles.parse(lifecycles.document(some)) == tuple(some)


NAMES = re.findall(
    r"\w+",
    """Rule Filter And Tag Key Value Prefix Status Expiration Days Date NoncurrentVersionExpiration
    NoncurrentDays NewerNoncurrentVersions ObjectSizeLessThan Transition NoncurrentVersionTransition
    ID StorageClass AbortIncompleteMultipartUpload DaysAfterInitiation ExpiredObjectDeleteMarker""",
)
texts = st.sampled_from(
    ["", "1", "0", "-1", "x", "Enabled", "true", "2020-01-01", "9" * 40, "é", "STANDARD_IA"]
)
elements = st.recursive(
    texts,
    lambda inner: st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=5).map(
        lambda pairs: "".join(f"<{name}>{text}</{name}>" for name, text in pairs)
    ),
)


@given(elements)
def test_garbage_is_refused_as_garbage(inner: str) -> None:
    document = f"<LifecycleConfiguration>{inner}</LifecycleConfiguration>"
    with contextlib.suppress(errors.S3Error, kit_errors.MalformedXML):
        parsed = lifecycles.parse(document.encode())
        assert lifecycles.parse(lifecycles.document(parsed)) == parsed
