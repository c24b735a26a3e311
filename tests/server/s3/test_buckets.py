"""Operations on buckets over the wire."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from server.s3 import buckets, rows
from storage import buckets as storage_buckets
from tests.kit import s3 as kit


def test_a_bucket_is_made_found_listed_and_removed(s3: Any) -> None:
    created = s3.create_bucket(Bucket="life-of-a-bucket")
    assert created["Location"] == "/life-of-a-bucket"
    head = s3.head_bucket(Bucket="life-of-a-bucket")
    assert head["BucketRegion"] == "us-east-1"
    assert (head["BucketArn"], head["AccessPointAlias"]) == (created["BucketArn"], False)
    assert created["BucketArn"] == "arn:aws:s3:::life-of-a-bucket"
    assert "life-of-a-bucket" in [row["Name"] for row in s3.list_buckets()["Buckets"]]
    s3.delete_bucket(Bucket="life-of-a-bucket")
    with pytest.raises(botocore.exceptions.ClientError, match="404"):
        s3.head_bucket(Bucket="life-of-a-bucket")


def test_a_bucket_made_twice_is_there_once_and_keeps_what_it_holds(
    s3: Any, store: kit.ObjectStore, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = kit.call(store, "PUT", f"/{bucket}")
    assert (answer.status, answer.headers["location"]) == (200, f"/{bucket}")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    names = [row["Name"] for row in s3.list_buckets()["Buckets"]]
    assert names.count(bucket) == 1


def test_outside_of_us_east_1_a_bucket_of_ones_own_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch, store: kit.ObjectStore, bucket: str
) -> None:
    monkeypatch.setattr(buckets, "GLOBAL_REGION", "another")
    lacks = {"x-amz-bucket-object-lock-enabled": "true"}
    for headers in ({}, lacks, {"x-amz-object-ownership": "BucketOwnerEnforced"}):
        answer = kit.call(store, "PUT", f"/{bucket}", headers)
        assert (answer.status, answer.code) == (409, "BucketAlreadyOwnedByYou")


@pytest.mark.parametrize(
    "name", ["ab", "Capital", "under_score", "192.168.1.1", "-lead", "iceberg", "x" * 64, "a..b"]
)
def test_a_name_that_breaks_a_rule_is_refused(store: kit.ObjectStore, name: str) -> None:
    answer = kit.call(store, "PUT", f"/{name}")
    assert (answer.status, answer.code) == (400, "InvalidBucketName")


def test_a_bucket_that_holds_something_is_not_removed(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with pytest.raises(botocore.exceptions.ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_bucket(Bucket=bucket)


def constraint(region: str) -> bytes:
    return (
        '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
    ).encode()


def tags_of(count: int) -> list[dict[str, str]]:
    return [{"Key": f"k{number:02}", "Value": str(number)} for number in range(count)]


def test_a_bucket_is_made_with_its_tags(s3: Any) -> None:
    wanted = {"LocationConstraint": "us-east-1", "Tags": tags_of(50)}
    s3.create_bucket(Bucket="tagged", CreateBucketConfiguration=wanted)
    assert s3.get_bucket_tagging(Bucket="tagged")["TagSet"] == tags_of(50)
    s3.create_bucket(Bucket="tagged")
    s3.create_bucket(Bucket="tagged", CreateBucketConfiguration={"Tags": []})
    # Not even with the tags that it has, as on AWS.
    for tags in (tags_of(50), tags_of(1)):
        with pytest.raises(botocore.exceptions.ClientError, match="BucketAlreadyOwnedByYou"):
            s3.create_bucket(Bucket="tagged", CreateBucketConfiguration={"Tags": tags})
    assert s3.get_bucket_tagging(Bucket="tagged")["TagSet"] == tags_of(50)


@pytest.mark.parametrize(
    "wanted",
    [
        {"ObjectLockEnabledForBucket": True},
        {"ObjectOwnership": "BucketOwnerEnforced"},
        {"CreateBucketConfiguration": {"LocationConstraint": "eu-central-1"}},
    ],
)
def test_a_bucket_that_lacks_what_is_asked_for_is_not_created_again(
    s3: Any, wanted: dict[str, Any]
) -> None:
    s3.create_bucket(Bucket="existing")
    with pytest.raises(botocore.exceptions.ClientError, match="BucketAlreadyExists"):
        s3.create_bucket(Bucket="existing", **wanted)
    # It is there as it is wanted.
    s3.create_bucket(Bucket="existing")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"ObjectOwnership": "ObjectWriter"}),
        ({"ObjectOwnership": "ObjectWriter"}, {}),
        ({"ObjectOwnership": "BucketOwnerEnforced"}, {"ObjectOwnership": "BucketOwnerEnforced"}),
        ({"ObjectLockEnabledForBucket": True}, {"ObjectLockEnabledForBucket": True}),
        ({}, {"CreateBucketConfiguration": {"LocationConstraint": "us-east-1"}}),
        ({"CreateBucketConfiguration": {"LocationConstraint": "us-east-1"}}, {}),
    ],
)
def test_a_bucket_that_has_what_is_asked_for_is_created_again(
    s3: Any, first: dict[str, Any], second: dict[str, Any]
) -> None:
    s3.create_bucket(Bucket="as-wanted", **first)
    s3.create_bucket(Bucket="as-wanted", **second)
    s3.delete_bucket(Bucket="as-wanted")


def test_a_bucket_that_goes_while_it_is_created_again_was_there(
    store: kit.ObjectStore, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No CreateBucket answers that there is no such bucket."""
    s3.create_bucket(Bucket="going")
    create = store.storage.buckets.create

    async def create_and_lose(name: str, **options: Any) -> None:
        try:
            await create(name, **options)
        finally:
            bucket = store.storage.buckets.get(name)
            await store.storage.buckets.delete(name, bucket_id=bucket.bucket_id)

    monkeypatch.setattr(store.storage.buckets, "create", create_and_lose)
    answer = kit.call(store, "PUT", "/going")
    assert (answer.status, answer.code) == (409, "BucketAlreadyExists")
    monkeypatch.undo()
    s3.create_bucket(Bucket="going")


