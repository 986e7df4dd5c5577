"""Names, addresses and directories of a quickstart; pure, and used by the launcher without any package of ours."""

from __future__ import annotations

import dataclasses
import hashlib

# Made by root for itself alone, and checked before it is used.
DEFAULT_BASE = "/tmp/gq"  # noqa: S108
CLUSTER = "cluster"
NODED_PORT = 1811
RAPI_PORT = 5080
# A user of the REST interface, who may do everything.
RAPI_USER = "quickstart"


@dataclasses.dataclass(frozen=True)
class Place:
    """``base`` holds everything; in ``network``, 127.X.Y, node N has address .N and the cluster .254."""

    base: str
    count: int
    network: str

    @property
    def nodes(self) -> list[str]:
        return [f"node{number}" for number in range(1, self.count + 1)]

    def Address(self, node: str) -> str:
        return f"{self.network}.{self.nodes.index(node) + 1}"

    @property
    def cluster_address(self) -> str:
        return f"{self.network}.254"

    def Root(self, node: str) -> str:
        return f"{self.base}/{node}"

    @property
    def shared(self) -> str:
        """The directory of disks that every node reaches."""
        return f"{self.base}/shared"

    @property
    def guest_files(self) -> str:
        return f"{self.base}/guest"

    @property
    def bridge(self) -> str:
        return BridgeName(self.base)

    def Hosts(self) -> str:
        """The hosts file that the nodes of a virtual cluster read first."""
        lines = [f"{self.cluster_address} {CLUSTER}"] + [f"{self.Address(node)} {node}" for node in self.nodes]
        return "".join(line + "\n" for line in lines)

    def Environment(self, node: str, path: str) -> dict[str, str]:
        """Variables under which a node's programs run."""
        return {
            "GANETI_ROOTDIR": self.Root(node),
            "GANETI_HOSTNAME": node,
            "PATH": path,
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }

    def Defaults(self, node: str) -> str:
        """The node's etc/default/ganeti: daemons listen on its own address only."""
        address = self.Address(node)
        return f'NODED_ARGS="-b {address} --no-mlock"\nCONFD_ARGS="-b {address}"\nRAPI_ARGS="-b {address}"\n'

    def RapiUrl(self, path: str) -> str:
        """An address of the REST interface; it is served on the master, the first node."""
        return f"https://{self.Address(self.nodes[0])}:{RAPI_PORT}{path}"

    def Instance(self, number: int) -> str:
        return f"inst{number}"

    def NodeOf(self, number: int) -> str:
        """Where instance ``number``, counted from 1, is made: one node after the other."""
        return self.nodes[(number - 1) % self.count]


def BridgeName(base: str) -> str:
    """Return the name of the bridge of a base directory, short enough for Linux."""
    return "gq" + hashlib.sha256(base.encode()).hexdigest()[:8]


def Networks(base: str) -> list[str]:
    """Return candidates for the network, in the order in which this base directory tries them."""
    start = int.from_bytes(hashlib.sha256(base.encode()).digest()[:4], "big")
    total = 40 * 254
    return [f"127.{200 + index // 254}.{1 + index % 254}" for index in ((start + n * 101) % total for n in range(20))]
