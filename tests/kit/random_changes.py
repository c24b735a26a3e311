"""Random statements that change tables, each as two texts: for Boathouse's dialect and for DuckDB.

Three tables have columns of random types, and an `id` that names a row. The statements are INSERT,
also of several tables, UPDATE, DELETE, MERGE, TRUNCATE, ALTER TABLE, CREATE OR REPLACE TABLE as a
query or a clone, SWAP, DROP and UNDROP. No target row matches two rows of a source, and new ids
come from a counter, so that one right answer exists.

DuckDB has no TIMESTAMP_TZ with offsets and no VARIANT: there a column of these is the text that
Boathouse shows, and no expression computes with it but `v:k`.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import Final

TIME_FORMAT: Final = "YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM"


@dataclass(frozen=True, kw_only=True)
class Type:
    """A type of both dialects, and literals of it as pairs of texts.

    shown: how a query shows a column in the form in which DuckDB has it. is_key: whether equal
    values of both engines are the same rows. wider: the types that ALTER may change it to.
    """

    name: str
    ours: str
    theirs: str
    literals: tuple[tuple[str, str], ...]
    shown: str = "{}"
    is_key: bool = True
    wider: str = ""


def _plain(*texts: str) -> tuple[tuple[str, str], ...]:
    return tuple((text, text) for text in texts)


def _cast(ours: str, theirs: str, *texts: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{text}::{ours}", f"cast({text} as {theirs})") for text in texts)


OBJECTS: Final = ('{"k":1,"s":"x"}', '{"k":-7}', '{"a":[1,null,{"b":true}]}', "[1,2]", '"t"', "{}")
ZONED: Final = (
    "2024-02-29 12:34:56.789012 +00:00",
    "2024-02-29 14:34:56.789012 +02:00",
    "1969-12-31 23:59:59.999999 -05:30",
    "2023-01-31 00:00:00.000000 +00:00",
)

TYPES: Final = {
    each.name: each
    for each in (
        Type(
            name="n5",
            ours="number(5)",
            theirs="decimal(5, 0)",
            literals=_plain("0", "1", "-1", "2", "3", "99999", "-99999"),
            wider="n12",
        ),
        Type(
            name="n12",
            ours="number(12)",
            theirs="decimal(12, 0)",
            literals=_plain("0", "1", "2", "3", "999999999999", "-2147483649"),
            wider="n12",
        ),
        Type(
            name="m",
            ours="number(12, 2)",
            theirs="decimal(12, 2)",
            literals=_plain("0.00", "0.01", "-0.50", "2.50", "9999999999.99", "3"),
            wider="m20",
        ),
        Type(
            name="m20",
            ours="number(20, 2)",
            theirs="decimal(20, 2)",
            literals=_plain("0.00", "0.01", "-0.50", "2.50", "999999999999999999.99", "3"),
        ),
        Type(
            name="w",
            ours="number(38)",
            theirs="decimal(38, 0)",
            literals=_plain("0", "1", "9223372036854775808", "9" * 38, "-" + "9" * 38),
        ),
        Type(
            name="f",
            ours="float",
            theirs="double",
            literals=_cast("float", "double", "'0'", "'1.5'", "'-1e300'", "'NaN'", "'inf'"),
        ),
        Type(
            name="s",
            ours="varchar",
            theirs="varchar",
            literals=_plain("''", "'a'", "'A'", "'abc'", "'é'", "'日本語'", "' a '", "'😀'"),
        ),
        Type(name="b", ours="boolean", theirs="boolean", literals=_plain("true", "false")),
        Type(
            name="d",
            ours="date",
            theirs="date",
            literals=_cast(
                "date", "date", "'0001-01-01'", "'9999-12-31'", "'2024-02-29'", "'1969-12-31'"
            ),
        ),
        Type(
            name="t",
            ours="timestamp_ntz(6)",
            theirs="timestamp",
            literals=_cast(
                "timestamp_ntz(6)",
                "timestamp",
                "'2024-02-29 12:34:56.789012'",
                "'1969-12-31 23:59:59.999999'",
                "'0001-01-01 00:00:00'",
                "'9999-12-31 23:59:59.999999'",
            ),
        ),
        Type(
            name="h",
            ours="time(6)",
            theirs="time",
            literals=_cast("time(6)", "time", "'00:00:00'", "'23:59:59.999999'", "'12:30:00.5'"),
        ),
        Type(
            name="x",
            ours="binary",
            theirs="blob",
            literals=tuple(
                (f"to_binary('{each}', 'hex')", f"from_hex('{each}')")
                for each in ("", "00", "FF00", "61")
            ),
        ),
        Type(
            name="z",
            ours="timestamp_tz(6)",
            theirs="varchar",
            literals=tuple((f"'{each}'::timestamp_tz(6)", f"'{each}'") for each in ZONED),
            shown=f"to_varchar({{}}, '{TIME_FORMAT}')",
            is_key=False,
        ),
        Type(
            name="v",
            ours="variant",
            theirs="varchar",
            literals=tuple((f"parse_json('{each}')", f"'{each}'") for each in OBJECTS),
            shown="to_json({})",
            is_key=False,
        ),
    )
}
ID: Final = Type(name="id", ours="number(9)", theirs="decimal(9, 0)", literals=_plain("1", "5"))
NAMES: Final = ("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7")
"""Few, so that a column that is dropped comes again with another type."""

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
ROWS_MAX: Final = 400
"""A table with more is emptied."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table. default: a pair of literals."""

    name: str
    type: Type
    is_required: bool = False
    default: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: the columns beside `id`, in order."""

    name: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)

    def definition(self, *, is_ours: bool) -> str:
        parts = ["id number(9) not null" if is_ours else "id decimal(9, 0) not null"]
        for each in self.columns:
            text = f"{each.name} {each.type.ours if is_ours else each.type.theirs}"
            if each.default is not None:
                text += f" default {each.default[0 if is_ours else 1]}"
            parts.append(text + (" not null" if each.is_required else ""))
        return ", ".join(parts)

    def names(self) -> str:
        return ", ".join(("id", *(each.name for each in self.columns)))

    def shown(self, *, is_ours: bool) -> str:
        """The list of a SELECT that shows all columns as DuckDB has them."""
        if not is_ours:
            return self.names()
        return ", ".join(("id", *(each.type.shown.format(each.name) for each in self.columns)))


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An expression in both dialects."""

    ours: str
    theirs: str

    def within(self, template: str) -> Pair:
        return Pair(ours=template.format(self.ours), theirs=template.format(self.theirs))


