"""A cluster of real daemons whose nodes reach each other by the real ssh: each has an SSH daemon of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from ganeti import objects, ssh
from support.realcluster import RealCluster, RealNode
from support.sshserver import AUTHORIZED, HOST_KEY, PORT, USER_KEY, MakeKey, SshServer, WriteClient
from support.stories import STARTER

PUB_KEYS = "/var/lib/ganeti/ganeti_pub_keys"


class Managed:
    """A cluster that manages SSH, as ``gnt-cluster init`` makes it, and machines that are not in it."""

    def __init__(self, count: int = 2, candidates: int | None = None) -> None:
        self.cluster = RealCluster(count, candidates)
        self.path = WriteClient(os.path.join(self.cluster.base, "bin")) + os.pathsep + os.environ["PATH"]
        self.servers: list[SshServer] = []
        keys = {node.uuid: MakeKey(node.Path(USER_KEY)) for node in self.cluster.nodes}
        host_key = MakeKey(self.cluster[0].Path(HOST_KEY))
        self.cluster.WriteConfig(self._Config(host_key.split()[1]))
        for node in self.cluster.nodes:
            for path in (HOST_KEY, HOST_KEY + ".pub"):
                node.Write(path, self.cluster[0].Read(path), 0o600)
            node.Write("/var/lib/ganeti/known_hosts", f"cluster.example.com {host_key}\n")
            node.Write(PUB_KEYS, ssh.FormatNodeKeys({uuid: [key] for uuid, key in keys.items()}), 0o600)
            node.Write(AUTHORIZED, "".join(f"{key}\n" for key in keys.values()), 0o600)
            self.Serve(node, node.address)
            node.Start("ganeti-noded", "-b", node.address, "--no-mlock", PATH=self.path)
        self.master = self.cluster[0]
        self.master.Start("ganeti-masterd", PATH=self.path)

    def _Config(self, host_key: str) -> objects.Snapshot:
        config = self.cluster.config
        params = {**config.cluster.ndparams, "ssh_port": PORT}
        changed = config.cluster.Replace(modify_ssh_setup=True, rsahostkeypub=host_key, ndparams=params)
        return config.WithObject(changed)

    def Serve(self, node: RealNode, address: str) -> SshServer:
        self.servers.append(SshServer(node, address, self.path))
        return self.servers[-1]

    def Machine(self, name: str) -> tuple[RealNode, SshServer]:
        """A machine that lets the administrator of the master in, as a fresh installation does."""
        machine = self.cluster.MakeStranger(name)
        machine.Write(AUTHORIZED, MakeKey(self.master.Path(USER_KEY)) + "\n# mine\n", 0o600)
        return machine, self.Serve(machine, machine.address)

    def Command(self, *words: str, merged: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command on the master; ``merged``: what it says on stderr is in stdout, too, in the order in which it was said."""
        argv = [sys.executable, "-c", STARTER, *words]
        argv = ["env", "-u", "PYTHONUNBUFFERED", "sh", "-c", 'exec "$@" 2>&1', "sh", *argv] if merged else argv
        done = self.master.Run(argv, timeout=150, PATH=self.path)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def Keys(self, node: RealNode) -> dict[str, list[str]]:
        return ssh.ParseNodeKeys(node.Read(PUB_KEYS))

    def Uuid(self, name: str) -> str:
        with self.master.Client() as client:
            ((uuid,),) = client.QueryNodes([name], ["uuid"])
        return str(uuid)

    def SshProblems(self, *options: str) -> list[str]:
        done = self.Command("gnt-cluster", "verify", "--error-codes", *options)
        assert "Verifying node status" in done.stdout
        return [line for line in done.stdout.splitlines() if "ENODESSH" in line]

    def Close(self) -> None:
        for server in self.servers:
            server.Close()
        self.cluster.Close()
