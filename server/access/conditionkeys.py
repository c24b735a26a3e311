"""rule: the condition keys that a policy may name, by service.

A key that no request can have makes a Deny that never binds, so a misspelt one is refused where the
policy is written. Known are AWS's (global condition context keys; service authorization reference,
"Condition keys for Amazon S3" and "for Amazon S3 Tables") and `lake:branch`, this server's own. A
key that AWS knows and this server does not set is absent from every request.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

_AWS: Final = """
    AssumedRoot CalledVia CalledViaFirst CalledViaLast ChatbotSourceArn CurrentTime
    Ec2InstanceSourcePrivateIPv4 Ec2InstanceSourceVpc EpochTime FederatedProvider
    MultiFactorAuthAge MultiFactorAuthPresent PrincipalAccount PrincipalArn PrincipalIsAWSService
    PrincipalOrgID PrincipalOrgPaths PrincipalServiceName PrincipalServiceNamesList PrincipalTag/
    PrincipalType Referer RequestTag/ RequestedRegion ResourceAccount ResourceOrgID
    ResourceOrgPaths ResourceTag/ SecureTransport SourceAccount SourceArn SourceIdentity SourceIp
    SourceOrgID SourceOrgPaths SourceVpc SourceVpcArn SourceVpce SourceVpceAccount SourceVpceOrgID
    SourceVpceOrgPaths TagKeys TokenIssueTime UserAgent ViaAWSService VpcSourceIp userid username
"""

_S3: Final = """
    AccessGrantsInstanceArn AccessPointNetworkOrigin AccessPointTag/ BucketTag/
    DataAccessPointAccount DataAccessPointArn ExistingJobOperation ExistingJobPriority
    ExistingObjectTag/ InventoryAccessibleOptionalFields JobSuspendedCause ObjectCreationOperation
    RequestJobOperation RequestJobPriority RequestObjectTag/ RequestObjectTagKeys ResourceAccount
    TlsVersion authType delimiter if-match if-none-match locationconstraint max-keys
    object-lock-legal-hold object-lock-mode object-lock-remaining-retention-days
    object-lock-retain-until-date prefix signatureAge signatureversion versionid x-amz-acl
    x-amz-content-sha256 x-amz-copy-source x-amz-grant-full-control x-amz-grant-read
    x-amz-grant-read-acp x-amz-grant-write x-amz-grant-write-acp x-amz-metadata-directive
    x-amz-object-ownership x-amz-server-side-encryption
    x-amz-server-side-encryption-aws-kms-key-id
    x-amz-server-side-encryption-customer-algorithm x-amz-storage-class
    x-amz-website-redirect-location
"""

_S3TABLES: Final = "KMSKeyArn SSEAlgorithm TableBucketTag/ namespace tableName"

_STS: Final = """
    AWSServiceName AssumeRoot DurationSeconds ExternalId RequestContext/ RequestContextProviders
    RoleSessionName SourceIdentity TaskPolicyArn TransitiveTagKeys
"""

_IAM: Final = """
    AWSServiceName AssociatedResourceArn FIDO-certification FIDO-FIPS-140-2-certification
    FIDO-FIPS-140-3-certification OrganizationsPolicyId PassedToService PermissionsBoundary
    PolicyARN RegisterSecurityKey ResourceTag/
"""

KEYS: Final[Mapping[str, frozenset[str]]] = {
    "aws": frozenset(_AWS.split()),
    "s3": frozenset(_S3.split()),
    "s3tables": frozenset(_S3TABLES.split()),
    "lake": frozenset({"branch"}),
    "sts": frozenset(_STS.split()),
    "iam": frozenset(_IAM.split()),
}
"""Service -> its keys as AWS writes them. One that ends in a slash is followed by a tag's name."""

_BY_LOWER: Final[Mapping[str, Mapping[str, str]]] = {
    service: {key.lower(): key for key in names} for service, names in KEYS.items()
}


PROVIDER_KEYS: Final = ("aud", "sub", "amr", "oaud")
"""Condition keys about a web identity token, behind the name of its provider."""

_OF_PROVIDER: Final = re.compile(
    r"(?P<host>[a-z0-9.\[\]:-]+?)(?P<path>/[!-~]*)?:(?:" + "|".join(PROVIDER_KEYS) + ")",
    re.IGNORECASE,
)


def is_of_provider(key: str) -> bool:
    """Return whether a key of a trust policy is about the tokens of an identity provider.

    The name of a service is no host: `aws:sub` is a misspelt key, not a provider's.
    """
    match = _OF_PROVIDER.fullmatch(key)
    return match is not None and match["host"].lower() not in KEYS


def of_connection(client_ip: str, scheme: str) -> dict[str, str | tuple[str, ...]]:
    """Return the condition keys that a connection has, for the requests of every face."""
    return {
        "aws:SourceIp": client_ip,
        "aws:SecureTransport": "true" if scheme == "https" else "false",
    }


def suggest(service: str, name: str) -> str | None:
    """Return why a service has no condition key of this name, or None if it has one.

    service: lower case. name: in any case, as condition keys may be written.
    """
    by_lower = _BY_LOWER.get(service)
    if by_lower is None:
        return None
    stem, slash, tag = name.lower().partition("/")
    if f"{stem}{slash}" in by_lower and bool(slash) == bool(tag):
        return None
    close = difflib.get_close_matches(stem, by_lower, n=1)
    hint = f"; did you mean {service}:{by_lower[close[0]]}?" if close else ""
    return f"{service} has no condition key {name!r}{hint}"
