"""What is looked up in raw text before it is read, and where it says what could not be read."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import errors, inspection, reading, sources, valueclasses
from tests.pipeline.lake import Raw
from tests.pipeline.test_sources import keys_of


def groups_of(raw: Raw, **options: str) -> list[list[sources.Source]]:
    listing = sources.listed(raw.s3, raw.place("in/"))
    return list(inspection.grouped(raw.s3, listing, reading.reader("csv", options)).values())


def test_grouped_groups_files_whose_first_lines_are_the_same(raw: Raw) -> None:
    raw.put("in/1.csv", "a,b\n1,2\n")
    raw.put("in/2.csv", "b,a\n2,1\n")
    raw.put("in/3.csv", "a,b")
    raw.put("in/4.csv", b"\xef\xbb\xbfa,b\r\n3,4\r\n")
    raw.put("in/5.csv", "")
    raw.put("in/6.csv", "a, b\n")
    groups = groups_of(raw)
    assert [keys_of(raw, group) for group in groups] == [
        ["in/1.csv", "in/3.csv", "in/4.csv"],
        ["in/2.csv"],
        ["in/6.csv"],
    ]


def test_grouped_looks_into_packed_files(raw: Raw) -> None:
    for number, moment in enumerate((1, 2)):
        body = gzip.compress(f"a,b\n{number},x\n".encode() * 9000, mtime=moment)
        raw.put(f"in/{number}.csv.gz", body)
    raw.put("in/2.csv", "a,b\n2,y\n")
    raw.put("in/3.csv.gz", "a,b\n3,z\n")
    groups = groups_of(raw)
    assert [keys_of(raw, group) for group in groups] == [
        ["in/0.csv.gz", "in/1.csv.gz", "in/2.csv", "in/3.csv.gz"]
    ]


def test_grouped_of_empty_files_only_says_that_no_column_has_a_name(raw: Raw) -> None:
    raw.put("in/1.csv", "")
    raw.put("in/2.csv", "\n")
    with pytest.raises(errors.BadArgument) as caught:
        groups_of(raw)
    assert str(caught.value) == "every CSV file is empty: there is no header to name columns"


def test_grouped_of_a_file_that_went_away_says_so(raw: Raw) -> None:
    raw.put("in/1.csv", "a\n1\n")
    listing = sources.listed(raw.s3, raw.place("in/"))
    raw.s3.delete_object(Bucket=raw.bucket, Key="in/1.csv")
    with pytest.raises(errors.SourceChanged) as caught:
        inspection.grouped(raw.s3, listing, reading.reader("csv", {}))
    assert str(caught.value) == (
        "in/1.csv was deleted while it was being read; nothing was loaded, "
        "run the same command again"
    )


def test_grouped_reads_a_file_apart_whose_quotes_have_line_ends_inside(raw: Raw) -> None:
    raw.put("in/1.csv", 'a,b\n"one line",1\n')
    raw.put("in/2.csv", 'a,b\n"two\nlines",1\n')
    raw.put("in/3.csv", '"a",b\n1,2\n')
    raw.put("in/4.csv", 'a,b\n"two\rlines",1\n')
    groups = groups_of(raw)
    assert [keys_of(raw, group) for group in groups] == [
        ["in/1.csv", "in/3.csv"],
        ["in/2.csv", "in/4.csv"],
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("a,b\n1,é\n".encode("latin-1"), ": line 2 is not UTF-8; name the file's encoding, like "
         "--option encoding=ISO-8859-1"),
        (b"a,b\n1,\xc3", ": line 2 is not UTF-8; name the file's encoding, like "
         "--option encoding=ISO-8859-1"),
        ("a,b\n1,2\n".encode("utf-16"), " is not text: it has a zero byte; leave it out, or name "
         "its encoding, like --option encoding=UTF-16"),
        (b"a\tb\tc\n1\t2\t3\n", ": its header has no ',' but 2 '\\\\t'; if they separate its "
         "columns: --option 'sep=\\t', if not: --option 'sep=,'"),
        (b'a,b\n"x\ny",2\r\n', ": line 3 and the header end differently, one with CR LF and one "
         "with LF, and there are line ends inside quotes; make the ends of its lines equal"),
        (b'a,b\n"x\ny",2\n3,4\r5,6\n', ": line 4 and the header end differently, one with CR and "
         "one with LF, and there are line ends inside quotes; make the ends of its lines equal"),
        (b'a,b\n"x\ny",2\r', ": line 3 and the header end differently, one with CR and one "
         "with LF, and there are line ends inside quotes; make the ends of its lines equal"),
        (b'a,b\r\n"x\ry",2\n', ": line 2 and the header end differently, one with CR LF and one "
         "with LF, and there are line ends inside quotes; make the ends of its lines equal"),
        (b'a,b\r1,2\r"x\ny",2\n', ": line 4 and the header end differently, one with CR and one "
         "with LF, and there are line ends inside quotes; make the ends of its lines equal"),
        (b'a,b\r\n"x\ny",2\r\n3,4\n', ": line 4 and the header end differently, one with CR LF and "
         "one with LF, and there are line ends inside quotes; make the ends of its lines equal"),
    ],
)  # fmt: skip
def test_grouped_refuses_text_that_would_be_stored_wrongly(
    raw: Raw, body: bytes, said: str
) -> None:
    raw.put("in/1.csv", body)
    with pytest.raises(errors.BadSource) as caught:
        groups_of(raw)
    assert str(caught.value) == raw.uri("in/1.csv") + said


def test_grouped_takes_the_encoding_and_the_separator_that_are_named(raw: Raw) -> None:
    raw.put("in/1.csv", "a;b\n1;é\n".encode("latin-1"))
    assert len(groups_of(raw, encoding="ISO-8859-1", sep=";")) == 1
    raw.put("in/1.csv", "a,b\n1,é\n".encode("utf-16"))
    assert len(groups_of(raw, encoding="UTF-16")) == 1


def test_grouped_finds_an_end_of_a_character_in_the_next_chunk(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "CHUNK_BYTES", 1)
    raw.put("in/1.csv", 'a,b\n1,é\n"x\ny",2\n')
    raw.put("in/2.csv", "a,b\n1,é\n")
    raw.put("in/3.csv", 'a,b\r\n"x\r\n",1\r\n3,4\r\n')
    assert [len(group) for group in groups_of(raw)] == [2, 1]


def test_json_with_a_number_of_any_length_is_json(raw: Raw) -> None:
    raw.put("in/1.json", '{"a":' + "7" * 5000 + '}\n{"a":2}\n')
    listing = sources.listed(raw.s3, raw.place("in/"))
    reader = reading.reader("json", {})
    assert [shape.spans_lines for shape in inspection.grouped(raw.s3, listing, reader)] == [False]
    inspection.locate_in_json(raw.s3, listing, reader)
    raw.put("in/2.json", '{"a":' + "7" * 5000 + '}\n{"a":2\n')
    listing = sources.listed(raw.s3, raw.place("in/"))
    with pytest.raises(errors.BadSource, match=r"in/2\.json: line 2 is not JSON"):
        inspection.locate_in_json(raw.s3, listing, reader)


# The classes of values.

VALUES = (
    "", "0", "-0", "7", "2147483648", "9" * 19, "9" * 38, "1.5", "1e5", "NaN", "007", " ", " 1",
    "true", "2024-02-29", "2024-02-30", "2024-02-29 10:00Z", "NA", "x", "\u00e9", "a,b", "a;b",
    "a\tb", "a\nb", "a\r\nb", 'say "5"', '"', "it's",
)  # fmt: skip


def classes_of_file(
    content: bytes, *, parts: int = 7, **options: str
) -> valueclasses.ColumnClasses | None:
    """Return the classes of a file that comes in parts of so many bytes."""
    file = valueclasses.FileClasses(reading.reader("csv", options))
    for begin in range(0, len(content), parts):
        file.feed(content[begin : begin + parts])
    return file.end()


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[bytes, dict[str, str]]:
    """A CSV file, often one with odd quotes, and its reader's options."""
    width = draw(st.integers(1, 3))
    options = {
        "sep": draw(st.sampled_from([",", ";", "\t", "^"])),
        "quote": draw(st.sampled_from(['"', "'"])),
        "header": draw(st.sampled_from(["true", "false"])),
        **draw(st.sampled_from([{}, {"nullValue": "NA"}])),
    }
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = options["sep"].join("abc"[:width]) + end
    for _ in range(draw(st.integers(0, 8))):
        cells = []
        for _ in range(width):
            value = draw(st.sampled_from(VALUES))
            needs_quotes = any(one in value for one in (options["sep"], options["quote"], "\n"))
            is_bare = draw(st.sampled_from([True, True, True, False]))
            if is_bare and needs_quotes and draw(st.booleans()):
                is_bare = False
            quote = options["quote"]
            cells.append(value if is_bare else quote + value.replace(quote, 2 * quote) + quote)
        text += (
            options["sep"].join(cells) + end + draw(st.sampled_from(["", "", "", end, " " + end]))
        )
    return text.encode(), options


