"""node-cleanup: removes what makes this machine a node; for one that can no longer leave its cluster properly."""

from __future__ import annotations

import logging
import sys

from ganeti import constants, errors, pathutils, renewal, runtime, ssconf
from ganeti.tools import common
from ganeti.utils import files

_STOP_TIMEOUT = 300
_FILES = (
    pathutils.CLUSTER_CONF_FILE,
    pathutils.CLUSTER_DOMAIN_SECRET_FILE,
    *(secret.path for secret in renewal.ALL),
    pathutils.RAPI_CERT_FILE,
    pathutils.SPICE_CERT_FILE,
    pathutils.SPICE_CACERT_FILE,
)


def Main() -> int:
    parser = common.Parser("%prog --yes-do-it [--no-backup]\n\nRemoves the cluster's files from this machine")
    parser.prog = "node-cleanup"
    parser.add_option("--no-backup", dest="backup", action="store_false", default=True, help="Keep no copies")
    parser.add_option(
        "--yes-do-it",
        "--ya-rly",
        dest="confirmed",
        action="store_true",
        default=False,
        help="Really remove the files",
    )
    options, arguments = parser.parse_args()
    if arguments:
        parser.error("No arguments are expected")
    common.LogToStderr(options.debug, options.verbose)
    if not options.confirmed:
        sys.stderr.write(
            "Removing the cluster's files from this machine is irreversible. Use --yes-do-it if you mean it\n"
        )
        return constants.EXIT_FAILURE
    return common.RunTool(lambda: CleanUp(options.backup))


def CleanUp(backup: bool) -> int:
    """Stop the daemons, then remove files, ssconf and this node's copy of the store."""
    result = runtime.RunCmd([pathutils.DAEMON_UTIL, "stop-all"], env=dict(runtime.Environment()), timeout=_STOP_TIMEOUT)
    if result.failed:
        raise errors.OpExecError(f"The daemons could not be stopped, nothing was removed: {result.fail_reason}")
    for path in _FILES:
        logging.info("Removing %s", path)
        if backup:
            files.BackUp(path)
        runtime.RemoveFile(path)
    # Without a copy: they are accepted, or would be.
    runtime.RemoveFiles([path for secret in renewal.ALL for path in renewal.Paths(secret.path)[1:]])
    for key in ssconf.KEYS:
        runtime.RemoveFile(pathutils.SsconfFile(key))
    # Kept, it would tie this machine to the old cluster; a copy of it must never be used again.
    runtime.RemoveTree(pathutils.DATA_EXT_DIR)
    runtime.RemoveTree(pathutils.DATA_EXT_KEPT_DIR)
    return constants.EXIT_SUCCESS
