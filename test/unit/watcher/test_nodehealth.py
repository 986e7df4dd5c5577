"""A node that is marked offline ends its guests and mirrors, if the candidates agree on it: simulated machines."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from simulated import Machine, World
from support.standindrbd import Device, Links, StandInDrbd

from ganeti import pathutils, runtime
from ganeti.confd import queries, wire
from ganeti.hypervisor import fake
from ganeti.watcher import nodehealth

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
NAME = "node9.example.com"
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
Answer = tuple[int, Any, int]
OFFLINE: Answer = (queries.OK, queries.ROLE_OFFLINE, 7)


def _Serve(reply: Answer) -> None:
    gate = wire.Gate()
    sock = runtime.OpenUdp("", 1814)
    while True:
        data, sender = sock.recvfrom(65536)
        request = gate.Open(KEY, data, runtime.Time())
        assert (request.kind, request.query) == (queries.NODE_ROLE, NAME)
        sock.sendto(wire.PackReply(KEY, wire.Reply(*reply), request.rsalt), sender)


class Place:
    """A node with two guests and two mirrors of which one is in use, and candidates that answer or are silent."""

    def __init__(self, *answers: Answer | None):
        self.world = World(1)
        for number, address in enumerate(ADDRESSES):
            machine = self.world.AddMachine(f"node{number}.example.com", address)
            answer = answers[number] if number < len(answers) else None
            if answer is not None:
                machine.StartProcess(lambda reply=answer: _Serve(reply), "confd")
        self.machine: Machine = self.world.AddMachine(NAME, "10.0.0.9")
        self.drbd = StandInDrbd(self.machine, Links())
        self.drbd.devices[3] = Device(3, "resource3", link="Connected", disk="UpToDate", role="Primary")
        self.drbd.Publish()
        for key, text in {"master_candidates_ips": "\n".join(ADDRESSES), "hypervisor_list": "fake"}.items():
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


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (OFFLINE,),
        (OFFLINE, (queries.OK, queries.ROLE_CANDIDATE, 7), OFFLINE),
        (OFFLINE, (queries.OK, queries.ROLE_CANDIDATE, 8), OFFLINE),
        ((queries.ERROR, "unknown node", 0),) * 3,
    ],
)
def test_answers_that_are_missing_or_differ_prove_nothing(answers: tuple[Answer, ...]) -> None:
    place = Place(*answers)
    place.Maintain()
    assert place.Left() == EVERYTHING


def test_a_candidate_with_an_older_configuration_does_not_count() -> None:
    place = Place(OFFLINE, (queries.OK, queries.ROLE_REGULAR, 6), OFFLINE)
    place.Maintain()
    assert place.Left() == ([], [])


def test_a_hypervisor_that_cannot_be_asked_saves_no_mirror() -> None:
    place = Place(OFFLINE, OFFLINE, OFFLINE)
    place.Write(pathutils.SsconfFile("hypervisor_list"), "xen-pvm\nfake\n")
    place.Write(f"{pathutils.FAKE_DIR}/a.example.com", "damaged")
    place.Maintain()
    assert place.Left()[1] == []