@given(csv_files(), st.integers(1, 40))
def test_classes_from_bytes_decide_as_those_of_all_values(
    drawn: tuple[bytes, dict[str, str]], parts: int
) -> None:
    content, options = drawn
    from_bytes = classes_of_file(content, parts=parts, **options)
    if from_bytes is None:
        return
    reader = reading.reader("csv", options)
    source = sources.Source(place="s3://b/k.csv", etag="e", size_bytes=len(content))
    try:
        rows = [row for _, row in inspection.records(io.BytesIO(content), source, reader).rows]
    except (csv.Error, errors.BadSource):
        assert all(reading.TEXT in present for present in from_bytes)
        return
    absent = {"", reader.null_value}
    for position, present in enumerate(from_bytes):
        values = {row[position] for row in rows} - absent
        every = {reading.class_of(value) for value in values}
        assert present <= every
        assert reading.type_of(present) == reading.type_of(every), (values, present)


@pytest.mark.parametrize(
    ("content", "classes"),
    [
        (b"a,b\n1,x\n2,y", [{"int"}, {"text"}]),
        (b'"a","b"\r\n"1","say ""5"""\r\n"",2.5\r\n', [{"int"}, {"text", "real"}]),
        (b"a,b\n1.5,\n7,\n", [{"real", "int"}, set()]),
        (b"a,b\n", [set(), set()]),
        (b"a\n1\n\n2147483648\n", [{"int", "long"}]),
    ],
)  # fmt: skip
def test_classes_of_plain_files_are_known(content: bytes, classes: list[set[str]]) -> None:
    assert classes_of_file(content, parts=1000) == classes


