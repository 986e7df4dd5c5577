"""Each error code of a verification is raised by something that is broken, and by nothing before."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from support import configs
from support.master import Master
from support.sshserver import AUTHORIZED, USER_KEY
from support.virtualnode import TOP

from ganeti import constants, locking, objects, opcodes, pathutils, renewal, runtime, ssh
from ganeti.opcodes.types import VERIFY_CODES

WEB = "web.example.org"


def _Codes(master: Master, op: opcodes.OpCode) -> list[str]:
    """The findings with their codes, without the code's own item."""
    master.Run(op)
    return [text.strip() for text in master.last.messages if re.match(r"\s*- (ERROR|WARNING):", text)]


def _Group(**values: Any) -> opcodes.OpCode:
    return opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True, **values)


def _Config() -> opcodes.OpCode:
    return opcodes.OpClusterVerifyConfig(error_codes=True)


def _Answer(key: str, value: Any) -> Callable[[Master], None]:
    """The second node reports something else in its node_verify."""

    def change(master: Master) -> None:
        master[1].edits["node_verify"] = lambda answer: {**answer, key: value}

    return change


def _Instance(**values: Any) -> Callable[[Master], None]:
    return lambda master: master.cfg.Update(master.Instance(WEB).Replace(**values))


def _Node(**values: Any) -> Callable[[Master], None]:
    return lambda master: master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(**values))


def _Secondary(master: Master) -> None:
    """The instance's DRBD disk gets a third node, which no disk of ours has."""
    disk = master.snapshot.InstanceDisks(master.Instance(WEB))[0]
    master.cfg.Update(disk.Replace(nodes=[*disk.nodes, master.nodes[2]]))


def _FailingHook(master: Master) -> None:
    master[1].AddHook("cluster-verify", "post", "check", lambda env: (1, "no good"))


def _OtherGroup(master: Master) -> None:
    master.Run(opcodes.OpGroupAdd(group_name="other"))
    master.Run(opcodes.OpGroupAssignNodes(group_name="other", nodes=[master[1].name], force=True))


def _Twins(master: Master) -> None:
    """Two instances with the same exclusion tag have one primary node."""
    cluster = master.snapshot.cluster
    master.cfg.Update(cluster.Replace(tags=["htools:iextags:service"]))
    web = master.Instance(WEB)
    master.cfg.Update(web.Replace(tags=["service:dns", "other"]))
    twin = objects.Instance(
        name="twin.example.org", primary_node=web.primary_node, os="noop", hypervisor=web.hypervisor,
        admin_state="down", disks_active=False, uuid=configs.Uuid(77), tags=["service:dns", "service:web"],
    )  # fmt: skip
    master.cfg.AddInstance(twin, 1)
    master.glm._sets[locking.LEVEL_INSTANCE].add(twin.name)


def _HypervisorParameters(master: Master) -> None:
    cluster = master.snapshot.cluster
    master.cfg.Update(cluster.Replace(hvparams={**cluster.hvparams, "kvm": {**cluster.hvparams["kvm"], "acpi": 7}}))


def _Expired(master: Master) -> None:
    master[0].Write(pathutils.NODED_CERT_FILE, "no certificate")


