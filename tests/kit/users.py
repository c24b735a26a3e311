"""Five users with the rights that access tests tell apart, as `[[users]]` of mini.toml.

alice and bob have all of s3tables where the namespace is their own name; dave has everything but is
denied whatever lies in the namespace bob; erin reads names of tables and nothing of the tables
themselves; carol has no policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final


def _only_where_namespace_is(name: str) -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "s3tables:*",
                "Resource": "*",
                "Condition": {"StringEquals": {"s3tables:namespace": name}},
            }
        ],
    }


POLICIES: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "alice": (_only_where_namespace_is("alice"),),
    "bob": (_only_where_namespace_is("bob"),),
    "carol": (),
    "dave": (
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "*", "Resource": "*"},
                {
                    "Effect": "Deny",
                    "Action": "*",
                    "Resource": "*",
                    "Condition": {"StringEquals": {"s3tables:namespace": "bob"}},
                },
            ],
        },
    ),
    "erin": (
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": [
                        "s3tables:GetTableBucket",
                        "s3tables:ListNamespaces",
                        "s3tables:GetNamespace",
                        "s3tables:ListTables",
                    ],
                    "Resource": "*",
                }
            ],
        },
    ),
}


def access_key(name: str) -> str:
    """The user's access key id, which is also the OAuth client id."""
    return f"{name.upper()}ACCESSKEY00"


def secret_key(name: str) -> str:
    """The user's secret key, which is also the OAuth client secret and the SQL password."""
    return f"{name}-secret-key-of-the-tests-0001"


def write_settings(folder: Path) -> Path:
    """Write a mini.toml with the five users into folder; return its path, for `--config`."""
    lines = []
    for name, documents in POLICIES.items():
        texts = ", ".join(f"'''{json.dumps(document)}'''" for document in documents)
        lines += [
            "[[users]]",
            f'name = "{name}"',
            f'access_key = "{access_key(name)}"',
            f'secret_key = "{secret_key(name)}"',
            f"policies = [{texts}]",
            "",
        ]
    path = folder / "mini.toml"
    path.write_text("\n".join(lines))
    return path