@pytest.mark.parametrize("region", ["EU", "eu-west-1", "eu-central-1"])
def test_a_bucket_of_another_location_is_not_created_again(
    s3: Any, store: kit.ObjectStore, region: str
) -> None:
    name = f"elsewhere-{region.lower()}"
    assert kit.call(store, "PUT", f"/{name}", body=constraint(region)).status == 200
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    for body in (constraint(region), constraint("us-east-1"), b""):
        answer = kit.call(store, "PUT", f"/{name}", body=body)
        assert (answer.status, answer.code) == (409, "BucketAlreadyOwnedByYou")
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] == region
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"x"


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        (tags_of(51), "BadRequest"),
        ([{"Key": "aws:a", "Value": "1"}], "InvalidTag"),
        (2 * tags_of(1), "InvalidTag"),
    ],
)
def test_tags_that_break_a_rule_make_no_bucket(
    s3: Any, store: kit.ObjectStore, tags: list[dict[str, str]], code: str
) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match=code):
        s3.create_bucket(Bucket="never-tagged", CreateBucketConfiguration={"Tags": tags})
    assert kit.call(store, "HEAD", "/never-tagged").status == 404


@pytest.mark.parametrize(
    ("region", "status", "code"),
    [
        ("us-east-1", 200, ""),
        ("eu-west-1", 200, ""),
        ("EU", 200, ""),
        ("middle-earth", 400, "InvalidLocationConstraint"),
    ],
)
def test_us_east_1_takes_any_regions_name_and_keeps_it(
    s3: Any, store: kit.ObjectStore, region: str, status: int, code: str
) -> None:
    name = f"located-{region.lower()}"
    answer = kit.call(store, "PUT", f"/{name}", body=constraint(region))
    assert (answer.status, answer.code) == (status, code)
    if status == 200:
        shown = None if region == "us-east-1" else region
        assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] == shown


@pytest.mark.parametrize(
    ("region", "status", "code"),
    [
        ("us-east-1", 200, ""),
        ("eu-west-1", 400, "IllegalLocationConstraintException"),
        ("middle-earth", 400, "InvalidLocationConstraint"),
    ],
)
def test_elsewhere_a_location_constraint_must_be_this_servers_region(
    monkeypatch: pytest.MonkeyPatch, store: kit.ObjectStore, region: str, status: int, code: str
) -> None:
    monkeypatch.setattr(buckets, "GLOBAL_REGION", "another")
    answer = kit.call(store, "PUT", f"/here-{region}", body=constraint(region))
    assert (answer.status, answer.code) == (status, code)


def test_a_bucket_body_that_is_no_xml_makes_no_bucket(store: kit.ObjectStore) -> None:
    answer = kit.call(store, "PUT", "/never-made", body=b"<oops")
    assert (answer.status, answer.code) == (400, "MalformedXML")
    assert kit.call(store, "HEAD", "/never-made").status == 404


