"""Both generations of Snowflake's Python connector against the process a user starts."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.kit import server as server_kit
from tests.sql.rest import drivers

LINES = """
more = {"LOCK_TIMEOUT": 60, "DATE_INPUT_FORMAT": "AUTO", "NO_SUCH_PARAMETER": "x"}
connection = connect(database="lake", paramstyle="qmark", session_parameters=more)
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute(f"use schema {SCHEMA}")
say(connection.database, connection.schema)
cursor.execute(
    "create table trips (id int not null, name varchar, fare number(10,2), day date, "
    "at timestamp_ntz(6), ok boolean)"
)
cursor.execute(
    "insert into trips values "
    "(1, 'first', 1.25, '2024-02-29', '2024-02-29 12:34:56.123456', true), "
    "(2, null, -0.01, '1969-12-31', '1969-12-31 23:59:59.5', false)"
)
say("inserted", cursor.rowcount)
say(cursor.execute("select * from trips order by id").fetchall())
say([column[0] for column in cursor.description])
named = connection.cursor(snowflake.connector.DictCursor)
text = 'select id, fare * 2 as "Twice", count(*) over () from trips where id = 1'
say(named.execute(text).fetchall())
frame = cursor.execute("select id, fare from trips order by id").fetch_pandas_all()
say(list(frame.columns), [int(value) for value in frame["ID"]], float(frame["FARE"].sum()))
say(cursor.execute("select count(*) from trips where name is null").fetchone())
say([row[1] for row in cursor.execute("show tables").fetchall()])
try:
    cursor.execute("select * from nowhere")
except snowflake.connector.errors.ProgrammingError as error:
    say(error.errno, error.sqlstate)
from snowflake.connector.pandas_tools import write_pandas
import pandas
days = [datetime.date(2024, 2, 29), None]
rows = pandas.DataFrame({"ID": [1, 2], "Name": ["x", None], "DAY": days})
for number in range(2):
    good, chunks, count, _ = write_pandas(
        connection, rows, "FRAMES", auto_create_table=True, overwrite=number == 1, chunk_size=1
    )
    say("frames", good, chunks, count)
say(cursor.execute("select * from frames order by id").fetchall())
cursor.execute("drop table frames")
cursor.execute("create table small (n number(5,0), m number(18,0))")
cursor.execute("insert into small values (?, ?)", (99999, -(10**18 - 1)))
cursor.executemany("insert into small values (?, ?)", [(-99999, 10**18 - 1), (None, 0)])
say(cursor.execute("select n, m from small order by m").fetchall())
try:
    cursor.execute("insert into small values (?, 0)", (100000,))
except snowflake.connector.errors.ProgrammingError as error:
    say("small", error.errno, error.sqlstate)
connection.autocommit(False)
cursor.execute("insert into small values (7, 7)")
cursor.execute("insert into small select n + 1, m from small where m = 7")
say("open", cursor.execute("select n from small where m = 7 order by n").fetchall())
connection.commit()
cursor.execute("truncate table small")
cursor.execute("insert into small values (9, 9)")
say("open", cursor.execute("select count(*) from small").fetchall())
connection.rollback()
say("after", cursor.execute("select n from small where m = 7 order by n").fetchall())
connection.autocommit(True)
cursor.executemany("update small set m = ? where n = ?", [(1, 7), (2, 8), (3, 99)])
cursor.execute("update small set m = m * ? where n between 0 and ?", (10, 8))
say("updated", cursor.rowcount, [column[0] for column in cursor.description])
cursor.execute("delete from small where n is null or abs(n) = ?", (99999,))
say("deleted", cursor.rowcount)
cursor.execute(
    "merge into small using (select ? as n) s on small.n = s.n when matched then delete "
    "when not matched then insert (n, m) values (n, 0)", (8,)
)
say("merged", cursor.fetchall(), cursor.rowcount)
say(cursor.execute("select n, m from small order by n").fetchall())
say(cursor.execute(f"create schema {SCHEMA}_c clone {SCHEMA} at (offset => 0)").fetchone())
say(connection.schema, cursor.execute("select n, m from small order by n").fetchall())
cursor.execute(f"drop schema {SCHEMA}_c")
cursor.execute(f"use schema {SCHEMA}")
cursor.execute("drop table small")
cursor.execute("drop table trips")
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


