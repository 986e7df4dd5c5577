"""ensure-dirs: makes missing directories and corrects owners and modes (doc/reference/files.md 6, tools.md 11).

Runs as root in directories that daemons' users may write to.  So no name is ever followed or trusted twice: each path is
opened once as what it must be, and the opened object is corrected.
"""

from __future__ import annotations

import logging
import optparse
import os
import stat
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import NamedTuple

from ganeti import _autoconf, constants, errors, pathutils, renewal, runtime
from ganeti.daemon import pidfile, users
from ganeti.daemon.main import ErrorText
from ganeti.tools import common
from ganeti.utils import owndirs

DIRECTORY = "directory"
FILE = "file"
SOCKET = "socket"

_KINDS = {DIRECTORY: stat.S_ISDIR, FILE: stat.S_ISREG, SOCKET: stat.S_ISSOCK}

# (user, group); M, C, R, N are the daemons' own, D is the group of all daemons.
_M = (_autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP)
_C = (_autoconf.CONFD_USER, _autoconf.CONFD_GROUP)
_R = (_autoconf.RAPI_USER, _autoconf.RAPI_GROUP)
_N = (_autoconf.NODED_USER, _autoconf.NODED_GROUP)
_D = _autoconf.DAEMONS_GROUP
_M_D = (_M[0], _D)
_M_C = (_M[0], _C[1])
_R_M = (_R[0], _M[1])
_N_M = (_N[0], _M[1])
_N_D = (_N[0], _D)


# Where the users of several daemons can make names: what lies there with a foreign owner is a stranger's.
_SHARED = (pathutils.RUN_DIR, pathutils.LOG_DIR, pathutils.RUN_EXT_DIR)


class Item(NamedTuple):
    """What ``path`` must be."""

    path: str
    kind: str
    mode: int
    owner: tuple[str, str]


def _Directories() -> list[Item]:
    """Return the directories in the order in which they are made."""
    table = [
        (pathutils.DATA_DIR, 0o755, _M),
        (pathutils.DATA_EXT_DIR, 0o750, _M),
        (pathutils.QUEUE_DIR, 0o750, _M_D),
        (pathutils.JOB_QUEUE_ARCHIVE_DIR, 0o750, _M_D),
        (pathutils.RAPI_DATA_DIR, 0o750, _R_M),
        # Sticky: a daemon's user must not rename what belongs to another one.
        (pathutils.RUN_DIR, 0o1775, _M_D),
        (pathutils.SOCKET_DIR, 0o1770, _M_D),
        (pathutils.BDEV_CACHE_DIR, 0o755, _N_M),
        (pathutils.DISK_LINKS_DIR, 0o755, _N_M),
        (pathutils.IMPORT_EXPORT_DIR, 0o755, _N_M),
        (pathutils.UIDPOOL_LOCK_DIR, 0o750, _N_M),
        (pathutils.CRYPTO_KEYS_DIR, 0o700, _N_M),
        (pathutils.INSTANCE_REASON_DIR, 0o755, _N),
        (pathutils.LIVELOCK_DIR, 0o750, _M_D),
        (pathutils.LUXID_MESSAGES_DIR, 0o750, _M_D),
        (pathutils.RUN_EXT_DIR, 0o770, _N_M),
        (pathutils.CALLS_DIR, 0o700, _N),
        (pathutils.GUEST_LOCKS_DIR, 0o700, _N),
        (pathutils.DISK_OPENINGS_DIR, 0o700, _N),
        (pathutils.MIRRORS_DIR, 0o700, _N),
        (pathutils.DISKS_SHOWN_DIR, 0o700, _N),
        # The hypervisors' own would be the first user's who needs them: everybody in the group may make names in RUN.
        *((path, mode, _N) for path, mode in pathutils.KVM_DIRS.items()),
        *(
            (path, 0o755, _N)
            for path in (pathutils.XEN_DIR, pathutils.LXC_DIR, pathutils.CHROOT_DIR, pathutils.FAKE_DIR)
        ),
        (pathutils.LOG_DIR, 0o1770, _M_D),
        (pathutils.LOG_OS_DIR, 0o750, _N_D),
        (pathutils.LOG_ES_DIR, 0o750, _N_D),
        (pathutils.LOG_XEN_DIR, 0o750, _N_D),
        (pathutils.LOG_KVM_DIR, 0o750, _N_D),
        (pathutils.LOG_CLEANER_DIR, 0o750, _N),
        (pathutils.LOG_MASTER_CLEANER_DIR, 0o750, _M),
    ]
    gluster = pathutils.DEFAULT_GLUSTER_STORAGE_DIR
    if not os.path.ismount(gluster):  # a mounted volume has an owner and a mode of its own
        table.append((gluster, 0o755, _N))
    return [Item(path, DIRECTORY, mode, owner) for path, mode, owner in table]


