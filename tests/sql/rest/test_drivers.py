"""What drivers do beside fetching cells: each case with both generations, in its own process.

In `make test` with the newer generation alone; both are there in `test_cells.py` and
`contract/test_snowflake_python.py`.
"""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from server import config
from sql import bindings, errors, outcomes
from tests.sql.rest import drivers, served

both = pytest.mark.parametrize("driver", drivers.NEWER)
NUMBER = outcomes.Column(name="N", type="fixed", precision=19, scale=0)


def say(face: served.Served, driver: str, lines: str, **more: str) -> list[object]:
    login = {"user": served.ACCESS_KEY, "password": served.SECRET_KEY, **more}
    return drivers.run(driver, lines, port=face.port, **login).checked()


@both
def test_login_by_name_and_by_access_key_reports_the_context(
    face: served.Served, driver: str
) -> None:
    said = say(
        face,
        driver,
        """
        for user, password, more in (
            ("alice", "alice-secret", {}),
            ("AKALICE", "alice-secret", {"database": "lake", "schema": "public"}),
            ("alice", "alice-secret", {"database": "nowhere", "warehouse": "w1"}),
        ):
            connection = connect(user=user, password=password, **more)
            say(connection.database, connection.schema, connection.warehouse, connection.role)
            say(connection.cursor().execute("select 1").fetchall())
            connection.close()
        """,
    )

    one = [[["int:1"]]]
    assert said == [
        ["LAKE", "PUBLIC", "LOCAL", "PUBLIC"],
        one,
        ["LAKE", "PUBLIC", "LOCAL", "PUBLIC"],
        one,
        # The newer driver shows its own wish where the server reports no database.
        ["nowhere" if driver == drivers.PY5 else None, None, "W1", "PUBLIC"],
        one,
    ]


@both
def test_refused_logins_carry_their_number_and_sqlstate(face: served.Served, driver: str) -> None:
    said = say(
        face,
        driver,
        """
        for more in (
            {"password": "wrong"},
            {"user": "unknown"},
            {"authenticator": "oauth", "token": "not-a-token"},
            {"role": "NO_SUCH_ROLE"},
        ):
            try:
                connect(**more)
            except snowflake.connector.errors.Error as error:
                say(type(error).__name__, error.errno, error.sqlstate)
        """,
    )

    assert [values[1] for values in said] == [
        "int:390100",
        "int:390100",
        "int:390303",
        "int:390189",
    ]
    assert said[0] == ["DatabaseError", "int:390100", "28000"]


@both
def test_a_fault_carries_code_sqlstate_query_id_and_message(
    face: served.Served, driver: str
) -> None:
    async def missing(call: served.Call) -> outcomes.Outcome:
        raise errors.does_not_exist("Object", "NOWHERE")

    async def bug(call: served.Call) -> outcomes.Outcome:
        raise RuntimeError("a secret of ours: /etc/passwd")

    face.statements.answers["select * from nowhere"] = missing
    face.statements.answers["select bug"] = bug

    said = say(
        face,
        driver,
        """
        cursor = connect().cursor()
        for text in ("select * from nowhere", "select bug", "  ", ";;"):
            try:
                cursor.execute(text)
                say("no fault", cursor.sfqid is None)
            except snowflake.connector.errors.Error as error:
                say(type(error).__name__, error.errno, error.sqlstate, error.msg)
        """,
    )

    assert said[0][:3] == ["ProgrammingError", "int:2003", "42S02"]
    assert "Object 'NOWHERE' does not exist or not authorized" in said[0][3]
    assert said[1][1:3] == ["int:603", "XX000"]
    assert "passwd" not in said[1][3]
    assert said[-1][1:3] == ["int:900", "42601"]


@both
def test_dml_answers_become_rowcounts(face: served.Served, driver: str) -> None:
    types = outcomes.StatementType
    stats = outcomes.Stats(rows_inserted=3)
    face.statements.outcome("insert", outcomes.changed_rows(types.INSERT, stats, inserted=3))
    face.statements.outcome(
        "update",
        outcomes.changed_rows(
            types.UPDATE, outcomes.Stats(rows_updated=2), updated=2, multi_joined=0
        ),
    )
    face.statements.outcome(
        "merge",
        outcomes.changed_rows(
            types.MERGE, outcomes.Stats(rows_inserted=1, rows_updated=4), inserted=1, updated=4
        ),
    )
    face.statements.outcome("create table", outcomes.status("Table T successfully created."))

    said = say(
        face,
        driver,
        """
        cursor = connect().cursor()
        for text in ("insert", "update", "merge", "create table"):
            cursor.execute(text)
            say(text, cursor.rowcount, cursor.fetchall(), [c[0] for c in cursor.description])
        """,
    )

    assert said[0] == ["insert", "int:3", [["int:3"]], ["number of rows inserted"]]
    assert said[1][:3] == ["update", "int:2", [["int:2", "int:0"]]]
    assert said[2][:3] == ["merge", "int:5", [["int:1", "int:4"]]]
    assert said[3][2:] == [[["Table T successfully created."]], ["status"]]


