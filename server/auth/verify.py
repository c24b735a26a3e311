"""engine: authenticates a request by any supported scheme, and returns its Caller.

The schemes are rules; this module adds the clock, the principals and the body, for services that
sign the hash of a body without sending it. Its caches are bounded, and a change of credentials
invalidates their entries: signing keys of a day, verified tokens, principals with the condition
keys of their connection, and requests with a right signature. A request that equals a cached one in
every signed byte, under the same secret, is not verified by computation again; its time, scope,
token and unsigned headers are.

For S3 an unknown access key costs the same computation as a wrong signature; for other services the
body is not read. A request without a credential has the anonymous principal. The access decision is
made elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import hashlib
import hmac
import re
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from server import config, dispatch, limits, templates
from server.access import conditionkeys, model, principals, tokens
from server.access import errors as access_errors
from server.auth import callers, chunked, errors, postpolicy, presign, sigv2, sigv4, throttle
from storage import model as storage_model

if TYPE_CHECKING:
    from server import asgi

SERVICES: Final = {
    dispatch.S3: ("s3",),
    dispatch.S3TABLES: ("s3tables",),
    dispatch.STS: ("sts",),
    dispatch.IAM: ("iam",),
    dispatch.ICEBERG: ("s3tables", "glue", "execute-api"),
    dispatch.NATIVE: ("s3tables", "execute-api"),
}
"""The services of a credential scope that each face accepts."""

BODY_BYTES_MAX: Final = {dispatch.ICEBERG: limits.SIGNED_BODY_BYTES_MAX}
"""The largest body that is read for its signature; by default `limits.MODEL_BODY_BYTES_MAX`."""

BEARER_FACES: Final = frozenset({dispatch.ICEBERG, dispatch.NATIVE})
BASIC_FACES: Final = frozenset({dispatch.NATIVE})
FORM_FACES: Final = frozenset({dispatch.STS, dispatch.IAM})
"""Faces where a GET can change something: the query names the operation."""
BEARER_TYPES: Final[tuple[tokens.TokenType, ...]] = ("access", "job")

FOREVER_MS: Final = 1 << 62
NO_SECRET: Final = "an access key that no user has"
PRESIGN_UNSIGNED_EXCEPTIONS: Final = frozenset({b"x-amz-content-sha256"})
WITHOUT_SIGNATURE: Final = frozenset({presign.SIGNATURE_PARAMETER})
VERIFIED_ANEW: Final = frozenset({"role", principals.JOB_CLAIM, principals.LOGIN_CLAIM})
"""Claims of tokens for which no Standing holds: a role's policies can change, and jobs and logins
end, while the entry of the token's owner stays."""

_ALGORITHM: Final = sigv4.ALGORITHM.encode()
_HEX_SHA256: Final = re.compile(rb"[0-9A-Fa-f]{64}")

ContextKey: TypeAlias = tuple[str, str, str]