def _Files() -> list[Item]:
    """Return the files and sockets, which are never made, only corrected."""
    table = [
        (pathutils.CLUSTER_DOMAIN_SECRET_FILE, 0o640, _M),
        (pathutils.CLUSTER_CONF_FILE, 0o640, _M_C),
        (pathutils.LOCKS_DATA_FILE, 0o640, _M_C),
        (pathutils.TEMP_RES_FILE, 0o640, _M_C),
        (pathutils.SSH_KNOWN_HOSTS_FILE, 0o644, _M),
        (pathutils.WATCHER_PAUSE_FILE, 0o644, _M),
        (pathutils.RAPI_CERT_FILE, 0o440, _R_M),
        (pathutils.SPICE_CERT_FILE, 0o440, _N_M),
        (pathutils.SPICE_CACERT_FILE, 0o440, _N_M),
        (pathutils.RAPI_USERS_FILE, 0o640, _R_M),
        # Whoever may open it could lock it and keep the master from starting.
        (pathutils.JOB_QUEUE_LOCK_FILE, 0o600, _M_D),
        (pathutils.JOB_QUEUE_SERIAL_FILE, 0o640, _M_D),
        (pathutils.JOB_QUEUE_VERSION_FILE, 0o640, _M_D),
        (pathutils.JOB_QUEUE_DRAIN_FILE, 0o644, _M_D),
        *(
            (path, renewal.FILE_MODE, (secret.user, secret.group))
            for secret in renewal.ALL
            for path in renewal.Paths(secret.path)
        ),
        *((pathutils.STORE_FILE + suffix, 0o640, _M) for suffix in ("", "-wal", "-shm")),
        *((path, 0o660, _M) for path in (pathutils.EXPORT_LOCK_FILE, pathutils.CALLS_LOCK_FILE)),
        (pathutils.MASTER_LOCK_FILE, 0o600, _M),
        *((pathutils.DaemonLog(name), 0o600, (users.DAEMON_USERS[name][0], _M[1])) for name in constants.DAEMONS),
        (pathutils.LOG_RAPI_ACCESS, 0o600, _R_M),
    ]
    items = [Item(path, FILE, mode, owner) for path, mode, owner in table]
    items += [Item(path, SOCKET, 0o660, _M_D) for path in (pathutils.MASTER_SOCKET, pathutils.QUERY_SOCKET)]
    items += _Listed(pathutils.DATA_DIR, "ssconf_", 0o444, _N)
    items += _Listed(pathutils.QUEUE_DIR, "job-", 0o640, _M_D)
    return items


def _Listed(directory: str, prefix: str, mode: int, owner: tuple[str, str]) -> list[Item]:
    try:
        names = runtime.ListDir(directory)
    except FileNotFoundError:
        return []
    return [Item(f"{directory}/{name}", FILE, mode, owner) for name in names if name.startswith(prefix)]


def _Archive() -> Iterator[Item]:
    """Yield everything below the archive of jobs."""
    top = pathutils.JOB_QUEUE_ARCHIVE_DIR
    for name in runtime.ListDir(top):
        path = f"{top}/{name}"
        if stat.S_ISDIR(runtime.Stat(path, follow=False).st_mode):
            yield Item(path, DIRECTORY, 0o750, _M_D)
            yield from _Listed(path, "job-", 0o640, _M_D)
        else:
            yield Item(path, FILE, 0o640, _M_D)


class Difference(NamedTuple):
    """An existing object that ``EnsureAll`` would give another owner or mode; owners as people write them."""

    path: str
    owner: str
    mode: int
    new_owner: str
    new_mode: int


def Existing() -> Iterator[tuple[Item, os.stat_result]]:
    """Yield what exists of all that has an owner and a mode, archived jobs too."""
    items = [*_Directories(), *_Files()]
    if runtime.IsDir(pathutils.JOB_QUEUE_ARCHIVE_DIR):
        items += _Archive()
    for item in items:
        try:
            yield item, runtime.Stat(item.path, follow=False)
        except FileNotFoundError:
            continue


def Differences() -> list[Difference]:
    """Return what would change; ConfigurationError if this machine lacks a user."""
    found = []
    for item, info in Existing():
        mode = stat.S_IMODE(info.st_mode)
        if (users.UserId(item.owner[0]), users.GroupId(item.owner[1]), item.mode) != (info.st_uid, info.st_gid, mode):
            found.append(Difference(item.path, users.OwnerText(info), mode, ":".join(item.owner), item.mode))
    return found


