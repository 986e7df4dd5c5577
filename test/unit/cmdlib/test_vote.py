"""Who counts as master: what the nodes say, and what becomes of a daemon that they do not confirm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Master

from ganeti import constants, errors
from ganeti.bootstrap import vote


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3)


def _Confirm(master: Master) -> errors.NotMasterError:
    names = [node.name for node in master.all[:3]]
    with pytest.raises(errors.NotMasterError) as caught:
        master[0].Call(vote.ConfirmMaster, master.rpc, names[0], names)
    return caught.value


def test_while_nodes_are_silent_the_daemon_is_to_be_started_again(three: Master) -> None:
    """As after a power failure: systemd starts again what ends so, and nothing that ends with the other code."""
    for node in (three[1], three[2]):
        node.machine.PowerOff()
    begun = three.world.now
    assert _Confirm(three).exit_code == constants.EXIT_FAILURE
    assert three.world.now - begun >= (vote.MAX_ROUNDS - 1) * vote.ROUND_WAIT


def test_once_others_name_another_master_it_stays_down(three: Master) -> None:
    for node in (three[1], three[2]):
        node.answers["master_node_name"] = three[1].name
    assert _Confirm(three).exit_code == constants.EXIT_NOTMASTER
