"""A node that is marked offline ends its guests and mirrors, if the candidates agree on it: simulated machines."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from simulated import Machine, World
from support.standindrbd import Device, Links, StandInDrbd

from ganeti import hypervisor, pathutils, runtime
from ganeti.confd import queries, wire
from ganeti.hypervisor import fake
from ganeti.hypervisor.kvm import layout
from ganeti.watcher import nodehealth

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NAME = "node9.example.com"
ADDRESS = "10.0.0.9"
GUEST = "c.example.com"
Answer = tuple[int, Any, int]
OFFLINE: Answer = (queries.OK, queries.ROLE_OFFLINE, 7)


def _Serve(reply: Answer, delay: float) -> None:
    gate = wire.Gate()
    sock = runtime.OpenUdp("", 1814)
    while True:
        data, sender = sock.recvfrom(65536)
        request = gate.Open(KEY, data, runtime.Time())
        assert (request.kind, request.query) == (queries.NODE_ROLE, NAME)
        runtime.Sleep(delay)
        sock.sendto(wire.PackReply(KEY, wire.Reply(*reply), request.rsalt), sender)


class Place:
    """A node with two guests and two mirrors of which one is in use, and candidates that answer or are silent.

    ``delays``: seconds before a candidate replies; ``own``: what this node itself answers if it is a candidate.
    """

    def __init__(
        self,
        *answers: Answer | None,
        delays: Mapping[int, float] | None = None,
        own: Answer | None = None,
        is_candidate: bool = False,
    ):
        self.world = World(1)
        candidates = [f"10.0.0.{number}" for number in range(1, (len(answers) or 3) + 1)]
        for number, address in enumerate(candidates):
            machine = self.world.AddMachine(f"node{number}.example.com", address)
            answer = answers[number] if number < len(answers) else None
            if answer is not None:
                delay = (delays or {}).get(number, 0.0)
                machine.StartProcess(lambda reply=answer, delay=delay: _Serve(reply, delay), "confd")
        self.machine: Machine = self.world.AddMachine(NAME, ADDRESS)
        if own is not None:
            self.machine.StartProcess(lambda: _Serve(own, 0.0), "confd")
        self.drbd = StandInDrbd(self.machine, Links())
        self.drbd.devices[3] = Device(3, "resource3", link="WFConnection", disk="UpToDate", role="Primary")
        self.drbd.Publish()
        candidates += [ADDRESS] * is_candidate
        for key, text in {
            "master_candidates_ips": "\n".join(candidates),
            "node_primary_ips": f"{NAME} {ADDRESS}",
            "hypervisor_list": "fake",
        }.items():
            self.Write(pathutils.SsconfFile(key), text + "\n")
        self.Write(pathutils.CONFD_HMAC_KEY, KEY.decode())
        for guest in ("a.example.com", "b.example.com"):
            self.Write(f"{pathutils.FAKE_DIR}/{guest}", fake.FormatRecord(512, 1))

    def Write(self, path: str, text: str) -> None:
        self.machine.Call(runtime.MakeDirs, path.rpartition("/")[0])
        self.machine.Call(runtime.WriteFile, path, text)

    def Maintain(self) -> None:
        assert self.machine.Call(nodehealth.Maintain) == 0

    def Left(self) -> tuple[list[str], list[int]]:
        """The guests that run, and the mirrors in use."""
        used = [minor for minor, device in self.drbd.devices.items() if device.link != "Unconfigured"]
        return self.machine.Call(runtime.ListDir, pathutils.FAKE_DIR), used


EVERYTHING = (["a.example.com", "b.example.com"], [3])


def test_an_offline_node_ends_its_guests_and_mirrors(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(OFFLINE, OFFLINE, OFFLINE)
    with caplog.at_level(logging.WARNING):
        place.Maintain()
    assert place.Left() == ([], [])
    assert [record.getMessage() for record in caplog.records] == [
        f"Node {NAME} is marked offline: ending its guests and mirrors",
        "Ending guest a.example.com",
        "Ending guest b.example.com",
        "Taking down DRBD device 3",
    ]


@pytest.mark.parametrize(
    "role", [queries.ROLE_MASTER, queries.ROLE_CANDIDATE, queries.ROLE_DRAINED, queries.ROLE_REGULAR]
)
def test_every_other_role_lets_them_live(role: int) -> None:
    reply = (queries.OK, role, 7)
    place = Place(reply, reply, reply)
    place.Maintain()
    assert place.Left() == EVERYTHING


REGULAR: Answer = (queries.OK, queries.ROLE_REGULAR, 6)


def _Orders(*answers: Answer | None) -> list[tuple[Answer | None, ...]]:
    return list(dict.fromkeys(itertools.permutations(answers)))


@pytest.mark.parametrize(
    "answers",
    [
        (),
        *_Orders(OFFLINE, None, None),
        # The silent one may have the newest configuration.
        *_Orders(OFFLINE, OFFLINE, None),
        *_Orders(OFFLINE, OFFLINE, (queries.OK, queries.ROLE_CANDIDATE, 7)),
        *_Orders(OFFLINE, OFFLINE, (queries.OK, queries.ROLE_CANDIDATE, 8)),
        *_Orders(OFFLINE, OFFLINE, REGULAR),
        *_Orders(OFFLINE, OFFLINE, (queries.ERROR, "unknown node", 0)),
        ((queries.ERROR, "unknown node", 0),) * 3,
    ],
)
def test_answers_that_are_missing_or_differ_prove_nothing(answers: tuple[Answer, ...]) -> None:
    place = Place(*answers)
    place.Maintain()
    assert place.Left() == EVERYTHING


@pytest.mark.parametrize("late", range(3))
def test_the_last_candidate_is_waited_for_and_decides(late: int) -> None:
    answers = [OFFLINE] * 3
    answers[late] = (queries.OK, queries.ROLE_REGULAR, 8)
    place = Place(*answers, delays={late: 8.0})
    place.Maintain()
    assert place.Left() == EVERYTHING


def test_five_candidates_have_to_agree_too() -> None:
    place = Place(OFFLINE, OFFLINE, OFFLINE, OFFLINE, REGULAR, delays={4: 5.0})
    place.Maintain()
    assert place.Left() == EVERYTHING
    place = Place(OFFLINE, OFFLINE, OFFLINE, OFFLINE, OFFLINE, delays={4: 5.0})
    place.Maintain()
    assert place.Left() == ([], [])


def test_the_log_says_why_an_offline_node_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Place(OFFLINE, REGULAR).Maintain()
        Place(OFFLINE, None).Maintain()
        Place(REGULAR, REGULAR).Maintain()
    assert [record.getMessage() for record in caplog.records] == [
        f"Node {NAME} is marked offline according to 10.0.0.1, but 10.0.0.2 replied otherwise: its guests and mirrors are"
        " left alone",
        f"Node {NAME} is marked offline according to 10.0.0.1, but 1 of 2 master candidates did not reply: its guests and"
        " mirrors are left alone",
    ]


@pytest.mark.parametrize(
    ("own", "left"),
    [
        # A candidate that was marked offline while it was down: nobody could update its copy.
        ((queries.OK, queries.ROLE_CANDIDATE, 6), ([], [])),
        ((queries.OK, queries.ROLE_CANDIDATE, 7), EVERYTHING),
        ((queries.OK, queries.ROLE_MASTER, 8), EVERYTHING),
        (None, EVERYTHING),
        (OFFLINE, ([], [])),
    ],
)
def test_what_the_node_itself_answers_counts_unless_all_others_are_newer(own: Answer | None, left: Any) -> None:
    place = Place(OFFLINE, OFFLINE, own=own, is_candidate=True)
    place.Maintain()
    assert place.Left() == left


@pytest.mark.parametrize(
    ("serials", "left"), [((5, 9), EVERYTHING), ((9, 5), EVERYTHING), ((7, 9), EVERYTHING), ((8, 9), ([], []))]
)
def test_one_candidate_with_an_older_copy_is_enough_for_the_own_answer_to_count(
    serials: tuple[int, ...], left: Any
) -> None:
    """Copies of the others differ while a change is on its way; the own one may be up to date."""
    answers = [(queries.OK, queries.ROLE_OFFLINE, serial) for serial in serials]
    place = Place(*answers, own=(queries.OK, queries.ROLE_CANDIDATE, 7), is_candidate=True)
    place.Maintain()
    assert place.Left() == left


def test_the_node_alone_proves_nothing() -> None:
    place = Place(own=(queries.OK, queries.ROLE_CANDIDATE, 6), is_candidate=True)
    place.Maintain()
    assert place.Left() == EVERYTHING


def test_what_the_driver_keeps_of_a_guest_is_removed_too() -> None:
    """Its user shut it down: KVM shows it until its files are removed, and has what its NICs need."""
    place = Place(OFFLINE, OFFLINE, OFFLINE)
    place.Write(pathutils.SsconfFile("hypervisor_list"), "kvm\n")
    kept = [layout.ShutdownFile(GUEST), layout.RuntimeFile(GUEST), layout.NicFile(GUEST, 0)]
    for path in kept:
        place.Write(path, "tap0\n")
    assert place.machine.Call(hypervisor.GetHypervisor("kvm").List) == [GUEST]
    place.Maintain()
    assert place.machine.Call(hypervisor.GetHypervisor("kvm").List) == []
    assert [path for path in kept if place.machine.Call(runtime.Exists, path)] == []


def test_a_hypervisor_that_cannot_be_asked_saves_no_mirror() -> None:
    place = Place(OFFLINE, OFFLINE, OFFLINE)
    place.Write(pathutils.SsconfFile("hypervisor_list"), "xen-pvm\nfake\n")
    place.Write(f"{pathutils.FAKE_DIR}/a.example.com", "damaged")
    place.Maintain()
    assert place.Left()[1] == []
