"""The engines that write and read tables of a running server, and one way to ask each of them.

Each knows the catalog's address, the warehouse and a key pair alone: endpoint, region and keys of
a table's files are those that loadTable answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from tests.kit import lake_client, line_programs
from tests.kit.server import Running
from tests.kit.trino import Trino

Row = tuple[Any, ...]

SPARK_CATALOG = "documented"
"""The catalog of a Spark session that is set up as the README says."""

EVERY_NAMESPACE = "every"
"""Of the tables that all engines share."""

LIBRARIES_PROGRAM = """
import os
from pyiceberg.catalog import load_catalog

def polars(table, columns, where):
    import polars as pl
    frame = pl.scan_iceberg(table)
    frame = frame.filter(pl.sql_expr(where)) if where else frame
    return (frame.select(columns) if columns else frame).collect().rows()

def daft(table, columns, where):
    import daft
    frame = daft.read_iceberg(table)
    frame = frame.where(daft.sql_expr(where)) if where else frame
    return list(zip(*(frame.select(*columns) if columns else frame).to_pydict().values()))

def iceberg_rust(table, columns, where):
    from datafusion import SessionContext
    # PyIceberg 0.12 puts an object among these properties, and iceberg-rust takes texts.
    table.io.properties.pop("auth.manager")
    context = SessionContext()
    context.register_table("t", table)
    text = f"select {', '.join(columns) or '*'} from t" + (f" where {where}" if where else "")
    return list(zip(*context.sql(text).to_pydict().values()))

def arrow_table(table, rows):
    import pyarrow as pa
    fields = {field.name: field for field in table.schema().as_arrow()}
    inferred = pa.table(rows).schema
    return pa.table(rows, schema=pa.schema([fields.get(field.name, field) for field in inferred]))

def pyiceberg_changes(table, rows, mode, where):
    if mode == "append":
        table.append(arrow_table(table, rows))
    else:
        table.overwrite(arrow_table(table, rows), overwrite_filter=where)

def polars_changes(table, rows, mode, where):
    import polars as pl
    # Its writer hands S3 the options of the call alone.
    options = {name: text for name, text in table.io.properties.items() if name.startswith("s3.")}
    pl.from_arrow(arrow_table(table, rows)).lazy().sink_iceberg(
        table,
        mode=mode,
        schema_mode="merge" if mode == "append" else None,
        overwrite_filter=pl.sql_expr(where) if where else None,
        storage_options=options,
    )

def daft_changes(table, rows, mode, where):
    import daft
    frame = daft.from_arrow(arrow_table(table, rows))
    frame.write_iceberg(table, mode=mode, overwrite_filter=where or None)

READERS = {"polars": polars, "daft": daft, "iceberg-rust": iceberg_rust}
WRITERS = {"pyiceberg": pyiceberg_changes, "polars": polars_changes, "daft": daft_changes}

def answer(question):
    catalog = load_catalog(
        "boathouse",
        type="rest",
        uri=os.environ["URL"] + "/iceberg",
        warehouse="lake",
        credential=os.environ["KEY"] + ":" + os.environ["SECRET"],
    )
    table, where = catalog.load_table(question["table"]), question["where"]
    if "writer" in question:
        return WRITERS[question["writer"]](table, question["rows"], question["mode"], where)
    return READERS[question["reader"]](table, question["columns"], where)
"""

CONNECTOR_PROGRAM = """
import os
import snowflake.connector

connection = snowflake.connector.connect(
    host=os.environ["HOST"], port=int(os.environ["PORT"]), protocol="http", account="boathouse",
    user=os.environ["KEY"], password=os.environ["SECRET"], database="lake",
)

def answer(text):
    return connection.cursor().execute(text).fetchall()
