"""SSH keys of three virtual nodes: a stand-in for ssh runs each command on the node it names."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes, Node

from ganeti import errors, pathutils, ssconf, ssh, x509
from ganeti.backend.trust import sshcheck, sshkeys, sshrenewal

NAMES = ("node1.example.com", "node2.example.com", "node3.example.com")
UUIDS = tuple(f"0000000{number}-0000-4000-8000-000000000000" for number in (1, 2, 3))
SERVER = x509.MakeServerPem()

# Runs the last word as a command, as sshd would; nodes in the file "down" do not answer.
SSH = """#!/bin/sh
host=$(eval "echo \\${$(($# - 1))}"); host=${host#*@}
grep -qsx "$host" BASE/down && { echo "connect to host $host: no route" >&2; exit 255; }
for command; do :; done
exec sh -c "$command"
"""


def key(number: int, which: str = "") -> str:
    return f"ssh-rsa AAAA{number}{which} root@{NAMES[number - 1]}"


class Cluster:
    """node1 is the master; 1 and 2 are candidates, 3 could become one."""

    def __init__(self, base: Path):
        self.base = base
        self.nodes = MakeNodes(base, *NAMES)
        program = base / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(SSH.replace("BASE", str(base)))
        program.chmod(0o755)
        helper = base / "bin" / "ssh-update"
        helper.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path[:0] = [{str(Path(__file__).parents[3])!r}]\n"
            "from ganeti.tools.ssh_update import Main\nsys.exit(Main())\n"
        )
        helper.chmod(0o755)
        self.helper = str(helper)
        known = {uuid: [key(number)] for number, uuid in enumerate(UUIDS, 1)}
        for number, node in enumerate(self.nodes, 1):
            with node:
                os.makedirs(pathutils.LOCK_DIR, exist_ok=True)
                Path(pathutils.NODED_CERT_FILE).write_text(SERVER)
                ssconf.WriteSsconfFiles(
                    {
                        "cluster_name": "c.example.com",
                        "master_node": NAMES[0],
                        "online_nodes": "\n".join(NAMES),
                        "ssh_ports": "\n".join(f"{name}=22" for name in NAMES),
                    }
                )
                ssh.WriteNodeKeys(known)
                ssh.AuthorizeKeys([key(1), key(2)])
                Path(ssh.UserKeyFiles("rsa")[1]).write_text(key(number) + "\n")
                Path(ssh.UserKeyFiles("rsa")[0]).write_text("private\n")

    def Authorized(self, number: int) -> list[str]:
        with self.nodes[number - 1]:
            return ssh.ReadIfThere(ssh.AuthorizedKeysFile()).splitlines()

    def Known(self, number: int) -> dict[str, list[str]]:
        with self.nodes[number - 1]:
            return ssh.ReadNodeKeys()

    def Problems(self, number: int, candidates: tuple[int, ...] = (1, 2)) -> list[str]:
        rows = [[UUIDS[n - 1], NAMES[n - 1], n in candidates, True, True] for n in (1, 2, 3)]
        with self.nodes[number - 1]:
            return sshkeys.VerifySetup(rows, "rsa", NAMES[number - 1])


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    master: Node = made.nodes[0]
    with master:
        monkeypatch.setattr(pathutils, "SSH_UPDATE", made.helper)
        yield made


def test_a_new_candidate_may_log_in_everywhere(cluster: Cluster) -> None:
    assert cluster.Problems(2) == [] and len(cluster.Problems(1, (1, 2, 3))) == 1
    assert sshkeys.AddNodeKeys(UUIDS[2], NAMES[2], NAMES, True, True, False) == []
    for number in (1, 2):
        assert cluster.Authorized(number) == [key(1), key(2), key(3)]
        assert cluster.Problems(number, (1, 2, 3)) == []
    # As often as one likes.
    assert sshkeys.AddNodeKeys(UUIDS[2], NAMES[2], NAMES, True, True, False) == []
    assert cluster.Authorized(2) == [key(1), key(2), key(3)]


def test_a_joining_nodes_key_moves_from_its_name_to_its_uuid(cluster: Cluster) -> None:
    known = ssh.ReadNodeKeys()
    ssh.WriteNodeKeys({**{uuid: known[uuid] for uuid in UUIDS[:2]}, NAMES[2]: [key(3)]})
    with cluster.nodes[2]:
        ssh.WriteNodeKeys({})
    assert sshkeys.AddNodeKeys(UUIDS[2], NAMES[2], NAMES, False, True, True) == []
    for number in (1, 2, 3):
        assert cluster.Known(number) == known
    assert cluster.Authorized(2) == [key(1), key(2)]
    with pytest.raises(errors.RpcCallError, match="No SSH key of node other"):
        sshkeys.AddNodeKeys("uuid", "other", NAMES, True, True, True)


def test_a_removed_node_may_log_in_nowhere(cluster: Cluster) -> None:
    assert sshkeys.RemoveNodeKeys(UUIDS[1], NAMES[1], UUIDS[:1], NAMES, True, True, True, True, False) == []
    for number in (1, 3):
        assert cluster.Authorized(number) == [key(1)]
        assert UUIDS[1] not in cluster.Known(number)
    assert cluster.Authorized(2) == [key(2)] and cluster.Known(2) == {}
    ((name, text),) = sshkeys.RemoveNodeKeys(UUIDS[1], NAMES[1], UUIDS[:1], NAMES, True, True, False, False, False)
    assert name == NAMES[1] and "none was removed" in text
    assert sshkeys.RemoveNodeKeys(UUIDS[1], NAMES[1], UUIDS[:1], NAMES, True, True, False, False, True) == []


def test_a_node_that_comes_back_has_its_new_key_only(cluster: Cluster) -> None:
    known = ssh.ReadNodeKeys()
    ssh.WriteNodeKeys({**known, NAMES[1]: [key(2, "new")]})
    assert sshkeys.RemoveNodeKeys(UUIDS[1], NAMES[1], UUIDS[:2], NAMES, True, True, False, False, True) == []
    assert cluster.Authorized(3) == [key(1)]
    assert sshkeys.AddNodeKeys(UUIDS[1], NAMES[1], NAMES, True, True, True) == []
    for number in (1, 3):
        assert cluster.Authorized(number) == [key(1), key(2, "new")]
        assert cluster.Known(number) == {**known, UUIDS[1]: [key(2, "new")]}


def test_a_node_that_is_down_is_named_and_stops_no_other(cluster: Cluster) -> None:
    (cluster.base / "down").write_text(f"{NAMES[1]}\n")
    ((name, text),) = sshkeys.AddNodeKeys(UUIDS[2], NAMES[2], NAMES, True, True, True)
    assert name == NAMES[1] and "no route" in text
    assert cluster.Authorized(1)[-1] == key(3)
    assert cluster.Authorized(2) == [key(1), key(2)]


def test_renewed_keys_replace_the_old_ones_everywhere(cluster: Cluster) -> None:
    assert sshrenewal.RenewKeys(UUIDS, NAMES, UUIDS[:2], NAMES, "rsa", "rsa", 1024) == []
    known = cluster.Known(1)
    assert set(known) == set(UUIDS) and all(len(lines) == 1 for lines in known.values())
    old = {key(1), key(2), key(3)}
    assert not old & {line for lines in known.values() for line in lines}
    for number in (1, 2, 3):
        assert cluster.Known(number) == known
        assert cluster.Authorized(number) == [known[UUIDS[0]][0], known[UUIDS[1]][0]]
        assert cluster.Problems(number) == []
        with cluster.nodes[number - 1]:
            private, public = ssh.UserKeyFiles("rsa")
            assert ssh.SameKey(Path(public).read_text(), known[UUIDS[number - 1]][0])
            assert "PRIVATE KEY" in Path(private).read_text()
    assert not list(Path(ssh.UserDir()).glob("*_new*"))


def _LetAliceIn(cluster: Cluster, *numbers: int) -> None:
    for number in numbers:
        with cluster.nodes[number - 1]:
            ssh.AuthorizeKeys([ALICE])


ALICE = "ssh-rsa AAAAadmin alice@desk"


@pytest.mark.parametrize("act", ["renewal", "removal"])
def test_a_node_that_calls_an_administrators_key_its_own_does_not_lock_her_out(cluster: Cluster, act: str) -> None:
    """The master does not know her key when node3 claims it; she logs in to node2, and later to the master."""
    _LetAliceIn(cluster, 2)
    claim = ssh.KeyOfNode(ALICE, NAMES[2])
    assert ssh.ClaimProblem(claim, ssh.ReadNodeKeys(), (UUIDS[2], NAMES[2])) is None
    ssh.ChangeNodeKeys(lambda known: {**known, UUIDS[2]: [claim]})
    _LetAliceIn(cluster, 1)
    assert "lets somebody else log in" in (ssh.ClaimProblem(claim, ssh.ReadNodeKeys(), (UUIDS[2], NAMES[2])) or "")
    if act == "renewal":
        failures = sshrenewal.RenewKeys(UUIDS, NAMES, UUIDS[:2], NAMES, "rsa", "rsa", 1024)
    else:
        failures = sshkeys.RemoveNodeKeys(UUIDS[2], NAMES[2], UUIDS[:2], NAMES, True, True, True, True, False)
    assert any("alice@desk" in text or "lets somebody else log in" in text for _, text in failures), failures
    for number in (1, 2):
        assert ALICE in cluster.Authorized(number)


def test_keys_of_the_original_are_withdrawn_whatever_their_comments(cluster: Cluster) -> None:
    former = "ssh-rsa AAAAformer made by hand"
    ssh.ChangeNodeKeys(lambda known: {**known, UUIDS[2]: [former]})
    for number in (1, 2, 3):
        with cluster.nodes[number - 1]:
            ssh.AuthorizeKeys([former])
    assert sshrenewal.RenewKeys(UUIDS, NAMES, UUIDS[:2], NAMES, "rsa", "rsa", 1024) == []
    assert not any(former in cluster.Authorized(number) for number in (1, 2, 3))


def test_what_verify_finds(cluster: Cluster) -> None:
    ssh.ForbidKeys([key(2)])
    ssh.AuthorizeKeys([key(3)])
    ssh.WriteNodeKeys({UUIDS[0]: [key(1, "x")], UUIDS[1]: [key(2)], UUIDS[2]: [key(3)], "stranger": [key(3, "y")]})
    text = "\n".join(cluster.Problems(1))
    for part in (
        "'stranger', which is not a node",
        "not the one",
        "candidate node2.example.com is missing",
        "lets node node3",
    ):
        assert part in text
    rows = [[uuid, name, True, False, True] for uuid, name in zip(UUIDS, NAMES, strict=True)]
    assert "should not exist" in sshkeys.VerifySetup(rows, "rsa", NAMES[0])[0]
    assert "is missing in the list" in sshkeys.VerifySetup([], "rsa", NAMES[0])[0]
    os.unlink(pathutils.SSH_PUB_KEYS_FILE)
    [lost] = cluster.Problems(1)
    assert "does not exist" in lost and "--readd" not in lost and "gnt-cluster renew-crypto --new-ssh-keys" in lost
    with cluster.nodes[1]:
        os.unlink(pathutils.SSH_PUB_KEYS_FILE)
    assert f"gnt-node add --readd {NAMES[1]}" in cluster.Problems(2)[0]
    assert sshkeys.FindClutter(rows) == []
    ssh.AuthorizeKeys([key(3, "z")])
    assert "2 keys of node3.example.com" in sshkeys.FindClutter(rows)[0]


def test_a_node_that_was_just_added_is_waited_for(cluster: Cluster) -> None:
    """The files of the new configuration reach the master a moment after the configuration has changed."""
    fresh = "\n".join(NAMES)
    with cluster.nodes[0]:
        ssconf.WriteSsconfFiles({"online_nodes": "\n".join(NAMES[:2])})
        late = threading.Timer(0.5, lambda: ssconf.WriteSsconfFiles({"online_nodes": fresh}))
        late.start()
        assert sshkeys.AddNodeKeys(UUIDS[2], NAMES[2], NAMES, True, True, True) == []
        late.join()
    assert cluster.Known(3).keys() == set(UUIDS)


def Renew(kind: str = "rsa", bits: int = 1024) -> list[list[str]]:
    return sshrenewal.RenewKeys(UUIDS, NAMES, UUIDS[:2], NAMES, "rsa", kind, bits)


def test_a_request_that_makes_no_sense_touches_no_key(cluster: Cluster) -> None:
    """The kind of a key becomes a part of a file's name."""
    before = [cluster.Authorized(number) for number in (1, 2, 3)]
    for kinds in (("rsa", "../x"), ("../x", "rsa")):
        with pytest.raises(errors.SshUpdateError, match="is not known"):
            sshrenewal.RenewKeys(UUIDS, NAMES, UUIDS[:2], NAMES, *kinds, 1024)
    with pytest.raises(errors.RpcCallError, match="as many names as uuids"):
        sshrenewal.RenewKeys(UUIDS, NAMES[:2], UUIDS[:2], NAMES, "rsa", "rsa", 1024)
    assert [cluster.Authorized(number) for number in (1, 2, 3)] == before


def test_keys_are_replaced_only_after_every_node_accepts_the_new_ones(cluster: Cluster) -> None:
    """A node is away: nobody's key changes; the old ones stay good, and the next run leaves only new ones."""
    for round_ in range(2):
        (cluster.base / "down").write_text(f"{NAMES[1]}\n")
        failed = Renew()
        assert {name for name, _ in failed} == {NAMES[1]} and "no route" in failed[0][1]
        for number in (1, 2, 3):
            assert {key(1), key(2)} <= set(cluster.Authorized(number)), round_
            with cluster.nodes[number - 1]:
                assert Path(ssh.UserKeyFiles("rsa")[1]).read_text().strip() == key(number)
    (cluster.base / "down").unlink()
    assert Renew() == []
    for number in (1, 2, 3):
        assert len(cluster.Authorized(number)) == 2 and not {key(1), key(2)} & set(cluster.Authorized(number))
        assert cluster.Problems(number) == []


def test_no_key_is_replaced_by_one_that_the_ssh_daemon_of_a_node_does_not_accept(cluster: Cluster) -> None:
    """As ecdsa keys, or rsa keys of 1024 bits, by its own settings; the key before stays the one that everybody uses."""
    program = cluster.base / "bin" / "ssh"
    only = f"-oIdentityFile={ssh.UserKeyFiles('ecdsa', '_new')[0]} "
    program.write_text(
        program.read_text().replace(
            "for command;",
            f"case \"$host $*\" in {NAMES[1]}*'{only}'*) echo Permission denied >&2; exit 255;; esac; for command;",
        )
    )
    ((name, text),) = Renew("ecdsa", 256)
    assert name == NAMES[1] and f"does not let the new key {only.partition('=')[2]}of this node in: Permission" in text
    assert "choose others with --ssh-key-type" in text
    for number in (1, 2, 3):
        assert {key(1), key(2)} <= set(cluster.Authorized(number))
        assert key(number) in cluster.Known(1)[UUIDS[number - 1]]
        with cluster.nodes[number - 1]:
            assert ssh.ReadUserKey("ecdsa") == "" and ssh.ReadUserKey("rsa") == key(number)


def test_a_node_that_goes_down_in_between_keeps_what_it_needs(cluster: Cluster) -> None:
    """It falls silent when a step has begun; whatever key it has then, its old one or the new one, lets it in."""
    program = cluster.base / "bin" / "ssh"
    script = program.read_text()
    for words in ("ssh-update", "mv -f", '"remove"'):
        # From this command on node2 does not answer, ssh-update gets its orders on standard input.
        program.write_text(
            script.replace(
                "for command;",
                f"if [ $host = {NAMES[1]} ]; then input=$(cat; echo .); case \"$* $input\" in *'{words}'*)"
                f" echo $host > {cluster.base}/down; echo broke >&2; exit 255;; esac; for command; do :; done;"
                ' printf %s "${input%.}" | sh -c "$command"; exit; fi; for command;',
            )
        )
        assert {name for name, _ in Renew()} == {NAMES[1]}, words
        with cluster.nodes[1]:
            used = Path(ssh.UserKeyFiles("rsa")[1]).read_text().strip()
        with cluster.nodes[0]:
            masters = Path(ssh.UserKeyFiles("rsa")[1]).read_text().strip()
        for number in (1, 2, 3):
            lines = cluster.Authorized(number)
            assert any(ssh.SameKey(masters, line) for line in lines), (words, number)
            assert any(ssh.SameKey(used, line) for line in lines), (words, number)
        assert "several keys" in "\n".join(cluster.Problems(1)) or words == "ssh-update"
        (cluster.base / "down").unlink()
        program.write_text(script)
        assert Renew() == []
        for number in (1, 2, 3):
            assert cluster.Problems(number) == [] and len(cluster.Authorized(number)) == 2, words


def test_keys_of_another_type_replace_the_old_ones(cluster: Cluster) -> None:
    assert Renew("ecdsa", 256) == []
    for number in (1, 2, 3):
        assert all(line.startswith("ecdsa-") for line in cluster.Authorized(number))
        rows = [[UUIDS[n - 1], NAMES[n - 1], n in (1, 2), True, True] for n in (1, 2, 3)]
        with cluster.nodes[number - 1]:
            assert sshkeys.VerifySetup(rows, "ecdsa", NAMES[number - 1]) == []


# A node can withdraw only its own keys


ADMIN = "ssh-ed25519 AAAAadmin admin@laptop"


def AuthorizeAdmin(cluster: Cluster) -> None:
    for node in cluster.nodes:
        with node:
            ssh.AuthorizeKeys([ADMIN])


def test_a_node_that_has_filed_the_masters_key_as_its_own_locks_nobody_out(cluster: Cluster) -> None:
    ssh.WriteNodeKeys({**ssh.ReadNodeKeys(), UUIDS[2]: [key(1)]})
    ((name, text),) = sshkeys.RemoveNodeKeys(UUIDS[2], NAMES[2], UUIDS[:2], NAMES, True, True, False, False, True)
    assert name == NAMES[2] and f"stays accepted: it is the key of {UUIDS[0]}" in text
    for number in (1, 2, 3):
        assert key(1) in cluster.Authorized(number)
    assert UUIDS[2] not in cluster.Known(2)


def test_what_a_node_calls_its_key_in_use_is_withdrawn_from_that_node_alone(cluster: Cluster) -> None:
    AuthorizeAdmin(cluster)
    with cluster.nodes[1]:
        ssh.AuthorizeKeys(["ssh-rsa AAAAelsewhere x"])
    with cluster.nodes[2]:
        Path(ssh.UserKeyFiles("rsa")[1]).write_text(ADMIN + "\n")
    assert Renew() == []
    assert all(ADMIN in cluster.Authorized(number) for number in (1, 2, 3))
    with cluster.nodes[2]:
        Path(ssh.UserKeyFiles("rsa")[1]).write_text("ssh-rsa AAAAelsewhere x\n")
        ssh.AuthorizeKeys(["ssh-rsa AAAAelsewhere x"])
    assert Renew() == []
    assert "ssh-rsa AAAAelsewhere x" in cluster.Authorized(2)
    assert "ssh-rsa AAAAelsewhere x" not in cluster.Authorized(3)


def test_the_key_of_a_node_that_is_on_no_list_is_withdrawn_where_it_is_known_as_that_nodes(cluster: Cluster) -> None:
    known = ssh.ReadNodeKeys()
    del known[UUIDS[1]]
    ssh.WriteNodeKeys(known)
    assert Renew() == []
    assert all(
        len(cluster.Authorized(number)) == 2 and key(2) not in cluster.Authorized(number) for number in (1, 2, 3)
    )


@pytest.mark.parametrize("sent", ["AAAA1 me", "AAAA3\x0bssh-rsa AAAAx", "AAAAadmin me", "A" * 20000])
def test_a_new_key_that_cannot_be_the_nodes_own_ends_the_renewal_before_anything_is_replaced(
    cluster: Cluster, sent: str
) -> None:
    AuthorizeAdmin(cluster)
    program = cluster.base / "bin" / "ssh"
    line = f"{ADMIN.split()[0] if 'admin' in sent else 'ssh-rsa'} {sent}"
    # node3 runs the program of its root's choice.
    program.write_text(
        program.read_text().replace("exec sh", f"[ $host != {NAMES[2]} ] || {{ echo '{line}'; exit; }}; exec sh")
    )
    ((name, text),) = Renew()
    assert name == NAMES[2] and "did not send a usable SSH key" in text and len(text) < 400
    for number in (1, 2):
        assert cluster.Authorized(number) == [key(1), key(2), ADMIN]
        assert cluster.Problems(number) == []


# Nodes that the procedure cannot see, or that come back


def test_no_online_node_is_left_out_of_a_renewal(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the configuration in which it is online again have not reached the master."""
    monkeypatch.setattr(sshkeys, "_FILES_WITHIN", 0.2)
    ssconf.WriteSsconfFiles({"online_nodes": "\n".join([NAMES[0], NAMES[2]])})
    ((name, text),) = Renew()
    assert name == NAMES[1] and "do not list it as online yet" in text
    for number in (1, 2, 3):
        assert cluster.Authorized(number) == [key(1), key(2)]


# Nodes that cannot become candidates


def Rows() -> list[list[object]]:
    return [
        [uuid, name, number < 2, number < 2, True] for number, (uuid, name) in enumerate(zip(UUIDS, NAMES, strict=True))
    ]


def test_keys_of_nodes_that_cannot_become_candidates_are_on_no_list(cluster: Cluster) -> None:
    known = ssh.ReadNodeKeys()
    ssh.WriteNodeKeys({UUIDS[0]: known[UUIDS[0]], UUIDS[1]: known[UUIDS[1]], NAMES[2]: [key(3)]})
    assert sshkeys.AddNodeKeys(UUIDS[2], NAMES[2], NAMES[:2], False, False, False) == []
    assert sshkeys.VerifySetup(Rows(), "rsa", NAMES[0]) == []
    # node2 has one of a time when it could, which the renewal removes.
    assert "renew-crypto --new-ssh-keys' removes it" in Verified(cluster, 2)[0]
    with cluster.nodes[2]:
        os.unlink(pathutils.SSH_PUB_KEYS_FILE)
    assert sshrenewal.RenewKeys(UUIDS, NAMES, UUIDS[:2], NAMES[:2], "rsa", "rsa", 1024) == []
    assert [Verified(cluster, number) for number in (1, 2, 3)] == [[], [], []]


def Verified(cluster: Cluster, number: int) -> list[str]:
    with cluster.nodes[number - 1]:
        return sshkeys.VerifySetup(Rows(), "rsa", NAMES[number - 1])


def test_a_damaged_list_is_a_finding_of_verify_that_says_where(cluster: Cluster) -> None:
    with open(pathutils.SSH_PUB_KEYS_FILE, "a", encoding="utf-8") as stream:
        stream.write("uuid nonsense\n")
    [problem] = cluster.Problems(1)
    assert f"{pathutils.SSH_PUB_KEYS_FILE}, line 4" in problem


def test_the_master_keeps_little_of_what_a_node_says_over_ssh(cluster: Cluster) -> None:
    program = cluster.base / "bin" / "ssh"
    program.write_text("#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' '\\377'\n")
    problem = sshcheck.HostNameProblem(NAMES[1], "c.example.com", 22)
    assert problem is not None and "hostname mismatch" in problem and len(problem) < 300
    program.write_text("#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2; exit 255\n")
    problem = sshcheck.HostNameProblem(NAMES[1], "c.example.com", 2222)
    assert problem is not None and len(problem) < 1200
    # The command that is named meets what this one has met.
    assert "HostKeyAlias=c.example.com" in problem and "Port=2222" in problem and "known_hosts" in problem


def test_a_renewal_that_was_interrupted_is_to_be_completed_and_no_node_added_again(cluster: Cluster) -> None:
    """Nodes use their new keys already; the list has old and new ones, or the new ones while the type is the old one's."""
    known = ssh.ReadNodeKeys()
    with cluster.nodes[1]:
        _, public = ssh.UserKeyFiles("ecdsa")
        Path(public).write_text("ecdsa-sha2-nistp256 AAAAnew root@node2\n", encoding="utf-8")
        fresh = ssh.ReadUserKey("ecdsa")
        os.unlink(ssh.UserKeyFiles("rsa")[1])
        for keys in ([*known[UUIDS[1]], fresh], [fresh]):
            ssh.WriteNodeKeys({**known, UUIDS[1]: keys})
            said = " ".join(Verified(cluster, 2))
            assert "--readd" not in said and "There is no SSH key of type rsa" in said
            assert "'gnt-cluster renew-crypto --new-ssh-keys' completes the renewal of SSH keys" in said
        ssh.WriteNodeKeys(known)
        assert "'gnt-node add --readd" in " ".join(Verified(cluster, 2))
