"""A real node daemon on an address of its own, and what it takes to call it.

::

    cluster = Cluster(tmp_path)                 one server.pem, one client.pem that candidates_certs names
    noded = cluster.StartNoded("node1")         returns when it listens
    runner = cluster.Runner()                   calls it as a master would: runner.call_version(["node1"])
    cluster.Close()
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

from ganeti import constants, rpc, runtime, x509
from ganeti.rpc.curl import CurlTransport
from support import allocator
from support.patience import Deadline
from support.virtualnode import VirtualNode

_CODE = "import sys; from ganeti.server.noded import Main; sys.exit(Main())"
CANDIDATES = "/var/lib/ganeti/ssconf_master_candidates_certs"
LOG = "/var/log/ganeti/node-daemon.log"
PID_FILE = "/var/run/ganeti/ganeti-noded.pid"


class Noded(VirtualNode):
    """One node with its daemon."""

    def __init__(self, base: str, name: str, address: str):
        super().__init__(base, name)
        self.address = address
        self.pid = 0

    def Start(self, *options: str) -> None:
        # By its name: a process that is called otherwise is not the daemon, and gets no signal.
        result = self.Run([sys.executable, self.Write("/programs/ganeti-noded", _CODE), "-b", self.address, *options])
        assert result.returncode == 0, result.stderr
        self.pid = int(self.Read(PID_FILE))

    def Signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def Stop(self) -> None:
        """Ends the daemon, its children that still work too."""
        if self.pid:
            for child in self._AllChildren():
                runtime.KillProcess(child, signal.SIGKILL)
            runtime.KillProcess(self.pid, signal.SIGTERM)
            if not runtime.WaitProcess(self.pid, 10):
                runtime.KillProcess(self.pid, signal.SIGKILL)
            self.pid = 0

    def WaitEnd(self, timeout: float = 20) -> bool:
        ended = runtime.WaitProcess(self.pid, timeout)
        if ended:
            self.pid = 0
        return ended

    def Children(self) -> list[int]:
        """Processes that serve connections now."""
        exporters = {int(pid) for pid in re.findall(r"Started the exporter as process (\d+)", self.Log())}
        return [pid for pid in self._AllChildren() if pid not in exporters]

    def Asleep(self) -> bool:
        """Whether each of them waits for something: what it had to do for its peer is done."""
        return all(
            runtime.ReadFile(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0] == b"S" for pid in self.Children()
        )

    def Exporter(self) -> int:
        """The process that keeps the files up to date; 0 if there is none."""
        for pid in re.findall(r"Started the exporter as process (\d+)", self.Log()):
            if int(pid) in self._AllChildren():
                return int(pid)
        return 0

    def WaitExporter(self, other_than: int = 0, timeout: float = 20) -> int:
        """The exporter once there is one (another one)."""
        deadline = Deadline(timeout)
        while (found := self.Exporter()) in (0, other_than):
            assert not deadline.Passed(), "no exporter was started"
            runtime.Sleep(0.02)
        return found

    def _AllChildren(self) -> list[int]:
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        except OSError:
            return []
        return [int(word) for word in text.split()]

    def Log(self) -> str:
        try:
            return self.Read(LOG)
        except FileNotFoundError:
            return ""

    def WaitLog(self, text: str, timeout: float = 10) -> bool:
        """Whether the log gets a line with ``text``; a client may hear of something before it is written."""
        deadline = Deadline(timeout)
        while text not in self.Log():
            if deadline.Passed():
                return False
            runtime.Sleep(0.02)
        return True

    def Servers(self, procedure: str) -> list[str]:
        """The process of each call of a procedure, as the log tells it."""
        return re.findall(rf"pid=(\d+)/\S+ INFO Call of {procedure} ", self.Log())

    def Memory(self, pid: int, key: str) -> int:
        """A line of smaps_rollup or status, in KiB."""
        for name in ("smaps_rollup", "status"):
            found = re.search(rf"^{key}:\s+(\d+) kB", Path(f"/proc/{pid}/{name}").read_text(), re.MULTILINE)
            if found:
                return int(found.group(1))
        raise KeyError(key)


class Cluster:
    """Certificates, nodes, and the master's side of calls."""

    def __init__(self, base: Path):
        self.base = base
        self.lease = allocator.Lease()
        self.server_pem = x509.MakeServerPem()
        self.client_pem = x509.MakeClientPem(self.server_pem, "master")
        self.server_file = self.WritePem("server.pem", self.server_pem)
        self.client_file = self.WritePem("client.pem", self.client_pem)
        self.nodes: dict[str, Noded] = {}
        self.epoch: str | None = "1.aaaaaaaaaaaaaaaa"
        self.refused: list[tuple[str, str]] = []
        self._transports: list[CurlTransport] = []

    def WritePem(self, name: str, pem: str) -> str:
        path = self.base / name
        path.write_text(pem)
        return str(path)

    def MakeNode(self, name: str, bootstrap: bool = False) -> Noded:
        """A node that knows the cluster and one candidate; none if ``bootstrap``."""
        noded = Noded(str(self.base / "nodes"), name, self.lease.Address())
        with open(self.base / "nodes" / "hosts", "a", encoding="utf-8") as stream:
            stream.write(f"{noded.address} {name}\n")
        noded.Write("/var/lib/ganeti/server.pem", self.server_pem, 0o440)
        noded.Write("/var/lib/ganeti/client.pem", self.client_pem, 0o440)
        if not bootstrap:
            self.SetCandidates(noded, self.client_pem)
        self.nodes[name] = noded
        return noded

    def SetCandidates(self, noded: Noded, *pems: str) -> None:
        lines = [f"uuid{i}={x509.Digest(pem)}\n" for i, pem in enumerate(pems)]
        noded.Write(CANDIDATES, "".join(lines), 0o644)

    def StartNoded(self, name: str, *options: str, bootstrap: bool = False) -> Noded:
        noded = self.MakeNode(name, bootstrap)
        noded.Start(*options)
        return noded

    def Transport(self, server_file: str | None = None, client_file: str | None = None) -> CurlTransport:
        transport = CurlTransport(server_file or self.server_file, client_file or self.client_file)
        self._transports.append(transport)
        return transport

    def Runner(self, transport: CurlTransport | None = None) -> rpc.RpcRunner:
        return rpc.RpcRunner(
            transport or self.Transport(),
            self.Resolve,
            lambda: self.epoch,
            refused=lambda epoch, master, node: self.refused.append((epoch, master)),
            sender="master",
        )

    def Resolve(self, node: str) -> tuple[str, str, int, bool, str]:
        return (node, self.nodes[node].address, constants.DEFAULT_NODED_PORT, False, "")

    def Close(self) -> None:
        for transport in self._transports:
            transport.Close()
        for noded in self.nodes.values():
            noded.Stop()
        self.lease.Release()
