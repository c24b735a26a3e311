"""SQLAlchemy, in its own environment, against the process a user starts."""

from __future__ import annotations

import uuid

from tests.kit import server as server_kit
from tests.sql.rest import drivers

LINES = """
import sqlalchemy as sa
from sqlalchemy import orm
from snowflake.sqlalchemy import URL

def engine(schema):
    url = URL(account="test", user=USER, password=PASSWORD, host="127.0.0.1", port=PORT,
              database="lake", schema=schema)
    return sa.create_engine(url, connect_args={"protocol": "http"})

with engine("public").connect() as connection:
    connection.execute(sa.text(f"create schema lake.{SCHEMA}"))
lake = engine(SCHEMA)

metadata = sa.MetaData()
rows = sa.Table(
    "plain", metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.String(20), nullable=False, unique=True),
    sa.Column("at", sa.DateTime, server_default=sa.func.current_timestamp()),
    comment="a table",
)
metadata.create_all(lake)
metadata.create_all(lake)
with lake.begin() as connection:
    connection.execute(rows.insert(), [{"name": "a"}, {"name": "b"}])
    connection.execute(rows.insert().values(name="c"))
    say([list(row) for row in connection.execute(sa.select(rows.c.id, rows.c.name).order_by("id"))])

class Base(orm.DeclarativeBase):
    pass

class Parent(Base):
    __tablename__ = "parents"
    id = orm.mapped_column(sa.Integer, sa.Sequence("parents_id"), primary_key=True)
    name = orm.mapped_column(sa.String(50))
    children = orm.relationship("Child", back_populates="parent")

class Child(Base):
    __tablename__ = "children"
    id = orm.mapped_column(sa.Integer, primary_key=True)
    parent_id = orm.mapped_column(sa.ForeignKey("parents.id"))
    price = orm.mapped_column(sa.Numeric(10, 2), server_default=sa.text("0"))
    parent = orm.relationship(Parent, back_populates="children")

Base.metadata.create_all(lake)
with orm.Session(lake) as session:
    first = Parent(name="x", children=[Child(id=1, price=3)])
    session.add(first)
    session.flush()
    say(first.id)
    session.add(Parent(name="y"))
    session.commit()
with orm.Session(lake) as session:
    parent = session.scalars(sa.select(Parent).where(Parent.name == "x")).one()
    say([[child.id, child.price] for child in parent.children])
    parent.name = "z"
    session.delete(parent.children[0])
    session.commit()
    say(list(session.scalars(sa.select(Parent.name).order_by(Parent.id))),
        session.scalar(sa.select(sa.func.count()).select_from(Child)))

inspector = sa.inspect(lake)
say(sorted(inspector.get_table_names()), inspector.get_view_names(), inspector.get_sequence_names())
say([[column["name"], str(column["type"]), column["nullable"], column["autoincrement"]]
     for column in inspector.get_columns("plain")])
say(inspector.get_pk_constraint("plain")["constrained_columns"],
    inspector.get_unique_constraints("plain")[0]["column_names"],
    inspector.get_table_comment("plain"))
(foreign,) = inspector.get_foreign_keys("children")
say(foreign["constrained_columns"], foreign["referred_table"], foreign["referred_columns"])
reflected = sa.MetaData()
reflected.reflect(lake)
say(sorted(reflected.tables))
Base.metadata.drop_all(lake)
metadata.drop_all(lake)
say(sa.inspect(lake).get_table_names(), sa.inspect(lake).get_sequence_names())
"""