@pytest.mark.parametrize(
    "content",
    [
        b'a,b\n1,"two\nlines"\n', b'a,b\n1,5"\n', b'a,b\n1,"5" \n', b'a,b\n1, "5"\n',
        b"a,b\n1\n", b"a,b\n1,2,3\n", b"a,b\n1,2\r3,4\n", b"\xef\xbb\xbfa,b\n1,2\n", b"\na\n1\n",
        b"a\n \n1\n", b"a,b\n \n1,2\n", b"", b"a,b\n\xef\xbb\xbf1,x\n2,y\n",
        b"a,b\n123,4\n\xef\xbb\xbf5,6\n",
    ],
)  # fmt: skip
def test_classes_of_files_that_spark_may_read_otherwise_are_unknown(content: bytes) -> None:
    assert classes_of_file(content) is None


def test_classes_of_files_with_another_width_are_unknown() -> None:
    one, other = [frozenset({"int"})], [frozenset({"real"})]
    assert valueclasses.together([one, other], 1) == [{"int", "real"}]
    assert valueclasses.together([one, other], 2) is None
    assert valueclasses.together([one, None], 1) is None


@pytest.mark.parametrize(
    ("options", "applies"),
    [
        ({}, True), ({"sep": "\\t", "quote": "'", "nullValue": "NA"}, True),
        ({"encoding": "latin1"}, False), ({"sep": "\u00a6"}, False), ({"comment": "#"}, False),
        ({"dateFormat": "dd.MM.yyyy"}, False),
    ],
)  # fmt: skip
def test_classes_come_from_bytes_if_the_options_divide_files_alike(
    options: dict[str, str], applies: bool
) -> None:
    assert valueclasses.applies_to(reading.reader("csv", options)) == applies
