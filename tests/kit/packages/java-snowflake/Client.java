// Snowflake's JDBC driver, as programs and BI tools in Java use it. HOST, PORT, KEY, SECRET and
// FOLDER are in the environment; the exit code is 0 if every assertion holds.

import java.io.ByteArrayInputStream;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import net.snowflake.client.api.connection.SnowflakeConnection;
import net.snowflake.client.api.connection.UploadStreamConfig;
import net.snowflake.client.api.statement.SnowflakeStatement;

public class Client {
    static final String SLOW =
        "select count(*) from big a, big b, big c where a.id + b.id = c.id + 1";
    static final int MANY = 70_000;

    static Connection connection;
    static Statement statement;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("user", System.getenv("KEY"));
        properties.put("password", System.getenv("SECRET"));
        properties.put("account", "boathouse");
        properties.put("ssl", "off");
        properties.put("db", "LAKE");
        properties.put("warehouse", "LOCAL");
        String url = "jdbc:snowflake://" + System.getenv("HOST") + ":" + System.getenv("PORT") + "/";
        connection = DriverManager.getConnection(url, properties);
        statement = connection.createStatement();
        statement.execute("create schema lake." + System.getenv("SCHEMA"));
        types();
        preparedStatements();
        manyRows();
        metadata();
        transactions();
        severalStatements();
        asynchronousQueries();
        refusalsTimeoutsAndCancels();
        stages();
        same(true, connection.isValid(5));
        same("LAKE", connection.getCatalog());
        connection.close();
        same(true, connection.isClosed());
    }

    static void types() throws SQLException {
        ResultSet rows = statement.executeQuery(
            "select 1 as i, 12.50::number(10,2) as d, 1.5::float as f, 'é' as t, true as b,"
                + " '2024-02-29'::date as dt, '2024-02-29 01:02:03.456'::timestamp_ntz as n,"
                + " '2024-02-29 01:02:03.456 +02:00'::timestamp_tz as z, to_binary('cafe') as x,"
                + " parse_json('{\"a\":[1,2]}') as v, null as nothing,"
                + " 12345678901234567890123456789012345678 as big");
        ResultSetMetaData described = rows.getMetaData();
        List<String> names = new ArrayList<>();
        for (int column = 1; column <= described.getColumnCount(); column++)
            names.add(described.getColumnTypeName(column));
        same(
            List.of(
                "NUMBER", "NUMBER", "DOUBLE", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMPNTZ",
                "TIMESTAMPTZ", "BINARY", "VARIANT", "VARCHAR", "NUMBER"),
            names);
        same(10, described.getPrecision(2));
        same(2, described.getScale(2));
        same(true, rows.next());
        same(1L, rows.getObject("I"));
        same(new BigDecimal("12.50"), rows.getObject("D"));
        same(1.5, rows.getObject("F"));
        same("é", rows.getObject("T"));
        same(true, rows.getObject("B"));
        same(Date.valueOf("2024-02-29"), rows.getObject("DT"));
        same(Timestamp.valueOf("2024-02-29 01:02:03.456"), rows.getObject("N"));
        same(1709161323456L, rows.getTimestamp("Z").getTime());
        same("cafe", HexFormat.of().formatHex(rows.getBytes("X")));
        same("{\"a\":[1,2]}", rows.getString("V").replaceAll("\\s", ""));
        same(null, rows.getObject("NOTHING"));
        same(new BigDecimal("12345678901234567890123456789012345678"), rows.getObject("BIG"));
        same(false, rows.next());
    }

    static void preparedStatements() throws SQLException {
        statement.executeUpdate(
            "create table t (id int primary key, name varchar(20) not null,"
                + " amount number(12,2) comment 'money', at timestamp_ntz, ok boolean, raw binary,"
                + " day date)");
        PreparedStatement insert =
            connection.prepareStatement("insert into t values (?, ?, ?, ?, ?, ?, ?)");
        insert.setInt(1, 1);
        insert.setString(2, "ann");
        insert.setBigDecimal(3, new BigDecimal("10.50"));
        insert.setTimestamp(4, Timestamp.valueOf("2024-01-02 03:04:05.678"));
        insert.setBoolean(5, true);
        insert.setBytes(6, new byte[] {1, 2});
        insert.setDate(7, Date.valueOf("2024-01-02"));
        same(1, insert.executeUpdate());
        insert.setInt(1, 2);
        insert.setString(2, "bob");
        insert.setNull(3, Types.DECIMAL);
        insert.setNull(4, Types.TIMESTAMP);
        insert.setNull(5, Types.BOOLEAN);
        insert.setNull(6, Types.BINARY);
        insert.setNull(7, Types.DATE);
        same(1, insert.executeUpdate());
        PreparedStatement select =
            connection.prepareStatement("select * from t where id = ? or name = ? order by id");
        same(2, select.getParameterMetaData().getParameterCount());
        same(7, select.getMetaData().getColumnCount());
        select.setLong(1, 1);
        select.setString(2, "bob");
        ResultSet rows = select.executeQuery();
        same(true, rows.next());
        same(1L, rows.getObject(1));
        same("ann", rows.getObject(2));
        same(new BigDecimal("10.50"), rows.getObject(3));
        same(Timestamp.valueOf("2024-01-02 03:04:05.678"), rows.getObject(4));
        same(true, rows.getObject(5));
        same("0102", HexFormat.of().formatHex(rows.getBytes(6)));
        same(Date.valueOf("2024-01-02"), rows.getObject(7));
        same(true, rows.next());
        for (int column = 3; column <= 7; column++) same(null, rows.getObject(column));
        same(false, rows.next());
    }

    static void manyRows() throws SQLException {
        statement.execute("create table big (id int, s varchar)");
        PreparedStatement insert = connection.prepareStatement("insert into big values (?, ?)");
        for (int number = 0; number < MANY; number++) {
            insert.setInt(1, number);
            insert.setString(2, "x" + number);
            insert.addBatch();
        }
        same((long) MANY, Arrays.stream(insert.executeBatch()).asLongStream().sum());
        ResultSet rows = statement.executeQuery("select id, s from big order by id");
        long number = 0;
        while (rows.next()) {
            same(number, rows.getLong(1));
            same("x" + number, rows.getString(2));
            number++;
        }
        same((long) MANY, number);
    }

    static void metadata() throws SQLException {
        String schema = System.getenv("SCHEMA").toUpperCase();
        DatabaseMetaData metadata = connection.getMetaData();
        same("Snowflake", metadata.getDatabaseProductName());
        same(true, column(metadata.getCatalogs(), "TABLE_CAT").contains("LAKE"));
        same(true, column(metadata.getSchemas("LAKE", null), "TABLE_SCHEM").contains(schema));
        statement.execute("create view v as select id from t");
        String[] tables = {"TABLE"};
        same(List.of("BIG", "T"), column(metadata.getTables("LAKE", schema, "%", tables), "TABLE_NAME"));
        String[] views = {"VIEW"};
        same(List.of("V"), column(metadata.getTables("LAKE", schema, "%", views), "TABLE_NAME"));
        List<String> columns = column(metadata.getColumns("LAKE", schema, "T", "%"), "COLUMN_NAME");
        same(List.of("ID", "NAME", "AMOUNT", "AT", "OK", "RAW", "DAY"), columns);
        ResultSet amount = metadata.getColumns("LAKE", schema, "T", "AMOUNT");
        same(true, amount.next());
        same(12, amount.getInt("COLUMN_SIZE"));
        same(2, amount.getInt("DECIMAL_DIGITS"));
        same("money", amount.getString("REMARKS"));
        same("YES", amount.getString("IS_NULLABLE"));
        same(List.of("ID"), column(metadata.getPrimaryKeys("LAKE", schema, "T"), "COLUMN_NAME"));
        same(List.of(), column(metadata.getImportedKeys("LAKE", schema, "T"), "FK_NAME"));
    }

    static void transactions() throws SQLException {
        connection.setAutoCommit(false);
        same(1, statement.executeUpdate("insert into t (id, name) values (100, 'x')"));
        connection.rollback();
        same(1, statement.executeUpdate("insert into t (id, name) values (101, 'y')"));
        connection.commit();
        connection.setAutoCommit(true);
        same(List.of("101"), column(statement.executeQuery("select id from t where id > 99"), "ID"));
        same(2, statement.executeUpdate("update t set amount = 1 where id < 3"));
        same(1, statement.executeUpdate("delete from t where id = 101"));
    }

    static void severalStatements() throws SQLException {
        Statement several = connection.createStatement();
        several.unwrap(SnowflakeStatement.class).setParameter("MULTI_STATEMENT_COUNT", 2);
        same(true, several.execute("select 1 as a; select 2 as a"));
        same(List.of("1"), column(several.getResultSet(), "A"));
        same(true, several.getMoreResults());
        same(List.of("2"), column(several.getResultSet(), "A"));
    }

    static void asynchronousQueries() throws SQLException {
        SnowflakeStatement asynchronous =
            connection.createStatement().unwrap(SnowflakeStatement.class);
        same(List.of("42"), column(asynchronous.executeAsyncQuery("select 42 as x"), "X"));
        ResultSet again =
            connection.unwrap(SnowflakeConnection.class).createResultSet(asynchronous.getQueryID());
        same(List.of("42"), column(again, "X"));
    }

    static void refusalsTimeoutsAndCancels() throws Exception {
        SQLException refusal = refused(() -> statement.executeQuery("select * from absent"));
        same(2003, refusal.getErrorCode());
        same("42S02", refusal.getSQLState());
        Statement slow = connection.createStatement();
        slow.setQueryTimeout(1);
        same("57014", refused(() -> slow.executeQuery(SLOW)).getSQLState());
        Statement cancelled = connection.createStatement();
        Thread canceller = new Thread(() -> {
            try {
                Thread.sleep(1_000);
                cancelled.cancel();
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        canceller.start();
        same("57014", refused(() -> cancelled.executeQuery(SLOW)).getSQLState());
        canceller.join();
    }

    static void stages() throws Exception {
        Path folder = Path.of(System.getenv("FOLDER"));
        Path file = Files.writeString(folder.resolve("f.csv"), "1,a\n2,b\n");
        statement.execute("create stage st");
        same(List.of("UPLOADED"), column(statement.executeQuery("put file://" + file + " @st"), "status"));
        connection.unwrap(SnowflakeConnection.class).uploadStream(
            "st", "g.csv", new ByteArrayInputStream("3,c\n".getBytes()),
            UploadStreamConfig.builder().build());
        statement.execute("create table staged (id int, s varchar)");
        same(2, column(statement.executeQuery("copy into staged from @st"), "file").size());
        ResultSet ids = statement.executeQuery("select id from staged order by id");
        same(List.of("1", "2", "3"), column(ids, "ID"));
        Path out = Files.createDirectory(folder.resolve("out"));
        same(2, column(statement.executeQuery("get @st file://" + out), "file").size());
        same(true, Files.exists(out.resolve("f.csv.gz")));
    }

    interface Work {
        void run() throws SQLException;
    }

    static SQLException refused(Work work) {
        try {
            work.run();
        } catch (SQLException refusal) {
            return refusal;
        }
        throw new AssertionError("not refused");
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(name));
        return values;
    }

    static void same(Object expected, Object actual) {
        boolean isSame = expected == null ? actual == null : expected.equals(actual);
        if (!isSame) throw new AssertionError("expected " + expected + ", got " + actual);
    }
}
