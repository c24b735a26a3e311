"""engine: a request's proof of identity, whichever it is, becomes a Caller.

The schemes are rules of their own; here they meet the clock, the principals and, for services that
sign their body's hash without sending it, the body. Three things are remembered: keys derived for
a day's signatures, tokens already verified, and principals with their connection's condition
keys; each is bounded and holds nothing that could outlive a change of credentials.

An unknown access key costs the same computation as a wrong signature. Who has no credential at all
is the anonymous principal, and what that may do is not decided here.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias

from server import asgi, dispatch, limits
from server.access import errors as access_errors
from server.access import model, principals, tokens
from server.auth import callers, chunked, errors, postpolicy, presign, sigv2, sigv4
from storage import model as storage_model

SERVICES: Final = {
    dispatch.S3: ("s3",),
    dispatch.S3TABLES: ("s3tables",),
    dispatch.STS: ("sts",),
    dispatch.IAM: ("iam",),
    dispatch.ICEBERG: ("s3tables", "glue", "execute-api"),
    dispatch.NATIVE: ("s3tables", "execute-api"),
}
"""Which services of a credential scope each face takes."""

BEARER_FACES: Final = frozenset({dispatch.ICEBERG, dispatch.NATIVE})
BASIC_FACES: Final = frozenset({dispatch.NATIVE})
BEARER_TYPES: Final[tuple[tokens.TokenType, ...]] = ("access", "job")

NO_SECRET: Final = "an access key that nobody has"
PRESIGN_UNSIGNED_EXCEPTIONS: Final = frozenset({b"x-amz-content-sha256"})
WITHOUT_SIGNATURE: Final = frozenset({presign.SIGNATURE_PARAMETER})

ContextKey: TypeAlias = tuple[str, str, str]


class Verifier:
    """Proofs in, callers out.

    region: the one that scopes must name, or None to take any. sigv2_header: whether the header
    form of version 2 is taken. open_to_all: everybody is root and no signature is looked at, only
    framing and hashes of bodies; `--no-auth`.
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
        self._region = region
        self._domain = domain
        self._sigv2_header = sigv2_header
        self._open_to_all = open_to_all
        self._signing_keys: dict[tuple[str, str, str, str], bytes] = {}
        self._verified: dict[str, tokens.Claims] = {}
        self._connected: dict[ContextKey, tuple[model.Principal, model.Principal]] = {}

    def nobody(self, request: asgi.Request) -> callers.Caller:
        """Return the caller of a request whose credentials are not looked at."""
        return callers.Caller(
            principal=self._in_context(_ANONYMOUS, request),
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id="",
            signing=_NO_SIGNING,
        )

    async def verify(self, request: asgi.Request, face: str) -> callers.Caller:
        """Return who sent a request to a face.

        Reads the body for services other than s3, which sign its hash unsent; `request.read` keeps
        it. Raises AuthError, PayloadError and what reading a body raises.
        """
        if self._open_to_all:
            return self._everybody(request, face)
        headers = request.headers
        authorization = headers.get("authorization")
        if authorization is None:
            if request.query and presign.is_v4(request.query):
                return await self._presigned(request, face)
            if face == dispatch.S3:
                if request.query and presign.is_v2(request.query):
                    return self._presigned_v2(request)
                return self._anonymous(request)
            authorization = headers.get("original-authorization")
            if authorization is None:
                return self.nobody(request)
        elif authorization.startswith("AWS4-"):
            return await self._signed(request, face, authorization)
        scheme, _, rest = authorization.partition(" ")
        match scheme.lower():
            case "bearer" if face in BEARER_FACES:
                return self._bearer(request, rest.strip())
            case "basic" if face in BASIC_FACES:
                return self._basic(request, rest.strip())
            case "aws" if face == dispatch.S3 and self._sigv2_header:
                return self._signed_v2(request, authorization)
        raise errors.UnsupportedAuthorization(
            f"authorization by {scheme[:40]!r} is not taken here", scheme=scheme[:40]
        )

    def verify_post(
        self, request: asgi.Request, fields: Mapping[str, str]
    ) -> tuple[callers.Caller, postpolicy.PostPolicy | None]:
        """Return who sent a POST form, and the policy it carries, signed and met.

        fields: the form's, lower-case names, with `bucket` for where it was sent; the file's size
        is for `postpolicy.check_size`. A form without signature is anonymous. Raises AuthError.
        """
        if self._open_to_all:
            return self._everybody(request, dispatch.S3), None
        proof = postpolicy.parse_proof(fields)
        if proof is None:
            return self._anonymous(request), None
        scheme: callers.Scheme
        if isinstance(proof, postpolicy.ProofV4):
            credential = proof.credential
            sigv4.check_scope(
                credential,
                timestamp=proof.timestamp,
                services=SERVICES[dispatch.S3],
                region=self._region,
            )
            known = self._known(credential.access_key, proof.security_token)
            key = self._signing_key(NO_SECRET if known is None else known.secret_key, credential)
            computed = sigv4.sign(key, proof.policy)
            access_key, scheme = credential.access_key, "sigv4-query"
        else:
            known = self._known(proof.access_key, proof.security_token)
            secret_key = NO_SECRET if known is None else known.secret_key
            computed = sigv2.sign(secret_key, proof.policy.encode())
            access_key, scheme = proof.access_key, "sigv2-query"
        same = sigv4.matches(computed, proof.signature)
        if known is None:
            raise errors.InvalidAccessKey("the access key does not exist", access_key=access_key)
        if not same:
            raise errors.SignatureDoesNotMatch(
                "the form's signature is not the one computed here",
                access_key=access_key,
                signature_provided=proof.signature,
                string_to_sign=proof.policy,
                canonical_request="",
            )
        policy = postpolicy.parse_policy(proof.policy)
        postpolicy.check_policy(policy, fields, now_ms=self._now_ms())
        caller = callers.Caller(
            principal=self._in_context(known.principal, request),
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id=access_key,
            signing=callers.Signing(scheme=scheme),
        )
        return caller, policy

    async def _signed(self, request: asgi.Request, face: str, authorization: str) -> callers.Caller:
        headers = request.headers
        proof = sigv4.parse_authorization(authorization)
        timestamp = headers.get("x-amz-date")
        signed_at_ms = None
        if timestamp is not None:
            signed_at_ms = sigv4.parse_timestamp(timestamp)
        elif (date := headers.get("date")) is not None:
            signed_at_ms = sigv4.parse_date_header(date)
            if signed_at_ms is not None:
                timestamp = sigv4.format_timestamp(signed_at_ms)
        if timestamp is None or signed_at_ms is None:
            raise errors.MalformedAuthorization(
                "a signed request needs a valid x-amz-date or Date header"
            )
        sigv4.check_scope(
            proof.credential,
            timestamp=timestamp,
            services=SERVICES.get(face, ()),
            region=self._region,
        )
        sigv4.check_skew(signed_at_ms, now_ms=self._now_ms())
        content_sha256 = None
        if face == dispatch.S3:
            content_sha256 = headers.get("x-amz-content-sha256")
            if content_sha256 is None:
                raise errors.MalformedPayloadHash(
                    "x-amz-content-sha256 is missing from a signed request", given=""
                )
            _check_coverage(headers.raw, proof.signed_headers)
            payload_hash = content_sha256
        else:
            body = await request.read(limit_bytes=limits.SIGNED_BODY_BYTES_MAX)
            payload_hash = hashlib.sha256(body).hexdigest()
        token = headers.get("x-amz-security-token")
        principal, key = self._check_signature(
            request, proof, timestamp, payload_hash, token=token, query=request.query
        )
        payload = chunked.UNSIGNED_PAYLOAD
        if face == dispatch.S3:
            payload = chunked.parse_payload(
                content_sha256,
                decoded_length=headers.get("x-amz-decoded-content-length"),
                trailer=headers.get("x-amz-trailer"),
                seed=chunked.Seed(
                    signing_key=key,
                    timestamp=timestamp,
                    scope=proof.credential.scope,
                    signature=proof.signature,
                ),
            )
        return self._caller(request, principal, proof, payload, scheme="sigv4")

    async def _presigned(self, request: asgi.Request, face: str) -> callers.Caller:
        asked = presign.parse_v4(request.pairs)
        proof = asked.proof
        sigv4.check_scope(
            proof.credential,
            timestamp=asked.timestamp,
            services=SERVICES.get(face, ()),
            region=self._region,
            in_query=True,
        )
        presign.check_v4_time(asked, now_ms=self._now_ms())
        headers = request.headers
        content_sha256 = asked.content_sha256 or headers.get("x-amz-content-sha256")
        if face == dispatch.S3:
            _check_coverage(headers.raw, proof.signed_headers, excepted=PRESIGN_UNSIGNED_EXCEPTIONS)
            payload_hash = chunked.UNSIGNED
            if asked.content_sha256 or "x-amz-content-sha256" in proof.signed_headers:
                payload_hash = content_sha256 or chunked.UNSIGNED
        else:
            body = await request.read(limit_bytes=limits.SIGNED_BODY_BYTES_MAX)
            payload_hash = hashlib.sha256(body).hexdigest()
        principal, key = self._check_signature(
            request,
            proof,
            asked.timestamp,
            payload_hash,
            token=asked.security_token or headers.get("x-amz-security-token"),
            query=request.query,
            without=WITHOUT_SIGNATURE,
        )
        payload = chunked.UNSIGNED_PAYLOAD
        if face == dispatch.S3:
            payload = chunked.parse_payload(
                content_sha256,
                decoded_length=headers.get("x-amz-decoded-content-length"),
                trailer=headers.get("x-amz-trailer"),
                seed=chunked.Seed(
                    signing_key=key,
                    timestamp=asked.timestamp,
                    scope=proof.credential.scope,
                    signature=proof.signature,
                ),
            )
        return self._caller(request, principal, proof, payload, scheme="sigv4-query")

    def _check_signature(
        self,
        request: asgi.Request,
        proof: sigv4.Proof,
        timestamp: str,
        payload_hash: str,
        *,
        token: str | None,
        query: bytes,
        without: frozenset[bytes] = frozenset(),
    ) -> tuple[model.Principal, bytes]:
        credential = proof.credential
        canonical = sigv4.canonical_request(
            method=request.method,
            path=sigv4.canonical_path(request.raw_path, double_encoded=credential.service != "s3"),
            query=sigv4.canonical_query(query, without=without),
            headers=sigv4.canonical_headers(request.headers.raw, proof.signed_headers),
            signed_headers=proof.signed_headers,
            payload_hash=payload_hash,
        )
        text = sigv4.string_to_sign(timestamp, credential.scope, canonical)
        known = self._known(credential.access_key, token)
        key = self._signing_key(NO_SECRET if known is None else known.secret_key, credential)
        same = sigv4.matches(sigv4.sign(key, text), proof.signature)
        if known is None:
            raise errors.InvalidAccessKey(
                "the access key does not exist", access_key=credential.access_key
            )
        if not same:
            raise errors.SignatureDoesNotMatch(
                "the request's signature is not the one computed here; check the secret key and "
                "how the request is signed",
                access_key=credential.access_key,
                signature_provided=proof.signature,
                string_to_sign=text,
                canonical_request=canonical.decode("latin-1"),
            )
        return known.principal, key

    def _known(self, access_key: str, token: str | None) -> principals.Known | None:
        """Return whose access key it is: a stored one, or one vended with the token beside it."""
        if token is None:
            try:
                return self._principals.by_access_key(access_key)
            except access_errors.NoSuchAccessKey:
                return None
        claims = self._claims(token, types=("sts",))
        if tokens.vended_access_key(claims.token_id) != access_key:
            raise errors.InvalidToken("the session token belongs to another access key")
        owner = self._principals.by_name(claims.subject)
        if owner is None:
            raise errors.InvalidToken("the session token's owner is gone")
        return principals.Known(
            principal=dataclasses.replace(owner.principal, scopes=tokens.scopes_of(claims)),
            access_key=access_key,
            secret_key=tokens.vended_secret_key(self._ring, claims.token_id),
        )

    def _presigned_v2(self, request: asgi.Request) -> callers.Caller:
        asked = presign.parse_v2(request.pairs)
        presign.check_v2_time(asked, now_ms=self._now_ms())
        principal = self._check_v2(
            request,
            sigv2.Proof(access_key=asked.access_key, signature=asked.signature),
            expires=asked.expires,
            token=asked.security_token,
        )
        return self._caller_v2(request, principal, asked.access_key, scheme="sigv2-query")

    def _signed_v2(self, request: asgi.Request, authorization: str) -> callers.Caller:
        proof = sigv2.parse_authorization(authorization)
        date = request.headers.get("x-amz-date") or request.headers.get("date")
        signed_at_ms = None if date is None else sigv4.parse_date_header(date)
        if signed_at_ms is None:
            raise errors.MalformedAuthorization(
                "a signed request needs a valid x-amz-date or Date header"
            )
        sigv4.check_skew(signed_at_ms, now_ms=self._now_ms())
        token = request.headers.get("x-amz-security-token")
        principal = self._check_v2(request, proof, expires=None, token=token)
        return self._caller_v2(request, principal, proof.access_key, scheme="sigv2")

    def _check_v2(
        self,
        request: asgi.Request,
        proof: sigv2.Proof,
        *,
        expires: str | None,
        token: str | None,
    ) -> model.Principal:
        text = sigv2.string_to_sign(
            method=request.method,
            raw_path=request.raw_path,
            query=request.query,
            headers=request.headers.raw,
            bucket_of_host=dispatch.bucket_of_host(request.host, self._domain),
            expires=expires,
        )
        known = self._known(proof.access_key, token)
        computed = sigv2.sign(NO_SECRET if known is None else known.secret_key, text)
        same = sigv4.matches(computed, proof.signature)
        if known is None:
            raise errors.InvalidAccessKey(
                "the access key does not exist", access_key=proof.access_key
            )
        if not same:
            raise errors.SignatureDoesNotMatch(
                "the request's signature is not the one computed here; check the secret key and "
                "how the request is signed",
                access_key=proof.access_key,
                signature_provided=proof.signature,
                string_to_sign=text.decode("latin-1"),
                canonical_request="",
            )
        return known.principal

    def _bearer(self, request: asgi.Request, token: str) -> callers.Caller:
        claims = self._claims(token, types=BEARER_TYPES)
        known = self._principals.by_name(claims.subject)
        if known is None:
            raise errors.InvalidToken("the token's owner is gone")
        return callers.Caller(
            principal=self._in_context(known.principal, request),
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id=claims.token_id,
            signing=callers.Signing(scheme="bearer"),
        )

    def _basic(self, request: asgi.Request, text: str) -> callers.Caller:
        try:
            user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise errors.MalformedAuthorization("the Basic credentials cannot be read") from None
        try:
            if not colon:
                raise access_errors.WrongPassword("no password")
            principal = self._principals.check_password(user, password)
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
            except access_errors.ExpiredToken as error:
                raise errors.ExpiredToken(str(error)) from None
            except access_errors.InvalidToken as error:
                raise errors.InvalidToken(str(error)) from None
            if len(self._verified) >= limits.VERIFIED_TOKENS_MAX:
                self._verified.clear()
            self._verified[token] = claims
        if claims.typ not in types:
            raise errors.InvalidToken("the token is for another use")
        if now_ms >= claims.expires_at_ms:
            del self._verified[token]
            raise errors.ExpiredToken("the token has expired")
        return claims

    def _signing_key(self, secret_key: str, credential: sigv4.Credential) -> bytes:
        name = (secret_key, credential.date, credential.region, credential.service)
        key = self._signing_keys.get(name)
        if key is None:
            key = sigv4.signing_key(
                secret_key,
                date=credential.date,
                region=credential.region,
                service=credential.service,
            )
            if len(self._signing_keys) >= limits.SIGNING_KEYS_MAX:
                self._signing_keys.clear()
            self._signing_keys[name] = key
        return key

    def _in_context(self, principal: model.Principal, request: asgi.Request) -> model.Principal:
        """Return the principal with the connection's condition keys."""
        if principal.scopes is not None:
            return dataclasses.replace(principal, context=_context(request))
        key = (principal.arn, request.client_ip, request.scheme)
        found = self._connected.get(key)
        # Identity, not equality: a principal that changed is another object.
        if found is not None and found[0] is principal:
            return found[1]
        connected = dataclasses.replace(principal, context=_context(request))
        if len(self._connected) >= limits.CONNECTED_PRINCIPALS_MAX:
            self._connected.clear()
        self._connected[key] = (principal, connected)
        return connected

    def _caller(
        self,
        request: asgi.Request,
        principal: model.Principal,
        proof: sigv4.Proof,
        payload: chunked.Payload,
        *,
        scheme: callers.Scheme,
    ) -> callers.Caller:
        return callers.Caller(
            principal=self._in_context(principal, request),
            payload=payload,
            credential_id=proof.credential.access_key,
            signing=callers.Signing(
                scheme=scheme,
                region=proof.credential.region,
                service=proof.credential.service,
                signed_headers=proof.signed_headers,
            ),
        )

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

    def _everybody(self, request: asgi.Request, face: str) -> callers.Caller:
        return callers.Caller(
            principal=self._in_context(self._principals.root, request),
            payload=(
                _unsigned_payload(request) if face == dispatch.S3 else chunked.UNSIGNED_PAYLOAD
            ),
            credential_id="",
            signing=callers.Signing(scheme="open"),
        )


_ANONYMOUS: Final = model.anonymous()
_NO_SIGNING: Final = callers.Signing(scheme="none")


def _unsigned_payload(request: asgi.Request) -> chunked.Payload:
    """Return what an S3 body announces of itself where no version 4 signature vouches for it."""
    headers = request.headers
    return chunked.parse_payload(
        headers.get("x-amz-content-sha256"),
        decoded_length=headers.get("x-amz-decoded-content-length"),
        trailer=headers.get("x-amz-trailer"),
        seed=None,
    )


def _check_coverage(
    raw: sigv4.RawHeaders,
    signed: tuple[str, ...],
    *,
    excepted: frozenset[bytes] = frozenset(),
) -> None:
    names = sigv4.unsigned_names(raw, signed, excepted=excepted)
    if names:
        raise errors.HeadersNotSigned(
            f"headers were present which were not signed: {', '.join(names)}", names=names
        )


def _context(request: asgi.Request) -> dict[str, model.ContextValue]:
    return {
        "aws:SourceIp": request.client_ip,
        "aws:SecureTransport": "true" if request.scheme == "https" else "false",
    }
