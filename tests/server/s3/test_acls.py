"""Access control lists: who gets in by them, who owns an object, and what turns them off."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import botocore.exceptions
import pytest

from server import config
from storage import buckets
from storage import errors as storage_errors
from tests.kit import s3 as kit

ALL_OF_S3 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
OWNER_ID, STRANGER_ID = "a" * 64, "b" * 64
OWNER = config.User(
    name="owner",
    access_key="AKOWNER",
    secret_key="owner's secret",
    policies=(ALL_OF_S3,),
    account="111111111111",
    canonical_id=OWNER_ID,
    display_name="the owner",
    email="owner@example.com",
)
NEIGHBOUR = config.User(
    name="neighbour", access_key="AKNEIGHBOUR", secret_key="neighbour's", account=OWNER.account
)
STRANGER = config.User(
    name="stranger",
    access_key="AKSTRANGER",
    secret_key="stranger's",
    policies=(ALL_OF_S3,),
    account="222222222222",
    canonical_id=STRANGER_ID,
    display_name="the stranger",
    email="stranger@example.com",
)
CAREFUL = config.User(
    name="careful",
    access_key="AKCAREFUL",
    secret_key="careful's",
    policies=(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
                {
                    "Effect": "Deny",
                    "Action": "s3:*",
                    "Resource": "*",
                    "Condition": {"StringEquals": {"s3:x-amz-acl": "public-read"}},
                },
            ],
        },
    ),
    account=OWNER.account,
    canonical_id=OWNER_ID,
)
CREATOR = config.User(
    name="creator",
    access_key="AKCREATOR",
    secret_key="creator's",
    policies=(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "s3:CreateBucket", "Resource": "*"}],
        },
    ),
    account="444444444444",
)
POWERLESS = config.User(
    name="powerless", access_key="AKPOWERLESS", secret_key="powerless'", account="333333333333"
)
USERS = (OWNER, NEIGHBOUR, STRANGER, POWERLESS)
ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
AUTHENTICATED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
LOG_DELIVERY = "http://acs.amazonaws.com/groups/s3/LogDelivery"
ANONYMOUS_ID = "65a011a29cdf8ec533ec3d1ccaae921c"
EC2_ID = "6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    with kit.serve(
        tmp_path_factory.mktemp("acls") / "data", users=(*USERS, CAREFUL, CREATOR)
    ) as running:
        yield running


def client_of(place: kit.ObjectStore, user: config.User) -> Any:
    return kit.client(place, access_key=user.access_key, secret_key=user.secret_key)


@pytest.fixture(scope="module")
def owner(place: kit.ObjectStore) -> Any:
    return client_of(place, OWNER)


@pytest.fixture(scope="module")
def stranger(place: kit.ObjectStore) -> Any:
    return client_of(place, STRANGER)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def bucket(owner: Any, numbers: Iterator[int]) -> str:
    """A bucket of the owner's with the object k."""
    name = f"acls-{next(numbers):03}"
    owner.create_bucket(Bucket=name)
    owner.put_object(Bucket=name, Key="k", Body=b"body")
    return name


def refusal(work: Any, **params: Any) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        work(**params)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def grants(answer: Any) -> set[tuple[str, str]]:
    return {
        (each["Grantee"].get("ID") or each["Grantee"]["URI"], each["Permission"])
        for each in answer["Grants"]
    }


def requested(
    place: kit.ObjectStore, user: config.User | None, method: str, target: str, **headers: str
) -> int:
    body = b"new" if method == "PUT" else b""
    if user is None:
        return kit.send(place, method, target, headers, body).status
    keys = {"access_key": user.access_key, "secret_key": user.secret_key}
    return kit.call(place, method, target, headers, body, **keys).status


def who(place: kit.ObjectStore, method: str, target: str) -> set[str]:
    """The callers that are not refused."""
    callers = {each.name: each for each in USERS} | {"anonymous": None}
    statuses = {name: requested(place, user, method, target) for name, user in callers.items()}
    assert set(statuses.values()) <= {200, 403}
    return {name for name, status in statuses.items() if status == 200}


