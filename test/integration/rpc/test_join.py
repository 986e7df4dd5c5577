"""A machine joins without SSH: what the master prints is fed to node-daemon-setup, and the node daemon answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.noded import Cluster, Noded

from ganeti import constants, x509

_SETUP = "import sys; from ganeti.tools.node_daemon_setup import Main; sys.exit(Main())"
_UTIL = "import sys; from ganeti.tools.daemon_util import Main; sys.exit(Main())"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.Close()


def empty_machine(cluster: Cluster) -> Noded:
    """Nothing but the programs, and an address."""
    noded = Noded(str(cluster.base / "nodes"), "node1", cluster.lease.Address())
    (cluster.base / "nodes" / "hosts").write_text(f"{noded.address} node1\n")
    noded.Write("/etc/default/ganeti", f'NODED_ARGS="-b {noded.address}"\nCONFD_ARGS="-b {noded.address}"\n')
    cluster.nodes["node1"] = noded
    return noded


def test_an_empty_machine_becomes_a_node_that_answers(cluster: Cluster) -> None:
    noded = empty_machine(cluster)
    data = {
        "cluster_name": "cluster.example.com",
        "node_daemon_certificate": cluster.server_pem,
        "hmac_key": "0" * 40 + "\n",
        "ssconf": {
            "cluster_name": "cluster.example.com",
            "master_node": "node0",
            "master_candidates_certs": f"uuid={x509.Digest(cluster.client_pem)}",
        },
        "start_node_daemon": True,
        "node_name": "node1",
    }
    result = noded.Run([sys.executable, "-c", _SETUP], stdin=json.dumps(data))
    assert result.returncode == 0, result.stderr
    noded.pid = int(noded.Read("/var/run/ganeti/ganeti-noded.pid"))
    runner = cluster.Runner()
    assert runner.call_version(["node1"])["node1"].payload == constants.PROTOCOL_VERSION
    assert runner.call_master_node_name(["node1"])["node1"].payload == "node0"
    ((kind, digest),) = runner.call_node_crypto_tokens("node1", [["ssl", "get", None]]).payload
    assert kind == "ssl" and digest == x509.Digest(noded.Read("/var/lib/ganeti/client.pem"))
    # The daemon that will answer questions once this is a master candidate waits for that.
    assert noded.Python(_UTIL, "check", constants.CONFD).returncode == 0
    # Both stop as any daemon does.
    result = noded.Python(_UTIL, "stop-all")
    assert result.returncode == 0, result.stderr
    assert noded.WaitEnd()
    assert noded.Python(_UTIL, "check", constants.CONFD).returncode == 1