"""


class Engines:
    """The clients of one server. Row lists of readers are sorted, values as in Python."""

    def __init__(
        self,
        *,
        running: Running,
        session: Any,
        duck: Any,
        program: line_programs.LineProgram | None = None,
        trino: Trino | None = None,
    ) -> None:
        """session: of Spark, with SPARK_CATALOG. program: LIBRARIES_PROGRAM, if it runs."""
        self.running = running
        self.session = session
        self.catalog: Catalog = pyiceberg(running)
        self._duck = duck
        self._program = program
        self._trino = trino

    def having(self, *, program: line_programs.LineProgram, trino: Trino) -> Engines:
        """Return these engines and more of them: see __init__."""
        return Engines(
            running=self.running,
            session=self.session,
            duck=self._duck,
            program=program,
            trino=trino,
        )

    def spark(self, statement: str) -> list[Row]:
        return [tuple(row) for row in self.session.sql(statement).collect()]

    def duckdb(self, statement: str) -> list[Row]:
        rows: list[Row] = self._duck.execute(statement).fetchall()
        return rows

    def sql(self, statement: str, *, schema: str = "") -> list[Row]:
        with lake_client.session(self.running, schema) as session:
            return session.rows(statement)

    def trino(self, statement: str) -> list[Row]:
        assert self._trino is not None
        return self._trino.sql(statement)

    def library(
        self, writer: str, table: str, rows: Mapping[str, Sequence[Any]], *, replaced: str = ""
    ) -> None:
        """Append rows by PyIceberg, Polars or Daft; in the same commit, delete those they replace.

        rows: values by column. replaced: a condition in SQL. Polars adds columns that are new.
        PyIceberg writes partitions of every transform here only: it wants pyiceberg-core for them.
        Raises line_programs.ProgramError.
        """
        assert self._program is not None
        mode = "overwrite" if replaced else "append"
        question = {"writer": writer, "table": table, "rows": rows, "mode": mode, "where": replaced}
        self._program.ask(question)

    def execute(self, engine: str, statement: str, table: str) -> None:
        """Run a statement of an engine that takes SQL; {} in it becomes the table's name there."""
        if engine == "spark":
            self.spark(f"REFRESH TABLE {SPARK_CATALOG}.{table}")
            self.spark(statement.format(f"{SPARK_CATALOG}.{table}"))
        else:
            run = {"duckdb": self.duckdb, "sql": self.sql, "trino": self.trino}[engine]
            run(statement.format(f"lake.{table}"))

    def rows(
        self, reader: str, table: str, columns: Sequence[str] = (), *, where: str = ""
    ) -> list[Row]:
        """Return a table's rows as a reader sees them now.

        table: namespace.name. columns: all of them by default. where: a condition in SQL.
        """
        listed = ", ".join(columns) or "*"
        filtered = f" WHERE {where}" if where else ""
        read: Mapping[str, Callable[[], list[Row]]] = {
            "spark": lambda: self._rows_of_spark(table, listed, filtered),
            "pyiceberg": lambda: self._rows_of_pyiceberg(table, columns, where),
            "duckdb": lambda: self.duckdb(f"SELECT {listed} FROM lake.{table}{filtered}"),
            "sql": lambda: self.sql(f"SELECT {listed} FROM {table}{filtered}"),
            "trino": lambda: self.trino(f"SELECT {listed} FROM lake.{table}{filtered}"),
        }
        rows = read.get(reader, lambda: self._rows_of_program(reader, table, columns, where))()
        return sorted(rows, key=nulls_first)

    def rows_by_reader(
        self, readers: Sequence[str], table: str, columns: Sequence[str] = (), *, where: str = ""
    ) -> dict[str, list[Row]]:
        return {reader: self.rows(reader, table, columns, where=where) for reader in readers}

    def _rows_of_spark(self, table: str, listed: str, filtered: str) -> list[Row]:
        self.spark(f"REFRESH TABLE {SPARK_CATALOG}.{table}")  # a session keeps a table for a while
        rows = self.spark(f"SELECT {listed} FROM {SPARK_CATALOG}.{table}{filtered}")
        return [tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in rows]

    def _rows_of_pyiceberg(self, table: str, columns: Sequence[str], where: str) -> list[Row]:
        loaded = self.catalog.load_table(table)
        scan = loaded.scan(selected_fields=tuple(columns) or ("*",))
        scanned = (scan.filter(where) if where else scan).to_arrow()
        names = columns or scanned.column_names
        return [tuple(row[name] for name in names) for row in scanned.to_pylist()]

    def _rows_of_program(
        self, reader: str, table: str, columns: Sequence[str], where: str
    ) -> list[Row]:
        assert self._program is not None
        question = {"reader": reader, "table": table, "columns": list(columns), "where": where}
        return [tuple(row) for row in self._program.ask(question)]


def nulls_first(row: Row) -> list[tuple[bool, Any]]:
    """The key that sorts rows of values that may be None."""
    return [(value is not None, value) for value in row]


def pyiceberg(running: Running) -> Catalog:
    return load_catalog(
        "documented",
        type="rest",
        uri=running.iceberg,
        warehouse="lake",
        credential=f"{running.access_key}:{running.secret_key}",
        **{"oauth2-server-uri": f"{running.iceberg}/v1/oauth/tokens"},
    )


def documented_in_spark(session: Any, running: Running) -> None:
    """Give a Spark session the catalog SPARK_CATALOG: address, name and credential."""
    prefix = f"spark.sql.catalog.{SPARK_CATALOG}"
    for name, value in {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": running.iceberg,
        f"{prefix}.warehouse": "lake",
        f"{prefix}.credential": f"{running.access_key}:{running.secret_key}",
    }.items():
        session.conf.set(name, value)
