"""A node of a RealCluster is set up by its master: what an administrator types, without a login."""

from __future__ import annotations

import json
import subprocess
import sys

from support.realcluster import FollowJob, RealNode
from support.stories import STARTER

_SETUP = "import sys; from ganeti.tools.node_daemon_setup import Main; sys.exit(Main())"


def Command(node: RealNode, *words: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    done = node.Run([sys.executable, "-c", STARTER, *words], timeout=timeout)
    assert "Traceback" not in done.stderr
    return done


def SetUp(master: RealNode, node: RealNode) -> None:
    """Gives the node what it needs to be called by the master; its daemons are left alone."""
    join = Command(master, "gnt-node", "show-join-data", node.name)
    assert join.returncode == 0, join.stderr
    data = {**json.loads(join.stdout), "start_node_daemon": False}
    done = node.Run([sys.executable, "-c", _SETUP], stdin=json.dumps(data))
    assert done.returncode == 0, done.stderr


def Readd(master: RealNode, node: RealNode) -> None:
    """Takes a node in again.  No node can be logged in to, which the command would check, so it is the opcode."""
    add = {"OP_ID": "OP_NODE_ADD", "node_name": node.name, "readd": True, "node_setup": False, "reason": []}
    with master.Client() as client:
        status, log = FollowJob(client, client.SubmitJob([add]))
    assert status == "success", log
