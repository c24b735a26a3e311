"""face: the documents that configure a general bucket: tags, CORS and lifecycle rules, its policy,
the block of public access, ownership controls, the target of its access records.

Each is a setting in the bucket's record, except that lifecycle rules have a row of their own. The
transaction of a change checks that the bucket's policy is still the one that allowed it. A table
bucket has none of them: the s3tables API configures it.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from server import asgi, calls, limits
from server.access import acls, actions, arns, decide, policies, publicity
from server.access import errors as access_errors
from server.access import model as access_model
from server.accesslogs import targets
from server.s3 import (
    bucketacls,
    control,
    cors,
    demands,
    documents,
    engines,
    errors,
    fields,
    incoming,
    lifecycles,
    operations,
    ownership,
    wire,
)
from storage import buckets, lifecycle, model, records
from storage import errors as storage_errors

TAGS: Final = "tags"
POLICY_HEADERS: Final = (("content-type", "application/json"),)
RULES_HERE_BYTES_MAX: Final = 4096
"""The longest record of lifecycle rules that is formatted on the event loop: some 150 rules, less
than a millisecond. A thousand take 3 to 9."""

ABSENT: Final[Mapping[str, tuple[str, str]]] = {
    TAGS: ("NoSuchTagSet", "The TagSet does not exist"),
    lifecycle.SETTING: (
        "NoSuchLifecycleConfiguration",
        "The lifecycle configuration does not exist",
    ),
    cors.SETTING: ("NoSuchCORSConfiguration", "The CORS configuration does not exist"),
    ownership.POLICY: ("NoSuchBucketPolicy", "The bucket policy does not exist"),
    bucketacls.PUBLIC_ACCESS_BLOCK: (
        "NoSuchPublicAccessBlockConfiguration",
        "The public access block configuration was not found",
    ),
    bucketacls.CONTROLS: (
        "OwnershipControlsNotFoundError",
        "The bucket ownership controls were not found",
    ),
}
"""The code and message of S3 for a configuration that a bucket does not have."""


async def get_bucket_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetBucketTagging."""
    tags = _find(services, call, TAGS)
    if not tags:  # earlier versions stored an empty set
        raise _not_configured(services.buckets.get(call.value.bucket), TAGS)
    return asgi.Response(200, wire.XML_HEADERS, wire.tagging(tags))


async def put_bucket_tagging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """PutBucketTagging: at most `fields.BUCKET_TAGS_MAX` tags; no tag is no configuration."""

    def parse(data: bytes) -> Mapping[str, str] | None:
        return documents.parse_tagging(data, tags_max=fields.BUCKET_TAGS_MAX) or None

    await _put(services, call, TAGS, parse)
    return asgi.Response(204)


