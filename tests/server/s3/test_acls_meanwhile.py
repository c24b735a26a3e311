"""Access control lists and tags that change between the judgement of a request and its effect."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from program import application
from server import calls, config
from server.access import errors as access_errors
from server.access import model
from server.auth import callers, chunked
from server.s3 import engines, errors
from storage import objects
from tests.kit import programs
from tests.kit import s3 as kit
from tests.server import requesting

ALL_OF_S3 = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
OWNER = config.User(
    name="owner",
    access_key="AKOWNER",
    secret_key="owner's secret",
    policies=(ALL_OF_S3,),
    account="111111111111",
)
STRANGER = config.User(
    name="stranger",
    access_key="AKSTRANGER",
    secret_key="stranger's",
    policies=(ALL_OF_S3,),
    account="222222222222",
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A running server with the bucket raw of the owner's, and its program."""

    program: application.Program
    serving: programs.Serving
    owner: Any
    stranger: Any

    def judged(self, user: config.User | None, method: str, target: str, **headers: str) -> Any:
        """Return a call of a user's that is allowed at this moment."""
        request = requesting.request(method, target, headers.items())
        call = self.program.s3.identify(request)
        principal = model.anonymous()
        if user is not None:
            holder = self.program.s3.services.principals.by_access_key(user.access_key)
            principal = holder.principal
        call.caller = callers.Caller(
            principal=principal,
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id="",
            signing=callers.Signing(scheme="sigv4"),
        )
        engines.authorise(self.program.s3.services, call)
        return call

    def handled(self, call: calls.Call) -> Any:
        """Return the response of a judged call."""

        async def handle() -> Any:
            assert call.operation.handler is not None
            response = call.operation.handler(self.program.s3.services, call)
            return await response if inspect.isawaitable(response) else response

        return self.serving.run(handle())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    users = (OWNER, STRANGER)
    with (
        programs.opened(tmp_path / "data", users=users) as (program, settings),
        programs.serving(program, settings) as serving,
    ):
        store = kit.ObjectStore(
            url=f"http://127.0.0.1:{serving.port}",
            access_key=OWNER.access_key,
            secret_key=OWNER.secret_key,
            storage=program.storage,
            loop=serving.loop,
        )
        owner = kit.client(store)
        stranger = kit.client(store, access_key=STRANGER.access_key, secret_key=STRANGER.secret_key)
        owner.create_bucket(Bucket="raw")
        yield Place(program=program, serving=serving, owner=owner, stranger=stranger)


RANGE = {"range": "bytes=0-1"}
READS = [
    ("GET", "/raw/k", {}),
    ("HEAD", "/raw/k", {}),
    ("GET", "/raw/k?attributes", {"x-amz-object-attributes": "ETag"}),
    ("PUT", "/raw/copy", {"x-amz-copy-source": "/raw/k"}),
]


@pytest.mark.parametrize(("method", "target", "headers"), READS)
def test_a_read_judged_while_its_key_was_absent_is_judged_again(
    place: Place, method: str, target: str, headers: dict[str, str]
) -> None:
    """A grant to list the bucket lets a caller see that a key is absent. It says nothing of an
    object that is put before the answer."""
    place.owner.put_bucket_acl(Bucket="raw", ACL="public-read-write")
    call = place.judged(None, method, target, **headers)
    place.owner.put_object(Bucket="raw", Key="k", Body=b"secret")
    with pytest.raises(errors.Forbidden):
        place.handled(call)


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        *READS,
        ("PUT", "/raw/copy", {**READS[-1][2], "x-amz-tagging-directive": "REPLACE"}),
        ("GET", "/raw/k?tagging", {}),
        ("GET", "/raw/k", RANGE),
    ],
)
def test_a_read_is_judged_by_the_tags_of_the_object_that_it_answers(
    place: Place, method: str, target: str, headers: dict[str, str]
) -> None:
    actions = ["s3:GetObject", "s3:GetObjectAttributes", "s3:GetObjectTagging"]
    statements = [
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": actions,
            "Resource": "arn:aws:s3:::raw/*",
            "Condition": {"StringEquals": {"s3:ExistingObjectTag/open": "yes"}},
        },
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:PutObject", "s3:PutObjectTagging"],
            "Resource": "arn:aws:s3:::raw/copy",
        },
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    place.owner.put_bucket_policy(Bucket="raw", Policy=document)
    place.owner.put_object(Bucket="raw", Key="k", Body=b"open", Tagging="open=yes")
    call = place.judged(STRANGER, method, target, **headers)
    place.owner.put_object(Bucket="raw", Key="k", Body=b"secret", Tagging="open=no")
    with pytest.raises((errors.Forbidden, access_errors.AccessDenied)):
        place.handled(call)
    place.owner.put_object(Bucket="raw", Key="k", Body=b"open again", Tagging="open=yes")
    call = place.judged(STRANGER, method, target, **headers)
    place.owner.put_object(Bucket="raw", Key="k", Body=b"open too", Tagging="open=yes")
    assert place.handled(call).status in (200, 206)


