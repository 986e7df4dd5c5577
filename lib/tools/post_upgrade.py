"""post-upgrade: what a cluster lacks after it was upgraded from a release, called by ``gnt-cluster upgrade``."""

from __future__ import annotations

import logging
import re
import sys

from ganeti import constants, pathutils, runtime
from ganeti.tools import common

_TIMEOUT = 3600.0
_PROGRAM = "gnt-cluster"
# Releases before these lacked what the command makes.
_RENEWALS = (
    ((2, 12, 5), ("renew-crypto", "--new-node-certificates", "-f", "-d")),
    ((2, 13, 0), ("renew-crypto", "--new-ssh-keys", "--no-ssh-key-check", "-f", "-d")),
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


def _Run(old: tuple[int, ...]) -> int:
    """Run what is needed, all of it even if one fails."""
    code = constants.EXIT_SUCCESS
    for since, words in _RENEWALS:
        if old >= since:
            continue
        result = runtime.RunCmd([f"{pathutils.SBIN_DIR}/{_PROGRAM}", *words], timeout=_TIMEOUT)
        sys.stdout.write(result.stdout)
        if result.failed:
            logging.error(
                "'%s %s' failed: %s: %s", _PROGRAM, " ".join(words), result.fail_reason, result.stderr.strip()[-1000:]
            )
            code = constants.EXIT_FAILURE
    return code