class Verifier:
    """Authenticates requests.

    region: the region of valid scopes; None accepts any. sigv2_header: whether the header form of
    version 2 is accepted. open_to_all (`--no-auth`): every client is root, and only the framing and
    hashes of bodies are checked, no signature. Requests that a page of another site sends through a
    browser on this machine are refused even then.
    """

    def __init__(
        self,
        *,
        principals: principals.Principals,
        ring: tokens.KeyRing,
        now_ms: storage_model.NowMs,
        region: str | None = None,
        domain: str | None = None,
        sigv2_header: bool = False,
        open_to_all: bool = False,
    ) -> None:
        self._principals = principals
        self._ring = ring
        self._now_ms = now_ms
        self._throttle = throttle.Throttle(now_ms=now_ms)
        self._region = region
        self._domain = domain
        self._sigv2_header = sigv2_header
        self._open_to_all = open_to_all
        self._signing_keys: dict[tuple[str, str, str, str], tuple[bytes, sigv4.Signer]] = {}
        self._proven: dict[str, tuple[sigv4.Claim, callers.Signing]] = {}
        self._presigned: dict[bytes, tuple[presign.PresignV4, callers.Signing]] = {}
        self._verdicts: dict[str, _Verdict] = {}
        self._stamp = ("", 0)
        self._verified: dict[str, tokens.Claims] = {}
        self._connected: dict[ContextKey, tuple[model.Principal, model.Principal]] = {}
        self._anonymous_callers: dict[tuple[str, str], callers.Caller] = {}

    def unverified(self, request: asgi.Request) -> callers.Caller:
        """Return the caller of a request whose credentials are not checked."""
        if self._open_to_all:
            self._check_not_foreign(request)
        key = (request.client_ip, request.scheme)
        caller = self._anonymous_callers.get(key)
        if caller is None:
            caller = callers.Caller(
                principal=self._in_context(_ANONYMOUS, request),
                payload=chunked.UNSIGNED_PAYLOAD,
                credential_id="",
                signing=_NO_SIGNING,
            )
            _keep(self._anonymous_callers, key, caller, limits.CONNECTED_PRINCIPALS_MAX)
        return caller

    def standing(
        self,
        request: asgi.Request,
        caller: callers.Caller,
        template: templates.Template | None = None,
    ) -> Standing | None:
        """Return the Standing of a caller for requests of the same bytes; None if there is none.

        caller: the result of `begin` for request. Presigned URLs and tokens have one. With the
        template of the request's head a signature has one for requests that differ in the
        template's values alone.
        """
        from_ms, until_ms = 0, FOREVER_MS
        token: str | None = None
        resigning: Resigning | None = None
        match caller.signing.scheme:
            case "sigv4" if template is not None:
                resigning = self._resigning(request, caller, template)
                if resigning is None:
                    return None
                token = request.headers.get("x-amz-security-token")
            case "sigv4-query":
                parsed = self._presigned.get(request.query)
                if parsed is None:
                    return None
                presigned, _ = parsed
                token = presigned.security_token or request.headers.get("x-amz-security-token")
                if template is None:
                    from_ms = presigned.signed_at_ms - limits.CLOCK_SKEW_MS_MAX
                    until_ms = presign.end_of_v4(presigned)
                else:
                    resigning = self._resigning_url(request, caller, template, presigned)
                    if resigning is None:
                        return None
            case "bearer":
                authorization = request.headers.get("authorization") or ""
                token = authorization.partition(" ")[2].strip()
            case _:
                return None
        owner: model.KeyedPrincipal | None
        if token is None:
            owner = self._known(caller.credential_id, None)
        else:
            claims = self._verified.get(token)
            if claims is None or not VERIFIED_ANEW.isdisjoint(claims.extra):
                return None
            until_ms = min(until_ms, claims.expires_at_ms)
            owner = self._principals.of_claims(claims)
        if owner is None:
            return None
        return Standing(
            caller=caller,
            owner=owner,
            client_ip=request.client_ip,
            scheme=request.scheme,
            from_ms=from_ms,
            until_ms=until_ms,
            resigning=resigning,
        )

    def _resigning(
        self, request: asgi.Request, caller: callers.Caller, template: templates.Template
    ) -> Resigning | None:
        """Return what verifies the next signatures of a request whose signature in the header is
        right; None if another request needs more than that."""
        if caller.payload.framed:
            return None  # its chunks are signed with the request's own signature
        authorization = request.headers.joined[templates.AUTHORIZATION].decode("latin-1")
        signed = self._read_signed(request, dispatch.S3, authorization)
        names = signed.claim.names
        if templates.DATE not in names or templates.AUTHORIZATION in names:
            return None
        return self._resigning_of(
            request,
            template,
            claim=signed.claim,
            token=signed.token,
            method=request.method,
            query=sigv4.canonical_query(request.query),
            payload_hash=signed.payload_hash,
        )

    def _resigning_url(
        self,
        request: asgi.Request,
        caller: callers.Caller,
        template: templates.Template,
        presigned: presign.PresignV4,
    ) -> Resigning | None:
        """Return what verifies the next URLs of a presigned request whose signature is right; None
        if another request needs more than that."""
        if caller.payload is not chunked.UNSIGNED_PAYLOAD or templates.SHA256 in template.names:
            return None  # what its body must be is another for each request
        resigning = self._resigning_of(
            request,
            template,
            claim=presigned.proof.claim,
            token=presigned.security_token or request.headers.get("x-amz-security-token"),
            method=presign.signed_method(request.method, request.query),
            query=sigv4.canonical_query(request.query, without=WITHOUT_SIGNATURE),
            payload_hash=chunked.UNSIGNED,
        )
        if resigning is not None:
            resigning.expires_ms = presigned.expires_seconds * 1000
        return resigning

    def _resigning_of(
        self,
        request: asgi.Request,
        template: templates.Template,
        *,
        claim: sigv4.Claim,
        token: str | None,
        method: str,
        query: bytes,
        payload_hash: str,
    ) -> Resigning | None:
        """Return what verifies the next signatures of a claim; None if its key is gone."""
        credential = claim.credential
        entry = self._known(credential.access_key, token)
        if entry is None:
            return None
        path, key = sigv4.canonical_path(request.raw_path, double_encoded=False), None
        has_payload = templates.SHA256 in template.names
        if template.tail_bytes:
            path, key = template.before_key(request.raw_path), templates.KEY
        pieces, between = sigv4.split_canonical(
            method=method,
            path=path,
            query=query,
            headers=request.headers.joined,
            names=claim.names,
            payload_hash=payload_hash,
            varying=template.names,
            key=key,
            payload=templates.SHA256 if has_payload else None,
            time_in_query=templates.TIME_IN_QUERY if template.query_span else None,
        )
        return Resigning(
            signer=self._signer(entry.secret_key, credential),
            date=credential.date,
            scope=credential.scope.encode(),
            pieces=pieces,
            order=tuple([template.names.index(name) for name in between]),
            payload_index=template.names.index(templates.SHA256) if has_payload else None,
            latest=(),
        )

    def again(
        self, standing: Standing, request: asgi.Request, parts: templates.Parts = ()
    ) -> callers.Caller | None:
        """Return the caller of a request of the same bytes; None if standing is not valid now.

        parts: the values of the template, with which its signature is to be right.
        """
        now_ms = self._now_ms()
        if not standing.from_ms <= now_ms < standing.until_ms:
            return None
        if not self._principals.holds(standing.owner):
            return None
        resigning = standing.resigning
        if resigning is not None and not self._is_signed(resigning, parts, now_ms):
            return None
        caller = standing.caller
        if resigning is not None and resigning.payload_index is not None:
            payload_hash = parts[resigning.payload_index]
            if _HEX_SHA256.fullmatch(payload_hash) is None:
                return None
            caller = _with_payload(caller, payload_hash.decode())
        if request.client_ip == standing.client_ip and request.scheme == standing.scheme:
            return caller
        principal = dataclasses.replace(caller.principal, context=_context(request))
        return msgspec.structs.replace(caller, principal=principal)

    def _is_signed(self, resigning: Resigning, parts: templates.Parts, now_ms: int) -> bool:
        """Return whether a signature is right, and from now: see `_read_signed` and `_compute`."""
        timestamp = parts[0].decode()
        if timestamp != self._stamp[0]:
            moment_ms = sigv4.parse_timestamp(timestamp)
            if moment_ms is None:
                return False
            self._stamp = (timestamp, moment_ms)
        age_ms = now_ms - self._stamp[1]
        if age_ms < -limits.CLOCK_SKEW_MS_MAX:
            return False
        if age_ms >= resigning.expires_ms:
            return False
        if parts == resigning.latest:
            return True
        if timestamp[:8] != resigning.date:
            return False
        pieces = resigning.pieces
        canonical = pieces[0]
        for position, index in enumerate(resigning.order, 1):
            canonical += parts[index] + pieces[position]
        # Written out, as each call counts (0029): `sigv4.string_to_sign` and `sigv4.matches`.
        text = b"%b\n%b\n%b\n%b" % (
            _ALGORITHM,
            parts[0],
            resigning.scope,
            hashlib.sha256(canonical).hexdigest().encode(),
        )
        if not hmac.compare_digest(resigning.signer.sign_bytes(text).encode(), parts[1]):
            return False
        resigning.latest = parts
        return True

    def of_bytes(self, standing: Standing, parts: templates.Parts) -> Standing:
        """Return the Standing of a presigned URL for requests of the same bytes.

        standing: of its template; its signature is right. parts: its values.
        """
        resigning = standing.resigning
        signed_at_ms = sigv4.parse_timestamp(parts[0].decode())
        assert resigning is not None, "it is of a template"
        assert signed_at_ms is not None, "its signature is right"
        return standing._replace(
            resigning=None,
            from_ms=signed_at_ms - limits.CLOCK_SKEW_MS_MAX,
            until_ms=min(standing.until_ms, signed_at_ms + resigning.expires_ms),
        )

    def renew(self, caller: callers.Caller) -> callers.Caller:
        """Return a caller with the rights that it has now, after a wait for its body.

        A client may send a body for minutes; a right or a key that was taken away meanwhile is
        gone. Raises InvalidToken.
        """
        principal = self._principals.current(caller.principal)
        if principal is None:
            raise errors.InvalidToken("the credentials ended during the request")
        return msgspec.structs.replace(caller, principal=principal)

    async def verify(self, request: asgi.Request, face: str) -> callers.Caller:
        """Return the caller of a request to a face: the result of `begin`, awaited if necessary."""
        caller = self.begin(request, face)
        return caller if isinstance(caller, callers.Caller) else await caller

    def begin(
        self, request: asgi.Request, face: str
    ) -> callers.Caller | Coroutine[Any, Any, callers.Caller]:
        """Return the caller of a request to a face, or a coroutine that reads the body and returns
        it.

        The body is read for services other than s3, which sign its hash without sending it;
        `request.read` keeps it. Raises AuthError, PayloadError and what reading a body raises.
        """
        if self._open_to_all:
            return self._as_root(request, face)
        # An empty Authorization header has no credential.
        raw = request.headers.joined.get(b"authorization") or None
        if raw is not None and request.query and face == dispatch.S3:
            _check_one_proof(request.query)
        if raw is not None and raw.startswith(b"AWS4-"):
            signed = self._read_signed(request, face, raw.decode("latin-1"))
        elif raw is None and request.query and presign.is_v4(request.query):
            signed = self._read_presigned(request, face)
        else:
            return self._verify_otherwise(request, face, raw)
        entry = self._known(signed.claim.credential.access_key, signed.token)
        if face == dispatch.S3:
            return self._judge(request, face, signed, signed.payload_hash, entry)
        if entry is None:
            raise _no_access_key(signed.claim.credential.access_key)
        return self._judge_body(request, face, signed, entry)

    async def _judge_body(
        self, request: asgi.Request, face: str, signed: _Signed, entry: model.KeyedPrincipal
    ) -> callers.Caller:
        """Return the caller whose signature covers the hash of a body."""
        limit_bytes = BODY_BYTES_MAX.get(face, limits.MODEL_BODY_BYTES_MAX)
        announced = _announced_hash(request.headers.joined, signed.claim.covered)
        if announced is None:
            # The body's hash is signed and not sent, so the body is read first.
            payload_hash = await _hash_body(request, limit_bytes)
            return self._judge(request, face, signed, payload_hash, entry)
        caller = self._judge(request, face, signed, announced, entry)
        request.proven = True
        computed = await _hash_body(request, limit_bytes)
        if computed != announced.lower():
            raise errors.PayloadHashMismatch(
                "the body's SHA-256 is not the signed x-amz-content-sha256",
                expected=announced,
                computed=computed,
            )
        return caller

    def verify_post(
        self, request: asgi.Request, fields: Mapping[str, str]
    ) -> tuple[callers.Caller, postpolicy.PostPolicy | None]:
        """Return the caller of a POST form, and its policy, whose signature and conditions are
        checked.

        fields: the form's, by lower-case name, with the `bucket` of the request.
        `postpolicy.check_size` checks the file's size. A form without signature is anonymous. The
        caller's payload is the file, which no signature covers. Raises AuthError.
        """
        if self._open_to_all:
            everybody = self._as_root(request, dispatch.S3)
            return msgspec.structs.replace(everybody, payload=chunked.UNSIGNED_PAYLOAD), None
        proof = postpolicy.parse_proof(fields)
        if proof is None:
            return self.unverified(request), None
        scheme: callers.Scheme
        signed_at_ms: int | None = None
        if isinstance(proof, postpolicy.ProofV4):
            credential = proof.credential
            sigv4.check_scope(
                credential,
                timestamp=proof.timestamp,
                services=SERVICES[dispatch.S3],
                region=self._region,
            )
            entry = self._known(credential.access_key, proof.security_token)
            secret_key = NO_SECRET if entry is None else entry.secret_key
            computed = self._signer(secret_key, credential).sign(proof.policy)
            access_key, scheme = credential.access_key, "sigv4-query"
            signed_at_ms = sigv4.parse_timestamp(proof.timestamp)
        else:
            entry = self._known(proof.access_key, proof.security_token)
            secret_key = NO_SECRET if entry is None else entry.secret_key
            computed = sigv2.sign(secret_key, proof.policy.encode())
            access_key, scheme = proof.access_key, "sigv2-query"
        same = sigv4.matches(computed, proof.signature)
        if entry is None:
            raise _no_access_key(access_key)
        if not same:
            raise errors.SignatureDoesNotMatch(
                "the form's signature does not match; check the secret key and how the policy is "
                "signed",
                access_key=access_key,
                signature_provided=proof.signature,
                string_to_sign=proof.policy,
                canonical_request="",
            )
        policy = postpolicy.parse_policy(proof.policy)
        postpolicy.check_policy(policy, fields, now_ms=self._now_ms())
        caller = callers.Caller(
            principal=self._in_context(entry.principal, request),
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id=access_key,
            signing=callers.Signing(scheme=scheme, signed_at_ms=signed_at_ms),
        )
        return caller, policy

    def _verify_otherwise(
        self, request: asgi.Request, face: str, raw: bytes | None
    ) -> callers.Caller:
        """Return the caller of a request without a version 4 signature."""
        if raw is None:
            if face == dispatch.S3:
                if request.query and presign.is_v2(request.query):
                    return self._presigned_v2(request)
                return self._anonymous(request)
            raw = request.headers.joined.get(b"original-authorization")
            if raw is None:
                return self.unverified(request)
        authorization = raw.decode("latin-1")
        scheme, _, rest = authorization.partition(" ")
        match scheme.lower():
            case "bearer" if face in BEARER_FACES:
                return self._bearer(request, rest.strip())
            case "basic" if face in BASIC_FACES:
                return self._basic(request, rest.strip(), face)
            case "aws" if face == dispatch.S3 and self._sigv2_header:
                return self._signed_v2(request, authorization)
        raise _refused_scheme(scheme, face)

    def _read_signed(self, request: asgi.Request, face: str, authorization: str) -> _Signed:
        """Parse a header's signature; check what does not need the secret or the body."""
        joined = request.headers.joined
        head, _, signature = authorization.rpartition("Signature=")
        verified = self._proven.get(head)
        if verified is not None:
            claim, signing = verified
        else:
            proof = sigv4.parse_authorization(authorization)
            claim, signing = proof.claim, _signing_of(proof.claim, scheme="sigv4")
            if proof.signature != signature:
                # The signature is not the last field: valid, but too rare for the cache.
                head, signature = "", proof.signature
        timestamp, signed_at_ms = self._time_of(joined)
        sigv4.check_scope(
            claim.credential,
            timestamp=timestamp,
            services=SERVICES.get(face, ()),
            region=self._region,
        )
        sigv4.check_skew(signed_at_ms, now_ms=self._now_ms())
        content_sha256 = None
        if face == dispatch.S3:
            raw = joined.get(b"x-amz-content-sha256")
            if raw is None:
                raise errors.MissingPayloadHash("a signed request has no x-amz-content-sha256")
            content_sha256 = raw.decode("latin-1")
            _check_coverage(joined, claim.covered)
        token = joined.get(b"x-amz-security-token")
        return _Signed(
            claim=claim,
            signing=signing,
            signature=signature,
            timestamp=timestamp,
            content_sha256=content_sha256,
            payload_hash=content_sha256 or "",
            token=None if token is None else token.decode("latin-1"),
            head=head if verified is None else "",
        )

    def _read_presigned(self, request: asgi.Request, face: str) -> _Signed:
        """Parse a query's signature; check what does not need the secret or the body."""
        parsed = self._presigned.get(request.query)
        if parsed is None:
            presigned = presign.parse_v4(request.pairs)
            signing = _signing_of(presigned.proof.claim, scheme="sigv4-query")
        else:
            presigned, signing = parsed
        claim = presigned.proof.claim
        sigv4.check_scope(
            claim.credential,
            timestamp=presigned.timestamp,
            services=SERVICES.get(face, ()),
            region=self._region,
            in_query=True,
        )
        presign.check_v4_time(presigned, now_ms=self._now_ms())
        headers = request.headers
        content_sha256 = presigned.content_sha256 or headers.get("x-amz-content-sha256")
        payload_hash = chunked.UNSIGNED
        if face == dispatch.S3:
            _check_coverage(headers.joined, claim.covered, excepted=PRESIGN_UNSIGNED_EXCEPTIONS)
            if presigned.content_sha256 or b"x-amz-content-sha256" in claim.covered:
                payload_hash = content_sha256 or chunked.UNSIGNED
                if not payload_hash.isascii():
                    raise chunked.malformed_hash(payload_hash)
        return _Signed(
            claim=claim,
            signing=signing,
            signature=presigned.proof.signature,
            timestamp=presigned.timestamp,
            content_sha256=content_sha256,
            payload_hash=payload_hash,
            token=presigned.security_token or headers.get("x-amz-security-token"),
            without=WITHOUT_SIGNATURE,
            presigned=presigned if parsed is None else None,
        )

    def _time_of(self, joined: Mapping[bytes, bytes]) -> tuple[str, int]:
        """Return the signing time of a request, as text and in Unix milliseconds."""
        raw = joined.get(b"x-amz-date")
        signed_at_ms: int | None
        if raw is not None:
            timestamp = raw.decode("latin-1")
            # Most requests have the signing second of the previous one.
            if timestamp == self._stamp[0]:
                return self._stamp
            signed_at_ms = sigv4.parse_timestamp(timestamp)
            if signed_at_ms is not None:
                self._stamp = (timestamp, signed_at_ms)
                return self._stamp
        elif (raw := joined.get(b"date")) is not None:
            signed_at_ms = sigv4.parse_date_header(raw.decode("latin-1"))
            if signed_at_ms is not None:
                return sigv4.format_timestamp(signed_at_ms), signed_at_ms
        raise _no_date()

    def _judge(
        self,
        request: asgi.Request,
        face: str,
        signed: _Signed,
        payload_hash: str,
        entry: model.KeyedPrincipal | None,
    ) -> callers.Caller:
        """Return the caller of a signature, after its verification."""
        claim = signed.claim
        credential = claim.credential
        joined = request.headers.joined
        verdict = _Verdict(
            claim=claim,
            in_query=bool(signed.without),
            secret_key=NO_SECRET if entry is None else entry.secret_key,
            method=request.method,
            raw_path=request.raw_path,
            query=request.query,
            headers=tuple(map(joined.get, claim.names)),
            timestamp=signed.timestamp,
            payload_hash=payload_hash,
        )
        if entry is None or self._verdicts.get(signed.signature) != verdict:
            self._compute(request, signed, payload_hash, entry)
            self._remember(request, signed, verdict)
        if entry is None:
            raise _no_access_key(credential.access_key)
        payload, content_sha256 = chunked.UNSIGNED_PAYLOAD, signed.content_sha256
        if content_sha256 is None:
            content_sha256 = chunked.UNSIGNED
        if face == dispatch.S3 and content_sha256 != chunked.UNSIGNED:
            seed = None
            if content_sha256.startswith(chunked.STREAMING_PREFIX):
                seed = chunked.Seed(
                    signing_key=self._signing_key(entry.secret_key, credential)[0],
                    timestamp=signed.timestamp,
                    scope=credential.scope,
                    signature=signed.signature,
                )
            payload = _payload_of(joined, content_sha256, seed)
        return callers.Caller(
            principal=self._in_context(entry.principal, request),
            payload=payload,
            credential_id=credential.access_key,
            signing=signed.signing,
        )

    def _compute(
        self,
        request: asgi.Request,
        signed: _Signed,
        payload_hash: str,
        entry: model.KeyedPrincipal | None,
    ) -> None:
        """Compute the signature and compare it. Raises InvalidAccessKey, SignatureDoesNotMatch."""
        claim = signed.claim
        credential = claim.credential
        joined = request.headers.joined
        method = request.method
        if signed.without and method == "HEAD":
            method = presign.signed_method(method, request.query)
        canonical = sigv4.canonical_request(
            method=method,
            path=sigv4.canonical_path(request.raw_path, double_encoded=credential.service != "s3"),
            query=sigv4.canonical_query(request.query, without=signed.without),
            headers=sigv4.canonical_headers(joined, claim.names),
            names=claim.names,
            payload_hash=payload_hash,
        )
        text = sigv4.string_to_sign(signed.timestamp, credential.scope, canonical)
        secret_key = NO_SECRET if entry is None else entry.secret_key
        computed = self._signer(secret_key, credential).sign(text)
        same = sigv4.matches(computed, signed.signature)
        if entry is None:
            raise _no_access_key(credential.access_key)
        if not same:
            raise errors.SignatureDoesNotMatch(
                "the request's signature does not match; check the secret key and "
                "how the request is signed",
                access_key=credential.access_key,
                signature_provided=signed.signature,
                string_to_sign=text,
                canonical_request=canonical.decode("latin-1"),
            )

    def _remember(self, request: asgi.Request, signed: _Signed, verdict: _Verdict) -> None:
        """Cache a right signature. Wrong ones would let any client fill the tables."""
        if signed.head:
            _keep(
                self._proven, signed.head, (signed.claim, signed.signing), limits.SIGNED_CLAIMS_MAX
            )
        headers_bytes = sum([len(value) for value in verdict.headers if value])
        if len(verdict.raw_path) + len(verdict.query) + headers_bytes > limits.VERDICT_BYTES_MAX:
            return
        if signed.presigned is not None:
            _keep(
                self._presigned,
                request.query,
                (signed.presigned, signed.signing),
                limits.VERDICTS_MAX,
            )
        _keep(self._verdicts, signed.signature, verdict, limits.VERDICTS_MAX)

    def _known(self, access_key: str, token: str | None) -> model.KeyedPrincipal | None:
        """Return the principal of an access key: a stored key, or one vended with the token."""
        if token is None:
            return self._principals.find(access_key)
        claims = self._claims(token, types=("sts",))
        if tokens.vended_access_key(claims.token_id) != access_key:
            raise errors.InvalidToken("the session token belongs to another access key")
        return model.KeyedPrincipal(
            principal=self._in_session(claims, tokens.scopes_of(claims)),
            access_key=access_key,
            secret_key=tokens.vended_secret_key(self._ring, claims.token_id),
        )

    def _in_session(
        self, claims: tokens.Claims, scopes: tuple[model.Scope, ...] | None
    ) -> model.Principal:
        """Return the principal of a session, a role's if the token has one. Raises InvalidToken."""
        owner = self._principals.of_claims(claims)
        principal = None if owner is None else owner.principal
        if principal is not None and "role" in claims.extra:
            principal = self._principals.assume(claims)
        if principal is None:
            raise errors.InvalidToken("the principal of the session token no longer exists")
        session = model.CredentialSession(
            subject=claims.subject,
            token_id=claims.token_id,
            issued_at_ms=claims.issued_at_ms,
            expires_at_ms=claims.expires_at_ms,
            claims={name: value for name, value in claims.extra.items() if name != "scp"},
        )
        return dataclasses.replace(principal, scopes=scopes, session=session)

    def _presigned_v2(self, request: asgi.Request) -> callers.Caller:
        presigned = presign.parse_v2(request.pairs)
        presign.check_v2_time(presigned, now_ms=self._now_ms())
        principal = self._check_v2(
            request,
            sigv2.SigV2Proof(access_key=presigned.access_key, signature=presigned.signature),
            expires=presigned.expires,
            token=presigned.security_token,
        )
        return self._caller_v2(request, principal, presigned.access_key, scheme="sigv2-query")

    def _signed_v2(self, request: asgi.Request, authorization: str) -> callers.Caller:
        names = tuple(name for name, _ in request.pairs if _is_meant_as_header(name))
        if names:
            # The header form of version 2 signs only some parameters of the query.
            raise errors.HeadersNotSigned(
                f"parameters were present which were not signed: {', '.join(names)}", names=names
            )
        proof = sigv2.parse_authorization(authorization)
        # The signature covers x-amz-date in place of Date, also an empty one.
        date = request.headers.get("x-amz-date")
        if date is None:
            date = request.headers.get("date")
        signed_at_ms = None if date is None else sigv4.parse_date_header(date)
        if signed_at_ms is None or signed_at_ms < 0:
            raise _no_date()
        sigv4.check_skew(signed_at_ms, now_ms=self._now_ms())
        token = request.headers.get("x-amz-security-token")
        principal = self._check_v2(request, proof, expires=None, token=token)
        return self._caller_v2(request, principal, proof.access_key, scheme="sigv2")

    def _check_v2(
        self,
        request: asgi.Request,
        proof: sigv2.SigV2Proof,
        *,
        expires: str | None,
        token: str | None,
    ) -> model.Principal:
        entry = self._known(proof.access_key, token)
        secret_key = NO_SECRET if entry is None else entry.secret_key
        bucket = dispatch.bucket_of_host(request.host, self._domain)
        texts = [
            sigv2.string_to_sign(
                method=request.method,
                raw_path=raw_path,
                query=query,
                headers=request.headers.raw,
                bucket_of_host=bucket,
                expires=expires,
            )
            for raw_path in sigv2.resources_of(request.raw_path, bucket)
            for query in sigv2.queries_of(request.query)
        ]
        same = any(sigv4.matches(sigv2.sign(secret_key, text), proof.signature) for text in texts)
        if entry is None:
            raise _no_access_key(proof.access_key)
        if not same:
            raise errors.SignatureDoesNotMatch(
                "the request's signature does not match; check the secret key and "
                "how the request is signed",
                access_key=proof.access_key,
                signature_provided=proof.signature,
                string_to_sign=texts[0].decode("latin-1"),
                canonical_request="",
            )
        return entry.principal

    def _bearer(self, request: asgi.Request, token: str) -> callers.Caller:
        claims = self._claims(token, types=BEARER_TYPES)
        if "role" in claims.extra or principals.JOB_CLAIM in claims.extra:
            principal = self._in_session(claims, None)
        else:
            entry = self._principals.of_claims(claims)
            if entry is None:
                raise errors.InvalidToken("the principal of the token no longer exists")
            principal = entry.principal
        return callers.Caller(
            principal=self._in_context(principal, request),
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id=claims.token_id,
            signing=callers.Signing(scheme="bearer"),
        )

    def _basic(self, request: asgi.Request, text: str, face: str) -> callers.Caller:
        try:
            user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise errors.MalformedAuthorization("the Basic credentials are malformed") from None
        try:
            if not colon:
                raise access_errors.WrongPassword("the request has no password")
            with self._throttle.attempt(user, request.client_ip):
                principal = self._principals.check_password(user, password, door=face)
        except access_errors.WrongPassword:
            raise errors.InvalidAccessKey(
                "the user name or the password is wrong", access_key=user
            ) from None
        return callers.Caller(
            principal=self._in_context(principal, request),
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id=user,
            signing=callers.Signing(scheme="basic"),
        )

    def _claims(self, token: str, *, types: tuple[tokens.TokenType, ...]) -> tokens.Claims:
        now_ms = self._now_ms()
        claims = self._verified.get(token)
        if claims is None:
            try:
                claims = tokens.verify(self._ring, token, types=types, now_ms=now_ms)
            except access_errors.ExpiredJWT as error:
                raise errors.ExpiredToken(str(error)) from None
            except access_errors.InvalidJWT as error:
                raise errors.InvalidToken(str(error)) from None
            _keep(self._verified, token, claims, limits.VERIFIED_TOKENS_MAX)
        if claims.typ not in types:
            raise errors.InvalidToken("the token is for another use")
        if now_ms >= claims.expires_at_ms:
            del self._verified[token]
            raise errors.ExpiredToken("the token has expired")
        return claims

    def _signer(self, secret_key: str, credential: sigv4.Credential) -> sigv4.Signer:
        """Return what signs with the key of a scope."""
        return self._signing_key(secret_key, credential)[1]

    def _signing_key(
        self, secret_key: str, credential: sigv4.Credential
    ) -> tuple[bytes, sigv4.Signer]:
        name = (secret_key, credential.date, credential.region, credential.service)
        pair = self._signing_keys.get(name)
        if pair is None:
            key = sigv4.signing_key(
                secret_key,
                date=credential.date,
                region=credential.region,
                service=credential.service,
            )
            pair = key, sigv4.Signer(key)
            _keep(self._signing_keys, name, pair, limits.SIGNING_KEYS_MAX)
        return pair

    def _in_context(self, principal: model.Principal, request: asgi.Request) -> model.Principal:
        """Return the principal with the connection's condition keys."""
        if principal.session is not None:
            return dataclasses.replace(principal, context=_context(request))
        key = (principal.arn, request.client_ip, request.scheme)
        cached = self._connected.get(key)
        # Identity, not equality: a changed principal is another object.
        if cached is not None and cached[0] is principal:
            return cached[1]
        connected = dataclasses.replace(principal, context=_context(request))
        _keep(self._connected, key, (principal, connected), limits.CONNECTED_PRINCIPALS_MAX)
        return connected

    def _caller_v2(
        self,
        request: asgi.Request,
        principal: model.Principal,
        access_key: str,
        *,
        scheme: callers.Scheme,
    ) -> callers.Caller:
        return callers.Caller(
            principal=self._in_context(principal, request),
            payload=_unsigned_payload(request),
            credential_id=access_key,
            signing=callers.Signing(scheme=scheme),
        )

    def _anonymous(self, request: asgi.Request) -> callers.Caller:
        return callers.Caller(
            principal=self._in_context(_ANONYMOUS, request),
            payload=_unsigned_payload(request),
            credential_id="",
            signing=_NO_SIGNING,
        )

    def _check_not_foreign(self, request: asgi.Request) -> None:
        """Raise AccessDenied for a request that a browser sends for a page of another site.

        Its Origin names another site, or its Host is a name that the site resolves to this address.
        """
        origin = request.headers.get("origin", request.origin)
        if origin == request.origin and _is_local(request.host, self._domain):
            return
        raise access_errors.AccessDenied(
            "without authentication only this machine's own names and pages are served; this "
            f"request is for {request.host[:200]!r} and from {str(origin)[:200]!r}",
            action="*",
            resource="*",
        )

    def _as_root(self, request: asgi.Request, face: str) -> callers.Caller:
        self._check_not_foreign(request)
        if face in FORM_FACES and request.method != "POST":
            # A browser names no Origin when a page of another site loads an image, by GET.
            raise access_errors.AccessDenied(
                f"without authentication requests to {face} are POSTs", action="*", resource="*"
            )
        return callers.Caller(
            principal=self._in_context(self._principals.root, request),
            payload=(
                _unsigned_payload(request) if face == dispatch.S3 else chunked.UNSIGNED_PAYLOAD
            ),
            credential_id="",
            signing=callers.Signing(scheme="open"),
        )


