"""rule: requests of S3 Control, AWS's API about accounts, of which the tags of buckets are here.

SDKs sign them for S3 and send them to its address, with the account in a header and before the
host. The path begins with the version of that API, which is the name of a bucket, too: a request of
S3 has no such header. Source: service model of `s3control`.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from server.s3 import errors, fields, operations
from storage import names

NAMESPACE: Final = "http://awss3control.amazonaws.com/doc/2018-08-20/"
ACCOUNT: Final = "x-amz-account-id"
BUCKET_ARN: Final = "arn:aws:s3:::"
TAG_KEYS: Final = "tagKeys"
_PATH: Final = b"/v20180820/"


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedResource:
    """The bucket of a request about tags.

    account: that of the bucket, as the client names it. tags: of the document, which the handler
    reads.
    """

    bucket: str
    account: str
    integrity: fields.Integrity
    tags: Mapping[str, str] = field(default_factory=dict)


def is_request(raw_path: bytes, headers: operations.Headers) -> bool:
    """Return whether a request is one of S3 Control."""
    return raw_path.startswith(_PATH) and headers.get(ACCOUNT) is not None


def split_path(raw_path: bytes) -> tuple[str, str]:
    """Return the collection that the path of a request names, as `tags`, and what follows it,
    decoded."""
    collection, _, resource = raw_path.removeprefix(_PATH).partition(b"/")
    decoded = urllib.parse.unquote_to_bytes(resource)
    return collection.decode("latin-1"), decoded.decode("utf-8", "surrogateescape")


def parse_tagged_resource(
    bucket: str, key: str, query: operations.Query, headers: operations.Headers
) -> TaggedResource:
    """Return the bucket whose ARN is the key. Raises S3FeatureNotImplemented for other resources,
    and NoSuchBucket for a hidden bucket."""
    name = key.removeprefix(BUCKET_ARN)
    if name == key or not name or "/" in name:
        raise errors.S3FeatureNotImplemented(
            f"Of the resources of S3 Control, buckets have tags: {BUCKET_ARN}NAME",
            ResourceArn=key,
        )
    return TaggedResource(
        bucket=names.check_shown(name),
        account=headers.get(ACCOUNT) or "",
        integrity=fields.parse_integrity(headers),
    )
