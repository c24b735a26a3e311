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
