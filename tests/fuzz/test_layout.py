"""Generated keys against a second reading of the layout grammar: one regular expression, written
from the ABNF alone. And garbage: a verdict or the one refusal, never anything else."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import layout
from server.s3 import guard
from tests.kit import examples

# The ABNF, production by production. seg carries the prose's "never starting with a dot".
CHAR = r"[^/\x00-\x1f\x7f]"
SEG = rf"(?!\.){CHAR}+"
PLAIN = rf"(?!(?:metadata|data)/){SEG}"
META_NAME = (
    rf"(?:version-hint\.text|{SEG}(?:\.metadata\.json|\.metadata\.json\.gz|\.avro|\.stats|\.puffin"
    r"|\.parquet|\.orc))"
)
DATA_NAME = rf"{SEG}(?:\.parquet|\.orc|\.avro|\.puffin)"
PARTITION = r"(?!\.)[^/=\x00-\x1f\x7f]+=[^/\x00-\x1f\x7f]*"
UUID = "-".join(f"[0-9a-f]{{{count}}}" for count in (8, 4, 4, 4, 12))
HASH_DIR = rf"(?:[01]{{1,20}}|[0-9a-f]{{2,40}}|[-_A-Za-z0-9]{{6}}|{UUID})"
DIR = rf"(?:{PARTITION}|{HASH_DIR})"
SPILL_DIR = r"(?:[01]{8}-)?trino-tmp-files"
BELOW = (
    rf"(?:metadata/(?P<metadata>{META_NAME})"
    rf"|data/(?:{DIR}/)*(?P<data>{DATA_NAME})"
    rf"|data/(?:{HASH_DIR}/)*{SPILL_DIR}/(?P<scratch>sorting-file-writer-{CHAR}+)"
    rf"|(?P<marker>metadata/|data/(?:{DIR}/)*|data/(?:{HASH_DIR}/)*{SPILL_DIR}/))"
)
# Where nothing is known the first anchor at index 2 or later ends the location.
UNKNOWN = re.compile(
    rf"(?P<location>{SEG}/{SEG}(?:/{PLAIN}){{0,15}})/{BELOW}"
    rf"|(?:{SEG}/){{1,2}}"
    rf"|{SEG}/{PLAIN}(?:/{PLAIN}){{1,15}}/"
)
KNOWN = re.compile(rf"(?P<location>sales/orders)/(?:{BELOW})?")


def read_again(key: str, pattern: re.Pattern[str]) -> tuple[str, str | None] | None:
    """Return (role, location) by the regular expression; None for a key outside the grammar."""
    if not 1 <= len(key.encode("utf-8", "surrogatepass")) <= 1024:
        return None
    if any("\ud800" <= character <= "\udfff" for character in key):
        return None
    match = pattern.fullmatch(key)
    if match is None:
        return None
    location = match["location"]
    for role in ("metadata", "scratch", "data"):
        if match[role] is not None:
            return (role, location)
    return ("marker", location)


def judged(key: str | bytes, location: layout.Location | None) -> tuple[str, str | None] | None:
    try:
        verdict = layout.judge(key, location=location)
    except guard.LayoutRefused as refused:
        check_refusal(key, refused)
        return None
    return (verdict.role, verdict.location)


def check_refusal(key: str | bytes, refused: guard.LayoutRefused) -> None:
    text = key if isinstance(key, str) else key.decode("utf-8", "replace")
    assert refused.rule in layout.RULES
    assert 0 <= refused.position < len(text.split("/"))
    assert len(refused.segment) <= 128
    assert refused.segment.isprintable()
    assert str(refused).isprintable()
    assert f"rule {refused.rule}: segment " in str(refused)


WORD_LIST = """
    sales orders data metadata a b data metadata v1.metadata.json x.metadata.json.gz x.avro
    f.parquet f.orc f.puffin f.stats version-hint.text version-hint.text.crc f.csv .f.parquet
    day=1 region= =1 a=b=c my.col=1 0101 10110010 2d3905f8 _nJ-gQ abcdef abcdefg archive
    _temporary trino-tmp-files 01011010-trino-tmp-files sorting-file-writer-1
    sorting-file-writer- .. . .hidden Île
    0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10 0b3e4f0c8b1d4a559d3e6f1f2a7c9e10
