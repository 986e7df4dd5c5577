"""Lines of SSH keys that come from nodes which nobody need trust, the files that they end in, and a node's own key pair."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes

from ganeti import errors, pathutils, ssh

MASTER, NODE, EVIL, ADMIN = (f"ssh-rsa AAAA{word}" for word in ("master", "node", "evil", "admin"))


@pytest.fixture(autouse=True)
def node(tmp_path: Path) -> Iterator[None]:
    (made,) = MakeNodes(tmp_path, "node1.example.com")
    with made:
        os.makedirs(ssh.UserDir())
        yield


@pytest.mark.parametrize("separator", list("\n\r\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ud800"))
def test_one_line_is_one_line_for_everybody_who_reads_it(separator: str) -> None:
    """What a machine sends as its key must not be a second line, with a key of somebody else, for the next reader."""
    sent = f"{NODE} root@node4{separator}uuid1 {EVIL} root@node4\n"
    with pytest.raises(errors.SshUpdateError, match="not a line of an SSH key"):
        ssh.CheckKeyLine(sent)
    ssh.WriteNodeKeys({"uuid1": [MASTER]})
    with pytest.raises(errors.SshUpdateError):
        ssh.WriteNodeKeys({"uuid1": [MASTER], "node4": [sent]})
    with pytest.raises(errors.SshUpdateError, match="not the uuid or the name"):
        ssh.WriteNodeKeys({"uuid1": [MASTER], f"node4{separator}uuid2": [NODE]})
    assert ssh.ReadNodeKeys() == {"uuid1": [MASTER]}
    # Where such a line has come in before, it stands for nobody else.
    if separator not in "\n\ud800":
        Path(pathutils.SSH_PUB_KEYS_FILE).write_text(f"uuid1 {MASTER}\nnode4 {sent}", newline="")
        with pytest.raises(errors.SshUpdateError, match=r"ganeti_pub_keys, line 2: .* delete that line"):
            ssh.ReadNodeKeys()


@pytest.mark.parametrize(
    "line",
    [f'command="x" {EVIL}', f"  {EVIL[:7]}", "ssh-rsa A!", "foo AAAA", "#ssh-rsa AAAA", f"{EVIL} {'x' * 20000}", ""],
)
def test_a_key_has_no_options_and_the_length_of_a_key(line: str) -> None:
    with pytest.raises(errors.SshUpdateError, match="not a line of an SSH key"):
        ssh.CheckKeyLine(line)
    assert ssh.CheckKeyLine(f"{EVIL}== Müller at home\n") == f"{EVIL}== Müller at home"


def test_lines_of_others_stay_as_they_are_byte_for_byte() -> None:
    """Comments in another encoding, separators that are none for the SSH daemon, options, ends of lines of another system."""
    path = Path(ssh.AuthorizedKeysFile())
    others = f'{ADMIN} Müller\n# \x0b\x1c\n\nfrom="192.0.2.1" {NODE} x\r\n'.encode("latin-1")
    path.write_bytes(others)
    ssh.AuthorizeKeys([f"{MASTER} root@node1"])
    assert path.read_bytes() == others + f"{MASTER} root@node1\n".encode()
    ssh.ForbidKeys([MASTER, EVIL])
    assert path.read_bytes() == others
    ssh.ForbidKeys([NODE])
    assert path.read_bytes() == others[: others.index(b"from")]


def test_a_key_with_a_comment_that_is_not_printable_is_read_without() -> None:
    Path(ssh.UserKeyFiles("rsa")[1]).write_bytes(f"{MASTER} Müller\n".encode("latin-1"))
    assert ssh.ReadUserKey("rsa") == MASTER and ssh.ReadUserKey("ecdsa") == ""


def test_a_node_cannot_call_the_key_of_another_its_own() -> None:
    Path(ssh.UserKeyFiles("rsa")[1]).write_text(f"{MASTER}\n")
    ssh.AuthorizeKeys([f"{ADMIN} root@laptop", f"{NODE} root@node4"])
    known = {"uuid2": [f"{EVIL} x"]}
    names = ("uuid4", "node4.example.com")
    for key, problem in ((EVIL, "key of uuid2"), (MASTER, "of this node, node1"), (ADMIN, "lets somebody else log in")):
        assert problem in (ssh.ClaimProblem(f"{key} root@node4", known, names) or "")
    assert ssh.ClaimProblem(NODE, known, names) is None
    assert ssh.ClaimProblem(EVIL, known, ("uuid2",)) is None
    assert ssh.ClaimProblem(ADMIN, {"uuid4": [ADMIN]}, names) is None


def test_a_key_that_cannot_be_made_leaves_the_one_in_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path, text in zip(ssh.UserKeyFiles("ecdsa"), ("private\n", "public\n"), strict=True):
        Path(path).write_text(text)
    with pytest.raises(errors.SshUpdateError, match="ECDSA keys have 256, 384, 521 bits, not 1000; no key was made"):
        ssh.MakeUserKey("ecdsa", 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.SshUpdateError, match=r"Could not make the SSH key .*not found"):
        ssh.MakeUserKey("ecdsa", 256)
    assert [Path(path).read_text() for path in ssh.UserKeyFiles("ecdsa")] == ["private\n", "public\n"]
    assert len(os.listdir(ssh.UserDir())) == 2


def test_who_changes_the_list_waits_for_others() -> None:
    import threading

    ssh.WriteNodeKeys({})
    inside, let_go = threading.Event(), threading.Event()

    def slowly(known: dict[str, list[str]]) -> ssh.KeysByNode:
        inside.set()
        assert let_go.wait(60)
        return {**known, "uuid1": [MASTER]}

    first = threading.Thread(target=ssh.ChangeNodeKeys, args=(slowly,))
    second = threading.Thread(target=ssh.ChangeNodeKeys, args=(lambda known: {**known, "uuid2": [NODE]},))
    first.start()
    assert inside.wait(60)
    second.start()
    second.join(0.3)
    let_go.set()
    for thread in (first, second):
        thread.join(60)
    assert ssh.ReadNodeKeys() == {"uuid1": [MASTER], "uuid2": [NODE]}
