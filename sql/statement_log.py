"""rule: the record of statements that INFORMATION_SCHEMA.QUERY_HISTORY lists.

It is kept in memory, so it begins with the server's start. The user with the most statements makes
room for new ones. Passwords that stand in a text are left out of the record.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sql import limits, outcomes

WORD: Final = "password"
MASK: Final = "********"
_LEXEME: Final = re.compile(
    r"""
      (?P<blank> \s++ )
    | (?P<comment> (?: -- | // ) [^\n]*+ | /\* .*? (?: \*/ | \Z ) )
    | (?P<text> ' (?: [^'\\] | '' | \\. )*+ (?: ' | \Z ) | \$\$ .*? (?: \$\$ | \Z ) )
    | (?P<quoted> " [^"]*+ (?: " | \Z ) )
    | (?P<word> [^\W\d] [\w$]*+ )
    | (?P<other> \d [^\s,;()='"]*+ | . )
    """,
    re.S | re.X,
)
"""Parts of a statement's text, which may be cut anywhere."""
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
    """Return the head of a text as the record has it, without passwords.

    A password is what follows the word PASSWORD, beside `=`, blanks and comments. Where a string,
    a quoted name or a comment has that word among others, it may be a statement itself: then all
    such parts are masked.
    """
    head = text[: limits.TEXT_KEPT_LENGTH_MAX]
    if WORD not in head.lower():
        return head
    lexemes = [(match.lastgroup or "", match[0]) for match in _LEXEME.finditer(head)]
    masks_all = any(
        WORD in part.lower() and part.strip("'\"$ \n").lower() != WORD
        for group, part in lexemes
        if group in ("text", "quoted", "comment")
    )
    shown: list[str] = []
    state: Literal["", "after word", "after equals", "in password"] = ""
    for group, part in lexemes:
        is_ending = group in ("blank", "comment") or part in "(),;"
        if group in ("text", "quoted") and (masks_all or state in ("after word", "after equals")):
            shown.append(f"'{MASK}'")
            state = ""
        elif group == "comment" and masks_all:
            shown.append(f"/* {MASK} */")
        elif state == "after equals" and not is_ending:
            shown.append(f"'{MASK}'")
            state = "in password"
        elif state != "in password" or is_ending:
            shown.append(part)
        if state == "in password":  # without quotes: up to a blank
            state = "" if is_ending else state
        elif group == "word" and part.lower() == WORD:
            state = "after word"
        elif state == "after word" and part == "=":
            state = "after equals"
        elif group not in ("blank", "comment"):
            state = ""
    return "".join(shown)


def shown_message(text: str, message: str) -> str:
    """Return the head of an error's message as the record has it.

    text: of the statement, whole. Messages quote parts of it, so one with a password has none.
    """
    tail = text[limits.TEXT_KEPT_LENGTH_MAX - len(WORD) :].lower()
    has_password = WORD in tail or MASK in shown_text(text)
    return MASK if has_password else message[: limits.TEXT_KEPT_LENGTH_MAX]


def type_of(text: str, statement_type_id: int | None) -> str:
    """Return the name of a statement's type; its first word where the number says only DDL."""
    if statement_type_id not in (None, outcomes.StatementType.DDL):
        try:
            return outcomes.StatementType(statement_type_id).name
        except ValueError:
            pass
    match = _FIRST_WORD.match(text[: limits.TEXT_KEPT_LENGTH_MAX])
    return "UNKNOWN" if match is None else match[1].upper()
