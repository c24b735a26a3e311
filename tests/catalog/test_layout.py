"""The layout specification's verdicts, one row each, and what a refusal says."""

from __future__ import annotations

import pytest

from catalog import layout
from server.s3 import guard

U = "0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"
H = U.replace("-", "")
T = "sales/orders"

TABLE = layout.Location(path=T)
VIEW = layout.Location(path=T, object_type="view")

# number, key, kind of the accepted
ACCEPTED = [
    (1, f"{T}/metadata/v1.metadata.json", "metadata"),
    (2, f"{T}/metadata/00001-{U}.metadata.json", "metadata"),
    (3, f"{T}/metadata/{U}.metadata.json", "metadata"),
    (4, f"{T}/metadata/00001-{U}.gz.metadata.json", "metadata"),
    (5, f"{T}/metadata/00001-{U}.zstd.metadata.json", "metadata"),
    (6, f"{T}/metadata/00001-{U}.metadata.json.gz", "metadata"),
    (7, f"{T}/metadata/snap-2938-1-{U}.avro", "metadata"),
    (8, f"{T}/metadata/snap-2938-{U}.avro", "metadata"),
    (9, f"{T}/metadata/{U}-m0.avro", "metadata"),
    (10, f"{T}/metadata/optimized-m-{U}.avro", "metadata"),
    (11, f"{T}/metadata/7a1c-cbc3-00000-0-12-00001.avro", "metadata"),
    (12, f"{T}/metadata/my manifest.avro", "metadata"),
    (13, f"{T}/metadata/{U}-m0.parquet", "metadata"),
    (14, f"{T}/metadata/version-hint.text", "metadata"),
    (15, f"{T}/metadata/2938-{U}.stats", "metadata"),
    (16, f"{T}/metadata/2938-{U}.puffin", "metadata"),
    (17, f"{T}/metadata/partition-stats-2938-{U}.parquet", "metadata"),
    (18, f"{T}/metadata/partition-stats-2938-{U}.orc", "metadata"),
    (19, f"{T}/metadata/partition-stats-2938-{U}.avro", "metadata"),
    (20, f"{T}/metadata/", "marker"),
    (31, f"{T}/data/00000-0-{U}-00001.parquet", "data"),
    (32, f"{T}/data/00000-0-{U}-00001.orc", "data"),
    (33, f"{T}/data/00000-0-{U}-00001.avro", "data"),
    (34, f"{T}/data/00000-0-{U}-00001-deletes.parquet", "data"),
    (35, f"{T}/data/{U}-equality-deletes.parquet", "data"),
    (36, f"{T}/data/00000-0-{U}-00001-deletes.puffin", "data"),
    (37, f"{T}/data/merged-dvs-2938-1.puffin", "data"),
    (38, f"{T}/data/part-0.c000.snappy.parquet", "data"),
    (39, f"{T}/data/year=2026/month=08/f.parquet", "data"),
    (40, f"{T}/data/region=/f.parquet", "data"),
    (41, f"{T}/data/region=null/f.parquet", "data"),
    (42, f"{T}/data/region=__HIVE_DEFAULT_PARTITION__/f.parquet", "data"),
    (43, f"{T}/data/region=a%2Fb/f.parquet", "data"),
    (44, f"{T}/data/region=New+York/f.parquet", "data"),
    (45, f"{T}/data/region=Île de France/f.parquet", "data"),
    (46, f"{T}/data/ship%2Ddate=2026/f.parquet", "data"),
    (47, f"{T}/data/my.col=1/f.parquet", "data"),
    (48, f"{T}/data/my-col=a=b/f.parquet", "data"),
    (49, f"{T}/data/0101/0110/1001/10110010/day=1/f.parquet", "data"),
    (50, f"{T}/data/0101/0110/1001/10110010-00000-0-{U}-1.parquet", "data"),
    (51, f"{T}/data/011101101010001111101000-0-0-{U}-1.parquet", "data"),
    (52, f"{T}/data/2d3905f8/day=1/f.parquet", "data"),
    (53, f"{T}/data/_nJ-gQ/day=1/f.parquet", "data"),
    (54, f"{T}/data/day=1/", "marker"),
    (55, f"{T}/data/", "marker"),
    (56, f"{T}/data/trino-tmp-files/sorting-file-writer-q1-{U}.0", "scratch"),
    (73, f"sales/orders-{U}/data/f.parquet", "data"),
    (74, "sales/orders-6fd43b20/data/f.parquet", "data"),
    (75, f"sales/orders-{H}/data/f.parquet", "data"),
    (76, "sales.eu/orders/data/f.parquet", "data"),
    (77, "sales/eu/orders/data/f.parquet", "data"),
    (78, f"sales/eu/west/orders-{U}/metadata/v1.metadata.json", "metadata"),
    (79, f"wh/{U}/data/f.parquet", "data"),
    (80, "sales.db/orders/data/f.parquet", "data"),
    (81, "my%20ns/orders/data/f.parquet", "data"),
    (82, "data/metadata/data/f.parquet", "data"),
    (83, "sales/", "marker"),
    (84, "sales/orders/", "marker"),
]

