"""rule: the grammar of users, roles and grants."""

from __future__ import annotations

from typing import Final

from sql import errors
from sql.dialect import names, operations, reading

PROPERTIES: Final[dict[str, str]] = {
    "COMMENT": "comment",
    "DEFAULT_ROLE": "default_role",
    "DEFAULT_WAREHOUSE": "default_warehouse",
    "DEFAULT_NAMESPACE": "default_namespace",
    "DISPLAY_NAME": "display_name",
    "FIRST_NAME": "first_name",
    "LAST_NAME": "last_name",
    "EMAIL": "email",
}
"""Properties of users that are stored as texts."""

CREDENTIALS: Final = ("PASSWORD", "RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2")
TOKEN_WORDS: Final = (("PROGRAMMATIC", "ACCESS", "TOKEN"), ("PAT",))
OBJECT_TYPES: Final = ("TABLE", "VIEW", "SCHEMA", "DATABASE")
PRIVILEGE_WORDS_MAX: Final = 4


def read_create_user(reader: reading.TokenReader) -> operations.CreateUser:
    """Return the CREATE USER whose name comes next."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.ident()
    changes = _read_properties(reader, "CREATE USER")
    return operations.CreateUser(name=name, changes=changes, if_not_exists=if_not_exists)


def read_alter_user(reader: reading.TokenReader) -> operations.Operation:
    """Return the ALTER USER whose name comes next; a change of a token may leave it out."""
    if_exists = reader.accept("IF", "EXISTS")
    verb = _read_token_verb(reader)
    if verb:
        return _read_token_change(reader, verb, None, if_exists=if_exists)
    name = reader.ident()
    verb = _read_token_verb(reader)
    if verb:
        return _read_token_change(reader, verb, name, if_exists=if_exists)
    if reader.accept("UNSET"):
        removed = [_read_removed(reader)]
        while reader.accept(","):
            removed.append(_read_removed(reader))
        reader.finish()
        changes = _changes(dict(removed))
    elif reader.accept("SET"):
        changes = _read_properties(reader, "ALTER USER ... SET")
    else:
        raise errors.unsupported(f"ALTER USER ... {reader.peek_word()}")
    return operations.AlterUser(name=name, changes=changes, if_exists=if_exists)


def read_show_tokens(reader: reading.TokenReader) -> operations.ShowTokens:
    """Return the SHOW USER PROGRAMMATIC ACCESS TOKENS whose clause comes next."""
    user = None
    if reader.accept("FOR"):
        reader.expect("USER")
        user = reader.ident()
    reader.finish()
    return operations.ShowTokens(user=user)


def read_drop(
    reader: reading.TokenReader, object_type: operations.IdentityType
) -> operations.DropIdentity:
    """Return the DROP USER or DROP ROLE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.ident()
    reader.finish()
    return operations.DropIdentity(object_type=object_type, name=name, if_exists=if_exists)


def read_create_role(reader: reading.TokenReader) -> operations.CreateRole:
    """Return the CREATE ROLE whose name comes next."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.ident()
    comment = ""
    while not reader.is_finished:
        if not reader.accept("COMMENT"):
            raise errors.unsupported(f"CREATE ROLE ... {reader.peek_word()}")
        reader.expect("=")
        comment = reader.string()
    return operations.CreateRole(name=name, comment=comment, if_not_exists=if_not_exists)


def read_alter_role(reader: reading.TokenReader) -> operations.AlterRole:
    """Return the ALTER ROLE whose name comes next."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.ident()
    if reader.accept("SET", "COMMENT"):
        reader.expect("=")
        comment = reader.string()
    elif reader.accept("UNSET", "COMMENT"):
        comment = ""
    else:
        raise errors.unsupported(f"ALTER ROLE ... {reader.peek_word()}")
    reader.finish()
    return operations.AlterRole(name=name, comment=comment, if_exists=if_exists)


def read_grant(reader: reading.TokenReader) -> operations.Operation:
    """Return the GRANT that starts here."""
    reader.expect("GRANT")
    return _read_grant(reader, is_grant=True)


def read_revoke(reader: reading.TokenReader) -> operations.Operation:
    """Return the REVOKE that starts here."""
    reader.expect("REVOKE")
    if reader.accept("GRANT", "OPTION", "FOR"):
        raise errors.unsupported("REVOKE GRANT OPTION FOR")
    return _read_grant(reader, is_grant=False)


def read_show_grants(reader: reading.TokenReader) -> operations.ShowGrants:
    """Return the SHOW GRANTS whose clause comes next."""
    if reader.accept("TO"):
        holder = _read_holder(reader)
        reader.finish()
        return operations.ShowGrants(form="to", holder=holder)
    if reader.accept("OF"):
        holder = _read_holder(reader)
        reader.finish()
        return operations.ShowGrants(form="of", holder=holder)
    if reader.accept("ON"):
        target = _read_object(reader)
        reader.finish()
        return operations.ShowGrants(form="on", target=target)
    if not reader.is_finished:
        raise errors.unsupported(f"SHOW GRANTS ... {reader.peek_word()}")
    reader.finish()
    return operations.ShowGrants(form="own")


