"""Transfers between simulated nodes, as the master sees them: the programs at both ends are played.

``realtransfers`` has real ends.
"""

from __future__ import annotations

import dataclasses
import functools
import posixpath
from typing import Any

from simulated.disk import File

from ganeti import objects, runtime
from ganeti.backend import wire
from ganeti.storage import tree
from support.creation import OnDisks
from support.master import Master
from support.simnode import SimNode
from support.standinstorage import Write

CONTENT = [b"the first disk", b"the second disk"]
_FIRST_PORT = 20000


@dataclasses.dataclass
class _Program:
    """One end; ``looks``: how many more looks it runs."""

    node: SimNode
    component: str
    path: str
    options: dict[str, Any]
    port: int | None = None
    peer: _Program | None = None
    looks: int = 0
    sends: bool = False
    ended: int | None = None
    error: str | None = None

    @property
    def content(self) -> File:
        found = self.node.machine.disk.Find(self.path)
        assert isinstance(found, File), self.path
        return found


class Transfers:
    """Plays the programs of all nodes; a transfer copies what one device holds to the other.

    ``looks``: after so many looks at it a sending program ends; ``nobody``: receiving ones give up; ``elsewhere``: their senders are
    in another cluster, and send everything;
    ``failing``: component -> why its sending program fails then;
    ``done``: (sending node, receiving node, component, compression) of each transfer that succeeded.
    """

    def __init__(self, master: Master, looks: int = 2, nobody: bool = False, elsewhere: bool = False):
        self.looks = looks
        self.nobody = nobody
        self.elsewhere = elsewhere
        self.failing: dict[str, str] = {}
        self.done: list[tuple[str, str, str, str]] = []
        self.programs: dict[str, _Program] = {}
        self._count = 0
        for node in master.all:
            for name, procedure in (
                ("import_start", self._Receive),
                ("export_start", self._Send),
                ("impexp_status", self._Report),
                ("impexp_abort", self._Abort),
                ("impexp_cleanup", self._CleanUp),
            ):
                node.stand_ins[name] = functools.partial(procedure, node)
            node.Stop()
            node.Start()

    def _Add(self, program: _Program, kind: str) -> str:
        self._count += 1
        name = f"{kind}-{program.component}-{self._count}"
        self.programs[name] = program
        return name

    def _Receive(self, node: SimNode, opts: Any, _instance: Any, component: str, dest: Any) -> str:
        return self._Add(_Program(node, component, _Path(dest), opts, _FIRST_PORT + self._count), "import")

    def _Send(self, node: SimNode, opts: Any, host: str, port: int, _instance: Any, component: str, source: Any) -> str:
        peers = [one for one in self.programs.values() if one.port == port and host == one.node.secondary_address]
        # None: it is in another cluster, where nobody looks.
        peer = peers[0] if peers else None
        if peer is not None:
            assert (opts["magic"], opts["compress"]) == (peer.options["magic"], peer.options["compress"])
        program = _Program(node, component, _Path(source), opts, peer=peer, looks=self.looks, sends=True)
        return self._Add(program, "export")

    def _Report(self, _node: SimNode, names: list[str]) -> list[Any]:
        return [self._Status(self.programs.get(name)) for name in names]

    def _Status(self, program: _Program | None) -> dict[str, Any] | None:
        if program is None:
            return None
        if program.sends and program.ended is None:
            self._Proceed(program, program.peer)
        elif not program.sends and self.nobody:
            program.ended, program.error = 1, "No sender connected"
        elif not program.sends and self.elsewhere:
            program.ended = 0
        return {
            "listen_port": program.port,
            "connected": program.sends or any(one.peer is program for one in self.programs.values()),
            "exit_status": program.ended,
            "error_message": program.error,
            "recent_output": [],
        }

    def _Proceed(self, source: _Program, target: _Program | None) -> None:
        source.looks -= 1
        if source.looks > 0:
            return
        source.error = self.failing.get(source.component)
        source.ended = 1 if source.error else 0
        if target is None:
            return
        if not target.node.noded.alive:
            source.ended, source.error = 1, "connection reset by peer"
        elif not source.error:
            target.content.data = source.content.data
            target.ended = 0
            self.done.append((source.node.name, target.node.name, source.component, source.options["compress"]))

    def _Abort(self, _node: SimNode, name: str) -> None:
        program = self.programs[name]
        if program.ended is None:
            program.ended, program.error = 1, "ended by a signal"

    def _CleanUp(self, _node: SimNode, name: str) -> None:
        self.programs.pop(name, None)


class TwoDisks:
    """An instance with two disks on the first node, which hold CONTENT."""

    def __init__(self, master: Master, name: str, template: str = "plain", up: bool = True):
        self.master, self.name = master, name
        self.transfers = Transfers(master)
        more: dict[str, Any] = {"snode": "node2"} if template == "drbd" else {}
        master.Run(OnDisks(name, {"size": 128}, {"size": 256}, disk_template=template, start=up, **more))
        for disk, content in zip(self.disks, CONTENT, strict=True):
            Write(self.File(0, disk), content)

    @property
    def web(self) -> objects.Instance:
        return self.master.Instance(self.name)

    @property
    def disks(self) -> tuple[objects.Disk, ...]:
        return self.master.snapshot.InstanceDisks(self.web)

    def File(self, number: int, disk: objects.Disk) -> File:
        """What holds the data of a disk on a node."""
        data = disk.children[0] if disk.children else disk
        path = "/dev/{}/{}".format(*data.logical_id) if data.dev_type == "plain" else data.logical_id[1]
        file = self.master[number].machine.disk.Lookup(path)
        assert isinstance(file, File), f"{path} is not on node{number + 1}"
        return file


def _Path(end: Any) -> str:
    """Return the path of a disk that is set up on this node, or of a file, which is made; scripts copy whole disks."""
    kind, (disk, *_) = end
    if kind == "file":
        if not runtime.Exists(disk):
            runtime.MakeDirs(posixpath.dirname(disk))
            runtime.WriteFile(disk, b"")
        return str(disk)
    path = tree.FindOrFail(wire.Disk(disk)).dev_path
    assert path is not None
    return path