DEEP = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/data/f.parquet"

# number, key, known location, size of the body, rule, segment, position
REFUSED = [
    (21, f"{T}/metadata/", None, 1, "marker-body", "metadata", 2),
    (22, f"{T}/metadata", None, 0, "bare-anchor", "metadata", 2),
    (23, f"{T}/metadata/x.json", None, 0, "metadata-name", "x.json", 3),
    (24, f"{T}/metadata/README.md", None, 0, "metadata-name", "README.md", 3),
    (25, f"{T}/metadata/.metadata.json", None, 0, "hidden-segment", ".metadata.json", 3),
    (26, f"{T}/metadata/{U}-version-hint.temp", None, 0, "metadata-name",
     f"{U}-version-hint.temp", 3),
    (27, f"{T}/metadata/v4.metadata.json.claim", None, 0, "metadata-name",
     "v4.metadata.json.claim", 3),
    (28, f"{T}/metadata/version-hint.text.crc", None, 0, "metadata-name",
     "version-hint.text.crc", 3),
    (29, f"{T}/metadata/old/v1.metadata.json", None, 0, "metadata-nested", "old", 3),
    (30, f"{T}/metadata/sub/", None, 0, "metadata-nested", "sub", 3),
    (57, f"{T}/data/trino-tmp-files/x.orc", None, 0, "data-name", "x.orc", 4),
    (58, f"{T}/data", None, 0, "bare-anchor", "data", 2),
    (59, f"{T}/data/_SUCCESS", None, 0, "data-name", "_SUCCESS", 3),
    (60, f"{T}/data/foo", None, 0, "data-name", "foo", 3),
    (61, f"{T}/data/day=1", None, 0, "data-name", "day=1", 3),
    (62, f"{T}/data/f.csv", None, 0, "data-name", "f.csv", 3),
    (63, f"{T}/data/f.parquet.crc", None, 0, "data-name", "f.parquet.crc", 3),
    (64, f"{T}/data/f.PARQUET", None, 0, "data-name", "f.PARQUET", 3),
    (65, f"{T}/data/f.lance", None, 0, "data-name", "f.lance", 3),
    (66, f"{T}/data/c14a_76288533_data.0.parq", None, 0, "data-name",
     "c14a_76288533_data.0.parq", 3),
    (67, f"{T}/data/.f.parquet", None, 0, "hidden-segment", ".f.parquet", 3),
    (68, f"{T}/data/_temporary/0/f.parquet", None, 0, "data-directory", "_temporary", 3),
    (69, f"{T}/data/archive/f.parquet", None, 0, "data-directory", "archive", 3),
    (70, f"{T}/data/=1/f.parquet", None, 0, "data-directory", "=1", 3),
    (71, f"{T}/data/day=1//f.parquet", None, 0, "empty-segment", "", 4),
    (72, f"{T}/data/../metadata/v1.metadata.json", None, 0, "dot-segment", "..", 3),
    (85, f"{T}/archive/data/f.parquet", TABLE, 0, "no-anchor", "archive", 2),
    (86, f"{T}/data/f.parquet", VIEW, 0, "view-data", "data", 2),
    (87, "sales/orders", None, 0, "no-anchor", "orders", 1),
    (88, f"{T}/f.parquet", None, 0, "no-anchor", "f.parquet", 2),
    (89, f"{T}/_anything/x.exe", None, 0, "no-anchor", "_anything", 2),
    (90, f"{T}/_versions/1.manifest", None, 0, "no-anchor", "_versions", 2),
    (91, f"{T}/_delta_log/00000.json", None, 0, "no-anchor", "_delta_log", 2),
    (92, f"{T}/temp/q-1/task-0.forCommit", None, 0, "no-anchor", "temp", 2),
    (93, f"{T}/.hidden/x.parquet", None, 0, "hidden-segment", ".hidden", 2),
    (94, "sales/orders_$folder$", None, 0, "no-anchor", "orders_$folder$", 1),
    (95, "orders/data/f.parquet", None, 0, "location-depth", "data", 1),
    (96, "f.parquet", None, 0, "no-anchor", "f.parquet", 0),
    (97, "/sales/orders/data/f.parquet", None, 0, "empty-segment", "", 0),
    (98, DEEP, None, 0, "location-depth", "r", 17),
]  # fmt: skip


