"""Proofs of identity against botocore's signers, and the attacks that must get nothing."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import hashlib
import json
import sys
from concurrent import futures

import pytest
from botocore import auth as botocore_auth
from botocore import awsrequest, credentials
from botocore.utils import percent_encode

from server import errors as kit_errors
from server import limits
from server.access import errors as access_errors
from server.access import model, tokens
from server.auth import errors
from tests.server import requesting
from tests.server.requesting import ACCESS_KEY, NOW_MS, SECRET_KEY, as_request, request, signed

HOUR_MS = 3_600_000
KEYS = [
    "plain",
    "a b/é+~*'()!",
    "x//y",
    "%25 and %2F",
    "=&?#;:@$,",
    "日本語",
    "dir/",
    "./../x",
    "\x7f\t",
]


def verify(sent, face="s3", *, clock=None, **settings):
    return requesting.run(requesting.verifier(clock, **settings).verify(sent, face))


def quoted(key: str) -> str:
    return percent_encode(key, safe="/~")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_botocore_signed_s3_request_is_root(key, expires_seconds):
    url = f"http://127.0.0.1:5253/bucket/{quoted(key)}?versionId=a%2Bb&x-id=GetObject&acl"
    caller = verify(as_request(signed("GET", url, expires_seconds=expires_seconds)))
    assert caller.principal.type == "root"
    assert caller.credential_id == ACCESS_KEY
    assert caller.signing.scheme == ("sigv4-query" if expires_seconds else "sigv4")
    assert caller.signing.service == "s3"
    assert caller.signing.region == requesting.REGION


@pytest.mark.parametrize(
    ("face", "service"),
    [
        ("s3tables", "s3tables"),
        ("iceberg", "s3tables"),
        ("iceberg", "glue"),
        ("iceberg", "execute-api"),
        ("sts", "sts"),
        ("iam", "iam"),
    ],
)
def test_botocore_signed_request_of_other_services_hashes_the_body_here(face, service):
    url = "http://h/iceberg/v1/arn%3Aaws%3As3tables%3A%3A%3Abucket%2Flake/x~y?a=b%1Fc"
    prepared = signed("POST", url, body=b'{"a": 1}', service=service)
    sent = as_request(prepared)
    caller = verify(sent, face)
    assert caller.principal.type == "root"
    assert caller.signing.service == service
    assert requesting.run(sent.read(limit_bytes=100)) == b'{"a": 1}'
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, body=b'{"a": 2}'), face)


def test_base64_content_sha256_of_other_services_is_an_ordinary_header():
    digest = base64.b64encode(hashlib.sha256(b"body").digest()).decode()

    class Signer(botocore_auth.SigV4Auth):
        def _modify_request_before_signing(self, request):
            super()._modify_request_before_signing(request)
            request.headers["x-amz-content-sha256"] = digest

        # botocore would take the header for the payload's hash, which is just the trap.
        def canonical_request(self, request):
            text = super().canonical_request(request)
            return text.rpartition("\n")[0] + "\n" + hashlib.sha256(b"body").hexdigest()

    prepared = signed("POST", "http://h/iceberg/v1/x", body=b"body", service="glue", signer=Signer)
    caller = verify(as_request(prepared), "iceberg")
    assert caller.principal.type == "root"
    assert caller.payload.mode == "unsigned"
    assert "x-amz-content-sha256" in caller.signing.signed_headers


def test_repeated_header_is_signed_as_its_values_joined():
    prepared = signed("GET", headers=[("x-amz-meta-a", "1,2")])
    parts = as_request(prepared)
    headers = [(n, v) for n, v in parts.headers.items() if n != "x-amz-meta-a"]
    twice = request("GET", "/bucket/key", [*headers, ("x-amz-meta-a", "1"), ("x-amz-meta-a", "2")])
    assert verify(twice).principal.type == "root"


def test_users_are_found_by_their_own_keys():
    alice = requesting.ALICE
    prepared = signed(access_key=alice.access_key, secret_key=alice.secret_key)
    caller = verify(as_request(prepared))
    assert (caller.principal.type, caller.principal.name) == ("user", "alice")
    assert caller.principal.context["aws:SourceIp"] == "127.0.0.1"
    assert caller.principal.context["aws:SecureTransport"] == "false"


def test_same_connection_gets_the_same_principal_and_another_address_another():
    checker = requesting.verifier()
    first = requesting.run(checker.verify(as_request(signed()), "s3"))
    again = requesting.run(checker.verify(as_request(signed()), "s3"))
    assert first.principal is again.principal
    prepared = as_request(signed())
    prepared.client_ip = "10.0.0.9"
    other = requesting.run(checker.verify(prepared, "s3"))
    assert other.principal.context["aws:SourceIp"] == "10.0.0.9"


def test_what_was_proven_once_vouches_for_no_other_request():
    checker = requesting.verifier()
    prepared = signed()
    for _ in range(2):
        assert requesting.run(checker.verify(as_request(prepared), "s3")).principal.type == "root"
    for change in ALTERED.values():
        with pytest.raises(errors.SignatureDoesNotMatch):
            requesting.run(checker.verify(as_request(prepared, **change), "s3"))
    authorization = prepared.headers["Authorization"]
    for other in (authorization[:-1] + "g", authorization + "0", authorization + ", Signature=0"):
        changed = as_request(prepared, headers={"authorization": other})
        with pytest.raises(errors.AuthError):
            requesting.run(checker.verify(changed, "s3"))


def test_parts_of_the_authorization_header_may_come_in_any_order():
    prepared = signed()
    scheme, _, rest = prepared.headers["Authorization"].partition(" ")
    turned = f"{scheme} " + ",".join(reversed([part.strip() for part in rest.split(",")]))
    checker = requesting.verifier()
    for _ in range(2):
        sent = as_request(prepared, headers={"authorization": turned})
        assert requesting.run(checker.verify(sent, "s3")).principal.type == "root"


@pytest.mark.parametrize("target", ["/bucket/key", "/bucket?list-type=2&Expires=1"])
def test_unsigned_request_is_anonymous(target):
    for face in ("s3", "iceberg", "s3tables", "native"):
        caller = verify(request("GET", target), face)
        assert caller.principal.type == "anonymous"
        assert caller.credential_id == ""


ALTERED = {
    "method": {"method": "DELETE"},
    "path": {"target": "/bucket/other"},
    "path encoding of a slash": {"target": "/bucket%2Fkey"},
    "doubled slash": {"target": "/bucket//key"},
    "dot segment": {"target": "/x/../bucket/key"},
    "added query": {"target": "/bucket/key?acl"},
    "host": {"headers": {"host": "elsewhere:5253"}},
    "date": {"headers": {"x-amz-date": "20251121T160001Z"}},
    "payload hash": {"headers": {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}},
}


@pytest.mark.parametrize("what", ALTERED)
def test_altered_signed_request_is_refused(what):
    with pytest.raises(errors.SignatureDoesNotMatch) as caught:
        verify(as_request(signed(), **ALTERED[what]))
    assert caught.value.access_key == ACCESS_KEY
    assert SECRET_KEY not in str(vars(caught.value))


@pytest.mark.parametrize("what", [name for name in ALTERED if "payload" not in name])
def test_altered_presigned_request_is_refused(what):
    prepared = signed(expires_seconds=600)
    query = prepared.url.partition("?")[2]
    change = dict(ALTERED[what])
    if what == "date":
        change = {"target": "/bucket/key?" + query.replace("T160000Z", "T160001Z")}
    elif "target" in change:
        joint = "&" if "?" in change["target"] else "?"
        change["target"] += joint + query
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, **change))


def test_presigned_request_with_a_longer_life_is_refused():
    prepared = signed(expires_seconds=600)
    query = prepared.url.partition("?")[2].replace("Expires=600", "Expires=6000")
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, target="/bucket/key?" + query))


def test_a_presigned_get_serves_head_only_if_its_signer_said_so():
    plain = signed(expires_seconds=600)
    query = plain.url.partition("?")[2]
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(plain, method="HEAD"))
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(plain, method="HEAD", target=f"/bucket/key?{query}&also-head=1"))
    shared = signed(url="http://127.0.0.1:5253/bucket/key?also-head=1", expires_seconds=600)
    assert verify(as_request(shared, method="HEAD")).principal.type == "root"
    assert verify(as_request(shared)).principal.type == "root"
    for method in ("PUT", "DELETE", "POST"):
        with pytest.raises(errors.SignatureDoesNotMatch):
            verify(as_request(shared, method=method))
    put = signed("PUT", "http://127.0.0.1:5253/bucket/key?also-head=1", expires_seconds=600)
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(put, method="HEAD"))


def test_altered_path_of_another_service_is_refused_in_every_spelling():
    prepared = signed("GET", "http://h/buckets/arn%3Aaws%3Ax/n", service="s3tables")
    assert verify(as_request(prepared), "s3tables").principal.type == "root"
    for target in (
        "/buckets/arn:aws:x/n",
        "/buckets/arn%3aaws%3ax/n",
        "/buckets/arn%3Aaws%3Ax%2Fn",
        "/x/../buckets/arn%3Aaws%3Ax/n",
        "/./buckets/arn%3Aaws%3Ax/n",
        "//buckets/arn%3Aaws%3Ax/n",
    ):
        with pytest.raises(errors.SignatureDoesNotMatch):
            verify(as_request(prepared, target=target), "s3tables")


@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_amz_header_added_to_a_signed_request_is_refused(expires_seconds):
    prepared = signed("PUT", expires_seconds=expires_seconds)
    with pytest.raises(errors.HeadersNotSigned) as caught:
        verify(as_request(prepared, headers={"x-amz-copy-source": "other/secret"}))
    assert caught.value.names == ("x-amz-copy-source",)


def test_presigned_request_may_name_its_payload_form_unsigned():
    prepared = signed("PUT", expires_seconds=600)
    sent = as_request(prepared, headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    assert verify(sent).principal.type == "root"


@pytest.mark.parametrize("place", ["header", "query"])
def test_presigned_request_may_be_for_one_body(place):
    digest = hashlib.sha256(b"body").hexdigest()

    class Hashing(botocore_auth.S3SigV4QueryAuth):
        def payload(self, request):
            return digest

    query = f"?X-Amz-Content-Sha256={digest}" if place == "query" else ""
    headers = [("x-amz-content-sha256", digest)] if place == "header" else []
    prepared = signed(
        "PUT",
        f"http://127.0.0.1:5253/bucket/key{query}",
        headers,
        signer=Hashing,
        expires_seconds=600,
    )
    caller = verify(as_request(prepared))
    assert caller.principal.type == "root"
    decoder = caller.payload.decoder()
    assert decoder.feed(b"body") == b"body"
    decoder.finish()
    decoder = caller.payload.decoder()
    assert decoder.feed(b"other") == b"other"
    with pytest.raises(errors.PayloadHashMismatch):
        decoder.finish()
    other = hashlib.sha256(b"other").hexdigest()
    changed = {"headers": {"x-amz-content-sha256": other}}
    if place == "query":
        changed = {"target": prepared.url.partition("5253")[2].replace(digest, other)}
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, **changed))


@pytest.mark.parametrize(
    "query",
    ["AWSAccessKeyId=A&Signature=s&Expires=1", "X-Amz-Algorithm=AWS4-HMAC-SHA256"],
)
def test_a_signed_request_with_a_signed_query_is_refused(query):
    sent = as_request(signed(url=f"http://127.0.0.1:5253/bucket/key?{query}"))
    with pytest.raises(errors.SeveralProofs):
        verify(sent)


def test_amz_header_repeated_to_add_a_value_is_refused():
    prepared = signed("PUT", headers=[("x-amz-meta-a", "1")])
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, more_headers=[("x-amz-meta-a", "2")]))


@pytest.mark.parametrize("service", ["s3tables", "glue"])
def test_body_of_an_unknown_key_is_not_read(service):
    face = "s3tables" if service == "s3tables" else "iceberg"
    sent = as_request(signed("POST", access_key="UNKNOWN", service=service, body=b"{}"))
    with pytest.raises(errors.InvalidAccessKey):
        verify(sent, face)
    assert not sent.body_started


@pytest.mark.parametrize("length", [0, 10])
def test_body_whose_signed_hash_is_sent_is_read_after_the_signature_was_judged(length):
    body = b"b" * length
    headers = [("x-amz-content-sha256", hashlib.sha256(body).hexdigest())]
    wrong = as_request(signed("POST", "http://h/iceberg/v1/x", headers, body, service="glue",
                              secret_key="wrong"))  # fmt: skip
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(wrong, "iceberg")
    assert not wrong.body_started
    prepared = signed("POST", "http://h/iceberg/v1/x", headers, body, service="glue")
    assert verify(as_request(prepared), "iceberg").principal.type == "root"
    with pytest.raises(errors.PayloadHashMismatch):
        verify(as_request(prepared, body=b"another"), "iceberg")


def test_a_hash_that_is_sent_and_not_signed_stands_for_nothing():
    prepared = signed("POST", "http://h/iceberg/v1/x", body=b"body", service="glue")
    other = hashlib.sha256(b"other").hexdigest()
    sent = as_request(prepared, headers={"x-amz-content-sha256": other})
    assert verify(sent, "iceberg").principal.type == "root"


def test_wrong_secret_and_unknown_key_are_refused():
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(signed(secret_key="wrong")))
    with pytest.raises(errors.InvalidAccessKey) as caught:
        verify(as_request(signed(access_key="UNKNOWN")))
    assert caught.value.access_key == "UNKNOWN"
    with pytest.raises(errors.InvalidAccessKey):
        verify(as_request(signed(access_key="UNKNOWN", secret_key="one that does not exist")))


@pytest.mark.parametrize("offset_ms", [-900_001, 900_001, -24 * HOUR_MS])
def test_replay_beyond_the_skew_is_refused(offset_ms):
    clock = requesting.Clock(NOW_MS - offset_ms)
    with pytest.raises(errors.RequestTimeTooSkewed) as caught:
        verify(as_request(signed()), clock=clock)
    assert caught.value.request_time_ms == NOW_MS
    assert caught.value.server_time_ms == clock.now_ms


@pytest.mark.parametrize("offset_ms", [-900_000, 900_000])
def test_request_at_the_edge_of_the_skew_is_taken(offset_ms):
    assert verify(as_request(signed()), clock=requesting.Clock(NOW_MS - offset_ms))


def test_date_header_serves_where_amz_date_is_absent():
    class Dated(botocore_auth.S3SigV4Auth):
        def _modify_request_before_signing(self, request):
            super()._modify_request_before_signing(request)
            del request.headers["X-Amz-Date"]
            request.headers["Date"] = "Fri, 21 Nov 2025 16:00:00 GMT"

    assert verify(as_request(signed(signer=Dated))).principal.type == "root"


def test_request_without_any_date_is_malformed():
    sent = as_request(signed())
    headers = [(n, v) for n, v in sent.headers.items() if n != "x-amz-date"]
    with pytest.raises(errors.MalformedAuthorization):
        verify(request("GET", "/bucket/key", headers))
    for date in ("yesterday", "20259921T160000Z"):
        with pytest.raises(errors.InvalidDate):
            verify(request("GET", "/bucket/key", [*headers, ("x-amz-date", date)]))


@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_scope_of_another_day_is_refused(expires_seconds):
    signer = botocore_auth.S3SigV4QueryAuth if expires_seconds else botocore_auth.S3SigV4Auth

    class Shifted(signer):
        def credential_scope(self, request):
            return super().credential_scope(request).replace("20251121", "20251120")

        def scope(self, request):
            return super().scope(request).replace("20251121", "20251120")

    with pytest.raises(errors.MalformedAuthorization) as caught:
        verify(as_request(signed(signer=Shifted, expires_seconds=expires_seconds)))
    assert caught.value.in_query == bool(expires_seconds)


def test_presigned_request_ends():
    prepared = signed(expires_seconds=600)
    assert verify(as_request(prepared), clock=requesting.Clock(NOW_MS + 599_999))
    with pytest.raises(errors.ExpiredPresign) as caught:
        verify(as_request(prepared), clock=requesting.Clock(NOW_MS + 600_000))
    assert caught.value.expires_at_ms == NOW_MS + 600_000
    with pytest.raises(errors.PresignNotYetValid):
        verify(as_request(prepared), clock=requesting.Clock(NOW_MS - 901_000))


def test_presigned_request_lives_a_week_at_most():
    for seconds in (604_801, 10**9):
        with pytest.raises(errors.MalformedAuthorization) as caught:
            verify(as_request(signed(expires_seconds=seconds)))
        assert caught.value.in_query


def test_region_is_only_checked_where_configured():
    elsewhere = as_request(signed(region="eu-west-1"))
    assert verify(elsewhere).signing.region == "eu-west-1"
    for expires_seconds in (None, 600):
        sent = as_request(signed(region="eu-west-1", expires_seconds=expires_seconds))
        with pytest.raises(errors.RegionMismatch) as caught:
            verify(sent, region="us-east-1")
        assert (caught.value.expected, caught.value.actual) == ("us-east-1", "eu-west-1")


def test_signature_for_one_service_opens_no_other():
    for face, service in (("s3", "s3tables"), ("s3tables", "s3"), ("iceberg", "s3")):
        with pytest.raises(errors.ServiceMismatch):
            verify(as_request(signed(service=service)), face)
    with pytest.raises(errors.ServiceMismatch):
        verify(as_request(signed()), "snowflake")


def test_s3_request_without_payload_hash_is_refused():
    sent = as_request(signed(signer=botocore_auth.SigV4Auth))
    with pytest.raises(errors.MissingPayloadHash):
        verify(sent)


def test_signed_body_of_other_services_is_bounded():
    sent = as_request(signed("POST", service="s3tables"), headers={"content-length": str(64 << 20)})
    with pytest.raises(kit_errors.BodyTooLarge):
        verify(sent, "s3tables")


def test_a_thread_that_still_holds_its_work_keeps_no_proven_body_alive():
    class Lingering(futures.ThreadPoolExecutor):
        def submit(self, work, /, *arguments, **named):
            works.append((work, arguments, named))
            return super().submit(work, *arguments, **named)

    works = []
    body = bytes(limits.HASHED_HERE_BYTES_MAX + 1)
    sent = as_request(signed("POST", "http://h/iceberg/v1/x", body=body, service="s3tables"))

    async def prove(sent):
        with Lingering() as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            await requesting.verifier().verify(sent, "iceberg")

    requesting.run(prove(sent))
    assert len(works) == 1
    proven_body = requesting.run(sent.read(limit_bytes=len(body)))
    assert proven_body == body
    sent.release()
    del sent
    assert sys.getrefcount(proven_body) == 2  # this name, and the call's argument


# Version 2


def presigned_v2(url="http://127.0.0.1:5253/bucket/key", method="GET", headers=(), **more):
    return signed(
        method,
        url,
        headers,
        signer=lambda keys, service, region, expires: botocore_auth.HmacV1QueryAuth(
            keys, expires=expires
        ),
        expires_seconds=600,
        **more,
    )


@pytest.mark.parametrize("key", KEYS)
def test_botocore_presigned_version_2_is_root(key):
    url = f"http://127.0.0.1:5253/bucket/{quoted(key)}?versionId=a%2Bb&response-content-type=a%20b"
    caller = verify(as_request(presigned_v2(url)))
    assert caller.principal.type == "root"
    assert caller.signing.scheme == "sigv2-query"


def test_presigned_version_2_carries_its_headers_in_the_query():
    prepared = presigned_v2(
        method="PUT",
        headers=[("content-type", "text/plain"), ("x-amz-meta-a", "b c"), ("Content-MD5", "abc")],
    )
    sent = as_request(prepared)
    assert "x-amz-meta-a" in prepared.url
    bare = request("PUT", prepared.url.partition("5253")[2], [("host", "127.0.0.1:5253")])
    assert verify(sent).principal.type == "root"
    assert verify(bare).principal.type == "root"


@pytest.mark.parametrize("what", ["method", "path", "path encoding of a slash", "doubled slash"])
def test_altered_presigned_version_2_is_refused(what):
    prepared = presigned_v2()
    change = dict(ALTERED[what])
    if "target" in change:
        change["target"] += "?" + prepared.url.partition("?")[2]
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, **change))


@pytest.mark.parametrize(
    "extra",
    [
        "acl",
        "policy",
        "versionId=1",
        "response-content-type=x",
        "tagging",
        "encryption",
        "%74agging",
    ],
)
def test_sub_resource_added_to_presigned_version_2_is_refused(extra):
    prepared = presigned_v2()
    target = f"/bucket/key?{extra}&" + prepared.url.partition("?")[2]
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, target=target))


def test_amz_header_added_to_presigned_version_2_is_refused():
    prepared = presigned_v2(method="PUT")
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(prepared, headers={"x-amz-copy-source": "other/secret"}))


def test_presigned_version_2_ends():
    with pytest.raises(errors.ExpiredPresign):
        verify(as_request(presigned_v2()), clock=requesting.Clock(NOW_MS + 600_000))


def test_presigned_version_2_of_an_unknown_key_is_refused():
    with pytest.raises(errors.InvalidAccessKey):
        verify(as_request(presigned_v2(access_key="UNKNOWN")))


def test_presigned_version_2_only_opens_s3():
    caller = verify(as_request(presigned_v2("http://h/iceberg/v1/config")), "iceberg")
    assert caller.principal.type == "anonymous"


def signed_v2(url="http://127.0.0.1:5253/bucket/key?acl", **more):
    return signed(
        "GET",
        url,
        signer=lambda keys, service, region: botocore_auth.HmacV1Auth(keys),
        **more,
    )


def test_version_2_header_is_off_until_it_is_allowed():
    sent = as_request(signed_v2())
    with pytest.raises(errors.UnsupportedAuthorization, match="by the setting sigv2_header"):
        verify(sent)
    caller = verify(sent, sigv2_header=True)
    assert (caller.principal.type, caller.signing.scheme) == ("root", "sigv2")


def test_version_2_header_with_an_empty_sub_resource_is_signed_with_and_without_equals_sign():
    for signed_query in ("uploads", "uploads="):
        sent = as_request(
            signed_v2(f"http://127.0.0.1:5253/bucket/key?{signed_query}"),
            target="/bucket/key?uploads=",
        )
        assert verify(sent, sigv2_header=True).principal.type == "root"
    other = as_request(signed_v2(), target="/bucket/key?uploads=")
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(other, sigv2_header=True)


@pytest.mark.parametrize("face", ["s3tables", "iceberg", "native", "sts"])
def test_version_2_header_only_opens_s3(face):
    with pytest.raises(errors.UnsupportedAuthorization):
        verify(as_request(signed_v2()), face, sigv2_header=True)


def test_version_2_header_is_checked_whole():
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(as_request(signed_v2(), target="/bucket/key?policy"), sigv2_header=True)
    with pytest.raises(errors.RequestTimeTooSkewed):
        verify(as_request(signed_v2(at_ms=NOW_MS - HOUR_MS)), sigv2_header=True)
    with pytest.raises(errors.InvalidAccessKey):
        verify(as_request(signed_v2(access_key="UNKNOWN")), sigv2_header=True)


@pytest.mark.parametrize("date", [None, "", "Bad Date", "Tue, 07 Jul 1950 21:53:04 GMT"])
def test_version_2_header_without_a_valid_time_is_refused(date):
    """x-amz-date takes the place of Date, also if it is empty."""
    headers = [(n, v) for n, v in as_request(signed_v2()).headers.items() if n != "date"]
    if date is not None:
        headers += [("date", "Fri, 21 Nov 2025 16:00:00 GMT"), ("x-amz-date", date)]
    with pytest.raises(errors.InvalidDate):
        verify(request("GET", "/bucket/key", headers), sigv2_header=True)


def test_an_empty_authorization_header_is_no_credential():
    sent = request("GET", "/bucket/key", [("authorization", "")])
    assert verify(sent).principal.type == "anonymous"


@pytest.mark.parametrize(
    "query",
    ["x-amz-acl=public-read", "X-Amz-Meta-A=b", "AWSAccessKeyId=A&content-type=text%2Fhtml"],
)
def test_version_2_header_with_unsigned_headers_in_the_query_is_refused(query):
    """The header form of version 2 does not sign them."""
    prepared = signed_v2("http://127.0.0.1:5253/bucket/key")
    with pytest.raises(errors.HeadersNotSigned):
        verify(as_request(prepared, target=f"/bucket/key?{query}"), sigv2_header=True)
    assert verify(as_request(prepared), sigv2_header=True).principal.type == "root"


def test_version_2_of_a_virtual_hosted_bucket_signs_the_bucket():
    def signer(keys, service, region):
        signing = botocore_auth.HmacV1Auth(keys)
        resource = signing.canonical_resource
        signing.canonical_resource = lambda split, auth_path=None: resource(split, "/photos/a.jpg")
        return signing

    prepared = signed("GET", "http://photos.localhost:5253/a.jpg", signer=signer)
    assert verify(as_request(prepared), sigv2_header=True).principal.type == "root"


# Tokens


def bearer(token, **headers):
    return request("GET", "/iceberg/v1/config", [("authorization", f"Bearer {token}")])


def issue(typ="access", subject="alice", now_ms=NOW_MS, lifetime_seconds=3600, ring=None):
    return tokens.issue(
        ring or requesting.RING,
        typ=typ,
        subject=subject,
        token_id="t1",
        now_ms=now_ms,
        lifetime_seconds=lifetime_seconds,
    )


def test_access_token_is_its_subject():
    checker = requesting.verifier()
    for _ in range(2):
        caller = requesting.run(checker.verify(bearer(issue()), "iceberg"))
        assert (caller.principal.name, caller.credential_id) == ("alice", "t1")
        assert caller.signing.scheme == "bearer"


def test_relocated_authorization_serves_where_the_usual_one_is_absent():
    moved = request("GET", "/x", [("original-authorization", f"Bearer {issue()}")])
    assert verify(moved, "iceberg").principal.name == "alice"
    with pytest.raises(errors.UnsupportedAuthorization):
        verify(request("GET", "/x", [("original-authorization", "Negotiate abc")]), "iceberg")


def test_signature_outranks_a_relocated_token():
    prepared = signed("GET", "http://h/iceberg/v1/config", service="glue")
    sent = as_request(prepared, headers={"original-authorization": f"Bearer {issue()}"})
    assert verify(sent, "iceberg").principal.type == "root"


def test_token_expires_also_when_it_was_remembered():
    clock = requesting.Clock()
    checker = requesting.verifier(clock)
    token = issue()
    requesting.run(checker.verify(bearer(token), "iceberg"))
    clock.now_ms += 3_600_000
    with pytest.raises(errors.ExpiredToken):
        requesting.run(checker.verify(bearer(token), "iceberg"))
    with pytest.raises(errors.ExpiredToken):
        requesting.run(checker.verify(bearer(token), "iceberg"))


@pytest.mark.parametrize("typ", ["sf", "sf-master", "sts"])
def test_token_for_another_use_is_refused(typ):
    with pytest.raises(errors.InvalidToken):
        verify(bearer(issue(typ)), "iceberg")


def test_token_of_an_unknown_subject_or_another_server_is_refused():
    with pytest.raises(errors.InvalidToken):
        verify(bearer(issue(subject="mallory")), "iceberg")
    other = dataclasses.replace(
        requesting.RING, keys=(tokens.SigningKey(key_id="k1", secret=b"z" * 32),)
    )
    with pytest.raises(errors.InvalidToken):
        verify(bearer(issue(ring=other)), "iceberg")
    for garbage in ("", "None", "a.b.c", "é", "x" * 100_000):
        with pytest.raises(errors.InvalidToken):
            verify(bearer(garbage), "iceberg")


def test_token_without_signature_is_refused():
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {
        "iss": "boathouse", "aud": "boathouse", "sub": "root", "typ": "access", "jti": "x",
        "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 100,
    }  # fmt: skip
    for algorithm in ("none", "NONE", "HS512", "RS256"):
        token = f"{part({'alg': algorithm, 'kid': 'k1'})}.{part(claims)}."
        with pytest.raises(errors.InvalidToken):
            verify(bearer(token), "iceberg")


def test_tokens_open_neither_s3_nor_s3tables():
    for face in ("s3", "s3tables", "sts"):
        with pytest.raises(errors.UnsupportedAuthorization):
            verify(bearer(issue()), face)


def basic(user, password):
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return request("GET", "/_metrics", [("authorization", f"Basic {text}")])


def test_basic_credentials_open_the_native_api_alone():
    assert verify(basic(ACCESS_KEY, SECRET_KEY), "native").principal.type == "root"
    assert verify(basic("alice", requesting.ALICE.secret_key), "native").principal.name == "alice"
    for user, password in ((ACCESS_KEY, "wrong"), ("unknown", SECRET_KEY), ("", "")):
        with pytest.raises(errors.InvalidAccessKey):
            verify(basic(user, password), "native")
    with pytest.raises(errors.UnsupportedAuthorization):
        verify(basic(ACCESS_KEY, SECRET_KEY), "s3")
    broken = request("GET", "/_metrics", [("authorization", "Basic ***")])
    with pytest.raises(errors.MalformedAuthorization):
        verify(broken, "native")


def test_wrong_basic_credentials_are_slowed_down_and_no_other_door_is():
    clock = requesting.Clock()
    judge = requesting.verifier(clock)

    def ask(password):
        return requesting.run(judge.verify(basic(ACCESS_KEY, password), "native"))

    for _ in range(5):
        with pytest.raises(errors.InvalidAccessKey):
            ask("wrong")
    with pytest.raises(errors.TooManyFailures):
        ask(SECRET_KEY)
    signed_by_root = as_request(signed())
    assert requesting.run(judge.verify(signed_by_root, "s3")).principal.type == "root"
    clock.now_ms += 1000
    assert ask(SECRET_KEY).principal.type == "root"


# Vended keys


def vended(subject="alice", lifetime_seconds=900, scopes=None):
    return tokens.vend(
        requesting.RING,
        subject=subject,
        token_id="0123456789abcdef0123456789abcdef",
        scopes=scopes or (model.Scope(bucket="lake", prefix="ns/t/", writable=False),),
        now_ms=NOW_MS,
        lifetime_seconds=lifetime_seconds,
    )


@pytest.mark.parametrize("expires_seconds", [None, 600])
def test_vended_keys_are_their_owner_within_their_scopes(expires_seconds):
    keys = vended()
    prepared = signed(
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        token=keys.session_token,
        expires_seconds=expires_seconds,
    )
    caller = verify(as_request(prepared))
    assert caller.principal.name == "alice"
    assert caller.principal.scopes == (model.Scope(bucket="lake", prefix="ns/t/", writable=False),)
    assert caller.credential_id == keys.access_key


def test_the_token_of_vended_keys_is_no_bearer_token_after_their_use():
    keys = vended()
    checker = requesting.verifier()
    sent = as_request(
        signed(access_key=keys.access_key, secret_key=keys.secret_key, token=keys.session_token)
    )
    assert requesting.run(checker.verify(sent, "s3")).principal.name == "alice"
    bearer = [("authorization", f"Bearer {keys.session_token}")]
    for face in ("iceberg", "native"):
        with pytest.raises(errors.InvalidToken):
            requesting.run(checker.verify(request(headers=bearer), face))
    assert requesting.run(checker.verify(sent, "s3")).principal.name == "alice"


def test_vended_keys_end_with_their_token():
    keys = vended()
    arguments = {
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "token": keys.session_token,
    }
    late = NOW_MS + 900_000
    with pytest.raises(errors.ExpiredToken):
        verify(as_request(signed(at_ms=late, **arguments)), clock=requesting.Clock(late))


def test_vended_keys_without_their_token_or_with_another_are_refused():
    keys = vended()
    with pytest.raises(errors.InvalidAccessKey):
        verify(as_request(signed(access_key=keys.access_key, secret_key=keys.secret_key)))
    with pytest.raises(errors.InvalidToken):
        verify(as_request(signed(token=keys.session_token)))
    with pytest.raises(errors.InvalidToken):
        verify(
            as_request(
                signed(
                    access_key=keys.access_key,
                    secret_key=keys.secret_key,
                    token=issue("access"),
                )
            )
        )
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(
            as_request(
                signed(access_key=keys.access_key, secret_key=SECRET_KEY, token=keys.session_token)
            )
        )


# Servers that admit unsigned requests


def test_open_server_admits_every_client_as_root_and_decodes_framing():
    sent = request(
        "PUT",
        "/bucket/key",
        [
            ("authorization", "AWS4-HMAC-SHA256 nonsense"),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            ("x-amz-decoded-content-length", "5"),
        ],
    )
    caller = verify(sent, open_to_all=True)
    assert (caller.principal.type, caller.signing.scheme) == ("root", "open")
    decoder = caller.payload.decoder()
    chunk = b"5;chunk-signature=%s\r\nhello\r\n" % (b"0" * 64)
    assert decoder.feed(chunk + b"0;chunk-signature=%s\r\n\r\n" % (b"0" * 64)) == b"hello"
    decoder.finish()


# POST forms


def form(
    conditions,
    fields,
    *,
    v2=False,
    access_key=ACCESS_KEY,
    service="s3",
    signer=botocore_auth.S3SigV4PostAuth,
):
    """The fields of a form that botocore signed; it adds conditions to the list it is given."""
    form_request = awsrequest.AWSRequest(method="POST", url="http://h/photos")
    document = {"expiration": "2025-11-21T17:00:00.000Z", "conditions": list(conditions)}
    form_request.context["s3-presign-post-fields"] = dict(fields)
    form_request.context["s3-presign-post-policy"] = document
    keys = credentials.Credentials(access_key, SECRET_KEY)
    signer = botocore_auth.HmacV1PostAuth(keys) if v2 else signer(keys, service, requesting.REGION)
    with requesting.standing_still(datetime.datetime.fromtimestamp(NOW_MS / 1000, datetime.UTC)):
        signer.add_auth(form_request)
    signed_fields = form_request.context["s3-presign-post-fields"]
    return {name.lower(): value for name, value in signed_fields.items()}


CONDITIONS = [{"bucket": "photos"}, ["starts-with", "$key", "user/"], {"acl": "private"}]
FIELDS = {"key": "user/a.jpg", "acl": "private"}


@pytest.mark.parametrize("v2", [False, True])
def test_post_form_signed_by_botocore_is_root(v2):
    fields = {**form(CONDITIONS, FIELDS, v2=v2), "bucket": "photos"}
    caller, policy = requesting.verifier().verify_post(request("POST", "/photos"), fields)
    assert caller.principal.type == "root"
    assert policy is not None


@pytest.mark.parametrize("v2", [False, True])
def test_post_form_that_was_altered_is_refused(v2):
    good = {**form(CONDITIONS, FIELDS, v2=v2), "bucket": "photos"}
    checker = requesting.verifier()
    sent = request("POST", "/photos")
    for change in ({"key": "other/a.jpg"}, {"bucket": "else"}, {"acl": "public-read"}, {"x": "y"}):
        with pytest.raises(errors.PostPolicyViolated):
            checker.verify_post(sent, {**good, **change})
    text = base64.b64encode(base64.b64decode(good["policy"]) + b" ").decode()
    with pytest.raises(errors.SignatureDoesNotMatch):
        checker.verify_post(sent, {**good, "policy": text})
    fields = form(CONDITIONS, FIELDS, v2=v2, access_key="UNKNOWN")
    with pytest.raises(errors.InvalidAccessKey):
        checker.verify_post(sent, {**fields, "bucket": "photos"})


def test_post_form_with_a_scope_of_another_service_region_or_day_is_refused():
    class Shifted(botocore_auth.S3SigV4PostAuth):
        def credential_scope(self, request):
            return super().credential_scope(request).replace("20251121", "20251120")

        def scope(self, request):
            return super().scope(request).replace("20251121", "20251120")

    sent = request("POST", "/photos")
    for error, region, options in (
        (errors.ServiceMismatch, None, {"service": "s3tables"}),
        (errors.RegionMismatch, "eu-west-1", {}),
        (errors.MalformedAuthorization, None, {"signer": Shifted}),
    ):
        fields = {**form(CONDITIONS, FIELDS, **options), "bucket": "photos"}
        with pytest.raises(error):
            requesting.verifier(region=region).verify_post(sent, fields)


def test_post_form_of_an_open_server_is_root_whatever_signs_it():
    checker = requesting.verifier(open_to_all=True)
    sent = request("POST", "/photos", [("host", "127.0.0.1:5253")])
    for fields in ({"key": "a"}, {**form(CONDITIONS, FIELDS), "x-amz-signature": "0"}):
        caller, policy = checker.verify_post(sent, {**fields, "bucket": "photos"})
        assert (caller.principal.type, caller.signing.scheme, policy) == ("root", "open", None)
        assert not caller.payload.framed


def test_post_form_ends_with_its_policy():
    fields = {**form(CONDITIONS, FIELDS), "bucket": "photos"}
    checker = requesting.verifier(requesting.Clock(NOW_MS + HOUR_MS))
    with pytest.raises(errors.ExpiredPostPolicy):
        checker.verify_post(request("POST", "/photos"), fields)


def test_post_form_without_signature_is_anonymous():
    caller, policy = requesting.verifier().verify_post(
        request("POST", "/photos"), {"key": "a", "bucket": "photos"}
    )
    assert (caller.principal.type, policy) == ("anonymous", None)


def test_a_caller_without_a_credential_has_the_address_of_its_connection():
    checker = requesting.verifier()
    for client_ip, scheme in (
        ("127.0.0.1", "http"),
        ("10.0.0.9", "http"),
        ("10.0.0.9", "https"),
        ("127.0.0.1", "http"),
    ):
        sent = request("GET", "/v1/config", scheme=scheme, client_ip=client_ip)
        for caller in (
            checker.unverified(sent),
            requesting.run(checker.verify(sent, "iceberg")),
            requesting.run(checker.verify(sent, "s3")),
        ):
            assert caller.principal.type == "anonymous"
            assert caller.principal.context["aws:SourceIp"] == client_ip
            is_secure = str(scheme == "https").lower()
            assert caller.principal.context["aws:SecureTransport"] == is_secure


@pytest.mark.parametrize("face", ["s3", "iceberg", "native"])
@pytest.mark.parametrize(
    ("headers", "welcome"),
    [
        ({"host": "127.0.0.1:5253"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]"}, True),
        ({"host": "[::1]:5253"}, True),
        ({"host": "bucket.localhost:5253"}, True),
        ({"host": "b.lake.test:5253"}, True),
        ({"host": "127.0.0.1:5253", "origin": "http://127.0.0.1:5253"}, True),
        ({"host": "evil.example:5253"}, False),
        ({"host": "localhost.evil.example"}, False),
        ({"host": "notlake.test"}, False),
        ({"host": "127.0.0.1:5253", "origin": "http://evil.example"}, False),
        ({"host": "127.0.0.1:5253", "origin": "http://127.0.0.1:8000"}, False),
        ({"host": "127.0.0.1:5253", "origin": "null"}, False),
    ],
)
def test_without_authentication_pages_of_other_sites_are_still_refused(face, headers, welcome):
    verifier = requesting.verifier(open_to_all=True, domain="lake.test")
    sent = request("POST", headers=list(headers.items()))
    for ask in (
        lambda: requesting.run(verifier.verify(sent, face)),
        lambda: verifier.unverified(sent),
    ):
        if welcome:
            ask()
        else:
            with pytest.raises(access_errors.AccessDenied):
                ask()


@pytest.mark.parametrize("face", ["iam", "sts"])
def test_without_authentication_a_get_changes_no_identity(face):
    verifier = requesting.verifier(open_to_all=True)
    host = [("host", "127.0.0.1:5253")]
    requesting.run(verifier.verify(request("POST", headers=host), face))
    with pytest.raises(access_errors.AccessDenied):
        requesting.run(verifier.verify(request("GET", headers=host), face))


def test_a_proof_that_stands_is_another_caller_from_another_address():
    verifier = requesting.verifier()
    prepared = signed(expires_seconds=60)
    sent = as_request(prepared)
    caller = requesting.run(verifier.verify(sent, "s3"))
    standing = verifier.standing(sent, caller)
    assert verifier.again(standing, sent) == caller
    for changed in ({"client_ip": "10.0.0.9"}, {"scheme": "https"}):
        elsewhere = as_request(prepared)
        for name, value in changed.items():
            setattr(elsewhere, name, value)
        again = verifier.again(standing, elsewhere)
        assert again == requesting.run(verifier.verify(elsewhere, "s3")) != caller


def test_no_proof_stands_that_is_made_for_one_request():
    verifier = requesting.verifier()
    sent = as_request(signed())
    assert verifier.standing(sent, requesting.run(verifier.verify(sent, "s3"))) is None
    anonymous = requesting.request("GET", "/bucket/key", [("host", "a")])
    assert verifier.standing(anonymous, requesting.run(verifier.verify(anonymous, "s3"))) is None