@both
def test_binds_arrive_typed(face: served.Served, driver: str) -> None:
    answer = outcomes.changed_rows(
        outcomes.StatementType.INSERT, outcomes.Stats(rows_inserted=1), inserted=1
    )
    text = "insert into t values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    face.statements.outcome(text, answer)
    face.statements.calls.clear()

    say(
        face,
        driver,
        f"""
        zone = datetime.timezone(datetime.timedelta(hours=1))
        connection = connect(paramstyle="qmark")
        cursor = connection.cursor()
        cursor.execute({text!r}, (
            7, decimal.Decimal("1.25"), 1.5, "it's", True, None, b"\\x00\\xab",
            datetime.date(2024, 2, 29), datetime.time(12, 34, 56, 500000),
        ))
        """,
    )

    call = face.statements.calls[-1]
    assert call.text == text
    values = {name: binding.value for name, binding in call.bindings.items()}
    number, decimal, real, word, flag, nothing, raw, day, clock = (
        values[str(index)] for index in range(1, 10)
    )
    assert number == 7
    assert Decimal(str(decimal)) == Decimal("1.25")
    assert (real, word, flag, nothing, raw) == (1.5, "it's", True, None, b"\x00\xab")
    assert day == datetime.date(2024, 2, 29)
    assert clock == 45_296_500_000_000


@both
def test_a_zone_aware_bind_keeps_its_instant(face: served.Served, driver: str) -> None:
    face.statements.outcome("insert zone", outcomes.status("done", outcomes.StatementType.INSERT))
    face.statements.calls.clear()

    say(
        face,
        driver,
        """
        zone = datetime.timezone(datetime.timedelta(hours=1))
        moment = datetime.datetime(2024, 2, 29, 13, 34, 56, 123000, tzinfo=zone)
        cursor = connect(paramstyle="qmark").cursor()
        cursor.execute("insert zone", (moment, ("TIMESTAMP_TZ", moment), ("TIMESTAMP_LTZ", moment)))
        """,
    )

    nanos = 1_709_210_096_123_000_000
    first, zoned, local = face.statements.calls[-1].bindings.values()
    assert (first.type, first.value) == ("timestamp_ntz", nanos)
    assert isinstance(zoned.value, bindings.Zoned)
    assert zoned.value.nanos == nanos
    assert (local.type, local.value) == ("timestamp_ltz", nanos)


@both
def test_executemany_is_one_statement_with_array_binds(face: served.Served, driver: str) -> None:
    async def insert(call: served.Call) -> outcomes.Outcome:
        described = outcomes.Outcome(
            columns=outcomes.changed_rows(
                outcomes.StatementType.INSERT, outcomes.Stats(), inserted=0
            ).columns,
            statement_type_id=outcomes.StatementType.INSERT,
            bind_count=2,
            array_bind_supported=True,
        )
        if call.describe_only:
            return described
        rows = len(call.bindings["1"].values)
        return outcomes.changed_rows(
            outcomes.StatementType.INSERT, outcomes.Stats(rows_inserted=rows), inserted=rows
        )

    text = "insert into t(a, b) values (?, ?)"
    face.statements.answers[text] = insert
    face.statements.calls.clear()

    said = say(
        face,
        driver,
        f"""
        cursor = connect(paramstyle="qmark").cursor()
        cursor.executemany({text!r}, [(1, "a"), (2, None), (3, "c")])
        say(cursor.rowcount)
        """,
    )

    assert said == [["int:3"]]
    (ran,) = [call for call in face.statements.calls if not call.describe_only]
    assert ran.bindings["1"] == bindings.Binding(type="fixed", values=(1, 2, 3), is_array=True)
    assert ran.bindings["2"].values == ("a", None, "c")