def _read_grant(reader: reading.TokenReader, *, is_grant: bool) -> operations.Operation:
    statement, preposition = ("GRANT", "TO") if is_grant else ("REVOKE", "FROM")
    if reader.accept("ROLE"):
        role = reader.ident()
        reader.expect(preposition)
        if reader.accept("ROLE"):
            raise errors.unsupported(f"{statement} ROLE ... {preposition} ROLE")
        reader.expect("USER")
        user = reader.ident()
        _read_end(reader, statement)
        return operations.GrantRole(role=role, user=user, is_grant=is_grant)
    if reader.peek_word() in ("OWNERSHIP", "DATABASE ROLE", "APPLICATION"):
        raise errors.unsupported(f"{statement} {reader.peek_word()}")
    privileges = _read_privileges(reader)
    reader.expect("ON")
    if is_grant and privileges == ("USAGE",) and reader.accept("WAREHOUSE"):
        warehouse = reader.ident()
        reader.expect(preposition)
        holder = _read_holder(reader)
        _read_end(reader, statement)
        return operations.GrantWarehouse(name=warehouse, holder=holder)
    target = _read_object(reader)
    reader.expect(preposition)
    holder = _read_holder(reader)
    _read_end(reader, statement)
    return operations.GrantPrivileges(
        privileges=privileges, target=target, holder=holder, is_grant=is_grant
    )


def _read_end(reader: reading.TokenReader, statement: str) -> None:
    if reader.accept("WITH", "GRANT", "OPTION"):
        raise errors.unsupported(f"{statement} ... WITH GRANT OPTION")
    _ = reader.accept("CASCADE") or reader.accept("RESTRICT")
    reader.finish()


def _read_privileges(reader: reading.TokenReader) -> tuple[str, ...] | None:
    """Return the privileges, None for ALL."""
    if reader.accept("ALL"):
        reader.accept("PRIVILEGES")
        return None
    privileges = []
    while True:
        words: list[str] = []
        while reader.peek_word() not in ("", "ON") and reader.peek_text() != ",":
            words += reader.next_word().split()
            if len(words) > PRIVILEGE_WORDS_MAX:
                raise reader.unexpected()
        if not words:
            raise reader.unexpected()
        privileges.append(" ".join(words))
        if not reader.accept(","):
            return tuple(privileges)


def _read_object(reader: reading.TokenReader) -> operations.GrantTarget:
    if reader.accept("ACCOUNT"):
        return operations.GrantTarget(object_type="ACCOUNT")
    if reader.accept("FUTURE"):
        raise errors.unsupported("GRANT ... ON FUTURE")
    if reader.accept("ALL"):
        plural = reader.next_word()
        if plural not in ("TABLES", "VIEWS", "SCHEMAS"):
            raise errors.unsupported(f"GRANT ... ON ALL {plural}")
        reader.expect("IN")
        container = next((each for each in ("SCHEMA", "DATABASE") if reader.accept(each)), None)
        if container is None:
            raise reader.unexpected()
        return operations.GrantTarget(
            object_type=plural[:-1],  # type: ignore[arg-type]  # one of the words above
            name=reader.name(),
            all_in="schema" if container == "SCHEMA" else "database",
        )
    for object_type in OBJECT_TYPES:
        if reader.accept(object_type):
            return operations.GrantTarget(object_type=object_type, name=reader.name())
    if reader.peek_word() in REFUSED_TYPES:
        raise errors.unsupported(f"GRANT ... ON {reader.peek_word()}")
    return operations.GrantTarget(object_type="TABLE", name=reader.name())


def _read_holder(reader: reading.TokenReader) -> operations.GrantHolder:
    if reader.accept("USER"):
        return operations.GrantHolder(object_type="user", name=reader.ident())
    if reader.peek_word() in ("DATABASE", "SHARE", "APPLICATION", "DATABASE ROLE"):
        raise errors.unsupported(f"GRANT ... TO {reader.peek_word()}")
    reader.accept("ROLE")
    return operations.GrantHolder(object_type="role", name=reader.ident())


def _read_properties(reader: reading.TokenReader, statement: str) -> operations.UserChanges:
    values: dict[str, str] = {}
    while not reader.is_finished:
        if reader.peek_word() in values:
            raise reader.unexpected()
        word = reader.next_word()
        if word not in (*PROPERTIES, *CREDENTIALS, "DISABLED"):
            raise errors.unsupported(f"{statement} {word}")
        reader.expect("=")
        # A password without quotes would be stored in upper case.
        if word in CREDENTIALS:
            values[word] = reader.string()
        elif word == "DEFAULT_NAMESPACE" and not reader.is_at_string:
            values[word] = names.dotted(reader.name())
        else:
            values[word] = str(reader.value())
        reader.accept(",")
    if not values and statement != "CREATE USER":
        raise reader.unexpected()
    return _changes(values)