def refused(key: str | bytes, **options: object) -> guard.LayoutRefused:
    with pytest.raises(guard.LayoutRefused) as caught:
        layout.judge(key, **{"location": None, **options})  # type: ignore[arg-type]
    return caught.value


def test_the_table_has_each_of_the_98_verdicts_once() -> None:
    numbers = [row[0] for row in ACCEPTED] + [row[0] for row in REFUSED]
    assert sorted(numbers) == list(range(1, 99))


@pytest.mark.parametrize(("number", "key", "role"), ACCEPTED)
def test_verdict_accepts(number: int, key: str, role: str) -> None:
    verdict = layout.judge(key, location=None)
    layout.check_body(key, size_bytes=0)
    assert verdict.role == role
    assert layout.judge(key.encode(), location=None) == verdict


@pytest.mark.parametrize(
    ("number", "key", "location", "size_bytes", "rule", "segment", "position"), REFUSED
)
def test_verdict_refuses_with_rule_segment_and_position(
    number: int,
    key: str,
    location: layout.Location | None,
    size_bytes: int,
    rule: str,
    segment: str,
    position: int,
) -> None:
    def write() -> None:
        layout.judge(key, location=location)
        layout.check_body(key, size_bytes=size_bytes)

    with pytest.raises(guard.LayoutRefused) as caught:
        write()
    assert (caught.value.rule, caught.value.segment, caught.value.position) == (
        rule,
        segment,
        position,
    )
    start = f'Table bucket layout rule {rule}: segment "{segment}" (position {position}) '
    assert str(caught.value).startswith(start)
    assert "; expected " in str(caught.value)


def test_refusal_has_the_message_of_the_specification() -> None:
    assert str(refused(f"{T}/data/archive/f.parquet")) == (
        'Table bucket layout rule data-directory: segment "archive" (position 3) is neither a '
        "partition (name=value) nor a hash directory; expected "
        "{namespace}/{table}/data/[name=value/…]file.parquet|orc|avro|puffin"
    )


def test_refusal_cuts_escapes_and_cleans_the_segment() -> None:
    error = refused(f'{T}/data/"\\\u202e\u2028{"x" * 200}')
    assert error.segment == '"\\\ufffd\ufffd' + "x" * 124
    assert 'segment "\\"\\\\\ufffd\ufffdxxx' in str(error)
    assert refused(f"{T}/data/a\nb/f.parquet").segment == "a\ufffdb"


