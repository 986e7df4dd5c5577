"""What both ends of a disk's way are told, and what becomes of one when the other one fails (doc/design-transfers.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from support.creation import OnDisks
from support.master import Callbacks, Master
from support.playedtransfers import CONTENT, Transfers
from support.simnode import SimNode
from unit.cmdlib.backup.test_export import Exporting, _Export, _ToOtherCluster
from unit.cmdlib.instance.test_importing import COPY, SECRET, _Arriving, _Import
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles
from unit.cmdlib.test_transfers import NODE1, NODE2, Status, _Fails, _Reporting

from ganeti import constants, errors
from ganeti.cmdlib.backup import remote


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


class Call(NamedTuple):
    name: str
    args: tuple[Any, ...]
    when: float


class Record:
    """The calls that a node has got, from now on."""

    def __init__(self, node: SimNode, also: Callable[[str, tuple[Any, ...]], None] = lambda _name, _args: None):
        self.calls: list[Call] = []

        def before(name: str, args: tuple[Any, ...]) -> None:
            self.calls.append(Call(name, args, node.world.now))
            also(name, args)

        node.before = before

    def Of(self, name: str) -> list[tuple[Any, ...]]:
        return [call.args for call in self.calls if call.name == name]

    def Seconds(self, first: str, last: str) -> float:
        """How long it took from the first of these calls to the last of those."""
        begun = min(call.when for call in self.calls if call.name == first)
        return max(call.when for call in self.calls if call.name == last) - begun


# --- what each end is told --------------------------------------------------------------------------------------------------


@pytest.mark.req("D22-MOVE-12")
def test_each_disk_goes_to_its_own_address_with_the_key_of_the_move(three: Master) -> None:
    Exporting(three)
    record = Record(three[0])
    op = _ToOtherCluster(three)
    op.target_node = [remote.MakeDiskInfo(SECRET, n, f"127.0.0.{70 + n}", 7000 + n, f"magic-{n}") for n in range(2)]
    three.Run(op)
    sent = record.Of("export_start")
    assert [(component, host, port, opts["magic"]) for opts, host, port, _, component, _ in sent] == [
        ("disk0", "127.0.0.70", 7000, "magic-0"),
        ("disk1", "127.0.0.71", 7001, "magic-1"),
    ]
    assert op.x509_key_name is not None and op.destination_x509_ca is not None
    key, certificate = op.x509_key_name[0], remote.CheckCa(SECRET, op.destination_x509_ca)
    assert [(args[0]["key_name"], args[0]["ca_pem"]) for args in sent] == [(key, certificate)] * 2


def test_streams_inside_the_cluster_use_its_own_certificate_and_network_and_cannot_be_mixed_up(three: Master) -> None:
    scene = Exporting(three)
    sends, receives = Record(three[0]), Record(three[1])
    three.Run(_Export())
    receiving = [args[0] for args in receives.Of("import_start")]
    assert {opts["bind"] for opts in receiving} == {three[1].secondary_address}
    assert len({opts["magic"] for opts in receiving}) == 2
    assert {args[1] for args in sends.Of("export_start")} == {three[1].secondary_address}
    opts = receiving + [args[0] for args in sends.Of("export_start")]
    assert {(own["key_name"], own["ca_pem"]) for own in opts} == {(None, None)}
    assert len(scene.transfers.done) == 2


@pytest.mark.req("D20-OS-07")
def test_disks_of_a_system_go_through_its_scripts_each_by_its_number(three: Master) -> None:
    Exporting(three)
    exporting, importing = Record(three[0]), Record(three[2])
    three.Run(_Export())
    three.Run(_Import(pnode="node3"))
    read = [args[5] for args in exporting.Of("export_start")]
    written = [args[3] for args in importing.Of("import_start")]
    for ends in (read, written):
        assert [(kind, number) for kind, (_, number) in ends] == [("script", 0), ("script", 1)]


def test_disks_without_a_system_are_copied_as_they_are(three: Master) -> None:
    """There is nobody whose scripts could know what is on them."""
    scene = Transfers(three)
    three.Run(OnDisks(WEB, {"size": 128}, {"size": 256}, disk_template="plain", os_type=None, no_install=True))
    exporting, importing = Record(three[0]), Record(three[2])
    three.Run(_Export())
    three.Run(_Import(pnode="node3"))
    ends = [args[5] for args in exporting.Of("export_start")] + [args[3] for args in importing.Of("import_start")]
    assert [kind for kind, _ in ends] == ["raw"] * 4 and len(scene.done) == 4
    assert three[2].renamed == [], "and no script to run when all is there"


# --- from another cluster -----------------------------------------------------------------------------------------------


class Elsewhere:
    """Two disks of another cluster: the second program listens late, and the senders connect after so many seconds."""

    def __init__(self, master: Master, connect: float):
        Transfers(master, elsewhere=True)
        self.begun: float | None = None
        self._world, self._connect = master.world, connect
        master[0].stand_ins["impexp_status"] = lambda names: [self._Status(name) for name in names]
        master[0].Stop()
        master[0].Start()

    def _Status(self, name: str) -> Status:
        self.begun = self._world.now if self.begun is None else self.begun
        second, passed = "disk1" in name, self._world.now - self.begun
        return {
            "listen_port": 20000 + second if passed > 5 * second else None,
            "connected": passed > self._connect,
            "exit_status": 0 if passed > self._connect + 10 else None,
            "error_message": None,
            "recent_output": [],
        }


def _TwoArriving(master: Master) -> Any:
    op = _Arriving(master)
    op.disks = [{"size": 128}, {"size": 256}]
    return op


@pytest.mark.req("D22-MOVE-12")
def test_another_cluster_learns_once_where_each_disk_is_to_go(three: Master) -> None:
    """It has the time that stopping a guest takes: this one took four minutes."""
    Elsewhere(three, connect=240)
    record, cbs = Record(three[0]), Callbacks()
    op = _TwoArriving(three)
    three.Run(op, cbs)
    receiving = [args[0] for args in record.Of("import_start")]
    [told] = [content for kind, content in cbs.log if kind == constants.ELOG_REMOTE_IMPORT]
    own = three[0].machine.address
    places = [remote.CheckDiskInfo(SECRET, n, info) for n, info in enumerate(told["disks"])]
    assert places == [(own, 20000 + n, opts["magic"]) for n, opts in enumerate(receiving)]
    assert len({opts["magic"] for opts in receiving}) == 2 and {opts["bind"] for opts in receiving} == {own}
    assert all(opts["connect_timeout"] > 240 for opts in receiving)
    [(key,)] = record.Of("x509_cert_remove")
    trusted = (key, remote.CheckCa(SECRET, op.source_x509_ca))
    assert [(opts["key_name"], opts["ca_pem"]) for opts in receiving] == [trusted] * 2
    assert [(kind, number) for kind, (_, number) in (args[3] for args in record.Of("import_start"))] == [
        ("script", 0),
        ("script", 1),
    ]


def test_another_cluster_that_never_comes_is_not_waited_for_for_ever(three: Master) -> None:
    Elsewhere(three, connect=3600)
    record = Record(three[0])
    with pytest.raises(
        errors.OpExecError, match=f"disk 0: receiving on node {NODE1} had no connection after"
    ) as caught:
        three.Run(_TwoArriving(three))
    assert "disk 1: " in str(caught.value)
    assert 300 < record.Seconds("import_start", "impexp_cleanup") < 600
    assert three.Instance(COPY).admin_state == constants.ADMINST_DOWN


# --- one end fails ------------------------------------------------------------------------------------------------------


def test_what_only_the_receiver_knows_fails_the_export(three: Master) -> None:
    """All was sent, but the file system was full."""
    scene = Exporting(three)
    full = {"exit_status": 1, "error_message": "no space left"}
    _Reporting(three[1], lambda status: {**status, **full} if status["exit_status"] == 0 else status)
    assert f"disk 0: receiving on node {NODE2} failed: no space left" in _Fails(three)
    assert scene.Exports()[1] == []


def test_a_program_that_has_something_to_say_has_not_ended_well(three: Master) -> None:
    """Whatever its exit code."""
    Exporting(three)
    _Reporting(
        three[1],
        lambda status: {**status, "error_message": "the end is missing"} if status["exit_status"] == 0 else status,
    )
    assert f"disk 0: receiving on node {NODE2} failed: the end is missing" in _Fails(three)


def test_a_sender_is_given_up_when_its_receiver_has_failed(three: Master) -> None:
    """It should notice by itself that nobody reads; one that hangs is not waited for."""
    scene = Exporting(three)
    scene.transfers.looks = 300
    record = Record(three[0])
    _Reporting(
        three[1],
        lambda status: {**status, "exit_status": 1, "error_message": "no room"} if status["connected"] else status,
    )
    said = _Fails(three)
    assert f"disk 0: sending from node {NODE1} did not stop within 120 seconds after the other end failed" in said
    assert f"receiving on node {NODE2} failed: no room" in said
    assert record.Seconds("export_start", "impexp_cleanup") < 180 and scene.transfers.programs == {}


def test_a_sender_that_has_nobody_to_connect_to_is_ended_at_once(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 300
    record = Record(three[0])
    _Reporting(three[0], lambda status: {**status, "connected": False})
    _Reporting(
        three[1],
        lambda status: (
            {**status, "connected": False}
            | ({"exit_status": 1, "error_message": "its certificate is damaged"} if record.Of("impexp_status") else {})
        ),
    )
    said = _Fails(three)
    assert f"disk 0: receiving on node {NODE2} failed: its certificate is damaged" in said and "sending" not in said
    assert len(record.Of("impexp_abort")) == 2
    assert record.Seconds("export_start", "impexp_cleanup") < 20


@pytest.mark.parametrize("stubborn", [False, True])
def test_other_disks_do_not_go_on_when_one_has_failed(three: Master, stubborn: bool) -> None:
    """What they have sent would be thrown away.  A program that does not end when it is asked is waited for, but not for ever."""
    scene = Exporting(three)
    scene.transfers.failing["disk1"] = "the file system is damaged"
    for node in three.all[:2] if stubborn else ():
        node.faults["impexp_abort"] = "it does not listen"

    def start(name: str, args: tuple[Any, ...]) -> None:
        if name == "export_start":
            scene.transfers.looks = 300 if args[4] == "disk0" else 10

    record = Record(three[0], start)
    said = _Fails(three)
    assert said.startswith(f"disk 0: canceled because another disk failed; disk 1: sending from node {NODE1}"), said
    [(ended,)] = record.Of("impexp_abort")
    assert "disk0" in ended and (len(record.Of("impexp_status")) < 15 or stubborn)
    assert record.Seconds("export_start", "impexp_cleanup") < 300
    assert scene.transfers.programs == {} and scene.Runs()


def test_a_node_that_is_silent_for_a_moment_is_waited_for(three: Master) -> None:
    """However long the transfer has taken by then."""
    scene = Exporting(three)
    scene.transfers.looks = 120
    begun = three.world.now
    silent = 0

    def before(name: str, _args: tuple[Any, ...]) -> None:
        nonlocal silent
        three[0].faults.pop("impexp_status", None)
        if name == "impexp_status" and 200 < three.world.now - begun < 230:
            silent += 1
            three[0].faults[name] = "it has no memory just now"

    three[0].before = before
    three.Run(_Export())
    assert silent > 3 and scene.Contents(1) == CONTENT


# --- snapshots ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_snapshot_goes_when_its_own_disk_has_been_read(three: Master, elsewhere: bool) -> None:
    """It takes room, and every write of the guest twice the time."""
    scene = Exporting(three)
    op = _ToOtherCluster(three) if elsewhere else _Export()
    kept: list[int] = []

    def before(name: str, args: tuple[Any, ...]) -> None:
        if name == "export_start":
            scene.transfers.looks = 2 if args[4] == "disk0" else 60
        elif name == "impexp_status":
            kept.append(len(scene.Volumes()) - len(scene.before))

    three[0].before = before
    three.Run(op)
    assert kept[0] == 2 and kept.count(1) > 30, "one is gone as long as the other one is sent"
    assert scene.Volumes() == scene.before and scene.Runs()
