"""SSE-S3: refused by name, or true of every object where the operator's disk encrypts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from server import config
from tests.kit import post_forms
from tests.kit import s3 as kit
from tests.server.s3 import test_presigned

AES256 = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
BODY = b"x" * 100


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    with kit.serve(tmp_path_factory.mktemp("encrypted") / "data", encrypted_disk=True) as place:
        kit.call(place, "PUT", "/bbb")
        yield place


def code_of(caught: pytest.ExceptionInfo[botocore.exceptions.ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def test_a_bucket_on_a_plain_disk_has_no_encryption_and_the_refusal_says_what_to_do(
    store: kit.ObjectStore, bucket: str
) -> None:
    s3 = kit.client(store)
    with pytest.raises(botocore.exceptions.ClientError) as absent:
        s3.get_bucket_encryption(Bucket=bucket)
    assert code_of(absent) == "ServerSideEncryptionConfigurationNotFoundError"
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=AES256)
    assert code_of(refused) == "NotImplemented"
    assert "encrypted_disk" in refused.value.response["Error"]["Message"]
    with pytest.raises(botocore.exceptions.ClientError) as sent:
        s3.put_object(Bucket=bucket, Key="k", Body=BODY, ServerSideEncryption="AES256")
    assert code_of(sent) == "NotImplemented"
    assert kit.call(store, "HEAD", f"/{bucket}/k").status == 404
    assert kit.call(store, "DELETE", f"/{bucket}?encryption").status == 204


def test_a_bucket_on_an_encrypted_disk_has_aes256_before_and_after_each_change(
    encrypted: kit.ObjectStore,
) -> None:
    s3 = kit.client(encrypted)

    def rules() -> Any:
        return s3.get_bucket_encryption(Bucket="bbb")["ServerSideEncryptionConfiguration"]["Rules"]

    blocked = {"BlockedEncryptionTypes": {"EncryptionType": ["SSE-C"]}}
    shown = [{**AES256["Rules"][0], "BucketKeyEnabled": False, **blocked}]
    assert rules() == shown
    s3.put_bucket_encryption(Bucket="bbb", ServerSideEncryptionConfiguration=AES256)
    assert rules() == shown
    s3.put_bucket_encryption(Bucket="bbb", ServerSideEncryptionConfiguration={"Rules": [blocked]})
    assert rules() == shown
    s3.delete_bucket_encryption(Bucket="bbb")
    assert rules() == shown


def test_a_bucket_key_is_kept_with_aes256_and_changes_no_object(
    encrypted: kit.ObjectStore,
) -> None:
    """AWS takes it, and Terraform compares what it reads with what it has put."""
    s3 = kit.client(encrypted)

    def put(*, enabled: bool) -> None:
        rule = {**AES256["Rules"][0], "BucketKeyEnabled": enabled}
        s3.put_bucket_encryption(Bucket="bbb", ServerSideEncryptionConfiguration={"Rules": [rule]})

    def is_enabled() -> bool:
        shown = s3.get_bucket_encryption(Bucket="bbb")["ServerSideEncryptionConfiguration"]
        return bool(shown["Rules"][0]["BucketKeyEnabled"])

    put(enabled=True)
    assert is_enabled()
    written = s3.put_object(Bucket="bbb", Key="key", Body=BODY)
    assert (written["ServerSideEncryption"], written.get("BucketKeyEnabled")) == ("AES256", None)
    put(enabled=False)
    assert not is_enabled()
    put(enabled=True)
    s3.delete_bucket_encryption(Bucket="bbb")
    assert not is_enabled()


def test_an_object_is_copied_to_itself_if_the_copy_asks_for_encryption(
    encrypted: kit.ObjectStore,
) -> None:
    s3 = kit.client(encrypted)
    s3.put_object(Bucket="bbb", Key="itself", Body=BODY, Metadata={"a": "b"})
    copy = {"Bucket": "bbb", "Key": "itself", "CopySource": "bbb/itself"}
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.copy_object(**copy)
    assert code_of(refused) == "InvalidRequest"
    assert s3.copy_object(**copy, ServerSideEncryption="AES256")["ServerSideEncryption"] == "AES256"
    wanted = {"x-amz-copy-source": "bbb/itself", "x-amz-server-side-encryption": "AES256"}
    presigned = test_presigned.signed_with(encrypted, "PUT", "/bbb/itself", wanted)
    assert kit.send(encrypted, "PUT", presigned).status == 200
    read = s3.get_object(Bucket="bbb", Key="itself")
    assert (read["Body"].read(), read["Metadata"]) == (BODY, {"a": "b"})


def test_every_write_and_read_on_an_encrypted_disk_names_aes256(
    encrypted: kit.ObjectStore,
) -> None:
    s3 = kit.client(encrypted)
    place: dict[str, Any] = {"Bucket": "bbb", "Key": "k"}
    encrypting = {**place, "ServerSideEncryption": "AES256"}
    source = {"Bucket": "bbb", "Key": "k"}
    upload = s3.create_multipart_upload(**encrypting)
    upload_id = {"UploadId": upload["UploadId"]}
    part = s3.upload_part(**place, **upload_id, PartNumber=1, Body=BODY)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    answers = [
        upload,
        part,
        s3.complete_multipart_upload(**place, **upload_id, MultipartUpload=parts),
        s3.put_object(**encrypting, Body=BODY),
        s3.put_object(**place, Body=BODY),
        s3.copy_object(**{**encrypting, "Key": "copy"}, CopySource=source),
        s3.head_object(**place),
        s3.get_object(**place),
        s3.get_object(**place, Range="bytes=0-1"),
    ]
    assert [answer["ServerSideEncryption"] for answer in answers] == ["AES256"] * len(answers)
    url = s3.generate_presigned_url("put_object", encrypting, ExpiresIn=60)
    target = url.removeprefix(encrypted.url)
    answer = kit.send(encrypted, "PUT", target, {"x-amz-server-side-encryption": "AES256"}, BODY)
    assert answer.headers["x-amz-server-side-encryption"] == "AES256"


def test_a_form_may_ask_for_aes256_where_the_disk_is_encrypted(
    encrypted: kit.ObjectStore, store: kit.ObjectStore, bucket: str
) -> None:
    for place, name, status in ((encrypted, "bbb", 204), (store, bucket, 501)):
        wanted = {"x-amz-server-side-encryption": "AES256"}
        conditions = [{"bucket": name}, {"key": "form"}, wanted]
        form = {"key": "form", **wanted, **post_forms.signed(place, conditions)}
        headers = {"content-type": f"multipart/form-data; boundary={post_forms.BOUNDARY}"}
        answer = kit.send(place, "POST", f"/{name}", headers, post_forms.encode(form, BODY))
        assert answer.status == status
        read = kit.call(place, "HEAD", f"/{name}/form")
        shown = read.headers.get("x-amz-server-side-encryption")
        assert (read.status, shown) == ((200, "AES256") if status == 204 else (404, None))


@pytest.fixture
def only_encrypted(tmp_path: Path) -> Iterator[tuple[kit.ObjectStore, config.User]]:
    """A server and a user who may put objects only if the request asks for AES256."""
    put = {"Action": "s3:PutObject", "Resource": "arn:aws:s3:::bbb/*"}
    unasked = {"StringNotEquals": {"s3:x-amz-server-side-encryption": "AES256"}}
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", **put},
            {"Effect": "Deny", "Condition": unasked, **put},
        ],
    }
    alice = config.User(
        name="alice", access_key="AKALICE", secret_key="alice's secret", policies=(document,)
    )
    with kit.serve(tmp_path / "data", users=(alice,), encrypted_disk=True) as place:
        kit.call(place, "PUT", "/bbb")
        yield place, alice


def test_a_policy_that_demands_encryption_reads_the_field_of_a_form(
    only_encrypted: tuple[kit.ObjectStore, config.User],
) -> None:
    place, alice = only_encrypted
    headers = {"content-type": f"multipart/form-data; boundary={post_forms.BOUNDARY}"}
    wanted = {"x-amz-server-side-encryption": "AES256"}
    query = "?X-Amz-Server-Side-Encryption=AES256"
    for fields, more, target, status in (
        ({}, {}, "/bbb", 403),
        # In the head of the request no signature covers it.
        ({}, wanted, "/bbb", 400),
        ({}, {}, "/bbb" + query, 400),
        (wanted, {}, "/bbb", 204),
    ):
        conditions = [{"bucket": "bbb"}, {"key": "form"}, *({n: v} for n, v in fields.items())]
        form = {"key": "form", **fields, **post_forms.signed(alice, conditions, version=4)}
        body = post_forms.encode(form, BODY)
        assert kit.send(place, "POST", target, {**headers, **more}, body).status == status
        there = kit.call(place, "HEAD", "/bbb/form").status
        assert there == (200 if status == 204 else 404)


@pytest.mark.parametrize(
    "default",
    [
        {"SSEAlgorithm": "aws:kms"},
        {"SSEAlgorithm": "aws:kms:dsse"},
        {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "k"},
    ],
)
def test_keys_of_kms_are_refused_on_any_disk(
    encrypted: kit.ObjectStore, default: dict[str, str]
) -> None:
    s3 = kit.client(encrypted)
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.put_bucket_encryption(Bucket="bbb", ServerSideEncryptionConfiguration=rules)
    assert code_of(refused) == "NotImplemented"
    with pytest.raises(botocore.exceptions.ClientError) as sent:
        s3.put_object(Bucket="bbb", Key="kms", Body=BODY, ServerSideEncryption="aws:kms")
    assert code_of(sent) == "NotImplemented"


def test_a_key_of_kms_beside_aes256_is_an_invalid_argument(encrypted: kit.ObjectStore) -> None:
    s3 = kit.client(encrypted)
    default = {"SSEAlgorithm": "AES256", "KMSMasterKeyID": "k"}
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.put_bucket_encryption(Bucket="bbb", ServerSideEncryptionConfiguration=rules)
    assert code_of(refused) == "InvalidArgument"
    assert "KMSMasterKeyID is not applicable" in refused.value.response["Error"]["Message"]


@pytest.mark.parametrize("blocked", ["NONE", "SSE-C"])
def test_keys_of_clients_are_refused_whichever_types_a_bucket_blocks(
    encrypted: kit.ObjectStore, blocked: str
) -> None:
    s3 = kit.client(encrypted)
    rule = {**AES256["Rules"][0], "BlockedEncryptionTypes": {"EncryptionType": [blocked]}}
    s3.put_bucket_encryption(Bucket="bbb", ServerSideEncryptionConfiguration={"Rules": [rule]})
    with pytest.raises(botocore.exceptions.ClientError) as sent:
        s3.put_object(
            Bucket="bbb",
            Key="ssec",
            Body=BODY,
            SSECustomerAlgorithm="AES256",
            SSECustomerKey="k" * 32,
        )
    assert code_of(sent) == "NotImplemented"
    assert kit.call(encrypted, "HEAD", "/bbb/ssec").status == 404


@pytest.mark.parametrize(
    "body",
    [
        b"<ServerSideEncryptionConfiguration/>",
        b"<ServerSideEncryptionConfiguration><Rule/></ServerSideEncryptionConfiguration>",
        b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
        b"<SSEAlgorithm>AES</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>"
        b"</ServerSideEncryptionConfiguration>",
        b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
        b"<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>"
        b"<BlockedEncryptionTypes><EncryptionType>AES256</EncryptionType>"
        b"</BlockedEncryptionTypes></Rule></ServerSideEncryptionConfiguration>",
        b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault/>"
        b"<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType>"
        b"</BlockedEncryptionTypes></Rule></ServerSideEncryptionConfiguration>",
        b"<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>"
        b"<SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault>"
        b"<BucketKeyEnabled>yes</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>",
        b"<Other/>",
    ],
)
def test_a_document_without_a_known_algorithm_is_malformed(
    encrypted: kit.ObjectStore, body: bytes
) -> None:
    answer = kit.call(encrypted, "PUT", "/bbb?encryption", body=body)
    assert (answer.status, answer.code) == (400, "MalformedXML")
