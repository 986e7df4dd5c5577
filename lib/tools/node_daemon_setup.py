"""node-daemon-setup: makes this machine ready to be a node, from one JSON object on standard input."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ganeti import _autoconf, constants, hosts, ht, pathutils, runtime, ssconf, x509
from ganeti.daemon import users
from ganeti.tools import setupdata
from ganeti.tools.setupdata import CERTIFICATE, CLUSTER_NAME, NODE_NAME, SetupError

_HMAC_KEY = "hmac_key"
_SSCONF = "ssconf"
_START = "start_node_daemon"
_PROGRAM_TIMEOUT = 300

# Keys that only a later release sends are no reason to stop.
_SHAPE = ht.TStrictDict(
    {
        CLUSTER_NAME: ht.TNonEmptyString,
        CERTIFICATE: ht.TNonEmptyString,
        _HMAC_KEY: ht.TNonEmptyString,
        _SSCONF: ht.TDictOf(ht.TNonEmptyString, ht.TString),
        NODE_NAME: ht.TNonEmptyString,
    },
    {_START: ht.TBool},
    others=ht.TAny,
)


def Work(data: Mapping[str, Any], dry_run: bool) -> None:
    server_pem = setupdata.CheckServerPem(data)
    values = CheckSsconf(data)
    CheckThisMachine(data[NODE_NAME], values)
    client_pem = x509.MakeClientPem(server_pem, data[NODE_NAME])
    if dry_run:
        logging.info("This is a dry run, nothing is changed")
        return
    _EnsureDirs()
    ssconf.WriteSsconfFiles(values)
    WriteSecret(pathutils.CONFD_HMAC_KEY, data[_HMAC_KEY], _autoconf.CONFD_USER)
    WriteSecret(pathutils.NODED_CERT_FILE, server_pem, _autoconf.MASTERD_USER)
    WriteSecret(pathutils.NODED_CLIENT_CERT_FILE, client_pem, _autoconf.MASTERD_USER)
    if data.get(_START):
        _RunDaemonUtil("stop-all")
        _RunDaemonUtil("start", constants.NODED)
        _StartConfd()


def CheckSsconf(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the ssconf values, which must be those of the cluster that the data names."""
    values = dict(data[_SSCONF])
    unknown = sorted(values.keys() - ssconf.KEYS.keys())
    if unknown:
        raise SetupError(f"Unknown ssconf keys: {', '.join(unknown)[:200]}")
    name = values.get(CLUSTER_NAME, "").strip()
    if not name:
        raise SetupError("Cluster name is missing in the ssconf values")
    if name != data[CLUSTER_NAME]:
        raise SetupError(f"Cluster name in the ssconf values is '{name}', not '{data[CLUSTER_NAME]}'")
    return values


def CheckThisMachine(name: str, values: Mapping[str, str]) -> None:
    """Check that the data is for this machine: another's would stop the daemons of a working node.

    Raises SetupError on the master, whatever name the data has.
    """
    own = hosts.OwnName()
    if own == values.get("master_node", "").strip():
        raise SetupError(f"This machine, {own}, is the master: the data for {name} belongs on {name}")
    if own != name:
        logging.warning("The data is for %s, this machine calls itself %s", name, own)


def WriteSecret(path: str, text: str, user: str) -> None:
    logging.info("Writing %s", path)
    uid, gid = users.UserId(user), users.GroupId(_autoconf.MASTERD_GROUP)
    runtime.WriteFile(path, text, mode=0o440, uid=uid, gid=gid)


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
    return setupdata.Main("node-daemon-setup", "Sets up the node daemon; reads JSON from standard input", _SHAPE, Work)