def test_tables_are_created_filled_reflected_and_dropped(server: server_kit.Running) -> None:
    said = drivers.run(
        "sqlalchemy",
        f"SCHEMA = 'sa_{uuid.uuid4().hex[:8]}'\n" + LINES,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    assert said == [
        [[["int:1", "a"], ["int:2", "b"], ["int:3", "c"]]],
        ["int:1"],
        [[["int:1", "Decimal:3.00"]]],
        [["z", "y"], "int:0"],
        [["children", "parents", "plain"], [], ["parents_id"]],
        [
            [
                ["id", "DECIMAL(38, 0)", False, True],
                ["name", "VARCHAR(20)", False, False],
                ["at", "TIMESTAMP_NTZ", True, False],
            ]
        ],
        [["id"], ["name"], {"text": "a table"}],
        [["parent_id"], "parents", ["id"]],
        [["children", "parents", "plain"]],
        [[], []],
    ]


BROWSING = """
import sqlalchemy as sa
from snowflake.sqlalchemy import URL

def engine_of(schema):
    url = URL(account="test", user=USER, password=PASSWORD, host="127.0.0.1", port=PORT,
              database="lake", schema=schema, warehouse="local")
    return sa.create_engine(url, connect_args={"protocol": "http"})

with engine_of("public").begin() as connection:
    for text in (
        f"create schema lake.{SCHEMA}",
        f'create schema lake."{SCHEMA} Mixed"',
        f"create table lake.{SCHEMA}.parents (id int primary key,"
        " name varchar(50) not null comment 'their name') comment = 'people'",
        f"create table lake.{SCHEMA}.children (id int, parent int references"
        f" lake.{SCHEMA}.parents (id), price number(10, 2) default 0, at timestamp_ntz,"
        " document variant, seen boolean, unique (price), primary key (id, parent))",
        f"create view lake.{SCHEMA}.prices comment = 'a view' as"
        f" select id, price from lake.{SCHEMA}.children",
        f'create table lake."{SCHEMA} Mixed"."My Table" ("Some Col" int, other varchar)',
        f"insert into lake.{SCHEMA}.children (id, parent, price, at) values"
        " (1, 1, 2.5, '2024-01-02 03:04:05'), (2, 1, 3.5, '2024-02-02 03:04:05')",
    ):
        connection.execute(sa.text(text))

engine = engine_of(SCHEMA)
inspector = sa.inspect(engine)
names = inspector.get_schema_names()
say(inspector.default_schema_name == SCHEMA, SCHEMA in names, f"{SCHEMA} Mixed" in names)
for schema in (SCHEMA, f"lake.{SCHEMA}", SCHEMA.upper(), f"{SCHEMA} Mixed"):
    say(inspector.get_table_names(schema=schema), inspector.get_view_names(schema=schema))
say([[column["name"], str(column["type"]), column["nullable"], column["comment"]]
     for column in inspector.get_columns("parents", schema=SCHEMA)])
say([[column["name"], str(column["type"]), column["default"]]
     for column in inspector.get_columns("children", schema=SCHEMA)])
say([column["name"] for column in inspector.get_columns("prices", schema=SCHEMA)])
say([column["name"] for column in inspector.get_columns("My Table", schema=f"{SCHEMA} Mixed")])
say(inspector.get_pk_constraint("children", schema=SCHEMA)["constrained_columns"],
    [key["column_names"] for key in inspector.get_unique_constraints("children", schema=SCHEMA)],
    [[key["constrained_columns"], key["referred_table"], key["referred_columns"]]
     for key in inspector.get_foreign_keys("children", schema=SCHEMA)],
    inspector.get_indexes("children", schema=SCHEMA))
say(inspector.get_table_comment("parents", schema=SCHEMA)["text"],
    inspector.get_table_comment("prices", schema=SCHEMA)["text"])
say("select id, price" in inspector.get_view_definition("prices", schema=SCHEMA))
say([inspector.has_table(name, schema=SCHEMA) for name in ("parents", "prices", "absent")])
for read in ("columns", "pk_constraint", "foreign_keys", "unique_constraints", "table_comment"):
    several = getattr(inspector, f"get_multi_{read}")(schema=SCHEMA)
    say(read, sorted({name for (_, name), value in several.items() if value}))

# A chart, as Superset writes it over a reflected table.
table = sa.Table("children", sa.MetaData(), schema=SCHEMA, autoload_with=engine)
month = sa.func.date_trunc(sa.text("'MONTH'"), table.c.at).label("__timestamp")
query = (sa.select(month, sa.func.sum(table.c.price).label("SUM(price)"))
         .where(table.c.at >= sa.text("TO_TIMESTAMP('2024-01-01T00:00:00.000000')"))
         .group_by(sa.text("1")).order_by(sa.desc("SUM(price)")).limit(10000))
with engine.connect() as connection:
    say([[str(moment), total] for moment, total in connection.execute(query)])
    say([list(row) for row in connection.execute(sa.select(sa.Table(
        "My Table", sa.MetaData(), schema=f"{SCHEMA} Mixed", autoload_with=engine)))])
"""


def test_a_bi_tool_browses_schemas_and_charts_a_reflected_table(
    server: server_kit.Running,
) -> None:
    schema = f"bi_{uuid.uuid4().hex[:8]}"
    said = drivers.run(
        "sqlalchemy",
        f"SCHEMA = {schema!r}\n" + BROWSING,
        port=server.port,
        user=server.access_key,
        password=server.secret_key,
    ).checked()

    tables, views = ["children", "parents"], ["prices"]
    assert said == [
        [True, True, True],
        [tables, views],
        [tables, views],
        [tables, views],
        [["My Table"], []],
        [
            [
                ["id", "DECIMAL(38, 0)", False, None],
                ["name", "VARCHAR(50)", False, "their name"],
            ]
        ],
        [
            [
                ["id", "DECIMAL(38, 0)", None],
                ["parent", "DECIMAL(38, 0)", None],
                ["price", "DECIMAL(10, 2)", "0.00"],
                ["at", "TIMESTAMP_NTZ", None],
                ["document", "VARIANT", None],
                ["seen", "BOOLEAN", None],
            ]
        ],
        [["id", "price"]],
        [["Some Col", "other"]],
        [["id", "parent"], [["price"]], [[["parent"], "parents", ["id"]]], []],
        ["people", "a view"],
        [True],
        [[True, True, False]],
        ["columns", ["children", "parents", "prices"]],
        ["pk_constraint", ["children", "parents"]],
        ["foreign_keys", ["children"]],
        ["unique_constraints", ["children"]],
        ["table_comment", ["children", "parents"]],
        [[["2024-02-01 00:00:00", "Decimal:3.50"], ["2024-01-01 00:00:00", "Decimal:2.50"]]],
        [[]],
    ]