@pytest.mark.parametrize(
    ("canned", "readers"),
    [
        ("private", {"owner"}),
        ("public-read", {"owner", "stranger", "anonymous"}),
        ("public-read-write", {"owner", "stranger", "anonymous"}),
        ("authenticated-read", {"owner", "stranger"}),
        ("bucket-owner-read", {"owner"}),
        ("bucket-owner-full-control", {"owner"}),
        ("aws-exec-read", {"owner"}),
    ],
)
def test_an_objects_canned_list_lets_in_whom_aws_says(
    place: kit.ObjectStore, owner: Any, bucket: str, canned: str, readers: set[str]
) -> None:
    """A user of the bucket's own account needs a policy: a list grants nothing within it. One of
    another account needs the list and a policy of his own."""
    owner.put_object(Bucket=bucket, Key="new", Body=b"x", ACL=canned)
    owner.put_object_acl(Bucket=bucket, Key="k", ACL=canned)
    for key in ("k", "new"):
        assert who(place, "GET", f"/{bucket}/{key}") == readers
    # The list of an object says nothing of the bucket, nor of its own list.
    assert who(place, "GET", f"/{bucket}") == {"owner"}
    assert who(place, "GET", f"/{bucket}/k?acl") == {"owner"}
    assert who(place, "PUT", f"/{bucket}/k") == {"owner"}
    owner.put_object_acl(Bucket=bucket, Key="new", ACL="private")
    assert who(place, "GET", f"/{bucket}/new") == {"owner"}


@pytest.mark.parametrize(
    ("canned", "listers", "writers"),
    [
        ("private", {"owner"}, {"owner"}),
        ("public-read", {"owner", "stranger", "anonymous"}, {"owner"}),
        (
            "public-read-write",
            {"owner", "stranger", "anonymous"},
            {"owner", "stranger", "anonymous"},
        ),
        ("authenticated-read", {"owner", "stranger"}, {"owner"}),
        ("log-delivery-write", {"owner"}, {"owner"}),
        ("bucket-owner-read", {"owner"}, {"owner"}),
    ],
)
def test_a_buckets_canned_list_lets_in_whom_aws_says(
    place: kit.ObjectStore,
    owner: Any,
    bucket: str,
    canned: str,
    listers: set[str],
    writers: set[str],
) -> None:
    owner.put_bucket_acl(Bucket=bucket, ACL=canned)
    created = f"{bucket}-created"
    owner.create_bucket(Bucket=created, ACL=canned)
    owner.put_object(Bucket=created, Key="k", Body=b"x")
    for name in (bucket, created):
        assert grants(owner.get_bucket_acl(Bucket=name)) == grants(
            owner.get_bucket_acl(Bucket=bucket)
        )
        # What a bucket's list grants on the bucket, it does not grant on its objects.
        assert who(place, "GET", f"/{name}/k") == {"owner"}
        assert who(place, "GET", f"/{name}") == listers
        assert who(place, "PUT", f"/{name}/written") == writers
        assert who(place, "GET", f"/{name}?versioning") == {"owner"}
    for user in (STRANGER, POWERLESS, None):
        assert requested(place, user, "DELETE", f"/{bucket}/k") == 403


def test_lists_are_shown_as_aws_shows_them(owner: Any, bucket: str) -> None:
    shown = owner.get_bucket_acl(Bucket=bucket)
    assert shown["Owner"] == {"ID": OWNER_ID, "DisplayName": "the owner"}
    assert shown["Grants"] == [
        {
            "Grantee": {"ID": OWNER_ID, "DisplayName": "the owner", "Type": "CanonicalUser"},
            "Permission": "FULL_CONTROL",
        }
    ]
    full = (OWNER_ID, "FULL_CONTROL")
    for canned, more in (
        ("public-read-write", {(ALL_USERS, "READ"), (ALL_USERS, "WRITE")}),
        ("authenticated-read", {(AUTHENTICATED, "READ")}),
        ("log-delivery-write", {(LOG_DELIVERY, "WRITE"), (LOG_DELIVERY, "READ_ACP")}),
        ("aws-exec-read", {(EC2_ID, "READ")}),
        ("bucket-owner-full-control", set()),
        ("private", set()),
    ):
        owner.put_bucket_acl(Bucket=bucket, ACL=canned)
        assert grants(owner.get_bucket_acl(Bucket=bucket)) == {full, *more}


@pytest.mark.parametrize("by", [f'id="{STRANGER_ID}"', 'emailAddress="Stranger@example.com"'])
def test_header_grants_name_users_by_id_or_email(
    place: kit.ObjectStore, owner: Any, bucket: str, by: str
) -> None:
    owner.put_object_acl(Bucket=bucket, Key="k", GrantRead=by)
    assert grants(owner.get_object_acl(Bucket=bucket, Key="k")) == {(STRANGER_ID, "READ")}
    # Without a grant of its own the owner's account keeps what its policies allow.
    assert who(place, "GET", f"/{bucket}/k") == {"owner", "stranger"}
    owner.put_object_acl(Bucket=bucket, Key="k", GrantReadACP=by, GrantFullControl=f"id={OWNER_ID}")
    assert who(place, "GET", f"/{bucket}/k") == {"owner"}
    assert who(place, "GET", f"/{bucket}/k?acl") == {"owner", "stranger"}


