"""ensure-dirs corrects what is there, makes directories only, and cannot be led astray."""

import grp
import logging
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest
from support import layout
from support.virtualnode import VirtualNode

from ganeti.tools import common

MAIN = "import sys\nfrom ganeti.tools.ensure_dirs import Main\nsys.exit(Main())"

# Users and groups that every Debian has, in the place of gnt-masterd and so on.
USERS = {
    "MASTERD_USER": "daemon",
    "MASTERD_GROUP": "daemon",
    "CONFD_USER": "bin",
    "CONFD_GROUP": "bin",
    "RAPI_USER": "games",
    "RAPI_GROUP": "games",
    "DAEMONS_GROUP": "users",
}


def _Node(base):
    node = VirtualNode(base)
    node.package = layout.MakePackage(os.path.join(base, "package"), **USERS)
    node.EnsureDirs = lambda *argv: node.Python(MAIN, *argv, PYTHONPATH=node.package)
    return node


@pytest.fixture
def node(tmp_path):
    return _Node(tmp_path)


def _Look(path):
    info = os.lstat(path)
    owner = f"{pwd.getpwuid(info.st_uid).pw_name}:{grp.getgrgid(info.st_gid).gr_name}"
    return f"{stat.S_IMODE(info.st_mode):04o} {owner}"


def test_directories_are_made(node):
    done = node.EnsureDirs()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    expected = {
        "/var/lib/ganeti": "0755 daemon:daemon",
        "/var/lib/ganeti/queue": "0750 daemon:users",
        "/var/lib/ganeti/queue/archive": "0750 daemon:users",
        "/var/lib/ganeti/rapi": "0750 games:daemon",
        "/var/lib/ganeti/ext": "0750 daemon:daemon",
        "/var/run/ganeti": "1775 daemon:users",
        "/var/run/ganeti/socket": "1770 daemon:users",
        "/var/run/ganeti/crypto": "0700 root:daemon",
        "/var/run/ganeti/instance-reason": "0755 root:root",
        "/var/run/ganeti/ext/guests": "0700 root:root",
        "/var/run/ganeti/ext/mirrors": "0700 root:root",
        "/var/run/ganeti/kvm-hypervisor": "0755 root:root",
        "/var/run/ganeti/kvm-hypervisor/pid": "0755 root:root",
        "/var/run/ganeti/kvm-hypervisor/chroot-quarantine": "0755 root:root",
        "/var/run/ganeti/kvm-hypervisor/ctrl": "0700 root:root",
        "/var/run/ganeti/kvm-hypervisor/conf": "0700 root:root",
        "/var/run/ganeti/xen-hypervisor": "0755 root:root",
        "/var/run/ganeti/lxc": "0755 root:root",
        "/var/run/ganeti/chroot-hypervisor": "0755 root:root",
        "/var/run/ganeti/fake-hypervisor": "0755 root:root",
        "/var/run/ganeti/gluster": "0755 root:root",
        "/var/log/ganeti": "1770 daemon:users",
        "/var/log/ganeti/os": "0750 root:users",
        "/var/log/ganeti/cleaner": "0750 root:root",
        "/var/log/ganeti/master-cleaner": "0750 daemon:daemon",
    }
    assert {path: _Look(node.Path(path)) for path in expected} == expected
    assert not os.path.exists(node.Path("/var/lib/ganeti/config.data")), "files are never made"