def test_the_location_in_us_east_1_is_an_empty_constraint(
    store: kit.ObjectStore, bucket: str
) -> None:
    answer = kit.call(store, "GET", f"/{bucket}/?location")
    assert answer.body.endswith(
        b'<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>'
    )


def test_many_buckets_are_listed_off_the_event_loop(
    s3: Any, store: kit.ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("many-a", "many-b"):
        s3.create_bucket(Bucket=name)
    names = [row["Name"] for row in s3.list_buckets()["Buckets"]]
    threads = []
    read_all = store.storage.buckets.list

    def note(*arguments: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return read_all(*arguments, **named)

    async def ident() -> int:
        return threading.get_ident()

    monkeypatch.setattr(storage_buckets, "LISTED_HERE_MAX", 1)
    monkeypatch.setattr(store.storage.buckets, "list", note)
    assert [row["Name"] for row in s3.list_buckets()["Buckets"]] == names
    assert threads
    assert store.run(ident()) not in threads


def test_list_buckets_takes_a_prefix_and_pages(s3: Any) -> None:
    for name in ("paged-c", "paged-a", "paged-b", "other-x"):
        s3.create_bucket(Bucket=name)
    page = s3.list_buckets(Prefix="paged-", MaxBuckets=2)
    assert [row["Name"] for row in page["Buckets"]] == ["paged-a", "paged-b"]
    assert [row["BucketArn"] for row in page["Buckets"]] == [
        "arn:aws:s3:::paged-a",
        "arn:aws:s3:::paged-b",
    ]
    assert (
        s3.list_buckets(Prefix="paged-", ContinuationToken="", MaxBuckets=1)["Buckets"]
        == (page["Buckets"][:1])
    )
    rest = s3.list_buckets(
        Prefix="paged-", MaxBuckets=2, ContinuationToken=page["ContinuationToken"]
    )
    assert [row["Name"] for row in rest["Buckets"]] == ["paged-c"]
    assert "ContinuationToken" not in rest
    assert "Buckets" not in s3.list_buckets(BucketRegion="eu-west-1") or (
        s3.list_buckets(BucketRegion="eu-west-1")["Buckets"] == []
    )


@pytest.mark.parametrize(
    "query",
    ["max-buckets=0", "max-buckets=x", "max-buckets=" + "1" * 5000, "continuation-token=nonsense"],
)
def test_list_buckets_refuses_what_makes_no_sense(store: kit.ObjectStore, query: str) -> None:
    assert kit.call(store, "GET", f"/?{query}").code == "InvalidArgument"


def test_a_table_bucket_is_listed_but_neither_made_nor_removed_here(
    s3: Any, store: kit.ObjectStore
) -> None:
    store.run(
        store.storage.buckets.create(
            "a-table-bucket", bucket_type="table", owner=kit.ACCOUNT, region=kit.REGION
        )
    )
    assert "a-table-bucket" in [row["Name"] for row in s3.list_buckets()["Buckets"]]
    answer = kit.call(store, "PUT", "/a-table-bucket")
    assert (answer.status, answer.code) == (409, "BucketAlreadyOwnedByYou")
    assert "s3tables" in answer.element("Message")
    removed = kit.call(store, "DELETE", "/a-table-bucket")
    assert (removed.status, removed.code) == (405, "MethodNotAllowed")
    assert "s3tables" in removed.element("Message")
    assert kit.call(store, "HEAD", "/a-table-bucket").status == 200


def test_table_buckets_are_left_out_of_a_listing_where_they_are_hidden(tmp_path: Path) -> None:
    with kit.serve(tmp_path / "data", hide_table_buckets=True) as place:
        for name, bucket_type in (("general", "general"), ("tables-a", "table")):
            place.run(
                place.storage.buckets.create(
                    name, bucket_type=bucket_type, owner=kit.ACCOUNT, region=kit.REGION
                )
            )
        listed = [row["Name"] for row in kit.client(place).list_buckets()["Buckets"]]
        assert "general" in listed
        assert "tables-a" not in listed
        assert kit.call(place, "HEAD", "/tables-a").status == 200


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("cors", "NoSuchCORSConfiguration"),
        ("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
        ("lifecycle", "NoSuchLifecycleConfiguration"),
        ("object-lock", "ObjectLockConfigurationNotFoundError"),
        ("ownershipControls", "OwnershipControlsNotFoundError"),
        ("policy", "NoSuchBucketPolicy"),
        ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
        ("replication", "ReplicationConfigurationNotFoundError"),
        ("tagging", "NoSuchTagSet"),
        ("website", "NoSuchWebsiteConfiguration"),
    ],
)
def test_a_configuration_that_no_bucket_has_is_absent_by_its_own_code(
    store: kit.ObjectStore, bucket: str, query: str, code: str
) -> None:
    answer = kit.call(store, "GET", f"/{bucket}?{query}")
    assert (answer.status, answer.code) == (404, code)
    assert kit.call(store, "GET", f"/no-such-bucket?{query}").code == "NoSuchBucket"


NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("accelerate", f"<AccelerateConfiguration {NAMESPACE}></AccelerateConfiguration>"),
        ("logging", f"<BucketLoggingStatus {NAMESPACE}></BucketLoggingStatus>"),
        ("notification", f"<NotificationConfiguration {NAMESPACE}></NotificationConfiguration>"),
        (
            "requestPayment",
            f"<RequestPaymentConfiguration {NAMESPACE}><Payer>BucketOwner</Payer>"
            "</RequestPaymentConfiguration>",
        ),
        (
            "analytics",
            f"<ListBucketAnalyticsConfigurationResult {NAMESPACE}>"
            "<IsTruncated>false</IsTruncated></ListBucketAnalyticsConfigurationResult>",
        ),
    ],
)
def test_a_configuration_that_no_bucket_has_is_shown_as_s3_shows_none(
    store: kit.ObjectStore, bucket: str, query: str, document: str
) -> None:
    answer = kit.call(store, "GET", f"/{bucket}?{query}")
    assert answer.status == 200
    assert answer.body.decode().partition("?>\n")[2] == document
    assert kit.call(store, "GET", f"/no-such-bucket?{query}").code == "NoSuchBucket"