def test_full_control_allows_everything_of_its_list(
    place: kit.ObjectStore, owner: Any, stranger: Any, bucket: str
) -> None:
    grant = f'id="{STRANGER_ID}", uri="{LOG_DELIVERY}"'
    owner.put_bucket_acl(Bucket=bucket, GrantFullControl=grant)
    assert grants(stranger.get_bucket_acl(Bucket=bucket)) == {
        (STRANGER_ID, "FULL_CONTROL"),
        (LOG_DELIVERY, "FULL_CONTROL"),
    }
    stranger.list_objects_v2(Bucket=bucket)
    stranger.put_object(Bucket=bucket, Key="s", Body=b"x")
    assert refusal(stranger.get_object, Bucket=bucket, Key="k") == (403, "AccessDenied")
    assert refusal(stranger.get_bucket_policy, Bucket=bucket) == (403, "AccessDenied")
    assert refusal(stranger.delete_bucket, Bucket=bucket) == (403, "AccessDenied")
    stranger.put_bucket_acl(Bucket=bucket, ACL="private")
    assert refusal(stranger.list_objects_v2, Bucket=bucket) == (403, "AccessDenied")


def test_a_document_is_put_and_shown(owner: Any, stranger: Any, bucket: str) -> None:
    policy = {
        "Owner": {"ID": OWNER_ID},
        "Grants": [
            {"Grantee": {"Type": "Group", "URI": AUTHENTICATED}, "Permission": "READ_ACP"},
            {"Grantee": {"Type": "CanonicalUser", "ID": STRANGER_ID}, "Permission": "WRITE_ACP"},
            {
                "Grantee": {"Type": "AmazonCustomerByEmail", "EmailAddress": OWNER.email},
                "Permission": "FULL_CONTROL",
            },
        ],
    }
    owner.put_object_acl(Bucket=bucket, Key="k", AccessControlPolicy=policy)
    expected = {
        (AUTHENTICATED, "READ_ACP"),
        (STRANGER_ID, "WRITE_ACP"),
        (OWNER_ID, "FULL_CONTROL"),
    }
    assert grants(stranger.get_object_acl(Bucket=bucket, Key="k")) == expected
    assert refusal(stranger.get_object, Bucket=bucket, Key="k") == (403, "AccessDenied")
    stranger.put_object_acl(
        Bucket=bucket, Key="k", AccessControlPolicy={**policy, "Grants": policy["Grants"][1:]}
    )
    assert grants(owner.get_object_acl(Bucket=bucket, Key="k")) == expected - {
        (AUTHENTICATED, "READ_ACP")
    }
    # A list may be without a grant; its owner's account can put another one.
    none = {**policy, "Grants": []}
    owner.put_object_acl(Bucket=bucket, Key="k", AccessControlPolicy=none)
    shown = owner.get_object_acl(Bucket=bucket, Key="k")
    assert shown.get("Grants", []) == []
    owner.put_object_acl(Bucket=bucket, Key="k", ACL="private")


def document(body: str) -> bytes:
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<AccessControlPolicy xmlns="{namespace}">{body}</AccessControlPolicy>'.encode()


