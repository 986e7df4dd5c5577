"""daemon-util as scripts and administrators call it, on a virtual node with small daemons."""

import os
import sys

import pytest
from simulated import Invocation, World
from support import layout
from support.virtualnode import VirtualNode

from ganeti import runtime
from ganeti.tools import daemon_util

MAIN = "import sys\nfrom ganeti.tools.daemon_util import Main\nsys.exit(Main())"

# Writes its arguments to a file; --exit=N ends at once with N; --deaf does not hear SIGTERM.
DAEMON = f"""#!{sys.executable}
import os, sys
from ganeti import daemon, pathutils
NAME = os.path.basename(sys.argv[0])
def Check(options):
    with open(pathutils.DATA_DIR + "/args." + NAME, "a") as stream:
        stream.write(" ".join(sys.argv[1:]) + " | " + os.environ["PATH"] + " | " + os.environ.get("PYTHONMALLOC", "") + "\\n")
    return options.exit
sys.exit(daemon.GenericMain(NAME, "test", [
    daemon.Option("--exit", dest="exit", type="int", default=0),
    daemon.Option("--word", dest="word", action="append"),
], Check, lambda options: None, lambda options, prepared, stop: 0 if stop.wait(50) else 1))
"""
NAMES = ["ganeti-noded", "ganeti-confd", "ganeti-masterd", "ganeti-rapi"]


class Util:
    def __init__(self, tmp_path):
        self.node = VirtualNode(tmp_path)
        self.daemons = str(tmp_path / "daemons")
        self.package = layout.MakePackage(str(tmp_path / "package"), DAEMON_DIR=self.daemons)
        for name in NAMES:
            layout.WriteProgram(f"{self.daemons}/{name}", DAEMON)

    def __call__(self, *argv, **environment):
        done = self.node.Python(MAIN, *argv, PYTHONPATH=self.package, **environment)
        assert "Traceback" not in done.stderr
        return done

    def Arguments(self, name, field=0):
        """The command lines of the daemon's starts so far; ``field`` 1: their search path, 2: their allocator."""
        return [line.split(" | ")[field] for line in self.node.Read(f"/var/lib/ganeti/args.{name}").splitlines()]


@pytest.fixture
def util(tmp_path):
    util = Util(tmp_path)
    yield util
    assert util("stop-all").returncode == 0