class Resigning(msgspec.Struct, kw_only=True):
    """What verifies another signature, in header or query, over a request that was signed before.

    date, scope: of the credential, as the template has it. pieces: the canonical request between
    the values that differ; order: the number of each value among the parts. payload_index: that of
    the body's hash; None if it does not differ. latest: the parts of the latest right signature,
    which is not computed again; empty before. expires_ms: the age at which a signature holds no
    more; that in a header holds for a difference of clocks. Mutable.
    """

    signer: sigv4.Signer
    date: str
    scope: bytes
    pieces: list[bytes]
    order: tuple[int, ...]
    payload_index: int | None
    latest: templates.Parts
    expires_ms: int = limits.CLOCK_SKEW_MS_MAX + 1


class Standing(NamedTuple):
    """An authentication that is valid for all requests of the same bytes, for a time.

    caller: of the first request, from client_ip over scheme. owner: the principal's entry at that
    time; a changed entry invalidates it. from_ms, until_ms: its validity, until_ms excluded.
    resigning: verifies the signature of each request, None if all have the same.
    """

    caller: callers.Caller
    owner: model.KeyedPrincipal
    client_ip: str
    scheme: str
    from_ms: int
    until_ms: int
    resigning: Resigning | None = None


class _Signed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A version 4 signature that is parsed and not verified yet. A Struct, because each signed
    request creates one: it costs a third of a named tuple.

    payload_hash: its text in the canonical request; empty if it is computed from the body. head:
    the cache key of its claim; empty if it is cached already or must not be. presigned: the
    query's parameters if they are to be cached.
    """

    claim: sigv4.Claim
    signing: callers.Signing
    signature: str
    timestamp: str
    content_sha256: str | None
    payload_hash: str
    token: str | None
    without: frozenset[bytes] = frozenset()
    head: str = ""
    presigned: presign.PresignV4 | None = None


class _Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The complete input of a right signature. A request with an equal verdict and the same
    signature has a right signature, too.

    in_query: the signature is in the query, which is signed without it, and expires. headers: the
    values of claim.names, None for an absent one.
    """

    claim: sigv4.Claim
    in_query: bool
    secret_key: str
    method: str
    raw_path: bytes
    query: bytes
    headers: tuple[bytes | None, ...]
    timestamp: str
    payload_hash: str