GRANTED = "<Grant><Grantee><ID>{}</ID></Grantee><Permission>{}</Permission></Grant>"
LISTED = "<AccessControlList>{}</AccessControlList>"
OWNED = f"<Owner><ID>{OWNER_ID}</ID></Owner>"


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, b"", (400, "MissingSecurityHeader")),
        ({"x-amz-acl": "private"}, document(LISTED.format("")), (400, "UnexpectedContent")),
        ({"x-amz-acl": "open"}, b"", (400, "InvalidArgument")),
        ({"x-amz-acl": "private", "x-amz-grant-read": "id=a"}, b"", (400, "InvalidRequest")),
        ({"x-amz-grant-read": "name=a"}, b"", (400, "InvalidArgument")),
        ({"x-amz-grant-read": 'id="'}, b"", (400, "InvalidArgument")),
        ({"x-amz-grant-read": "id=unknown"}, b"", (400, "InvalidArgument")),
        ({"x-amz-grant-read": "uri=http://a.example"}, b"", (400, "InvalidArgument")),
        (
            {"x-amz-grant-read": "emailAddress=no@example.com"},
            b"",
            (400, "UnresolvableGrantByEmailAddress"),
        ),
        ({}, b"<AccessControlPolicy", (400, "MalformedXML")),
        ({}, b"<Tagging/>", (400, "MalformedACLError")),
        ({}, document(""), (400, "MalformedACLError")),
        ({}, document("<Other/>" + OWNED + LISTED.format("")), (400, "MalformedACLError")),
        ({}, document(OWNED + LISTED.format("<Grant/>")), (400, "MalformedACLError")),
        (
            {},
            document(OWNED + LISTED.format(GRANTED.format(OWNER_ID, "DELETE"))),
            (400, "MalformedACLError"),
        ),
        (
            {},
            document(OWNED + LISTED.format(GRANTED.format(OWNER_ID, "READ") * 101)),
            (400, "MalformedACLError"),
        ),
        ({}, document(LISTED.format("")), (400, "MalformedACLError")),
        (
            {},
            document(OWNED + LISTED.format(GRANTED.format("_foo", "READ"))),
            (400, "InvalidArgument"),
        ),
        (
            {},
            document(f"<Owner><ID>{STRANGER_ID}</ID></Owner>" + LISTED.format("")),
            (403, "AccessDenied"),
        ),
    ],
)
@pytest.mark.parametrize("target", ["/{}?acl", "/{}/k?acl"])
def test_a_list_that_is_none_is_refused_and_changes_nothing(
    place: kit.ObjectStore,
    owner: Any,
    bucket: str,
    target: str,
    headers: dict[str, str],
    body: bytes,
    expected: tuple[int, str],
) -> None:
    keys = {"access_key": OWNER.access_key, "secret_key": OWNER.secret_key}
    answer = kit.call(place, "PUT", target.format(bucket), headers, body, **keys)
    assert (answer.status, answer.code) == expected
    full = {(OWNER_ID, "FULL_CONTROL")}
    assert grants(owner.get_bucket_acl(Bucket=bucket)) == full
    assert grants(owner.get_object_acl(Bucket=bucket, Key="k")) == full


def test_an_object_belongs_to_its_writer(
    place: kit.ObjectStore, owner: Any, stranger: Any, bucket: str
) -> None:
    owner.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    stranger.put_object(Bucket=bucket, Key="theirs", Body=b"x")
    assert requested(place, None, "PUT", f"/{bucket}/anonymous") == 200
    # Neither the bucket's owner nor the bucket's policy gives it away.
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject*",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    assert who(place, "GET", f"/{bucket}/theirs") == {"stranger"}
    assert who(place, "GET", f"/{bucket}/anonymous") == set()
    assert "anonymous" in who(place, "GET", f"/{bucket}/k")
    shown = stranger.get_object_acl(Bucket=bucket, Key="theirs")
    assert shown["Owner"]["ID"] == STRANGER_ID
    assert grants(shown) == {(STRANGER_ID, "FULL_CONTROL")}
    # A Deny of the bucket's policy binds the object's owner too.
    denied = {**policy, "Statement": [{**statement, "Effect": "Deny"}]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(denied))
    assert who(place, "GET", f"/{bucket}/theirs") == set()
    owner.delete_bucket_policy(Bucket=bucket)
    listed = {
        each["Key"]: each["Owner"]["ID"]
        for each in owner.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"]
    }
    assert listed == {"k": OWNER_ID, "theirs": STRANGER_ID, "anonymous": ANONYMOUS_ID}
    versions = owner.list_object_versions(Bucket=bucket)["Versions"]
    assert {each["Key"]: each["Owner"]["ID"] for each in versions} == listed
    # Its owner may delete it where he may write; the bucket's owner may delete everything.
    assert refusal(stranger.delete_object, Bucket=bucket, Key="anonymous") == (403, "AccessDenied")
    stranger.delete_object(Bucket=bucket, Key="theirs")
    owner.delete_object(Bucket=bucket, Key="anonymous")


