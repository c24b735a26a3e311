"""Roles for tests, assumed with boto3, and a server with two objects that their sessions read."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.kit import aws

HERE = "arn:aws:iam::000000000000"
NUMBERS = itertools.count(1)
DENIED = (403, "AccessDenied")


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(*actions: str, resource: str = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}


READ = json.dumps(document(allow("s3:GetObject")))


@contextlib.contextmanager
def serving(folder: Path, users: Mapping[str, Any]) -> Iterator[aws.Server]:
    """Run a server with users and with the objects `a` and `b` in the bucket `docs`."""
    with aws.serving(folder, users=[*users.values()]) as running:
        s3 = running.client("s3")
        s3.create_bucket(Bucket="docs")
        for key in ("a", "b"):
            s3.put_object(Bucket="docs", Key=key, Body=b"1")
        yield running


def role_of(server: aws.Server, trusted: str, *, policy: str = READ, **members: Any) -> str:
    """The ARN of a new role with one policy."""
    iam = server.client("iam")
    name = f"role{next(NUMBERS)}"
    created = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusted, **members)
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy)
    return str(created["Role"]["Arn"])


def assumed(server: aws.Server, keys: aws.Keys, arn: str, **members: Any) -> aws.Keys:
    members = {"RoleSessionName": "night", **members}
    return aws.Keys.of(server.client("sts", keys).assume_role(RoleArn=arn, **members))


def refused(server: aws.Server, keys: aws.Keys, arn: str, **members: Any) -> tuple[int, str]:
    call = server.client("sts", keys).assume_role
    return aws.refusal(call, RoleArn=arn, **{"RoleSessionName": "night", **members})


def may_read(server: aws.Server, keys: aws.Keys, key: str = "a") -> bool:
    s3 = server.client("s3", keys)
    try:
        return bool(s3.get_object(Bucket="docs", Key=key)["Body"].read() == b"1")
    except s3.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "AccessDenied":
            return False
        raise
