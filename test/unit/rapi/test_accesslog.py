"""The access log: the combined format, whole lines, no secrets."""

from __future__ import annotations

import os
import re
import socket

import pytest
from support import allocator
from support.rapi import WRITER, Basic, Site
from support.rapiserver import Ask, RapiServer, ReadAnswer
from support.realcluster import WaitUntil

from ganeti.rapi.callers import accesslog

# Any program that reads the format: host, ident, user, time, request, status, bytes, referer, agent.
LINE = re.compile(
    r"(?P<host>[0-9a-f.:]+) - (?P<user>\S+)"
    r" \[(?P<time>[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4})\]"
    r' "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>[0-9]{3}) (?P<size>[0-9]+|-)'
    r' "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"'
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "rapi-access.log"
    accesslog.Open(str(path))
    yield path
    accesslog.Close()


@pytest.fixture
def site(tmp_path):
    return Site(str(tmp_path / "users"), users='writer secret-of-writer write\nw"\u00e9\\ x\n')


def Read(log):
    text = log.read_bytes().decode("ascii")
    assert text.endswith("\n")
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert None not in found, text
    return [match.groupdict() for match in found]


@pytest.mark.req("D20-LOG-04")
def test_a_request_is_one_line_of_the_combined_format(log, site):
    answer = site.Ask("GET", "/2/features", headers={**WRITER, "User-Agent": "tool/1 (x)", "Referer": "https://a/b"})
    site.Ask("GET", "/nothing")
    site.Ask("GET", "/version", headers=Basic("writer", "wrong"))
    first, missing, rejected = Read(log)
    assert (first["host"], first["user"], first["request"]) == ("192.0.2.7", "writer", "GET /2/features HTTP/1.1")
    assert (first["status"], first["size"]) == ("200", str(len(answer.body)))
    assert (first["referer"], first["agent"]) == ("https://a/b", "tool/1 (x)")
    assert (missing["user"], missing["status"], missing["referer"], missing["agent"]) == ("-", "404", "-", "-")
    assert (rejected["user"], rejected["status"]) == ("-", "401"), "a name that nobody proved is nobody's"


def test_nothing_leaves_its_field(log, site):
    """Quotes, line breaks and controls of a client are escaped, and long headers are cut."""
    hostile = 'x" 200 1\n127.0.0.1 - admin \x1b[2J\x9b\u00e9\\'
    site.Ask("GET", f"/{hostile.replace(' ', '%20')}", headers={"User-Agent": hostile, "Referer": hostile})
    site.Ask("GET", "/version", headers={**Basic('w"\u00e9\\', "x"), "User-Agent": "a" * 5000})
    first, second = Read(log)
    assert first["agent"] == r"x\" 200 1\x0a127.0.0.1 - admin \x1b[2J\xc2\x9b\xc3\xa9" + "\\\\"
    assert first["status"] == "404"
    assert second["user"] == r"w\"\xc3\xa9" + "\\\\"
    assert second["agent"] == "a" * 300


def test_no_secrets(log, site, caplog):
    """What is typed into the wrong place stays out of both logs."""
    caplog.set_level("INFO")
    site.Ask(
        "GET", "/2/features?bulk=1&token=marked&reason=because&pass=marked%20x=marked&to%6ben=marked&blank=&marked="
    )
    site.Ask("GET", "/version", headers={"Referer": "https://me:marked@host/2?token=marked#marked", **WRITER})
    site.Ask("GET", "/version", headers=Basic("marked", "marked"))
    first, second, _ = Read(log)
    shown = "GET /2/features?bulk=1&token=...&reason=because&pass=...&to%6ben=...&blank=&marked= HTTP/1.1"
    assert first["request"] == shown
    assert second["referer"] == "https://host/2"
    lines = [record.getMessage() for record in caplog.records]
    assert f"192.0.2.7:4711 {shown} 200" in lines
    assert "=marked" not in str(lines) and log.read_text().count("marked") == 1, "a name, which is no value"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("http://writer:marked@host/version", "/version"),
        ("HTTPS://writer:marked@host:5080/version?bulk=1", "/version?bulk=1"),
        ("http://writer:marked@host?bulk=1", "/?bulk=1"),
        ("http://writer:mar/marked@host/version", "...@host/version"),
        ("http:%2F%2Fwriter:marked%40host/version", "...%40host/version"),
        ("writer:marked@host:80", "...@host:80"),
        ("/version?token%3Dmarked", "/version?token%3D..."),
        ("/version?token%253dmarked", "/version?token%253d..."),
        ("/version?tag=password%3Dmarked", "/version?tag=password%3D..."),
        ("/version?tag=password=marked", "/version?tag=password=..."),
        ("/version;password=marked", "/version;..."),
        ("/version%3bmarked/x", "/version%3b.../x"),
        ("/version%3Fpassword%3Dmarked", "/version%3Fpassword%3D..."),
    ],
)
@pytest.mark.parametrize("verb", ["GET", "PUT"])
def test_no_secrets_in_a_target(log, site, caplog, tmp_path, verb, target, shown):
    """In three lines: the daemon's log, the audit of what is not only reading, the access log."""
    caplog.set_level("INFO")
    with RapiServer(site.application, allocator.Lease().Address(), str(tmp_path), tls=False) as server:
        with server.Tcp() as sock:
            Ask(sock, f"{verb} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        WaitUntil(lambda: log.read_text(), "the request has its line")
    [line] = Read(log)
    assert line["request"] == f"{verb} {shown} HTTP/1.1"
    lines = [record.getMessage() for record in caplog.records]
    assert len([text for text in lines if text.startswith("audit ")]) == (verb == "PUT")
    assert "marked" not in str(lines) + log.read_text()


def test_a_stranger_writes_little(log, site, caplog, tmp_path):
    """However long the requests are, and whatever their bytes: a few hundred characters in each log."""
    caplog.set_level("INFO")
    requests = [
        b"GET /" + b"a" * 8000 + b" HTTP/1.1\r\n",
        b"PUT /" + b'"' * 8000 + b" HTTP/1.1\r\n",
        b"GET /version?" + b"a" * 8000 + b" HTTP/1.1\r\n",
        b"A" * 8000 + b" /version HTTP/1.1\r\n",
    ]
    with RapiServer(site.application, allocator.Lease().Address(), str(tmp_path), tls=False) as server:
        for request in requests:
            with server.Tcp() as sock:
                headers = b"User-Agent: " + b"\xff" * 5000 + b"\r\nReferer: /" + b"\xff" * 5000
                Ask(sock, request + b"Host: x\r\nConnection: close\r\n" + headers + b"\r\n\r\n")
        WaitUntil(lambda: log.read_text().count("\n") == len(requests), "every request has its line")
    assert {line["status"] for line in Read(log)} <= {"200", "404", "501"}
    assert max(map(len, log.read_text().splitlines())) < 1400
    ours = [record.getMessage() for record in caplog.records if record.name == "root"]
    assert sum(text.startswith("audit ") for text in ours) == 2
    assert max(map(len, ours)) < 1000


def test_the_absolute_form_of_a_target_means_its_path(site, tmp_path):
    with RapiServer(site.application, allocator.Lease().Address(), str(tmp_path), tls=False) as server:
        for target in ("http://x/version", "HTTP://x:5080/version", "http://x"):
            with server.Tcp() as sock:
                sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                assert ReadAnswer(sock)[0] == 200, target


def test_a_rotated_file_is_left(log, site):
    site.Ask("GET", "/version")
    os.rename(log, f"{log}.1")
    site.Ask("GET", "/2")
    assert [line["request"] for line in Read(log)] == ["GET /2 HTTP/1.1"]
    assert oct(os.stat(log).st_mode & 0o777) == "0o600"


def test_a_file_that_cannot_be_written_disturbs_nothing(tmp_path, site, caplog):
    place = tmp_path / "missing" / "rapi-access.log"
    accesslog.Open(str(place))
    try:
        assert f"The access log {place} cannot be written: No such file" in caplog.text
        assert site.Ask("GET", "/version").status == 200
        place.parent.mkdir()
        site.Ask("GET", "/version")
        assert len(Read(place)) == 1, "it is written as soon as that is possible"
    finally:
        accesslog.Close()


def test_on_the_wire(log, site, tmp_path):
    """Bytes as they were sent, requests that are none, and clients that leave."""
    lease = allocator.Lease()
    with RapiServer(site.application, lease.Address(), str(tmp_path), tls=False) as server:
        with server.Tcp() as sock:
            sock.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            assert ReadAnswer(sock)[2] == b"2\n"
        with server.Tcp() as sock:
            refused = Ask(sock, b"nonsense marked\r\n\r\n").partition(b"\r\n\r\n")[2]
        with server.Tcp() as sock:
            sock.sendall(
                b"PUT /2/modify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
            )
            sock.sendall(f"Authorization: {WRITER['Authorization']}\r\n\r\n".encode())
            sock.shutdown(socket.SHUT_RDWR)
        WaitUntil(lambda: log.read_text().count("\n") == 3, "every request has its line")
    whole, unreadable, left = Read(log)
    assert (whole["status"], whole["size"]) == ("200", "2")
    assert (unreadable["request"], unreadable["status"], unreadable["size"]) == ("-", "400", str(len(refused)))
    assert (left["user"], left["status"], left["size"]) == ("writer", "499", "-")
