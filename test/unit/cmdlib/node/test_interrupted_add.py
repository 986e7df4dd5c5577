"""A machine fails before or after a step of gnt-node add or --readd: its disk is full, it reboots, or loses its network.

The simulated nodes run the node daemon's own handlers.  What the command prints names the machine and the reason, and a
command; that one, or the same again where the machine did not enter the configuration, finishes the work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from support.master import KilledMeanwhile, Master
from support.simnode import SimNode

from ganeti import errors, opcodes, pathutils, runtime

SPARES = 16
FULL = "No space left on device"
REBOOTS, SILENT = "reboots", "does not answer"
BEFORE, AFTER = "before", "after"
# The hooks after a job may fail without consequences for the cluster, which the message says.
_HARMLESS = {"hooks_runner"}


def _Prepare(master: Master) -> None:
    cluster = master.cfg.Snapshot().cluster
    master.cfg.Update(cluster.Replace(candidate_pool_size=2 + SPARES, volume_group_name=None))


def _Add(master: Master, machine: SimNode, again: bool) -> str:
    """Add a machine; return everything that is printed if something went wrong."""
    options = {"readd": True} if again else {"secondary_ip": machine.secondary_address}
    said = ""
    try:
        master.Run(opcodes.OpNodeAdd(node_name=machine.name, **options))
    except (errors.OpExecError, errors.OpPrereqError) as err:
        said = f"{err} {err.hint or ''}"
    warned = [text for text in master.last.messages if text.startswith((" - WARNING", "      Hint"))]
    return " ".join([said, *warned]).strip()


class Trouble:
    """What happens to a machine when a step reaches it (BEFORE), or has been done there and is not yet answered."""

    def __init__(self, master: Master, machine: SimNode, what: str):
        self._master = master
        self._machine = machine
        self._what = what
        self.struck = False

    def Arm(self, step: str, when: str) -> None:
        def before(name: str, _args: object) -> None:
            if name == step:
                self._Strike()

        def after(answer: Any) -> Any:
            self._Strike()
            return answer

        if self._what == FULL:
            self._machine.faults[step] = FULL
        elif when == BEFORE:
            self._machine.before = before
        else:
            self._machine.edits[step] = after

    def _Strike(self) -> None:
        if self.struck:
            return
        self.struck = True
        if self._what == REBOOTS:
            self._master.world.Schedule(0, self._machine.machine.PowerOff)
        else:
            self._master.network.Partition([self._machine.name], [self._master[0].name])
        runtime.Sleep(0.01)

    def Repair(self) -> None:
        self._machine.before = lambda name, args: None
        self._machine.edits.clear()
        self._machine.faults.clear()
        self._master.network.Heal()
        if not self._machine.machine.on:
            self._machine.machine.PowerOn()
            self._machine.Boot()


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    return make(2, spare=SPARES, prepare=_Prepare)


@pytest.mark.limit(300)
@pytest.mark.parametrize("again", [False, True], ids=["add", "readd"])
@pytest.mark.parametrize(
    ("what", "when"),
    [(FULL, BEFORE), *itertools.product((REBOOTS, SILENT), (BEFORE, AFTER))],
)
def test_after_a_failed_step_the_command_that_is_named_finishes(two: Master, what: str, when: str, again: bool) -> None:
    first = two.Spare()
    assert _Add(two, first, False) == ""
    if again:
        first.calls.clear()
        assert _Add(two, first, True) == ""
    steps = list(dict.fromkeys(first.calls))
    assert {"version", "upload_file", "write_ssconf_files", "node_crypto_tokens"} <= set(steps)
    for number, step in enumerate(steps, 1):
        machine = first if again else two.Spare(number)
        trouble = Trouble(two, machine, what)
        trouble.Arm(step, when)
        said = _Add(two, machine, again)
        if what == FULL:
            assert FULL in said, (step, said)
        else:
            assert trouble.struck, step
        trouble.Repair()
        known = two.snapshot.NodeByName(machine.name) is not None
        if said or not known:
            assert machine.name in said, (step, said)
            assert known is again or step in _HARMLESS or f"'gnt-node add --readd {machine.name}'" in said, (step, said)
            assert _Add(two, machine, known) == "", step
        _CheckWhole(two, machine, step)


def _CheckWhole(master: Master, machine: SimNode, step: str) -> None:
    node = master.snapshot.NodeByName(machine.name)
    assert node is not None and node.master_candidate, step
    assert node.uuid in master.store.Voters().by_uuid, step
    for path in (pathutils.CONFD_HMAC_KEY, pathutils.CLUSTER_DOMAIN_SECRET_FILE, pathutils.RAPI_CERT_FILE):
        if master[0].Exists(path):
            assert machine.Read(path) == master[0].Read(path), (step, path)


@pytest.mark.limit(300)
@pytest.mark.parametrize("again", [False, True], ids=["add", "readd"])
def test_after_the_master_daemon_was_killed_at_any_step_the_node_is_added_or_added_again(again: bool) -> None:
    master = Master(2, spare=SPARES)
    try:
        master.Perform(lambda: _Prepare(master))
        first = master.Spare()
        assert master.Perform(lambda: _Add(master, first, False)) == ""
        first.calls.clear()
        if again:
            assert master.Perform(lambda: _Add(master, first, True)) == ""
            steps = list(dict.fromkeys(first.calls))
        else:
            second = master.Spare(1)
            assert master.Perform(lambda: _Add(master, second, False)) == ""
            steps = list(dict.fromkeys(second.calls))
        for number, step in enumerate(steps, 2):
            machine = first if again else master.Spare(number)

            def strike(name: str, _args: object, step: str = step) -> None:
                if name == step:
                    master.world.Schedule(0, master.Kill)
                    runtime.Sleep(0.01)

            machine.before = strike
            with pytest.raises(KilledMeanwhile):
                master.Perform(lambda machine=machine: _Add(master, machine, again))  # type: ignore[misc]
            machine.before = lambda name, args: None
            master.Restart()
            known = master.Perform(lambda machine=machine: master.snapshot.NodeByName(machine.name)) is not None  # type: ignore[misc]
            assert master.Perform(lambda machine=machine, known=known: _Add(master, machine, known)) == "", step  # type: ignore[misc]
            master.Perform(lambda machine=machine, step=step: _CheckWhole(master, machine, step))  # type: ignore[misc]
    finally:
        master.Close()
