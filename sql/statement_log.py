"""rule: the record of statements that INFORMATION_SCHEMA.QUERY_HISTORY lists.

It is kept in memory, so it begins with the server's start. The user with the most statements makes
room for new ones. Passwords, keys and tokens that stand in a text are left out of the record.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from server.access import programmatic
from sql import errors, limits, outcomes
from sql.dialect import reading

WORD: Final = "password"
MASK: Final = "********"

Sort: TypeAlias = Literal["", "password", "option", "name"]
"""What a word says of what follows it."""
_LEXEME: Final = re.compile(
    r"""
      (?P<blank> \s++ )
    | (?P<comment> (?: -- | // ) [^\n]*+ | /\* .*? (?: \*/ | \Z ) )
    | (?P<text> ' (?: [^'\\] | '' | \\. )*+ (?: ' | \\?+ \Z ) | \$\$ .*? (?: \$\$ | \Z ) )
    | (?P<quoted> " [^"]*+ (?: " | \Z ) )
    | (?P<word> [^\W\d] [\w$]*+ )
    | (?P<other> \d [^\s,;()='"]*+ | . )
    """,
    re.S | re.X,
)
"""Parts of a statement's text, which may be cut anywhere: within a string's escape too."""
_SIGNS: Final = frozenset("=:>(")
"""What may stand between PASSWORD and a password, `=>` and `:=` too."""
_CLOSED: Final = frozenset({"text", "quoted", "comment"})
"""Parts whose words are no words of the statement."""
_OPTIONS: Final = frozenset(
    reading.words(
        """
    aws_secret_access_key aws_secret_key aws_session_token aws_token azure_sas_token client_secret
    credentials master_key oauth_access_token oauth_client_secret oauth_refresh_token passphrase
    private_key private_key_passphrase secret_access_key secret_string
    """
    )
)
"""Options whose values are secrets."""
# Every search below takes linear time: no repeat may begin anew within what it has gone through.
_NAME_END: Final = (
    r"(?<![^\W_])(?:pass(?:word|wd|phrase)|pwd|secret|secret_string|token|credentials?"
    r"|(?:api|secret|secret_access|private|master|encryption|signing)_key)(?:_?\d)*+"
)
_NAMED: Final = re.compile(rf"{_NAME_END}\Z", re.I)
"""The end of names of variables, arguments and columns that may hold a secret: `api_token`."""
_ASSIGNED: Final = re.compile(rf"{_NAME_END}[\"\s]*+:?=", re.I)
_VALUE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<![\w-])(?>[\w-]*?\beyJ)[\w-]{8,}+\.[\w-]{8,}+\."  # a JSON Web Token
    rf"|\b{programmatic.ID_PREFIX}[A-Z2-7]{{8,}}+\."
)
"""Secrets that their own form shows."""
_HINT: Final = re.compile(
    rf"pass|pwd|secret|token|credential|_key|PRIVATE KEY|\beyJ|\b{programmatic.ID_PREFIX}", re.I
)
"""What every text with a secret has."""
_NAME_LENGTH_MAX: Final = 64
"""Characters of a name and its sign that may stand before the place where a text is cut."""
_PROPERTIES: Final = frozenset(
    reading.words(
        """
    ALLOWED_INTERFACES COMMENT DAYS_TO_EXPIRY DEFAULT_NAMESPACE DEFAULT_ROLE DEFAULT_SECONDARY_ROLES
    DEFAULT_WAREHOUSE DISABLED DISABLE_MFA DISPLAY_NAME EMAIL FIRST_NAME LAST_NAME LOGIN_NAME
    MIDDLE_NAME MINS_TO_BYPASS_MFA MINS_TO_UNLOCK MUST_CHANGE_PASSWORD NETWORK_POLICY RSA_PUBLIC_KEY
    RSA_PUBLIC_KEY_2 TYPE WORKLOAD_IDENTITY
    """
    )
)
"""Snowflake's properties of users."""
_RESERVED: Final = frozenset(
    reading.words(
        """
    and as asc between cascade char collate cross desc drop else end except from full group having
    ilike in inner intersect is join left like limit minus natural not nulls on or order over policy
    qualify regexp rename right rlike set string text then to type union using varchar when where
    """
    )
)
"""What follows a column, or a policy, that has the name."""
_EXECUTE: Final = re.compile(r"\bexecute\b", re.I)
_IMMEDIATE: Final = re.compile(r"\bimmediate\b", re.I)
_EXECUTES_STRING: Final = re.compile(r"\s*+execute\s++immediate\s*+(?:'|\$\$)", re.I)
# Possessive: the parts overlap, and going back through them takes exponential time.
_FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*|//[^\n]*|/\*.*?\*/|\()*+([A-Za-z]+)", re.S)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedStatement:
    """A statement. owner: as `sessions.Session.owner` has it. text: its first characters.

    database and schema are as shown. ended_at_ms, rows: None while it runs; rows too where it
    failed. status: as in QUERY_HISTORY. statement_type: such as SELECT, or the text's first word.
    """

    query_id: str
    owner: str
    text: str
    statement_type: str
    session_id: int
    user: str
    role: str
    warehouse: str
    database: str | None
    schema: str | None
    tag: str
    status: str
    started_at_ms: int
    ended_at_ms: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    rows: int | None = None


class StatementLog:
    """Statements that have ended, the newest of each owner. Mutable."""

    def __init__(self, *, statements_max: int = limits.RECORDED_STATEMENTS_MAX) -> None:
        self._statements_max = statements_max
        self._by_owner: dict[str, deque[RecordedStatement]] = {}
        self._count = 0

    def add(self, statement: RecordedStatement) -> None:
        """Record a statement that has ended."""
        self._by_owner.setdefault(statement.owner, deque()).append(statement)
        self._count += 1
        if self._count > self._statements_max:
            owner = max(self._by_owner, key=lambda each: len(self._by_owner[each]))
            self._by_owner[owner].popleft()
            self._count -= 1
            if not self._by_owner[owner]:
                del self._by_owner[owner]

    def listed(self, owner: str | None) -> Iterator[RecordedStatement]:
        """Yield the statements of an owner, or of all for None, each owner's oldest first."""
        for name, statements in list(self._by_owner.items()):
            if owner in (None, name):
                yield from list(statements)


def shown_text(text: str) -> str:
    """Return the head of a text as the record has it, without passwords and other secrets.

    A password is what follows the word PASSWORD and signs such as `=`, also where the syntax is
    wrong: up to a comma, the line's end or the next property of a user. So is what follows `=` and
    an option of secrets. A variable of SET whose name says that it holds a secret hides all strings
    and numbers up to the statement's end; elsewhere such a name hides the string that follows.
    Where a string, a quoted name or a comment has such a word among others, it may be a statement
    itself: then all such parts are masked. A private key or a token hides the string or comment
    that it stands in.
    """
    head = text[: limits.TEXT_KEPT_LENGTH_MAX]
    if _HINT.search(head) is None:
        return head
    lexemes = [(match.lastgroup or "", match[0]) for match in _LEXEME.finditer(head)]
    masks_all = any(_may_be_statement(part) for group, part in lexemes if group in _CLOSED)
    shown: list[str] = []
    state: Literal["", "after word", "after sign", "in password", "after reserved"] = ""
    sort: Sort = ""
    is_assigned = False  # an equals sign stands between the word and its value
    blank = ""  # the last one within a password
    is_start = True  # of a statement
    is_set = names_variables = sets_secret = False
    for index, (group, part) in enumerate(lexemes):
        is_between = group in ("blank", "comment")
        if part == ";":
            is_start, is_set, names_variables, sets_secret = True, False, False, False
        elif is_start and not is_between and part != "(":
            is_start = False
            is_set = names_variables = part.upper() == "SET"
        names_variables = names_variables and part != "="
        if state == "in password":
            if not sets_secret and _is_property(lexemes, index):
                shown.append(blank)
            elif part != ";" and (sets_secret or not _ends_password(group, part)):
                blank = part if group == "blank" else ""
                continue
            state = ""
        elif state in ("after word", "after sign") and not is_between:
            if part in _SIGNS and (sort == "password" or is_assigned or part != "("):
                shown.append(part)
                state, is_assigned = "after sign", is_assigned or part == "="
                continue
            if sort != "password" and not is_assigned:
                state = ""
            elif sort == "name":
                state = ""
                if group == "text":
                    shown.append(f"'{MASK}'")
                    continue
            else:
                is_reserved = state == "after word" and part.lower() in _RESERVED
                is_end = part in (",", ";", ")") or _is_property(lexemes, index)
                if not is_reserved and not is_end:
                    shown.append(f"'{MASK}'")
                    state, blank = "in password", ""
                    continue
                state = "after reserved" if is_reserved else ""
        elif state == "after reserved" and not is_between:
            state = ""
            if group == "text":  # such as LIKE 'a'
                shown.append(f"'{MASK}'")
                continue
        is_secret = masks_all or (sets_secret and not names_variables)
        if group in _CLOSED and (is_secret or _VALUE.search(part) is not None):
            shown.append(f"/* {MASK} */" if group == "comment" else f"'{MASK}'")
        elif sets_secret and (group == "text" or part[0].isdigit()):
            shown.append(f"'{MASK}'")
        else:
            shown.append(part)
        if group in ("word", "quoted"):
            named = _sort_of(part.strip('"').lower(), is_set=is_set)
            if named:
                state, sort, is_assigned = "after word", named, False
                sets_secret = sets_secret or names_variables
    return "".join(shown)


def _sort_of(word: str, *, is_set: bool) -> Sort:
    """Return how a word, in lower case, says that a secret follows; "" if it does not."""
    if word == WORD:
        return "password"
    if word in _OPTIONS or (is_set and _NAMED.search(word)):
        return "option"
    return "name" if _NAMED.search(word) else ""


def _ends_password(group: str, part: str) -> bool:
    """Return whether a password, which may have several parts, ends before a part."""
    return part == "," or (group == "blank" and "\n" in part)


def _may_be_statement(part: str) -> bool:
    """Return whether a string, a quoted name or a comment may be a statement with a secret."""
    has_password = WORD in part.lower() and part.strip("'\"$ \n").lower() != WORD
    return has_password or _ASSIGNED.search(part) is not None


def _is_property(lexemes: Sequence[tuple[str, str]], index: int) -> bool:
    """Return whether a property of a user begins here, such as EMAIL = ..."""
    if lexemes[index][1].upper() not in _PROPERTIES:
        return False
    for following in range(index + 1, len(lexemes)):
        group, part = lexemes[following]
        if group not in ("blank", "comment"):
            return part == "="
    return False


def shown_message(text: str, error: errors.SqlError) -> str:
    """Return the head of an error's message as the record has it.

    text: of the statement, whole. Messages quote parts of it, so a statement with a secret has
    none, nor has one that is too long to be searched here. EXECUTE IMMEDIATE of a variable or a
    bind compiles a text that the record does not have, and errors of compilation quote it.
    """
    searched = text[: limits.TEXT_SEARCHED_LENGTH_MAX]
    tail = searched[limits.TEXT_KEPT_LENGTH_MAX - _NAME_LENGTH_MAX :]
    is_masked = (
        len(text) > len(searched)
        or WORD in tail.lower()
        or _ASSIGNED.search(tail) is not None
        or _VALUE.search(tail) is not None
        or MASK in shown_text(text)
        or (error.phase == "COMPILATION" and _executes_another(searched))
    )
    return MASK if is_masked else error.message[: limits.TEXT_KEPT_LENGTH_MAX]


def _executes_another(text: str) -> bool:
    """Return whether a text may have an EXECUTE IMMEDIATE of what is no string."""
    count = len(_IMMEDIATE.findall(text))
    if not count or _EXECUTE.search(text) is None:
        return False
    return count > 1 or _EXECUTES_STRING.match(text) is None


def type_of(text: str, statement_type_id: int | None) -> str:
    """Return the name of a statement's type; its first word where the number says only DDL."""
    if statement_type_id not in (None, outcomes.StatementType.DDL):
        try:
            return outcomes.StatementType(statement_type_id).name
        except ValueError:
            pass
    match = _FIRST_WORD.match(text[: limits.TEXT_KEPT_LENGTH_MAX])
    return "UNKNOWN" if match is None else match[1].upper()
