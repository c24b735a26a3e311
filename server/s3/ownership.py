"""engine: the owner account, the bucket policy and the access control list of a resource, for the
access decision.

A bucket belongs to the account of its creator. An object belongs to the bucket's owner, unless its
access control list has another owner and the bucket's ownership controls let lists count. A
resource of s3tables belongs to the account in its ARN; the policy of its table bucket and, for a
table, its own policy apply to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Final

from server.access import acls, arns, decide, model, policies, publicity
from server.access import errors as access_errors
from server.s3 import bucketacls
from storage import batch, buckets, errors, objects, tags
from storage import model as storage_model
from storage import settings as stored_settings

POLICY: Final = stored_settings.POLICY
"""The setting of a bucket, or of a table, that is its policy."""
RESTRICT: Final = "RestrictPublicBuckets"
"""The member of a public access block that this module reads."""
PUBLIC: Final = "policy_is_public"
"""The bucket setting: whether the policy was public when it was put. Written for earlier
releases on the same folder, and never read, since what counts as public changes."""

COMPILED_MAX: Final = 1024
COMPILED_CHARACTERS_MAX: Final = 512 * 1024
"""The number of compiled policies in the cache, and the size of their texts: a compiled policy
takes some 40 bytes per character."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Compiled:
    policy: policies.CompiledPolicy
    public: bool