@both
def test_describe_gives_columns_without_running(face: served.Served, driver: str) -> None:
    async def answer(call: served.Call) -> outcomes.Outcome:
        assert call.describe_only
        return outcomes.Outcome(columns=(NUMBER,), statement_type_id=outcomes.StatementType.SELECT)

    face.statements.answers["select described"] = answer

    said = say(
        face,
        driver,
        """
        cursor = connect().cursor()
        say([column.name for column in cursor.describe("select described")])
        """,
    )

    assert said == [[["N"]]]


@both
def test_several_statements_are_fetched_one_after_another(face: served.Served, driver: str) -> None:
    face.statements.table("select 2", [NUMBER], pa.record_batch([pa.array([2])], names=["N"]))

    said = say(
        face,
        driver,
        """
        cursor = connect().cursor()
        cursor.execute("select 1; select 2;", num_statements=2)
        say(cursor.fetchall())
        say(cursor.nextset() is not None, cursor.fetchall())
        cursor.execute("select 2; select 1; select 2", num_statements=0)
        say(cursor.fetchall())
        try:
            cursor.execute("select 1; select 2")
        except snowflake.connector.errors.Error as error:
            say(error.errno, error.sqlstate)
        """,
    )

    assert said == [
        [[["int:1"]]],
        [True, [["int:2"]]],
        [[["int:2"]]],
        ["int:8", "0A000"],
    ]


@both
def test_asynchronous_queries_are_polled_and_fetched_also_from_another_session(
    face: served.Served, driver: str
) -> None:
    opened = asyncio.Event()

    async def slow(call: served.Call) -> outcomes.Outcome:
        await opened.wait()
        return served.select([NUMBER], pa.record_batch([pa.array([42])], names=["N"]))

    async def opens(call: served.Call) -> outcomes.Outcome:
        # A moment later: the driver then finds the query still running, and polls.
        asyncio.get_running_loop().call_later(0.3, opened.set)
        return served.select([NUMBER], pa.record_batch([pa.array([1])], names=["N"]))

    async def fails(call: served.Call) -> outcomes.Outcome:
        await asyncio.sleep(0.05)
        raise errors.division_by_zero()

    face.statements.answers["select slowly"] = slow
    face.statements.answers["select opening"] = opens
    face.statements.answers["select failing"] = fails

    said = say(
        face,
        driver,
        """
        connection = connect()
        cursor = connection.cursor()
        query_id = cursor.execute_async("select slowly")["queryId"]
        say(connection.is_still_running(connection.get_query_status(query_id)))
        connection.cursor().execute("select opening")
        cursor.get_results_from_sfqid(query_id)
        say(cursor.fetchall(), connection.get_query_status(query_id).name)
        other = connect().cursor()
        other.get_results_from_sfqid(query_id)
        say(other.fetchall())
        failing = cursor.execute_async("select failing")["queryId"]
        while connection.is_still_running(connection.get_query_status(failing)):
            time.sleep(0.05)
        say(connection.get_query_status(failing).name)
        try:
            cursor.get_results_from_sfqid(failing)
            cursor.fetchall()
        except snowflake.connector.errors.Error as error:
            say("failed", error.errno)
        """,
    )

    assert said[:3] == [[True], [[["int:42"]], "SUCCESS"], [[["int:42"]]]]
    assert said[3] == ["FAILED_WITH_ERROR"]
    assert said[4][0] == "failed"


@both
def test_a_cursor_can_be_cancelled_and_the_statement_really_ends(
    face: served.Served, driver: str
) -> None:
    ended: list[str] = []

    async def endless(call: served.Call) -> outcomes.Outcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(call.query_id)
            raise
        raise AssertionError

    face.statements.answers["select endless"] = endless

    said = say(
        face,
        driver,
        """
        connection = connect()
        cursor = connection.cursor()
        query_id = cursor.execute_async("select endless")["queryId"]
        say(connection.get_query_status(query_id).name)
        session = connection.session_id
        say(connection.cursor().execute(f"select system$cancel_query('{query_id}')").fetchall())
        while connection.is_still_running(connection.get_query_status(query_id)):
            time.sleep(0.02)
        other = cursor.execute_async("select endless")["queryId"]
        say(connection.cursor().execute(
            f"select system$cancel_all_queries({session})").fetchall())
        while connection.is_still_running(connection.get_query_status(other)):
            time.sleep(0.02)
        started = time.monotonic()
        try:
            connection.cursor().execute("select endless", timeout=1)
        except snowflake.connector.errors.Error as error:
            say(error.errno, time.monotonic() - started < 20)
        """
        if driver == drivers.PY4
        else """
        connection = connect(session_parameters={"STATEMENT_TIMEOUT_IN_SECONDS": 1})
        try:
            connection.cursor().execute("select endless")
        except snowflake.connector.errors.Error as error:
            say(error.errno, error.sqlstate)
        """,
    )

    if driver == drivers.PY5:
        assert said == [["int:630", "57014"]]
        assert len(ended) == 1
        return
    assert said[0] == ["RUNNING"]
    assert "terminated" in said[1][0][0][0]
    assert said[2][0] == [["1 cancelled."]]
    assert said[3] == ["int:604", True]
    assert len(ended) == 3


