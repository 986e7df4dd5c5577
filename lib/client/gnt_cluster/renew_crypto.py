"""gnt-cluster renew-crypto: new keys and certificates for a cluster that is running."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import FileValue, Flag, Off, Options
from ganeti.client.gnt_cluster.options import SSH_KEY_BITS, SSH_KEY_TYPE
from ganeti.opcodes import OpClusterRedistConf, OpClusterRenewCrypto

if TYPE_CHECKING:
    from ganeti.bootstrap import keys

NEW_CLUSTER_CERTIFICATE = Flag(
    "--new-cluster-certificate", dest="cluster_certificate",
    text="Make a new cluster certificate, and with it new certificates of all nodes",
)  # fmt: skip
NEW_NODE_CERTIFICATES = Flag(
    "--new-node-certificates", dest="node_certificates", text="Make new certificates of all nodes"
)
NEW_CONFD_HMAC_KEY = Flag("--new-confd-hmac-key", dest="confd_hmac_key", text="Make a new key of ganeti-confd")
NEW_RAPI_CERTIFICATE = Flag(
    "--new-rapi-certificate", dest="new_rapi_certificate", text="Make a new self-signed certificate of ganeti-rapi"
)
RAPI_CERTIFICATE = FileValue(
    "--rapi-certificate", dest="rapi_certificate",
    text="Use this private key and certificate for ganeti-rapi",
)  # fmt: skip
NEW_SPICE_CERTIFICATE = Flag(
    "--new-spice-certificate", dest="new_spice_certificate", text="Make a new self-signed certificate of SPICE"
)
SPICE_CERTIFICATE = FileValue(
    "--spice-certificate", dest="spice_certificate",
    text="Use this private key and certificate for SPICE, together with --spice-ca-certificate",
)  # fmt: skip
SPICE_CA_CERTIFICATE = FileValue(
    "--spice-ca-certificate", dest="spice_ca_certificate",
    text="Certificate of the authority that signed the one of SPICE",
)  # fmt: skip
NEW_DOMAIN_SECRET = Flag(
    "--new-cluster-domain-secret", dest="new_cluster_domain_secret", text="Make a new cluster domain secret"
)
DOMAIN_SECRET = FileValue(
    "--cluster-domain-secret", dest="cluster_domain_secret",
    text="Use the content of this file as cluster domain secret",
)  # fmt: skip
NEW_SSH_KEYS = Flag("--new-ssh-keys", dest="renew_ssh_keys", text="Make new SSH keys of all nodes")
NO_SSH_KEY_CHECK = Off(
    "--no-ssh-key-check", dest="ssh_key_check",
    text="Has no effect: nodes must show the host key of the cluster",
)  # fmt: skip

_BEGIN = 'Updating certificates now. Running "gnt-cluster verify" is recommended after this operation.'
_END = 'All requested certificates and keys have been replaced. Running "gnt-cluster verify" now is recommended.'
_QUESTION = "Jobs that need nodes will wait until the keys are replaced on all of them. Continue?"
_BRING = "When all nodes answer, 'gnt-cluster redist-conf' brings the new ones"
_FILE_OPTIONS = (
    NEW_RAPI_CERTIFICATE, RAPI_CERTIFICATE, NEW_SPICE_CERTIFICATE, SPICE_CERTIFICATE, SPICE_CA_CERTIFICATE,
    NEW_DOMAIN_SECRET, DOMAIN_SECRET,
)  # fmt: skip


def _Conflict(options: Options) -> str | None:
    """Return what is wrong with the options taken together."""
    given_spice = [options.spice_certificate is not None, options.spice_ca_certificate is not None]
    if options.new_rapi_certificate and options.rapi_certificate is not None:
        return "Only one of --new-rapi-certificate and --rapi-certificate can be given."
    if options.new_cluster_domain_secret and options.cluster_domain_secret is not None:
        return "Only one of --new-cluster-domain-secret and --cluster-domain-secret can be given."
    if options.new_spice_certificate and any(given_spice):
        return "--spice-certificate and --spice-ca-certificate cannot be given together with --new-spice-certificate."
    if any(given_spice) and not all(given_spice):
        return "--spice-certificate and --spice-ca-certificate must be given together."
    return None


def _NamesFiles(options: Options) -> bool:
    """Return whether one of the files is to be replaced that the nodes get as they are."""
    made = (options.new_rapi_certificate, options.new_spice_certificate, options.new_cluster_domain_secret)
    given = (options.rapi_certificate, options.spice_certificate, options.cluster_domain_secret)
    return any(made) or any(name is not None for name in given)


def _MakeFiles(options: Options) -> list[keys.NewFile]:
    """Make or read the files that the nodes get as they are; OpPrereqError if one cannot be used."""
    from ganeti.bootstrap import keys

    return [
        *keys.NewRapiFile(options.rapi_certificate, options.new_rapi_certificate),
        *keys.NewSpiceFiles(options.spice_certificate, options.spice_ca_certificate, options.new_spice_certificate),
        *keys.NewDomainSecret(options.cluster_domain_secret, options.new_cluster_domain_secret),
    ]


def _ReplaceFiles(files: Sequence[keys.NewFile], options: Options) -> int:
    """Replace these files, here and on all nodes; return the exit code after saying who has them."""
    from ganeti.bootstrap import keys

    keys.Replace(files)
    output.ToStdoutAndFlush("Copying the new files to all nodes")
    names = ", ".join(os.path.basename(file.path) for file in files)
    try:
        failed = jobs.SubmitOpCode(OpClusterRedistConf(), options)
    except errors.LuxiError:
        output.ToStderr(f"This node has new files ({names}); other nodes may have the files of before. {_BRING}")
        raise
    except errors.GenericError as err:
        raise errors.OpExecError(
            f"This node has new files ({names}), but they were not copied to the other nodes: {err}", hint=_BRING
        ) from err
    if failed:
        output.ToStderr(
            f"The new files ({names}) could not be copied to all nodes: {', '.join(failed)} may have the files of before. {_BRING}"
        )
        return constants.EXIT_FAILURE
    return constants.EXIT_SUCCESS


def _RenewKeys(op: OpClusterRenewCrypto, files: Sequence[keys.NewFile], options: Options) -> None:
    """Run the job; if it fails, say that the files are as they were."""
    try:
        jobs.SubmitOpCode(op, options)
    except errors.GenericError:
        if files:
            names = ", ".join(os.path.basename(file.path) for file in files)
            given = " ".join(option.names[0] for option in _FILE_OPTIONS if getattr(options, option.settings["dest"]))
            output.ToStderr(
                f"These files were not replaced: {names}. When the rest is repaired, run the command with {given}, too"
            )
        raise


def Run(options: Options, arguments: list[str]) -> int:
    output.ToStdoutAndFlush(_BEGIN)
    conflict = _Conflict(options)
    if conflict is not None:
        output.ToStderr(conflict)
        return constants.EXIT_FAILURE
    op = jobs.FromOptions(OpClusterRenewCrypto, options, debug=bool(options.debug))
    if not op.renew_ssh_keys and (op.ssh_key_type is not None or op.ssh_key_bits is not None):
        raise errors.OpPrereqError(
            "--ssh-key-type and --ssh-key-bits need --new-ssh-keys", errors.ECODE_INVAL, hint="add --new-ssh-keys"
        )
    renews = jobs.Changes(op, "verbose", "debug", "ssh_key_type", "ssh_key_bits")
    if not renews and not _NamesFiles(options):
        output.ToStderr("No option says what to renew: see 'gnt-cluster renew-crypto --help'")
        return constants.EXIT_FAILURE
    if not options.force and not ask.Confirmed(_QUESTION, "--force"):
        return constants.EXIT_FAILURE
    # On another node than the master, this ends here.
    jobs.GetClient().QueryClusterInfo()
    files = _MakeFiles(options)
    # The job first: it looks whether all nodes answer before it changes anything.
    if renews:
        _RenewKeys(op, files, options)
    code = _ReplaceFiles(files, options) if files else constants.EXIT_SUCCESS
    if code != constants.EXIT_SUCCESS:
        return code
    output.ToStdout(_END)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Replace certificates and keys of the cluster while it is running",
    (),
    (
        NEW_CLUSTER_CERTIFICATE, NEW_NODE_CERTIFICATES, NEW_RAPI_CERTIFICATE, RAPI_CERTIFICATE, NEW_CONFD_HMAC_KEY,
        o.FORCE, NEW_DOMAIN_SECRET, DOMAIN_SECRET, NEW_SPICE_CERTIFICATE, SPICE_CERTIFICATE, SPICE_CA_CERTIFICATE,
        NEW_SSH_KEYS, SSH_KEY_TYPE, SSH_KEY_BITS, NO_SSH_KEY_CHECK, o.VERBOSE,
    ),
    details="No daemon is stopped.  The cluster certificate, the certificates of the nodes, the key of ganeti-confd and the SSH"
    " keys are replaced in phases: every node accepts the new one before any node uses it, and the old one is withdrawn after"
    " every node uses the new one.  A command that was interrupted, or that could not reach a node, is run again: it continues"
    " where it ended, and old and new are accepted meanwhile.  Nodes that are offline are left out and named; they are added"
    " again before they are used.  ``gnt-cluster verify`` names nodes that still have or accept old keys."
    "  Certificates of ganeti-rapi and SPICE, and the cluster domain secret, are copied to all nodes as they are; instances"
    " use a new certificate of SPICE from their next start on.  Programs that ask ganeti-confd with a copy of its key need"
    " the new one.",
)  # fmt: skip
