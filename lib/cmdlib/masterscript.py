"""The administrator's own script for the master address."""

from __future__ import annotations

import stat

from ganeti import errors, pathutils, runtime


def Check() -> None:
    """Raise OpPrereqError unless the script is there and can be run: without it a cluster has no address."""
    path = pathutils.EXTERNAL_MASTER_SETUP_SCRIPT
    try:
        mode = runtime.Stat(path).st_mode
        problem = "" if stat.S_ISREG(mode) and mode & 0o111 else "is not an executable file"
    except OSError as err:
        problem = f"cannot be used: {err.strerror}"
    if problem:
        raise errors.OpPrereqError(
            f"The external script for the master address, {path}, {problem}",
            errors.ECODE_ENVIRON,
            hint=f"copy {pathutils.DEFAULT_MASTER_SETUP_SCRIPT} there on the master node, and change it to your needs",
        )
