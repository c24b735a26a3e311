"""The record of statements: what it keeps, and of whom."""

from __future__ import annotations

import time

import pytest

from sql import errors, limits, outcomes, statement_log


def recorded(owner: str, number: int) -> statement_log.RecordedStatement:
    return statement_log.RecordedStatement(
        query_id=str(number),
        owner=owner,
        text="",
        statement_type="SELECT",
        session_id=1,
        user=owner,
        role="PUBLIC",
        warehouse="LOCAL",
        database=None,
        schema=None,
        tag="",
        status="SUCCESS",
        started_at_ms=number,
    )


def test_the_owner_with_the_most_statements_makes_room() -> None:
    log = statement_log.StatementLog(statements_max=5)
    log.add(recorded("few", 0))
    for number in range(1, 10):
        log.add(recorded("many", number))
    assert [each.query_id for each in log.listed("few")] == ["0"]
    assert [each.query_id for each in log.listed("many")] == ["6", "7", "8", "9"]
    assert len(list(log.listed(None))) == 5
    assert list(log.listed("carol")) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("create user u password = 'it''s' x", "create user u password = '********'"),
        (r"alter user u set PASSWORD='a\'b', c", "alter user u set PASSWORD='********', c"),
        ("alter user u set password\n= $$a$$", "alter user u set password\n= '********'"),
        ("alter user u set password = 'no end", "alter user u set password = '********'"),
        ("select 'password'", "select 'password'"),
        ("select password, a from t", "select password, a from t"),
        (
            "alter user u set password /* c */ = 'x'",
            "alter user u set password /* c */ = '********'",
        ),
        ("alter user u set password = -- c\n 'x'", "alter user u set password = -- c\n '********'"),
        ("alter user u set password 'x', b", "alter user u set password '********', b"),
        ('alter user u set password = "x"', "alter user u set password = '********'"),
        ("alter user u set password = hunter2!x, b", "alter user u set password = '********', b"),
        ("alter user u set password=2fast;", "alter user u set password='********';"),
        (
            "execute immediate 'alter user u set password = ''hunter2'''",
            "execute immediate '********'",
        ),
        (r"execute immediate 'alter user u set password = \'x\''", "execute immediate '********'"),
        ("set s = $$alter user u set password = 'x'$$", "set s = '********'"),
        ("select 1 -- set password = 'x'\n, 'y'", "select 1 /* ******** */\n, '********'"),
        # Mistakes, which are recorded too
        ("alter user u set password => 'secret'", "alter user u set password => '********'"),
        ("alter user u set password == 'secret'", "alter user u set password == '********'"),
        ("alter user u set password := 'x'", "alter user u set password := '********'"),
        ("alter user u set password ('x')", "alter user u set password ('********'"),
        ("alter user u set password secret", "alter user u set password '********'"),
        ("alter user u set password: secret; x", "alter user u set password: '********'; x"),
        ("create user u password = 'it's it'\nx", "create user u password = '********'"),
        ("create user u password = 'it's ours\nx", "create user u password = '********'\nx"),
        ("create user u password = my secret\nx", "create user u password = '********'\nx"),
        (
            "create user u password = 'a' 'b' email = 'c'",
            "create user u password = '********' email = 'c'",
        ),
        ("create user u password email = 'c'", "create user u password email = 'c'"),
        ("create user u password = my email is x", "create user u password = '********'"),
        ("alter user u set \"password\" = 'x'", "alter user u set \"password\" = '********'"),
        ("alter user u set password to 'x'", "alter user u set password to '********'"),
        # Columns
        ("select password from t", "select password from t"),
        ("select f(password) from t", "select f(password) from t"),
        ("create table t (password varchar, a int)", "create table t (password varchar, a int)"),
        ("select 1 from t where password is null", "select 1 from t where password is null"),
    ],
)
def test_passwords_are_not_recorded(text: str, shown: str) -> None:
    assert statement_log.shown_text(text) == shown