"""
WORDS = st.sampled_from(WORD_LIST.split())
ODD = st.sampled_from(["", "\x00", "a\x1fb", "\x7f", "x\n", ".parquet", "=", "é=é", "%2e%2e", " "])
SEGMENT = st.one_of(WORDS, WORDS, WORDS, WORDS, ODD, st.text(max_size=6))
FREE = st.lists(SEGMENT, min_size=1, max_size=22).map("/".join)
BELOW_TABLE = st.builds(
    lambda parts, tail: "/".join(["sales/orders", *parts]) + tail,
    st.lists(SEGMENT, max_size=6),
    st.sampled_from(["", "", "", "/"]),
)
LIKELY = st.builds(
    lambda place, anchor, parts, name: "/".join([*place, anchor, *parts, name]),
    st.lists(st.sampled_from(["a", "b", "data", "metadata", "c.d"]), min_size=1, max_size=4),
    st.sampled_from(["data", "metadata"]),
    st.lists(WORDS, max_size=3),
    st.one_of(WORDS, st.just("")),
)
# Keys made from the regular expression itself, and the same with one character changed.
ALPHABET = st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z", "Cc"))
GOOD = st.from_regex(UNKNOWN, fullmatch=True, alphabet=ALPHABET)
GOOD_BELOW_TABLE = st.from_regex(KNOWN, fullmatch=True, alphabet=ALPHABET)


@st.composite
def nearly(draw: st.DrawFn, good: st.SearchStrategy[str]) -> str:
    key = draw(good)
    at = draw(st.integers(0, len(key) - 1))
    return key[:at] + draw(st.sampled_from(["", "/", ".", "x", "\x00", "="])) + key[at + 1 :]


@examples.at_most(150)
@given(GOOD)
def test_keys_made_from_the_grammar_are_accepted(key: str) -> None:
    expected = read_again(key, UNKNOWN)
    assert judged(key, None) == expected
    assert (expected is None) == (len(key.encode()) > 1024)


@settings(max_examples=10, deadline=None)
@given(nearly(GOOD))
def test_keys_nearly_of_the_grammar_are_read_alike(key: str) -> None:
    assert judged(key, None) == read_again(key, UNKNOWN)


@pytest.mark.long
@settings(max_examples=4_000, deadline=None)
@given(nearly(GOOD))
def test_thousands_of_keys_nearly_of_the_grammar_are_read_alike(key: str) -> None:
    assert judged(key, None) == read_again(key, UNKNOWN)


@examples.at_most(800)
@given(st.one_of(LIKELY, BELOW_TABLE, FREE))
def test_judge_agrees_with_a_second_reading_of_the_grammar(key: str) -> None:
    assert judged(key, None) == read_again(key, UNKNOWN)


BELOW_KNOWN = st.one_of(BELOW_TABLE, GOOD_BELOW_TABLE, nearly(GOOD_BELOW_TABLE))


@settings(max_examples=15, deadline=None)
@given(BELOW_KNOWN)
def test_judge_below_a_known_location_agrees_with_a_second_reading(key: str) -> None:
    check_below_known(key)


@pytest.mark.long
@settings(max_examples=10_000, deadline=None)
@given(BELOW_KNOWN)
def test_judge_below_a_known_location_agrees_for_thousands_of_keys(key: str) -> None:
    check_below_known(key)


def check_below_known(key: str) -> None:
    if not key.startswith("sales/orders/") and key != "sales/orders":
        return
    expected = read_again(key, KNOWN)
    assert judged(key, layout.Location(path="sales/orders")) == expected


@examples.at_most(500)
@given(st.one_of(st.binary(max_size=1100), st.text(max_size=300), FREE))
def test_garbage_is_judged_or_refused_and_what_passes_stays_in_the_bucket(key: str | bytes) -> None:
    if judged(key, None) is None:
        return
    text = key if isinstance(key, str) else key.decode()
    assert posixpath.normpath(f"/bucket/{text}") == f"/bucket/{text}".rstrip("/")
    assert not {"", ".", ".."} & set(text.rstrip("/").split("/"))


@examples.at_most(300)
@given(st.text(max_size=60), st.lists(st.text(max_size=10), max_size=4))
def test_find_location_only_returns_a_prefix_on_a_segment_boundary(
    key: str, paths: list[str]
) -> None:
    places = {path: layout.Location(path=path) for path in [*paths, key[: len(key) // 2]]}
    table_location = layout.find_location(key, places.get)
    if table_location is not None:
        assert (key + "/").startswith(table_location.path + "/")
