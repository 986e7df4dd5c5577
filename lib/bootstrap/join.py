"""What a machine needs to become a node, without SSH (doc/extensions.rst; doc/reference/files.md 12)."""

from __future__ import annotations

from typing import Any

from ganeti import errors, hosts, pathutils, runtime, ssconf

_LIMIT = 1 << 20


def JoinData(node: str) -> dict[str, Any]:
    """Return the object that ``node-daemon-setup`` reads on the machine ``node``.

    It holds the cluster's private key: it must travel over a channel that the administrator trusts.
    """
    store = ssconf.SimpleStore()
    host = hosts.Lookup(node)
    try:
        server_pem = runtime.ReadText(pathutils.NODED_CERT_FILE, _LIMIT)
        hmac_key = runtime.ReadText(pathutils.CONFD_HMAC_KEY, _LIMIT)
    except PermissionError as err:
        raise errors.OpPrereqError(f"{err.filename} can be read by root only", errors.ECODE_ENVIRON) from err
    except FileNotFoundError as err:
        raise errors.OpPrereqError(f"{err.filename} is missing on this node", errors.ECODE_STATE) from err
    return {
        "cluster_name": store.GetClusterName(),
        "node_daemon_certificate": server_pem,
        "hmac_key": hmac_key,
        "ssconf": store.ReadAll(),
        "start_node_daemon": True,
        "node_name": host.name,
    }
