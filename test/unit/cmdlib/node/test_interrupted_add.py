"""A machine fails at a step of gnt-node add or --readd, as where its disk is full.

The simulated nodes run the node daemon's own handlers.  What the command prints names the machine and the reason, and a
command; that one, or the same again where the machine did not enter the configuration, finishes the work.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Master
from support.simnode import SimNode

from ganeti import errors, opcodes, pathutils

SPARES = 16
FULL = "No space left on device"
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


def _FillDisk(machine: SimNode, step: str) -> Callable[[], None]:
    machine.faults[step] = FULL
    return machine.faults.clear


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    return make(2, spare=SPARES, prepare=_Prepare)


@pytest.mark.limit(300)
@pytest.mark.parametrize("again", [False, True], ids=["add", "readd"])
def test_after_a_failed_step_the_command_that_is_named_finishes(two: Master, again: bool) -> None:
    first = two.Spare()
    assert _Add(two, first, False) == ""
    if again:
        first.calls.clear()
        assert _Add(two, first, True) == ""
    steps = list(dict.fromkeys(first.calls))
    assert {"version", "upload_file", "write_ssconf_files", "node_crypto_tokens"} <= set(steps)
    for number, step in enumerate(steps, 1):
        machine = first if again else two.Spare(number)
        repair = _FillDisk(machine, step)
        said = _Add(two, machine, again)
        assert machine.name in said, (step, said)
        assert FULL in said, (step, said)
        repair()
        known = two.snapshot.NodeByName(machine.name) is not None
        assert known is again or step in _HARMLESS or f"'gnt-node add --readd {machine.name}'" in said, (step, said)
        assert _Add(two, machine, known) == "", step
        node = two.snapshot.NodeByName(machine.name)
        assert node is not None and node.master_candidate, step
        assert node.uuid in two.store.Voters().by_uuid, step
        for path in (pathutils.CONFD_HMAC_KEY, pathutils.CLUSTER_DOMAIN_SECRET_FILE, pathutils.RAPI_CERT_FILE):
            if two[0].Exists(path):
                assert machine.Read(path) == two[0].Read(path), (step, path)