def _read_token_verb(reader: reading.TokenReader) -> str:
    """Return what is to be done with a programmatic access token; "" if none comes next."""
    for verb in ("ADD", "MODIFY", "ROTATE", "REMOVE"):
        for words in TOKEN_WORDS:
            if reader.accept(verb, *words):
                return verb
    return ""


def _read_token_change(
    reader: reading.TokenReader, verb: str, user: names.Ident | None, *, if_exists: bool
) -> operations.Operation:
    token = reader.ident()
    match verb:
        case "ADD":
            values = _read_token_values(reader, ("ROLE_RESTRICTION", "DAYS_TO_EXPIRY", "COMMENT"))
            return operations.AddToken(
                user=user,
                token=token,
                role=_restriction(values),
                days=_whole(values, "DAYS_TO_EXPIRY"),
                comment=str(values.get("COMMENT", "")),
                if_exists=if_exists,
            )
        case "ROTATE":
            values = _read_token_values(reader, ("EXPIRE_ROTATED_TOKEN_AFTER_HOURS",))
            return operations.RotateToken(
                user=user,
                token=token,
                hours=_whole(values, "EXPIRE_ROTATED_TOKEN_AFTER_HOURS"),
                if_exists=if_exists,
            )
        case "REMOVE":
            reader.finish()
            return operations.RemoveToken(user=user, token=token, if_exists=if_exists)
    new_name = None
    values = {}
    if reader.accept("RENAME", "TO"):
        new_name = reader.ident()
        reader.finish()
    elif reader.accept("UNSET"):
        values = _read_unset_token_values(reader)
    else:
        reader.expect("SET")
        values = _read_token_values(reader, ("DISABLED", "COMMENT"))
        if not values:
            raise reader.unexpected()
    disabled = values.get("DISABLED")
    if disabled is not None and not isinstance(disabled, bool):
        raise errors.invalid_parameter("DISABLED", disabled)
    comment = values.get("COMMENT")
    return operations.ModifyToken(
        user=user,
        token=token,
        new_name=new_name,
        disabled=disabled,
        comment=None if comment is None else str(comment),
        if_exists=if_exists,
    )


def _read_token_values(
    reader: reading.TokenReader, properties: tuple[str, ...]
) -> dict[str, str | int | bool]:
    values: dict[str, str | int | bool] = {}
    while not reader.is_finished:
        if reader.peek_word() in values:
            raise reader.unexpected()
        word = reader.next_word()
        if word not in properties:
            raise errors.unsupported(f"ALTER USER ... PROGRAMMATIC ACCESS TOKEN ... {word}")
        reader.expect("=")
        is_text = word in ("ROLE_RESTRICTION", "COMMENT")
        values[word] = reader.string() if is_text else reader.value()
        reader.accept(",")
    reader.finish()
    return values


def _read_unset_token_values(reader: reading.TokenReader) -> dict[str, str | int | bool]:
    values: dict[str, str | int | bool] = {}
    while True:
        word = reader.next_word()
        if word not in ("DISABLED", "COMMENT"):
            raise errors.unsupported(f"ALTER USER ... PROGRAMMATIC ACCESS TOKEN ... UNSET {word}")
        values[word] = False if word == "DISABLED" else ""
        if not reader.accept(","):
            reader.finish()
            return values


def _restriction(values: dict[str, str | int | bool]) -> str:
    """Return the role of ROLE_RESTRICTION, "" without it; raises SqlError for an empty one."""
    if "ROLE_RESTRICTION" not in values:
        return ""
    role = names.parse(str(values["ROLE_RESTRICTION"])).folded
    if not role.strip():
        raise errors.invalid_parameter("ROLE_RESTRICTION", "")
    return role


def _whole(values: dict[str, str | int | bool], word: str) -> int | None:
    """Return the number of a property; raises SqlError for another value."""
    value = values.get(word)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise errors.invalid_parameter(word, value)
    return value


def _read_removed(reader: reading.TokenReader) -> tuple[str, str]:
    word = reader.next_word()
    if word not in (*PROPERTIES, *CREDENTIALS, "DISABLED"):
        raise errors.unsupported(f"ALTER USER ... UNSET {word}")
    return word, "FALSE" if word == "DISABLED" else ""


def _changes(values: dict[str, str]) -> operations.UserChanges:
    disabled = values.get("DISABLED")
    if disabled is not None and disabled.upper() not in ("TRUE", "FALSE"):
        raise errors.invalid_parameter("DISABLED", disabled)
    return operations.UserChanges(
        password=values.get("PASSWORD"),
        public_keys=tuple(
            (number, values[word])
            for number, word in enumerate(("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2"))
            if word in values
        ),
        disabled=None if disabled is None else disabled.upper() == "TRUE",
        properties=tuple(
            (PROPERTIES[word], value) for word, value in values.items() if word in PROPERTIES
        ),
    )


REFUSED_TYPES: Final = reading.words(
    """
    STAGE SEQUENCE FUNCTION PROCEDURE WAREHOUSE FILE STREAM TASK PIPE INTEGRATION USER ROLE
    RESOURCE EXTERNAL MATERIALIZED DYNAMIC TAG
    """
)
"""Objects on which nothing can be granted."""
