"""mini-guest-files: makes kernel and ramdisk of the OS definition ``mini``."""

from __future__ import annotations

import posixpath
import sys

from ganeti import _autoconf, errors, runtime
from ganeti.tools import common, miniguest

USAGE = "%prog [DIRECTORY]"
DEFAULT_DIRECTORY = "/var/lib/ganeti-mini"


def FindInit() -> str:
    """The guest's first program: installed, or in the source tree this runs from."""
    tree = posixpath.dirname(posixpath.dirname(posixpath.dirname(posixpath.abspath(__file__))))
    places = [posixpath.join(_autoconf.SHARE_DIR, "os"), posixpath.join(tree, "os")]
    for place in places:
        path = posixpath.join(place, "mini", "guest-init")
        if runtime.Exists(path):
            return path
    raise errors.CommandError(f"mini/guest-init is in none of {', '.join(places)}; is the OS definition installed?")


def Main() -> int:
    parser = common.Parser(USAGE)
    options, args = parser.parse_args()
    if len(args) > 1:
        parser.error("at most one directory can be given")
    common.LogToStderr(options.debug, options.verbose)
    directory = posixpath.abspath(args[0] if args else DEFAULT_DIRECTORY)

    def make() -> int:
        miniguest.Prepare(directory, FindInit(), lambda text: print(text, file=sys.stderr))
        print(f"{directory}: {miniguest.KERNEL_FILE} and {miniguest.INITRD_FILE} are ready")
        return 0

    return common.RunTool(make)
