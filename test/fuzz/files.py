"""Files that a crash, a bad disk or an editor left behind: configuration, jobs, ssconf, runtime files, databases."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support import configs
from support.nodes import MakeNodes

from fuzz import damage
from fuzz.target import Broken, Target
from ganeti import configfile, errors, pathutils, ssconf, x509
from ganeti.backend import guestnotes
from ganeti.http import tls
from ganeti.hypervisor import fake
from ganeti.hypervisor.kvm import runfile
from ganeti.jqueue import job
from ganeti.server.nodepolicy import NodePolicy
from ganeti.store import NodeStore
from ganeti.store.base import Epoch, Position, Row


class Configuration(Target):
    """config.data, edited or damaged."""

    ROUNDS = 150

    def __init__(self) -> None:
        self._value = configs.ExampleDict()

    def Round(self, rng: random.Random) -> Any:
        text = damage.Text(rng, self._value)
        root = configfile.LoadConfig(text.decode("utf-8", "surrogateescape"))
        configfile.VerifyConfig(root)
        ssconf.Values(root)
        return text


class JobFile(Target):
    """A file of the job queue."""

    ROUNDS = 400

    _OP = {
        "OP_ID": "OP_TEST_DELAY",
        "duration": 1.0,
        "on_nodes": [],
        "on_master": True,
        "priority": 0,
        "debug_level": 0,
    }

    def Round(self, rng: random.Random) -> Any:
        log = [[1, [1700000000, 5], "message", "text"]]
        stamp = [1700000000, 5]
        op = {
            "input": {**self._OP, "depends": [[7, ["success"]]], "reason": [["me", "why", 1]]},
            "status": rng.choice(("queued", "waiting", "running", "success", "error", "canceled")),
            "result": None,
            "log": log,
            "start_timestamp": stamp,
            "exec_timestamp": stamp,
            "end_timestamp": None,
            "priority": 0,
        }
        value = {"id": 5, "ops": [op], "received_timestamp": stamp, "start_timestamp": stamp, "end_timestamp": None}
        found, logs = job.ReadJob(damage.Text(rng, value))
        view = job.View(found.id, found, logs)
        found.Json(logs)
        return str(view)


class RuntimeFiles(Target):
    """What a hypervisor left on a node."""

    ROUNDS = 300

    def Round(self, rng: random.Random) -> Any:
        root = configs.Example()
        inst = root.instances[configs.WEB]
        nics = [nic.ToDict(runtime=True) for nic in inst.nics]
        disks = [[disk.ToDict(runtime=True), "/dev/x", None] for disk in root.InstanceDisks(inst)]
        text = damage.Text(rng, [["qemu", "-machine", "pc"], nics, {"acpi": True}, disks]).decode("utf-8", "replace")
        for read in (lambda: runfile.Parse(text, "file"), lambda: fake.ParseRecord("web", text)):
            try:
                read()
            except errors.GenericError:
                pass


class NodeFiles(Target):
    """ssconf files and notes of a node: readers say what is wrong, and nobody is let in by a damaged list."""

    ROUNDS = 150

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="gnt-fuzz-")
        (self._node,) = MakeNodes(Path(self._folder.name), "node1.example.org")
        self._node.__enter__()
        self._values = ssconf.Values(configs.Example())
        server = x509.MakeServerPem()
        Path(pathutils.NODED_CERT_FILE).write_text(server)
        self._server = tls.Digests(x509.Digest(server), x509.Sha256(server))
        self._stranger = tls.Digests(x509.DigestOfDer(b"stranger"), x509.Sha256(server)[::-1])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.__exit__(kind, value, trace)
        self._folder.cleanup()

    def Round(self, rng: random.Random) -> Any:
        for key, value in self._values.items():
            data = ssconf.FileText(key, value)
            if rng.random() < 0.3 or key == "master_candidates_certs":
                data = damage.Bytes(rng, data)
            Path(pathutils.SsconfFile(key)).write_bytes(data)
        store = ssconf.SimpleStore()
        for name in (name for name in dir(store) if name.startswith("Get") and name != "GetHvparamsForHypervisor"):
            try:
                getattr(store, name)()
            except errors.GenericError:
                pass
        policy = NodePolicy()
        for peer in ([], [self._server], [self._stranger], [self._stranger, self._server]):
            if policy.Refusal(peer) is None:
                raise Broken(f"let in by {Path(pathutils.SsconfFile('master_candidates_certs')).read_bytes()!r}")
        note = Path(pathutils.MIGRATIONS_DIR, "web")
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(damage.Text(rng, {"attempt": "a", "arrival": "never", "sent_to": "192.0.2.1"}))
        guestnotes.Read("web")


class StoreDatabase(Target):
    """The database of a node's store, with bytes changed anywhere."""

    ROUNDS = 60
    ANSWERS = (errors.GenericError, OSError)

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="gnt-fuzz-")
        path = f"{self._folder.name}/store.db"
        own = NodeStore(path, "node1", self._folder.name + "/run/calls")
        epoch = Epoch(1, "0123456789abcdef")
        own.Promise("", epoch, "node1")
        for number in range(40):
            rows = [Row("job", str(number), "x" * 500), Row("node", f"n{number}", '{"name":"é"}')]
            own.Store(epoch, rows, Position(epoch, number))
        own.Close()
        self._data = Path(path).read_bytes()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def Round(self, rng: random.Random) -> Any:
        path = Path(self._folder.name, "damaged.db")
        for name in os.listdir(self._folder.name):
            if name.startswith("damaged"):
                os.unlink(f"{self._folder.name}/{name}")
        data = damage.Bytes(rng, self._data)
        path.write_bytes(data)
        own = NodeStore(str(path), "node1", self._folder.name + "/run/calls")
        try:
            own.ReadChecked(["job", "node"])
            own.Describe()
            epoch = own.GetState().promised
            own.Store(epoch, [Row("job", "new", "x")], Position(epoch, 1))
        finally:
            own.Close()
            if not path.exists():
                raise Broken("the file is gone")
