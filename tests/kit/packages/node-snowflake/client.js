// Snowflake's driver for Node.js. URL, KEY, SECRET, SCHEMA and FOLDER are in the environment; the
// exit code is 0 if every assertion holds.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const snowflake = require("snowflake-sdk");

const { URL: accessUrl, KEY, SECRET, SCHEMA, FOLDER } = process.env;
const MANY = 70_000;
const SLOW = "select count(*) from big a, big b, big c where a.id + b.id = c.id + 1";

snowflake.configure({ logLevel: "OFF" });
const where = { account: "boathouse", accessUrl };
const connection = snowflake.createConnection({
  ...where,
  username: KEY,
  password: SECRET,
  database: "LAKE",
  warehouse: "LOCAL",
});

function execute(sqlText, more = {}, on = connection) {
  return new Promise((resolve, reject) => {
    const complete = (error, statement, rows) =>
      error ? reject(error) : resolve({ statement, rows });
    on.execute({ sqlText, ...more, complete });
  });
}
const rowsOf = async (sqlText, more) => (await execute(sqlText, more)).rows;

function streamed(statement) {
  return new Promise((resolve, reject) => {
    const rows = [];
    statement
      .streamRows()
      .on("error", reject)
      .on("data", (row) => rows.push(row))
      .on("end", () => resolve(rows));
  });
}

async function main() {
  await new Promise((resolve, reject) =>
    connection.connect((error) => (error ? reject(error) : resolve())),
  );
  await execute(`create schema lake.${SCHEMA}`);

  const typed = await execute(
    `select 1 as i, 12.50::number(10,2) as d, 1.5::float as f, 'é' as t, true as b,
     '2024-02-29 01:02:03.456'::timestamp_ntz as n, to_binary('cafe') as x,
     parse_json('{"a":[1,2]}') as v, array_construct(1, 'x') as a, null as nothing`,
  );
  const [row] = typed.rows;
  assert.deepStrictEqual([row.I, row.D, row.F, row.T, row.B], [1, 12.5, 1.5, "é", true]);
  assert.strictEqual(row.N.getTime(), Date.UTC(2024, 1, 29, 1, 2, 3, 456));
  assert.strictEqual(row.X.toString("hex"), "cafe");
  assert.deepStrictEqual([row.V, row.A, row.NOTHING], [{ a: [1, 2] }, [1, "x"], null]);
  const described = typed.statement.getColumns()[1];
  assert.deepStrictEqual(
    [described.getType(), described.getPrecision(), described.getScale()],
    ["fixed", 10, 2],
  );

  await execute("create table t (id int, name varchar, at timestamp_ntz, amount number(10,2))");
  const insert = "insert into t values (?, ?, ?, ?)";
  const one = await execute(insert, { binds: [1, "ann", "2024-01-02 03:04:05", 10.5] });
  assert.strictEqual(one.statement.getNumUpdatedRows(), 1);
  const binds = [
    [2, "bob", null, 1],
    [3, "cid", "2024-01-01", 2.25],
  ];
  assert.strictEqual((await execute(insert, { binds })).statement.getNumUpdatedRows(), 2);
  assert.deepStrictEqual(
    (await rowsOf("select * from t where id = :1 or name = :2 order by id", { binds: [1, "cid"] }))
      .map((each) => [each.ID, each.NAME, each.AT.getTime(), each.AMOUNT]),
    [
      [1, "ann", Date.UTC(2024, 0, 2, 3, 4, 5), 10.5],
      [3, "cid", Date.UTC(2024, 0, 1), 2.25],
    ],
  );

  await execute("create table big (id int, s varchar)");
  const many = Array.from({ length: MANY }, (_, number) => [number, `x${number}`]);
  await execute("insert into big values (?, ?)", { binds: many });
  const all = await execute("select id, s from big order by id", { streamResult: true });
  assert.deepStrictEqual(
    (await streamed(all.statement)).map((each) => [each.ID, each.S]),
    many,
  );

  await execute("begin");
  await execute("insert into t (id) values (9)");
  await execute("rollback");
  const updated = await execute("update t set name = 'z' where id > 1");
  assert.strictEqual(updated.statement.getNumUpdatedRows(), 2);

  const parameters = { MULTI_STATEMENT_COUNT: 2 };
  const several = await execute("select 1 as a; select 2 as a", { parameters });
  assert.deepStrictEqual([several.rows, several.statement.hasNext()], [[{ A: 1 }], true]);

  const begun = await execute("select 42 as x", { asyncExec: true });
  const queryId = begun.statement.getQueryId();
  const ended = await connection.getResultsFromQueryId({ queryId });
  assert.deepStrictEqual(await streamed(ended), [{ X: 42 }]);
  assert.strictEqual(await connection.getQueryStatus(queryId), "SUCCESS");

  await assert.rejects(execute("select * from absent"), { code: "002003", sqlState: "42S02" });
  const cancelled = new Promise((resolve) => {
    const statement = connection.execute({ sqlText: SLOW, complete: resolve });
    setTimeout(() => statement.cancel(() => {}), 1_000);
  });
  assert.strictEqual((await cancelled).sqlState, "57014");

  const file = path.join(FOLDER, "f.csv");
  fs.writeFileSync(file, "1,a\n2,b\n");
  await execute("create stage st");
  assert.strictEqual((await rowsOf(`put file://${file} @st`))[0].status, "UPLOADED");
  await execute("create table staged (id int, s varchar)");
  assert.strictEqual((await rowsOf("copy into staged from @st"))[0].rows_loaded, 2);
  const out = path.join(FOLDER, "out");
  fs.mkdirSync(out);
  await execute(`get @st file://${out}`);
  assert.deepStrictEqual(fs.readdirSync(out), ["f.csv.gz"]);

  const again = snowflake.deserializeConnection(where, connection.serialize());
  assert.deepStrictEqual((await execute("select 7 as x", {}, again)).rows, [{ X: 7 }]);
  assert.strictEqual(await connection.isValidAsync(), true);
  await new Promise((resolve) => connection.destroy(resolve));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
