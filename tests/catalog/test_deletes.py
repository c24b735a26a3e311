"""Which deletes reach which data file: sequence numbers, partitions, paths, vectors."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from catalog import deletes
from catalog.manifests import Content, DataFile, ManifestEntry, Metrics, Status

DATA = DataFile(
    file_path="s3://lake/t/data/a.parquet",
    file_format="PARQUET",
    record_count=10,
    file_size_in_bytes=1,
    spec_id=1,
    partition=("p",),
)


def delete(name: str, content: Content, **more: Any) -> DataFile:
    fields: dict[str, Any] = {
        "file_path": f"s3://lake/t/data/{name}",
        "file_format": "PARQUET",
        "record_count": 1,
        "file_size_in_bytes": 1,
        "spec_id": 1,
        "partition": ("p",),
        "content": content,
    }
    return DataFile(**{**fields, **more})


def position(name: str = "pos", **more: Any) -> DataFile:
    return delete(name, Content.POSITION_DELETES, **more)


def equality(name: str = "eq", **more: Any) -> DataFile:
    return delete(name, Content.EQUALITY_DELETES, equality_ids=(1,), **more)


def vector(name: str = "dv", path: str = DATA.file_path) -> DataFile:
    return position(
        name,
        file_format="PUFFIN",
        referenced_data_file=path,
        content_offset=4,
        content_size_in_bytes=9,
    )


def bounds(lower: str, upper: str) -> Metrics:
    return Metrics(
        lower_bounds={deletes.FILE_PATH_ID: lower.encode()},
        upper_bounds={deletes.FILE_PATH_ID: upper.encode()},
    )


def applying(
    *of_table: tuple[int, DataFile], data: DataFile = DATA, at: int = 5, unpartitioned: Any = (0,)
) -> list[str]:
    index = deletes.DeleteIndex(
        [
            ManifestEntry(
                status=Status.ADDED,
                snapshot_id=1,
                sequence_number=number,
                file_sequence_number=number,
                data_file=file,
            )
            for number, file in of_table
        ],
        unpartitioned=unpartitioned,
    )
    return [file.file_path.rpartition("/")[2] for file in index.applying_to(data, at)]


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, True), (6, True)])
def test_position_deletes_reach_files_of_their_own_commit_and_older(
    number: int, applies: bool
) -> None:
    assert applying((number, position())) == (["pos"] if applies else [])
    named = position(referenced_data_file=DATA.file_path)
    assert applying((number, named)) == (["pos"] if applies else [])
    assert applying((number, vector())) == (["dv"] if applies else [])


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, False), (6, True)])
def test_equality_deletes_reach_only_older_files(number: int, applies: bool) -> None:
    assert applying((number, equality())) == (["eq"] if applies else [])
    everywhere = equality(spec_id=0, partition=())
    assert applying((number, everywhere)) == (["eq"] if applies else [])


@pytest.mark.parametrize(
    ("spec_id", "partition", "applies"),
    [(1, ("p",), True), (1, ("q",), False), (1, (None,), False), (2, ("p",), False)],
)
def test_deletes_stay_within_their_partition(
    spec_id: int, partition: tuple[Any, ...], applies: bool
) -> None:
    for file in (position(), equality()):
        moved = delete(
            "d", file.content, spec_id=spec_id, partition=partition, equality_ids=file.equality_ids
        )
        assert applying((9, moved)) == (["d"] if applies else [])


def test_equality_deletes_of_an_unpartitioned_spec_reach_every_partition_position_ones_do_not() -> (
    None
):
    assert applying((9, equality(spec_id=0, partition=()))) == ["eq"]
    assert applying((9, position(spec_id=0, partition=()))) == []


def test_equality_delete_of_a_spec_of_void_fields_applies_to_every_older_file() -> None:
    def spec(spec_id: int, *transforms: str) -> dict[str, Any]:
        fields = [
            {"source-id": 1, "field-id": 1000 + at, "name": f"f{at}", "transform": transform}
            for at, transform in enumerate(transforms)
        ]
        return {"spec-id": spec_id, "fields": fields}

    specs = [spec(1, "identity"), spec(2, "void", "void"), spec(3, "void", "day"), spec(4)]
    unpartitioned = deletes.unpartitioned(specs)
    void = equality(spec_id=2, partition=(None, None))
    assert applying((9, void), unpartitioned=unpartitioned) == ["eq"]
    assert applying((5, void), unpartitioned=unpartitioned) == []
    assert applying((9, equality(spec_id=4, partition=())), unpartitioned=unpartitioned) == ["eq"]
    half = equality(spec_id=3, partition=(None, 1))
    assert applying((9, half), unpartitioned=unpartitioned) == []


def test_null_and_nan_partitions_equal_themselves() -> None:
    for value in (None, math.nan, -0.0):
        data = DataFile(
            file_path="a", file_format="PARQUET", record_count=1, file_size_in_bytes=1,
            spec_id=1, partition=(value,),
        )  # fmt: skip
        assert applying((9, position(partition=(value,))), data=data) == ["pos"]
    assert applying((9, position(partition=(0.0,))), data=data) == []  # data's is -0.0


def test_a_deletion_vector_stands_in_for_position_deletes_but_not_for_equality_ones() -> None:
    assert applying((5, position()), (6, vector()), (7, equality())) == ["eq", "dv"]
    assert applying((6, position()), (4, vector())) == ["pos"]
    assert applying((6, vector(path="other"))) == []


def test_position_deletes_are_matched_by_path_where_they_say_so() -> None:
    other = "s3://lake/t/data/b.parquet"
    assert applying((9, position(referenced_data_file=other))) == []
    assert applying((9, position(metrics=bounds(DATA.file_path, DATA.file_path)))) == ["pos"]
    assert applying((9, position(metrics=bounds(other, other)))) == []
    assert applying((9, position(metrics=bounds("s3://lake/t/data/a", "s3://lake/t/data/c")))) == [
        "pos"
    ]
    assert applying((9, position(metrics=bounds("s3://lake/t/data/b", "s3://lake/t/data/c")))) == []


def test_bounds_cut_short_never_pass_for_a_path() -> None:
    cut = "s3://lake/t/data"  # lower and upper cut alike; a careless writer did not round up
    assert applying((9, position(metrics=bounds(cut, "s3://lake/t/datb")))) == ["pos"]


def test_what_many_data_files_need_is_what_each_of_them_needs() -> None:
    choose = random.Random(7)
    paths = [f"s3://lake/t/data/{letter}.parquet" for letter in "abcdef"]

    def one_delete(number: int) -> DataFile:
        within = {"partition": (choose.choice("pq"),), "spec_id": choose.choice((0, 1))}
        low, high = sorted((choose.choice(paths), choose.choice(paths)))
        return choose.choice(
            [
                lambda: equality(f"e{number}", **within),
                lambda: position(f"p{number}", **within),
                lambda: position(f"b{number}", metrics=bounds(low, high), **within),
                lambda: position(f"f{number}", referenced_data_file=low, **within),
                lambda: vector(f"v{number}", low),
            ]
        )()

    for _ in range(200):
        index = deletes.DeleteIndex(
            [
                ManifestEntry(
                    status=Status.ADDED,
                    snapshot_id=1,
                    sequence_number=choose.randrange(9),
                    file_sequence_number=1,
                    data_file=one_delete(number),
                )
                for number in range(choose.randrange(9))
            ],
            unpartitioned=(0,),
        )
        needed = deletes.Needed()
        each: set[str] = set()
        for path in choose.sample(paths, 3):
            data = DataFile(
                file_path=path,
                file_format="PARQUET",
                record_count=1,
                file_size_in_bytes=1,
                spec_id=choose.choice((0, 1)),
                partition=(choose.choice("pq"),),
            )
            applying = index.applying_to(data, choose.randrange(9))
            needed.add(applying)
            each |= {file.file_path for file in applying}
        together = [file.file_path for file in needed.all()]
        assert len(set(together)) == len(together)
        # A wide delete file is listed by its bounds alone; its reader compares sequence numbers.
        beyond = set(together) - each
        wide = {one.file.file_path for one in needed.wide()}
        assert each <= set(together)
        assert beyond <= wide


def test_bounds_of_wide_position_deletes_are_unpacked_once_for_all_data_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = bounds("s3://lake/t/data/a", "s3://lake/t/data/c").packed()
    unpacks = 0
    unpacked = Metrics.unpacked

    def counting(metrics: Metrics) -> tuple[Any, ...]:
        nonlocal unpacks
        unpacks += 1
        return unpacked(metrics)

    monkeypatch.setattr(Metrics, "unpacked", counting)
    index = deletes.DeleteIndex(
        [
            ManifestEntry(
                status=Status.ADDED,
                snapshot_id=1,
                sequence_number=9,
                file_sequence_number=9,
                data_file=position(f"p{number}", metrics=Metrics.unpacked_later(packed)),
            )
            for number in range(30)
        ],
        unpartitioned=(),
    )
    needed = deletes.Needed()
    for letter, named in (("b", 30), ("d", 0)) * 10:
        data = DataFile(
            file_path=f"s3://lake/t/data/{letter}.parquet", file_format="PARQUET", record_count=1,
            file_size_in_bytes=1, spec_id=1, partition=("p",),
        )  # fmt: skip
        applying = index.applying_to(data, 5)
        needed.add(applying)
        assert len(list(applying)) == named
        assert applying.candidates == 30
    assert len(list(needed.wide())) == 30
    assert unpacks == 30