TOKEN = "BHPTABCDEFGHIJKLMNOP.abcdefgh"
WEB_TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmVk"
PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("set api_token = 'x'", "set api_token = '********'"),
        ("set db_password = 'it's'", "set db_password = '********'"),
        ("set _token = 'x'", "set _token = '********'"),
        ("select f(a__secret_2 => 'x')", "select f(a__secret_2 => '********')"),
        (f"select 'c' --{WEB_TOKEN}", "select 'c' /* ******** */"),
        (f"select 'a-eyJ-{WEB_TOKEN}'", "select '********'"),
        ("select 'token = x\\", "select '********'"),  # cut within an escape
        ("set a = 'db$_token = x'", "set a = '********'"),
        ("set a = 'tokens = x, subtoken = y'", "set a = 'tokens = x, subtoken = y'"),
        ("set pin_secret = 1234", "set pin_secret = '********'"),
        ("SET (a, my_secret) = ('x', 'y')", "SET (a, my_secret) = ('********', '********')"),
        ("set api_token = concat('aa', 'bb')", "set api_token = '********'"),
        (
            "set api_token = 'aa' ||\n 'bb',\n 'c'; select 'd'",
            "set api_token = '********'; select 'd'",
        ),
        ("set password = upper('a', 'b')\n|| 'c'", "set password = '********'"),
        ("set api_token = 'a' email = 'b'", "set api_token = '********'"),
        ("set api_token = , 'a'", "set api_token = , '********'"),
        ("set api_token 'a', 12", "set api_token '********', '********'"),
        ("select 1; set token = f('a', 'b')", "select 1; set token = '********'"),
        ("-- c\nset(token)=('a')", "-- c\nset(token)=('********')"),
        (
            "set (\"my_secret\", a) = (f('x', 1), \"y\"\n|| $$z$$); 'd'",
            "set (\"my_secret\", a) = (f('********', '********'), '********'\n|| '********'); 'd'",
        ),
        ("set a = f(token => 'x', 'y')", "set a = f(token => '********', 'y')"),
        ("set a = 'x', 'y'; select token, 'z'", "set a = 'x', 'y'; select token, 'z'"),
        (f"set a = '{PRIVATE_KEY}'", "set a = '********'"),
        (f"set a = $${WEB_TOKEN}$$", "set a = '********'"),
        (f"set a = '{TOKEN}', b = 'c'", "set a = '********', b = 'c'"),
        (f"select 'c' -- {TOKEN}", "select 'c' /* ******** */"),
        ("alter user u set rsa_private_key = 'x'", "alter user u set rsa_private_key = '********'"),
        (
            "create stage s url = 's3://b'\ncredentials = (aws_key_id = 'a' aws_secret_key = 'b')",
            "create stage s url = 's3://b'\ncredentials = ('********'",
        ),
        (
            "create stage s credentials = (\naws_key_id = 'a'\naws_secret_key = 'b')\nx",
            "create stage s credentials = (\n'********'\naws_secret_key = '********'\nx",
        ),
        ("list @s (master_key='x', a='b')", "list @s (master_key='********', a='b')"),
        ("create secret s secret_string = 'x'", "create secret s secret_string = '********'"),
        (
            "execute immediate 'create stage s credentials = (aws_secret_key = ''x'')'",
            "execute immediate '********'",
        ),
        ("select f(token => 'x', 'y')", "select f(token => '********', 'y')"),
        ("where token = 'x' and a = 'b'", "where token = '********' and a = 'b'"),
        *(
            (text, text)  # without a secret
            for text in (
                "select a.token from a join b on a.token = b.token",
                "alter user u add programmatic access token nightly",
                "alter user u set rsa_public_key = 'x'",
                "select token('x'), secret:a, 'token'",
                "create table t (token varchar, primary key (token))",
                "set tokens_per_row = 'x'",
            )
        ),
    ],
)
def test_keys_and_tokens_are_not_recorded(text: str, shown: str) -> None:
    assert statement_log.shown_text(text) == shown


