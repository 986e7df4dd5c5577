"""Files that the cluster keeps alike on its nodes are sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from simulated.machine import Process
from support.master import Master
from support.simnode import SimNode

from ganeti import opcodes, pathutils, runtime, ssconf
from ganeti.rpc.base import HEADER_EPOCH
from ganeti.rpc.procedures import PROCEDURES
from ganeti.store import StoreError

OWN = "/etc/our-own.conf"
VNC = "/etc/ganeti/web-vnc-password"


@pytest.fixture
def trio(make: Callable[..., Master]) -> Master:
    """Three nodes, two of them candidates."""
    return make(3, candidates=2)


def _Redistribute(master: Master) -> None:
    for node in master.all:
        node.calls.clear()
    master.Run(opcodes.OpClusterRedistConf())


def _Has(node: SimNode, path: str, text: str) -> bool:
    return node.Exists(path) and node.Read(path).decode() == text


@pytest.mark.req("D21-REDIST-01")
def test_configuration_goes_to_candidates_and_ssconf_to_the_others(trio: Master) -> None:
    serial = trio.snapshot.cluster.serial_no
    _Redistribute(trio)
    assert trio.snapshot.cluster.serial_no == serial + 1
    assert [("store_append" in node.calls) for node in trio.all[1:]] == [True, False]
    # A candidate writes its ssconf files from its own copy.
    assert [("write_ssconf_files" in node.calls) for node in trio.all] == [False, False, True]
    assert trio[2].arguments["write_ssconf_files"][0] == dict(ssconf.Values(trio.snapshot))


@pytest.mark.req("D21-REDIST-02")
def test_files_of_the_remote_interface_go_where_it_may_run(trio: Master) -> None:
    third = trio.snapshot.nodes[trio.nodes[2]]
    trio.cfg.Update(third.Replace(master_capable=False))
    files = {pathutils.RAPI_CERT_FILE: "its certificate\n", pathutils.RAPI_USERS_FILE: "joe secret\n"}
    for path, text in files.items():
        trio[0].Write(path, text)
    _Redistribute(trio)
    for path, text in files.items():
        assert _Has(trio[1], path, text) and not _Has(trio[2], path, text)


@pytest.mark.req("D21-REDIST-04", "D21-REDIST-05")
def test_the_administrators_own_files_and_their_list(trio: Master) -> None:
    trio[0].Write(pathutils.EXTRA_FILES_LIST, f"# ours\n{OWN}\n/etc/not-there\n")
    trio[0].Write(OWN, "ours\n")
    _Redistribute(trio)
    listed = trio[0].Read(pathutils.EXTRA_FILES_LIST).decode()
    for node in trio.all[1:]:
        assert _Has(node, pathutils.EXTRA_FILES_LIST, listed) and _Has(node, OWN, "ours\n")
        assert not node.Exists("/etc/not-there")


@pytest.mark.req("D21-REDIST-03", "D21-VNC-04")
def test_password_files_of_the_cluster_and_of_instances(trio: Master) -> None:
    web = trio.Instance("web")
    trio.cfg.Update(web.Replace(hvparams={**web.hvparams, "vnc_password_file": VNC}))
    trio[0].Write(pathutils.VNC_PASSWORD_FILE, "the cluster's\n")
    trio[0].Write(VNC, "the instance's\n")
    cluster = trio.snapshot.cluster
    trio.cfg.Update(
        cluster.Replace(
            hvparams={
                **cluster.hvparams,
                "kvm": {**cluster.hvparams["kvm"], "vnc_password_file": pathutils.VNC_PASSWORD_FILE},
            }
        )
    )
    _Redistribute(trio)
    for node in trio.all[1:]:
        assert _Has(node, pathutils.VNC_PASSWORD_FILE, "the cluster's\n") and _Has(node, VNC, "the instance's\n")


def test_a_silent_node_is_tried_once_and_named_in_the_result(trio: Master) -> None:
    """With a time-out for each of the files the others would wait for minutes."""
    trio[0].Write(pathutils.RAPI_CERT_FILE, "its certificate\n")
    trio[0].Write(pathutils.RAPI_USERS_FILE, "joe secret\n")
    assert trio.Run(opcodes.OpClusterRedistConf()) is None
    third = trio[2]
    third.Stop()
    trio[0].Write(pathutils.RAPI_CERT_FILE, "a new certificate\n")
    assert trio.Run(opcodes.OpClusterRedistConf()) == [third.name]
    assert _Has(trio[1], pathutils.RAPI_CERT_FILE, "a new certificate\n")
    said = [text for text in trio.last.messages if f"to node {third.name} failed" in text]
    assert len(said) == 1


def test_a_node_that_has_not_followed_this_master_yet_keeps_nothing_from_the_others(trio: Master) -> None:
    """It was away when this master started."""
    trio[0].Write(pathutils.RAPI_CERT_FILE, "its certificate\n")
    third = trio[2]
    third.Stop()
    assert trio.Run(opcodes.OpClusterRedistConf()) == [third.name]
    assert _Has(trio[1], pathutils.RAPI_CERT_FILE, "its certificate\n")
    said = " ".join(trio.last.messages)
    assert f"Nothing is copied to node {third.name}: node {third.name} does not answer" in said
    assert f"Not all files were copied to: {third.name}" in said and "'gnt-cluster redist-conf' again" in said
    third.Start()
    assert trio.Run(opcodes.OpClusterRedistConf()) is None
    assert _Has(third, pathutils.RAPI_CERT_FILE, "its certificate\n")


@pytest.fixture
def followed() -> Iterator[Master]:
    """Three nodes on which calls of the master before this one may run."""
    master = Master(3, candidates=2)
    yield master
    master.Close()


def _HoldOldCall(master: Master, node: SimNode) -> Process:
    """Have an upload of this master run on a node until the process is killed, while another master daemon starts."""
    headers = {HEADER_EPOCH.lower(): str(master.store.Epoch())}
    entered: list[bool] = []

    def hold() -> None:
        with node.NewStore().Enter(PROCEDURES["upload_file_single"], headers):
            entered.append(True)
            runtime.Event().wait()

    process = node.machine.StartProcess(hold, "an old call")
    master.world.Run(until=lambda: bool(entered))
    master.Restart()
    return process


def test_where_a_call_of_the_former_master_runs_nothing_is_written_until_it_has_ended(followed: Master) -> None:
    second, third = followed.all[1:]
    process = _HoldOldCall(followed, third)
    followed[0].Write(pathutils.RAPI_CERT_FILE, "its certificate\n")
    assert followed.Perform(lambda: followed.Run(opcodes.OpClusterRedistConf())) == [third.name]
    assert "upload_file_single of the former master" in " ".join(followed.last.messages)
    assert _Has(second, pathutils.RAPI_CERT_FILE, "its certificate\n") and not third.Exists(pathutils.RAPI_CERT_FILE)
    process.Kill()
    assert followed.Perform(lambda: followed.Run(opcodes.OpClusterRedistConf())) is None
    assert _Has(third, pathutils.RAPI_CERT_FILE, "its certificate\n")


def test_nothing_is_copied_while_a_call_of_the_former_master_may_replace_what_is_read(followed: Master) -> None:
    process = _HoldOldCall(followed, followed[0])
    followed[0].Write(pathutils.RAPI_CERT_FILE, "half of\n")
    with pytest.raises(StoreError, match="upload_file_single of the former master"):
        followed.Perform(lambda: followed.Run(opcodes.OpClusterRedistConf()))
    assert not followed[1].Exists(pathutils.RAPI_CERT_FILE)
    process.Kill()
    followed[0].Write(pathutils.RAPI_CERT_FILE, "all of it\n")
    assert followed.Perform(lambda: followed.Run(opcodes.OpClusterRedistConf())) is None
    assert _Has(followed[1], pathutils.RAPI_CERT_FILE, "all of it\n")