@pytest.mark.parametrize("query", ["analytics", "intelligent-tiering", "inventory", "metrics"])
def test_a_configuration_that_is_named_by_its_id_does_not_exist(
    store: kit.ObjectStore, bucket: str, query: str
) -> None:
    assert kit.call(store, "GET", f"/{bucket}?{query}").element("IsTruncated") == "false"
    for method in ("GET", "DELETE"):
        answer = kit.call(store, method, f"/{bucket}?{query}&id=x")
        assert (answer.status, answer.code) == (404, "NoSuchConfiguration")
    assert kit.call(store, "PUT", f"/{bucket}?{query}&id=x").status == 501


def test_deleting_a_website_or_a_replication_that_is_not_there_is_no_error(
    store: kit.ObjectStore, bucket: str
) -> None:
    for query in ("website", "replication"):
        assert kit.call(store, "DELETE", f"/{bucket}?{query}").status == 204
        assert kit.call(store, "DELETE", f"/no-such-bucket?{query}").code == "NoSuchBucket"


def test_clients_read_that_nothing_is_configured(s3: Any, bucket: str) -> None:
    assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket=bucket)
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    assert "TopicConfigurations" not in s3.get_bucket_notification_configuration(Bucket=bucket)
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    assert s3.list_bucket_inventory_configurations(Bucket=bucket)["IsTruncated"] is False
    assert s3.list_bucket_metrics_configurations(Bucket=bucket)["IsTruncated"] is False
    assert s3.list_bucket_intelligent_tiering_configurations(Bucket=bucket)["IsTruncated"] is False


def test_versioning_was_never_enabled(store: kit.ObjectStore, bucket: str) -> None:
    answer = kit.call(store, "GET", f"/{bucket}?versioning")
    assert answer.status == 200
    assert b"<VersioningConfiguration xmlns=" in answer.body
    assert b"<Status>" not in answer.body


@pytest.mark.parametrize(
    ("method", "query", "name"),
    [
        (method, row.subresource, row.name)
        for row in rows.ROWS
        for method in row.methods
        if row.scope == "bucket" and row.subresource and row.status == "no" and row.when is None
    ],
)
def test_what_is_not_done_says_so_by_name_and_changes_nothing(
    store: kit.ObjectStore, bucket: str, method: str, query: str, name: str
) -> None:
    answer = kit.call(store, method, f"/{bucket}?{query}&id=x", body=b"<x/>")
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert answer.element("Operation") == name


PREFLIGHT = {"origin": "http://x", "access-control-request-method": "GET"}


def test_a_preflight_request_hears_that_cors_is_not_enabled(
    store: kit.ObjectStore, bucket: str
) -> None:
    answer = kit.send(store, "OPTIONS", f"/{bucket}/k", PREFLIGHT)
    assert (answer.status, answer.code) == (403, "AccessForbidden")