PUT_LINES = """
import pathlib
connection = connect(database="lake")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute("create stage s")
path = pathlib.Path(FOLDER) / "a.csv"
path.write_text("1")
for extra in ("", "", "overwrite = true"):
    say(cursor.execute(f"put file://{path} @s {extra}").fetchall()[0][6])
say([row[0] for row in cursor.execute("list @s").fetchall()])
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER_FIRST)
def test_put_skips_a_file_that_is_there_where_the_driver_can_look(
    server: server_kit.Running, driver: str, tmp_path: Path
) -> None:
    said = drivers.run(
        driver,
        f"SCHEMA = 'p_{driver}_{uuid.uuid4().hex[:8]}'\nFOLDER = {str(tmp_path)!r}\n" + PUT_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    # Connector 4 gets a URL to upload to, as for a stage in Google's storage, and cannot look.
    again = {"snowflake4": "UPLOADED", "snowflake5": "SKIPPED"}[driver]
    assert said == [["UPLOADED"], [again], ["UPLOADED"], [["s/a.csv.gz"]]]


NAMES_LINES = """
connection = connect(database="lake")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute("create stage s")
for name in NAMES:
    pathlib.Path(FOLDER, name).write_text("1\\n")
for folder, quote in (("quoted", "'"), ("bare", "")):
    cursor.execute(f"put {quote}file://{FOLDER}/*.csv{quote} @s/{folder} auto_compress = false")
    say(sorted([row[0], row[6]] for row in cursor.fetchall()))
say([row[0] for row in cursor.execute("list @s").fetchall()])
say(cursor.execute("select count(*) from @s").fetchone()[0])
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""
NAMES = ["a b.csv", "it's.csv", "q(1)%20+x.csv", "\u00fc,;\U0001f600.csv"]


