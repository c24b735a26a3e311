"""engine: whose rights a job has, and the credentials of the child that does it.

A pipeline has the rights of the user that its file names in `run_as`, else root's, who owns the
server's folder. Maintenance has no user's rights: it reads tables and commits to them, and may
nothing else. The credentials are a token and a key pair derived from it; they end with the child,
and with the user, and always after LIFETIME_SECONDS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jobs import errors
from server.access import arns, model, policies, principals, tokens
from storage import model as storage_model

LIFETIME_SECONDS: Final = 12 * 60 * 60
JOB_SECONDS: Final = 10 * 60 * 60
"""How long one job may take, less than the credentials hold: a job that hangs blocks all others."""
MAINTENANCE: Final = "boathouse-maintenance"
_POLICY: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": [
                "s3tables:GetTable*",
                "s3tables:GetNamespace",
                "s3tables:GetTableBucket",
                "s3tables:ListNamespaces",
                "s3tables:ListTables",
                "s3tables:UpdateTableMetadataLocation",
                "s3tables:PutTableData",
            ],
            "Resource": "*",
        }
    ],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOwner:
    """The principal whose rights a job has. key: owners of the same key share a child."""

    key: str
    principal: model.Principal
    is_maintenance: bool


class JobCredentials:
    """Makes the credentials of children. Stateless except for its services."""

    def __init__(
        self,
        *,
        principals: principals.Principals,
        ring: tokens.KeyRing,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
    ) -> None:
        self._principals = principals
        self._ring = ring
        self._now_ms = now_ms
        self._new_id = new_id
        self._policy = policies.parse_policy(json.dumps(_POLICY), policy_type="identity")

    def owner(self, run_as: str | None) -> JobOwner:
        """Return the owner of a pipeline's runs. Raises BadSchedule for a user that is not
        there."""
        if run_as is None:
            return JobOwner(key="root", principal=self._principals.root, is_maintenance=False)
        entry = self._principals.by_name(run_as)
        if entry is None:
            raise errors.BadSchedule(f"run_as names {run_as!r}, and there is no such user")
        if entry.is_disabled:
            raise errors.BadSchedule(f"run_as names {run_as!r}, who is disabled")
        principal = entry.principal
        return JobOwner(
            key=f"user {principal.principal_id} {principal.name}",
            principal=principal,
            is_maintenance=False,
        )

    def maintenance(self, account: str) -> JobOwner:
        """Return the owner of maintenance in the table buckets of an account."""
        return JobOwner(
            key=f"maintenance {account}",
            principal=model.Principal(
                type="user",
                name=MAINTENANCE,
                arn=arns.user_arn(account, MAINTENANCE),
                account_id=account,
                canonical_id=principals.canonical_id_of(account),
                display_name=MAINTENANCE,
                policies=(self._policy,),
                principal_id=principals.principal_id_of("AIDA", f"maintenance/{account}"),
            ),
            is_maintenance=True,
        )

    def issue(self, owner: JobOwner) -> tuple[str, Mapping[str, str]]:
        """Return the id of new credentials of an owner, and the variables that hold them."""
        job_id, name, now_ms = self._new_id(), owner.principal.name, self._now_ms()
        self._principals.admit_job(job_id, owner.principal, is_servant=owner.is_maintenance)
        extra = {principals.JOB_CLAIM: job_id}
        keys = tokens.vend(
            self._ring,
            subject=name,
            token_id=self._new_id(),
            scopes=None,
            now_ms=now_ms,
            lifetime_seconds=LIFETIME_SECONDS,
            extra=extra,
        )
        bearer = tokens.issue(
            self._ring,
            typ="job",
            subject=name,
            token_id=self._new_id(),
            now_ms=now_ms,
            lifetime_seconds=LIFETIME_SECONDS,
            extra=extra,
        )
        return job_id, {
            "BOATHOUSE_ACCESS_KEY": keys.access_key,
            "BOATHOUSE_SECRET_KEY": keys.secret_key,
            "BOATHOUSE_SESSION_TOKEN": keys.session_token,
            "BOATHOUSE_TOKEN": bearer,
        }

    def revoke(self, job_id: str) -> None:
        """End credentials: no request with them is let in any more."""
        self._principals.dismiss_job(job_id)
