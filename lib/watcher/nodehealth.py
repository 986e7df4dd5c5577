"""A node that the cluster counts as offline must run no guest and hold no mirror: both may be in use elsewhere by now."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ganeti import confd, constants, errors, hosts, runtime, ssconf
from ganeti.confd import queries

if TYPE_CHECKING:
    from ganeti import objects

_SECONDS = 10.0


def Maintain() -> int:
    """End what runs here if this node is offline; do nothing unless the candidates agree that it is."""
    name = hosts.OwnName()
    if not IsOffline(name):
        return constants.EXIT_SUCCESS
    logging.warning("Node %s is marked offline: ending its guests and mirrors", name)
    EndGuests()
    EndMirrors()
    return constants.EXIT_SUCCESS


def IsOffline(name: str) -> bool:
    """Ask all candidates for this node's role; answers that are late or differ prove nothing."""
    result = confd.Ask(queries.NODE_ROLE, name, confd.Peers(), coverage=confd.EVERY_PEER, timeout=_SECONDS)
    if result.reply is None or result.timed_out or result.inconsistent:
        logging.info("The role of node %s is not known for sure: its guests and mirrors are left alone", name)
        return False
    return bool(result.reply.status == queries.OK and result.reply.answer == queries.ROLE_OFFLINE)


def EndGuests() -> None:
    """End the guests of every enabled hypervisor by force; one that resists keeps no other alive."""
    from ganeti import hypervisor

    store = ssconf.SimpleStore()
    for kind in store.GetHypervisorList():
        try:
            driver = hypervisor.GetHypervisor(kind)
            names = driver.List(store.GetHvparamsForHypervisor(kind))
        except errors.GenericError as err:
            logging.error("The guests of hypervisor %s cannot be listed: %s", kind, err)
            continue
        for name in names:
            logging.warning("Ending guest %s", name)
            try:
                driver.Stop(_Guest(name, kind), force=True)
                driver.Cleanup(name)
            except errors.GenericError as err:
                logging.error("Guest %s could not be ended: %s", name, err)


def _Guest(name: str, kind: str) -> objects.Instance:
    """Return an instance of which only the name is known, which is enough to end it by force."""
    from ganeti import objects

    return objects.Instance(
        name=name,
        uuid=runtime.NewUuid(),
        hypervisor=kind,
        primary_node="",
        os="",
        admin_state=constants.ADMINST_DOWN,
        disks_active=False,
    )


def EndMirrors() -> None:
    """Take down every DRBD device that is in use, one after the other."""
    from ganeti.storage import drbdtools

    try:
        used = [minor for minor in drbdtools.Minors().values() if minor.in_use]
    except errors.BlockDeviceError as err:
        logging.error("The DRBD devices cannot be listed: %s", err)
        return
    for minor in used:
        logging.warning("Taking down DRBD device %d", minor.minor)
        try:
            drbdtools.Act(drbdtools.Syntax().Down(minor.minor), f"DRBD device {minor.minor} cannot be taken down")
        except errors.BlockDeviceError as err:
            logging.error("%s", err)
