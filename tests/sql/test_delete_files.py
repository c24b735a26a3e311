"""Delete files that are none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sql import deletes, engine

URI = "s3://lake/ns/t/data/a.parquet"


@pytest.mark.parametrize(
    "columns",
    [
        {"id": [1], "word": ["x"]},
        {"file_path": [URI]},
        {"pos": [1]},
        {"file_path": [URI], "pos": ["one"]},
        {"file_path": [[URI]], "pos": [1]},
    ],
)
@pytest.mark.parametrize("location", ["", URI])
def test_a_position_delete_file_without_paths_and_positions_is_damaged(
    tmp_path: Path, columns: dict[str, list[object]], location: str
) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(columns), path)
    item = engine.PositionDeletes(path=str(path), form="parquet", location=location, list_number=0)
    group = engine.Group(
        directory=str(tmp_path),
        schema=b"",
        data_files={URI: engine.ScanFile(name="a.parquet", list_number=0, sequence_number=1)},
        position_deletes=(item,),
    )
    with pytest.raises(engine.EngineFault) as damaged:
        deletes.read_positions(group)
    assert damaged.value.code == deletes.DAMAGED
    assert "file_path and pos" in str(damaged.value)
