"""The life of a daemon: start, log, pid file, signals, users, end."""

import contextlib
import os
import re
import signal
import time

import pytest
from support.virtualnode import VirtualNode

# A daemon in ten lines; its argument says how its start goes.
DAEMON = """
import logging, os, sys
from ganeti import constants, daemon, errors, runtime

def Check(options):
    print("checked", flush=True)
    return 11 if options.how == "notmaster" else 0

def Prepare(options):
    if options.how == "refuse":
        raise errors.ConfigurationError("port is taken", hint="stop the other one")
    if options.how == "crash":
        raise ZeroDivisionError("bug")
    if options.how == "vanish":
        os._exit(9)
    return 42

def Execute(options, prepared, stop):
    logging.info("prepared %s\\nsecond line", prepared)
    print("to stdout", flush=True)
    if options.how == "die":
        raise RuntimeError("in the middle")
    if options.how == "fork" and not runtime.Fork():
        daemon.ForkedChild()
        runtime.Sleep(3)
        os._exit(0)
    stop.wait(40)
    return 3 if stop.is_set() else 4

sys.exit(daemon.GenericMain(constants.CONFD, "Test daemon", [
    daemon.Option("--how", dest="how", default=""), *daemon.NetworkOptions(constants.CONFD, 1814, "udp")],
    Check, Prepare, Execute))
"""
LOG = "/var/log/ganeti/conf-daemon.log"
PID = "/var/run/ganeti/ganeti-confd.pid"


@pytest.fixture
def node(tmp_path):
    node = VirtualNode(tmp_path)
    yield node
    _Stop(node)


def _Stop(node, number=signal.SIGTERM):
    """Ends the daemon and waits until its pid file has gone."""
    try:
        os.kill(int(node.Read(PID)), number)
    except (FileNotFoundError, ProcessLookupError):
        return  # there is none, or it is just ending by itself
    end = time.monotonic() + 20
    while os.path.exists(node.Path(PID)):
        assert time.monotonic() < end, node.Read(LOG)
        time.sleep(0.02)


def _State(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
        return stream.read().rpartition(")")[2].split()[0]


def _WaitForLog(node, text):
    end = time.monotonic() + 20
    while not (os.path.exists(node.Path(LOG)) and text in node.Read(LOG)):
        assert time.monotonic() < end, f"{text!r} did not appear in the log"
        time.sleep(0.02)


def test_life_of_a_daemon(node):
    started = node.Python(DAEMON)
    assert (started.returncode, started.stdout, started.stderr) == (0, "checked\n", "")
    pid = int(node.Read(PID))
    assert pid != os.getpid()
    _WaitForLog(node, "to stdout")
    log = node.Read(LOG)
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ganeti-confd " + f"pid={pid} INFO "
    assert re.search(line + "ganeti-confd daemon startup", log)
    assert re.search(line + r"prepared 42\n  second line", log)
    assert os.stat(node.Path(LOG)).st_mode & 0o777 == 0o600
    assert os.getsid(pid) != pid, "a session leader could get a terminal"
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    with open(f"/proc/{pid}/status", encoding="ascii") as stream:
        assert "Umask:\t0077" in stream.read()
    _Stop(node)
    assert "daemon shutdown" in node.Read(LOG)


def test_second_one_is_refused_and_leaves_the_first_alone(node):
    node.Python(DAEMON)
    pid = node.Read(PID)
    second = node.Python(DAEMON)
    assert second.returncode == 1
    assert second.stderr.startswith("Error while locking PID file:\n")
    assert f"locked by process {pid.strip()}" in second.stderr
    assert node.Read(PID) == pid
    os.kill(int(pid), 0)


def test_pid_file_of_a_dead_daemon_is_no_hindrance(node):
    node.Write(PID, "999999\n")
    assert node.Python(DAEMON).returncode == 0
    assert node.Read(PID) != "999999\n"


def test_forked_children_do_not_hold_the_pid_file(node):
    assert node.Python(DAEMON, "--how=fork").returncode == 0
    _WaitForLog(node, "to stdout")
    # Killed, it cannot remove its file: the lock alone tells that it is gone.
    pid = int(node.Read(PID))
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}") and _State(pid) != "Z":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert node.Python(DAEMON).returncode == 0, "the child of the first one still holds the lock"


@pytest.mark.parametrize(
    ("how", "code", "text"),
    [
        ("notmaster", 11, ""),
        ("refuse", 2, "port is taken\nstop the other one\n"),
        ("crash", 1, "ganeti-confd cannot start: bug; see "),
        ("vanish", 1, "ganeti-confd ended while it started; see "),
    ],
)
def test_failing_start_reaches_the_terminal(node, how, code, text):
    done = node.Python(DAEMON, f"--how={how}")
    assert done.returncode == code
    assert done.stderr.startswith(text) if text else done.stderr == ""
    assert "Traceback" not in done.stderr
    if how != "vanish":
        assert not os.path.exists(node.Path(PID))
    else:
        os.unlink(node.Path(PID))


