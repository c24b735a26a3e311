"""What SHOW, DESCRIBE and INFORMATION_SCHEMA say of defaults, AUTOINCREMENT and keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql import errors
from tests.kit import local_sql


def test_defaults_and_keys_are_described_and_listed(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table parent (id int primary key, x int, unique (x))")
        await local.rows(
            "create table child (id int autoincrement start 5 increment 2 primary key,"
            " name varchar(5) default 'it''s', d date default '2024-02-29',"
            " at timestamp default current_timestamp(), p int references parent,"
            " constraint fx foreign key (name) references parent (x) on delete cascade)"
        )
        described = await local.rows("describe table child")
        assert [(row[0], row[3], row[4], row[5]) for row in described] == [
            ("ID", "N", "IDENTITY START 5 INCREMENT 2 ORDER", "Y"),
            ("NAME", "Y", "'it''s'", "N"),
            ("D", "Y", "CAST('2024-02-29' AS DATE)", "N"),
            ("AT", "Y", "current_timestamp()", "N"),
            ("P", "Y", None, "N"),
        ]
        shown = await local.rows("show columns in table child")
        assert [(row[5], row[10]) for row in shown][:2] == [
            ("", "IDENTITY START 5 INCREMENT 2 ORDER"),
            ("'it''s'", ""),
        ]
        assert await local.rows(
            "select column_name, column_default, is_identity, identity_start, identity_increment"
            " from information_schema.columns where table_name = 'CHILD'"
            " and ordinal_position < 3 order by ordinal_position"
        ) == [("ID", None, "YES", "5", "2"), ("NAME", "'it''s'", "NO", None, None)]
        for scope in ("", " in schema ns", " in database lake", " in account"):
            listed = await local.rows(f"show primary keys{scope}")
            assert [row[1:6] for row in listed] == [
                ("LAKE", "NS", "CHILD", "ID", 1),
                ("LAKE", "NS", "PARENT", "ID", 1),
            ]
        listed = await local.rows("show primary keys in table child")
        assert [row[3:5] for row in listed] == [("CHILD", "ID")]
        assert [row[3:5] for row in await local.rows("show unique keys")] == [("PARENT", "X")]
        imported = await local.rows("show imported keys in table child")
        assert [(*row[3:5], *row[7:12]) for row in imported] == [
            ("PARENT", "ID", "CHILD", "P", 1, "NO ACTION", "NO ACTION"),
            ("PARENT", "X", "CHILD", "NAME", 1, "NO ACTION", "CASCADE"),
        ]
        assert imported[1][12] == "FX"
        assert await local.rows("show exported keys in table parent") == imported
        assert await local.rows("show exported keys in parent") == imported
        assert await local.rows("show exported keys in table child") == []

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ("a int references nope (a)", "002003"),
        ("a int references parent (nope)", "000904"),
        ("a int references bare", "002038"),
        ("a int, b int, foreign key (a, b) references parent (id)", "002038"),
        ("a int primary key, b int primary key", "002025"),
        ("a int, primary key (nope)", "000904"),
        ("a varchar autoincrement", "001083"),
        ("a int autoincrement (1, 0)", "002084"),
    ],
)
def test_a_table_with_a_bad_key_is_not_created(tmp_path: Path, columns: str, code: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.rows("create table parent (id int primary key)")
        await local.rows("create table bare (id int)")
        with pytest.raises(errors.SqlError) as caught:
            await local.rows(f"create table t ({columns})")
        assert caught.value.code == code, caught.value.message
        assert len(await local.rows("show tables")) == 2

    local_sql.run_local(tmp_path, work)
