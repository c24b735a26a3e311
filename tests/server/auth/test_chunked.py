"""aws-chunked bodies: the published examples, a second computation, and every way to break one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import zlib

import pytest

from server.auth import chunked, errors, sigv4
from tests.server import requesting

KEY = sigv4.signing_key(
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", date="20130524", region="us-east-1", service="s3"
)
SCOPE = "20130524/us-east-1/s3/aws4_request"
STAMP = "20130524T000000Z"
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
EMPTY = hashlib.sha256(b"").hexdigest()


def mac(*lines: str) -> str:
    return hmac.new(KEY, "\n".join(lines).encode(), hashlib.sha256).hexdigest()


def chunk_signature(previous: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    return mac("AWS4-HMAC-SHA256-PAYLOAD", STAMP, SCOPE, previous, EMPTY, digest)


def signed_body(chunks: list[bytes], trailers: list[tuple[str, str]] | None = None) -> bytes:
    """The wire form of a body, computed here and not by the code under test."""
    out, previous = b"", SEED
    for data in [*chunks, b""]:
        previous = chunk_signature(previous, data)
        out += b"%x;chunk-signature=%s\r\n" % (len(data), previous.encode())
        out += data + b"\r\n" if data or trailers is None else b""
    if trailers is not None:
        canonical = "".join(f"{name}:{value}\n" for name, value in sorted(trailers))
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        out += b"".join(f"{name}:{value}\r\n".encode() for name, value in trailers)
        signature = mac("AWS4-HMAC-SHA256-TRAILER", STAMP, SCOPE, previous, digest)
        out += b"x-amz-trailer-signature:" + signature.encode() + b"\r\n\r\n"
    return out


def payload(mode: str, length: int, *trailers: str, seed: str | None = SEED) -> chunked.Payload:
    return chunked.Payload(
        mode=mode,
        decoded_length=length,
        seed=None
        if seed is None
        else chunked.Seed(signing_key=KEY, timestamp=STAMP, scope=SCOPE, signature=seed),
        trailers=trailers,
    )


def decode(said: chunked.Payload, *portions: bytes) -> tuple[bytes, dict[str, str]]:
    decoder = said.decoder()
    data = b"".join(decoder.feed(portion) for portion in portions)
    return data, decoder.finish()


def test_published_chunked_upload_decodes_and_its_signatures_hold():
    body = (
        b"10000;chunk-signature="
        b"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
        + b"a"
        * 65536
        + b"\r\n400;chunk-signature="
        b"0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
        + b"a"
        * 1024
        + b"\r\n0;chunk-signature="
        b"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
    )
    assert len(body) == 66824
    assert decode(payload("chunks", 66560), body) == (b"a" * 66560, {})


def test_published_chunked_upload_with_trailer_decodes_and_its_signatures_hold():
    seed = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
    body = (
        b"10000;chunk-signature="
        b"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n"
        + b"a"
        * 65536
        + b"\r\n400;chunk-signature="
        b"1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n"
        + b"a"
        * 1024
        + b"\r\n0;chunk-signature="
        b"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
        b"x-amz-checksum-crc32c:sOO8/Q==\n\r\n"
        b"x-amz-trailer-signature:"
        b"d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
    )
    said = payload("chunks-trailer", 66560, "x-amz-checksum-crc32c", seed=seed)
    assert decode(said, body) == (b"a" * 66560, {"x-amz-checksum-crc32c": "sOO8/Q=="})


@pytest.mark.parametrize("chunks", [[], [b"x"], [b"abc", b"d" * 70_000, b"\r\n0\r\n"]])
def test_signed_chunks_computed_a_second_way_decode(chunks):
    data = b"".join(chunks)
    assert decode(payload("chunks", len(data)), signed_body(chunks)) == (data, {})


@pytest.mark.parametrize("chunks", [[], [b"x"], [b"abc", b"d" * 70_000]])
def test_signed_chunks_with_signed_trailer_decode(chunks):
    data = b"".join(chunks)
    trailers = [("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-meta-b", "c d")]
    said = payload("chunks-trailer", len(data), "x-amz-checksum-crc32", "x-amz-meta-b")
    assert decode(said, signed_body(chunks, trailers)) == (data, dict(trailers))


def test_unsigned_trailer_as_botocore_frames_it_decodes():
    import io

    from botocore import httpchecksum

    data = b"some data" * 3000
    raw = httpchecksum.AwsChunkedWrapper(
        io.BytesIO(data),
        checksum_cls=httpchecksum.Crc32Checksum,
        checksum_name="x-amz-checksum-crc32",
        chunk_size=8 * 1024,
    )
    body = b"".join(raw)
    expected = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
    said = payload("unsigned-trailer", len(data), "x-amz-checksum-crc32", seed=None)
    assert decode(said, body) == (data, {"x-amz-checksum-crc32": expected})


def test_unsigned_trailers_as_minio_go_frames_them_decode_wherever_they_are_cut():
    # Each line ends by LF; CRLF ends the trailers, as in the published form, and another the body.
    body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\nx-b:1\n\r\n\r\n"
    expected = (b"hello", {"x-amz-checksum-crc32": "NhCmhg==", "x-b": "1"})
    said = payload("unsigned-trailer", 5, "x-amz-checksum-crc32", "x-b", seed=None)
    for cut in range(len(body) + 1):
        assert decode(said, body[:cut], body[cut:]) == expected
    assert decode(said, *(body[i : i + 1] for i in range(len(body)))) == expected
    whole = len(body) - len(b"\r\n")
    assert decode(said, body[:whole]) == expected
    for stop in (*range(whole), len(body) - 1):
        with pytest.raises(errors.IncompletePayload):
            decode(said, body[:stop])


@pytest.mark.parametrize("ends", [b"\r\n", b"\n\r\n"])
def test_signed_trailers_decode_also_where_no_signature_is_checked(ends):
    """With `--no-auth`. LF CRLF is the published form, and that of minio-go."""
    body = (
        b"5;chunk-signature=%s\r\nhello\r\n0;chunk-signature=%s\r\n" % (b"a" * 64, b"b" * 64)
        + b"x-amz-checksum-crc32:NhCmhg=="
        + ends
        + b"x-amz-trailer-signature:%s\r\n\r\n" % (b"c" * 64)
    )
    expected = (b"hello", {"x-amz-checksum-crc32": "NhCmhg=="})
    said = payload("chunks-trailer", 5, "x-amz-checksum-crc32", seed=None)
    for cut in range(len(body) + 1):
        assert decode(said, body[:cut], body[cut:]) == expected
    with pytest.raises(errors.IncompletePayload):
        decode(said, body[:-2])
    with pytest.raises(errors.MalformedChunk, match="bytes follow the end"):
        decode(said, body + b"\r\n")


@pytest.mark.parametrize("rest", [b"\r\n", b"x", b"\n", b"\rx", b"0\r\n\r\n"])
def test_nothing_follows_the_line_after_unsigned_trailers(rest):
    for body in (
        b"0\r\nx-a:1\n\r\n\r\n" + rest,
        b"0\r\nx-a:1\r\n\r\n" + rest,
        b"0\r\n\r\n" + rest,
    ):
        said = payload("unsigned-trailer", 0, *(["x-a"] if b"x-a" in body else []), seed=None)
        for portions in ([body], [body[i : i + 1] for i in range(len(body))]):
            with pytest.raises(errors.MalformedChunk, match="bytes follow the end"):
                decode(said, *portions)


@pytest.mark.parametrize("rest", [b"x", b"\n", b"\rx", b"0\r\n\r\n"])
def test_only_an_empty_line_follows_unsigned_trailers_that_end_by_a_bare_newline(rest):
    said = payload("unsigned-trailer", 0, "x-a", seed=None)
    body = b"0\r\nx-a:1\n\r\n" + rest
    for portions in ([body], [body[i : i + 1] for i in range(len(body))]):
        with pytest.raises(errors.MalformedChunk, match="bytes follow the end"):
            decode(said, *portions)


@pytest.mark.parametrize("start", [b"1\r\na", b"1\r\na\r\n0\r\nx-a:1\n\r\n"])
def test_much_that_comes_in_place_of_a_line_break_is_named_alike_however_it_is_cut(start):
    said = payload("unsigned-trailer", 1, "x-a", seed=None)
    for rest in (b"x" * 3000, b"x" * 3000 + b"\n", b"\r" * 3000, b"\r" + b"x" * 1200):
        body = start + rest
        messages = set()
        for portions in ([body], [body[i : i + 1] for i in range(len(body))], [start, rest]):
            with pytest.raises(errors.MalformedChunk) as caught:
                decode(said, *portions)
            messages.add(str(caught.value))
        assert len(messages) == 1


def test_framing_may_be_cut_anywhere():
    body = signed_body([b"hello", b"\r\n;="], [("x-amz-checksum-crc32", "AAAAAA==")])
    said = payload("chunks-trailer", 9, "x-amz-checksum-crc32")
    expected = (b"hello\r\n;=", {"x-amz-checksum-crc32": "AAAAAA=="})
    for cut in range(len(body) + 1):
        assert decode(said, body[:cut], body[cut:]) == expected
    assert decode(said, *(body[i : i + 1] for i in range(len(body)))) == expected


def test_every_truncation_is_incomplete():
    body = signed_body([b"hello"], [("x-amz-checksum-crc32", "AAAAAA==")])
    for stop in range(len(body)):
        with pytest.raises(errors.IncompletePayload):
            decode(payload("chunks-trailer", 5, "x-amz-checksum-crc32"), body[:stop])
    plain = signed_body([b"hello"])
    for stop in range(len(plain)):
        with pytest.raises(errors.IncompletePayload):
            decode(payload("chunks", 5), plain[:stop])


def test_no_changed_byte_of_a_signed_body_is_taken_for_the_original():
    body = signed_body([b"hello", b"world"], [("x-amz-checksum-crc32", "AAAAAA==")])
    said = payload("chunks-trailer", 10, "x-amz-checksum-crc32")
    meant = decode(said, body)
    for position in range(len(body)):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(body)
            changed[position] ^= flip
            try:
                decoded = decode(said, bytes(changed))
            except errors.PayloadError:
                continue
            # The one freedom left is how a name or a length is spelled.
            assert decoded == meant, position


@pytest.mark.parametrize(
    ("mode", "body", "length", "trailers", "error"),
    [
        ("unsigned-trailer", b"5\r\nhello\r\n0\r\n\r\nmore", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"5\r\nhelloo\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"5\r\nhello\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"5\nhello\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"5\r\nhello\r\n0\r\n\r\n", 4, (), errors.IncompletePayload),
        ("unsigned-trailer", b"5\r\nhello\r\n0\r\n\r\n", 6, (), errors.IncompletePayload),
        ("unsigned-trailer", b"-5\r\nhello\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"0x5\r\nhello\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"+5\r\nhello\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b" 5\r\nhello\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"1" * 17 + b"\r\n", 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"0" * 2000, 5, (), errors.MalformedChunk),
        ("unsigned-trailer", b"0\r\nx-a:1\r\n\r\n", 0, (), errors.MalformedTrailer),
        ("unsigned-trailer", b"0\r\nx-a:1\r\nx-a:1\r\n\r\n", 0, ("x-a",), errors.MalformedTrailer),
        ("unsigned-trailer", b"0\r\n\r\n", 0, ("x-a",), errors.MalformedTrailer),
        ("unsigned-trailer", b"0\r\nx-a 1\r\n\r\n", 0, ("x-a",), errors.MalformedTrailer),
        ("unsigned-trailer", b"0\r\nx-\xff:1\r\n\r\n", 0, ("x-a",), errors.MalformedTrailer),
        ("chunks", b"5\r\nhello\r\n0\r\n\r\n", 5, (), errors.MalformedChunk),
        ("chunks", b"0;chunk-signature=ab\r\n\r\n", 0, (), errors.MalformedChunk),
        (
            "chunks",
            b"0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n",
            0,
            (),
            errors.ChunkSignatureMismatch,
        ),
    ],
)
def test_broken_framing_is_named(mode, body, length, trailers, error):
    said = payload(mode, length, *trailers, seed=None if mode == "unsigned-trailer" else SEED)
    with pytest.raises(error):
        decode(said, body)
    with pytest.raises(error):
        decode(said, *(body[i : i + 1] for i in range(len(body))))


def test_trailers_beyond_their_bound_are_refused():
    body = b"0\r\n" + b"".join(b"x-%d:%s\r\n" % (i, b"v" * 900) for i in range(20)) + b"\r\n"
    said = payload("unsigned-trailer", 0, *(f"x-{i}" for i in range(20)), seed=None)
    with pytest.raises(errors.MalformedTrailer):
        decode(said, body)


def test_chunks_swapped_within_a_body_break_the_chain():
    body = signed_body([b"first", b"other"])
    head = body.index(b"\r\n", body.index(b"first")) + 2
    tail = body.index(b"0;chunk-signature", head)
    swapped = body[head:tail] + body[:head] + body[tail:]
    with pytest.raises(errors.ChunkSignatureMismatch):
        decode(payload("chunks", 10), swapped)


def test_chunk_signature_of_another_request_does_not_hold():
    body = signed_body([b"hello"])
    with pytest.raises(errors.ChunkSignatureMismatch) as caught:
        decode(payload("chunks", 5, seed="0" * 64), body)
    assert caught.value.chunk == 0


def test_without_a_seed_signed_framing_is_only_taken_apart():
    body = signed_body([b"hello"])
    assert decode(payload("chunks", 5, seed=None), body) == (b"hello", {})


def test_large_data_is_passed_on_without_a_copy():
    decoder = payload("unsigned-trailer", 1 << 20, seed=None).decoder()
    assert decoder.feed(b"100000\r\n") == b""
    data = bytes(1 << 16)
    assert decoder.feed(data) is data


def test_plain_hash_is_checked_at_the_end():
    good = hashlib.sha256(b"hello").hexdigest()
    assert decode(chunked.Payload(mode="hash", sha256=good), b"he", b"llo") == (b"hello", {})
    with pytest.raises(errors.PayloadHashMismatch) as caught:
        decode(chunked.Payload(mode="hash", sha256=good), b"jello")
    assert caught.value.expected == good
    assert caught.value.computed == hashlib.sha256(b"jello").hexdigest()


def test_plain_hash_may_be_checked_by_a_caller_that_computes_it():
    said = chunked.Payload(mode="hash", sha256=hashlib.sha256(b"hello").hexdigest())
    decoder = said.decoder(verify_hash=False)
    assert decoder.feed(b"jello") == b"jello"
    assert decoder.finish() == {}
    said.check_sha256(hashlib.sha256(b"hello").digest())
    with pytest.raises(errors.PayloadHashMismatch):
        said.check_sha256(hashlib.sha256(b"jello").digest())
    chunked.UNSIGNED_PAYLOAD.check_sha256(b"anything")


def parse(value, length=None, trailer=None):
    return chunked.parse_payload(value, decoded_length=length, trailer=trailer, seed=None)


def test_parse_payload_knows_six_forms():
    assert parse(None) == chunked.UNSIGNED_PAYLOAD
    assert parse("UNSIGNED-PAYLOAD") == chunked.UNSIGNED_PAYLOAD
    assert parse("AB" * 32) == chunked.Payload(mode="hash", sha256="ab" * 32)
    streaming = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    assert parse(streaming, "5").mode == "chunks"
    assert parse(streaming + "-TRAILER", "5", "X-A, x-b").trailers == ("x-a", "x-b")
    assert parse("STREAMING-UNSIGNED-PAYLOAD-TRAILER", "5").mode == "unsigned-trailer"


def test_parse_payload_refuses_what_is_none_of_them():
    for value in ("", "abc", "STREAMING-", "unsigned-payload", "47DEQpj8HBSa+/TImW+5JA=="):
        with pytest.raises(errors.MalformedPayloadHash):
            parse(value, "5")
    with pytest.raises(errors.UnsupportedPayload):
        parse("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "5")
    for length in (None, "", "-1", "5.0", "５"):
        with pytest.raises(errors.MissingDecodedLength):
            parse("STREAMING-UNSIGNED-PAYLOAD-TRAILER", length)


def test_seed_of_a_verified_request_opens_its_own_chunks():
    """The whole way: botocore signs the head, this file signs the chunks, the verifier judges."""
    from botocore import auth

    class Streaming(auth.S3SigV4Auth):
        def payload(self, request):
            return "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

    prepared = requesting.signed(
        "PUT",
        headers=[
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            ("x-amz-decoded-content-length", "5"),
        ],
        signer=Streaming,
    )
    caller = requesting.run(requesting.verifier().verify(requesting.as_request(prepared), "s3"))
    assert caller.payload.mode == "chunks"
    seed = caller.payload.seed
    assert seed is not None
    key = sigv4.signing_key(
        requesting.SECRET_KEY, date="20251121", region=requesting.REGION, service="s3"
    )
    stamp, scope = "20251121T160000Z", f"20251121/{requesting.REGION}/s3/aws4_request"
    previous, body = seed.signature, b""
    for data in (b"hello", b""):
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256-PAYLOAD",
                stamp,
                scope,
                previous,
                EMPTY,
                hashlib.sha256(data).hexdigest(),
            )
        )
        previous = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        body += b"%x;chunk-signature=%s\r\n%s\r\n" % (len(data), previous.encode(), data)
    assert decode(caller.payload, body) == (b"hello", {})
