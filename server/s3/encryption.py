"""face: server-side encryption with keys of S3 (SSE-S3, AES256).

Boathouse stores bodies as they are sent. Where the operator has said that the data folder lies on
an encrypted disk (`encrypted_disk`), SSE-S3 holds for every object: buckets show it, writes may ask
for it, and answers name it. Otherwise a bucket has no encryption, and asking for it is refused.
Keys of KMS and of the client are refused in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from server import asgi, calls
from server.s3 import configurations, documents, engines, errors, incoming, wire

HEADER: Final = "x-amz-server-side-encryption"
BUCKET_KEY: Final = "bucket_key_enabled"
"""The setting of a bucket whose configuration asks for a bucket key. It changes nothing: a bucket
key saves requests to KMS. AWS keeps it with AES256, too, and clients compare what they read."""
HOW: Final = (
    "bodies are stored as they are sent; put the data folder on an encrypted disk, and set "
    "encrypted_disk in mini.toml"
)


async def get_bucket_encryption(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    bucket = services.buckets.get(call.value.bucket)
    if not services.encrypted_disk:
        raise errors.NotConfigured(
            "ServerSideEncryptionConfigurationNotFoundError",
            "The server side encryption configuration was not found",
            BucketName=bucket.name,
        )
    body = wire.encryption_configuration(documents.AES256, bucket_key=BUCKET_KEY in bucket.settings)
    return asgi.Response(200, wire.XML_HEADERS, body)


async def put_bucket_encryption(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    configurations.bucket_to_configure(services, call)
    data = await incoming.read_configuration(call)
    wanted = await incoming.parsed(documents.parse_encryption, data)
    if wanted.algorithm != documents.AES256:
        raise errors.S3FeatureNotImplemented(
            f"Encryption by {wanted.algorithm} is not implemented", Element="SSEAlgorithm"
        )
    if not services.encrypted_disk:
        raise errors.S3FeatureNotImplemented(
            f"Encryption by {documents.AES256} is not implemented here: {HOW}",
            Element="SSEAlgorithm",
        )

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        others = {name: value for name, value in settings.items() if name != BUCKET_KEY}
        return {**others, BUCKET_KEY: True} if wanted.bucket_key else others

    await configurations.change(services, call, put)
    return asgi.Response(200)


def take(headers: dict[str, str]) -> None:
    """Remove the header by which a write asks for SSE-S3: on an encrypted disk it is done."""
    if headers.get(HEADER) == documents.AES256:
        del headers[HEADER]


def is_wanted(request: asgi.Request) -> bool:
    """Return whether a request asks for encryption, in a header or in a presigned URL's query."""
    return HEADER in request.headers or any(name.lower() == HEADER for name, _ in request.pairs)


def without(values: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a form without the one that asks for SSE-S3; see `take`."""
    return {
        name: text for name, text in values.items() if (name, text) != (HEADER, documents.AES256)
    }
