"""Users and groups of a test's own, real ones, and clusters whose daemons run as them.

::

    with OwnUsersCluster(3) as cluster:
        cluster.StartNodeDaemons()          as root, by daemon-util, each as its user
        cluster[0].Run(argv)                as root
        cluster[0].RunAs("gnt-rapi", argv)

They exist in a mount namespace with a copy of /etc: the machine's own files are never touched.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from support import layout
from support.realcluster import RealCluster, RealNode
from support.virtualnode import TOP

USERS = {
    "MASTERD_USER": "gnt-masterd",
    "MASTERD_GROUP": "gnt-masterd",
    "CONFD_USER": "gnt-confd",
    "CONFD_GROUP": "gnt-confd",
    "RAPI_USER": "gnt-rapi",
    "RAPI_GROUP": "gnt-rapi",
    "METAD_USER": "gnt-metad",
    "METAD_GROUP": "gnt-metad",
    "LUXID_GROUP": "gnt-luxid",
    "DAEMONS_GROUP": "gnt-daemons",
    "ADMIN_GROUP": "gnt-admin",
}
"""The names of 3.1's packages, as settings of autotools/write-autoconf."""

# Where others may not enter a directory that the tree or Python lies in: an open one in its place, which holds only these.
# Arguments: a folder to work in, the directories to open, "--", what they are to hold.
_SETUP = """set -e
work=$1; shift; closed=; n=0
mkdir -p "$work"
cp -a /etc "$work/etc"; mount --bind "$work/etc" /etc
while [ "$1" != -- ]; do closed="$closed $1"; shift; done; shift
for path; do n=$((n + 1)); mkdir -p "$work/$n"; mount --rbind "$path" "$work/$n"; done
for path in $closed; do mount -t tmpfs -o mode=755 none "$path"; done
n=0
for path; do n=$((n + 1)); mkdir -p -m 755 "$path"; mount --rbind "$work/$n" "$path"; done
echo ready; exec sleep 1000
"""
_BECOME = """
import os, pwd, sys
name = sys.argv[1]
info = pwd.getpwnam(name)
os.setgroups(os.getgrouplist(name, info.pw_gid))
os.setresgid(*[info.pw_gid] * 3)
os.setresuid(*[info.pw_uid] * 3)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Namespace:
    """Held by a process that sleeps in it; ``folder``: where its /etc lies, and nothing else that is needed later.

    ``numbers``: for the users that are made in it.
    """

    def __init__(self, folder: str, numbers: range):
        held = sorted({os.path.realpath(path) for path in (TOP, sys.prefix, sys.base_prefix)})
        above = {str(parent) for path in held for parent in pathlib.Path(path).parents}
        shut = {path for path in above if not os.stat(path).st_mode & 0o001}
        closed = [path for path in sorted(shut) if shut.isdisjoint(map(str, pathlib.Path(path).parents))]
        argv = ["unshare", "-m", "sh", "-c", _SETUP, "sh", folder, *closed, "--", *(held if closed else ())]
        self._holder = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd="/")
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n", "the namespace could not be made"
        self.etc = os.path.join(folder, "etc")
        with open(os.path.join(self.etc, "login.defs"), "a", encoding="utf-8") as stream:
            for kind in ("UID", "GID"):
                stream.write(f"SYS_{kind}_MIN {numbers[0]}\nSYS_{kind}_MAX {numbers[-1]}\n")

    def Command(self, argv: Sequence[str], directory: str = "/") -> list[str]:
        """What runs ``argv`` in it as root, from ``directory``."""
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", f"--wd={directory}", *argv]

    def As(self, user: str, argv: Sequence[str]) -> list[str]:
        """What makes a process in it a user's and runs ``argv``."""
        return [sys.executable, "-I", "-c", _BECOME, user, *argv]

    def Ids(self, user: str) -> tuple[int, int]:
        """The numbers of a user and of its group."""
        with open(os.path.join(self.etc, "passwd"), encoding="utf-8") as stream:
            fields = next(line.split(":") for line in stream if line.startswith(f"{user}:"))
        return int(fields[2]), int(fields[3])

    def Names(self, path: str) -> str:
        """USER:GROUP of a file."""
        info = os.stat(path, follow_symlinks=False)
        return f"{self._Name('passwd', info.st_uid)}:{self._Name('group', info.st_gid)}"

    def _Name(self, table: str, number: int) -> str:
        with open(os.path.join(self.etc, table), encoding="utf-8") as stream:
            found = [line.split(":")[0] for line in stream if line.split(":")[2] == str(number)]
        return found[0] if found else str(number)

    def Close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


