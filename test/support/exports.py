"""A node whose files are written from its copy of the store, as tests of the exporter need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simulated import Machine, World

from ganeti import errors, objects, pathutils, runtime, serializer, ssconf
from ganeti.store import Epoch, NodeStore, Position, Row
from ganeti.store.base import ID_MASTER, KIND_MASTER, NOWHERE, Line
from ganeti.store.election import Adopted
from ganeti.store.files import export
from ganeti.store.files.edits import HandEdits
from support import configs

CLUSTER = "00000001-aaaa-4bbb-8ccc-000000000001"
EPOCH = Epoch(1, "aa")
JOB = '{"id":%d,"ops":[],"received_timestamp":null}'


def SsconfTexts(rows: Mapping[str, Mapping[str, str]]) -> Any:
    return ssconf.Values(
        objects.Snapshot.FromRows((kind, row_id, value) for kind in rows for row_id, value in rows[kind].items())
    )


class Node:
    """A node with a store that a master of one epoch writes to."""

    def __init__(self, name: str = "node1"):
        self.store = NodeStore(pathutils.STORE_FILE, name, pathutils.CALLS_DIR)
        self.store.Promise(CLUSTER, EPOCH, "node1")
        self.snapshot = configs.Example()
        self.exporter = self.NewExporter()
        rows = [Row(*row) for row in self.snapshot.ToRows()]
        self.Adopt([*rows, Row("queue", "serial", "7"), Row("job", "7", JOB % 7)])

    def NewExporter(self, serving: bool = True) -> export.Exporter:
        return export.Exporter(self.store, export.Owners(), SsconfTexts, serving)

    def Adopt(self, rows: list[Row]) -> None:
        master = Row(KIND_MASTER, ID_MASTER, serializer.Dump({"name": "node1", "epoch": str(EPOCH)}))
        self.store.Adopt(EPOCH, None, Line((), NOWHERE), 0, False, [*rows, master])
        self.Acknowledge()

    def Put(self, *rows: Row, acknowledge: bool = True) -> Position:
        position = self.store.Store(EPOCH, rows, NOWHERE)
        if acknowledge:
            self.Acknowledge()
        return position

    def Acknowledge(self) -> None:
        self.store.Acknowledge(EPOCH, self.store.GetState().last, 0)

    def Change(self, obj: objects.ConfigObject) -> None:
        """A configuration change as config makes it."""
        self.snapshot = self.snapshot.WithObject(obj).Replace(serial_no=self.snapshot.serial_no + 1)
        uuid = obj.__dict__["uuid"] if obj.KIND != "cluster" else "cluster"
        self.Put(Row(obj.KIND, uuid, obj.Json()), Row("config", "config", self.snapshot.TopRow()))

    def Edits(self) -> dict[tuple[str, str], str | None]:
        return EditsOf(self.store)


def NewStore(name: str = "node1") -> NodeStore:
    """The store as another process of the node opens it."""
    return NodeStore(pathutils.STORE_FILE, name, pathutils.CALLS_DIR)


def EditsOf(store: NodeStore) -> dict[tuple[str, str], str | None]:
    """What the next start would take over, with the own history as the adopted one."""
    state, line, rows = store.ReadAll()
    values: dict[str, dict[str, str]] = {}
    seqs: dict[str, dict[str, int]] = {}
    for row in rows:
        seqs.setdefault(row.kind, {})[row.id] = row.seq
        if row.value is not None:
            values.setdefault(row.kind, {})[row.id] = row.value

    def check(job_id: int, text: str) -> None:
        if serializer.Load(text)["id"] != job_id:
            raise errors.JobFileCorrupted("it is another job")

    edits = HandEdits(store, check).Rows(Adopted(values, seqs, state.last, line))
    return {(row.kind, row.id): row.value for row in edits}


def Play(story: Callable[[Node, Machine], None]) -> None:
    with World(3) as world:
        machine = world.AddMachine("node1")
        machine.Call(lambda: story(Node(), machine))
        assert not world.failures


def Text(path: str) -> str | None:
    return runtime.ReadText(path) if runtime.Exists(path) else None


def Edit(path: str, change: Callable[[str], str]) -> None:
    runtime.WriteFile(path, change(runtime.ReadText(path)), 0o640)


def Asides() -> list[str]:
    return [name for name in runtime.ListDir(pathutils.DATA_EXT_DIR) if name.startswith(export.ASIDE_PREFIX)]
