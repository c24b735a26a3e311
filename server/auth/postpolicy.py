"""rule: the signed policy of a browser's POST form.

The form has a JSON document in base64, and a signature (version 4 or 2) of exactly that text. Each
field of the form must have a condition and meet it, except the fields of the signature. The bucket
counts as a field. Field names are case-insensitive. Reads no body. Source: Amazon S3 API reference,
"POST policy".
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from server import limits
from server.auth import errors, sigv4

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", re.ASCII)

UNCONDITIONED: Final = frozenset(
    {"policy", "signature", "x-amz-signature", "awsaccesskeyid", "file"}
)
FREE_PREFIXES: Final = ("x-ignore-", "x-amz-checksum-")
"""Fields that need no condition: those that S3 ignores, and those that can only cause a refusal. A
client computes the checksum of its file after the policy is signed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FormCondition:
    """One condition on one field. field: lower case, without the dollar sign."""

    operator: Literal["eq", "starts-with"]
    field: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PostPolicy:
    """A parsed policy. size_range: sizes of the smallest and largest file; None if unlimited."""

    expires_at_ms: int
    conditions: tuple[FormCondition, ...]
    size_range: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofV4:
    """A version 4 signature over the policy's text."""

    credential: sigv4.Credential
    timestamp: str
    signature: str
    policy: str
    security_token: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofV2:
    """A version 2 signature over the policy's text."""

    access_key: str
    signature: str
    policy: str
    security_token: str | None


def parse_proof(fields: Mapping[str, str]) -> ProofV4 | ProofV2 | None:
    """Return the signature of a form; None if it has none.

    fields: lower-case names. Raises MalformedAuthorization, UnsupportedAuthorization.
    """
    policy = fields.get("policy")
    token = fields.get("x-amz-security-token")
    if "x-amz-signature" in fields or "x-amz-credential" in fields:
        _require(
            fields,
            "policy",
            "x-amz-algorithm",
            "x-amz-credential",
            "x-amz-date",
            "x-amz-signature",
        )
        algorithm = fields["x-amz-algorithm"]
        if algorithm != sigv4.ALGORITHM:
            raise errors.UnsupportedAuthorization(f"{algorithm} is not supported", scheme=algorithm)
        timestamp = fields["x-amz-date"]
        if sigv4.parse_timestamp(timestamp) is None:
            raise errors.MalformedAuthorization("x-amz-date must be YYYYMMDDTHHMMSSZ")
        assert policy is not None
        return ProofV4(
            credential=sigv4.parse_credential(fields["x-amz-credential"]),
            timestamp=timestamp,
            signature=fields["x-amz-signature"],
            policy=policy,
            security_token=token,
        )
    if "signature" in fields or "awsaccesskeyid" in fields:
        _require(fields, "policy", "awsaccesskeyid", "signature")
        assert policy is not None
        return ProofV2(
            access_key=fields["awsaccesskeyid"],
            signature=fields["signature"],
            policy=policy,
            security_token=token,
        )
    if policy is not None:
        _require(fields, "awsaccesskeyid")
    return None


def _require(fields: Mapping[str, str], *names: str) -> None:
    for name in names:
        if not fields.get(name):
            shown = _SHOWN.get(name, name)
            raise errors.IncompleteForm(
                f"Bucket POST must contain a field named '{shown}'.  If it is specified, please "
                "check the order of the fields.",
                field=shown,
            )


_SHOWN: Final[Mapping[str, str]] = {
    "awsaccesskeyid": "AWSAccessKeyId",
    "signature": "Signature",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "x-amz-signature": "X-Amz-Signature",
}
"""How errors spell the fields of a signature."""