@pytest.mark.parametrize("driver", drivers.NEWER_FIRST)
def test_put_uploads_files_with_blanks_and_signs_in_their_names(
    server: server_kit.Running, driver: str, tmp_path: Path
) -> None:
    preamble = f"import pathlib\nNAMES = {NAMES!r}\nFOLDER = {str(tmp_path)!r}\n"
    said = drivers.run(
        driver,
        f"{preamble}SCHEMA = 'n_{driver}_{uuid.uuid4().hex[:8]}'\n{NAMES_LINES}",
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()
    uploaded = [[name, "UPLOADED"] for name in NAMES]
    listed = [f"s/{folder}/{name}" for folder in ("bare", "quoted") for name in NAMES]
    assert said == [[uploaded], [uploaded], [listed], ["int:8"]]


SEVERAL_LINES = """
connection = connect(database="lake", paramstyle="qmark")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute(
    "create temporary table several (n int, t varchar); insert into several values (?, ?), (2, ?); "
    "select n, t from several where n >= ? order by n; update several set t = ? where n = ?",
    (1, "one", "two", 1, "changed; ?", 2),
    num_statements=4,
)
while True:
    say(cursor.fetchall())
    if not cursor.nextset():
        break
say(cursor.execute("select * from several order by n").fetchall())
try:
    cursor.execute("delete from several where n = ?; select ?", (1,), num_statements=2)
except snowflake.connector.errors.ProgrammingError as error:
    say(error.errno)
say(cursor.execute("select count(*) from several").fetchall())
say(cursor.execute("explain delete from several where n = ?", (1,)).fetchall()[:2])
scan = 'select "id", "operation" from table(result_scan(last_query_id())) where "id" = 0'
say(cursor.execute(scan).fetchall())
plan = json.loads(cursor.execute("explain using json select 1").fetchone()[0])
say(plan["Operations"][0][0]["operation"])
flow = "select ? as a ->> select a + ? as b from $1"
say(cursor.execute(flow, (40, 2)).fetchall())
say(cursor.execute("select system$wait(10, 'MILLISECONDS')").fetchall())
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER)
def test_several_statements_of_one_request_share_its_values_in_order(
    server: server_kit.Running, driver: str
) -> None:
    schema = f"s_{driver}_{uuid.uuid4().hex[:8]}"

    said = drivers.run(
        driver,
        f"SCHEMA = {schema!r}\n" + SEVERAL_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said[0] == [[["Table SEVERAL successfully created."]]]
    assert said[1] == [[["int:2"]]]
    assert said[2] == [[["int:1", "one"], ["int:2", "two"]]]
    assert said[3][0][0][0] == "int:1"
    assert said[4] == [[["int:1", "one"], ["int:2", "changed; ?"]]]
    assert said[5] == ["int:2049"]
    assert said[6] == [[["int:2"]]]
    total, deleting = said[7][0]
    assert total == [None, None, None, "GlobalStats", None, None, None, "int:1", "int:1", total[9]]
    assert deleting[:4] == ["int:1", "int:0", None, "Delete"]
    assert said[8] == [[["int:0", "Delete"]]]
    assert said[9] == ["Result"]
    assert said[10] == [[["int:42"]]]
    assert said[11] == [[["waited 10 milliseconds"]]]


@pytest.mark.parametrize("driver", drivers.BOTH)
def test_a_session_makes_fills_reads_and_drops_a_table(
    server: server_kit.Running, driver: str
) -> None:
    schema = f"c_{driver}_{uuid.uuid4().hex[:8]}"

    said = drivers.run(
        driver,
        f"SCHEMA = {schema!r}\n" + LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said[0] == ["LAKE", schema.upper()]
    assert said[1] == ["inserted", "int:2"]
    assert said[2] == [
        [
            ["int:1", "first", "Decimal:1.25", "date:2024-02-29",
             "datetime:2024-02-29 12:34:56.123456", True],
            ["int:2", None, "Decimal:-0.01", "date:1969-12-31",
             "datetime:1969-12-31 23:59:59.500000", False],
        ]
    ]  # fmt: skip
    assert said[3] == [["ID", "NAME", "FARE", "DAY", "AT", "OK"]]
    assert said[4] == [[{"ID": "int:1", "Twice": "Decimal:2.50", "COUNT(*) OVER ()": "int:1"}]]
    assert said[5] == [["ID", "FARE"], ["int:1", "int:2"], "float:1.24"]
    assert said[6] == [["int:1"]]
    assert said[7] == [["TRIPS"]]
    assert said[8] == ["int:2003", "42S02"]
    assert said[9] == said[10] == ["frames", True, "int:2", "int:2"]
    assert said[11] == [[["int:1", "x", "date:2024-02-29"], ["int:2", None, None]]]
    assert said[12] == [
        [
            ["int:99999", "int:-999999999999999999"],
            [None, "int:0"],
            ["int:-99999", "int:999999999999999999"],
        ]
    ]
    assert said[13] == ["small", "int:100039", "22003"]
    assert said[14] == ["open", [["int:7"], ["int:8"]]]
    assert said[15] == ["open", [["int:1"]]]
    assert said[16] == ["after", [["int:7"], ["int:8"]]]
    names = ["number of rows updated", "number of multi-joined rows updated"]
    assert said[17] == ["updated", "int:2", names]
    assert said[18] == ["deleted", "int:3"]
    assert said[19] == ["merged", [["int:0", "int:1"]], "int:1"]
    assert said[20] == [[["int:7", "int:10"]]]
    clone = f"{schema}_c".upper()
    assert said[21] == [[f"Schema {clone} successfully created."]]
    assert said[22] == [clone, [["int:7", "int:10"]]]


ZONES = """
connection = connect(session_parameters={"TIMEZONE": "America/New_York"})
cursor = connection.cursor()
text = (
    "select '2024-07-01 12:00:00.25'::timestamp_ltz s, '2024-01-15 12:00:00'::timestamp_ltz w, "
    "'1950-07-01 00:00:00'::timestamp_ltz o, null::timestamp_ltz n"
)
say([str(value) for value in cursor.execute(text).fetchone()])
frame = cursor.execute(text).fetch_pandas_all()
say([str(frame[name][0]) for name in frame.columns])
cursor.execute("show parameters like 'TIMEZONE'")
scan = "table(result_scan(last_query_id()))"
say(cursor.execute(f'select "key", "value", count(*) from {scan} group by all').fetchall())
flow = "show parameters like 'TIME%' ->> select \\"key\\" k from $1 ->> select max(k), $1 k from $1"
say(cursor.execute(flow + " group by 2 order by 2 limit 1").fetchall())
cursor.execute(text)
frame = cursor.execute(f"select s, w from {scan}").fetch_pandas_all()
say([str(frame[name][0]) for name in frame.columns])
"""


@pytest.mark.parametrize("driver", drivers.NEWER)
def test_a_timestamp_of_the_sessions_zone_is_right_in_summer_and_in_winter(
    server: server_kit.Running, driver: str
) -> None:
    said = drivers.run(
        driver, ZONES, port=server.port, user=server.access_key, password=server.secret_key
    ).checked()

    # New York is four hours behind UTC in July, five in January.
    expected = [
        "2024-07-01 12:00:00.250000-04:00",
        "2024-01-15 12:00:00-05:00",
        "1950-07-01 00:00:00-04:00",
    ]
    assert said[:2] == [[[*expected, "None"]], [[*expected, "NaT"]]]
    # The results of SHOW and SELECT are relations of later statements.
    assert said[2] == [[["TIMEZONE", "America/New_York", "int:1"]]]
    assert said[3] == [[["TIMESTAMP_DAY_IS_ALWAYS_24H", "TIMESTAMP_DAY_IS_ALWAYS_24H"]]]
    assert said[4] == [expected[:2]]


DIGITS_LINES = """
def shown(cell):
    # Connector 5 shows an instant of a JSON result at the zone's offset in winter.
    return str(cell.astimezone(datetime.UTC) if getattr(cell, "tzinfo", None) else cell)

connection = connect(database="lake", session_parameters={"TIMEZONE": "America/New_York"})
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
three = "n{0} timestamp_ntz({0}), z{0} timestamp_ltz({0}), c{0} time({0})"
columns = ", ".join(three.format(scale) for scale in SCALES)
cursor.execute(f"create table t (a int, {columns})")
row = ", ".join(f"'{MOMENT}', '{MOMENT}', '{MOMENT[11:]}'" for _ in SCALES)
old = ", ".join(f"'{OLD}', '{OLD}', '{OLD[11:]}'" for _ in SCALES)
cursor.execute(f"insert into t values (1, {row}), (2, {old}), (3{', null' * 3 * len(SCALES)})")
text = "select * exclude a from t order by a"
for form in ("ARROW", "JSON"):
    cursor.execute(f"alter session set python_connector_query_result_format = '{form}'")
    cursor.execute(text)
    say([column.scale for column in cursor.description])
    say([[shown(cell) for cell in row] for row in cursor.fetchall()])
    cursor.execute(f"select * from table(result_scan('{cursor.sfqid}'))")
    say([[shown(cell) for cell in row] for row in cursor.fetchall()])
cursor.execute("alter session set python_connector_query_result_format = 'ARROW'")
frame = cursor.execute(text).fetch_pandas_all()
say([shown(frame[name][0]) for name in frame.columns])
described = cursor.describe("select n3, max(z1), c0::time(2) from t group by all")
say([column.scale for column in described])
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER_FIRST)
def test_results_show_the_digits_of_a_second_that_each_column_keeps(
    server: server_kit.Running, driver: str
) -> None:
    moment, old = "2024-07-01 12:34:56.987654", "1950-07-01 23:59:59.123456"
    settings = f"SCALES, MOMENT, OLD = range(7), {moment!r}, {old!r}\n"

    said = drivers.run(
        driver,
        f"SCHEMA = 'd_{driver}_{uuid.uuid4().hex[:8]}'\n" + settings + DIGITS_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    def shown(text: str, scale: int) -> list[str]:
        day, _, clock = text.partition(" ")
        cut = clock[:8] + (f".{clock[9 : 9 + scale]:0<6}" if scale else "")
        # New York is four hours behind UTC in July.
        hour = int(clock[:2]) + 4
        later = day if hour < 24 else day[:-1] + "2"
        return [f"{day} {cut}", f"{later} {hour % 24:02}{cut[2:]}+00:00", cut]

    scales = [f"int:{scale}" for scale in range(7) for _ in range(3)]
    rows = [[cell for scale in range(7) for cell in shown(text, scale)] for text in (moment, old)]
    rows.append(["None"] * 21)
    assert said[:6] == [[scales], [rows], [rows]] * 2
    frame = said[6][0]
    assert frame[0::3] == rows[0][0::3]
    assert frame[1::3] == rows[0][1::3]
    assert frame[2::3] == rows[0][2::3]
    assert said[7] == [["int:3", "int:1", "int:2"]]


FORMS_LINES = """
connection = connect(database="lake", paramstyle="qmark")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
said = cursor.execute("select count(*), max(seq4()) from table(generator(timelimit => 1))")
say(said.fetchall())
both = "select count(*) from table(generator(rowcount => 5, timelimit => 100))"
say(cursor.execute(both).fetchall())
cursor.execute("alter session set statement_timeout_in_seconds = 1")
try:
    cursor.execute("select count(*) from table(generator(timelimit => 60))")
except snowflake.connector.errors.ProgrammingError as error:
    say(error.errno)
cursor.execute("alter session unset statement_timeout_in_seconds")
cursor.execute("select count(*) from table(generator(timelimit => 0))")
say(cursor.fetchall())
several = "create table t (a int); insert into t values (?), (?)"
cursor.execute("alter session set multi_statement_count = 0")
try:
    say([column.name for column in cursor.describe(several)])
except snowflake.connector.errors.ProgrammingError as error:
    say(error.msg)
say(cursor.execute("show tables").fetchall())
name = f"u_{SCHEMA}"
for namespace in (f"lake.{SCHEMA}", f'"lake".{SCHEMA}', f"'lake.{SCHEMA}'", "lake"):
    if namespace == f"lake.{SCHEMA}":
        words = f"password = 'a password' default_namespace = {namespace}"
        cursor.execute(f"create user {name} {words}")
        cursor.execute(f"grant usage on database lake to user {name}")
        cursor.execute(f"grant usage on schema lake.{SCHEMA} to user {name}")
    else:
        cursor.execute(f"alter user {name} set default_namespace = {namespace}")
    other = connect(user=name, password="a password")
    say(other.cursor().execute("select current_database(), current_schema()").fetchall())
    other.close()
cursor.execute(f"alter user {name} add programmatic access token nightly days_to_expiry = 1")
text = cursor.fetchone()[1]
wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
by_token = {"authenticator": "PROGRAMMATIC_ACCESS_TOKEN", "token": text, "password": None}
opened = [connect(user=name, **by_token), connect(user=name, password=text)]
say([each.cursor().execute("select current_user()").fetchall() for each in opened])
cursor.execute(f"show user programmatic access tokens for user {name}")
say([column[0] for column in cursor.description][:5], [row[4] for row in cursor.fetchall()])
cursor.execute(f"alter user {name} remove programmatic access token nightly")
say(cursor.fetchall())
for each in opened:
    try:
        each.cursor().execute("select 1")
    except snowflake.connector.errors.Error as error:
        say("gone", error.errno)
for more in (by_token, {**by_token, "token": wrong}, {"password": text}):
    try:
        connect(user=name, **more)
    except snowflake.connector.errors.Error as error:
        say("refused", error.errno)
cursor.execute(f"drop user {name}")
cursor.execute(
    "create table d (a int, u varchar default current_user(),"
    " m date default date_trunc(month, current_date),"
    " l timestamp_ltz default dateadd(day, 1, current_timestamp()))"
)
cursor.execute("insert into d (a) values (1), (2)")
say(cursor.execute(
    "select a, u = current_user(), m = date_trunc(month, current_date), l > current_timestamp()"
    " from d order by a"
).fetchall())
for expression in ("seq4()", "random()", "dateadd(day, a, current_date)"):
    try:
        cursor.execute(f"create table e (a int, b int default {expression})")
    except snowflake.connector.errors.ProgrammingError as error:
        say(error.errno)
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER)
def test_generators_by_time_describes_of_several_statements_and_defaults(
    server: server_kit.Running, driver: str
) -> None:
    schema = f"f_{driver}_{uuid.uuid4().hex[:8]}"

    said = drivers.run(
        driver,
        f"SCHEMA = {schema!r}\n" + FORMS_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said[0] == [[["int:1000000", "int:999999"]]]
    assert said[1] == [[["int:5"]]]
    assert said[2] == ["int:630"]
    assert said[3] == [[["int:0"]]]
    if driver == drivers.PY4:
        assert said[4] == [["multiple statement execution"]]
    else:  # connector 5 knows by the answer's type that it prepares no such text
        assert "Multi-statement queries cannot be prepared" in said[4][0]
    assert said[5] == [[]]
    assert said[6:10] == [*[[[["LAKE", schema.upper()]]]] * 3, [[["LAKE", None]]]]
    user = f"U_{schema.upper()}"
    assert said[10] == [[[[user]], [[user]]]]
    listed = ["name", "user_name", "role_restriction", "expires_at", "status"]
    assert said[11] == [listed, ["ACTIVE"]]
    assert said[12] == [[["Programmatic access token NIGHTLY successfully removed."]]]
    assert said[13:15] == [["gone", "int:390111"]] * 2
    assert said[15:18] == [*[["refused", "int:394400"]] * 2, ["refused", "int:390100"]]
    assert said[18] == [[["int:1", True, True, True], ["int:2", True, True, True]]]
    assert said[19:] == [["int:2"]] * 3


ORDER_LINES = """
connection = connect(database="lake", paramstyle="qmark")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute("create table t (a int)")
for number in (1234, 234, 34, 4, 1000, 7):
    cursor.execute("insert into t values (?)", (number,))
say([row[0] for row in cursor.execute("select a from t").fetchall()])
cursor.execute("delete from t where a = 34")
cursor.execute("insert into t values (34)")
say([row[0] for row in cursor.execute("select a from t where a < 500").fetchall()])
cursor.execute("select 'b', 'NaN'::float, \\"A\\" + 1 from t limit 1")
say([column.name for column in cursor.description])
text = "select as_boolean(1), as_double(1.5), as_varchar('a'), as_date(to_date('2024-02-29'))"
say(cursor.execute(text).fetchall())
cursor.execute("select seq4() from table(generator(rowcount => 100000))")
rows = [row[0] for batch in cursor.get_result_batches() for row in batch]
say(len(cursor.get_result_batches()) > 1, rows == list(range(100000)))
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER)
def test_rows_of_a_small_table_come_in_the_order_in_which_they_were_written(
    server: server_kit.Running, driver: str
) -> None:
    said = drivers.run(
        driver,
        f"SCHEMA = 'o_{driver}_{uuid.uuid4().hex[:8]}'\n" + ORDER_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said[0] == [[f"int:{number}" for number in (1234, 234, 34, 4, 1000, 7)]]
    assert said[1] == [[f"int:{number}" for number in (234, 4, 7, 34)]]
    assert said[2] == [["'B'", "'NAN'::FLOAT", '"A" + 1']]
    assert said[3] == [[[None, "float:1.5", "a", "date:2024-02-29"]]]
    assert said[4] == [True, True]


CONTINUE_LINES = """
import pathlib
import pandas
from snowflake.connector.pandas_tools import write_pandas
connection = connect(database="lake")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute("create table t (a int, b varchar(3))")
rows = pandas.DataFrame({"A": [1], "B": ["q"]})
say(write_pandas(connection, rows, "T", on_error="continue")[:3])
cursor.execute("create stage s")
for name, text in (("good", "1,x"), ("broken", '2,"y'), ("word", "nix,z"), ("long", "7,zzzz")):
    path = pathlib.Path(FOLDER) / f"{name}.csv"
    path.write_text(text + "\\n")
    cursor.execute(f"put file://{path} @s/{name}")
    query = f"(select $1::int + 1, upper($2) from @s/{name})"
    form = "file_format = (type = csv field_optionally_enclosed_by = '\\"') on_error = continue"
    try:
        say(cursor.execute(f"copy into t from {query} {form}").fetchall()[0][1:4])
    except snowflake.connector.errors.ProgrammingError as error:
        say(error.errno, "ON_ERROR = CONTINUE with a query" in str(error))
say(cursor.execute("select * from t").fetchall())
try:
    cursor.execute("copy into t from @s on_error = 'skip_file_101%'")
except snowflake.connector.errors.ProgrammingError as error:
    say(error.errno)
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER)
def test_copy_of_a_query_continues_past_records_that_cannot_be_read(
    server: server_kit.Running, driver: str, tmp_path: Path
) -> None:
    said = drivers.run(
        driver,
        f"SCHEMA = 'n_{driver}_{uuid.uuid4().hex[:8]}'\nFOLDER = {str(tmp_path)!r}\n"
        + CONTINUE_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said[0] == [[True, "int:1", "int:1"]]
    assert said[1] == [["LOADED", "int:1", "int:1"]]
    assert said[2] == [["LOAD_FAILED", "int:1", "int:0"]]
    # Which rows of a query fail is not known, so the statement is refused and loads nothing.
    assert said[3] == said[4] == ["int:2", True]
    assert said[5] == [[["int:1", "q"], ["int:2", "X"]]]
    assert said[6] == ["int:1008"]


BULK_LINES = """
import pandas
from snowflake.connector.pandas_tools import write_pandas
connection = connect(database="lake")
cursor = connection.cursor()
cursor.execute(f"create schema {SCHEMA}")
cursor.execute("create table t (a int)")
rows = pandas.DataFrame({"A": range(4)})
try:
    say(write_pandas(connection, rows, "T", chunk_size=1, bulk_upload_chunks=True)[:3])
except Exception as error:
    say(type(error).__name__)
say(cursor.execute("select a from t order by a").fetchall())
say(write_pandas(connection, rows, "T", chunk_size=1)[:3])
cursor.execute(f"drop schema {SCHEMA}")
connection.close()
"""


@pytest.mark.parametrize("driver", drivers.NEWER_FIRST)
def test_chunks_that_are_uploaded_together_are_all_stored_or_refused(
    server: server_kit.Running, driver: str
) -> None:
    said = drivers.run(
        driver,
        f"SCHEMA = 'b_{driver}_{uuid.uuid4().hex[:8]}'\n" + BULK_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    if driver == drivers.PY5:
        assert said[0] == [[True, "int:4", "int:4"]]
        assert said[1] == [[[f"int:{number}"] for number in range(4)]]
    else:
        assert said[0] == ["KeyError"]  # it reads the refusal as an answer
        assert said[1] == [[]]
    assert said[2] == [[True, "int:4", "int:4"]]


POOL_LINES = """
import concurrent.futures
connection = connect(database="lake")
connection.cursor().execute(f"create user {NAME} password = 'a password'")
def log_in(number):
    one = connect(user=NAME, password="a password", login_timeout=60)
    name = one.cursor().execute("select current_user()").fetchone()[0]
    one.close()
    return name
with concurrent.futures.ThreadPoolExecutor(100) as pool:
    say(sorted(set(pool.map(log_in, range(100)))))
connection.cursor().execute(f"drop user {NAME}")
"""


def test_a_pool_of_a_hundred_connections_opens_at_once(server: server_kit.Running) -> None:
    name = f"pool_{uuid.uuid4().hex[:8]}"

    said = drivers.run(
        drivers.PY4,
        f"NAME = {name!r}\n" + POOL_LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said == [[[name.upper()]]]


def test_the_command_line_runs_a_query_against_the_running_server(
    server: server_kit.Running,
) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "mini.py", "sql", "--data", str(server.data), *arguments],
            cwd=server_kit.ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    good = run("select 1 as one, 'a' as word", "--format", "csv")
    assert (good.returncode, good.stdout) == (0, "ONE,WORD\n1,a\n"), good.stderr
    bad = run("selec 1")
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert bad.stderr.startswith("001003 (42000)")
    assert bad.stderr.count("\n") == 1


LARGE = """
connection = connect()
cursor = connection.cursor()
text = (
    "select row_number() over (order by seq8()) - 1 as n, n || '-' || repeat('x', n % 5) as t, "
    "(n - 50000)::number(38, 3) / 8 as d, n::float / 4 as f, iff(n % 7 = 0, null, n % 2 = 0) as b,"
    " dateadd(second, n, '2024-01-01'::timestamp_ntz) as at, "
    "dateadd(second, n, '2024-01-01 00:00:00 +01:00'::timestamp_tz) as z "
    "from table(generator(rowcount => 100000)) order by n"
)
frame = cursor.execute(text).fetch_pandas_all()
query_id = cursor.sfqid
n = frame["N"]
texts = n.astype(str) + "-" + (n % 5).map(lambda count: "x" * count)
say(len(frame), bool((n == range(100000)).all()), bool((frame["T"] == texts).all()),
    bool((frame["D"].astype(float) == (n - 50000) / 8).all()), bool((frame["F"] == n / 4).all()),
    int(frame["B"].isna().sum()), str(frame["AT"].iloc[-1]),
    str(frame["Z"].iloc[-1].tz_convert("UTC")))
rows = cursor.execute(text).fetchall()
say(len(rows), rows[0][:2], rows[77777][:2], rows[-1][:2])
scan = f"table(result_scan('{query_id}'))"
say(cursor.execute(f"select count(*), sum(n), count(b), max(at) from {scan}").fetchone())
cursor.execute("alter session set rows_per_resultset = 90001")
say(cursor.execute(text).fetchall() == rows[:90001])
"""


@pytest.mark.parametrize("driver", drivers.NEWER_FIRST)
def test_a_large_result_is_whole_and_in_order(server: server_kit.Running, driver: str) -> None:
    said = drivers.run(
        driver, LARGE, port=server.port, user=server.access_key, password=server.secret_key
    ).checked()

    nulls = len(range(0, 100_000, 7))
    counted, *checks = said[0]
    assert (counted, checks[:4]) == ("int:100000", [True] * 4)
    assert checks[4:] == [f"int:{nulls}", "2024-01-02 03:46:39", "2024-01-02 02:46:39+00:00"]
    assert said[1] == [
        "int:100000", ["int:0", "0-"], ["int:77777", "77777-xx"], ["int:99999", "99999-xxxx"]
    ]  # fmt: skip
    total = [f"int:{sum(range(100_000))}", f"int:{100_000 - nulls}"]
    assert said[2] == [["int:100000", *total, "datetime:2024-01-02 03:46:39"]]
    assert said[3] == [True]
