"""ssl-update: makes or removes this node's client certificate, from one JSON object on standard input."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ganeti import ht, pathutils, runtime, x509
from ganeti.joindata import CERTIFICATE, CLUSTER_NAME, NODE_NAME
from ganeti.renewal import CLIENT
from ganeti.tools import setupdata
from ganeti.tools.node_daemon_setup import WriteSecret
from ganeti.tools.setupdata import SetupError

_ACTION = "action"
_CREATE, _DELETE = "create", "delete"

_SHAPE = ht.TStrictDict(
    {
        CLUSTER_NAME: ht.TNonEmptyString,
        CERTIFICATE: ht.TNonEmptyString,
        _ACTION: ht.TElemOf([_CREATE, _DELETE]),
    },
    {NODE_NAME: ht.TNonEmptyString},
)


def Work(data: Mapping[str, Any], dry_run: bool) -> None:
    server_pem = setupdata.CheckServerPem(data)
    if data[_ACTION] == _CREATE:
        name = data.get(NODE_NAME)
        if not name:
            raise SetupError("Node name must be specified to make its client certificate")
        client_pem = x509.MakeClientPem(server_pem, name)
        if not dry_run:
            WriteSecret(CLIENT, client_pem)
        return
    for path in (pathutils.NODED_CLIENT_CERT_FILE, pathutils.SsconfFile("master_candidates_certs")):
        logging.info("Removing %s", path)
        if not dry_run:
            runtime.RemoveFile(path)


def Main() -> int:
    return setupdata.Main("ssl-update", "Updates the client certificate; reads JSON from standard input", _SHAPE, Work)
