"""ssconf: what stands in the files, writing under the lock, reading on a node (doc/reference/files.md 7)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import configs
from support.nodes import MakeNodes, Node

from ganeti import constants, errors, objects, pathutils, runtime, ssconf
from ganeti.params import hv
from ganeti.server import exporting

NET = configs.Uuid(5)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (made,) = MakeNodes(tmp_path, "node1.example.org")
    with made:
        os.makedirs(pathutils.LOCK_DIR, exist_ok=True)
        yield made


def _Root() -> objects.Snapshot:
    """Three nodes with all that ssconf tells of: tags, a network, an offline node, user ids."""
    root = configs.Example()
    first = root.nodes[configs.NODE1]
    third = first.Replace(
        uuid=configs.Uuid(3), name="node10.example.org", master_candidate=False, offline=True, vm_capable=False,
        primary_ip="192.0.2.20", secondary_ip="198.51.100.20", ndparams={"ssh_port": 2222},
    )  # fmt: skip
    network = objects.Network(name="lan", network="10.0.0.0/24", uuid=NET)
    cluster = root.cluster.Replace(tags=["b", "a"], uid_pool=[[4000, 4019], [5000, 5000]])
    other = root.instances[configs.WEB].Replace(uuid=configs.Uuid(8), name="a10", disks=[], network_port=None)
    for obj in (third, network, cluster, other, other.Replace(uuid=configs.Uuid(9), name="a9")):
        root = root.WithObject(obj)
    return root


def test_every_key_as_3_1_writes_it() -> None:
    values = ssconf.Values(_Root())
    assert len(values) == 34
    hvparams = {name: values.pop(name) for name in list(values) if name.startswith("hvparams_")}
    assert set(hvparams) == {f"hvparams_{name}" for name in constants.HYPER_TYPES}
    assert values == {
        "cluster_name": "cluster.example.org",
        "cluster_tags": "a\nb",
        "file_storage_dir": "/srv/ganeti/file-storage",
        "shared_file_storage_dir": "",
        "gluster_storage_dir": "",
        "master_candidates": "node1.example.org\nnode2.example.org",
        "master_candidates_ips": "192.0.2.11\n192.0.2.12",
        "master_candidates_certs": f"{configs.NODE1}=0A:1B:...:FF\n{configs.NODE2}=9C:00:...:1E",
        "master_ip": "192.0.2.1",
        "master_netdev": "br0",
        "master_netmask": "32",
        "master_node": "node1.example.org",
        "node_list": "node1.example.org\nnode2.example.org\nnode10.example.org",
        "node_primary_ips": "node1.example.org 192.0.2.11\nnode2.example.org 192.0.2.12\nnode10.example.org 192.0.2.20",
        "node_secondary_ips": (
            "node1.example.org 198.51.100.11\nnode2.example.org 198.51.100.12\nnode10.example.org 198.51.100.20"
        ),
        "node_vm_capable": "node1.example.org=True\nnode2.example.org=True\nnode10.example.org=False",
        "offline_nodes": "node10.example.org",
        "online_nodes": "node1.example.org\nnode2.example.org",
        "primary_ip_family": "2",
        "instance_list": "a9\na10\nweb.example.org",
        "release_version": constants.RELEASE_VERSION,
        "hypervisor_list": "kvm",
        "maintain_node_health": "False",
        "uid_pool": "4000-4019\n5000",
        "nodegroups": f"{configs.GROUP} default",
        "networks": f"{NET} lan",
        "enabled_user_shutdown": "False",
        "ssh_ports": "node1.example.org=22\nnode2.example.org=22\nnode10.example.org=2222",
    }


def test_parameters_of_hypervisors() -> None:
    lines = ssconf.Values(_Root())["hvparams_kvm"].split("\n")
    assert lines == sorted(lines)
    assert len(lines) == 65
    for line in ("acpi=True", "migration_port=8102", "vnc_bind_address=", "use_chroot=False"):
        assert line in lines
    root = _Root()
    values = {**root.cluster.hvparams, "kvm": {**hv.DEFAULTS["kvm"], "root_path": None, "kvm_extra": "-a\nacpi=False"}}
    odd = ssconf.Values(root.WithObject(root.cluster.Replace(hvparams=values)))["hvparams_kvm"].split("\n")
    assert "root_path=None" in odd
    assert "kvm_extra=-a acpi=False" in odd
    assert len(odd) == 65


@pytest.mark.req("D21-UID-04")
def test_written_values_come_back(node: Node) -> None:
    root = _Root()
    values = ssconf.Values(root)
    ssconf.WriteSsconfFiles(values)
    for name, value in values.items():
        path = pathutils.SsconfFile(name)
        assert runtime.ReadText(path) == (value + "\n" if value else "")
        assert runtime.Stat(path).st_mode & 0o7777 == 0o444
    store = ssconf.SimpleStore()
    assert store.ReadAll() == values
    assert store.GetClusterName() == "cluster.example.org"
    assert store.GetClusterTags() == ["a", "b"]
    assert store.GetMasterNode() == "node1.example.org"
    assert (store.GetMasterIP(), store.GetMasterNetdev(), store.GetMasterNetmask()) == ("192.0.2.1", "br0", 32)
    assert store.GetMasterCandidates() == ["node1.example.org", "node2.example.org"]
    assert store.GetMasterCandidatesIPList() == ["192.0.2.11", "192.0.2.12"]
    assert store.GetMasterCandidatesCertMap() == {configs.NODE1: "0A:1B:...:FF", configs.NODE2: "9C:00:...:1E"}
    assert store.GetNodeList() == store.GetOnlineNodeList() + store.GetOfflineNodeList()
    assert store.GetNodePrimaryIPs()["node10.example.org"] == "192.0.2.20"
    assert store.GetNodeSecondaryIPs()["node10.example.org"] == "198.51.100.20"
    assert store.GetNodesVmCapable() == {
        "node1.example.org": True,
        "node2.example.org": True,
        "node10.example.org": False,
    }
    assert store.GetSshPortMap()["node10.example.org"] == 2222
    assert store.GetInstanceList() == ["a9", "a10", "web.example.org"]
    assert store.GetUidPool() == [(4000, 4019), (5000, 5000)]
    assert store.GetNodegroupList() == {configs.GROUP: "default"}
    assert store.GetNetworkList() == {NET: "lan"}
    assert store.GetHypervisorList() == ["kvm"]
    assert store.GetHvparams() == root.cluster.hvparams
    assert (store.GetMaintainNodeHealth(), store.GetEnabledUserShutdown()) == (False, False)
    assert store.GetPrimaryIPFamily() == 2
    assert store.GetReleaseVersion() == constants.RELEASE_VERSION
    assert (store.GetFileStorageDir(), store.GetSharedFileStorageDir(), store.GetGlusterStorageDir()) == (
        "/srv/ganeti/file-storage", "", "",
    )  # fmt: skip


def test_a_node_outside_any_cluster(node: Node) -> None:
    store = ssconf.SimpleStore()
    with pytest.raises(
        errors.ConfigurationError, match="ssconf_master_node does not exist: this node is not part"
    ) as caught:
        store.GetMasterNode()
    assert "gnt-node add" in str(caught.value.hint)
    assert store.GetNodegroupList() == {}
    assert store.GetNodesVmCapable() == {}
    assert store.GetMasterNetmask() == 32
    with pytest.raises(errors.ProgrammerError):
        store._Read("no_such_key")


def test_unchanged_files_are_left_alone(node: Node) -> None:
    values = ssconf.Values(_Root())
    ssconf.WriteSsconfFiles(values)
    before = {name: runtime.Stat(pathutils.SsconfFile(name)).st_ino for name in values}
    ssconf.WriteSsconfFiles({**values, "master_netdev": "br1"})
    changed = [name for name in values if runtime.Stat(pathutils.SsconfFile(name)).st_ino != before[name]]
    assert changed == ["master_netdev"]
    ssconf.WriteSsconfFiles({"master_netdev": "br2"}, dry_run=True)
    assert ssconf.SimpleStore().GetMasterNetdev() == "br1"


def test_what_is_too_large_or_unknown_is_refused_before_anything_is_written(node: Node) -> None:
    good = {"master_netdev": "br7", "cluster_name": "x" * (ssconf.MAX_SIZE - 1)}
    ssconf.WriteSsconfFiles(good)
    with pytest.raises(errors.ConfigurationError, match="'node_list' has 131073 bytes, the limit is 131072"):
        ssconf.WriteSsconfFiles({"master_netdev": "br8", "node_list": "x" * ssconf.MAX_SIZE})
    with pytest.raises(errors.ConfigurationError, match=r"unknown ssconf key: \.\./x"):
        ssconf.WriteSsconfFiles({"master_netdev": "br8", "../x": "y"})
    assert ssconf.SimpleStore().GetMasterNetdev() == "br7"


def test_a_writer_waits_for_readers(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssconf, "LOCK_TIMEOUT", 0.05)
    with runtime.LockFile(pathutils.SSCONF_LOCK_FILE, exclusive=False, timeout=0):
        with pytest.raises(runtime.LockBusy):
            ssconf.WriteSsconfFiles({"master_netdev": "br8"})
    ssconf.WriteSsconfFiles({"master_netdev": "br8"})
    with runtime.LockFile(pathutils.SSCONF_LOCK_FILE, exclusive=True, timeout=0):
        with pytest.raises(runtime.LockBusy):
            ssconf.SimpleStore().ReadAll()


def test_damaged_files_are_named(node: Node) -> None:
    Path(pathutils.SsconfFile("master_netmask")).write_text("wide\n")
    Path(pathutils.SsconfFile("master_node")).write_bytes(b"\xff\xfe")
    Path(pathutils.SsconfFile("cluster_name")).write_text("x" * (ssconf.MAX_SIZE + 1))
    Path(pathutils.SsconfFile("ssh_ports")).write_text("a=22\nb=x\nc\n")
    store = ssconf.SimpleStore()
    with pytest.raises(errors.ConfigurationError, match="must hold a number, found 'wide'"):
        store.GetMasterNetmask()
    with pytest.raises(errors.ConfigurationError, match="ssconf_master_node cannot be read"):
        store.GetMasterNode()
    with pytest.raises(errors.ConfigurationError, match="ssconf_cluster_name cannot be read"):
        store.GetClusterName()
    assert store.GetSshPortMap() == {"a": 22}


# Sizes


def _Tagged(count: int) -> objects.Snapshot:
    root = _Root()
    return root.WithObject(root.cluster.Replace(tags=[f"{number:0127}" for number in range(count)]))


def test_a_value_that_nobody_could_read_is_noticed() -> None:
    assert ssconf.SizeProblems(_Tagged(1024)) == []
    (problem,) = ssconf.SizeProblems(_Tagged(1025))
    assert "cluster_tags" in problem and "131200 bytes" in problem
    assert ssconf.SizeProblems(_Tagged(1025), ["node", "instance"]) == []
    # Making it smaller is always possible.
    assert ssconf.SizeProblems(_Tagged(1025), before=_Tagged(1026)) == []
    assert ssconf.SizeProblems(_Tagged(1026), before=_Tagged(1025))


def test_many_instances_are_counted() -> None:
    root = configs.Large(600, 10)
    long = root.instances[configs.Uuid(100000)]
    assert ssconf.SizeProblems(root) == []
    for number in range(600):
        root = root.WithObject(long.Replace(uuid=configs.Uuid(100000 + number), name=f"i{number}." + "x" * 240))
    assert "instance_list" in ssconf.SizeProblems(root)[0]


def test_a_value_too_large_keeps_the_others_from_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    ssconf.WriteSsconfFiles(ssconf.Writable(ssconf.Values(_Tagged(1))))
    ssconf.WriteSsconfFiles(ssconf.Writable({**ssconf.Values(_Tagged(1025)), "master_ip": "192.0.2.9"}))
    assert ssconf.SimpleStore().GetMasterIP() == "192.0.2.9"
    assert len(ssconf.SimpleStore().GetClusterTags()) == 1
    assert "cluster_tags" in caplog.text


def test_the_length_of_every_line_depends_on_the_fields_that_are_watched() -> None:
    """A field that a key reads and ``SOURCES`` does not name could make a value too large unnoticed."""
    root = _Root()
    for kind, fields in ssconf.SOURCES.items():
        obj: objects.ConfigObject = (
            root.cluster if kind == "cluster" else next(iter(root.Objects(kind).values()))  # type: ignore[assignment]
        )
        for name, value in obj.__dict__.items():
            if name in fields or name in ("uuid", "_json") or not isinstance(value, str) or not value:
                continue
            try:
                changed = root.WithObject(obj.Replace(**{name: value + "x" * 500}))
                values = ssconf.Values(changed)
            except (errors.GenericError, ValueError, KeyError):
                continue
            grown = [key for key, text in values.items() if len(text) > len(ssconf.Values(root)[key]) + 400]
            assert not grown, (kind, name, grown)


def test_no_value_makes_a_second_line() -> None:
    root = _Root()
    certs = {configs.NODE1: "AA\nevil=BB\r\x0bCC\u2028DD"}
    values = ssconf.Values(root.WithObject(root.cluster.Replace(candidate_certs=certs)))
    assert values["master_candidates_certs"] == f"{configs.NODE1}=AA evil=BB  CC DD"
    assert len(values["master_candidates_certs"].splitlines()) == 1


def test_the_exporters_texts_follow_what_is_changed_and_what_is_deleted() -> None:
    """Objects are kept from one round to the next: the texts are those of a fresh reading."""
    texts = exporting.SsconfTexts()
    root = _Root()

    def rows(of: objects.Snapshot) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for kind, uuid, value in of.ToRows():
            found.setdefault(kind, {})[uuid] = value
        return found

    before = texts(rows(root))
    assert before["instance_list"].split() == ["a9", "a10", "web.example.org"]
    gone = root.WithoutObject("instance", configs.Uuid(9)).WithoutObject("network", NET)
    gone = gone.WithObject(gone.instances[configs.Uuid(8)].Replace(name="b10"))
    after = texts(rows(gone))
    assert after["instance_list"].split() == ["b10", "web.example.org"]
    assert after["networks"] == ""
    assert after == exporting.SsconfTexts()(rows(gone))
    assert texts(rows(root)) == before