def parse_policy(text: str) -> PostPolicy:
    """Parse the field `policy`. Raises MalformedPostPolicy."""
    if len(text) > limits.POST_POLICY_BYTES_MAX:
        raise _malformed("is too long")
    try:
        document = json.loads(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _malformed("is not JSON in base64") from None
    if not isinstance(document, dict):
        raise _malformed("is not a JSON object")
    for name in document:
        if name not in ("expiration", "conditions"):
            raise _malformed(f"has an unknown element {name!r}")
    conditions = document.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        raise _malformed("has no conditions")
    if len(conditions) > limits.POST_POLICY_CONDITIONS_MAX:
        raise _malformed("has too many conditions")
    parsed: list[FormCondition] = []
    size_range: tuple[int, int] | None = None
    for condition in conditions:
        match condition:
            case dict() if condition:
                parsed += [_equal(name, value) for name, value in condition.items()]
            case ["content-length-range", smallest, largest]:
                least, most = size_range or (0, _count(largest))
                size_range = (max(least, _count(smallest)), min(most, _count(largest)))
            case [str(operator), str(name), value] if operator.lower() in ("eq", "starts-with"):
                if not name.startswith("$"):
                    raise _malformed(f"names the field {name!r} without a dollar")
                if operator.lower() == "eq":
                    parsed.append(_equal(name[1:], value))
                elif isinstance(value, str):
                    parsed.append(
                        FormCondition(operator="starts-with", field=name[1:].lower(), value=value)
                    )
                else:
                    raise _malformed(f"compares the field {name!r} with what is not text")
            case _:
                raise _malformed("has a condition that cannot be read")
    return PostPolicy(
        expires_at_ms=_expiration(document.get("expiration")),
        conditions=tuple(parsed),
        size_range=size_range,
    )


def check_policy(policy: PostPolicy, fields: Mapping[str, str], *, now_ms: int) -> None:
    """Raise ExpiredPostPolicy or PostPolicyViolated unless the policy allows the form.

    fields: by lower-case name; `bucket` is the bucket of the request, `key` as in the form.
    """
    if now_ms >= policy.expires_at_ms:
        raise errors.ExpiredPostPolicy("the policy has expired")
    for condition in policy.conditions:
        if not _meets(condition, fields.get(condition.field)):
            raise errors.PostPolicyViolated(
                "Invalid according to Policy: Policy Condition failed: "
                f'["{condition.operator}", "${condition.field}", "{condition.value}"]',
                condition=condition.field,
            )
    named = {condition.field for condition in policy.conditions}
    for name in fields:
        if name in named or name in UNCONDITIONED or name.startswith(FREE_PREFIXES):
            continue
        raise errors.PostPolicyViolated(
            f"Invalid according to Policy: Extra input fields: {name}", condition=name
        )


def check_size(policy: PostPolicy, size_bytes: int) -> None:
    """Raise PostBodyTooSmall or PostBodyTooLarge if a file is outside content-length-range."""
    if policy.size_range is None:
        return
    smallest, _ = policy.size_range
    if size_bytes < smallest:
        raise errors.PostBodyTooSmall(
            "Your proposed upload is smaller than the minimum allowed size: the file has "
            f"{size_bytes} bytes, and the policy demands at least {smallest}"
        )
    check_largest(policy, size_bytes)


def check_largest(policy: PostPolicy, size_bytes: int) -> None:
    """Raise PostBodyTooLarge if the bytes of a file so far exceed the policy's maximum."""
    if policy.size_range is not None and size_bytes > policy.size_range[1]:
        raise errors.PostBodyTooLarge(
            "Your proposed upload exceeds the maximum allowed size: the policy allows "
            f"{policy.size_range[1]} bytes"
        )


def _meets(condition: FormCondition, value: str | None) -> bool:
    if condition.operator == "eq":
        return value == condition.value
    if value is None:
        return condition.value == ""
    if condition.field == "content-type" and "," in value:
        # A list of types: each must start with the prefix.
        return all(part.strip().startswith(condition.value) for part in value.split(","))
    return value.startswith(condition.value)


def _equal(name: Any, value: Any) -> FormCondition:
    if not isinstance(name, str) or not isinstance(value, str):
        raise _malformed("compares a field with what is not text")
    return FormCondition(operator="eq", field=name.lower(), value=value)


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:20])
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _malformed("has a content-length-range that is not two whole numbers")
    return value


def _expiration(value: Any) -> int:
    if not isinstance(value, str):
        raise _malformed("has no expiration")
    try:
        moment = datetime.fromisoformat(value if _TIME.fullmatch(value) else "")
    except ValueError:
        raise _malformed("has an expiration that is not an ISO 8601 time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _malformed(what: str) -> errors.MalformedPostPolicy:
    return errors.MalformedPostPolicy(f"the policy {what}")