def Correct(item: Item, former: Set[int] = frozenset()) -> bool:
    """Give an existing object the owner and mode it must have; False if there is none.

    Raises StorageError for an object of another kind, for a link, for a file with a second name somewhere, and for a
    directory that somebody else may have made where users of several daemons can make names; ``former``: users whose
    directories there are believed.
    """
    try:
        handle = os.open(item.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # noqa: TID251 - one look-up of the name
    except FileNotFoundError:
        return False
    try:
        info = os.fstat(handle)
        if not _KINDS[item.kind](info.st_mode):
            if item.kind == DIRECTORY:
                raise errors.StorageError(owndirs.NotADirectory(item.path))
            raise errors.StorageError(
                f"{item.path} is not a {item.kind}; move it away, then run '{pathutils.ENSURE_DIRS}' again"
            )
        if item.kind == FILE and info.st_nlink > 1:
            raise errors.StorageError(f"{item.path} has a second name (hard link); remove that first")
        uid, gid = users.UserId(item.owner[0]), users.GroupId(item.owner[1])
        if item.kind == DIRECTORY and os.path.dirname(item.path) in _SHARED and info.st_uid not in (0, uid, *former):
            raise errors.StorageError(owndirs.Foreign(item.path, info.st_uid))
        opened = f"/proc/self/fd/{handle}"
        if (info.st_uid, info.st_gid) != (uid, gid):
            logging.info("%s: owner %s:%s", item.path, *item.owner)
            os.chown(opened, uid, gid)
        if stat.S_IMODE(info.st_mode) != item.mode:
            logging.info("%s: mode %04o", item.path, item.mode)
            os.chmod(opened, item.mode)
    finally:
        os.close(handle)
    return True


def _Ensure(item: Item, former: Set[int] = frozenset()) -> None:
    if not runtime.Exists(item.path):
        logging.info("%s: made", item.path)
        parent = os.path.dirname(item.path)
        if not runtime.IsDir(parent):
            runtime.MakeDirs(parent, 0o755)
        # Narrow until it has its owner.
        runtime.MakeDirs(item.path, item.mode & 0o700)
    Correct(item, former)


def EnsureAll(full: bool = False, former: Set[int] = frozenset()) -> int:
    """Do everything; every problem is logged, and the exit code says whether there was one.

    ``former``: numbers of the users that daemons ran as before.
    """
    code = constants.EXIT_SUCCESS
    rejected: set[str] = set()

    def attempt(path: str, action: Callable[[], object]) -> None:
        nonlocal code
        if os.path.dirname(path) in rejected:
            rejected.add(path)  # its way leads through what may be anybody's
            return
        try:
            action()
        except OSError as err:
            rejected.add(path)
            logging.error("%s: %s", path, err.strerror)
            code = constants.EXIT_FAILURE
        except errors.GenericError as err:
            rejected.add(path)
            logging.error("%s", err)
            code = constants.EXIT_FAILURE

    if not runtime.IsDir(pathutils.LOCK_DIR):
        runtime.MakeDirs(pathutils.LOCK_DIR, 0o755)
    for item in _Directories():
        attempt(item.path, partial(_Ensure, item, former))
    for name in constants.DAEMONS:
        attempt(pathutils.DaemonPidFile(name), partial(pidfile.Clear, name))
    for item in _Files():
        attempt(item.path, partial(Correct, item))
    if full and code == constants.EXIT_SUCCESS:
        for item in _Archive():
            attempt(item.path, partial(Correct if item.kind == FILE else _Ensure, item))
    return code


def _Former(names: Sequence[str]) -> frozenset[int]:
    """Return the numbers of users that daemons ran as before; ConfigurationError, OpPrereqError.

    What they have left is believed, so none of them may still be able to change it.
    """
    if not names:
        return frozenset()
    common.CheckStopped()
    found = {int(name) if name.isascii() and name.isdigit() else _FormerId(name) for name in names}
    for user in {owner[0] for owner in users.DAEMON_USERS.values()}:
        if user != "root" and users.UserId(user) in found:
            raise errors.OpPrereqError(
                f"User {user} is not a former one: a daemon of this release runs as it", errors.ECODE_INVAL
            )
    return frozenset(found)


def _FormerId(name: str) -> int:
    try:
        return users.UserId(name)
    except errors.ConfigurationError as err:
        raise errors.OpPrereqError(
            f"User {name} does not exist on this machine",
            errors.ECODE_INVAL,
            hint=f"if it was removed, give its number; 'ls -ln {pathutils.LOG_DIR}' shows what belongs to whom",
        ) from err


def MakeParser() -> optparse.OptionParser:
    parser = common.Parser("%prog [--full-run] [--former-user=USER...]")
    parser.add_option(
        "-f", "--full-run", dest="full", action="store_true", default=False, help="Correct archived jobs too"
    )
    parser.add_option(
        "--former-user", dest="former", metavar="USER", action="append", default=[],
        help="A daemon ran as this user before (name or number): take over its directories too; no daemon may run",
    )  # fmt: skip
    return parser


def Main() -> int:
    options, arguments = MakeParser().parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if arguments:
        logging.error("No arguments are expected")
        return constants.EXIT_FAILURE
    try:
        return EnsureAll(options.full, _Former(options.former))
    except errors.GenericError as err:
        logging.error("%s", ErrorText(err))
        return constants.EXIT_FAILURE
    except OSError as err:
        logging.error("%s: %s", err.filename, err.strerror)
        return constants.EXIT_FAILURE
