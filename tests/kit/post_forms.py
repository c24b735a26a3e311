"""Forms of S3's PostObject: the proof among their fields, and their bodies."""

from __future__ import annotations

import base64
import datetime
import hmac
import json
from collections.abc import Mapping
from typing import Any

from tests.kit import s3

BOUNDARY = "----WebKitFormBoundary0123456789"


def in_an_hour() -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def signed(
    place: Any, conditions: list[Any], *, version: int = 2, expiration: str | None = None
) -> dict[str, str]:
    """The fields of a proof, computed by hand. The conditions are those of the form."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    credential = f"{place.access_key}/{now[:8]}/{s3.REGION}/s3/aws4_request"
    proof: dict[str, str] = {}
    if version == 4:
        proof = {
            "x-amz-algorithm": "AWS4-HMAC-SHA256",
            "x-amz-credential": credential,
            "x-amz-date": now,
        }
        conditions = [*conditions, *({name: value} for name, value in proof.items())]
    document = {"expiration": expiration or in_an_hour(), "conditions": conditions}
    policy = base64.b64encode(json.dumps(document).encode()).decode()
    if version == 4:
        key = b"AWS4" + place.secret_key.encode()
        for step in (now[:8], s3.REGION, "s3", "aws4_request"):
            key = hmac.digest(key, step.encode(), "sha256")
        proof["x-amz-signature"] = hmac.digest(key, policy.encode(), "sha256").hex()
        return {**proof, "policy": policy}
    digest = hmac.digest(place.secret_key.encode(), policy.encode(), "sha1")
    return {
        "AWSAccessKeyId": place.access_key,
        "signature": base64.b64encode(digest).decode(),
        "policy": policy,
    }


def encode(fields: Mapping[str, str], content: bytes, *, boundary: str = BOUNDARY) -> bytes:
    """The body of a form whose last field is the file."""
    mark = f"--{boundary}\r\nContent-Disposition: form-data; name="
    head = "".join(f'{mark}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    head += f'{mark}"file"; filename="f"\r\n\r\n'
    return head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
