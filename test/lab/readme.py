"""What the section "Install it" of the README changes on a machine, when its commands are run word for word.

They run in a mount namespace, above the system of this machine, which stays as it is: what they write is a layer that machines
of the laboratory have.  The tree they are run in is a copy, and is gone afterwards.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from support.lab import TREE

_SECONDS = 1800
# Arguments: the layer to make, an empty directory, copy of the tree, commands.
_SCRIPT = """set -e
layer=$1 memory=$2 tree=$3 commands=$4
# The layer must not lie in what is below it.
mount -t tmpfs lab "$memory"
mkdir "$memory/layer" "$memory/overlay" "$memory/new"
mount -t overlay overlay -o "lowerdir=/,upperdir=$memory/layer,workdir=$memory/overlay" "$memory/new"
new=$memory/new
for folder in proc sys dev; do mount --rbind "/$folder" "$new/$folder"; done
mount -t tmpfs -o mode=1777 tmpfs "$new/tmp"
# In the place of the administrator, who answers yes.
echo 'APT::Get::Assume-Yes "true";' > "$new/tmp/yes"
mount --bind "$tree" "$new/mnt"
chroot "$new" /bin/sh -exc "cd /mnt; umask 022; $commands"
cp -a "$memory/layer" "$layer"
"""


def InstallAsReadme(folder: Path) -> Path:
    """Run the README's commands; return the directory with what they made: ``folder``.  It takes minutes."""
    work = folder.parent / f"{folder.name}.work"
    tree, memory = work / "tree", work / "memory"
    for place in (tree, memory):
        place.mkdir(parents=True)
    _Copy(tree)
    argv = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(folder), str(memory), str(tree), Commands()]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "APT_CONFIG": "/tmp/yes"}
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_SECONDS
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"the README's installation failed with {done.returncode}:\n{done.stdout[-4000:]}")
    return folder


def Commands() -> str:
    """Return the commands of the README's section, a line each."""
    text = (TREE / "README").read_text(encoding="utf-8")
    [block] = re.findall(r"^Install it\n-+\n\n.*::\n\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    return "\n".join(line.strip() for line in block.splitlines() if line.strip())


def _Copy(folder: Path) -> None:
    """Clone the tree, with what is changed and not committed: ./autogen.sh asks git which files there are."""
    subprocess.run(["git", "clone", "-q", "--no-checkout", str(TREE), str(folder)], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TREE,
        check=True,
        capture_output=True,
    )
    names = [
        name for name in listed.stdout.split(b"\0") if name and os.path.lexists(os.path.join(os.fsencode(TREE), name))
    ]
    pack = subprocess.run(
        ["tar", "--null", "-T", "-", "-c"], cwd=TREE, input=b"\0".join(names), check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=pack.stdout, check=True)


__all__ = ["Commands", "InstallAsReadme"]