def test_start_check_stop(util):
    assert util("check", "ganeti-noded").returncode == 1
    done = util("start", "ganeti-noded", "--word=a b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert util("check", "ganeti-noded").returncode == 0
    assert util("start", "ganeti-noded").returncode == 0, "a running one is fine"
    assert util("check-and-start", "ganeti-noded").returncode == 0
    assert util.Arguments("ganeti-noded") == ["--word=a b"], "started once"
    assert util("stop", "ganeti-noded").returncode == 0
    assert util("check", "ganeti-noded").returncode == 1
    assert util("stop", "ganeti-noded").returncode == 0, "a stopped one is fine"
    assert util("check-and-start", "ganeti-noded").returncode == 0
    assert util("check", "ganeti-noded").returncode == 0


def test_pid_file_of_a_dead_daemon_does_not_count(util):
    util.node.Write("/var/run/ganeti/ganeti-noded.pid", f"{os.getpid()}\n")
    assert util("check", "ganeti-noded").returncode == 1
    assert util("stop", "ganeti-noded").returncode == 0


def test_all_and_master(util):
    assert util("start-all").returncode == 0
    assert [util("check", name).returncode for name in NAMES] == [0, 0, 0, 0]
    assert [util.Arguments(name, 2) for name in NAMES] == [[""], [""], ["malloc"], [""]]
    assert util("stop-master").returncode == 0
    assert [util("check", name).returncode for name in NAMES] == [0, 0, 1, 1]
    assert util("start-master").returncode == 0
    assert util("rotate-all-logs").returncode == 0
    assert util("stop-all").returncode == 0
    assert [util("check", name).returncode for name in NAMES] == [1, 1, 1, 1]


def test_not_being_the_master_is_no_failure_of_start_all(util):
    util.node.Write("/etc/default/ganeti", 'MASTERD_ARGS="--exit=11"\n')
    assert util("start", "ganeti-masterd").returncode == 11, "passed on to scripts"
    assert util("start-all").returncode == 0
    assert util("start-master").returncode == 11, "here it is one"
    util.node.Write("/etc/default/ganeti", 'CONFD_ARGS="--exit=5"\n')
    util("stop-all")
    assert util("start-all").returncode == 1
    assert util("check", "ganeti-rapi").returncode == 0, "one failing daemon does not keep the others from starting"


def test_arguments_come_from_defaults_environment_and_command_line(util):
    util.node.Write("/etc/default/ganeti", "X=two\nNODED_ARGS=\"--word=one --word='$X three'\"\necho noise\n")
    assert util("start", "ganeti-noded", "--word=last", EXTRA_NODED_ARGS="--word=extra").returncode == 0
    assert util.Arguments("ganeti-noded") == ["--word=one --word=two three --word=extra --word=last"]


def test_master_daemon_listens_to_the_old_names(util):
    util.node.Write("/etc/default/ganeti", "LUXID_ARGS=--word=luxid\nWCONFD_ARGS=--word=wconfd\n")
    assert util("start", "ganeti-luxid").returncode == 0
    assert util("check", "ganeti-masterd").returncode == 0
    assert util("start", "ganeti-wconfd").returncode == 0
    assert util.Arguments("ganeti-masterd") == ["--word=wconfd --word=luxid"]


def test_broken_defaults_are_named(util):
    util.node.Write("/etc/default/ganeti", "NODED_ARGS='--word=\"open'\n")
    done = util("start", "ganeti-noded")
    assert done.returncode == 1
    assert "etc/default/ganeti: the arguments of ganeti-noded cannot be read" in done.stderr
    util.node.Write("/etc/default/ganeti", "if\n")
    done = util("start", "ganeti-noded")
    assert done.returncode == 1
    assert "etc/default/ganeti cannot be read" in done.stderr


def test_search_path_always_holds_the_systems_programs(util):
    assert util("start", "ganeti-noded", PATH="/nowhere").returncode == 0
    path = util.node.Read("/var/lib/ganeti/args.ganeti-noded").split(" | ")[1].strip().split(":")
    assert path[0] == "/nowhere"
    assert {"/usr/sbin", "/sbin", "/bin"} <= set(path)


def test_missing_programs_are_left_out(util):
    os.unlink(f"{util.daemons}/ganeti-rapi")
    assert util("start-all").returncode == 0
    assert "ganeti-rapi" not in util("list-start-daemons").stdout
    assert util("start", "ganeti-rapi").returncode != 0


@pytest.mark.parametrize(
    ("argv", "code", "stdout", "stderr"),
    [
        (["list-start-daemons"], 0, "".join(f"{n}\n" for n in NAMES), ""),
        (["list-stop-daemons"], 0, "".join(f"{n}\n" for n in NAMES[::-1]), ""),
        (["is-daemon-name", "ganeti-noded"], 0, "", ""),
        (["is-daemon-name", "noded"], 1, "", "Unknown daemon name 'noded'\n"),
        (["check", "ganeti-x"], 1, "", "Unknown daemon name 'ganeti-x'\n"),
        (["check-exitcode", "0"], 0, "", ""),
        (["check-exitcode", "11"], 0, "not master\n", ""),
        (["check-exitcode", "3"], 1, "exit code 3\n", ""),
        (["start_all"], 1, "", "Command must not contain underscores\n"),
        (["dance"], 1, "", "Unknown command: dance\n"),
        (["reload-ssh-keys"], 0, "", ""),
        (["use-systemctl"], 1, "", ""),
    ],
)
def test_answers(util, argv, code, stdout, stderr):
    done = util(*argv)
    assert (done.returncode, done.stdout, done.stderr) == (code, stdout, stderr)


def test_more_answers(util):
    assert util().stderr.startswith("Usage: daemon-util ACTION")
    assert util("start").returncode == 1
    assert util("stop", "ganeti-noded", "ganeti-rapi").returncode == 1
    assert util("start", "ganeti-mond").stderr == (
        "There is no 'ganeti-mond' in this release: there is no monitoring daemon\n"
    )
    assert util("daemon-pidfile", "ganeti-rapi").stdout == util.node.Path("/var/run/ganeti/ganeti-rapi.pid") + "\n"
    assert util("daemon-executable", "ganeti-rapi").stdout == f"{util.daemons}/ganeti-rapi\n"
    assert util("check-config").returncode == 1
    util.node.Write("/var/lib/ganeti/server.pem", "x")
    assert util("check-config").returncode == 0


def test_under_systemd_the_command_that_starts_a_daemon_is_named() -> None:
    """It does not restart what ended with success, or was stopped by an administrator."""
    machine = World(1).AddMachine("node1.example.com")
    machine.Call(runtime.MakeDirs, "/run/systemd/system")

    def systemctl(invocation: Invocation) -> None:
        invocation.Print("LoadState=loaded\n")

    machine.programs["systemctl"] = systemctl
    with pytest.raises(daemon_util.Refusal, match="start it with 'systemctl start ganeti-noded'"):
        machine.Call(daemon_util.CheckAndStart, "ganeti-noded")
