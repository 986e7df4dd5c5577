"""ensure-dirs corrects what is there, makes directories only, and cannot be led astray."""

import grp
import logging
import os
import pwd
import stat

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


@pytest.fixture
def node(tmp_path):
    node = VirtualNode(tmp_path)
    package = layout.MakePackage(str(tmp_path / "package"), **USERS)
    node.EnsureDirs = lambda *argv: node.Python(MAIN, *argv, PYTHONPATH=package)
    return node


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
        "/var/run/ganeti/socket": "0770 daemon:users",
        "/var/run/ganeti/crypto": "0700 root:daemon",
        "/var/run/ganeti/instance-reason": "0755 root:root",
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