# code -> (which verification, how it is broken, what is said)
BROKEN: dict[str, tuple[Callable[[], opcodes.OpCode], Callable[[Master], Any], str]] = {
    "ECLUSTERCERT": (_Config, _Expired, re.escape(pathutils.NODED_CERT_FILE)),
    "ECLUSTERCFG": (_Config, _HypervisorParameters, "acpi"),
    "ECLUSTERCLIENTCERT": (_Group, _Answer("client-cert", [None, "ab:cd"]), "node:node2.*not the one the cluster knows"),
    "EEXTAGS": (_Group, _Twins, f"node:node1.*instances twin.example.org, {WEB} exclude each other by tag 'service:dns'"),
    "EINSTANCEBADNODE": (_Group, _Node(offline=True, master_candidate=False), f"instance:{WEB}:secondary node node2.* offline"),
    "EINSTANCELAYOUT": (_Group, _Secondary, f"instance:{WEB}:it has more than one secondary node"),
    "EINSTANCEPOLICY": (_Group, _Instance(beparams={"maxmem": 65536, "minmem": 128}), f"instance:{WEB}:.*65536"),
    "EINSTANCESPLITGROUPS": (_Group, _OtherGroup, f"instance:{WEB}:its nodes are in different groups"),
    "EINSTANCEWRONGNODE": (_Group, lambda master: master[1].StartGuest(WEB), f"instance:{WEB}:it has a process on node node2"),
    "ENODEFILECHECK": (
        _Group, lambda master: master[2].Write(pathutils.CLUSTER_CONF_FILE, "x"), "node:node3.*should not exist",
    ),
    "ENODEHOOKS": (_Group, _FailingHook, "node:node2.*check"),
    "ENODEHV": (_Group, _Answer("hypervisor", {"kvm": "no /dev/kvm"}), "node:node2.*no /dev/kvm"),
    "ENODENET": (_Group, _Answer("node-net-test", {"node1.example.org": "no route"}), "node:node2.*'node1.*no route"),
    "ENODEORPHANINSTANCE": (_Group, lambda master: master[1].StartGuest("stray.example.org"), "node:node2.*stray.example.org"),
    "ENODEOS": (_Group, lambda master: master[1].AddOs("odd", "one"), "node:node2.*OS odd exists here"),
    "ENODESETUP": (_Group, _Answer("nodesetup", ["no such directory"]), "node:node2.*no such directory"),
    "ENODESSH": (_Group, _Answer("nodelist", {"node1.example.org": "refused"}), "node:node2.*ssh.*refused"),
    "ENODETIME": (_Group, _Answer("time", [7, 0]), "node:node2.*clock differs"),
    "ENODEVERSION": (_Group, _Answer("version", [constants.PROTOCOL_VERSION, "0.1"]), "node:node2.*0[.]1"),
    "ENODEUSERSCRIPTS": (_Group, _Answer("user-scripts", ["/etc/ganeti/setup"]), "node:node2.*/etc/ganeti/setup"),
}  # fmt: skip
# code -> the test that breaks it
ELSEWHERE = {
    "ECLUSTERFILECHECK": "integration/test_verify.py",
    "EGROUPDIFFERENTPVSIZE": "unit/cmdlib/cluster/test_verify_lvm.py",
    "EINSTANCEDOWN": "unit/cmdlib/cluster/test_verify_nodes.py",
    "EINSTANCEFAULTYDISK": "unit/cmdlib/cluster/test_verify_lvm.py",
    "EINSTANCEMISSINGCFGPARAMETER": "unit/cmdlib/cluster/test_verify_lvm.py",
    "EINSTANCEMISSINGDISK": "unit/cmdlib/cluster/test_verify_lvm.py",
    "EINSTANCEUNSUITABLENODE": "unit/cmdlib/cluster/test_verify_lvm.py",
    "ENODEDRBD": "unit/cmdlib/cluster/test_verify_drbd.py",
    "ENODEDRBDHELPER": "unit/cmdlib/cluster/test_verify_drbd.py",
    "ENODEDRBDVERSION": "unit/cmdlib/cluster/test_verify_drbd.py",
    "ENODEFILESTORAGEPATHS": "unit/cmdlib/cluster/test_verify_group.py",
    "ENODEFILESTORAGEPATHUNUSABLE": "unit/cmdlib/cluster/test_verify_group.py",
    "ENODEGLUSTERSTORAGEPATHUNUSABLE": "unit/cmdlib/cluster/test_verify_group.py",
    "ENODELOSS": "unit/cmdlib/cluster/test_verify_group.py",
    "ENODELVM": "unit/cmdlib/cluster/test_verify_lvm.py",
    "ENODEN1": "unit/cmdlib/instance/test_room.py",
    "ENODEOOBPATH": "unit/cmdlib/node/test_power.py",
    "ENODEORPHANLV": "unit/cmdlib/cluster/test_verify_lvm.py",
    "ENODERPC": "unit/cmdlib/cluster/test_verify_drbd.py",
    "ENODESHAREDFILESTORAGEPATHUNUSABLE": "unit/cmdlib/cluster/test_verify_group.py",
}
# No master daemon starts with what these are about.
NEVER = {"ECLUSTERDANGLINGNODES", "ECLUSTERDANGLINGINST"}


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    """Two candidates and another node; the instance has its mirror on the second one."""
    return make(3, candidates=2)


