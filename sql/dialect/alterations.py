"""rule: the grammar of ALTER TABLE.

Clauses that Boathouse does not have, such as policies, tags and search optimisation, are refused by
name, and so are properties without an effect.
"""

from __future__ import annotations

from sql import errors
from sql.dialect import clustering, elements, names, operations, reading, staging, table_options


def read_alter_table(reader: reading.TokenReader) -> operations.AlterTable:
    """Return the ALTER TABLE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    change = _read_change(reader)
    reader.finish()
    return operations.AlterTable(name=name, change=change, if_exists=if_exists)


def _read_change(
    reader: reading.TokenReader,
) -> operations.SchemaChange | operations.RenameTable | operations.SwapTables:
    if reader.accept("RENAME", "TO"):
        return operations.RenameTable(to=reader.name())
    if reader.accept("RENAME"):
        reader.accept("COLUMN")
        column = reader.ident()
        reader.expect("TO")
        return operations.RenameColumn(column=column, to=reader.ident())
    if reader.accept("SWAP", "WITH"):
        return operations.SwapTables(other=reader.name())
    if reader.accept("ADD"):
        return _read_added(reader)
    if reader.accept("DROP"):
        return _read_dropped(reader)
    if reader.accept("ALTER") or reader.accept("MODIFY"):
        return read_column_changes(reader)
    if reader.accept("CLUSTER", "BY"):
        return operations.ClusterBy(keys=_read_cluster_keys(reader))
    if reader.accept("SET"):
        return _read_set(reader)
    if reader.accept("UNSET"):
        return _read_unset(reader)
    words = [reader.next_word(), reader.peek_word()]
    is_pair = words[0] in ("RESUME", "SUSPEND") and words[1] == "RECLUSTER"
    raise errors.unsupported(f"ALTER TABLE ... {' '.join(words) if is_pair else words[0]}")


def _read_cluster_keys(reader: reading.TokenReader) -> tuple[operations.ClusterKey, ...]:
    reader.accept("LINEAR")
    reader.expect("(")
    keys = []
    while True:
        text, node = elements.read_node(reader)
        keys.append(clustering.key(node, text))
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(keys)


def _read_added(reader: reading.TokenReader) -> operations.AddColumns | operations.AddKey:
    if not reader.accept("COLUMN") and reader.peek_word() in elements.KEY_WORDS:
        return operations.AddKey(key=elements.read_key(reader))
    if reader.peek_word() in ("ROW", "ROW ACCESS", "SEARCH", "DATA", "AGGREGATION"):
        raise errors.unsupported(f"ALTER TABLE ... ADD {reader.peek_word()}")
    definitions: list[operations.ColumnDefinition] = []
    keys: list[operations.KeyDefinition] = []
    if_not_exists = False
    in_parentheses = reader.accept("(")
    while True:
        reader.accept("COLUMN")
        if_not_exists = reader.accept("IF", "NOT", "EXISTS") or if_not_exists
        definition, own_keys = elements.read_column(reader)
        if definition.type is None:
            raise reader.unexpected()
        definitions.append(definition)
        keys += own_keys
        if not reader.accept(","):
            break
        reader.accept("ADD")
    if in_parentheses:
        reader.expect(")")
    elements.check_keys(keys)
    return operations.AddColumns(
        columns=tuple(definitions), keys=tuple(keys), if_not_exists=if_not_exists
    )


def _read_dropped(
    reader: reading.TokenReader,
) -> operations.DropColumns | operations.DropKey | operations.ClusterBy:
    if reader.accept("CLUSTERING", "KEY"):
        return operations.ClusterBy(keys=())
    if reader.accept("PRIMARY", "KEY"):
        return _behaved(reader, operations.DropKey(key_type="primary"))
    if reader.accept("UNIQUE"):
        return _behaved(reader, operations.DropKey(key_type="unique", columns=reader.ident_list()))
    if reader.accept("FOREIGN", "KEY"):
        return _behaved(reader, operations.DropKey(key_type="foreign", columns=reader.ident_list()))
    if reader.accept("CONSTRAINT"):
        return _behaved(reader, operations.DropKey(name=reader.ident()))
    if reader.peek_word() in ("ROW", "ROW ACCESS", "ALL", "SEARCH", "AGGREGATION"):
        raise errors.unsupported(f"ALTER TABLE ... DROP {reader.peek_word()}")
    dropped: list[names.Ident] = []
    if_exists = False
    while True:
        reader.accept("DROP")
        reader.accept("COLUMN")
        if_exists = reader.accept("IF", "EXISTS") or if_exists
        dropped.append(reader.ident())
        if not reader.accept(","):
            break
    return operations.DropColumns(columns=tuple(dropped), if_exists=if_exists)


def _behaved(reader: reading.TokenReader, dropped: operations.DropKey) -> operations.DropKey:
    # Nothing depends on a key that is never enforced, so both words mean the same.
    _ = reader.accept("CASCADE") or reader.accept("RESTRICT")
    return dropped


def read_column_changes(reader: reading.TokenReader) -> operations.ChangeColumns:
    """Return the changes of columns behind ALTER or MODIFY."""
    changes: list[operations.ColumnChange] = []
    in_parentheses = reader.accept("(")
    while True:
        reader.accept("COLUMN")
        changes.append(_read_column_change(reader, reader.ident()))
        if not reader.accept(","):
            break
        _ = reader.accept("ALTER") or reader.accept("MODIFY")
    if in_parentheses:
        reader.expect(")")
    return operations.ChangeColumns(changes=tuple(changes))


def _read_column_change(
    reader: reading.TokenReader, column: names.Ident
) -> operations.ColumnChange:
    if reader.accept("DROP", "DEFAULT"):
        return operations.ColumnChange(column=column, default="")
    if reader.accept("SET", "DEFAULT"):
        return operations.ColumnChange(column=column, default=elements.read_expression(reader))
    if reader.accept("SET", "NOT", "NULL") or reader.accept("NOT", "NULL"):
        return operations.ColumnChange(column=column, required=True)
    if reader.accept("DROP", "NOT", "NULL"):
        return operations.ColumnChange(column=column, required=False)
    if reader.accept("UNSET", "COMMENT"):
        return operations.ColumnChange(column=column, comment="")
    if reader.accept("COMMENT"):
        return operations.ColumnChange(column=column, comment=reader.string())
    for words in (("SET", "DATA", "TYPE"), ("SET", "TYPE"), ("TYPE",)):
        if reader.accept(*words):
            break
    else:
        if reader.peek_word() in ("SET", "UNSET", "DROP"):
            raise errors.unsupported(f"ALTER COLUMN ... {reader.peek_word()} of this form")
    column_type = elements.read_type(reader)
    if column_type is None:
        raise reader.unexpected()
    return operations.ColumnChange(column=column, type=column_type)


def _read_set(reader: reading.TokenReader) -> operations.SetTableProperties:
    assigned: list[tuple[str, str | None]] = []
    stage_format: operations.FormatClause | None = None
    if reader.is_finished:
        raise reader.unexpected()
    while not reader.is_finished:
        if reader.accept("COMMENT"):
            reader.expect("=")
            assigned.append(("comment", reader.string() or None))
        elif reader.peek_word() in (*table_options.NAMES, *table_options.NAMES_OF_ALL):
            option = reader.next_word()
            reader.expect("=")
            assigned += table_options.properties(option, reader.value())
        elif reader.accept(STAGE_FORMAT):
            if stage_format is not None:
                raise errors.incompatible_options(STAGE_FORMAT, STAGE_FORMAT)
            reader.expect("=")
            stage_format = staging.read_format(reader)
        else:
            raise errors.unsupported(f"ALTER TABLE ... SET {reader.peek_word()}")
        reader.accept(",")
    return operations.SetTableProperties(properties=tuple(assigned), stage_format=stage_format)


STAGE_FORMAT = "STAGE_FILE_FORMAT"


def _read_unset(reader: reading.TokenReader) -> operations.SetTableProperties:
    removed: list[tuple[str, str | None]] = []
    while True:
        if reader.accept("COMMENT"):
            removed.append(("comment", None))
        elif (option := table_options.defaults(reader.peek_word())) is not None:
            reader.next_word()
            removed += option
        else:
            raise errors.unsupported(f"ALTER TABLE ... UNSET {reader.peek_word()}")
        if not reader.accept(","):
            break
    return operations.SetTableProperties(properties=tuple(removed))
