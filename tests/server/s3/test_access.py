"""Who may do what over S3: users with policies, strangers, other accounts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from server import config
from tests.kit import s3 as kit

OTHER_ACCOUNT = "111111111111"


def user(name: str, *statements: dict[str, Any], account: str | None = None) -> config.User:
    policies = ({"Version": "2012-10-17", "Statement": list(statements)},) if statements else ()
    return config.User(
        name=name,
        access_key=f"AKIA{name.upper():X<16}",
        secret_key=f"secret-of-{name}",
        policies=policies,
        account=account,
    )


def allow(actions: list[str], resources: list[str], **condition: Any) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": actions, "Resource": resources}
    if condition:
        statement["Condition"] = condition
    return statement


USERS = {
    each.name: each
    for each in (
        user("powerless"),
        user("reader", allow(["s3:GetObject"], ["arn:aws:s3:::shared/*"])),
        user(
            "lister",
            allow(["s3:GetObject"], ["arn:aws:s3:::shared/*"]),
            allow(
                ["s3:ListBucket"],
                ["arn:aws:s3:::shared"],
                StringLike={"s3:prefix": ["open/*"]},
            ),
        ),
        user(
            "indexer",
            allow(
                ["s3:ListBucket"],
                ["arn:aws:s3:::shared"],
                StringLike={"s3:prefix": ["open/*"]},
            ),
        ),
        user(
            "writer",
            allow(["s3:PutObject", "s3:DeleteObject"], ["arn:aws:s3:::shared/in/*"]),
        ),
        user(
            "copier",
            allow(
                ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], ["arn:aws:s3:::shared/in/*"]
            ),
        ),
        user(
            "tagger",
            allow(
                [
                    "s3:GetObject",
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:GetObjectTagging",
                    "s3:PutObjectTagging",
                ],
                ["arn:aws:s3:::shared/in/*"],
            ),
        ),
        user("stranger", allow(["s3:*"], ["*"]), account=OTHER_ACCOUNT),
    )
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    folder = tmp_path_factory.mktemp("access") / "data"
    with kit.serve(folder, users=tuple(USERS.values())) as running:
        kit.call(running, "PUT", "/shared")
        kit.call(running, "PUT", "/shared/open/k", body=b"x")
        kit.call(running, "PUT", "/shared/in/k", body=b"x")
        yield running


def as_user(place: kit.ObjectStore, name: str, method: str, target: str, **more: Any) -> kit.Answer:
    who = USERS[name]
    return kit.call(
        place, method, target, access_key=who.access_key, secret_key=who.secret_key, **more
    )


REQUESTS = [
    ("GET", "/"),
    ("PUT", "/fresh-bucket"),
    ("HEAD", "/shared"),
    ("DELETE", "/shared"),
    ("GET", "/shared?location"),
    ("GET", "/shared?versioning"),
    ("GET", "/shared?policy"),
    ("GET", "/shared?list-type=2"),
    ("GET", "/shared"),
    ("GET", "/shared?uploads"),
    ("GET", "/shared/open/k"),
    ("HEAD", "/shared/open/k"),
    ("PUT", "/shared/open/k"),
    ("DELETE", "/shared/open/k"),
    ("POST", "/shared/open/k?uploads"),
    ("PUT", "/shared/open/k?partNumber=1&uploadId=x"),
    ("POST", "/shared/open/k?uploadId=x"),
    ("DELETE", "/shared/open/k?uploadId=x"),
    ("GET", "/shared/open/k?uploadId=x"),
    ("GET", "/shared/open/k?tagging"),
    ("PUT", "/shared/open/k?tagging"),
    ("DELETE", "/shared/open/k?tagging"),
    ("GET", "/shared?versions"),
    ("PUT", "/shared/open/k?acl"),
]


@pytest.mark.parametrize(("method", "target"), REQUESTS)
def test_a_user_without_policies_can_do_nothing(
    place: kit.ObjectStore, method: str, target: str
) -> None:
    answer = as_user(place, "powerless", method, target)
    assert answer.status == 403
    if method != "HEAD":
        assert answer.code == "AccessDenied"


@pytest.mark.parametrize(("method", "target"), REQUESTS)
def test_an_anonymous_caller_can_do_nothing(
    place: kit.ObjectStore, method: str, target: str
) -> None:
    answer = kit.send(place, method, target)
    assert answer.status == 403
    if method != "HEAD":
        assert answer.code == "AccessDenied"


@pytest.mark.parametrize("name", ["powerless", ""])
@pytest.mark.parametrize(
    ("method", "target"),
    [(method, target) for method, target in REQUESTS if "shared" in target],
)
def test_every_caller_may_learn_that_a_bucket_does_not_exist(
    place: kit.ObjectStore, name: str, method: str, target: str
) -> None:
    target = target.replace("shared", "no-such-bucket")
    answer = as_user(place, name, method, target) if name else kit.send(place, method, target)
    assert answer.status == 404
    if method != "HEAD":
        assert answer.code == "NoSuchBucket"


def test_who_may_list_an_absent_key_but_not_read_it_learns_that_it_is_absent(
    place: kit.ObjectStore,
) -> None:
    statuses = {
        target: as_user(place, "indexer", "HEAD", target).status
        for target in ("/shared/open/absent", "/shared/in/absent", "/shared/open/k", "/shared/in/k")
    }
    assert statuses == {
        "/shared/open/absent": 404,
        "/shared/in/absent": 403,
        "/shared/open/k": 403,
        "/shared/in/k": 403,
    }
    assert as_user(place, "indexer", "GET", "/shared/open/absent").code == "NoSuchKey"


def test_an_absent_key_and_an_existing_one_are_denied_in_the_same_words(
    place: kit.ObjectStore,
) -> None:
    def words(key: str, query: str = "") -> str:
        message = as_user(place, "powerless", "GET", f"/shared/open/{key}{query}").element(
            "Message"
        )
        assert message
        return message.replace(f"/open/{key}", "/open/KEY")

    assert words("absent") == words("k")
    version = f"?versionId={'0' * 32}"
    assert words("absent", version) == words("k", version)


def test_a_denial_names_the_action_and_the_resource(place: kit.ObjectStore) -> None:
    answer = as_user(place, "powerless", "GET", "/shared/open/k")
    message = answer.element("Message")
    assert "s3:GetObject" in message
    assert "arn:aws:s3:::shared/open/k" in message


def test_a_reader_reads_and_does_nothing_else(place: kit.ObjectStore) -> None:
    assert as_user(place, "reader", "GET", "/shared/open/k").body == b"x"
    assert as_user(place, "reader", "HEAD", "/shared/open/k").status == 200
    assert as_user(place, "reader", "PUT", "/shared/open/k", body=b"y").status == 403
    assert kit.call(place, "GET", "/shared/open/k").body == b"x"


def test_an_absent_key_looks_denied_to_who_may_not_list_it(place: kit.ObjectStore) -> None:
    for method in ("GET", "HEAD"):
        assert as_user(place, "reader", method, "/shared/open/none").status == 403
        assert as_user(place, "lister", method, "/shared/open/none").status == 404
        assert as_user(place, "lister", method, "/shared/closed/none").status == 403


def test_a_listing_is_allowed_by_its_prefix(place: kit.ObjectStore) -> None:
    listed = as_user(place, "lister", "GET", "/shared?list-type=2&prefix=open%2F")
    assert (listed.status, listed.element("Key")) == (200, "open/k")
    assert as_user(place, "lister", "GET", "/shared?list-type=2").status == 403


def test_a_copy_needs_both_its_ends(place: kit.ObjectStore) -> None:
    headers = {"x-amz-copy-source": "shared/open/k"}
    assert as_user(place, "writer", "PUT", "/shared/in/c", headers=headers).status == 403
    assert as_user(place, "reader", "PUT", "/shared/in/c", headers=headers).status == 403
    assert kit.call(place, "HEAD", "/shared/in/c").status == 404


def test_tags_on_a_put_need_a_right_of_their_own(place: kit.ObjectStore) -> None:
    plain = as_user(place, "writer", "PUT", "/shared/in/t", body=b"x")
    tagged = as_user(
        place, "writer", "PUT", "/shared/in/t", headers={"x-amz-tagging": "a=1"}, body=b"x"
    )
    assert (plain.status, tagged.status) == (200, 403)


def test_a_copy_that_takes_over_tags_needs_the_rights_of_tags(place: kit.ObjectStore) -> None:
    tagged, copy = "/shared/in/tagged", {"x-amz-copy-source": "/shared/in/tagged"}
    kit.call(place, "PUT", tagged, {"x-amz-tagging": "a=1"}, b"x")
    for name, headers, status in (
        ("copier", copy, 403),
        ("copier", {**copy, "x-amz-tagging-directive": "REPLACE"}, 200),
        ("tagger", copy, 200),
    ):
        answer = as_user(place, name, "PUT", "/shared/in/copy", headers=headers)
        assert answer.status == status
        assert as_user(place, name, "DELETE", "/shared/in/copy").status == 204
    # A source without tags needs none of them.
    kit.call(place, "PUT", tagged, body=b"x")
    assert as_user(place, "copier", "PUT", "/shared/in/copy", headers=copy).status == 200


def test_delete_objects_answers_for_each_key(place: kit.ObjectStore) -> None:
    body = b"<Delete><Object><Key>in/k</Key></Object><Object><Key>open/k</Key></Object></Delete>"
    headers = {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}
    answer = as_user(place, "writer", "POST", "/shared?delete", headers=headers, body=body)
    assert answer.status == 200
    assert b"<Deleted><Key>in/k</Key></Deleted>" in answer.body
    assert b"<Error><Key>open/k</Key><Code>AccessDenied</Code>" in answer.body
    assert kit.call(place, "GET", "/shared/open/k").status == 200


def test_another_accounts_bucket_stays_shut_whatever_ones_own_policy_says(
    place: kit.ObjectStore,
) -> None:
    assert as_user(place, "stranger", "GET", "/shared/open/k").status == 403
    assert as_user(place, "stranger", "PUT", "/shared/open/k", body=b"y").status == 403
    assert as_user(place, "stranger", "GET", "/shared?list-type=2").status == 403


def test_every_account_has_and_lists_its_own_buckets(place: kit.ObjectStore) -> None:
    assert as_user(place, "stranger", "PUT", "/strangers-own").status == 200
    theirs = as_user(place, "stranger", "GET", "/")
    assert theirs.element("Name") == "strangers-own"
    assert theirs.element("DisplayName") == "stranger"
    assert b"strangers-own" not in kit.call(place, "GET", "/").body
    taken = as_user(place, "stranger", "PUT", "/shared")
    assert (taken.status, taken.code) == (409, "BucketAlreadyExists")


def test_a_wrong_secret_and_an_unknown_key_have_aws_errors_of_their_own(
    place: kit.ObjectStore,
) -> None:
    wrong = kit.call(place, "GET", "/shared/open/k", secret_key="not it")
    assert (wrong.status, wrong.code) == (403, "SignatureDoesNotMatch")
    assert wrong.element("AWSAccessKeyId") == place.access_key
    unknown = kit.call(place, "GET", "/shared/open/k", access_key="AKIAUNKNOWN")
    assert (unknown.status, unknown.code) == (403, "InvalidAccessKeyId")


def test_a_signature_without_the_hash_of_the_body_is_an_invalid_request(
    place: kit.ObjectStore,
) -> None:
    signed = kit.sign(place, "GET", "/shared/open/k", payload_hash="UNSIGNED-PAYLOAD")
    del signed["x-amz-content-sha256"]
    answer = kit.send(place, "GET", "/shared/open/k", signed)
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    message = "Missing required header for this request: x-amz-content-sha256"
    assert answer.element("Message") == message
    answer = kit.call(place, "GET", "/shared/open/k", payload_hash="sailor")
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_a_presigned_url_of_another_algorithm_names_its_parameter(place: kit.ObjectStore) -> None:
    client = kit.client(place, config={"signature_version": "s3v4"})
    url = client.generate_presigned_url("get_object", Params={"Bucket": "shared", "Key": "open/k"})
    target = url.partition(f":{place.port}")[2].replace("HMAC-SHA256", "HMAC-SHA512")
    answer = kit.send(place, "GET", target)
    assert (answer.status, answer.code) == (400, "AuthorizationQueryParametersError")
    assert "X-Amz-Algorithm" in answer.element("Message")


def test_an_authorization_that_is_no_signature_is_an_invalid_argument(
    place: kit.ObjectStore,
) -> None:
    for value in ("Bearer abc.def", "Basic eDp5"):
        answer = kit.send(place, "GET", "/shared/open/k", {"authorization": value})
        assert (answer.status, answer.code) == (400, "InvalidArgument")
        assert answer.element("ArgumentName") == "Authorization"
        # What may be a secret is not repeated.
        assert value.partition(" ")[2].encode() not in answer.body
    signed = {"authorization": "AWS AKIA:c2ln", "date": "Sun, 29 Nov 2026 12:00:00 GMT"}
    answer = kit.send(place, "GET", "/shared/open/k", signed)
    assert (answer.status, answer.code) == (400, "InvalidRequest")


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/shared/open/k"), ("HEAD", "/shared"), ("PUT", "/shared/open/other")],
)
def test_a_bucket_must_belong_to_the_account_the_client_expects(
    place: kit.ObjectStore, method: str, target: str
) -> None:
    for account, status in ((kit.ACCOUNT, 200), (OTHER_ACCOUNT, 403), ("no account", 403)):
        headers = {"x-amz-expected-bucket-owner": account}
        assert kit.call(place, method, target, headers).status == status


def test_the_source_of_a_copy_must_belong_to_the_account_the_client_expects(
    place: kit.ObjectStore,
) -> None:
    for account, status in ((OTHER_ACCOUNT, 403), (kit.ACCOUNT, 200)):
        headers = {
            "x-amz-copy-source": "shared/open/k",
            "x-amz-source-expected-bucket-owner": account,
        }
        assert kit.call(place, "PUT", "/shared/copied", headers).status == status
