// Snowflake's driver for Go. HOST, PORT, KEY, SECRET, SCHEMA and FOLDER are in the environment; the
// exit code is 0 if every assertion holds.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"github.com/snowflakedb/gosnowflake"
)

const (
	many = 70_000
	slow = "select count(*) from big a, big b, big c where a.id + b.id = c.id + 1"
)

var (
	background = context.Background()
	database   *sql.DB
)

func main() {
	port, err := strconv.Atoi(os.Getenv("PORT"))
	check(err)
	dsn, err := gosnowflake.DSN(&gosnowflake.Config{
		Account: "boathouse", User: os.Getenv("KEY"), Password: os.Getenv("SECRET"),
		Host: os.Getenv("HOST"), Port: port, Protocol: "http",
		Database: "LAKE", Warehouse: "LOCAL",
	})
	check(err)
	database, err = sql.Open("snowflake", dsn)
	check(err)
	database.SetMaxOpenConns(1)
	check(gosnowflake.GetLogger().SetLogLevel("fatal"))
	execute("create schema lake." + os.Getenv("SCHEMA"))
	types()
	bindings()
	manyRows()
	transactions()
	severalResults()
	asynchronousQueries()
	refusalsAndTimeouts()
	stages()
	check(database.Close())
}

func types() {
	var (
		number, text, large string
		fraction, real      float64
		flag                bool
		local, instant      time.Time
		raw                 []byte
		nothing             sql.NullString
	)
	check(database.QueryRow("select 1, 12.50::number(10,2), 1.5::float, 'é', true,"+
		" '2024-02-29 01:02:03.456'::timestamp_ntz, '2024-02-29 01:02:03.456 +02:00'::timestamp_tz,"+
		" to_binary('cafe'), null, 12345678901234567890123456789012345678").Scan(
		&number, &fraction, &real, &text, &flag, &local, &instant, &raw, &nothing, &large))
	same("1 12.5 1.5 é true", fmt.Sprint(number, " ", fraction, " ", real, " ", text, " ", flag))
	same(time.Date(2024, 2, 29, 1, 2, 3, 456_000_000, time.UTC), local.UTC())
	same(int64(1709161323456), instant.UnixMilli())
	same([]byte{0xca, 0xfe}, raw)
	same(false, nothing.Valid)
	same("12345678901234567890123456789012345678", large)
}

func bindings() {
	execute("create table t (id int, name varchar, at timestamp_ntz, amount number(10,2), day date)")
	when := time.Date(2024, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	same(int64(1), changed("insert into t values (?, ?, ?, ?, ?)", 1, "ann",
		gosnowflake.DataTypeTimestampNtz, when, 10.5, gosnowflake.DataTypeDate, when))
	same(int64(1), changed("insert into t (id, name) values (?, ?)", 2, sql.NullString{}))
	ids, names := []int{3, 4, 5}, []string{"c", "d", "e"}
	same(int64(3), changed("insert into t (id, name) values (?, ?)",
		gosnowflake.Array(&ids), gosnowflake.Array(&names)))
	var (
		at, day time.Time
		amount  string
	)
	check(database.QueryRow("select at, amount, day from t where id = ?", 1).Scan(&at, &amount, &day))
	same(when, at.UTC())
	same("10.50", amount)
	same("2024-01-02", day.Format(time.DateOnly))
	prepared, err := database.Prepare("select id from t where id > ? order by id")
	check(err)
	same([]int{4, 5}, numbers(prepared.Query(3)))
	check(prepared.Close())
}

func manyRows() {
	execute("create table big (id int, s varchar)")
	ids, texts := make([]int, many), make([]string, many)
	for number := range ids {
		ids[number], texts[number] = number, "x"+strconv.Itoa(number)
	}
	same(int64(many), changed("insert into big values (?, ?)",
		gosnowflake.Array(&ids), gosnowflake.Array(&texts)))
	same(ids, numbers(database.Query("select id from big order by id")))
}

func transactions() {
	transaction, err := database.Begin()
	check(err)
	_, err = transaction.Exec("insert into t (id) values (77)")
	check(err)
	check(transaction.Rollback())
	transaction, err = database.Begin()
	check(err)
	_, err = transaction.Exec("insert into t (id) values (78)")
	check(err)
	check(transaction.Commit())
	same([]int{78}, numbers(database.Query("select id from t where id > 10")))
	same(int64(2), changed("update t set name = 'z' where id < 3"))
}

func severalResults() {
	several, err := gosnowflake.WithMultiStatement(background, 2)
	check(err)
	rows, err := database.QueryContext(several, "select 1; select 2")
	check(err)
	defer rows.Close()
	var results []int
	for is := true; is; is = rows.NextResultSet() {
		for rows.Next() {
			var number int
			check(rows.Scan(&number))
			results = append(results, number)
		}
	}
	check(rows.Err())
	same([]int{1, 2}, results)
}

func asynchronousQueries() {
	asynchronous := gosnowflake.WithAsyncMode(background)
	same([]int{42}, numbers(database.QueryContext(asynchronous, "select 42")))
	ids := make(chan string, 1)
	same([]int{5}, numbers(database.QueryContext(
		gosnowflake.WithQueryIDChan(background, ids), "select 5")))
	same([]int{5}, numbers(database.QueryContext(
		gosnowflake.WithFetchResultByID(background, <-ids), "")))
}

func refusalsAndTimeouts() {
	_, err := database.Query("select * from absent")
	var refusal *gosnowflake.SnowflakeError
	same(true, errors.As(err, &refusal))
	same("2003 42S02", fmt.Sprint(refusal.Number, " ", refusal.SQLState))
	short, cancel := context.WithTimeout(background, time.Second)
	defer cancel()
	_, err = database.QueryContext(short, slow)
	same(true, errors.Is(err, context.DeadlineExceeded))
}

func stages() {
	folder := os.Getenv("FOLDER")
	file, out := filepath.Join(folder, "f.csv"), filepath.Join(folder, "out")
	check(os.WriteFile(file, []byte("1,a\n2,b\n"), 0o600))
	check(os.Mkdir(out, 0o700))
	execute("create stage st")
	execute("put file://" + file + " @st")
	execute("create table staged (id int, s varchar)")
	execute("copy into staged from @st")
	same([]int{1, 2}, numbers(database.Query("select id from staged order by id")))
	execute("get @st file://" + out)
	_, err := os.Stat(filepath.Join(out, "f.csv.gz"))
	check(err)
}

func execute(text string) {
	_, err := database.Exec(text)
	check(err)
}

func changed(text string, arguments ...any) int64 {
	result, err := database.Exec(text, arguments...)
	check(err)
	rows, err := result.RowsAffected()
	check(err)
	return rows
}

func numbers(rows *sql.Rows, err error) []int {
	check(err)
	defer rows.Close()
	var values []int
	for rows.Next() {
		var value int
		check(rows.Scan(&value))
		values = append(values, value)
	}
	check(rows.Err())
	return values
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func same(expected, actual any) {
	if !reflect.DeepEqual(expected, actual) {
		panic(fmt.Sprintf("expected %v, got %v", expected, actual))
	}
}
