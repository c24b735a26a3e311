"""rule: parses bounded XML; escapes character data.

Requests carry small documents without a DTD. A document type, and with it custom entities, is
refused; bytes, depth and number of elements have maxima. Names are returned without namespace and
prefix: some clients omit it, some invent one. Never fetches anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from xml.parsers import expat

from server import errors, limits

NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


class Element(NamedTuple):
    """One element: a text, or elements. characters: all character data directly inside it, white
    space included. elements: those directly inside it.

    Parsers of documents read `text` or `children`, so that nothing that a document says is dropped
    from an element that they read. An element that they do not read may contain anything. A tuple,
    not a dataclass: completing an upload of 10,000 parts makes 40,000 of them.
    """

    name: str
    characters: str = ""
    elements: tuple[Element, ...] = ()
    attributes: Mapping[str, str] = NO_ATTRIBUTES

    @property
    def text(self) -> str:
        """The character data, white space included. Raises MalformedXML if there are elements."""
        if self.elements:
            raise errors.MalformedXML(f"the text of {self.name} has elements within it")
        return self.characters

    @property
    def children(self) -> tuple[Element, ...]:
        """The elements, in order. Raises MalformedXML if there is text beside or in place of
        them."""
        if self.characters and not self.characters.isspace():
            raise errors.MalformedXML(f"the elements of {self.name} have text beside them")
        return self.elements

    def child(self, name: str) -> Element | None:
        """Return the child of that name, or None. Raises MalformedXML if there are several."""
        only: Element | None = None
        for child in self.children:
            if child.name == name:
                if only is not None:
                    raise errors.MalformedXML(f"{self.name} has {name} more than once")
                only = child
        return only

    def all(self, name: str) -> tuple[Element, ...]:
        """Return every child of that name, in order."""
        return tuple(child for child in self.children if child.name == name)


def parse(data: bytes) -> Element:
    """Return the root element of a document. Raises MalformedXML."""
    if len(data) > limits.XML_BYTES_MAX:
        raise errors.MalformedXML(f"the XML is longer than {limits.XML_BYTES_MAX} bytes")
    builder = _Builder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.add_text
    try:
        for position in range(0, len(data), limits.XML_TAG_BYTES_MAX):
            step = data[position : position + limits.XML_TAG_BYTES_MAX]
            parser.Parse(step, False)
            # The parser keeps unparsed bytes, such as a tag without end, for ever.
            if position + len(step) - parser.CurrentByteIndex > limits.XML_TAG_BYTES_MAX:
                raise errors.MalformedXML(
                    f"a tag of the XML is longer than {limits.XML_TAG_BYTES_MAX} bytes"
                )
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise errors.MalformedXML(f"the XML is not well-formed: {error}") from None
    except (LookupError, ValueError):
        raise errors.MalformedXML("the XML names an unknown encoding") from None
    assert builder.root is not None
    return builder.root


def escape(text: str) -> str:
    """Return text as character data or attribute value. Characters that XML 1.0 does not allow
    become character references, as AWS writes them."""
    return text.translate(_ESCAPES)


_ESCAPES: Final = {code: f"&#x{code:x};" for code in range(32) if code not in (9, 10)} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord('"'): "&quot;",
}


class _Open:
    """An element whose end tag has not been parsed."""

    __slots__ = ("attributes", "children", "name", "parts")

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element] = []
        self.parts: list[str] = []


class _Builder:
    """Handles the parser's events and keeps the open elements."""

    __slots__ = ("_count", "_open", "root")

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._count = 0
        self.root: Element | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= limits.XML_DEPTH_MAX:
            raise errors.MalformedXML(f"the XML is more than {limits.XML_DEPTH_MAX} levels deep")
        if self._count > limits.XML_ELEMENTS_MAX:
            raise errors.MalformedXML(f"the XML has more than {limits.XML_ELEMENTS_MAX} elements")
        bare = NO_ATTRIBUTES
        if attributes:
            bare = {_local(key): value for key, value in attributes.items()}
        self._open.append(_Open(_local(name), bare))

    def add_text(self, text: str) -> None:
        self._open[-1].parts.append(text)

    def end(self, name: str) -> None:
        done = self._open.pop()
        element = Element(done.name, "".join(done.parts), tuple(done.children), done.attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element


def _local(name: str) -> str:
    return name.rpartition(":")[2] if ":" in name else name


def _refuse_document_type(*_: object) -> None:
    raise errors.MalformedXML("the XML has a document type, which is refused")