@pytest.mark.parametrize(
    ("key", "segment", "position"),
    [
        ("", "", 0),
        (b"a/b\xff/data/f.parquet", "b\ufffd", 1),
        ("a/b\udcff/data/f.parquet", "b\ufffd\ufffd\ufffd", 1),
        (b"a\x00/b\xff", "a\ufffd", 0),
        ("a/b/data/\x7f.parquet", "\ufffd.parquet", 3),
        ("a/b/data/" + "é" * 509 + ".parquet", "é" * 128, 3),
        ("a//" + "b/" * 600, "b", 513),
    ],
)
def test_key_encoding_names_the_first_bad_segment(
    key: str | bytes, segment: str, position: int
) -> None:
    error = refused(key)
    assert (error.rule, error.segment, error.position) == ("key-encoding", segment, position)


def test_key_of_1024_bytes_is_accepted_and_of_1025_is_not() -> None:
    key = "a/b/data/" + "x" * (1024 - 9 - 8) + ".parquet"
    assert layout.judge(key, location=None).role == "data"
    assert refused("a" + key).rule == "key-encoding"


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("a//../.x/data", "empty-segment"),
        ("a/../.x/data", "dot-segment"),
        ("a/.x/data", "hidden-segment"),
        ("a/data/f.parquet", "location-depth"),
        ("a/b/metadata/x/y.json", "metadata-nested"),
        ("a/b/data/x/y.json", "data-directory"),
    ],
)
def test_first_rule_in_the_order_of_the_specification_wins(key: str, rule: str) -> None:
    assert refused(key).rule == rule


def test_location_is_the_longest_known_one_on_segment_boundaries() -> None:
    places = {path: layout.Location(path=path) for path in ("a/b", "a/b/c/d", "a/bc")}
    looked_up: list[str] = []

    def location_of(path: str) -> layout.Location | None:
        looked_up.append(path)
        return places.get(path)

    location = layout.find_location("a/b/c/d/data/f.parquet", location_of)
    assert location == places["a/b/c/d"]
    assert looked_up == ["a/b/c/d/data/f.parquet", "a/b/c/d/data", "a/b/c/d"]
    assert layout.find_location("a/b/c/data/f.parquet", location_of) == places["a/b"]
    assert layout.find_location("a/b", location_of) == places["a/b"]
    assert layout.find_location("a/bcd/data/f.parquet", location_of) is None
    assert layout.find_location("a", location_of) is None
    looked_up.clear()
    assert layout.find_location("x/" * 500, location_of) is None
    assert len(looked_up) == 16


def test_known_location_decides_where_the_anchor_is() -> None:
    nested = layout.Location(path="a/data/c/data")
    key = "a/data/c/data/metadata/v1.metadata.json"
    verdict = layout.judge(key, location=nested)
    assert verdict == layout.Verdict(role="metadata", location="a/data/c/data")
    assert refused(key).rule == "data-directory"


def test_marker_at_a_known_location_is_accepted_and_below_it_is_not() -> None:
    verdict = layout.judge(f"{T}/", location=TABLE)
    assert verdict == layout.Verdict(role="marker", location=T)
    error = refused(f"{T}/archive/", location=TABLE)
    assert (error.rule, error.segment, error.position) == ("no-anchor", "archive", 2)
    assert layout.judge(f"{T}/archive/", location=None).location is None


def test_marker_of_17_segments_is_accepted_and_of_18_is_not() -> None:
    assert layout.judge("a/" * 17, location=None).role == "marker"
    error = refused("a/" * 18)
    assert (error.rule, error.position) == ("location-depth", 17)


def test_marker_below_a_one_segment_location_is_refused() -> None:
    assert layout.judge("orders/data/", location=None).role == "marker"
    assert refused("orders/data/day=1/").rule == "location-depth"


def test_require_registered_refuses_an_unknown_location_and_names_the_table_part() -> None:
    key = f"{T}/data/f.parquet"
    error = refused(key, require_registered=True)
    assert (error.rule, error.segment, error.position) == ("unregistered", "orders", 1)
    assert layout.judge(key, location=TABLE, require_registered=True).role == "data"
    assert layout.judge(f"{T}/", location=None, require_registered=True).role == "marker"


