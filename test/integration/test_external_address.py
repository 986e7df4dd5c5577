"""The administrator's own script brings the cluster's address up and takes it down, whatever the occasion is."""

from __future__ import annotations

import os

import pytest
from support.joining import Command
from support.realcluster import RealCluster, RealNode, WaitUntil

SCRIPT, ASKED = "/etc/ganeti/scripts/master-ip-setup", "/etc/ganeti/asked"
# The same file on every node: it writes beside itself.
TEXT = """#!/bin/sh
echo "$1 $MASTER_IP/$MASTER_NETMASK $MASTER_NETDEV $CLUSTER_IP_VERSION" >> "${0%/scripts/*}/asked"
"""


class Story:
    def __init__(self, cluster: RealCluster):
        self.address = cluster.config.cluster.master_ip

    def Must(self, node: RealNode, *words: str) -> None:
        done = Command(node, *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def Asked(self, node: RealNode, *expected: str) -> None:
        """Wait until exactly this was asked of the node's script, each as "VERB MASK DEVICE", and forget it."""
        lines = [f"{verb} {self.address}/{rest} 4" for verb, rest in (words.split(" ", 1) for words in expected)]

        def seen() -> list[str]:
            return node.Read(ASKED).splitlines() if os.path.exists(node.Path(ASKED)) else []

        WaitUntil(lambda: len(seen()) >= len(lines), f"the script is asked: {expected}")
        assert seen() == lines
        node.Write(ASKED, "")


@pytest.mark.limit(240)
def test_the_script_is_asked_wherever_the_address_goes() -> None:
    with RealCluster(2) as cluster:
        story = Story(cluster)
        first, second = cluster.nodes
        cluster.StartNodeDaemons()
        first.StartMaster()
        refused = Command(first, "gnt-cluster", "modify", "--use-external-mip-script=yes")
        assert refused.returncode == 1 and f"{SCRIPT}, cannot be used" in refused.stderr
        first.Write(SCRIPT, TEXT, 0o755)
        story.Must(first, "gnt-cluster", "modify", "--use-external-mip-script=yes")
        story.Asked(first, "start 32 lo")
        assert second.Read(SCRIPT) == TEXT and os.access(second.Path(SCRIPT), os.X_OK)
        story.Must(first, "gnt-cluster", "modify", "--master-netmask=24")
        story.Asked(first, "stop 32 lo", "start 24 lo")
        story.Must(first, "gnt-cluster", "deactivate-master-ip", "--yes")
        story.Asked(first, "stop 24 lo")
        story.Must(first, "gnt-cluster", "activate-master-ip")
        story.Asked(first, "start 24 lo")
        # A start of the master daemon, and a fail-over: the new master's daemon starts it, and so does the command.
        first.Stop("ganeti-masterd")
        first.StartMaster()
        story.Asked(first, "start 24 lo")
        story.Must(second, "gnt-cluster", "master-failover")
        story.Asked(first, "stop 24 lo")
        story.Asked(second, "start 24 lo", "start 24 lo")
        with open(os.path.join(cluster.base, "hosts"), "a", encoding="utf-8") as stream:
            stream.write(f"{story.address} renamed.example.com\n")
        story.Must(second, "gnt-cluster", "rename", "--force", "renamed.example.com")
        story.Asked(second, "stop 24 lo", "start 24 lo")
        # Back to the script that comes with the software: the other one ends what it began.
        story.Must(second, "gnt-cluster", "modify", "--use-external-mip-script=no")
        story.Asked(second, "stop 24 lo")
        story.Must(second, "gnt-cluster", "modify", "--use-external-mip-script=yes")
        story.Asked(second, "start 24 lo")
        story.Must(second, "gnt-node", "remove", first.name)
        story.Must(second, "gnt-cluster", "destroy", "--yes-do-it")
        WaitUntil(lambda: "stop" in second.Read(ASKED), "the script is asked at the end of the cluster")
        assert not [line for line in second.Read(ASKED).splitlines() if not line.startswith("stop ")]
        assert first.Read(ASKED) == ""
