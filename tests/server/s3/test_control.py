"""The tags of buckets through S3 Control, as Terraform's provider reads and changes them."""

from __future__ import annotations

import concurrent.futures
import json
import socket
from collections.abc import Iterator
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import pytest

from server import config
from tests.kit import s3 as kit

ACCOUNT = "000000000000"
OTHER_ACCOUNT = "111111111111"
USER = config.User(name="tagger", access_key="AKTAGGER", secret_key="tagger's secret")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    with kit.serve(tmp_path_factory.mktemp("control") / "data", users=(USER,)) as running:
        yield running


@pytest.fixture(autouse=True)
def _every_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDKs put the account before the host; not every resolver has names below `localhost`."""
    resolve = socket.getaddrinfo

    def resolve_here(host: Any, *arguments: Any, **options: Any) -> Any:
        is_below = isinstance(host, str) and host.endswith(".localhost")
        return resolve("127.0.0.1" if is_below else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_here)


def control_of(place: kit.ObjectStore, **keys: str) -> Any:
    return boto3.client(
        "s3control",
        endpoint_url=f"http://localhost:{place.port}",
        aws_access_key_id=keys.get("access_key", place.access_key),
        aws_secret_access_key=keys.get("secret_key", place.secret_key),
        region_name=kit.REGION,
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture
def s3(place: kit.ObjectStore) -> Any:
    return kit.client(place)


@pytest.fixture
def bucket(s3: Any) -> str:
    return kit.new_bucket(s3)


def named(bucket: str, account: str = ACCOUNT) -> dict[str, str]:
    return {"AccountId": account, "ResourceArn": f"arn:aws:s3:::{bucket}"}


def pairs(**tags: str) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in tags.items()]


def refusal(work: Any, **params: Any) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        work(**params)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def test_tags_are_added_listed_and_removed_one_by_one(
    place: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    control = control_of(place)
    resource = named(bucket)
    assert control.list_tags_for_resource(**resource)["Tags"] == []
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": pairs(kept="1", changed="a")})
    control.tag_resource(**resource, Tags=pairs(changed="b / c=@d", added="d"))
    tags = pairs(added="d", changed="b / c=@d", kept="1")
    assert control.list_tags_for_resource(**resource)["Tags"] == tags
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tags
    control.untag_resource(**resource, TagKeys=["added", "absent", "changed"])
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == pairs(kept="1")
    control.untag_resource(**resource, TagKeys=["kept"])
    assert control.list_tags_for_resource(**resource)["Tags"] == []
    assert refusal(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")


def test_tags_that_many_clients_add_at_once_are_all_there(
    place: kit.ObjectStore, bucket: str
) -> None:
    def add(number: int) -> None:
        control_of(place).tag_resource(**named(bucket), Tags=pairs(**{f"k{number:02}": "v"}))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(16)))
    tags = control_of(place).list_tags_for_resource(**named(bucket))["Tags"]
    assert tags == pairs(**{f"k{number:02}": "v" for number in range(16)})


def test_a_bucket_has_no_more_tags_than_by_its_own_operation(
    place: kit.ObjectStore, bucket: str
) -> None:
    control = control_of(place)
    fifty = pairs(**{f"k{number}": "v" for number in range(50)})
    control.tag_resource(**named(bucket), Tags=fifty)
    control.tag_resource(**named(bucket), Tags=pairs(k0="changed"))
    one_more = refusal(control.tag_resource, **named(bucket), Tags=pairs(more="v"))
    assert one_more == (400, "BadRequest")
    reserved = refusal(control.tag_resource, **named(bucket), Tags=pairs(**{"aws:x": "v"}))
    assert reserved == (400, "InvalidTag")
    assert len(control.list_tags_for_resource(**named(bucket))["Tags"]) == 50


def test_other_accounts_resources_and_operations_are_refused(
    place: kit.ObjectStore, s3: Any, bucket: str
) -> None:
    control = control_of(place)
    read = control.list_tags_for_resource
    assert refusal(read, **named(bucket, OTHER_ACCOUNT)) == (403, "AccessDenied")
    assert refusal(read, **named("absent-bucket")) == (404, "NoSuchBucket")
    assert refusal(read, **named(f"{bucket}/key")) == (501, "NotImplemented")
    access_point = {**named(bucket), "ResourceArn": "arn:aws:s3:us-east-1:1:accesspoint/a"}
    assert refusal(read, **access_point) == (501, "NotImplemented")
    assert refusal(control.list_jobs, AccountId=ACCOUNT) == (501, "NotImplemented")
    target = f"/v20180820/tags/arn%3Aaws%3As3%3A%3A%3A{bucket}"
    unsigned = kit.send(place, "GET", target, {"x-amz-account-id": ACCOUNT})
    assert (unsigned.status, unsigned.code) == (403, "AccessDenied")
    assert unsigned.body.split(b"<Code>")[0].count(b"<ErrorResponse xmlns=") == 1
    of_another = kit.call(place, "GET", "/v20180820/tags/other", {"x-amz-account-id": ACCOUNT})
    assert (of_another.status, of_another.element("ResourceArn")) == (501, "other")
    assert of_another.element("Resource") == "/v20180820/tags/other"
    # Without the header of an account it is a key of a bucket.
    s3.create_bucket(Bucket="v20180820")
    key = {"Bucket": "v20180820", "Key": f"tags/arn:aws:s3:::{bucket}"}
    s3.put_object(**key, Body=b"an object")
    assert s3.get_object(**key)["Body"].read() == b"an object"


def test_policies_decide_by_action_and_by_tag(place: kit.ObjectStore, s3: Any, bucket: str) -> None:
    control = control_of(place, access_key=USER.access_key, secret_key=USER.secret_key)
    resource = named(bucket)
    denied = (403, "AccessDenied")
    assert refusal(control.list_tags_for_resource, **resource) == denied
    assert refusal(control.tag_resource, **resource, Tags=pairs(a="1")) == denied
    assert refusal(control.untag_resource, **resource, TagKeys=["a"]) == denied

    def statement(*actions: str, **condition: Any) -> dict[str, Any]:
        arn = f"arn:aws:s3:::{bucket}"
        bare = {"Effect": "Allow", "Principal": "*", "Action": list(actions), "Resource": arn}
        return {**bare, "Condition": condition} if condition else bare

    text = json.dumps({
        "Version": "2012-10-17",
        "Statement": [
            statement("s3:ListTagsForResource"),
            statement("s3:TagResource", StringEquals={"aws:RequestTag/a": "1"}),
            statement(
                "s3:UntagResource", **{"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}
            ),
        ],
    })  # fmt: skip
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assert refusal(control.tag_resource, **resource, Tags=pairs(a="2")) == denied
    control.tag_resource(**resource, Tags=pairs(a="1"))
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": pairs(a="1", b="2")})
    assert refusal(control.untag_resource, **resource, TagKeys=["a", "b"]) == denied
    control.untag_resource(**resource, TagKeys=["a"])
    assert control.list_tags_for_resource(**resource)["Tags"] == pairs(b="2")
