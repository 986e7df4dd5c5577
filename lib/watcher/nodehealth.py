"""A node that the cluster counts as offline must run no guest and hold no mirror: both may be in use elsewhere by now."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti import confd, constants, errors, hosts, runtime, ssconf
from ganeti.confd import queries

if TYPE_CHECKING:
    from ganeti import objects

_SECONDS = 10.0


def Maintain() -> int:
    """End what runs here if this node is offline; do nothing unless all candidates say that it is."""
    name = hosts.OwnName()
    if not IsOffline(name):
        return constants.EXIT_SUCCESS
    logging.warning("Node %s is marked offline: ending its guests and mirrors", name)
    EndGuests()
    EndMirrors()
    return constants.EXIT_SUCCESS


def IsOffline(name: str) -> bool:
    """Ask all candidates for this node's role; return whether each of them replied that it is offline.

    A candidate that is silent or says something else may have the newest configuration, so it decides.
    """
    peers = confd.Peers()
    replies: list[tuple[str, confd.Reply]] = []

    def keep(event: confd.Event) -> None:
        if event.reply is not None:
            replies.append((event.address, event.reply))

    with confd.Link(confd.ReadKey(), peers, keep) as link:
        waiting = link.WaitForReply(link.Send(queries.NODE_ROLE, name, confd.EVERY_PEER), _SECONDS, from_all=True)
    own = ssconf.SimpleStore().GetNodePrimaryIPs().get(name)
    contrary = _Contrary(replies, own and confd.Canonical(own))
    if waiting.answered and not contrary:
        return True
    agree = [address for address, reply in replies if _SaysOffline(reply)]
    if agree:
        doubts = [f"{', '.join(contrary)} replied otherwise"] if contrary else []
        if not waiting.answered:
            doubts.append(f"{waiting.sent - waiting.received} of {waiting.sent} master candidates did not reply")
        logging.warning(
            "Node %s is marked offline according to %s, but %s: its guests and mirrors are left alone",
            name, ", ".join(agree), " and ".join(doubts),
        )  # fmt: skip
    return False


def _SaysOffline(reply: confd.Reply) -> bool:
    return bool(reply.status == queries.OK and reply.answer == queries.ROLE_OFFLINE)


def _Contrary(replies: Sequence[tuple[str, confd.Reply]], own: str | None) -> list[str]:
    """Return who says that the node is not offline.

    The ``own`` daemon of a former candidate answers from a copy that nobody has updated since: it does not count if all
    others have a newer one.
    """
    others = [reply.serial for address, reply in replies if address != own]
    return [
        address
        for address, reply in replies
        if not _SaysOffline(reply) and not (address == own and others and reply.serial < min(others))
    ]


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
    from ganeti.storage.utilities import drbdtools

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
