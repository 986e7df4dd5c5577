"""What the shell says from which the tests are started; it may be that of a cluster of the quickstart."""

from __future__ import annotations

import os

CI = os.environ.get("CI", "") not in ("", "0", "no", "false")

# What tools/quickstart --env sets: with these every path is that node's, and this machine has its name.
OF_A_CLUSTER = ("GANETI_ROOTDIR", "GANETI_HOSTNAME")


def Leave() -> None:
    """Forget the cluster of this shell; to be called before anything of ganeti is imported, which reads it only once."""
    for name in OF_A_CLUSTER:
        os.environ.pop(name, None)