def joined(template: str, *parts: Pair) -> Pair:
    """Return a template with {0}, {1} filled in both dialects."""
    return Pair(
        ours=template.format(*(part.ours for part in parts)),
        theirs=template.format(*(part.theirs for part in parts)),
    )


@dataclass(frozen=True, kw_only=True)
class Step:
    """A statement. theirs: what DuckDB runs for it, all or nothing.

    tables: the changed tables as they are after it. is_change: whether a transaction may hold it.
    """

    ours: str
    theirs: tuple[str, ...]
    tables: tuple[Table, ...]
    is_change: bool = True


@dataclass(kw_only=True)
class Generator:
    """Draws steps over `tables`, which the caller updates. Mutable: it counts ids."""

    rng: random.Random
    tables: dict[str, Table] = field(default_factory=dict)
    next_id: int = 1

    # Definitions

    def table(self, name: str) -> Table:
        """Return a new table."""
        names = self.rng.sample(NAMES, self.rng.randint(2, 6))
        return Table(name=name, columns=tuple(self._column(each) for each in names))

    def creation(self, table: Table) -> tuple[str, str]:
        """Return CREATE OR REPLACE TABLE in both dialects."""
        keys = [each.name for each in table.columns if each.type.name not in "fvxzb"]
        layout = self.rng.choice(("", "", " cluster by ({0}, id)", " partition by ({0})"))
        if not keys or self.rng.random() < 0.2:
            layout = self.rng.choice(("", " partition by (bucket(3, id))"))
        layout = layout.format(self.rng.choice(keys) if keys else "id")
        return (
            f"create or replace table {table.name} ({table.definition(is_ours=True)}){layout}",
            f"create or replace table {table.name} ({table.definition(is_ours=False)})",
        )

    def _column(self, name: str) -> Column:
        column_type = self.rng.choice(tuple(TYPES.values()))
        default = None
        if column_type.name not in "vzxf" and self.rng.random() < 0.25:
            default = self.rng.choice(column_type.literals)
        return Column(
            name=name, type=column_type, is_required=self.rng.random() < 0.15, default=default
        )

    # Expressions

    def _literal(self, column_type: Type, *, nulls: float = 0.15) -> Pair:
        if self.rng.random() < nulls:
            return Pair(
                ours=f"null::{column_type.ours}", theirs=f"cast(null as {column_type.theirs})"
            )
        ours, theirs = self.rng.choice(column_type.literals)
        return Pair(ours=ours, theirs=theirs)

    def _same(self, text: str) -> Pair:
        return Pair(ours=text, theirs=text)

    def _value(self, column_type: Type, scope: dict[str, Table], *, depth: int = 2) -> Pair:
        """Return an expression of a type over the columns of scope, which is by alias."""
        leaves = [
            f"{alias}.{each.name}"
            for alias, table in scope.items()
            for each in table.columns
            if each.type == column_type
        ]
        if column_type == ID:
            leaves = [f"{alias}.id" for alias in scope]
        if depth <= 0 or self.rng.random() < 0.3:
            if leaves and self.rng.random() < 0.7:
                return self._same(self.rng.choice(leaves))
            return self._literal(column_type)
        choice = self.rng.randrange(6)
        one = self._value(column_type, scope, depth=depth - 1)
        if choice == 0:
            other = self._value(column_type, scope, depth=depth - 1)
            condition = self.condition(scope, depth=0)
            return joined("(case when {2} then {0} else {1} end)", one, other, condition)
        if choice == 1:
            return joined("coalesce({0}, {1})", one, self._literal(column_type))
        if choice == 2 and column_type.is_key:
            return joined("nullif({0}, {1})", one, self._literal(column_type, nulls=0))
        return self._computed(column_type, one, scope)

    def _computed(self, column_type: Type, one: Pair, scope: dict[str, Table]) -> Pair:
        rng = self.rng
        match column_type.name:
            case "n5" | "n12" | "m" | "m20" | "w" | "id":
                if rng.random() < 0.2 and column_type.name != "id":
                    objects = [
                        f"{alias}.{each.name}"
                        for alias, table in scope.items()
                        for each in table.columns
                        if each.type.name == "v"
                    ]
                    if objects:
                        name = rng.choice(objects)
                        path = f"json_extract({name}, '$.k')"
                        return Pair(
                            ours=f"{name}:k::{column_type.ours}",
                            theirs=f"cast({path} as {column_type.theirs})",
                        )
                inner = joined("(mod({0}, 100) + 7)", one)
                return Pair(
                    ours=f"{inner.ours}::{column_type.ours}",
                    theirs=f"cast({inner.theirs} as {column_type.theirs})",
                )
            case "f":
                return joined(rng.choice(("abs({0})", "(- {0})")), one)
            case "s":
                return joined(
                    rng.choice(("left({0} || 'z', 6)", "upper({0})", "(left({0}, 4) || {0})")), one
                ).within("left({}, 8)")
            case "b":
                return rng.choice((joined("(not {0})", one), self.condition(scope, depth=0)))
            case "d":
                return Pair(
                    ours=f"least(greatest({one.ours}, '1000-01-01'::date), '3000-01-01'::date) + 1",
                    theirs=f"(case when {one.theirs} is null then null else least(greatest("
                    f"{one.theirs}, date '1000-01-01'), date '3000-01-01') end + 1)",
                )
            case "t":
                return joined("date_trunc('day', {0})", one)
            case "h":
                return Pair(
                    ours=f"dateadd('minute', 45, {one.ours})",
                    theirs=f"({one.theirs} + interval 45 minute)",
                )
        return one

    def condition(
        self, scope: dict[str, Table], *, depth: int = 2, subqueries: bool = False
    ) -> Pair:
        """Return a condition over the columns of scope."""
        rng = self.rng
        if depth > 0 and rng.random() < 0.45:
            parts = (
                self.condition(scope, depth=depth - 1, subqueries=subqueries),
                self.condition(scope, depth=depth - 1),
            )
            return joined(
                rng.choice(("({0} and {1})", "({0} or {1})", "(not ({0} and {1}))")), *parts
            )
        alias, table = rng.choice(tuple(scope.items()))
        columns = [(f"{alias}.id", ID), (f"{alias}.id", ID)]
        columns += [(f"{alias}.{each.name}", each.type) for each in table.columns]
        name, column_type = rng.choice(columns)
        column = self._same(name)
        if subqueries and rng.random() < 0.3 and column_type.is_key:
            text = self._subquery(column, column_type)
            if text is not None:
                return text
        if not column_type.is_key or rng.random() < 0.15:
            return joined(rng.choice(("({0} is null)", "({0} is not null)")), column)
        if column_type == ID:
            first = rng.randint(0, self.next_id)
            choices = (f"{{0}} >= {first}", f"{{0}} < {first}", f"mod({{0}}, 3) = {first % 3}")
            return joined(f"({rng.choice(choices)})", column)
        choice = rng.randrange(5)
        if choice == 0:
            literals = [self._literal(column_type, nulls=0.05) for _ in range(3)]
            word = rng.choice(("in", "not in"))
            return joined(f"({{0}} {word} ({{1}}, {{2}}, {{3}}))", column, *literals)
        if choice == 1:
            bounds = [self._literal(column_type, nulls=0.02) for _ in range(2)]
            return joined("({0} between {1} and {2})", column, *bounds)
        if choice == 2:
            return joined(
                f"({{0}} {rng.choice(COMPARISONS)} {{1}})",
                column,
                self._value(column_type, scope, depth=1),
            )
        return joined(
            f"({{0}} {rng.choice(COMPARISONS)} {{1}})", column, self._literal(column_type, nulls=0)
        )

    def _subquery(self, column: Pair, column_type: Type) -> Pair | None:
        other = self._any()
        keys = [each.name for each in other.columns if each.type == column_type]
        if column_type == ID:
            keys = ["id"]
        if not keys:
            return None
        rng, key = self.rng, self.rng.choice(keys)
        inner = self.condition({"q": other}, depth=0)
        text = rng.choice(
            (
                f"({{0}} in (select q.{key} from {other.name} q where {{1}}))",
                f"({{0}} not in (select q.{key} from {other.name} q where {{1}}"
                f" and q.{key} is not null))",
                f"(exists (select 1 from {other.name} q where q.{key} = {{0}} and {{1}}))",
                f"(not exists (select 1 from {other.name} q where q.{key} = {{0}} and {{1}}))",
                f"({{0}} >= (select min(q.{key}) from {other.name} q where {{1}}))",
                f"((select count(*) from {other.name} q where q.{key} = {{0}} and {{1}}) > 0)",
            )
        )
        return joined(text, column, inner)

    def _any(self) -> Table:
        return self.rng.choice(tuple(self.tables.values()))

    def _other(self, table: Table) -> Table:
        return self.rng.choice([each for each in self.tables.values() if each != table])

    def reserved(self, count: int) -> int:
        """Return the first of count ids that no row has."""
        first = self.next_id
        self.next_id += count
        return first

    # Queries

    def question(self, table: Table, suffix: Pair) -> Pair:
        """Return a query of a table, and of others. suffix: a WHERE of the table's columns."""
        keys = [each for each in table.columns if each.type.is_key]
        forms = [self._joined_query, self._united_query, self._flattened_query]
        if keys:
            forms += [self._window_query, self._ordered_query, self._distinct_query]
            forms += [self._pivot_query, self._unpivot_query, self._window_query]
        return self.rng.choice(forms)(table, suffix)

    def _key(self, table: Table) -> str:
        keys = [each.name for each in table.columns if each.type.is_key]
        return self.rng.choice([*keys, "id"])

    def _window_query(self, table: Table, suffix: Pair) -> Pair:
        rng = self.rng
        partition = rng.choice(("", f"partition by {self._key(table)} "))
        key = self._key(table)
        place = rng.choice(
            (f"order by {key}, id", f"order by {key} desc nulls last, id desc", "order by id")
        )
        frame = rng.choice(
            (
                "",
                " rows between 2 preceding and 1 following",
                " rows between unbounded preceding and unbounded following",
                " rows between 3 preceding and 1 preceding",
            )
        )
        number = rng.choice(("row_number()", "dense_rank()", f"lag({key}, 2)", f"lead({key})"))
        framed = rng.choice(("sum(id)", "count(*)", f"count({key})", f"last_value({key})"))
        if not frame and framed.startswith("last"):
            # Without a frame Snowflake takes all of the partition.
            framed = "min(id)"
        theirs = place.replace(f"{key}, id", f"{key} nulls last, id")
        qualify = rng.choice(("", " qualify a < 4", " qualify b is not null", " qualify a = b"))
        if not number.endswith("()") or not framed.startswith(("sum", "count")):
            qualify = qualify if "null" in qualify else ""
        head = f"select id, {number} over ({partition}{{}}) as a"
        head += f", {framed} over ({partition}{{}}{frame}) as b"
        return Pair(
            ours=f"{head.format(place, place)} from {table.name}{suffix.ours}{qualify}",
            theirs=f"{head.format(theirs, theirs)} from {table.name}{suffix.theirs}{qualify}",
        )

    def _ordered_query(self, table: Table, suffix: Pair) -> Pair:
        rng, key = self.rng, self._key(table)
        nulls = rng.choice(("nulls first", "nulls last"))
        word = rng.choice(("asc", "desc"))
        tail = f" order by {key} {word} {nulls}, id limit {rng.choice((1, 3, 9))}"
        tail += rng.choice(("", " offset 2"))
        return joined("{0}", suffix).within(f"select id from {table.name}{{}}{tail}")

    def _distinct_query(self, table: Table, suffix: Pair) -> Pair:
        one, other = self._key(table), self._key(table)
        text = self.rng.choice(
            (
                f"select count(distinct {one}), count(distinct {other}), count({one})",
                f"select distinct {one}, {other}",
                f"select min({one}), max({other}), min(id), max({one})"
                if not {table_type(table, each) for each in (one, other)} & set("bxf")
                else "select min(id), max(id)",
            )
        )
        return suffix.within(f"{text} from {table.name}{{}}")

    def _joined_query(self, table: Table, suffix: Pair) -> Pair:
        other = self._any()
        mine, theirs = self._keys(table, other)
        word = self.rng.choice(("join", "left join", "right join", "full join"))
        if word in ("right join", "full join"):
            suffix = Pair(ours="", theirs="")
        text = (
            f"select p.id, q.id from (select * from {table.name}{{}}) p {word} {other.name} q"
            f" on p.{mine} = q.{theirs}"
        )
        return suffix.within(text)

    def _united_query(self, table: Table, suffix: Pair) -> Pair:
        other = self._any()
        mine, theirs = self._keys(table, other)
        word = self.rng.choice(("union all", "union", "intersect", "except"))
        text = f"select {mine} from {table.name}{{}} {word} select {theirs} from {other.name}"
        return suffix.within(text)

    def _flattened_query(self, table: Table, suffix: Pair) -> Pair:
        names = [each.name for each in table.columns if each.type.name == "v"]
        if not names:
            return suffix.within(f"select count(*) from {table.name}{{}}")
        name = self.rng.choice(names)
        return Pair(
            ours=f"select id, f.key, to_json(f.value) from (select * from {table.name}"
            f"{suffix.ours}) t, lateral flatten(t.{name}, mode => 'object') f",
            theirs=f"select id, f.key, f.value from (select * from {table.name}{suffix.theirs}) t,"
            f" lateral (select unnest(json_keys({name})) as key) k,"
            f" lateral (select k.key as key, json_extract({name}, '$.' || k.key)::varchar as value)"
            f" f where json_type({name}) = 'OBJECT'",
        )

    def _pivot_query(self, table: Table, suffix: Pair) -> Pair:
        column = self.rng.choice([each for each in table.columns if each.type.is_key])
        # A pivot compares with each value: NaN and -0.0 stay out.
        values = [each for each in column.type.literals if column.type.name != "f"][:3]
        if not values:
            return suffix.within(f"select count(*) from {table.name}{{}}")
        listed = ", ".join(f"{each[0]}" for each in values)
        theirs = ", ".join(
            f"sum(case when {column.name} = {each[1]} then id end)" for each in values
        )
        if column.type.name not in ("n5", "n12", "m", "m20", "s", "b", "d"):
            return suffix.within(f"select count(*) from {table.name}{{}}")
        return Pair(
            ours=f"select * from (select id, {column.name}, mod(id, 3) as r from {table.name}"
            f"{suffix.ours}) pivot (sum(id) for {column.name} in ({listed}))",
            theirs=f"select mod(id, 3) as r, {theirs} from {table.name}{suffix.theirs} group by r",
        )

    def _unpivot_query(self, table: Table, suffix: Pair) -> Pair:
        by_type: dict[str, list[str]] = {}
        for each in table.columns:
            by_type.setdefault(each.type.name, []).append(each.name)
        names = max(by_type.values(), key=len)
        listed = ", ".join(names)
        word = self.rng.choice(("", "include nulls "))
        theirs = " union all ".join(
            f"select id, '{each.upper()}', {each} from {table.name}{suffix.theirs}"
            for each in names
        )
        if not word:
            theirs = f"select * from ({theirs}) u(id, name, value) where value is not null"
        column = table.column(names[0])
        shown = column.type.shown.format("value")
        return Pair(
            ours=f"select id, name, {shown} from (select id, {listed} from {table.name}"
            f"{suffix.ours}) unpivot {word}(value for name in ({listed}))",
            theirs=theirs,
        )

    # Steps

    def step(self, counts: dict[str, int]) -> Step:
        """Return a step. counts: the rows of each table."""
        table = self._any()
        crowded = [each for each in self.tables.values() if counts[each.name] > ROWS_MAX]
        if crowded:
            return self._cut(crowded[0])
        if counts[table.name] < 8 and self.rng.random() < 0.7:
            return self._insert_values(table)
        choices = (
            (3, self._insert_values),
            (2, lambda table: self._insert_select(table, counts)),
            (1, lambda table: self._insert_several(table, counts)),
            (5, self._update),
            (3, self._update_from),
            (4, self._delete),
            (2, self._delete_using),
            (6, lambda table: self._merge(table, counts)),
            (0.3, self._truncate),
            (1, self._add_column),
            (1, self._drop_column),
            (1, self._rename_column),
            (0.7, self._change_column),
            (0.5, self._swap),
            (0.5, lambda table: self._replace_by_query(table, counts)),
        )
        weights = [weight for weight, _ in choices]
        (_, build) = self.rng.choices(choices, weights=weights)[0]
        return build(table)

    def _change(self, table: Table, text: Pair) -> Step:
        return Step(ours=text.ours, theirs=(text.theirs,), tables=(table,))

    def _insert_values(self, table: Table) -> Step:
        listed = [each for each in table.columns if self.rng.random() < 0.85]
        count = self.rng.choice((1, 2, 5, 12))
        first = self.reserved(count)
        rows = []
        for number in range(first, first + count):
            cells = [self._same(str(number)), *(self._literal(each.type) for each in listed)]
            rows.append(joined(", ".join(f"{{{i}}}" for i in range(len(cells))), *cells))
        names = ", ".join(("id", *(each.name for each in listed)))
        ours = " union all ".join(f"select {row.ours}" for row in rows)
        theirs = " union all ".join(f"select {row.theirs}" for row in rows)
        head = f"insert into {table.name} ({names}) "
        return Step(ours=head + ours, theirs=(head + theirs,), tables=(table,))

    def _cut(self, table: Table) -> Step:
        text = self._same(f"delete from {table.name} where mod(id, 5) <> 0")
        return self._change(table, text)

    def _insert_select(self, table: Table, counts: dict[str, int]) -> Step:
        source = self._any()
        first = self.reserved(counts[source.name] + 1)
        listed = [each for each in table.columns if self.rng.random() < 0.9]
        values = [self._value(each.type, {"q": source}) for each in listed]
        names = ", ".join(("id", *(each.name for each in listed)))
        cells = "".join(f", {{{i}}}" for i in range(len(values)))
        where = self.condition({"q": source}, subqueries=True)
        query = joined(
            f"select {first} + row_number() over (order by q.id){cells} from {source.name} q"
            f" where {{{len(values)}}}",
            *values,
            where,
        )
        if self.rng.random() < 0.2:
            return Step(
                ours=f"insert overwrite into {table.name} ({names}) {query.ours}",
                theirs=(
                    f"create temp table source as {query.theirs}",
                    f"delete from {table.name}",
                    f"insert into {table.name} ({names}) select * from source",
                    "drop table source",
                ),
                tables=(table,),
            )
        return self._change(table, query.within(f"insert into {table.name} ({names}) {{}}"))

    def _insert_several(self, table: Table, counts: dict[str, int]) -> Step:
        """INSERT ALL or FIRST of several tables."""
        source, rng = self._any(), self.rng
        size = counts[source.name] + 1
        clauses = rng.randint(1, 3)
        first = self.reserved(size * clauses)
        is_first = rng.random() < 0.5
        ours = [f"insert {'first' if is_first else 'all'}"]
        theirs = [
            f"create temp table source as select row_number() over (order by id) as number, *"
            f" from {source.name}"
        ]
        before: list[str] = []
        changed = []
        for number in range(clauses):
            target = self._any()
            changed.append(target)
            condition = self.condition({"source": source}, depth=1)
            listed = [each for each in target.columns if rng.random() < 0.9]
            values = [self._value(each.type, {"source": source}, depth=1) for each in listed]
            names = ", ".join(("id", *(each.name for each in listed)))
            start = first + number * size
            cells = "".join(f", {{{i}}}" for i in range(len(values)))
            value = joined(f"{start} + number{cells}", *values)
            ours.append(
                f"when {condition.ours.replace('source.', '')} then into {target.name} ({names})"
                f" values ({value.ours.replace('source.', '')})"
            )
            met = f"coalesce({condition.theirs}, false)"
            skipped = "".join(f" and not {each}" for each in before) if is_first else ""
            before.append(met)
            theirs.append(
                f"insert into {target.name} ({names}) select {value.theirs} from source"
                f" where {met}{skipped}"
            )
        ours.append(f"select row_number() over (order by id) as number, * from {source.name}")
        theirs.append("drop table source")
        return Step(ours=" ".join(ours), theirs=tuple(theirs), tables=tuple(changed))

    def _assignments(self, table: Table, scope: dict[str, Table]) -> Pair:
        chosen = self.rng.sample(table.columns, self.rng.randint(1, len(table.columns)))
        values = [self._value(each.type, scope) for each in chosen]
        if self.rng.random() < 0.25:
            other = self._other(table)
            number = self.rng.randrange(len(chosen))
            column_type = chosen[number].type
            names = [each.name for each in other.columns if each.type == column_type]
            if column_type.is_key and column_type.name not in "bx" and names:
                (alias, _) = next(iter(scope.items()))
                values[number] = self._same(
                    f"(select {self.rng.choice(('min', 'max'))}(q.{self.rng.choice(names)})"
                    f" from {other.name} q where mod(q.id, 4) = mod({alias}.id, 4))"
                )
        text = ", ".join(f"{each.name} = {{{i}}}" for i, each in enumerate(chosen))
        return joined(text, *values)

    def _update(self, table: Table) -> Step:
        scope = {table.name: table}
        where = self.condition(scope, subqueries=True)
        text = joined(
            f"update {table.name} set {{0}} where {{1}}", self._assignments(table, scope), where
        )
        return self._change(table, text)

    def _keys(self, table: Table, source: Table) -> tuple[str, str]:
        """Return a column of each, of one type; the ids if they have none in common."""
        pairs = [
            (one.name, other.name)
            for one in table.columns
            for other in source.columns
            if one.type == other.type and one.type.is_key
        ]
        return self.rng.choice([*pairs, ("id", "id")])

    def _single(self, source: Table, key: str, more: str = "") -> Pair:
        """Return a query of a source's rows, one for each value of the key."""
        where = self.condition({source.name: source}, depth=1)
        order = self.rng.choice(("id", "id desc"))
        text = joined(f"select *{more} from {source.name} where {{0}}", where)
        number = f"row_number() over (partition by {key} order by {order}) = 1"
        return text.within(f"({{}} qualify {number})")

    def _update_from(self, table: Table) -> Step:
        source = self._any()
        mine, other = self._keys(table, source)
        scope = {table.name: table, "q": source}
        text = joined(
            f"update {table.name} set {{0}} from {{1}} q where {table.name}.{mine} = q.{other}"
            " and {2}",
            self._assignments(table, scope),
            self._single(source, other),
            self.condition(scope, depth=1),
        )
        return self._change(table, text)

    def _delete(self, table: Table) -> Step:
        scope = {table.name: table}
        parts = [self.condition(scope, subqueries=True) for _ in range(2)]
        return self._change(
            table, joined(f"delete from {table.name} where {{0}} and {{1}}", *parts)
        )

    def _delete_using(self, table: Table) -> Step:
        source = self._other(table)
        mine, other = self._keys(table, source)
        scope = {table.name: table, source.name: source}
        text = joined(
            f"delete from {table.name} using {source.name}"
            f" where {table.name}.{mine} = {source.name}.{other} and {{0}}",
            self.condition(scope, depth=1),
        )
        return self._change(table, text)

    def _merge(self, table: Table, counts: dict[str, int]) -> Step:
        source, rng = self._any(), self.rng
        mine, other = self._keys(table, source)
        first = self.reserved(counts[source.name] + 1)
        more = f", {first} + row_number() over (order by id) as number"
        rows = self._single(source, other, more)
        both = {"t": table, "q": source}
        on = self._same(f"t.{mine} = q.{other}")
        if rng.random() < 0.3:
            on = joined("{0} and {1}", on, self.condition(both, depth=0))
        clauses = []
        matched = rng.randint(0, 3)
        for number in range(matched):
            when = self._same("when matched")
            if number < matched - 1 or rng.random() < 0.4:
                when = joined("{0} and {1}", when, self.condition(both, depth=1))
            if rng.random() < 0.3:
                clauses.append(when.within("{} then delete"))
            else:
                values = self._assignments(table, both)
                clauses.append(joined("{0} then update set {1}", when, values))
        missed = rng.randint(0 if clauses else 1, 2)
        for number in range(missed):
            when = self._same("when not matched")
            if number < missed - 1 or rng.random() < 0.4:
                when = joined("{0} and {1}", when, self.condition({"q": source}, depth=1))
            listed = [each for each in table.columns if rng.random() < 0.9]
            names = ", ".join(("id", *(each.name for each in listed)))
            values = [self._value(each.type, {"q": source}, depth=1) for each in listed]
            cells = "".join(f", {{{i + 1}}}" for i in range(len(values)))
            text = f"{{0}} then insert ({names}) values (q.number{cells})"
            clauses.append(joined(text, when, *values))
        text = joined(
            f"merge into {table.name} t using {{0}} q on {{1}} "
            + " ".join(f"{{{i + 2}}}" for i in range(len(clauses))),
            rows,
            on,
            *clauses,
        )
        return self._change(table, text)

    def _truncate(self, table: Table) -> Step:
        word = self.rng.choice(("truncate table {}", "delete from {}")).format(table.name)
        return Step(ours=word, theirs=(f"delete from {table.name}",), tables=(table,))

    # Definitions of before

    def _altered(self, table: Table, columns: tuple[Column, ...], ours: str, theirs: str) -> Step:
        head = f"alter table {table.name} "
        return Step(
            ours=head + ours,
            theirs=(head + theirs,),
            tables=(dataclasses.replace(table, columns=columns),),
            is_change=False,
        )

    def _unused(self, table: Table) -> str | None:
        names = sorted(set(NAMES) - {each.name for each in table.columns})
        return self.rng.choice(names) if names else None

    def _add_column(self, table: Table) -> Step:
        name = self._unused(table)
        if name is None:
            return self._drop_column(table)
        column = dataclasses.replace(self._column(name), is_required=False)
        ours, theirs = f"add column {name} {column.type.ours}", f"add column {name} "
        theirs += column.type.theirs
        if column.default is not None:
            ours += f" default {column.default[0]}"
            theirs += f" default {column.default[1]}"
        return self._altered(table, (*table.columns, column), ours, theirs)

    def _drop_column(self, table: Table) -> Step:
        if len(table.columns) < 2:
            return self._insert_values(table)
        name = self.rng.choice(table.columns).name
        left = tuple(each for each in table.columns if each.name != name)
        return self._altered(table, left, f"drop column {name}", f"drop column {name}")

    def _rename_column(self, table: Table) -> Step:
        name, new = self.rng.choice(table.columns).name, self._unused(table)
        if new is None:
            return self._drop_column(table)
        columns = tuple(
            dataclasses.replace(each, name=new) if each.name == name else each
            for each in table.columns
        )
        text = f"rename column {name} to {new}"
        return self._altered(table, columns, text, text)

    def _change_column(self, table: Table) -> Step:
        column = self.rng.choice(table.columns)
        if column.type.wider and self.rng.random() < 0.5:
            new = dataclasses.replace(column, type=TYPES[column.type.wider])
            ours = f"alter column {column.name} set data type {new.type.ours}"
            theirs = f"alter column {column.name} set data type {new.type.theirs}"
        else:
            new = dataclasses.replace(column, is_required=not column.is_required)
            word = "set" if new.is_required else "drop"
            ours = theirs = f"alter column {column.name} {word} not null"
        columns = tuple(new if each == column else each for each in table.columns)
        return self._altered(table, columns, ours, theirs)

    def _swap(self, table: Table) -> Step:
        other = self._other(table)
        return Step(
            ours=f"alter table {table.name} swap with {other.name}",
            theirs=(
                f"alter table {table.name} rename to swapped",
                f"alter table {other.name} rename to {table.name}",
                f"alter table swapped rename to {other.name}",
            ),
            tables=(
                dataclasses.replace(other, name=table.name),
                dataclasses.replace(table, name=other.name),
            ),
            is_change=False,
        )

    def _replace_by_query(self, table: Table, counts: dict[str, int]) -> Step:
        source = self._any()
        if self.rng.random() < 0.4:
            return Step(
                ours=f"create or replace table {table.name} clone {source.name}",
                theirs=(
                    f"create temp table cloned as select * from {source.name}",
                    f"create or replace table {table.name} ({source.definition(is_ours=False)})",
                    f"insert into {table.name} select * from cloned",
                    "drop table cloned",
                ),
                tables=(dataclasses.replace(source, name=table.name),),
                is_change=False,
            )
        fresh = self.table(table.name)
        columns = tuple(
            dataclasses.replace(each, is_required=False, default=None) for each in fresh.columns
        )
        fresh = dataclasses.replace(fresh, columns=columns)
        values = [self._value(each.type, {"q": source}) for each in columns]
        ours = "".join(
            f", cast({value.ours} as {each.type.ours}) as {each.name}"
            for value, each in zip(values, columns, strict=True)
        )
        theirs = "".join(
            f", cast({value.theirs} as {each.type.theirs}) as {each.name}"
            for value, each in zip(values, columns, strict=True)
        )
        head = f"create or replace table {table.name} as select q.id"
        return Step(
            ours=f"{head}{ours} from {source.name} q",
            theirs=(f"{head}{theirs} from {source.name} q",),
            tables=(fresh,),
            is_change=False,
        )


def table_type(table: Table, name: str) -> str:
    """Return the name of the type of a table's column."""
    return "id" if name == "id" else table.column(name).type.name