def test_a_list_read_while_its_key_was_absent_is_judged_again(place: Place) -> None:
    place.owner.put_bucket_acl(Bucket="raw", ACL="public-read-write")
    call = place.judged(OWNER, "GET", "/raw/k?acl")
    place.stranger.put_object(Bucket="raw", Key="k", Body=b"secret")
    with pytest.raises(errors.Forbidden):
        place.handled(call)


def test_a_public_object_put_meanwhile_is_read(place: Place) -> None:
    place.owner.put_bucket_acl(Bucket="raw", ACL="public-read")
    call = place.judged(None, "GET", "/raw/k")
    place.owner.put_object(Bucket="raw", Key="k", Body=b"open", ACL="public-read")
    assert place.handled(call).status == 200


def test_a_private_object_is_not_read_by_the_list_of_its_successor(place: Place) -> None:
    """The view of the read has the private object; by the time of the decision a public one has
    taken its place."""
    services = place.program.s3.services
    place.owner.put_object(Bucket="raw", Key="k", Body=b"secret")

    async def read() -> None:
        with services.objects.view() as view:
            await asyncio.to_thread(
                place.owner.put_object, Bucket="raw", Key="k", Body=b"open", ACL="public-read"
            )
            call = place.judged(None, "GET", "/raw/k")
            with pytest.raises(errors.Forbidden):
                engines.find_readable(services, call, "raw", "k", reading=view)
            assert engines.find_readable(services, call, "raw", "k").size_bytes == len(b"open")

    place.serving.run(read())


def deleted(client: Any, many: bool) -> str:
    """Delete the object k; return the code of the refusal, or "" for none."""
    if many:
        wanted = {"Objects": [{"Key": "k"}]}
        answer = client.delete_objects(Bucket="raw", Delete=wanted)
        return "".join(each["Code"] for each in answer.get("Errors", ()))
    try:
        client.delete_object(Bucket="raw", Key="k")
    except botocore.exceptions.ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("versioned", [False, True])
def test_a_deletion_of_ones_own_object_removes_none_of_another_owner(
    place: Place, monkeypatch: pytest.MonkeyPatch, many: bool, versioned: bool
) -> None:
    """The bucket's owner replaces the object after its deletion was allowed to its creator."""
    if versioned:
        status = {"Status": "Enabled"}
        place.owner.put_bucket_versioning(Bucket="raw", VersioningConfiguration=status)
    place.owner.put_bucket_acl(Bucket="raw", ACL="public-read-write")
    place.stranger.put_object(Bucket="raw", Key="k", Body=b"own")
    delete_many = objects.Objects.delete_many
    replacements = [b"of the bucket's owner"]

    async def delete_later(*args: Any, **options: Any) -> Any:
        while replacements:
            body = replacements.pop()
            await asyncio.to_thread(place.owner.put_object, Bucket="raw", Key="k", Body=body)
        return await delete_many(*args, **options)

    monkeypatch.setattr(objects.Objects, "delete_many", delete_later)
    assert deleted(place.stranger, many) == "AccessDenied"
    assert place.owner.get_object(Bucket="raw", Key="k")["Body"].read() == b"of the bucket's owner"
    place.stranger.put_object(Bucket="raw", Key="k", Body=b"own again")
    assert deleted(place.stranger, many) == ""