@pytest.mark.parametrize(
    ("controls", "canned", "has_owner", "readers"),
    [
        ("ObjectWriter", None, STRANGER_ID, {"stranger"}),
        ("ObjectWriter", "bucket-owner-full-control", STRANGER_ID, {"stranger", "owner"}),
        ("ObjectWriter", "bucket-owner-read", STRANGER_ID, {"stranger", "owner"}),
        ("BucketOwnerPreferred", None, STRANGER_ID, {"stranger"}),
        ("BucketOwnerPreferred", "private", STRANGER_ID, {"stranger"}),
        ("BucketOwnerPreferred", "bucket-owner-full-control", OWNER_ID, {"owner"}),
        ("BucketOwnerEnforced", None, OWNER_ID, {"owner"}),
        ("BucketOwnerEnforced", "bucket-owner-full-control", OWNER_ID, {"owner"}),
    ],
)
def test_ownership_controls_say_who_owns_a_new_object(
    place: kit.ObjectStore,
    owner: Any,
    stranger: Any,
    bucket: str,
    controls: str,
    canned: str | None,
    has_owner: str,
    readers: set[str],
) -> None:
    rules = {"Rules": [{"ObjectOwnership": controls}]}
    owner.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules)
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": STRANGER.account},
        "Action": ["s3:PutObject", "s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{bucket}/*", f"arn:aws:s3:::{bucket}"],
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    acl = {} if canned is None else {"ACL": canned}
    stranger.put_object(Bucket=bucket, Key="put", Body=b"x", **acl)
    upload = stranger.create_multipart_upload(Bucket=bucket, Key="parts", **acl)["UploadId"]
    shown = stranger.list_parts(Bucket=bucket, Key="parts", UploadId=upload)
    assert (shown["Initiator"]["ID"], shown["Owner"]["ID"]) == (STRANGER_ID, has_owner)
    part = stranger.upload_part(
        Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"x"
    )
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    stranger.complete_multipart_upload(
        Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts
    )
    stranger.put_object(Bucket=bucket, Key="own", Body=b"x", ACL="bucket-owner-full-control")
    for key in ("put", "parts"):
        assert who(place, "GET", f"/{bucket}/{key}") == readers
    listed = owner.list_objects(Bucket=bucket)["Contents"]
    assert {each["Key"]: each["Owner"]["ID"] for each in listed}["put"] == has_owner


def test_enforced_controls_turn_lists_off_and_keep_them(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    rules = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    put_controls = owner.put_bucket_ownership_controls
    owner.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    owner.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert refusal(put_controls, Bucket=bucket, OwnershipControls=rules) == (
        400,
        "InvalidBucketAclWithObjectOwnership",
    )
    assert refusal(
        owner.create_bucket,
        Bucket=f"{bucket}-2",
        ACL="public-read",
        ObjectOwnership="BucketOwnerEnforced",
    ) == (400, "InvalidBucketAclWithObjectOwnership")
    owner.put_bucket_acl(Bucket=bucket, ACL="private")
    put_controls(Bucket=bucket, OwnershipControls=rules)
    assert who(place, "GET", f"/{bucket}/k") == {"owner"}
    assert grants(owner.get_object_acl(Bucket=bucket, Key="k")) == {(OWNER_ID, "FULL_CONTROL")}
    not_supported = (400, "AccessControlListNotSupported")
    target = {"Bucket": bucket, "Key": "k"}
    for acl in ("private", "public-read"):
        assert refusal(owner.put_bucket_acl, Bucket=bucket, ACL=acl) == not_supported
        assert refusal(owner.put_object_acl, **target, ACL=acl) == not_supported
        assert refusal(owner.put_object, **target, ACL=acl) == not_supported
        assert refusal(owner.create_multipart_upload, **target, ACL=acl) == not_supported
        assert (
            refusal(owner.copy_object, Bucket=bucket, Key="c", CopySource=target, ACL=acl)
            == not_supported
        )
    owner.put_object(Bucket=bucket, Key="new", ACL="bucket-owner-full-control")
    owner.put_object(Bucket=bucket, Key="new", GrantFullControl=f"id={OWNER_ID}")
    assert (
        refusal(owner.put_object, Bucket=bucket, Key="new", GrantFullControl=f"id={STRANGER_ID}")
        == not_supported
    )
    owner.delete_bucket_ownership_controls(Bucket=bucket)
    assert who(place, "GET", f"/{bucket}/k") == {"owner", "stranger", "anonymous"}


def test_the_block_of_public_access_refuses_and_ignores_public_lists(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    def block(**members: bool) -> None:
        names = (
            "BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"
        )  # fmt: skip
        configuration = dict.fromkeys(names, False) | members
        owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=configuration)

    owner.put_bucket_acl(Bucket=bucket, ACL="public-read")
    owner.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    assert owner.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]
    block(IgnorePublicAcls=True)
    for target in (f"/{bucket}", f"/{bucket}/k"):
        assert who(place, "GET", target) == {"owner"}
    assert not owner.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"]
    owner.put_object_acl(Bucket=bucket, Key="k", GrantRead=f"id={STRANGER_ID}")
    assert who(place, "GET", f"/{bucket}/k") == {"owner", "stranger"}
    block(BlockPublicAcls=True)
    denied = (403, "AccessDenied")
    target = {"Bucket": bucket, "Key": "k"}
    for acl in ("public-read", "public-read-write", "authenticated-read"):
        assert refusal(owner.put_bucket_acl, Bucket=bucket, ACL=acl) == denied
        assert refusal(owner.put_object_acl, **target, ACL=acl) == denied
        assert refusal(owner.put_object, **target, ACL=acl) == denied
        assert refusal(owner.create_multipart_upload, **target, ACL=acl) == denied
    assert refusal(owner.put_object_acl, **target, GrantRead=f"uri={ALL_USERS}") == denied
    owner.put_object(**target, ACL="private", Body=b"x")
    # What was public before stays so: only new lists are blocked.
    assert who(place, "GET", f"/{bucket}") == {"owner", "stranger", "anonymous"}