_ANONYMOUS: Final = model.anonymous()
_NO_SIGNING: Final = callers.Signing(scheme="none")

_K = TypeVar("_K")
_V = TypeVar("_V")


def _keep(table: dict[_K, _V], key: _K, value: _V, count_max: int) -> None:
    """Add an entry to a bounded cache; a full cache is cleared first."""
    if len(table) >= count_max:
        table.clear()
    table[key] = value


def _announced_hash(joined: Mapping[bytes, bytes], covered: frozenset[bytes]) -> str | None:
    """Return the body's hash from a signed header, or None."""
    raw = joined.get(b"x-amz-content-sha256")
    if raw is None or b"x-amz-content-sha256" not in covered or _HEX_SHA256.fullmatch(raw) is None:
        return None
    return raw.decode()


async def _hash_body(request: asgi.Request, limit_bytes: int) -> str:
    body = await request.read(limit_bytes=limit_bytes)
    if len(body) <= limits.HASHED_HERE_BYTES_MAX:
        return hashlib.sha256(body).hexdigest()
    return await asyncio.to_thread(_hash_and_release, memoryview(body))


def _hash_and_release(body: memoryview) -> str:
    """Return the hash of a view's bytes, which the view no longer keeps alive.

    A thread may hold its arguments for some time after its result is out, while the body's share
    of the memory goes to the next request.
    """
    with body:
        return hashlib.sha256(body).hexdigest()