@pytest.mark.parametrize(
    "part",
    [
        "token_", "set a_", "$_", "a$", "$", "-", "_", ".", "a.", "a-", "'", "''", "\\", "\\'", '"',
        "'a\\'", '"a', "token$", "$token", "token_1", "token1 ", "token\"", "token ", "token:",
        "eyJ-", "eyJ.", "eyJ-eyJabcdefgh.", "eyJabcdefgh.", "-eyJabcdefgh", "BHPT-", "BHPTABCDEFGH",
        "-----BEGIN ", "-----BEGIN PRIVATE KEY", "PRIVATE KEY", "/*", "--", "//", "$$", "(", "1",
        "email ", "email/**/", "set token", "execute ", "immediate ", "execute immediate", "\n",
    ],
)  # fmt: skip
def test_a_text_of_many_parts_is_read_in_linear_time(part: str) -> None:
    text = (part * limits.TEXT_SEARCHED_LENGTH_MAX)[: limits.TEXT_SEARCHED_LENGTH_MAX - 1] + "\\"
    head = f"token {text}"[: limits.TEXT_KEPT_LENGTH_MAX - 1] + "\\"
    started_at = time.process_time()
    message_of(text)
    statement_log.shown_text(head)
    statement_log.type_of(text, None)
    # 0.05 s is usual; a quadratic search of this many characters takes 5 s and more
    assert time.process_time() - started_at < 1


def test_a_text_of_many_names_is_recorded() -> None:
    for text in ("token_" * 10_000, "set " + "a_" * 20_000, "token" + " " * 60_000 + "x"):
        assert statement_log.shown_text(text) == text[: limits.TEXT_KEPT_LENGTH_MAX]
        assert message_of(text) == MESSAGE


MESSAGE = "syntax error line 1 at position 30 unexpected 'hunter2'."


def message_of(text: str, *, phase: errors.Phase = "COMPILATION") -> str:
    return statement_log.shown_message(text, errors.SqlError("1", "2", MESSAGE, phase=phase))


def test_a_message_about_a_statement_with_a_password_is_not_recorded() -> None:
    for text in (
        "alter user u set password = 'hunter2' 'x'",
        "execute immediate 'alter user u set password = ''hunter2'' ''x'''",
        "select 1" + " " * 5000 + "; alter user u set password 'hunter2'",
        " " * 4090 + "PassWord 'hunter2'",
        "set api_token = 'hunter2' 'x'",
        " " * 4090 + "set client_secret = 'hunter2'",
        " " * 5000 + f"select '{WEB_TOKEN}'",
    ):
        assert message_of(text) == "********", text[:80]
    assert message_of("selec") == MESSAGE


@pytest.mark.parametrize(
    ("text", "is_recorded"),
    [
        ("execute immediate $v", False),
        ("EXECUTE /* 'a' */ IMMEDIATE -- b\n ?", False),
        ("select 1;\nexecute immediate :1", False),
        ("execute immediate 'selec'", True),
        ("\n execute immediate $$selec$$", True),
        ("execute immediate 'selec'; execute immediate $v", False),
        ("execute immediately", True),
        ("create table t (a int unique initially immediate", True),
    ],
)
def test_a_message_about_a_text_that_is_not_recorded_is_not_recorded(
    text: str, is_recorded: bool
) -> None:
    assert message_of(text) == (MESSAGE if is_recorded else "********")
    assert message_of(text, phase="RUNTIME") == MESSAGE


def test_a_text_is_searched_for_a_password_within_a_bound() -> None:
    most = limits.TEXT_SEARCHED_LENGTH_MAX
    assert message_of("select 1".ljust(most)) == MESSAGE
    assert message_of("select 1".ljust(most + 1)) == "********"


@pytest.mark.parametrize(
    ("text", "number", "name"),
    [
        ("select 1", outcomes.StatementType.SELECT, "SELECT"),
        ("/* x */ -- y\n create table t", outcomes.StatementType.DDL, "CREATE"),
        ("selec", None, "SELEC"),
        ("'", None, "UNKNOWN"),
        ("-" * 60, None, "UNKNOWN"),  # many ways to split it into comments
        ("/" * 60, None, "UNKNOWN"),
        ("/**//**/" * 60 + "7", None, "UNKNOWN"),
        ("(" * 4000 + "select", None, "SELECT"),
    ],
)
def test_the_type_of_a_statement(text: str, number: int | None, name: str) -> None:
    assert statement_log.type_of(text, number) == name