def test_a_restricted_bucket_is_left_to_the_account_of_its_owner(
    place: kit.ObjectStore, owner: Any, stranger: Any, bucket: str
) -> None:
    """RestrictPublicBuckets refuses an object to its owner of another account. The bucket's owner
    may use a grant."""
    owner.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    owner.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    stranger.put_object(Bucket=bucket, Key="theirs", Body=b"x", ACL="bucket-owner-read")
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:ListBucket",
        "Resource": f"arn:aws:s3:::{bucket}",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    assert who(place, "GET", f"/{bucket}/k") == {"owner", "stranger", "anonymous"}
    assert who(place, "GET", f"/{bucket}/theirs") == {"owner", "stranger"}
    block = {"RestrictPublicBuckets": True}
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    assert who(place, "GET", f"/{bucket}/k") == {"owner"}
    assert who(place, "GET", f"/{bucket}/theirs") == {"owner"}


def test_a_completion_is_judged_by_the_settings_put_after_its_upload_was_created(
    place: kit.ObjectStore, owner: Any, stranger: Any, bucket: str
) -> None:
    owner.put_bucket_acl(Bucket=bucket, ACL="public-read-write")

    def completed_later(client: Any, key: str, **acl: str) -> Callable[[], Any]:
        upload = {"Bucket": bucket, "Key": key}
        upload["UploadId"] = client.create_multipart_upload(**upload, **acl)["UploadId"]
        etag = client.upload_part(**upload, PartNumber=1, Body=b"part")["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        return lambda: client.complete_multipart_upload(**upload, MultipartUpload=parts)

    public = completed_later(owner, "public", ACL="public-read")
    shared = completed_later(owner, "shared", GrantRead=f"id={STRANGER_ID}")
    enforced = [
        completed_later(stranger, "theirs"),
        completed_later(owner, "granted", GrantRead=f"id={STRANGER_ID}"),
    ]
    block = {"BlockPublicAcls": True}
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    assert refusal(public) == (403, "AccessDenied")
    assert refusal(owner.head_object, Bucket=bucket, Key="public")[0] == 404
    shared()
    assert who(place, "GET", f"/{bucket}/shared") == {"owner", "stranger"}
    owner.delete_public_access_block(Bucket=bucket)
    public()
    # A repeated completion answers as the first one.
    owner.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    public()
    # The controls of the completion say who owns the object.
    owner.put_bucket_acl(Bucket=bucket, ACL="private")
    everything = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{STRANGER.account}:root"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [everything]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    rules = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    owner.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rules)
    for complete in enforced:
        complete()
    owner.delete_bucket_ownership_controls(Bucket=bucket)
    for key in ("theirs", "granted"):
        assert who(place, "GET", f"/{bucket}/{key}") == {"owner"}
        shown = owner.get_object_acl(Bucket=bucket, Key=key)
        assert (shown["Owner"]["ID"], grants(shown)) == (OWNER_ID, {(OWNER_ID, "FULL_CONTROL")})


def test_versions_have_lists_of_their_own(place: kit.ObjectStore, owner: Any, bucket: str) -> None:
    owner.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first, second = (
        owner.put_object(Bucket=bucket, Key="v", Body=b"x")["VersionId"] for _ in range(2)
    )
    owner.put_object_acl(Bucket=bucket, Key="v", VersionId=first, ACL="public-read")
    everyone = {"owner", "stranger", "anonymous"}
    assert who(place, "GET", f"/{bucket}/v?versionId={first}") == everyone
    assert who(place, "GET", f"/{bucket}/v?versionId={second}") == {"owner"}
    assert who(place, "GET", f"/{bucket}/v") == {"owner"}
    shown = owner.get_object_acl(Bucket=bucket, Key="v", VersionId=first)
    assert (ALL_USERS, "READ") in grants(shown)
    owner.delete_object(Bucket=bucket, Key="v")
    assert refusal(owner.get_object_acl, Bucket=bucket, Key="v") == (404, "NoSuchKey")
    owner.delete_object(Bucket=bucket, Key="v", VersionId=second)
    assert who(place, "GET", f"/{bucket}/v?versionId={first}") == everyone


def test_a_copy_and_an_overwrite_do_not_take_the_list_over(
    place: kit.ObjectStore, owner: Any, bucket: str
) -> None:
    owner.put_object(Bucket=bucket, Key="open", Body=b"x", ACL="public-read")
    source = {"Bucket": bucket, "Key": "open"}
    owner.copy_object(Bucket=bucket, Key="copied", CopySource=source)
    owner.copy_object(Bucket=bucket, Key="shared", CopySource=source, ACL="public-read")
    everyone = {"owner", "stranger", "anonymous"}
    assert who(place, "GET", f"/{bucket}/copied") == {"owner"}
    assert who(place, "GET", f"/{bucket}/shared") == everyone
    assert who(place, "GET", f"/{bucket}/open") == everyone
    owner.put_object(Bucket=bucket, Key="open", Body=b"y")
    assert who(place, "GET", f"/{bucket}/open") == {"owner"}


def test_conditions_of_policies_see_the_list_that_a_write_asks_for(
    owner: Any, stranger: Any, bucket: str
) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}},
    }
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": {"StringLike": {"s3:x-amz-grant-read": f"*{ALL_USERS}*"}},
    }
    policy = {"Version": "2012-10-17", "Statement": [statement, deny]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    target = {"Bucket": bucket, "Key": "n", "Body": b"x"}
    assert refusal(stranger.put_object, **target) == (403, "AccessDenied")
    assert refusal(stranger.put_object, **target, ACL="private") == (403, "AccessDenied")
    stranger.put_object(**target, ACL="bucket-owner-full-control")
    assert refusal(owner.put_object, **target, GrantRead=f"uri={ALL_USERS}") == (
        403,
        "AccessDenied",
    )


@pytest.mark.parametrize(
    "spelling",
    ["public-read", "public-read%20", "public-read%09", "%20public-read"],
)
@pytest.mark.parametrize("target", ["/{}/k?acl&", "/{}?acl&", "/{}/k?", "/{}-new?"])
def test_conditions_of_policies_see_the_list_in_the_query_as_it_takes_effect(
    place: kit.ObjectStore,
    owner: Any,
    bucket: str,
    target: str,
    spelling: str,
) -> None:
    """A list that the query asks for is refused with spaces around its name too."""
    keys = {"access_key": CAREFUL.access_key, "secret_key": CAREFUL.secret_key}
    path = target.format(bucket)
    assert kit.call(place, "PUT", f"{path}x-amz-acl={spelling}", **keys).status == 403
    assert grants(owner.get_bucket_acl(Bucket=bucket)) == {(OWNER_ID, "FULL_CONTROL")}
    shown = owner.get_object_acl(Bucket=bucket, Key="k")
    assert grants(shown) == {(OWNER_ID, "FULL_CONTROL")}
    assert f"{bucket}-new" not in {each["Name"] for each in owner.list_buckets()["Buckets"]}


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        ({"StringEquals": {"s3:x-amz-acl": "public-read"}}, ("acl", "public-read")),
        (
            {"StringLike": {"s3:x-amz-grant-read": "*AllUsers*"}},
            ("x-amz-grant-read", f'uri="{ALL_USERS}"'),
        ),
    ],
)
def test_conditions_of_policies_see_the_list_that_a_form_asks_for(
    place: kit.ObjectStore, owner: Any, bucket: str, condition: Any, field: tuple[str, str]
) -> None:
    """An anonymous form is refused by a Deny of the list among its fields."""
    owner.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
        "Condition": condition,
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    headers = {"content-type": "multipart/form-data; boundary=x"}

    def posted(*fields: tuple[str, str]) -> int:
        pairs = (("key", "form"), *fields, ("file", "content"))
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in pairs
        ]
        body = "".join(parts).encode() + b"--x--\r\n"
        return kit.send(place, "POST", f"/{bucket}", headers, body).status

    assert posted(field) == 403
    assert posted() == 204


