"""rule: Amazon Resource Names of this server's resources.

`arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE`. ARNs of S3 buckets and objects have neither region
nor account; tables are named by their object uuid, so that a policy survives a rename.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from server.access import errors

_ARN: Final = re.compile(
    r"arn:(?P<partition>[^:]+):(?P<service>[^:]+):(?P<region>[^:]*):(?P<account>[^:]*):"
    r"(?P<resource>.+)",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ARN:
    """The parts of a resource name."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    def __str__(self) -> str:
        return ":".join(
            ("arn", self.partition, self.service, self.region, self.account, self.resource)
        )


def parse_arn(text: str) -> ARN:
    """Return the parts of text. Raises MalformedARN."""
    match = _ARN.fullmatch(text)
    if match is None:
        raise errors.MalformedARN(f"{text!r} is not an ARN")
    return ARN(**match.groupdict())


def bucket_arn(name: str) -> str:
    """Return the ARN of a general bucket."""
    return f"arn:aws:s3:::{name}"


def object_arn(bucket: str, key: str) -> str:
    """Return the ARN of an object in a general bucket."""
    return f"arn:aws:s3:::{bucket}/{key}"


def table_bucket_arn(region: str, account: str, name: str) -> str:
    """Return the ARN of a table bucket."""
    return f"arn:aws:s3tables:{region}:{account}:bucket/{name}"


def table_arn(region: str, account: str, name: str, object_uuid: str) -> str:
    """Return the ARN of a table or view in table bucket `name`."""
    return f"arn:aws:s3tables:{region}:{account}:bucket/{name}/table/{object_uuid}"


def root_arn(account: str) -> str:
    """Return the ARN of an account's root."""
    return f"arn:aws:iam::{account}:root"


def role_arn(account: str, path: str, name: str) -> str:
    """Return the ARN of a role. path: begins and ends in a slash."""
    return f"arn:aws:iam::{account}:role{path}{name}"


def policy_arn(account: str, path: str, name: str) -> str:
    """Return the ARN of a managed policy; account `aws` for this server's own."""
    return f"arn:aws:iam::{account}:policy{path}{name}"


def provider_arn(account: str, name: str) -> str:
    """Return the ARN of an OpenID Connect provider. name: its URL without the scheme."""
    return f"arn:aws:iam::{account}:oidc-provider/{name}"


def session_arn(account: str, role: str, session: str) -> str:
    """Return the ARN of an assumed role."""
    return f"arn:aws:sts::{account}:assumed-role/{role}/{session}"


def user_arn(account: str, name: str, path: str = "/") -> str:
    """Return the ARN of a user."""
    return f"arn:aws:iam::{account}:user{path}{name}"