@pytest.mark.parametrize("code", BROKEN)
def test_what_is_broken_is_found(three: Master, code: str) -> None:
    verification, damage, words = BROKEN[code]
    wanted = re.compile(rf"- (ERROR|WARNING):{code}:.*(?:{words})")
    before = _Codes(three, verification())
    assert not [line for line in before if wanted.match(line)]
    damage(three)
    after = _Codes(three, verification())
    assert [line for line in after if wanted.match(line)], after


def test_every_code_is_raised_by_a_test() -> None:
    assert {*BROKEN, *ELSEWHERE, *NEVER} == set(VERIFY_CODES)
    for code, name in ELSEWHERE.items():
        with open(os.path.join(TOP, "test", name), encoding="utf-8") as stream:
            shown = [line for line in stream if code in line and not re.search(r"\bnot\b|\bError(If)?\(", line)]
        assert shown, f"{name} does not show {code}"


def test_nodes_are_told_which_nodes_of_other_groups_to_reach_by_ssh(three: Master) -> None:
    _OtherGroup(three)
    three.cfg.Update(three.snapshot.cluster.Replace(modify_ssh_setup=True))
    for node in three.all:
        node.answers["node_verify"] = {}
    three.Run(_Group())
    names, extra, _ = three[0].arguments["node_verify"][0]["nodelist"]
    assert names == [three[0].name, three[2].name]
    assert extra == {name: [three[1].name] for name in names}


def test_nodes_that_share_a_certificate_are_found(three: Master) -> None:
    """Whoever holds it calls as both, and withdrawing one of them leaves the other one in."""
    first, second, third = three.all

    def found(*digests: str) -> list[str]:
        for node, digest in zip(three.all, digests, strict=True):
            node.edits["node_verify"] = lambda answer, digest=digest: {**answer, "client-cert": [None, digest]}
        return [text for text in _Codes(three, _Group()) if "ECLUSTERCLIENTCERT" in text]

    three.cfg.SetCandidateCerts({first.member.uuid: "A1", second.member.uuid: "B2"})
    assert found("A1", "B2", "C3") == []
    [copied] = found("A1", "B2", "A1")
    assert copied.startswith(f"- ERROR:ECLUSTERCLIENTCERT:node:{third.name}:")
    assert f"the certificate of node {first.name} and" in copied and "renew-crypto --new-node-certificates" in copied
    # An adopted configuration may list one certificate for both: neither node differs from what is recorded.
    three.cfg.SetCandidateCerts({first.member.uuid: "A1", second.member.uuid: "A1"})
    assert [text.split(":")[3] for text in found("A1", "A1", "C3")] == [first.name, second.name]


def _AboutKeys(master: Master, wanted: bool = True) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True, verify_clutter=wanted))
    return [text.strip(" -") for text in master.last.messages if "ENODESSH" in text or "SSH keys" in text]


def _Key(name: str, letter: str = "A") -> str:
    return f"ssh-rsa {letter * 8} root@{name}"


def _GiveKeys(master: Master) -> None:
    """Every node has the keys as a cluster that manages them has."""
    keys = {node.member.uuid: [_Key(node.name, letter)] for node, letter in zip(master.all, "ABC", strict=True)}
    for node in master.all:
        node.Call(runtime.MakeDirs, os.path.dirname(AUTHORIZED))
        node.Write(pathutils.SSH_PUB_KEYS_FILE, ssh.FormatNodeKeys(keys))
        node.Write(f"{USER_KEY}.pub", keys[node.member.uuid][0] + "\n")
        node.Write(AUTHORIZED, "".join(f"{keys[other.member.uuid][0]}\n" for other in master.all[:2]))


def test_keys_of_ssh_are_looked_at_if_that_is_asked_for(three: Master) -> None:
    three.cfg.Update(three.snapshot.cluster.Replace(modify_ssh_setup=False))
    assert _AboutKeys(three) == ["NOTICE: This cluster does not manage SSH keys: authorized_keys was not checked"]
    three.cfg.Update(three.snapshot.cluster.Replace(modify_ssh_setup=True))
    _GiveKeys(three)
    assert _AboutKeys(three) == []
    second, third = three[1], three[2]
    second.Write(
        AUTHORIZED, "".join(f"{_Key(node.name, letter)}\n" for node, letter in zip(three.all, "ABC", strict=True))
    )
    third.Write(AUTHORIZED, "".join(f"{_Key(three[0].name, letter)}\n" for letter in "AXB"))
    assert _AboutKeys(three, wanted=False) == []
    intruder, cluttered = _AboutKeys(three)
    assert intruder.startswith(f"ERROR:ENODESSH:node:{second.name}:")
    assert intruder.endswith(f"lets node {third.name} log in, which is not a candidate")
    assert cluttered.startswith(f"ERROR:ENODESSH:node:{third.name}:There are 3 keys of {three[0].name} in ")