def test_a_list_needs_its_own_right(place: kit.ObjectStore, owner: Any, bucket: str) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{OWNER.account}:user/neighbour"},
        "Action": "s3:PutObject",
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    target = f"/{bucket}/n"
    assert requested(place, NEIGHBOUR, "PUT", target) == 200
    assert requested(place, NEIGHBOUR, "PUT", target, **{"x-amz-acl": "public-read"}) == 403
    statement["Action"] = ["s3:PutObject", "s3:PutObjectAcl"]
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    assert requested(place, NEIGHBOUR, "PUT", target, **{"x-amz-acl": "public-read"}) == 200


def test_an_initiator_aborts_an_upload_in_the_bucket_of_another(
    owner: Any, stranger: Any, bucket: str
) -> None:
    owner.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    theirs = stranger.create_multipart_upload(Bucket=bucket, Key="t")["UploadId"]
    own = owner.create_multipart_upload(Bucket=bucket, Key="o")["UploadId"]
    shown = {
        each["Key"]: (each["Initiator"]["ID"], each["Owner"]["ID"])
        for each in owner.list_multipart_uploads(Bucket=bucket)["Uploads"]
    }
    assert shown == {"o": (OWNER_ID, OWNER_ID), "t": (STRANGER_ID, STRANGER_ID)}
    abort = stranger.abort_multipart_upload
    assert refusal(abort, Bucket=bucket, Key="o", UploadId=own) == (403, "AccessDenied")
    abort(Bucket=bucket, Key="t", UploadId=theirs)
    owner.abort_multipart_upload(Bucket=bucket, Key="o", UploadId=own)


