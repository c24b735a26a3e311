"""aws-chunked framing: however a stream is cut, it decodes the same or is refused the same."""

from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from server.auth import chunked, errors
from tests.kit import examples

SEED = chunked.Seed(signing_key=b"key", timestamp="T", scope="S", signature="0" * 64)
EMPTY = hashlib.sha256(b"").hexdigest()


def outcome(said, portions):
    """What a decoder makes of a stream: its bytes and trailers, or the class of its error."""
    decoder = said.decoder()
    try:
        data = b"".join([decoder.feed(portion) for portion in portions])
        return data, decoder.finish()
    except errors.PayloadError as error:
        return type(error), str(error)


def cut(body, places):
    stops = sorted({place % (len(body) + 1) for place in places})
    return [body[a:b] for a, b in zip([0, *stops], [*stops, len(body)], strict=True)]


def frame(chunks, mode, trailers=()):
    """The wire form of chunks, signed here where the mode signs."""
    out, previous = b"", SEED.signature
    for data in [*chunks, b""]:
        head = b"%x" % len(data)
        if mode != "unsigned-trailer":
            text = "\n".join(
                ("AWS4-HMAC-SHA256-PAYLOAD", "T", "S", previous, EMPTY,
                 hashlib.sha256(data).hexdigest())
            )  # fmt: skip
            previous = hmac.new(b"key", text.encode(), hashlib.sha256).hexdigest()
            head += b";chunk-signature=" + previous.encode()
        out += head + b"\r\n" + data + (b"\r\n" if data or mode == "chunks" else b"")
    if mode != "chunks":
        out += b"".join(f"{name}:{value}\r\n".encode() for name, value in trailers)
        if mode == "chunks-trailer":
            canonical = "".join(f"{name}:{value}\n" for name, value in sorted(trailers))
            digest = hashlib.sha256(canonical.encode()).hexdigest()
            text = "\n".join(("AWS4-HMAC-SHA256-TRAILER", "T", "S", previous, digest))
            signature = hmac.new(b"key", text.encode(), hashlib.sha256).hexdigest()
            out += b"x-amz-trailer-signature:" + signature.encode() + b"\r\n"
        out += b"\r\n"
    return out


modes = st.sampled_from(["chunks", "chunks-trailer", "unsigned-trailer"])
chunk_lists = st.lists(st.binary(min_size=1, max_size=30) | st.just(b"\r\n0\r\n\r\n"), max_size=4)
places = st.lists(st.integers(0, 10_000), max_size=8)


def payload(mode, length, trailers=()):
    return chunked.Payload(
        mode=mode,
        decoded_length=length,
        seed=None if mode == "unsigned-trailer" else SEED,
        trailers=tuple(trailers),
    )


@examples.at_most(200)
@given(chunk_lists, modes, places, st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.just("v")))
def test_a_framed_body_decodes_alike_for_every_split(chunks, mode, stops, trailers):
    data = b"".join(chunks)
    if mode == "chunks":
        trailers = {}
    body = frame(chunks, mode, trailers.items())
    said = payload(mode, len(data), trailers)
    assert outcome(said, [body]) == (data, trailers)
    assert outcome(said, cut(body, stops)) == (data, trailers)
    assert outcome(said, [body[i : i + 1] for i in range(len(body))]) == (data, trailers)


tokens = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b"0", b"5", b"a", b";chunk-signature=", b"0" * 64, b"hello", b":",
     b"x-a:1", b"x-amz-trailer-signature:", b" ", b"\xff", b"f" * 16, b"z" * 1100]
)  # fmt: skip


@examples.at_most(400)
@given(
    st.lists(tokens | st.binary(max_size=6), max_size=12).map(b"".join),
    modes,
    st.integers(0, 12),
    places,
)
def test_garbage_is_refused_alike_for_every_split(body, mode, length, stops):
    said = payload(mode, length, ("x-a",))
    whole = outcome(said, [body])
    assert outcome(said, cut(body, stops)) == whole
    assert outcome(said, [body[i : i + 1] for i in range(len(body))]) == whole


@examples.at_most(200)
@given(chunk_lists, modes, st.integers(0, 10_000), st.integers(1, 255), places)
def test_a_changed_byte_never_changes_the_data_unnoticed_where_it_is_signed(
    chunks, mode, place, flip, stops
):
    data = b"".join(chunks)
    body = bytearray(frame(chunks, mode))
    body[place % len(body)] ^= flip
    said = payload(mode, len(data))
    whole = outcome(said, [bytes(body)])
    assert outcome(said, cut(bytes(body), stops)) == whole
    if mode != "unsigned-trailer" and isinstance(whole[0], bytes):
        assert whole == (data, {})