def _is_local(host: str, domain: str | None) -> bool:
    """Return whether a Host header names this machine in a way that other machines cannot use."""
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    name = name.strip("[]").lower()
    labels = name.split(".")
    if domain and labels[-len(domain.split(".")) :] == domain.lower().split("."):
        return True
    return not name or labels[-1] == dispatch.LOCAL_DOMAIN or config.is_loopback(name)


def _refused_scheme(scheme: str, face: str) -> errors.UnsupportedAuthorization:
    """Return the error of an Authorization header whose scheme a face does not take."""
    refusal: type[errors.UnsupportedAuthorization] = errors.UnknownScheme
    hint = ""
    match scheme.lower():
        case "bearer":
            hint = "; the Iceberg REST catalog is at /iceberg"
        case "aws":
            refusal = errors.UnsupportedAuthorization
            if face == dispatch.S3:
                hint = (
                    ": it is Signature Version 2; sign with AWS4-HMAC-SHA256, or let the server "
                    "take it by the setting sigv2_header"
                )
    return refusal(
        f"authorization by {scheme[:40]!r} is not accepted here{hint}", scheme=scheme[:40]
    )


def _no_date() -> errors.InvalidDate:
    return errors.InvalidDate("AWS authentication requires a valid Date or x-amz-date header")