def test_view_takes_metadata_and_no_data_directory() -> None:
    assert layout.judge(f"{T}/metadata/v1.metadata.json", location=VIEW).role == "metadata"
    assert refused(f"{T}/data/", location=VIEW).rule == "view-data"


@pytest.mark.parametrize(
    ("key", "segment"),
    [
        (f"{T}/data/day=1/trino-tmp-files/sorting-file-writer-1", "trino-tmp-files"),
        (f"{T}/data/trino-tmp-files/01/sorting-file-writer-1", "trino-tmp-files"),
        (f"{T}/data/0101-trino-tmp-files/sorting-file-writer-1", "0101-trino-tmp-files"),
        (f"{T}/data/{U.upper()}/f.parquet", U.upper()),
        (f"{T}/data/ABCDEFG/f.parquet", "ABCDEFG"),
    ],
)
def test_data_directory_is_refused_outside_its_place(key: str, segment: str) -> None:
    error = refused(key)
    assert (error.rule, error.segment) == ("data-directory", segment)


@pytest.mark.parametrize(
    "key",
    [
        f"{T}/data/0101/01011010-trino-tmp-files/sorting-file-writer-1",
        f"{T}/data/trino-tmp-files/sorting-file-writer-.parquet",
    ],
)
def test_spill_file_is_scratch(key: str) -> None:
    assert layout.judge(key, location=None).role == "scratch"


def test_spill_name_needs_something_after_its_prefix() -> None:
    assert refused(f"{T}/data/trino-tmp-files/sorting-file-writer-").rule == "data-name"


def test_check_body_lets_files_and_empty_markers_pass() -> None:
    layout.check_body(f"{T}/data/f.parquet", size_bytes=10)
    layout.check_body(f"{T}/data/", size_bytes=0)


@pytest.mark.parametrize("path", [T, "a/b/c", "/".join("abcdefghijklmnopq"), "my%20ns/data"])
def test_check_location_accepts_what_can_be_written_to(path: str) -> None:
    layout.check_location(path)
    location = layout.Location(path=path)
    assert layout.judge(f"{path}/data/f.parquet", location=location).location == path


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("", "key-encoding"),
        ("orders", "location-depth"),
        ("/".join("abcdefghijklmnopqr"), "location-depth"),
        ("a//b", "empty-segment"),
        ("/a/b", "empty-segment"),
        ("a/b/", "empty-segment"),
        ("a/../b", "dot-segment"),
        ("a/.b", "hidden-segment"),
        ("a/b\n", "key-encoding"),
    ],
)
def test_check_location_refuses_what_no_key_could_lie_below(path: str, rule: str) -> None:
    with pytest.raises(guard.LayoutRefused) as caught:
        layout.check_location(path)
    assert caught.value.rule == rule


def test_only_hints_markers_and_spill_files_may_be_overwritten() -> None:
    assert layout.is_mutable(f"{T}/metadata/version-hint.text", "metadata")
    assert layout.is_mutable(f"{T}/data/", "marker")
    assert layout.is_mutable(f"{T}/data/trino-tmp-files/sorting-file-writer-1", "scratch")
    assert not layout.is_mutable(f"{T}/data/f.parquet", "data")
    assert not layout.is_mutable(f"{T}/metadata/v1.metadata.json", "metadata")


def test_write_once_and_content_refusals_name_the_file() -> None:
    with pytest.raises(guard.LayoutRefused) as caught:
        layout.refuse_write_once(f"{T}/data/f.parquet")
    assert (caught.value.rule, caught.value.segment, caught.value.position) == (
        "write-once",
        "f.parquet",
        3,
    )
    with pytest.raises(guard.LayoutRefused) as caught:
        layout.refuse_content(f"{T}/data/f.parquet", rule="content-magic", detail="is no Parquet")
    assert (caught.value.rule, caught.value.segment) == ("content-magic", "f.parquet")
