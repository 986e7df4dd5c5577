"""What the node set-up helpers share: one JSON object on standard input, checked against a shape and this node.

::

    master node --SSH, or an administrator--> stdin of node-daemon-setup, ssl-update, ssh-update, ...

Each program stops on a node of another cluster (doc/reference/files.md 12).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ganeti import constants, errors, hosts, ht, pathutils, renewal, runtime, serializer, ssconf, x509
from ganeti.joindata import CERTIFICATE, CLUSTER_NAME
from ganeti.tools import common

MAX_INPUT = 8 * 1024 * 1024


class SetupError(errors.GenericError):
    """This node cannot be set up like this."""

    exit_code = constants.EXIT_NODESETUP_ERROR


def Main(prog: str, title: str, shape: ht.Type, work: Callable[[dict[str, Any], bool], None]) -> int:
    """Run a helper as the main program; ``work(data, dry_run)`` does its work."""
    parser = common.Parser(f"%prog [--dry-run]\n\n{title}")
    parser.prog = prog
    parser.add_option("--dry-run", dest="dry_run", action="store_true", default=False, help="Change nothing")
    options, arguments = parser.parse_args()
    if arguments:
        parser.error("No arguments are expected")
    common.LogToStderr(options.debug, options.verbose)

    def run() -> int:
        data = Load(sys.stdin.buffer.read(MAX_INPUT + 1), shape)
        CheckClusterName(data)
        try:
            work(data, options.dry_run)
        except OSError as err:
            raise SetupError(f"{err.filename or 'file'}: {err.strerror or err}") from err
        return constants.EXIT_SUCCESS

    return common.RunTool(run)


def Load(raw: bytes, shape: ht.Type) -> dict[str, Any]:
    try:
        data = serializer.LoadProper(raw, MAX_INPUT)
    except errors.ParseError as err:
        raise SetupError(f"Input cannot be read: {err}") from err
    if not shape(data):
        # The values stay out of the message: there are keys among them.
        raise SetupError(f"Data does not match expected format: {shape}")
    assert isinstance(data, dict)
    return data


def CheckClusterName(data: Mapping[str, Any]) -> None:
    name = data.get(CLUSTER_NAME)
    if not name:
        raise SetupError("Cluster name must be specified")
    known = LocalClusterName()
    if known is not None and known != name:
        raise SetupError(
            f"Current cluster name is '{known}', not '{name}': this machine belongs to another cluster",
            hint=f"if it no longer belongs to that one, run '{pathutils.NODE_CLEANUP} --yes-do-it' here first",
        )


def CheckThisMachine(name: str, values: Mapping[str, str]) -> None:
    """Check that the data for the node ``name`` is for this machine; ``values``: ssconf values of the cluster, or some.

    Another's data would break a working node.  Raises SetupError on a node of the cluster with another name, which is told by
    its name or by its address, and on the master whatever name the data has.
    """
    own, master = hosts.OwnName(), values.get("master_node", "").strip()
    if own == master:
        raise SetupError(f"This machine, {own}, is the master: the data for {name} belongs on {name}")
    for node, address in _Nodes(values):
        # In a virtual cluster every machine can use all addresses.
        has_address = not pathutils.IsVirtual() and hosts.IsOwnAddress(address)
        if node != name and (node == own or has_address):
            raise SetupError(
                f"This machine, {own}, has the {f'address {address}' if has_address else 'name'} of the node {node}: the data"
                f" for {name} does not belong here",
                hint=None
                if node == master
                else f"'gnt-node add --readd {node}' on the master node sets up {node} again",
            )
    if own != name:
        logging.warning("The data is for %s, this machine calls itself %s", name, own)


def NodeNames(values: Mapping[str, str]) -> list[str]:
    return [name for name, _ in _Nodes(values)]


def _Nodes(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and address of each node that these ssconf values name."""
    for line in values.get("node_primary_ips", "").splitlines():
        name, _, address = line.partition(" ")
        yield name, address.strip()


def LocalClusterName() -> str | None:
    """Return the name of the cluster that this machine belongs to, if any."""
    if not runtime.Exists(pathutils.SsconfFile(CLUSTER_NAME)):
        return None
    return ssconf.SimpleStore().GetClusterName()


def CheckServerPem(data: Mapping[str, Any]) -> str:
    """Return the cluster's key and certificate, which must match each other and those of this node, if it has any."""
    pem = data.get(CERTIFICATE)
    if not pem:
        raise SetupError("Node daemon certificate must be specified")
    try:
        x509.CheckKeyAndCertificate(pem, CERTIFICATE)
    except errors.X509CertError as err:
        raise SetupError(f"Given node daemon certificate: {err.args[1]}") from err
    _CheckSameAsLocal(pem, (pathutils.NODED_CERT_FILE,))
    return str(pem)


def CheckServerCertificate(data: Mapping[str, Any]) -> None:
    """Check the certificate that comes without its key: it shows that the sender means this node's cluster.

    Raises SetupError if it is another one, or if there is a key with it.
    """
    pem = data.get(CERTIFICATE)
    if pem is None:
        return
    if x509.HasKey(pem):
        raise SetupError("No private key may be given with the node daemon certificate")
    # The sender may be ahead or behind while the certificate is renewed.
    _CheckSameAsLocal(pem, renewal.Paths(pathutils.NODED_CERT_FILE))


def _CheckSameAsLocal(pem: str, paths: Sequence[str]) -> None:
    """Raise SetupError unless the certificate is one of those in ``paths``, or this machine has none."""
    path = paths[0]
    try:
        known = [renewal.ReadIfThere(name) for name in paths]
        same = known[0] is None or x509.Digest(pem, CERTIFICATE) in [
            x509.Digest(content, path) for content in known if content is not None
        ]
    except errors.X509CertError as err:
        raise SetupError(f"{err.args[0]}: {err.args[1]}") from err
    if not same:
        raise SetupError(
            f"Given cluster certificate does not match the local one in {path}",
            hint=f"if the certificate was renewed while this node was away, run '{pathutils.NODE_CLEANUP} --yes-do-it' here,"
            " then add the node again",
        )
