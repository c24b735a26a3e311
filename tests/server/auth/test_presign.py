"""What a presigned request's query may say."""

from __future__ import annotations

import pytest

from server.auth import errors, presign

V4 = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": "AK/20251121/us-east-1/s3/aws4_request",
    "X-Amz-Date": "20251121T160000Z",
    "X-Amz-Expires": "600",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": "0" * 64,
}
V2 = {"AWSAccessKeyId": "AK", "Expires": "1763741400", "Signature": "abc="}


def test_parse_v4_reads_every_parameter():
    presigned = presign.parse_v4([*V4.items(), ("prefix", "a"), ("X-Amz-Security-Token", "t")])
    assert presigned.proof.claim.credential.access_key == "AK"
    assert presigned.proof.claim.signed_headers == ("host",)
    assert presigned.signed_at_ms == 1_763_740_800_000
    assert presigned.expires_seconds == 600
    assert presigned.security_token == "t"
    assert presigned.content_sha256 is None


@pytest.mark.parametrize("name", ["X-Amz-Content-Sha256", "x-amz-content-sha256"])
def test_parse_v4_takes_the_hash_of_the_body_in_any_case_and_once(name):
    assert presign.parse_v4([*V4.items(), (name, "0" * 64)]).content_sha256 == "0" * 64
    with pytest.raises(errors.MalformedAuthorization):
        presign.parse_v4([*V4.items(), (name, "0"), ("X-Amz-Content-SHA256", "0")])


@pytest.mark.parametrize("name", V4)
def test_parse_v4_needs_every_parameter_exactly_once(name):
    without = [(other, value) for other, value in V4.items() if other != name]
    with pytest.raises(errors.MalformedAuthorization) as caught:
        presign.parse_v4(without)
    assert caught.value.in_query
    with pytest.raises(errors.MalformedAuthorization):
        presign.parse_v4([*V4.items(), (name, V4[name])])


@pytest.mark.parametrize(
    "change",
    [
        {"X-Amz-Expires": "1e3"},
        {"X-Amz-Expires": "--1"},
        {"X-Amz-Expires": "９"},
        {"X-Amz-Date": "2025-11-21"},
        {"X-Amz-Credential": "AK"},
        {"X-Amz-SignedHeaders": "range"},
    ],
)
def test_parse_v4_refuses_what_it_cannot_read(change):
    with pytest.raises(errors.MalformedAuthorization):
        presign.parse_v4({**V4, **change}.items())


@pytest.mark.parametrize("expires", ["0", "-1", "-1000", "604801", "609901"])
def test_parse_v4_refuses_a_validity_out_of_range(expires):
    with pytest.raises(errors.ExpiresOutOfRange) as caught:
        presign.parse_v4({**V4, "X-Amz-Expires": expires}.items())
    assert caught.value.in_query


def test_parse_v4_names_an_algorithm_it_does_not_take():
    with pytest.raises(errors.MalformedAuthorization, match="AWS4-HMAC-SHA256"):
        presign.parse_v4({**V4, "X-Amz-Algorithm": "AWS4-ECDSA-P256-SHA256"}.items())


def test_a_week_is_the_longest_life_and_a_second_the_shortest():
    for expires in ("1", "604800"):
        presigned = presign.parse_v4({**V4, "X-Amz-Expires": expires}.items())
        assert presigned.expires_seconds == int(expires)


@pytest.mark.parametrize("name", V2)
def test_parse_v2_needs_every_parameter_exactly_once(name):
    assert presign.parse_v2(V2.items()).expires_at_ms == 1_763_741_400_000
    with pytest.raises(errors.MalformedAuthorization):
        presign.parse_v2([(other, value) for other, value in V2.items() if other != name])
    with pytest.raises(errors.MalformedAuthorization):
        presign.parse_v2([*V2.items(), (name, V2[name])])


def test_parse_v2_refuses_an_end_that_is_no_number():
    for expires in ("soon", "-5", "1" * 20, "1.5"):
        with pytest.raises(errors.MalformedAuthorization):
            presign.parse_v2({**V2, "Expires": expires}.items())


def test_a_version_2_url_is_valid_in_the_seven_days_before_its_end():
    """Version 2 does not say when it was signed, so a URL that ends later is refused until then."""
    presigned = presign.parse_v2(V2.items())
    week_ms, skew_ms = 7 * 24 * 60 * 60 * 1000, 15 * 60 * 1000
    for before_ms in (1, 1000, week_ms, week_ms + skew_ms):
        presign.check_v2_time(presigned, now_ms=presigned.expires_at_ms - before_ms)
    for before_ms in (week_ms + skew_ms + 1, 30 * 365 * 24 * 60 * 60 * 1000):
        with pytest.raises(errors.PresignNotYetValid):
            presign.check_v2_time(presigned, now_ms=presigned.expires_at_ms - before_ms)
    for after_ms in (0, 1):
        with pytest.raises(errors.ExpiredPresign):
            presign.check_v2_time(presigned, now_ms=presigned.expires_at_ms + after_ms)


def test_recognition_is_by_parameters():
    assert presign.is_v4(b"a=1&X-Amz-Algorithm=x")
    assert presign.is_v2(b"AWSAccessKeyId=A&Expires=1&Signature=x")
    assert not presign.is_v4(b"AWSAccessKeyId=A&Signature=x")
    assert not presign.is_v2(b"Signature=x")
    assert not presign.is_v4(b"prefix=x")