async def list_resource_tags(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """ListTagsForResource of S3 Control; no tag is no error there."""
    bucket = _tagged_bucket(services, call)
    tags = bucket.settings.get(TAGS) or {}
    return asgi.Response(200, wire.XML_HEADERS, wire.tags_of_resource(tags))


async def tag_resource(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """TagResource of S3 Control: adds tags to those of a bucket."""
    _tagged_bucket(services, call)
    added = await engines.read_judged(
        services, call, documents.parse_tag_resource, lambda tags: {"tags": tags}
    )

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        tags = {**(settings.get(TAGS) or {}), **added}
        fields.check_count_of_tags(len(tags), fields.BUCKET_TAGS_MAX)
        return {**settings, TAGS: tags} if tags else settings

    await change(services, call, put)
    return asgi.Response(204)


async def untag_resource(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """UntagResource of S3 Control; a key that no tag has is no error."""
    _tagged_bucket(services, call)
    removed = {value for name, value in call.request.pairs if name == control.TAG_KEYS}

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        before = settings.get(TAGS) or {}
        tags = {name: value for name, value in before.items() if name not in removed}
        others = {name: each for name, each in settings.items() if name != TAGS}
        return {**others, TAGS: tags} if tags else others

    await change(services, call, put)
    return asgi.Response(204)


def _tagged_bucket(services: engines.S3Services, call: calls.Call) -> model.BucketInfo:
    """Return the bucket of a request about tags. Raises Forbidden for one of another account than
    the client names, InvalidRequest for a signature of version 2, which does not cover the keys."""
    resource: control.TaggedResource = call.value
    if call.caller.signing.scheme.startswith("sigv2"):
        raise errors.InvalidRequest(
            "The authorization mechanism you have provided is not supported. Please use "
            "AWS4-HMAC-SHA256."
        )
    engines.check_owner(services, resource.bucket, resource.account)
    return bucket_to_configure(services, call)


async def get_bucket_cors(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetBucketCors."""
    rules = cors.decode(_find(services, call, cors.SETTING))
    return asgi.Response(200, wire.XML_HEADERS, wire.cors_configuration(rules))


async def put_bucket_cors(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """PutBucketCors."""

    def parse(data: bytes) -> list[dict[str, Any]]:
        return cors.encode(documents.parse_cors(data))

    await _put(services, call, cors.SETTING, parse)
    return asgi.Response(200)


async def get_bucket_lifecycle(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetBucketLifecycleConfiguration; many rules are encoded in a thread."""
    _find(services, call, lifecycle.SETTING)
    bucket = services.buckets.get(call.value.bucket)
    record = services.buckets.lifecycle_of(bucket)
    if record is None:  # removed since the bucket was read
        raise _not_configured(bucket, lifecycle.SETTING)

    def shown() -> tuple[bytes, str]:
        decoded = records.decode_lifecycle(record)
        return lifecycles.document(decoded.rules), decoded.transition_minimum

    is_small = len(record) <= RULES_HERE_BYTES_MAX
    data, minimum = shown() if is_small else await asyncio.to_thread(shown)
    return asgi.Response(200, (*wire.XML_HEADERS, (fields.TRANSITION_MINIMUM, minimum)), data)


async def put_bucket_lifecycle(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """PutBucketLifecycleConfiguration."""
    operation: operations.PutConfiguration = call.value
    data = await incoming.read_configuration(call, limit_bytes=limits.LIFECYCLE_BYTES_MAX)
    rules = await incoming.parsed(lifecycles.parse, data)
    await _set_lifecycle(services, call, rules, operation.transition_minimum)
    return asgi.Response(200, ((fields.TRANSITION_MINIMUM, operation.transition_minimum),))


async def delete_bucket_lifecycle(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """DeleteBucketLifecycle."""
    await _set_lifecycle(services, call, ())
    return asgi.Response(204)


async def _set_lifecycle(
    services: engines.S3Services,
    call: calls.Call,
    rules: Sequence[lifecycle.LifecycleRule],
    transition_minimum: str = lifecycle.MINIMUM,
) -> None:
    async def set_rules(bucket: model.BucketInfo, check: buckets.SettingsCheck) -> None:
        await services.buckets.set_lifecycle(
            bucket.name,
            rules,
            bucket_id=bucket.bucket_id,
            check=check,
            transition_minimum=transition_minimum,
        )

    await change_judged(services, call, set_rules)


async def get_bucket_policy(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetBucketPolicy: the text as it was put."""
    text: str = _find(services, call, ownership.POLICY)
    return asgi.Response(200, POLICY_HEADERS, text.encode())


async def put_bucket_policy(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """PutBucketPolicy.

    Refuses a public policy where BlockPublicPolicy is set, and, unless the client confirms it, one
    that takes the caller's own right to change it.
    """
    operation: operations.PutConfiguration = call.value
    data = await incoming.read_configuration(call)
    parse = functools.partial(_parse_policy, bucket=operation.bucket)
    policy, text, public = await incoming.parsed(parse, data)
    if not operation.gives_up_access:
        _check_access_kept(services, call, policy)

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        block = settings.get(bucketacls.PUBLIC_ACCESS_BLOCK) or {}
        if public and block.get("BlockPublicPolicy"):
            raise errors.Forbidden(
                "The policy is public, and BlockPublicPolicy of the bucket's public access block "
                "refuses such policies"
            )
        return {**settings, ownership.POLICY: text, ownership.PUBLIC: public}

    await change(services, call, put)
    return asgi.Response(204)


async def get_bucket_policy_status(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetBucketPolicyStatus: public by policy or by access control list."""
    bucket = services.buckets.get(call.value.bucket)
    text = bucket.settings.get(ownership.POLICY)
    public = _has_public_acl(bucket) or (text is not None and publicity.is_public(json.loads(text)))
    return asgi.Response(200, wire.XML_HEADERS, wire.policy_status(public=public))


async def get_public_access_block(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetPublicAccessBlock."""
    block = _find(services, call, bucketacls.PUBLIC_ACCESS_BLOCK)
    return asgi.Response(200, wire.XML_HEADERS, wire.public_access_block(block))


async def put_public_access_block(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """PutPublicAccessBlock."""
    await _put(services, call, bucketacls.PUBLIC_ACCESS_BLOCK, documents.parse_public_access_block)
    return asgi.Response(200)


async def get_bucket_logging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """GetBucketLogging: the bucket that access records go to."""
    bucket = services.buckets.get(call.value.bucket)
    target = targets.target_of(bucket.settings) if bucket.type == "general" else None
    return asgi.Response(200, wire.XML_HEADERS, wire.bucket_logging(target))


async def put_bucket_logging(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """PutBucketLogging. Raises InvalidTargetBucket."""
    data = await incoming.read_configuration(call)
    target = await incoming.parsed(documents.parse_logging, data)
    if target is not None:
        try:
            services.access_logs.check_target(bucket_to_configure(services, call), target)
        except targets.UnusableTarget as unusable:
            raise errors.InvalidTargetBucket(str(unusable), TargetBucket=target.bucket) from None

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return targets.with_target(settings, target)

    await change(services, call, put)
    if target is not None:
        services.access_logs.turn_on()
    return asgi.Response(200)


async def get_bucket_ownership_controls(
    services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """GetBucketOwnershipControls."""
    controls = _find(services, call, bucketacls.CONTROLS)
    return asgi.Response(200, wire.XML_HEADERS, wire.ownership_controls(controls))


async def put_bucket_ownership_controls(
    services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """PutBucketOwnershipControls."""
    data = await incoming.read_configuration(call)
    controls = await incoming.parsed(documents.parse_ownership, data)

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        check_controls(controls, has_acl=bucketacls.ACL in settings)
        return {**settings, bucketacls.CONTROLS: controls}

    await change(services, call, put)
    return asgi.Response(200)


def check_controls(controls: str | None, *, has_acl: bool) -> None:
    """Raise BucketAclPresent for controls under which a bucket's own list would not count."""
    if has_acl and controls == bucketacls.ENFORCED:
        raise errors.BucketAclPresent(
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
        )


async def delete_configuration(
    name: str, services: engines.S3Services, call: calls.Call
) -> asgi.Response:
    """Remove a configuration. It is no error if the bucket does not have it."""
    removed = {name, ownership.PUBLIC} if name == ownership.POLICY else {name}

    def delete(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {other: value for other, value in settings.items() if other not in removed}

    await change(services, call, delete)
    return asgi.Response(204)


async def preflight(services: engines.S3Services, call: calls.Call) -> asgi.Response:
    """Answer a browser's CORS preflight request, which is never signed."""
    operation: operations.Target = call.value
    sent = call.request.headers
    if not sent.get("origin"):
        raise errors.PreflightIncomplete("Insufficient information. Origin request header needed.")
    method = sent.get("access-control-request-method") or "OPTIONS"
    try:
        bucket = services.buckets.get(operation.bucket)
    except storage_errors.NoSuchBucket:
        raise errors.CorsNotEnabled(
            "CORSResponse: Bucket not found", Method=method, ResourceType="BUCKET"
        ) from None
    rules = cors.rules_of(bucket.settings.get(cors.SETTING))
    if not rules:
        raise errors.CorsNotEnabled(
            "CORSResponse: CORS is not enabled for this bucket.",
            Method=method,
            ResourceType="BUCKET",
        )
    wanted = cors.parse_wanted(sent.joined)
    if wanted is None:
        raise errors.PreflightIncomplete(
            "Insufficient information. Access-Control-Request-Method request header needed."
        )
    headers = cors.allow(rules, wanted)
    if headers is None:
        raise errors.CorsNotEnabled(
            "CORSResponse: This CORS request is not allowed. This is usually because the "
            "evalution of Origin, request method / Access-Control-Request-Method or "
            "Access-Control-Request-Headers are not whitelisted by the resource's CORS spec.",
            Method=method,
            ResourceType="OBJECT" if operation.key else "BUCKET",
        )
    return asgi.Response(200, headers)


def _find(services: engines.S3Services, call: calls.Call, name: str) -> Any:
    """Return a bucket's configuration. Raises NotConfigured."""
    bucket = services.buckets.get(call.value.bucket)
    value = bucket.settings.get(name) if bucket.type == "general" else None
    if value is None:
        raise _not_configured(bucket, name)
    return value


def _not_configured(bucket: model.BucketInfo, name: str) -> errors.NotConfigured:
    code, message = ABSENT[name]
    return errors.NotConfigured(code, message, BucketName=bucket.name)


async def _put(
    services: engines.S3Services, call: calls.Call, name: str, parse: Callable[[bytes], Any]
) -> None:
    """Replace a bucket's configuration by the document in the body; remove it if that is None."""
    data = await incoming.read_configuration(call)
    value = await incoming.parsed(parse, data)

    def put(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        others = {other: each for other, each in settings.items() if other != name}
        return others if value is None else {**others, name: value}

    await change(services, call, put)


async def change(
    services: engines.S3Services, call: calls.Call, put: buckets.SettingsChange
) -> None:
    """Change a bucket's settings; see `change_judged`."""

    async def change_settings(bucket: model.BucketInfo, check: buckets.SettingsCheck) -> None:
        await services.buckets.change(bucket.name, put, bucket_id=bucket.bucket_id, check=check)

    await change_judged(services, call, change_settings)


async def change_judged(
    services: engines.S3Services,
    call: calls.Call,
    change: Callable[[model.BucketInfo, buckets.SettingsCheck], Awaitable[None]],
) -> None:
    """Change a general bucket while its policy and its access control list are those that allowed
    the change.

    change: passes its bucket's id and the check to storage, which calls the check in the
    transaction that changes the bucket. Raises AccessDenied if a newer policy refuses the change,
    ExpectationFailed if the policy changes during every attempt, and TableBucketVerb.
    """
    for number in range(1, engines.ATTEMPTS_MAX + 1):
        bucket = bucket_to_configure(services, call)
        engines.check_allowed(services, call)
        judged = _judged(bucket.settings)

        def check(settings: Mapping[str, Any], judged: object = judged) -> None:
            if _judged(settings) != judged:
                raise storage_errors.ExpectationFailed("the bucket's policy has changed")

        try:
            await change(bucket, check)
        except storage_errors.ExpectationFailed:
            if number == engines.ATTEMPTS_MAX:
                raise
        else:
            return


def _judged(settings: Mapping[str, Any]) -> object:
    """Return the settings that access decisions depend on."""
    names = (
        ownership.POLICY,
        bucketacls.PUBLIC_ACCESS_BLOCK,
        bucketacls.ACL,
        bucketacls.CONTROLS,
    )
    return tuple(settings.get(name) for name in names)


def _has_public_acl(bucket: model.BucketInfo) -> bool:
    """Return whether a bucket's access control list counts and is public."""
    if not bucketacls.takes_acls(bucket.settings):
        return False
    if bucketacls.block_of(bucket.settings).get("IgnorePublicAcls"):
        return False
    return acls.is_public(bucketacls.grants_of(bucket.settings))


def _parse_policy(data: bytes, *, bucket: str) -> tuple[policies.CompiledPolicy, str, bool]:
    """Return a bucket's policy, its text, and whether it is public. Raises MalformedPolicy."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise access_errors.MalformedPolicy("a policy is UTF-8 text", path="") from None
    if not text.lstrip().startswith("{"):
        raise access_errors.MalformedPolicy(
            "Policies must be valid JSON and the first byte must be '{'", path=""
        )
    document = policies.decode(text)
    if "Statement" not in document:
        raise access_errors.MalformedPolicy("Missing required field Statement", path="Statement")
    policy = policies.parse_policy(document, policy_type="resource", is_clients=True)
    statements = document["Statement"]
    for statement in statements if isinstance(statements, list) else [statements]:
        _check_statement(statement, bucket)
    return policy, text, publicity.is_public(document)


def _check_statement(statement: Mapping[str, Any], bucket: str) -> None:
    """Raise MalformedPolicy for a statement that a bucket's policy must not contain."""
    if statement["Effect"] == "Allow" and "NotPrincipal" in statement:
        raise access_errors.MalformedPolicy(
            "Allow with NotPrincipal is not supported", path="Statement"
        )
    about: frozenset[bool] = frozenset()
    for resource in _listed(statement.get("Resource", [])):
        if not _can_be_of(resource, bucket):
            raise access_errors.MalformedPolicy(
                f"Policy has invalid resource: {resource!r} is not this bucket or its objects",
                path="Statement",
            )
        about |= _may_be_objects(resource)
    # An Allow that allows nothing does no harm.
    is_bound = statement["Effect"] == "Deny" and "Action" in statement and len(about) == 1
    for action in _listed(statement["Action"] if "Action" in statement else statement["NotAction"]):
        service, _, name = action.partition(":")
        if action != "*" and service.lower() != "s3":
            raise access_errors.MalformedPolicy(
                f"Policy has invalid action: {action!r} is no action of s3", path="Statement"
            )
        # What is about objects and buckets is about the resource of any action.
        if is_bound and action != "*" and not actions.is_about(name, objects=True in about):
            raise access_errors.MalformedPolicy(
                f"Action does not apply to any resource(s) in statement: {action!r}",
                path="Statement",
            )


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _may_be_objects(resource: str) -> frozenset[bool]:
    """Return whether what a resource's pattern matches are objects: {True}, {False} or both."""
    name, slash, _ = resource.split(":", 5)[-1].partition("/")
    if slash:
        return frozenset({True})
    # A star, which may be the value of a variable, matches the slash before a key too.
    return frozenset({False, *([True] if any(sign in name for sign in "*?$") else [])})


def _can_be_of(resource: str, bucket: str) -> bool:
    """Return whether a resource's pattern may match a bucket or its objects."""
    if resource == "*":
        return True
    name = resource.split(":", 5)[5].partition("/")[0]
    if "${" in name:
        return True
    return policies.compile_pattern(name, variables=False).matches(bucket, {})


def _check_access_kept(
    services: engines.S3Services, call: calls.Call, policy: policies.CompiledPolicy
) -> None:
    """Raise Forbidden if a policy would deny its writer the right to replace it."""
    bucket = bucket_to_configure(services, call)
    demand = access_model.Demand(
        action="s3:PutBucketPolicy", resource=arns.bucket_arn(bucket.name), place=f"{bucket.name}/"
    )
    decision = decide.authorise(
        call.principal,
        demands.with_request_keys(services, call, demand),
        (policy,),
        resource_account=bucket.owner,
        now_ms=services.authoriser.now_ms(),
        region=services.authoriser.region,
    )
    if decision.reason == "explicit-deny":
        raise errors.Forbidden(
            "The policy denies you s3:PutBucketPolicy; the header "
            "x-amz-confirm-remove-self-bucket-access: true confirms that you want this"
        )


def bucket_to_configure(services: engines.S3Services, call: calls.Call) -> model.BucketInfo:
    """Return a bucket to configure. Raises TableBucketVerb for a table bucket."""
    bucket = services.buckets.get(call.value.bucket)
    if bucket.type == "table":
        raise errors.TableBucketVerb(
            "A table bucket is configured through the s3tables API.",
            Method=call.request.method,
            ResourceType="TABLE BUCKET",
        )
    return bucket
