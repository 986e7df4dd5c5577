"""ganeti-confd as a user of its own, which can read what it needs and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import layout
from support.realcluster import RealCluster, WaitUntil

from ganeti import confd, objects
from ganeti.confd import queries

USER = "bin"
SETTINGS = {"CONFD_USER": USER, "CONFD_GROUP": USER, "DAEMONS_GROUP": USER}
ENSURE = "import sys; from ganeti.tools.ensure_dirs import Main; sys.exit(Main())"
# Modules are imported before root's rights are given up: the tree under test may lie where only root can read.
CONFD = """
import importlib, pkgutil, sys
from ganeti.runtime import real
for module in pkgutil.iter_modules(real.__path__):
    importlib.import_module(f"ganeti.runtime.real.{module.name}")
from ganeti.server.confd import Main
sys.exit(Main())
"""
DATA = "/var/lib/ganeti"


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster(1) as made:
        # The user has to get through the test's own directory.
        os.chmod(made.base, 0o755)
        yield made


@pytest.mark.req("D22-PRIV-03")
def test_it_runs_as_its_own_user(cluster: RealCluster, tmp_path: Path) -> None:
    node = cluster[0]
    package = layout.MakePackage(str(tmp_path / "package"), **SETTINGS)
    assert node.Python(ENSURE, PYTHONPATH=package).returncode == 0
    done = node.Python(CONFD, PYTHONPATH=package)
    assert done.returncode == 0, done.stderr
    pid = node.Pid("ganeti-confd")
    with open(f"/proc/{pid}/status", encoding="ascii") as stream:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in stream)
    uid = str(os.stat(node.Path(f"{DATA}/hmac.key")).st_uid)
    assert uid != "0" and status["Uid"].split() == [uid] * 4
    assert int(status["CapEff"], 16) == 0
    key = node.Read(f"{DATA}/hmac.key").encode()

    def ask() -> int:
        reply = confd.Ask(queries.NODE_ROLE, node.name, [node.address], key=key).reply
        assert reply is not None and reply.status == queries.OK
        return reply.serial

    before = ask()
    own = cluster.config.nodes[node.uuid]
    text = objects.ConfigText(cluster.config.WithObject(own.Replace(serial_no=own.serial_no + 5)))
    # A new file of the exporter's, with the group that may read it.
    node.Write(f"{DATA}/config.data.new", text, 0o640)
    os.chown(node.Path(f"{DATA}/config.data.new"), 0, int(status["Gid"].split()[0]))
    os.rename(node.Path(f"{DATA}/config.data.new"), node.Path(f"{DATA}/config.data"))
    WaitUntil(lambda: ask() > before, "the new configuration", 12)
    assert "cannot be read" not in node.Log("ganeti-confd") and "later" not in node.Log("ganeti-confd")
    # What only others may read stays closed to it.
    refused = node.Run([sys.executable, "-c", _READ, uid, node.Path(f"{DATA}/server.pem")])
    assert refused.returncode == 0, refused.stderr


_READ = """
import os, sys
os.setgroups([]); os.setresgid(*[int(sys.argv[1])] * 3); os.setresuid(*[int(sys.argv[1])] * 3)
try:
    open(sys.argv[2]).read()
except PermissionError:
    sys.exit(0)
sys.exit("it could be read")
"""