def test_files_are_corrected(node):
    expected = {
        "/var/lib/ganeti/config.data": "0640 daemon:bin",
        "/var/lib/ganeti/hmac.key": "0440 bin:daemon",
        "/var/lib/ganeti/server.pem": "0440 daemon:daemon",
        "/var/lib/ganeti/rapi.pem": "0440 games:daemon",
        "/var/lib/ganeti/ssconf_cluster_name": "0444 root:root",
        "/var/lib/ganeti/queue/serial": "0640 daemon:users",
        "/var/lib/ganeti/queue/job-17": "0640 daemon:users",
        "/var/lib/ganeti/ext/store.db-wal": "0640 daemon:daemon",
        "/var/lib/ganeti/ext/export.lock": "0660 daemon:daemon",
        "/var/run/ganeti/ext/calls.lock": "0660 daemon:daemon",
        "/var/run/ganeti/ext/master.lock": "0600 daemon:daemon",
        "/var/log/ganeti/rapi-daemon.log": "0600 games:daemon",
        "/var/log/ganeti/rapi-access.log": "0600 games:daemon",
        "/var/log/ganeti/node-daemon.log": "0600 root:daemon",
    }
    for path in expected:
        node.Write(path, "content", mode=0o666)
    node.Write("/var/lib/ganeti/ganeti_pub_keys", "x", mode=0o600)
    assert node.EnsureDirs().returncode == 0
    assert {path: _Look(node.Path(path)) for path in expected} == expected
    assert _Look(node.Path("/var/lib/ganeti/ganeti_pub_keys")) == "0600 root:root", "not its business"
    again = node.EnsureDirs("-v")
    assert (again.returncode, again.stderr) == (0, ""), "nothing left to do"


def test_archive_only_in_a_full_run(node):
    job = node.Write("/var/lib/ganeti/queue/archive/3/job-31234", "{}", mode=0o666)
    assert node.EnsureDirs().returncode == 0
    assert _Look(job) == "0666 root:root"
    assert node.EnsureDirs("--full-run").returncode == 0
    assert _Look(job) == "0640 daemon:users"
    assert _Look(os.path.dirname(job)) == "0750 daemon:users"


def test_a_daemon_cannot_get_hold_of_other_files(node, tmp_path):
    """What lies in a directory a daemon may write to can be a trap laid by it."""
    secret = tmp_path / "shadow"
    secret.write_text("secret")
    secret.chmod(0o600)
    before = _Look(secret)
    traps = ["/var/lib/ganeti/config.data", "/var/log/ganeti/rapi-daemon.log", "/var/lib/ganeti/queue/job-1"]
    node.EnsureDirs()
    os.symlink(secret, node.Path(traps[0]))
    os.symlink(secret, node.Path(traps[1]))
    os.link(secret, node.Path(traps[2]))
    os.rmdir(node.Path("/var/run/ganeti/crypto"))
    os.symlink(tmp_path, node.Path("/var/run/ganeti/crypto"))
    mode_of_directory = _Look(tmp_path)
    done = node.EnsureDirs()
    assert done.returncode == 1
    for trap in traps + ["/var/run/ganeti/crypto"]:
        assert node.Path(trap) in done.stderr
    assert _Look(secret) == before
    assert _Look(tmp_path) == mode_of_directory
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["run/ganeti/kvm-hypervisor", "run/ganeti/crypto", "run/ganeti/ext", "log/ganeti/kvm"])
def test_a_directory_of_a_stranger_is_rejected_and_can_be_repaired(node, name):
    """Who may make names in RUN was there first: whatever its mode becomes, what lies in it is his."""
    node.EnsureDirs()
    path = node.Path(f"/var/{name}")
    shutil.rmtree(path)
    os.makedirs(f"{path}/conf")
    for mine in (path, f"{path}/conf"):
        os.chown(mine, pwd.getpwnam("bin").pw_uid, grp.getgrnam("users").gr_gid)
    before = _Look(path), _Look(f"{path}/conf")
    done = node.EnsureDirs()
    assert done.returncode == 1
    assert (_Look(path), _Look(f"{path}/conf")) == before and os.listdir(path) == ["conf"], "never used"
    message = done.stderr.splitlines()
    assert len(message) == 1 and f"{path} belongs to user bin" in message[0], "what lies in it is not looked at"
    command = message[0].rpartition("anew: ")[2].partition(" && ")[0]
    subprocess.run(shlex.split(command), check=True, timeout=30)
    assert node.EnsureDirs().returncode == 0
    assert _Look(path).split()[1].startswith("root:") and os.path.isdir(f"{path}.foreign/conf")


