"""ganeti-rapi as a user of its own, as a package builds it: no rights of root, and LUXI by its group alone."""

from __future__ import annotations

import grp
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

import pytest
from support import layout
from support.realcluster import RealCluster, RealNode, WaitUntil
from support.virtualnode import TOP

RAPI = "ganeti-rapi"
USER = "games"
_MAIN = "import sys; from ganeti.rapi.main import Main; sys.exit(Main())"
# Where others may not enter a directory that the tree or Python lies in: an open one in its place, which holds only these.
# Arguments: a folder to work in, the directories to open, "--", what they are to hold, "--", the command.
_OPENED = """set -e
work=$1; shift; closed=; n=0
while [ "$1" != -- ]; do closed="$closed $1"; shift; done; shift
for path; do
  if [ "$path" = -- ]; then break; fi
  n=$((n + 1)); mkdir -p "$work/$n"; mount --rbind "$path" "$work/$n"
done
for path in $closed; do mount -t tmpfs -o mode=755 none "$path"; done
n=0
while [ "$1" != -- ]; do
  n=$((n + 1)); mkdir -p -m 755 "$1"; mount --rbind "$work/$n" "$1"; shift
done
shift; exec "$@"
"""


@pytest.fixture
def place():
    """A directory that every user may enter."""
    folder = tempfile.mkdtemp(prefix="gnt-own-", dir="/tmp")
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _Command(place: str, argv: list[str]) -> list[str]:
    held = sorted({os.path.realpath(path) for path in (TOP, sys.prefix, sys.base_prefix)})
    above = {str(parent) for path in held for parent in pathlib.Path(path).parents}
    shut = {path for path in above if not os.stat(path).st_mode & 0o001}
    closed = [path for path in sorted(shut) if shut.isdisjoint(map(str, pathlib.Path(path).parents))]
    if not closed:
        return argv
    return ["unshare", "-m", "sh", "-c", _OPENED, "sh", os.path.join(place, "held"), *closed, "--", *held, "--", *argv]


def _Curl(node: RealNode, path: str) -> object:
    argv = ["curl", "-sk", "--max-time", "30", "-u", "a:b", f"https://{node.address}:5080{path}"]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.req("D22-PRIV-01", "D22-PRIV-03", "D22-PRIV-04")
def test_it_needs_nothing_but_its_group(place):
    user = pwd.getpwnam(USER)
    group = grp.getgrgid(user.pw_gid).gr_name
    package = layout.MakePackage(os.path.join(place, "package"), RAPI_USER=USER, RAPI_GROUP=group)
    with RealCluster(1) as cluster:
        node = cluster[0]
        os.chmod(cluster.base, 0o755)
        cluster.StartNodeDaemons()
        node.StartMaster()
        node.Write("/var/lib/ganeti/rapi/users", "a b write\n", 0o640)
        for path in ("rapi.pem", "rapi", "rapi/users"):
            os.chown(node.Path(f"/var/lib/ganeti/{path}"), user.pw_uid, user.pw_gid)
        for path in ("/var/run/ganeti", "/var/log/ganeti"):
            os.chmod(node.Path(path), 0o1777)
        sockets = node.Path("/var/run/ganeti/socket")
        argv = _Command(place, [sys.executable, "-c", _MAIN, "-b", node.address])
        done = node.Run(argv, PYTHONPATH=package)
        assert done.returncode == 0, done.stderr + node.Log(RAPI)
        with open(f"/proc/{node.Pid(RAPI)}/status", encoding="ascii") as stream:
            status = dict(line.rstrip().split(":\t", 1) for line in stream if ":\t" in line)
        assert status["Uid"].split() == [str(user.pw_uid)] * 4
        assert status["Gid"].split() == [str(user.pw_gid)] * 4
        assert (int(status["CapPrm"], 16), int(status["CapEff"], 16)) == (0, 0)
        assert _Curl(node, "/version") == 2
        refused = _Curl(node, "/2/info")
        assert isinstance(refused, dict) and refused["code"] == 502 and "may not open" in refused["message"]
        for path in (sockets, *(os.path.join(sockets, name) for name in os.listdir(sockets))):
            os.chown(path, -1, user.pw_gid)
        info = WaitUntil(lambda: _Curl(node, "/2/info"), "it is let in")
        assert isinstance(info, dict) and info["master"] == node.name
        node.Stop(RAPI)
