"""What a verification finds in the nodes' files of SSH keys, if it is asked to look; pure (doc/reference/noderpc.md 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti.cmdlib.cluster.verify_report import NODE, Report

if TYPE_CHECKING:
    from ganeti import objects

_SETUP, _CLUTTER = "ssh-setup", "ssh-clutter"


def Questions(snapshot: objects.Snapshot) -> dict[str, Any]:
    """Return the questions of node_verify about SSH keys; none in a cluster that leaves keys alone."""
    cluster = snapshot.cluster
    if not cluster.modify_ssh_setup:
        return {}
    rows = [
        [node.uuid, node.name, node.master_candidate, node.master_capable, not node.offline]
        for node in snapshot.nodes.values()
    ]
    # Nodes look for clutter only beside the list of all nodes, by which they recognise a key's owner.
    return {_SETUP: [rows, cluster.ssh_key_type], _CLUTTER: True}


def CheckKeys(report: Report, name: str, questions: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Report what one node answered to ``questions``."""
    for key in questions:
        problems = answer.get(key)
        if problems is None:
            report.Error("ENODESSH", NODE, name, "its files of SSH keys were not checked; its node-daemon.log says why")
            return
        for problem in problems:
            report.Error("ENODESSH", NODE, name, problem)
