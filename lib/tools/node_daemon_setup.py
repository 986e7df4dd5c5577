"""node-daemon-setup: makes this machine ready to be a node, from one JSON object on standard input."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ganeti import constants, joindata, pathutils, runtime, ssconf, x509
from ganeti.daemon import users
from ganeti.joindata import CLUSTER_NAME, NODE_NAME
from ganeti.renewal import CLIENT, FILE_MODE, SECRETS, Secret
from ganeti.tools import setupdata
from ganeti.tools.setupdata import SetupError

_PROGRAM_TIMEOUT = 300


def Work(data: Mapping[str, Any], dry_run: bool) -> None:
    server_pem = setupdata.CheckServerPem(data)
    values = CheckSsconf(data)
    setupdata.CheckThisMachine(data[NODE_NAME], values)
    client_pem = x509.MakeClientPem(server_pem, data[NODE_NAME])
    if dry_run:
        logging.info("This is a dry run, nothing is changed")
        return
    _EnsureDirs()
    ssconf.WriteSsconfFiles(values)
    for secret in SECRETS.values():
        # A master that has no such secret yet sends none.
        if secret.join is not None and secret.join in data:
            WriteSecret(secret, data[secret.join])
    WriteSecret(CLIENT, client_pem)
    if data.get(joindata.START):
        _RunDaemonUtil("stop-all")
        _RunDaemonUtil("start", constants.NODED)
        _StartConfd()


def CheckSsconf(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the ssconf values, which must be those of the cluster that the data names."""
    values = dict(data[joindata.SSCONF])
    unknown = sorted(values.keys() - ssconf.KEYS.keys())
    if unknown:
        raise SetupError(f"Unknown ssconf keys: {', '.join(unknown)[:200]}")
    name = values.get(CLUSTER_NAME, "").strip()
    if not name:
        raise SetupError("Cluster name is missing in the ssconf values")
    if name != data[CLUSTER_NAME]:
        raise SetupError(f"Cluster name in the ssconf values is '{name}', not '{data[CLUSTER_NAME]}'")
    return values


def WriteSecret(secret: Secret, text: str) -> None:
    logging.info("Writing %s", secret.path)
    uid, gid = users.UserId(secret.user), users.GroupId(secret.group)
    runtime.WriteFile(secret.path, text, mode=FILE_MODE, uid=uid, gid=gid)


def _EnsureDirs() -> None:
    """Make the directories, all of which a machine that never was a node may lack."""
    result = runtime.RunCmd([pathutils.ENSURE_DIRS], env=dict(runtime.Environment()), timeout=_PROGRAM_TIMEOUT)
    if result.failed:
        raise SetupError(f"Cannot make the directories of a node: {result.fail_reason}")


def _RunDaemonUtil(*words: str) -> None:
    argv = [pathutils.DAEMON_UTIL, *words]
    result = runtime.RunCmd(argv, env=dict(runtime.Environment()), timeout=_PROGRAM_TIMEOUT)
    if result.failed:
        raise SetupError(f"{result.fail_reason}", hint="see the log of the daemon; the files of the node are in place")


def _StartConfd() -> None:
    """Start the daemon that answers questions once this node is a master candidate; a node can join without it."""
    try:
        _RunDaemonUtil("start", constants.CONFD)
    except SetupError as err:
        logging.warning("%s is not running: %s", constants.CONFD, err)


def Main() -> int:
    return setupdata.Main(
        "node-daemon-setup", "Sets up the node daemon; reads JSON from standard input", joindata.NODE_DAEMON_SETUP, Work
    )