@both
def test_large_results_come_in_chunks_whole_and_in_order(face: served.Served, driver: str) -> None:
    rows = 400_000
    batches = [
        pa.record_batch(
            [
                pa.array(range(start, start + 50_000)),
                pa.array([f"row {number}" for number in range(start, start + 50_000)]),
            ],
            names=["N", "T"],
        )
        for start in range(0, rows, 50_000)
    ]
    text = outcomes.Column(name="T", type="text")
    face.statements.table("select many", [NUMBER, text], *batches)

    said = say(
        face,
        driver,
        """
        cursor = connect().cursor()
        frame = cursor.execute("select many").fetch_pandas_all()
        say(len(frame), int(frame["N"].sum()), frame["T"].iloc[-1],
            bool((frame["N"].diff().dropna() == 1).all()))
        rows = cursor.execute("select many").fetchall()
        say(len(rows), rows[123456])
        cursor = connect(
            session_parameters={"PYTHON_CONNECTOR_QUERY_RESULT_FORMAT": "JSON"}
        ).cursor()
        rows = cursor.execute("select many").fetchall()
        say(len(rows), rows[-1], rows[0])
        """,
    )

    total = f"int:{rows}"
    last = f"row {rows - 1}"
    assert said == [
        [total, f"int:{rows * (rows - 1) // 2}", last, True],
        [total, ["int:123456", "row 123456"]],
        [total, [f"int:{rows - 1}", last], ["int:0", "row 0"]],
    ]


@both
def test_expired_session_tokens_are_renewed_and_the_statement_runs_once(
    tmp_path_factory: pytest.TempPathFactory, driver: str
) -> None:
    with served.serve(tmp_path_factory.mktemp("renewal")) as face:

        async def expire(call: served.Call) -> outcomes.Outcome:
            face.parts.clock.added_ms += 2 * 3600 * 1000
            return outcomes.status("done")

        face.statements.answers["expire"] = expire
        said = say(
            face,
            driver,
            """
            connection = connect()
            cursor = connection.cursor()
            for _ in range(3):
                cursor.execute("expire")
                say(cursor.execute("select 1").fetchall())
            connection.close()
            """,
        )
        texts = [call.text for call in face.statements.calls]

    assert said == [[[["int:1"]]]] * 3
    assert texts == ["expire", "select 1"] * 3


@both
def test_a_closed_session_refuses_what_comes_after(face: served.Served, driver: str) -> None:
    said = say(
        face,
        driver,
        """
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("select 1")
        connection.close()
        try:
            cursor.execute("select 1")
        except snowflake.connector.errors.Error as error:
            say(type(error).__name__)
        """,
    )

    assert len(said) == 1


@both
def test_key_pair_login(tmp_path_factory: pytest.TempPathFactory, driver: str) -> None:
    folder = tmp_path_factory.mktemp("keypair")
    keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(3)]
    public = [
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
        for key in keys
    ]
    bare = "".join(public[1].splitlines()[1:-1])
    for number, key in enumerate(keys):
        (folder / f"{number}.p8").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    user = config.User(
        name="keyed", access_key="AKKEYED", secret_key="x", public_keys=(public[0], bare)
    )
    with served.serve(folder / "data", users=(user,)) as face:
        said = say(
            face,
            driver,
            f"""
            for number in range(3):
                try:
                    connection = connect(
                        user="keyed", password=None, authenticator="SNOWFLAKE_JWT",
                        private_key_file={str(folder)!r} + f"/{{number}}.p8",
                    )
                    say(connection.cursor().execute("select 1").fetchall())
                except snowflake.connector.errors.Error as error:
                    say(error.errno, error.sqlstate)
            """,
        )

    assert said == [[[["int:1"]]], [[["int:1"]]], ["int:394304", "28000"]]
