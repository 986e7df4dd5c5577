"""The users file and logins (doc/reference/rapi.md 2), and whatever a stranger may put into a request."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rapi import WRITER, Basic, Site
from support.timing import Compared

from ganeti import ht
from ganeti.rapi.callers import access
from ganeti.rapi.declared import Argument, ArgumentKind, BodyUse, Method, Resource, Role
from ganeti.rapi.requests.call import ABSENT


def _Users(text):
    return access.ParseUsers(text)[0]


def test_the_lines_of_the_file():
    text = "\n# comment\n  jack abc123  \nmary x read\n\tboth y write , read,,other \nlone\njack abc124 write\n#jill z write\n"
    users, problems = access.ParseUsers(text)
    assert {name: (user.password, set(user.options)) for name, user in users.items()} == {
        "jack": ("abc124", {"write"}),
        "mary": ("x", {"read"}),
        "both": ("y", {"write", "read", "other"}),
    }
    assert [problem.split(",")[0].split(";")[0] for problem in problems] == [
        "line 5 has an option that is not known and has no effect",
        "line 6 has no password and is ignored",
        "line 7 has the same name as line 3",
    ], "the line itself may be a password"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("jack PW wrtie", "an option that is not known"),
        ("jack PW write # note", "an option that is not known"),
        ("jack PW read write", "an option that is not known"),
        ("jack {MD5}x write", "a form of password that is not known"),
        ("jack {MD5 write", "a form of password that is not known"),
        ("jack {HA1}123 write", "no 32 hexadecimal digits after {HA1}"),
        ("jack {HA1}" + "g" * 32, "no 32 hexadecimal digits after {HA1}"),
    ],
)
def test_mistakes_that_take_rights_away_are_named_without_the_password(line, problem):
    text = f"mary x\n{line}\n"
    [found] = access.ParseUsers(text)[1]
    assert found.startswith(f"line 2 has {problem}")
    assert "PW" not in found and "123" not in found and "note" not in found


@pytest.mark.parametrize("line", ["jack x", "jack x read, write", "jack {HA1}" + "aB" * 16, "jack {cleartext}x write"])
def test_right_lines_are_not_complained_about(line):
    assert access.ParseUsers(f"{line}\n")[1] == []


HA1 = "54c12257ee9be413f2f3182435514aae"


@pytest.mark.parametrize(
    ("stored", "right"),
    [
        ("abc123", "abc123"),
        ("{CLEARTEXT}abc123", "abc123"),
        ("{cleartext}{x}", "{x}"),
        ("{HA1}" + HA1, "abc123"),
        ("{ha1}" + HA1.upper(), "abc123"),
        ("geheim-ä", "geheim-ä"),
    ],
)
def test_forms_of_passwords(stored, right):
    user = _Users(f"jack {stored}")["jack"]
    assert user.Fits(right)
    for wrong in ("", right + "x", right[:-1], right.upper() + "X", stored + "x", HA1):
        assert not user.Fits(wrong)


@pytest.mark.parametrize("stored", ["{MD5}abc", "{}", "{", "{abc", "{x y}", "{HA1}", "{HA1}zz", "{SHA}{HA1}" + HA1])
def test_forms_that_let_nobody_in(stored):
    user = _Users(f"jack {stored}")["jack"]
    for password in ("", stored, "abc", "abc123", "zz", stored.partition("}")[2]):
        assert not user.Fits(password)


@pytest.mark.parametrize(("stored", "length"), [("{HA1}" + HA1, 32), ("abc123", 6)])
def test_a_wrong_password_costs_as_much_as_the_right_one(stored, length, monkeypatch):
    """How long an answer takes does not say how much of it is right."""
    compared = Compared(monkeypatch)
    user = _Users(f"jack {stored}")["jack"]
    for password in ("abc123", "abc12x", "x"):
        user.Fits(password)
        assert compared.Take() == [length]


def test_somebody_who_is_not_in_the_file_costs_as_much_as_somebody_who_is(tmp_path, monkeypatch):
    compared = Compared(monkeypatch)
    path = tmp_path / "users"
    path.write_text("jack {HA1}" + HA1 + "\n")
    users = access.Users(str(path))
    users.Load()
    for name in ("jack", "nobody"):
        assert users.Find(name, "wrong") is None
        assert compared.Take() == [32]


def test_the_realm_and_the_name_are_part_of_a_digest():
    assert access.REALM == "Ganeti Remote API"
    assert hashlib.md5(b"jack:Ganeti Remote API:abc123").hexdigest() == HA1
    assert not _Users("jill {HA1}" + HA1)["jill"].Fits("abc123")


TABLE = [
    Resource("/2", "", {"GET": Method(lambda call: _Return(call.caller.name), "", Role.READ)}),
    Resource(
        "/2/any",
        "",
        {
            "PUT": Method(
                lambda call: _Return(None if call.body is ABSENT else call.body),
                "",
                Role.ADMIN,
                body=BodyUse.ANY,
                body_type=ht.TAny,
                arguments=(
                    Argument("flag", ArgumentKind.FLAG, ""),
                    Argument("text", ArgumentKind.TEXT, ""),
                    Argument("fields", ArgumentKind.FIELDS, ""),
                    Argument("tag", ArgumentKind.TEXTS, ""),
                ),
            )
        },
    ),
]


async def _Return(value):
    return value


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(str(tmp_path_factory.mktemp("rapi") / "users"), table=TABLE)


def _Login(site, header):
    return site.Ask("GET", "/2", headers={"Authorization": header})


def _Encoded(text):
    return base64.b64encode(text.encode()).decode()


def test_the_header(site):
    good = _Encoded("reader:secret-of-reader")
    for header in (f"Basic {good}", f"bAsIc   {good}", f"basic {good} and more", f" Basic {good} "):
        assert _Login(site, header).value == "reader"
    for header in (
        f"Digest {good}",
        f"Bearer {good}",
        "Basic !!!",
        f"Basic {_Encoded('reader')}",
        good,
        "",
        "Basic w6Q=",
    ):
        answer = _Login(site, header)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="Ganeti Remote API"'), header
    assert _Login(site, "Basic").status == 400
    assert _Login(site, "Basic  ").status == 400


def test_a_password_may_hold_a_colon(tmp_path):
    site = Site(str(tmp_path / "users"), table=TABLE, users="jack a:b:c\n")
    assert site.Ask("GET", "/2", headers=Basic("jack", "a:b:c")).status == 200


def test_files_that_let_nobody_in(tmp_path, caplog):
    """The reason is logged, and never the content."""
    caplog.set_level(logging.INFO)
    path = tmp_path / "users"
    site = Site(str(path), table=TABLE)

    def status():
        caplog.clear()
        site.users.Load()
        return site.Ask("GET", "/2", headers=Basic("writer", "secret-of-writer")).status

    assert status() == 200
    assert "3 users" in caplog.text
    path.write_bytes(b"writer secret-of-writer write\n\xff\n")
    assert status() == 401
    assert "not UTF-8 at byte" in caplog.text and "nobody can log in" in caplog.text
    path.write_bytes(b"writer secret-of-writer write\n" + b"#" * access.MAX_FILE)
    assert status() == 401
    assert "larger than" in caplog.text
    path.unlink()
    assert status() == 401
    assert "does not exist" in caplog.text
    os.mkdir(path)
    assert status() == 401
    assert "cannot be read: Is a directory" in caplog.text
    os.rmdir(path)
    path.write_text("writer secret-of-writer write\n")
    assert status() == 200
    assert "secret" not in caplog.text


def test_failed_logins_are_logged_without_what_was_typed(site, caplog):
    site.Ask("GET", "/2", headers=Basic("writer", "almost-right"))
    assert "Login of user 'writer' from 192.0.2.7:4711 failed" in caplog.text
    site.Ask("GET", "/2", headers=Basic("password-in-the-wrong-field", "x"))
    assert "Login of an unknown user from 192.0.2.7:4711 failed" in caplog.text
    assert "almost-right" not in caplog.text and "wrong-field" not in caplog.text


# Whatever comes, the answer is one of those that are meant


@given(
    st.text()
    | st.lists(st.sampled_from(["jack", " ", "{HA1}", "x" * 32, "#", "\n", ",", "write", "\x00", "ä"])).map("".join)
)
def test_any_users_file(text):
    users, _ = access.ParseUsers(text)
    for user in users.values():
        assert not user.Fits("never the password of anybody")
        assert user.name and user.password


HEADERS = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"))
FINE = {200, 304, 400, 401, 403, 404, 406, 412, 413, 415, 501}


@given(HEADERS | st.builds("Basic {}".format, st.binary().map(lambda data: base64.b64encode(data).decode())))
def test_any_authorization(site, header):
    assert _Login(site, header).status in {400, 401}


@given(st.text(string.ascii_letters + string.digits + "%&=+;?/.-_~!$'()*,:@", max_size=200))
def test_any_query_string(site, query):
    assert site.Ask("PUT", f"/2/any?{query}", headers=WRITER).status in {200, 400}


@given(st.binary(max_size=300) | st.text('[]{}:,"\\u012eE-.tfn ').map(str.encode))
def test_any_body(site, body):
    assert site.Ask("PUT", "/2/any", body, headers=WRITER).status in {200, 400}


@given(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "get", "X"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=50),
    st.dictionaries(
        st.sampled_from(["Accept", "If-Match", "If-None-Match", "Content-Type", "Content-Length", "Authorization"]),
        HEADERS,
    ),
)
def test_any_request(site, verb, path, headers):
    assert site.Ask(verb, "/" + path, b"{}", headers=headers).status in FINE
