"""What ALTER TABLE makes, read by PyIceberg and DuckDB after each change."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

from sql import shell
from tests.kit import duck, lake_client
from tests.kit import server as server_kit


def test_other_engines_read_a_table_after_each_change(
    server: server_kit.Running, tmp_path: Path
) -> None:
    namespace = f"ddl_{uuid.uuid4().hex[:8]}"
    catalog = lake_client.catalog(server)
    catalog.create_namespace(namespace)
    database = duck.attached(server, tmp_path)

    def changed(text: str, name: str = "t") -> list[tuple[Any, ...]]:
        """Run statements, and return the rows that both engines then read."""
        output, errors = io.StringIO(), io.StringIO()
        code = shell.run(
            text,
            url=server.url,
            user=server.access_key,
            password=server.secret_key,
            database="lake",
            schema=namespace,
            output=output,
            errors=errors,
        )
        assert code == 0, errors.getvalue()
        table = catalog.load_table(f"{namespace}.{name}").scan().to_arrow()
        rows = sorted(map(tuple, (row.values() for row in table.to_pylist())), key=str)
        database.execute("detach lake")
        duck.attach(database, server)
        read = database.execute(f"select * from lake.{namespace}.{name}").fetchall()
        assert sorted(read, key=str) == rows
        return rows

    created = "create table t (id int autoincrement primary key, a int, s varchar(5) default 'd')"
    assert changed(f"{created}; insert into t (a) values (10)") == [(1, 10, "d")]
    assert changed("alter table t add column n number(9,2), b int") == [(1, 10, "d", None, None)]
    grown = changed("insert into t (a, n) values (20, 1.5)")
    assert [(row[0], row[1], str(row[3])) for row in grown] == [(1, 10, "None"), (2, 20, "1.50")]
    assert len(changed("alter table t rename column a to first")) == 2
    assert [len(row) for row in changed("alter table t drop column b")] == [4, 4]
    wider = changed("alter table t modify n number(20,2); insert into t (n) values (123456789012)")
    assert {str(row[3]) for row in wider} == {"None", "1.50", "123456789012.00"}
    assert len(changed("alter table t cluster by (first)")) == 3
    assert changed("create table u as select 1 as x; alter table u swap with t") == [(1,)]
    assert len(changed("alter table u rename to w", "w")) == 3


def test_other_engines_read_the_tables_of_a_cloned_schema(server: server_kit.Running) -> None:
    namespace, clone = (f"ddl_{uuid.uuid4().hex[:8]}" for _ in range(2))
    catalog = lake_client.catalog(server)
    catalog.create_namespace(namespace)
    output, errors = io.StringIO(), io.StringIO()
    code = shell.run(
        "create table t as select seq4() a from table(generator(rowcount => 5));"
        "create view v as select max(a) m from t;"
        f"create schema {clone} clone {namespace};"
        "delete from t where a > 1;"  # the clone is the session's schema now
        f"select (select m from {namespace}.v) || ' and ' || (select m from v)",
        url=server.url,
        user=server.access_key,
        password=server.secret_key,
        database="lake",
        schema=namespace,
        output=output,
        errors=errors,
    )
    assert code == 0, errors.getvalue()
    assert "4 and 1" in output.getvalue()
    for name, rows in ((namespace, [0, 1, 2, 3, 4]), (clone, [0, 1])):
        table = catalog.load_table(f"{name}.t").scan().to_arrow()
        assert sorted(table["a"].to_pylist()) == rows
    assert (clone, "v") in catalog.list_views(clone)