def _check_one_proof(query: bytes) -> None:
    """Raise SeveralProofs if the query of a request with an Authorization header is signed too."""
    if presign.is_v4(query) or presign.is_v2(query):
        raise errors.SeveralProofs(
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature "
            "query string parameter or the Authorization header should be specified"
        )


def _no_access_key(access_key: str) -> errors.InvalidAccessKey:
    return errors.InvalidAccessKey("the access key does not exist", access_key=access_key)


def _signing_of(claim: sigv4.Claim, *, scheme: callers.Scheme) -> callers.Signing:
    return callers.Signing(
        scheme=scheme,
        region=claim.credential.region,
        service=claim.credential.service,
        signed_headers=claim.signed_headers,
    )


def _unsigned_payload(request: asgi.Request) -> chunked.Payload:
    """Return the payload checks of an S3 body that no version 4 signature covers."""
    joined = request.headers.joined
    raw = joined.get(b"x-amz-content-sha256")
    return _payload_of(joined, None if raw is None else raw.decode("latin-1"), None)


def _payload_of(
    joined: Mapping[bytes, bytes], content_sha256: str | None, seed: chunked.Seed | None
) -> chunked.Payload:
    if content_sha256 is None or not content_sha256.startswith(chunked.STREAMING_PREFIX):
        return chunked.parse_payload(content_sha256, decoded_length=None, trailer=None, seed=None)
    length = joined.get(b"x-amz-decoded-content-length")
    trailer = joined.get(b"x-amz-trailer")
    return chunked.parse_payload(
        content_sha256,
        decoded_length=None if length is None else length.decode("latin-1"),
        trailer=None if trailer is None else trailer.decode("latin-1"),
        seed=seed,
    )


def _with_payload(caller: callers.Caller, payload_hash: str) -> callers.Caller:
    """Return the caller of another body. payload_hash: its SHA-256 in hexadecimal."""
    return callers.Caller(
        principal=caller.principal,
        payload=_payload_of({}, payload_hash, None),
        credential_id=caller.credential_id,
        signing=caller.signing,
    )


def _check_coverage(
    joined: Mapping[bytes, bytes],
    covered: frozenset[bytes],
    *,
    excepted: frozenset[bytes] = frozenset(),
) -> None:
    names = sigv4.unsigned_names(joined, covered, excepted=excepted)
    if names:
        raise errors.HeadersNotSigned(
            f"headers were present which were not signed: {', '.join(names)}", names=names
        )


def _is_meant_as_header(parameter: str) -> bool:
    """Return whether a parameter of the query has the meaning of a header, or gives it to others:
    beside those of a presigned URL of version 2, Content-Type has it."""
    return parameter[:6].lower() == "x-amz-" or parameter in presign.V2_PARAMETERS


def _context(request: asgi.Request) -> Mapping[str, model.ContextValue]:
    return conditionkeys.of_connection(request.client_ip, request.scheme)
