"""Which files of a clustered table a query reads: EXPLAIN tells, and the rows stay right."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.kit import lake_client
from tests.kit import server as server_kit

FILES = 100
ROWS = 10_000
IN_A_FILE = ROWS // FILES
SCHEMA = "pruning"
FIRST_DAY = datetime.datetime(2024, 1, 1)  # noqa: DTZ001 - TIMESTAMP_NTZ has no zone


def moment(row: int) -> datetime.datetime:
    """One day per file, a row per minute."""
    return FIRST_DAY + datetime.timedelta(days=row // IN_A_FILE, minutes=row % IN_A_FILE)


@pytest.fixture(scope="module")
def session(server: server_kit.Running) -> Iterator[lake_client.Session]:
    rows = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "s": [f"{row // IN_A_FILE:03}-{row:05}" for row in range(ROWS)],
            "ts": pa.array(map(moment, range(ROWS)), pa.timestamp("us"), size=ROWS),
            "d": pa.array((moment(row).date() for row in range(ROWS)), pa.date32(), size=ROWS),
            "f": [row / 2 for row in range(ROWS)],
        }
    )
    catalog = lake_client.catalog(server)
    catalog.create_namespace_if_not_exists(SCHEMA)
    properties = {"write.target-file-size-bytes": str(rows.nbytes // FILES)}
    table = catalog.create_table(f"{SCHEMA}.t", schema=rows.schema, properties=properties)
    table.append(rows)
    assert len(table.inspect.data_files()) == FILES
    with lake_client.session(server, SCHEMA) as opened:
        yield opened


def files_read(session: lake_client.Session, condition: str) -> str:
    ((plan,),) = session.rows(f"explain using text select * from t where {condition}")
    (line,) = (line for line in plan.splitlines() if line.startswith("Table "))
    return str(line.rpartition(", ")[2])


@pytest.mark.parametrize(
    ("condition", "files", "rows"),
    [
        ("id = 4242", 1, 1),
        ("id = '4242'", 1, 1),
        ("f = 2121.0", 1, 1),
        ("id in (4242, 4243)", 1, 2),
        ("not (id <> 4242)", 1, 1),
        ("id = 5 or id = 9999", 2, 2),
        ("(id = 5 and s like '000-%') or d = '2024-01-03'", 2, 1 + IN_A_FILE),
        ("s like '042-%'", 1, IN_A_FILE),
        ("startswith(s, '042-')", 1, IN_A_FILE),
        ("ts::date = '2024-02-12'", 1, IN_A_FILE),
        ("ts::date = dateadd(day, -7, '2024-02-12'::date)", 1, IN_A_FILE),
        ("to_date(ts) in ('2024-01-01', '2024-02-12')", 2, 2 * IN_A_FILE),
        ("to_date(ts) in ('2024-01-01', null)", FILES, IN_A_FILE),
        ("to_date(ts) not in ('2024-01-01')", FILES, ROWS - IN_A_FILE),
        ("ts between '2024-01-02' and '2024-01-02 00:09'", 1, 10),
        ("d > dateadd(day, -7, current_date())", 0, 0),
        ("ts >= dateadd(day, -7, current_timestamp())", 0, 0),
    ],
)
def test_condition_on_a_clustered_table_reads_only_the_files_that_may_hold_its_rows(
    session: lake_client.Session, condition: str, files: int, rows: int
) -> None:
    assert files_read(session, condition) == f"{files} of {FILES} files"
    assert session.rows(f"select count(*) from (select * from t where {condition})") == [(rows,)]


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("UTC", "+0000"),
        ("America/New_York", "-0500"),
        pytest.param("Pacific/Kiritimati", "+1400", marks=pytest.mark.further),
    ],
)
@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">=", "<>"])
def test_comparison_of_local_times_with_an_instant_prunes_no_row_in_any_zone(
    session: lake_client.Session, zone: str, offset: str, operator: str
) -> None:
    # New York sets its clocks forward on the 10th of March, the instant's day.
    session.answer(f"alter session set timezone = '{zone}'")
    try:
        at = f"'2024-03-10 00:30:00 {offset}'::timestamp_ltz"
        files = files_read(session, f"ts {operator} {at}")
        pruned = session.rows(f"select id from t where ts {operator} {at} order by id")
        # The engine computes this condition for each row, and no file is left out.
        plain = session.rows(
            f"select id from t where iff(ts {operator} {at}, id, -1) = id order by id"
        )
    finally:
        session.answer("alter session unset timezone")
    assert (files == f"{FILES} of {FILES} files") == (operator == "<>")
    assert pruned == plain
    assert pruned