def test_directories_of_a_former_user_of_a_daemon_are_taken_over(node):
    """The daemons ran as other users before: as mail and news."""
    node.EnsureDirs()
    left = [
        node.Path(f"/var/{name}") for name in ("run/ganeti/socket", "run/ganeti/livelocks", "log/ganeti/master-cleaner")
    ]
    for path, user in zip(left, ("mail", "news", "mail"), strict=True):
        os.chown(path, pwd.getpwnam(user).pw_uid, -1)
    assert len(node.EnsureDirs().stderr.splitlines()) == 3
    one = node.EnsureDirs("--former-user=mail")
    assert one.returncode == 1 and len(one.stderr.splitlines()) == 1 and "livelocks belongs to user news" in one.stderr
    assert node.EnsureDirs("--former-user=mail", f"--former-user={pwd.getpwnam('news').pw_uid}").returncode == 0
    assert [_Look(path).split()[1].partition(":")[0] for path in left] == ["daemon"] * 3
    assert node.EnsureDirs().returncode == 0


def test_only_a_former_user_is_believed_and_nobody_who_could_still_change_what_it_left(node):
    node.EnsureDirs()
    path = node.Path("/var/run/ganeti/crypto")
    os.chown(path, pwd.getpwnam("bin").pw_uid, -1)
    for user, reason in (
        ("bin", "User bin is not a former one"),
        ("nobody-here", "give its number"),
        ("", "does not"),
    ):
        refused = node.EnsureDirs(f"--former-user={user}")
        assert refused.returncode == 1 and reason in refused.stderr and "Traceback" not in refused.stderr
    os.chown(path, pwd.getpwnam("mail").pw_uid, -1)
    running = node.Python(
        "import sys; from ganeti import constants; from ganeti.daemon import pidfile; from ganeti.tools import ensure_dirs\n"
        "lock = pidfile.Lock(constants.NODED)\nsys.argv[1:] = ['--former-user=mail']\nsys.exit(ensure_dirs.Main())",
        PYTHONPATH=node.package,
    )
    assert running.returncode == 1 and "ganeti-noded is running on this node" in running.stderr
    assert _Look(path).split()[1].startswith("mail:")


def test_no_program_of_roots_uses_a_directory_of_a_stranger(node):
    """noded can also be started without ensure-dirs."""
    path = node.Path("/var/run/ganeti/kvm-hypervisor")
    os.mkdir(path)
    os.chown(path, pwd.getpwnam("bin").pw_uid, -1)
    use = (
        "from ganeti import errors\nfrom ganeti.hypervisor.kvm import layout\n"
        "try:\n    layout.MakeDirs()\nexcept errors.StorageError as err:\n    print(err)"
    )
    assert f"{path} belongs to user bin" in node.Python(use).stdout
    assert os.listdir(path) == []
    os.rmdir(path)
    assert node.Python(use).stdout == ""
    assert _Look(f"{path}/conf") == "0700 root:root"


def test_a_mounted_volume_keeps_its_owner(node, tmp_path):
    """The root of a Gluster volume belongs to whom its users have chosen."""
    node.EnsureDirs()
    path = node.Path("/var/run/ganeti/gluster")
    script = f'mount -t tmpfs -o mode=0711,uid=1 none {path} && exec "$@"'
    probe = (
        "import os\nfrom ganeti.tools import ensure_dirs\ncode = ensure_dirs.EnsureAll()\n"
        f"info = os.stat({path!r})\nprint(code, info.st_uid, oct(info.st_mode & 0o777))"
    )
    done = node.Run(
        ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", probe], PYTHONPATH=node.package
    )
    assert done.stdout == "0 1 0o711\n", done.stderr


# A process of a user that holds a pid file as a daemon does: user, path.
HOLDER = """
import fcntl, os, sys
handle = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o600)
os.fchown(handle, int(sys.argv[1]), -1)
os.setgroups([])
os.setresuid(*[int(sys.argv[1])] * 3)
fcntl.flock(handle, fcntl.LOCK_EX)
os.write(handle, b"%d" % os.getpid())
print("held", flush=True)
sys.stdin.read()
"""


# The daemon's user can read neither the tree nor this user's files: everything is loaded before.
LOCK = """
from ganeti import errors, runtime
from ganeti.daemon import pidfile, users
pidfile.Lock("ganeti-noded").release()
users.BecomeUser("ganeti-confd", "bin", "users")
try:
    pidfile.Lock("ganeti-confd")
    print("locked")
except errors.PidFileLockError as err:
    print(err, err.hint)
"""