def test_error_while_it_runs_is_logged_with_its_place(node):
    assert node.Python(DAEMON, "--how=die").returncode == 0
    _WaitForLog(node, "RuntimeError: in the middle")
    assert "CRITICAL ganeti-confd ends by an error" in node.Read(LOG)


def test_foreground_answers_with_its_exit_code(node):
    done = node.Python(DAEMON.replace("stop.wait(40)", "os.kill(os.getpid(), 15); stop.wait(20)"), "-f", "--how=x")
    assert done.returncode == 3
    assert "INFO prepared 42" in done.stderr


def test_log_follows_rotation_in_every_process(node):
    node.Python(DAEMON.replace("stop.wait(40)", "stop.wait(40); logging.info('after')"))
    _WaitForLog(node, "to stdout")
    os.rename(node.Path(LOG), node.Path(LOG + ".1"))
    _Stop(node)
    assert "after" in node.Read(LOG)
    assert "after" not in node.Read(LOG + ".1")


def test_hangup_moves_the_standard_streams(node):
    node.Python(DAEMON)
    _WaitForLog(node, "to stdout")
    os.rename(node.Path(LOG), node.Path(LOG + ".1"))
    pid = int(node.Read(PID))
    os.kill(pid, signal.SIGHUP)
    end = time.monotonic() + 20
    while os.readlink(f"/proc/{pid}/fd/2") != node.Path(LOG):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(("before", "said"), [("SIG_DFL", "interrupted"), ("SIG_IGN", "continues")])
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_a_program_that_loses_its_terminal_cleans_up_and_one_of_nohup_continues(node, name, before, said):
    done = node.Python(
        "import signal; from ganeti.daemon import signals\n"
        f"signal.signal(signal.{name}, signal.{before}); signals.InterruptAtEnd()\n"
        "try:\n"
        f"    signal.raise_signal(signal.{name}); print('continues')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')"
    )
    assert (done.returncode, done.stdout.strip()) == (0, said), done


def test_command_line(node):
    surplus = node.Python(DAEMON, "surplus")
    assert surplus.returncode == 2 and "No arguments are expected" in surplus.stderr
    unknown = node.Python(DAEMON, "--unknown")
    assert unknown.returncode == 2
    assert "no such option: --unknown" in unknown.stderr
    version = node.Python(DAEMON, "--version")
    assert version.stdout.startswith("ganeti-confd (ganeti) 3.")
    usage = node.Python(DAEMON, "--help")
    assert usage.returncode == 0
    assert usage.stdout.startswith(
        "Usage: ganeti-confd [-f] [-d] [-p port] [-b ADDRESS] [-i INTERFACE]\n\nTest daemon\n"
    )
    assert usage.stdout.index("--how") < usage.stdout.index("--foreground")
    assert node.Python(DAEMON, "-p", "70000").returncode == 2
    assert node.Python(DAEMON, "-b", "127.0.0.1", "-i", "lo").returncode == 2


def test_inherited_descriptors_are_closed(node):
    lock = os.open(node.Path("/var/lock/other"), os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    try:
        import subprocess
        import sys

        subprocess.run(
            [sys.executable, "-c", DAEMON],
            env=node.Environment(),
            pass_fds=[lock],
            check=True,
            timeout=30,
            stdout=subprocess.DEVNULL,
        )
    finally:
        os.close(lock)
    pid = node.Read(PID).strip()
    targets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            targets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    assert node.Path("/var/lock/other") not in targets


# --- users -----------------------------------------------------------------------------------------------------------

DROP = """
import os, sys
from ganeti import errors
from ganeti.daemon import users
if os.getuid() == 0:
    os.setgroups([0, 4])
try:
    users.BecomeUser("ganeti-rapi", sys.argv[1], sys.argv[2])
except errors.GenericError as err:
    sys.exit(str(err))
print(os.getresuid(), os.getresgid(), 0 in os.getgroups())
try:
    os.setuid(0)
except PermissionError:
    print("never root again")
"""


@pytest.mark.req("D22-PRIV-03", "D22-PRIV-06")
def test_root_is_given_up_for_good(node):
    import pwd

    nobody = pwd.getpwnam("nobody")
    done = node.Python(DROP, "nobody", "nogroup")
    uids = (nobody.pw_uid,) * 3
    gids = (nobody.pw_gid,) * 3
    assert done.stdout == f"{uids} {gids} False\nnever root again\n", done.stderr


def test_another_user_is_refused(node):
    code = DROP.replace("try:\n    users", "os.setuid(1)\ntry:\n    users")
    done = node.Python(code, "nobody", "nogroup")
    assert done.returncode == 1
    assert "ganeti-rapi started using wrong user ID (1), expected " in done.stderr


def test_missing_user_says_what_to_do(node):
    done = node.Python(DROP, "gnt-no-such-user", "nogroup")
    assert "User 'gnt-no-such-user' does not exist here: run '" in done.stderr
    assert "/users-setup'" in done.stderr
