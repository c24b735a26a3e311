"""XML in, bounded; character data out."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import errors, limits, xmltext


def test_names_come_without_namespace_or_prefix():
    root = xmltext.parse(
        b'<?xml version="1.0" encoding="UTF-8"?>'
        b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a&amp;b</Key>'
        b'</Object><x:Quiet xmlns:x="urn:x" x:kind="y">true</x:Quiet><Object/></Delete>'
    )
    assert root.name == "Delete"
    assert [child.name for child in root.children] == ["Object", "Quiet", "Object"]
    key = root.children[0].child("Key")
    assert key is not None
    assert key.text == "a&b"
    quiet = root.child("Quiet")
    assert quiet is not None
    assert quiet.attributes["kind"] == "y"
    assert len(root.all("Object")) == 2
    assert root.child("Absent") is None


def test_text_is_all_character_data_directly_inside():
    root = xmltext.parse(b"<a>one<!-- two -->three<![CDATA[<&]]>&#x41;</a>")
    assert root.text == "onethree<&A"


def test_an_element_is_read_as_text_or_as_elements():
    """A part of it would be dropped otherwise. An element that is not read may be of any form."""
    mixed, inner, spaced = xmltext.parse(
        b"<r><a>one<b>two</b></a><a><b>two</b></a><a>\n <b>two</b>\t</a></r>"
    ).children
    for each in (mixed, inner, spaced):
        with pytest.raises(errors.MalformedXML):
            assert each.text is None
    for read in (lambda: mixed.children, lambda: mixed.child("b"), lambda: mixed.all("b")):
        with pytest.raises(errors.MalformedXML):
            read()
    for each in (inner, spaced):
        assert [child.text for child in each.children] == ["two"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"text",
        b"<a>",
        b"<a></b>",
        b"<a/><b/>",
        b"<a>&unknown;</a>",
        b"<a b='1' b='2'/>",
        b"\xff\xfe<",
        b"<?xml version='1.0' encoding='nonsense'?><a/>",
        b"<!DOCTYPE a><a/>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b"<a>" * (limits.XML_DEPTH_MAX + 1) + b"</a>" * (limits.XML_DEPTH_MAX + 1),
        b"<a>" + b" " * limits.XML_BYTES_MAX + b"</a>",
        b"<a>" + b"<b/>" * limits.XML_ELEMENTS_MAX + b"</a>",
        b"<a " + b" ".join(b"a%d=''" % number for number in range(10_000)) + b"/>",
        b"<a><!--" + b" " * 3 * limits.XML_TAG_BYTES_MAX + b"--></a>",
    ],
)
def test_what_is_not_a_small_plain_document_is_malformed(data):
    with pytest.raises(errors.MalformedXML):
        xmltext.parse(data)


def test_long_text_is_no_long_tag():
    text = b"a&amp;" * limits.XML_TAG_BYTES_MAX
    assert xmltext.parse(b"<a><b>" + text + b"</b></a>").children[0].text == "a&" * (len(text) // 6)


def test_deepest_document_is_taken():
    depth = limits.XML_DEPTH_MAX
    assert xmltext.parse(b"<a>" * depth + b"</a>" * depth).name == "a"


@settings(max_examples=200)
@given(st.binary(max_size=200) | st.text(alphabet="<>/a=\"'&;![]CDAT- ?x", max_size=60))
def test_garbage_is_a_document_or_malformed(data):
    raw = data if isinstance(data, bytes) else data.encode()
    with contextlib.suppress(errors.MalformedXML):
        assert isinstance(xmltext.parse(raw), xmltext.Element)


@settings(max_examples=200)
@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"])))
def test_escaped_text_reads_back(text):
    text = text.replace("￾", "").replace("￿", "")
    root = xmltext.parse(f'<a b="{xmltext.escape(text)}">{xmltext.escape(text)}</a>'.encode())
    assert (root.text, root.attributes["b"]) == (text, text)


def test_control_characters_go_out_as_references():
    assert xmltext.escape("a\x00\x01\r\t\n<") == "a&#x0;&#x1;&#xd;\t\n&lt;"