def test_a_node_that_could_not_look_at_its_keys_is_no_clean_one(three: Master) -> None:
    three.cfg.Update(three.snapshot.cluster.Replace(modify_ssh_setup=True))
    _GiveKeys(three)
    three[1].edits["node_verify"] = lambda answer: {key: value for key, value in answer.items() if key != "ssh-clutter"}
    [found] = _AboutKeys(three)
    assert found.startswith(f"ERROR:ENODESSH:node:{three[1].name}:its files of SSH keys were not checked")


def test_guests_whose_qemu_runs_as_root_are_told_and_fail_no_verification(three: Master) -> None:
    def told() -> list[str]:
        assert _Codes(three, _Config()) == usual, "neither an error nor a warning"
        return [text for text in three.last.messages if "as root" in text]

    three.cfg.Update(three.Instance(WEB).Replace(hypervisor="kvm", admin_state="down"))
    usual = _Codes(three, _Config())
    assert told() == []
    three.cfg.Update(three.Instance(WEB).Replace(admin_state="up"))
    [text] = told()
    assert text.startswith(f"  - NOTICE: QEMU runs as root for 1 instance ({WEB}): security_model is 'none'.")
    assert "gnt-cluster modify -H kvm:security_model=pool" in text
    cluster = three.snapshot.cluster
    pool = {**cluster.hvparams["kvm"], "security_model": "pool"}
    three.cfg.Update(cluster.Replace(hvparams={**cluster.hvparams, "kvm": pool}))
    assert told() == []
    three.cfg.Update(three.Instance(WEB).Replace(hvparams={"security_model": "none"}))
    assert len(told()) == 1, "its own value counts"


def test_hypervisor_parameters_that_are_seldom_wanted_are_named_unless_that_is_skipped(three: Master) -> None:
    def told(**values: Any) -> list[str]:
        three.Run(_Group(**values))
        return [text for text in three.last.messages if "Hypervisor parameters of" in text]

    three.cfg.Update(three.Instance(WEB).Replace(hypervisor="fake"))
    assert told() == []
    three.cfg.Update(three.Instance(WEB).Replace(hypervisor="kvm"))
    usual = _Codes(three, _Group())
    [text] = told()
    assert text.startswith(f"  - NOTICE: Hypervisor parameters of 1 instance ({WEB}): cpu_type is not set")
    assert told(skip_checks=["hvparam_assessment"]) == []
    for values, expected in (
        ({}, []),
        ({"vnc_bind_address": "0.0.0.0"}, ["vnc_bind_address is 0.0.0.0 and vnc_password_file is not set"]),
        ({"vnc_bind_address": "0.0.0.0", "vnc_password_file": "/etc/vnc"}, []),
        ({"vnc_bind_address": "127.0.0.1"}, []),
        ({"vnc_bind_address": "/run/vnc"}, []),
        ({"spice_bind": "eth0"}, ["spice_bind is eth0 and spice_password_file is not set"]),
        ({"spice_bind": "::1", "spice_ip_version": 6}, []),
    ):
        three.cfg.Update(three.Instance(WEB).Replace(hvparams={"cpu_type": "host", **values}))
        found = told()
        assert len(found) == len(expected), values
        assert all(words in text for words, text in zip(expected, found, strict=True))
        assert _Codes(three, _Group()) == usual, "neither an error nor a warning"


def test_a_staged_certificate_is_named_with_the_command_also_where_no_list_has_it(three: Master) -> None:
    digests = [":".join([pair] * 20) for pair in ("AB", "CD")]
    secrets = {kind: ["a", None, None] for kind in renewal.SECRETS}
    for node in three.all:
        staged = digests[1] if node is three[2] else None
        node.answers["crypto_look"] = {
            "secrets": secrets, "client": [digests[0], staged, "a", staged and "a"], "listed": [],
        }  # fmt: skip
    [found] = [text for text in _Codes(three, _Group()) if "staged certificate that is not used yet" in text]
    assert f":node:{three[2].name}:" in found
    assert "'gnt-cluster renew-crypto --new-node-certificates' completes the renewal" in found