class Ownership:
    """Returns the resource side of access decisions. Mutable: it caches compiled policies."""

    def __init__(
        self, *, buckets: buckets.Buckets, objects: objects.Objects, index: batch.Lookup
    ) -> None:
        self._index = index
        self._buckets = buckets
        self._objects = objects
        self._compiled: dict[str, _Compiled] = {}
        self._compiled_characters = 0

    def side_of(self, demand: model.Demand) -> decide.ResourceSide:
        """Return the account, the policy and the grants of a demand's resource.

        A resource without an owner belongs to the caller's account."""
        try:
            named = arns.parse_arn(demand.resource)
        except access_errors.MalformedARN:
            return decide.NO_POLICY
        if named.account:
            return decide.ResourceSide(
                account=named.account,
                policies=tuple(self._compile(text).policy for text in self._tables_texts(named)),
                tags=functools.partial(self._tags_of, named),
            )
        if named.service != "s3":
            return decide.NO_POLICY
        # Every caller may learn whether a bucket's name is taken.
        if demand.creates:
            return decide.NO_POLICY
        try:
            bucket = self._buckets.get(named.resource.partition("/")[0])
        except errors.NoSuchBucket:
            return decide.NO_POLICY
        if bucket.type != "general":
            return decide.ResourceSide(account=bucket.owner)
        text = bucket.settings.get(POLICY)
        compiled = None if text is None else self._compile(text)
        restricted = (
            compiled is not None
            and compiled.public
            and bool(bucketacls.block_of(bucket.settings).get(RESTRICT))
        )
        account, grants = bucket.owner, None
        if demand.maker is not None:
            account = demand.maker
            # The creator of an object has full control of it.
            grants = _MAKERS
        elif bucket.has_acls or bucketacls.ACL in bucket.settings:
            account, grants = self._granted(bucket, named.resource.partition("/")[2], demand)
        return decide.ResourceSide(
            account=account,
            policies=() if compiled is None else (compiled.policy,),
            restricted_to=bucket.owner if restricted else None,
            grants=grants,
            only_denies=account != bucket.owner,
        )

    def _tables_texts(self, named: arns.ARN) -> tuple[str, ...]:
        """Return the policies of a table bucket and of a table in it that an ARN names."""
        bucket, table_key = self._tables_resource(named)
        if bucket is None:
            return ()
        keys = [stored_settings.bucket_key(bucket.bucket_id)]
        if table_key is not None:
            keys.append(table_key)
        rows = (stored_settings.read(self._index, key) for key in keys)
        return tuple(row[POLICY] for row in rows if POLICY in row)

    def _tags_of(self, named: arns.ARN) -> policies.Values:
        """Return the condition keys of the tags of a table bucket or of a table in it."""
        bucket, table_key = self._tables_resource(named)
        if bucket is None:
            return {}
        of_bucket = bucket.settings.get(tags.BUCKET_SETTING, {})
        own = of_bucket if "/table/" not in named.resource else {}
        if table_key is not None:
            own = tags.read(self._index, table_key)
        return {
            **decide.tag_keys(("aws:ResourceTag/",), own),
            **decide.tag_keys(("s3tables:TableBucketTag/",), of_bucket),
        }

    def _tables_resource(
        self, named: arns.ARN
    ) -> tuple[storage_model.BucketInfo | None, bytes | None]:
        """Return the table bucket that an ARN of S3 Tables names, and the key of the rows of a
        table in it."""
        of_bucket, separator, object_uuid = named.resource.partition("/table/")
        resource_type, _, name = of_bucket.partition("/")
        if named.service != "s3tables" or resource_type != "bucket":
            return None, None
        try:
            bucket = self._buckets.get(name)
        except errors.NoSuchBucket:
            return None, None
        if separator:
            with contextlib.suppress(ValueError):  # a table that is yet to be made has no uuid
                return bucket, stored_settings.table_key(bucket.bucket_id, object_uuid)
        return bucket, None

    def _granted(
        self, bucket: storage_model.BucketInfo, key: str, demand: model.Demand
    ) -> tuple[str, acls.Grants | None]:
        """Return the owner of a demand's resource, and the grants that may allow the demand."""
        if not bucketacls.takes_acls(bucket.settings):
            return bucket.owner, None
        ignores_public = bool(bucketacls.block_of(bucket.settings).get("IgnorePublicAcls"))
        permission = acls.OBJECT_ACTIONS.get(demand.action)
        if permission is not None:
            exists, acl = self._acl_of_object(bucket, key, demand)
            if acl is not None:
                return acl.account, acls.Grants(
                    grants=acl.grants, permission=permission, ignores_public=ignores_public
                )
            if exists or permission != "READ":
                return bucket.owner, None
            # A caller that may list a bucket may learn that a key is absent.
            only_id = ""
        elif demand.action == "s3:DeleteObject":
            _, acl = self._acl_of_object(bucket, key, demand)
            if acl is None:
                return bucket.owner, None
            # A grant to write allows the deletion of one's own objects alone.
            permission, only_id = "WRITE", acl.owner
        else:
            permission, only_id = acls.BUCKET_ACTIONS.get(demand.action, ""), ""
        if not permission or bucketacls.ACL not in bucket.settings:
            return bucket.owner, None
        return bucket.owner, acls.Grants(
            grants=bucketacls.grants_of(bucket.settings),
            permission=permission,
            ignores_public=ignores_public,
            only_id=only_id,
        )

    def _acl_of_object(
        self, bucket: storage_model.BucketInfo, key: str, demand: model.Demand
    ) -> tuple[bool, storage_model.AccessControlList | None]:
        """Return whether a demand's object exists, and its access control list."""
        if demand.object_info is not None:
            return True, demand.object_info.attributes.acl
        version_id = demand.context.get("s3:VersionId")
        try:
            info = self._objects.head(
                bucket, key, version_id=version_id if isinstance(version_id, str) else None
            )
        except (
            errors.NoSuchKey,
            errors.NoSuchVersion,
            errors.IsDeleteMarker,
            errors.InvalidKey,
        ):
            return False, None
        return True, info.attributes.acl

    def _compile(self, text: str) -> _Compiled:
        compiled = self._compiled.get(text)
        if compiled is None:
            document = policies.decode(text)
            compiled = _Compiled(
                policy=policies.parse_policy(document, policy_type="resource", is_stored=True),
                public=publicity.is_public(document),
            )
            self._compiled_characters += len(text)
            if (
                len(self._compiled) >= COMPILED_MAX
                or self._compiled_characters > COMPILED_CHARACTERS_MAX
            ):
                self._compiled.clear()
                self._compiled_characters = len(text)
            self._compiled[text] = compiled
        return compiled


_MAKERS: Final = acls.Grants(
    grants=(storage_model.Grant(grantee=acls.ALL_USERS, permission=acls.FULL_CONTROL),),
    permission=acls.FULL_CONTROL,
)