def test_a_bucket_created_again_with_another_list_is_refused(owner: Any, bucket: str) -> None:
    assert refusal(owner.create_bucket, Bucket=bucket, ACL="public-read") == (
        409,
        "BucketAlreadyExists",
    )
    assert grants(owner.get_bucket_acl(Bucket=bucket)) == {(OWNER_ID, "FULL_CONTROL")}
    owner.create_bucket(Bucket=bucket)


def test_a_private_list_of_a_new_bucket_needs_no_right_of_its_own(
    place: kit.ObjectStore, bucket: str
) -> None:
    creator = client_of(place, CREATOR)
    name = f"{bucket}-new"
    assert refusal(creator.create_bucket, Bucket=name, ACL="public-read") == (403, "AccessDenied")
    creator.create_bucket(Bucket=name, ACL="private")
    creator.create_bucket(Bucket=f"{name}-2")


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"ACL": "private"},
        {"ACL": "public-read"},
        {"ObjectOwnership": "ObjectWriter"},
        {"ObjectLockEnabledForBucket": True},
    ],
)
def test_a_name_that_another_account_has_is_taken_whatever_the_bucket_is_to_have(
    owner: Any, stranger: Any, bucket: str, wanted: dict[str, Any]
) -> None:
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": f"arn:aws:s3:::{bucket}",
        "Condition": {"StringEquals": {"aws:PrincipalAccount": STRANGER.account}},
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    owner.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    taken = (409, "BucketAlreadyExists")
    assert refusal(stranger.create_bucket, Bucket=bucket, **wanted) == taken


def test_a_name_that_went_to_another_account_meanwhile_is_taken(
    stranger: Any, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stranger's own bucket is deleted, and the name taken, after its creation was refused."""

    async def refuse(_: Any, name: str, **__: Any) -> Any:
        fields = {"name": name, "owner": STRANGER.account, "type": "general"}
        raise storage_errors.BucketAlreadyExists("the bucket already exists", **fields)

    monkeypatch.setattr(buckets.Buckets, "create", refuse)
    assert refusal(stranger.create_bucket, Bucket=bucket) == (409, "BucketAlreadyExists")


def test_a_table_bucket_takes_no_lists(place: kit.ObjectStore) -> None:
    root = kit.client(place)
    place.run(
        place.storage.buckets.create(
            "tables-acl", bucket_type="table", owner=kit.ACCOUNT, region=kit.REGION
        )
    )
    method = (405, "MethodNotAllowed")
    target = {"Bucket": "tables-acl", "Key": "ns/t/data/k"}
    assert refusal(root.get_bucket_acl, Bucket="tables-acl") == method
    assert refusal(root.put_bucket_acl, Bucket="tables-acl", ACL="private") == method
    assert refusal(root.get_object_acl, **target) == method
    assert refusal(root.put_object_acl, **target, ACL="private") == method
    assert refusal(root.put_object, **target, ACL="public-read") == (
        400,
        "AccessControlListNotSupported",
    )
