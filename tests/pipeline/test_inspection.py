"""What is looked up in raw text before it is read, and where it says what could not be read."""

from __future__ import annotations

import gzip

import pytest

from pipeline import errors, inspection, reading, sources
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