@pytest.fixture
def reachable():
    """A node in a directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="gnt-", dir="/tmp") as base:
        os.chmod(base, 0o755)
        yield _Node(base)


def _PidFile(node, name, user, text="4711\n"):
    path = node.Write(f"/var/run/ganeti/{name}.pid", text, mode=0o600)
    os.chown(path, pwd.getpwnam(user).pw_uid, -1)
    return path


@pytest.mark.parametrize("owner", ["root", "man"], ids=["ran as root", "ran as another user"])
def test_a_pid_file_that_is_left_from_another_user_gives_way(reachable, owner):
    """RUN is sticky: confd can neither open nor replace such a file, and says who can."""
    node = reachable
    node.EnsureDirs()
    path = _PidFile(node, "ganeti-confd", owner)
    _PidFile(node, "ganeti-rapi", "games")
    said = node.Python(LOCK, PYTHONPATH=node.package).stdout
    assert (
        f"{path} belongs to user {owner}; user bin, as whom ganeti-confd runs, can neither open nor replace it" in said
    )
    assert "ensure-dirs' as root" in said
    done = node.EnsureDirs("-v")
    assert (done.returncode, done.stderr.count("removed")) == (0, 1) and path in done.stderr
    assert node.Read("/var/run/ganeti/ganeti-rapi.pid") == "4711\n", "its own user will replace it"
    assert node.Python(LOCK, PYTHONPATH=node.package).stdout == "locked\n"


def test_a_user_who_may_make_no_files_in_the_directory_is_told_so(reachable):
    node = reachable
    os.chmod(node.Path("/var/run/ganeti"), 0o755)
    said = node.Python(LOCK, PYTHONPATH=node.package).stdout
    assert f"may not make files in {node.Path('/var/run/ganeti')} (root:root)" in said


@pytest.mark.parametrize("owner", ["root", "bin", "man"])
def test_the_pid_file_of_a_daemon_that_runs_stays_unless_it_runs_as_a_stranger(node, tmp_path, owner):
    node.EnsureDirs()
    program = tmp_path / "ganeti-confd"
    program.write_text(HOLDER)
    path = node.Path("/var/run/ganeti/ganeti-confd.pid")
    argv = [sys.executable, str(program), str(pwd.getpwnam(owner).pw_uid), path]
    tmp_path.chmod(0o755)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        done = node.EnsureDirs()
        holder.communicate("", timeout=30)
    assert done.returncode == 0
    assert os.path.exists(path) == (owner != "man")
    told = f"Process {holder.pid} of user man is ganeti-confd, too, which is to run as user bin; end that one with"
    assert (told in done.stderr) == (owner == "man")


def test_a_directory_in_the_place_of_a_pid_file_is_named(node):
    node.EnsureDirs()
    os.mkdir(node.Path("/var/run/ganeti/ganeti-rapi.pid"))
    os.symlink("/etc/passwd", node.Path("/var/run/ganeti/ganeti-noded.pid"))
    os.chown(node.Path("/var/run/ganeti/ganeti-noded.pid"), pwd.getpwnam("games").pw_uid, -1, follow_symlinks=False)
    done = node.EnsureDirs()
    assert done.returncode == 1 and "ganeti-rapi.pid is a directory; move it away" in done.stderr
    assert not os.path.lexists(node.Path("/var/run/ganeti/ganeti-noded.pid")) and os.path.exists("/etc/passwd")


def test_one_problem_does_not_keep_the_rest_from_being_done(node):
    node.Write("/var/lib/ganeti/queue", "a file where a directory belongs")
    done = node.EnsureDirs()
    assert done.returncode == 1
    assert "/var/lib/ganeti/queue is not a directory" in done.stderr
    assert _Look(node.Path("/var/log/ganeti/os")) == "0750 root:users"


def test_usage(node):
    assert node.EnsureDirs("surplus").returncode == 1
    assert node.EnsureDirs("--nonsense").returncode == 2


def test_names_that_a_daemon_s_user_gave_do_not_steer_root_s_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    common.LogToStderr(0, 0)
    logging.error("%s is not a file", "job-\x1b]0;evil\x07\x9b2J\u202e")
    text = capsys.readouterr().err
    assert text.endswith("job-\\x1b]0;evil\\x07\\x9b2J\\u202e is not a file\n")
