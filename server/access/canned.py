"""rule: the managed policies that every server has, by name.

A user or role gets one by attaching `arn:aws:iam::aws:policy/NAME`, a user of mini.toml by the
name. They allow actions on resources of the caller's own account alone; `docs/CONFIG.md` lists
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_OWN: Final = {"StringEquals": {"aws:ResourceAccount": "${aws:PrincipalAccount}"}}
_READS: Final = (
    "s3tables:Get*",
    "s3tables:List*",
    "lake:Query",
)
_WRITES: Final = (
    "s3tables:CreateNamespace",
    "s3tables:UpdateNamespace",
    "s3tables:CreateTable",
    "s3tables:RenameTable",
    "s3tables:UpdateTableMetadataLocation",
    "s3tables:PutTableData",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CannedPolicy:
    """A managed policy of every server. document: JSON text."""

    name: str
    description: str
    document: str


def _canned(name: str, description: str, *actions: str) -> CannedPolicy:
    statement = {
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": "*",
        "Condition": _OWN,
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return CannedPolicy(name=name, description=description, document=json.dumps(document))


CANNED: Final[Mapping[str, CannedPolicy]] = {
    policy.name: policy
    for policy in (
        _canned("AdministratorAccess", "Everything.", "*"),
        _canned("S3FullAccess", "Everything in S3, on general buckets and objects.", "s3:*"),
        _canned(
            "ReadOnly",
            "Read all buckets, objects, table buckets and tables.",
            "s3:Get*",
            "s3:List*",
            *_READS,
        ),
        _canned("LakeReader", "Read table buckets, namespaces and tables.", *_READS),
        _canned(
            "LakeWriter",
            "Read tables, create and change namespaces and tables; drop none.",
            *_READS,
            *_WRITES,
        ),
        _canned(
            "MaintenanceJob",
            "Read tables and commit to them, as compaction and expiry do; create and drop none.",
            *_READS,
            "s3tables:UpdateTableMetadataLocation",
            "s3tables:PutTableData",
        ),
        _canned(
            "TableEngineer",
            "What LakeWriter allows, and drops, restores, settings, policies and tags of tables.",
            *_READS,
            *_WRITES,
            "s3tables:DeleteNamespace",
            "s3tables:DeleteTable",
            "s3tables:DeleteTablePolicy",
            "lake:RunMaintenance",
            "lake:Undrop",
            "s3tables:PutTable*",
            "s3tables:TagResource",
            "s3tables:UntagResource",
        ),
        _canned("LakeAdmin", "Everything on table buckets.", "s3tables:*", "lake:*"),
        _canned("IAMFullAccess", "Everything in IAM.", "iam:*"),
    )
}