class OwnUsersNode(RealNode):
    """A node whose daemons are started by daemon-util, as users of their own."""

    namespace: Namespace
    programs: str

    def Run(
        self, argv: Sequence[str], stdin: str | None = None, timeout: float = 50, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program as root; one of ours by its name alone."""
        program = os.path.join(self.programs, argv[0])
        words = [program if os.path.exists(program) else argv[0], *argv[1:]]
        return super().Run(self.namespace.Command(words, self.root), stdin=stdin, timeout=timeout, **more)

    def RunAs(self, user: str, argv: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
        program = os.path.join(self.programs, argv[0])
        words = [program if os.path.exists(program) else argv[0], *argv[1:]]
        return self.Run(self.namespace.As(user, words), **more)

    def Start(self, daemon: str, *options: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        done = self.Run(["daemon-util", "start", daemon, *options], timeout=60, **more)
        if check and done.returncode:
            raise AssertionError(f"{daemon} on {self.name}: {done.returncode}\n{done.stderr}\n{self.Log(daemon)}")
        return done

    def Status(self, daemon: str) -> dict[str, str]:
        """What the kernel says of a daemon's process: Uid, Gid, Groups, CapEff, ..."""
        with open(f"/proc/{self.Pid(daemon)}/status", encoding="ascii") as stream:
            return dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)


class OwnUsersCluster(RealCluster):
    """Its users are made by users-setup."""

    node_class = OwnUsersNode

    def __init__(self, count: int, setup: bool = True):
        super().__init__(count)
        # Every user has to get through it, as through /var.
        os.chmod(self.base, 0o755)
        self.programs = self.Install("users", **USERS)
        self.namespace = Namespace(os.path.join(self.base, "namespace"), self._lease.Users())
        for node in self.nodes:
            assert isinstance(node, OwnUsersNode)
            node.namespace, node.programs = self.namespace, self.programs
            defaults = f'NODED_ARGS="-b {node.address} --no-mlock"\n'
            defaults += f'RAPI_ARGS="-b {node.address}"\nCONFD_ARGS="-b {node.address}"\n'
            node.Write("/etc/default/ganeti", defaults)
            node.Write("/var/lib/ganeti/rapi/users", "writer secret-of-writer write\n", 0o640)
        if setup:
            done = self[0].Run(["users-setup", "--yes-do-it"])
            assert done.returncode == 0, done.stderr

    def Install(self, name: str, **settings: str) -> str:
        """Installs this release once more, with these settings of autotools/write-autoconf; returns where the programs are.

        Nodes run the programs that their ``programs`` names.
        """
        programs = os.path.join(self.base, f"programs-{name}")
        places = dict.fromkeys(("SBIN_DIR", "DAEMON_DIR", "PKGLIB_DIR", "TOOLS_DIR"), programs)
        package = layout.MakePackage(
            os.path.join(self.base, f"package-{name}"),
            OS_SEARCH_PATH=os.path.join(self.base, "os"),
            **places,
            **settings,
        )
        layout.InstallPrograms(programs, package)
        return programs

    def _End(self) -> None:
        super()._End()
        self.namespace.Close()


__all__ = ["USERS", "Namespace", "OwnUsersCluster", "OwnUsersNode"]
