"""post-upgrade: what a cluster lacks after it was upgraded from a release, called by ``gnt-cluster upgrade``."""

from __future__ import annotations

import logging
import re
import sys

from ganeti import constants, errors, pathutils, runtime
from ganeti.luxi import client as luxi_client
from ganeti.tools import common

_TIMEOUT = 3600.0
_PROGRAM = "gnt-cluster"
_SSH_KEYS = "--new-ssh-keys"
# Releases before these lacked what the command makes.
_RENEWALS = (
    ((2, 12, 5), ("renew-crypto", "--new-node-certificates", "-f", "-d")),
    ((2, 13, 0), ("renew-crypto", _SSH_KEYS, "--no-ssh-key-check", "-f", "-d")),
)
_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[~-].*)?")


def Main() -> int:
    parser = common.Parser("%prog OLDVERSION\n\nMakes what a cluster of that release did not have")
    parser.prog = "post-upgrade"
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if len(arguments) != 1:
        logging.error("Expecting precisely one argument, the version of the release before")
        return constants.EXIT_FAILURE
    found = _RELEASE.fullmatch(arguments[0])
    if found is None:
        logging.error("'%s' is not the version of a release; an example is 2.12.4", arguments[0][:40])
        return constants.EXIT_FAILURE
    code = _Run(tuple(int(part or 0) for part in found.groups()))
    if code != constants.EXIT_SUCCESS:
        logging.error("Remove the cause, then run '%s %s' again", pathutils.POST_UPGRADE, arguments[0])
    return code


def _ManagesSsh() -> bool:
    """Return whether the cluster manages SSH keys; where the master does not answer, the command says more about that."""
    try:
        with luxi_client.Client() as client:
            return bool(client.QueryConfigValues(["modify_ssh_setup"])[0])
    except (errors.GenericError, OSError):
        return True


def _Run(old: tuple[int, ...]) -> int:
    """Run what is needed, all of it even if one fails."""
    code = constants.EXIT_SUCCESS
    for since, words in _RENEWALS:
        if old >= since or (_SSH_KEYS in words and not _ManagesSsh()):
            continue
        result = runtime.RunCmd([f"{pathutils.SBIN_DIR}/{_PROGRAM}", *words], timeout=_TIMEOUT)
        sys.stdout.write(result.stdout)
        if result.failed:
            logging.error(
                "'%s %s' failed: %s: %s", _PROGRAM, " ".join(words), result.fail_reason, result.stderr.strip()[-1000:]
            )
            code = constants.EXIT_FAILURE
    return code
