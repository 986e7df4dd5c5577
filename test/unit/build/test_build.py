"""What configure and make produce: settings, start scripts, an installation."""

import importlib.metadata
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib

import pytest
from support import layout
from support.virtualnode import TOP

from ganeti import constants
from ganeti.daemon import memory
from ganeti.tools import daemon_util

BUILD = os.environ.get("GANETI_BUILD_DIR", TOP)
AUTOTOOLS = os.path.join(TOP, "autotools")


def _Run(*argv, check=True, **more):
    return subprocess.run(
        [sys.executable, "-B", *argv], check=check, capture_output=True, text=True, timeout=50, **more
    )


# --- settings ------------------------------------------------------------------------------------------------------------


def test_settings_reach_the_paths(tmp_path):
    package = layout.MakePackage(
        str(tmp_path),
        LOCALSTATE_DIR="/opt/x/var",
        SYSCONF_DIR="/opt/x/etc",
        MASTERD_USER="gnt-masterd",
        OS_SEARCH_PATH="/a,/b",
        ENABLE_RESTRICTED_COMMANDS="yes",
    )
    code = """
import json
from ganeti import _autoconf, pathutils
from ganeti.daemon import users
print(json.dumps([pathutils.CLUSTER_CONF_FILE, pathutils.HOOKS_BASE_DIR, pathutils.OS_SEARCH_PATH,
                  users.DAEMON_USERS["ganeti-masterd"][0], _autoconf.ENABLE_RESTRICTED_COMMANDS]))
"""
    done = _Run("-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": package})
    assert json.loads(done.stdout) == [
        "/opt/x/var/lib/ganeti/config.data",
        "/opt/x/etc/ganeti/hooks",
        ["/a", "/b"],
        "gnt-masterd",
        True,
    ]


@pytest.mark.parametrize("setting", ["NO_SUCH=1", "ENABLE_RESTRICTED_COMMANDS=perhaps"])
def test_wrong_settings_are_refused(tmp_path, setting):
    done = _Run(f"{AUTOTOOLS}/write-autoconf", str(tmp_path / "x.py"), setting, check=False)
    assert done.returncode == 1
    assert setting.split("=")[0] in done.stderr
    assert not (tmp_path / "x.py").exists()


@pytest.mark.req("IAL-02", "IAL-03")
def test_where_allocators_are_looked_for_can_be_set(tmp_path):
    def path(*settings):
        target, found = tmp_path / "x.py", {}
        _Run(f"{AUTOTOOLS}/write-autoconf", str(target), *settings)
        exec(target.read_text(), found)
        return found["IALLOCATOR_SEARCH_PATH"]

    assert path()[-1] == "/usr/lib/ganeti/iallocators"
    assert path("IALLOCATOR_SEARCH_PATH=/srv/b,/srv/a") == ("/srv/b", "/srv/a")
    with open(os.path.join(AUTOTOOLS, "..", "configure.ac"), encoding="utf-8") as stream:
        assert "[IALLOCATOR_SEARCH_PATH], [iallocator-search-path]" in stream.read()


def test_settings_survive_odd_characters(tmp_path):
    target = tmp_path / "x.py"
    _Run(f"{AUTOTOOLS}/write-autoconf", str(target), 'EXPORT_DIR=/a "b"\\c')
    found = {}
    exec(target.read_text(), found)
    assert found["EXPORT_DIR"] == '/a "b"\\c'


# --- start scripts -------------------------------------------------------------------------------------------------------


def test_modules_beside_a_program_are_not_taken(tmp_path):
    """A file in /usr/sbin must not pose as a module of a program there."""
    package = tmp_path / "package"
    (package / "goodprogram").mkdir(parents=True)
    (package / "goodprogram" / "__init__.py").write_text(
        "def Main():\n    import json\n    print('good', json.__name__)\n"
    )
    (tmp_path / "programs").write_text("# comment\nscripts tool goodprogram\n")
    for name in ("json.py", "goodprogram.py"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text("print('evil')\n")
    script = tmp_path / "bin" / "tool"
    writer = f"{AUTOTOOLS}/write-start-script"
    _Run(writer, str(script), sys.executable, str(package), str(tmp_path / "programs"))
    assert subprocess.run([script], capture_output=True, text=True, timeout=30).stdout == "good json\n"
    unknown = _Run(writer, str(tmp_path / "other"), "python", "/x", str(tmp_path / "programs"), check=False)
    assert unknown.returncode == 1


def test_no_program_is_installed_with_a_hole_in_it(tmp_path):
    source = tmp_path / "x.in"
    source.write_text("#!@SH@\nD=@LOCK_DIR@\n")
    source.chmod(0o755)
    autoconf = f"{tmp_path}/a.py"
    _Run(f"{AUTOTOOLS}/write-autoconf", autoconf)
    _Run(f"{AUTOTOOLS}/substitute", str(source), str(tmp_path / "x"), autoconf, "SH=/bin/sh")
    assert (tmp_path / "x").read_text() == "#!/bin/sh\nD=/var/lock\n"
    assert os.access(tmp_path / "x", os.X_OK)
    source.write_text("@NO_SUCH@")
    done = _Run(f"{AUTOTOOLS}/substitute", str(source), str(tmp_path / "y"), autoconf, check=False)
    assert done.returncode == 1
    assert "no value for @NO_SUCH@" in done.stderr
    assert not (tmp_path / "y").exists()


# --- installation --------------------------------------------------------------------------------------------------------


def _Make(*words, **more):
    # Called from "make check" its settings would reach the inner make.
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
    return subprocess.run(
        ["make", "-s", *words], cwd=BUILD, env=environment, check=True, capture_output=True, text=True, timeout=400, **more
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """(root of an installation, Makefile's variables)."""
    assert os.path.exists(os.path.join(BUILD, "Makefile")), "the tree is not built: tools/run-tests --only-setup"
    root = tmp_path_factory.mktemp("root")
    _Make("install", f"DESTDIR={root}")
    names = ("sbindir", "pkglibdir", "pythondir", "localstatedir", "mandir", "sysconfdir", "docdir")
    show = "show:\n" + "".join(f"\t@echo {name}=$({name})\n" for name in names)
    done = _Make("-f", "Makefile", "-f", "-", "show", input=show)
    return str(root), dict(line.split("=", 1) for line in done.stdout.split("\n") if line)


@pytest.mark.slow
def test_installation_is_complete_and_knows_its_place(installed):
    root, dirs = installed
    assert os.path.isdir(f"{root}{dirs['pythondir']}/ganeti/runtime/real")
    environment = {**os.environ, "PYTHONPATH": root + dirs["pythondir"]}

    def run(*argv):
        return subprocess.run(
            argv, env=environment, cwd=root, capture_output=True, text=True, check=True, timeout=50
        ).stdout

    assert run(f"{root}{dirs['sbindir']}/gnt-cluster", "--version").startswith("gnt-cluster (ganeti ")
    pid_file = run(f"{root}{dirs['pkglibdir']}/daemon-util", "daemon-pidfile", "ganeti-noded")
    assert pid_file == f"{dirs['localstatedir']}/run/ganeti/ganeti-noded.pid\n"
    program = run(f"{root}{dirs['pkglibdir']}/daemon-util", "daemon-executable", "ganeti-noded")
    assert program == f"{dirs['sbindir']}/ganeti-noded\n"
    assert os.access(root + program.strip(), os.X_OK)


@pytest.mark.slow
def test_every_program_is_installed(installed):
    root, dirs = installed
    places = {"scripts": "sbindir", "daemons": "sbindir", "lib": "pkglibdir", "tools": "pkglibdir"}
    with open(os.path.join(AUTOTOOLS, "programs"), encoding="utf-8") as stream:
        rows = [line.partition("#")[0].split() for line in stream]
    missing = []
    for where, name, _ in (row for row in rows if row):
        path = f"{root}{dirs[places[where]]}{'/tools' if where == 'tools' else ''}/{name}"
        if not os.path.exists(path) or not stat.S_IMODE(os.stat(path).st_mode) & 0o111:
            missing.append(path)
    assert missing == []
    allocator = os.readlink(f"{root}{dirs['pkglibdir']}/iallocators/hail")
    assert allocator == f"{dirs['sbindir']}/hail" and os.path.exists(root + allocator)
    assert os.path.exists(f"{root}{dirs['mandir']}/man8/gnt-cluster.8")
    assert os.path.exists(f"{root}{dirs['sysconfdir']}/bash_completion.d/ganeti")


@pytest.mark.slow
def test_documents_are_where_manuals_say(installed):
    root, dirs = installed
    for name in ("README", "NEWS", "storage.rst", "installing.rst", "adopting.rst", "design-store.rst"):
        assert os.path.isfile(f"{root}{dirs['docdir']}/{name}"), name
    with open(f"{root}{dirs['mandir']}/man7/ganeti.7", encoding="utf-8") as stream:
        assert f"{dirs['docdir']}/" in stream.read()


def test_configure_asks_for_every_library():
    """Each package that programs need has a module in the list of what configure tries to import."""
    with open(os.path.join(TOP, "configure.ac"), encoding="utf-8") as stream:
        modules = re.search(r"for module in ((?:[^;]|\n)*);", stream.read()).group(1).replace("\\\n", " ").split()
    owners = importlib.metadata.packages_distributions()
    covered = {name.lower().replace("_", "-") for module in modules for name in owners[module.partition(".")[0]]}
    with open(os.path.join(TOP, "pyproject.toml"), "rb") as stream:
        lines = tomllib.load(stream)["project"]["dependencies"]
    # What only newer Pythons need is imported by another one of them.
    needed = {line.partition("==")[0].lower() for line in lines if ";" not in line}
    assert needed - covered == set()


@pytest.mark.slow
def test_manuals_name_the_places_of_the_installation(installed):
    root, dirs = installed
    named = []
    for folder, _, names in os.walk(f"{root}{dirs['mandir']}"):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                text = stream.read().replace("\\-", "-")
            assert f"{TOP}/" not in text and f"{os.path.abspath(BUILD)}/" not in text, name
            named += [name] if dirs['pkglibdir'] in text else []
    assert {"adopt.8", "ensure-dirs.8", "ganeti-recovery.7", "gnt-cluster.8"} <= set(named)


@pytest.mark.slow
@pytest.mark.limit(300)
def test_a_release_can_be_installed_beside_others(tmp_path, installed):
    """Every usual path is a link through the switch, and leads to the same program in each release."""
    usual, dirs = installed
    _Make("install-release", "install-links", f"DESTDIR={tmp_path}")
    version = constants.RELEASE_VERSION
    release, share = f"{dirs['pkglibdir']}/{version}", f"/usr/share/ganeti/{version}"
    switch = {"lib": release, "share": share}
    assert {name: os.readlink(f"{tmp_path}{dirs['sysconfdir']}/ganeti/{name}") for name in switch} == switch

    def follow(path):
        """What a machine finds there, as long as only the last part and the switch are links."""
        target = os.readlink(f"{tmp_path}{path}")
        for name, place in switch.items():
            target = target.replace(f"{dirs['sysconfdir']}/ganeti/{name}/", f"{place}/")
        return f"{tmp_path}{target}"

    programs = 0
    for folder in ("sbindir", "pkglibdir", "mandir"):
        for where, _, names in os.walk(usual + dirs[folder]):
            place = where.removeprefix(usual)
            for name in names:
                inner = place.removeprefix(dirs["pkglibdir"]).lstrip("/") if folder == "pkglibdir" else ""
                path = f"{dirs['pkglibdir']}/{inner}" if inner else f"{place}/{name}"
                found = f"{follow(path)}/{name}" if inner else follow(path)
                assert os.path.lexists(found), f"{place}/{name}"
                if os.path.islink(f"{where}/{name}"):
                    continue
                with open(f"{where}/{name}", encoding="utf-8") as stream:
                    text = stream.read()
                if f"'{dirs['pythondir']}'" not in text:
                    continue
                programs += 1
                with open(found, encoding="utf-8") as stream:
                    assert stream.read() == text.replace(dirs["pythondir"], f"{release}/python")
    with open(os.path.join(AUTOTOOLS, "programs"), encoding="utf-8") as stream:
        assert programs == sum(bool(line.partition("#")[0].strip()) for line in stream)
    package = f"{tmp_path}{release}/python/ganeti"
    assert os.path.isdir(f"{package}/runtime/real")
    with open(f"{package}/_autoconf.py", encoding="utf-8") as stream:
        assert f'PKGLIB_DIR = "{dirs["pkglibdir"]}"' in stream.read()
    # The next release changes nothing of this one, and leaves the switch alone.
    os.unlink(f"{tmp_path}{dirs['sysconfdir']}/ganeti/lib")
    os.symlink("/elsewhere", f"{tmp_path}{dirs['sysconfdir']}/ganeti/lib")
    _Make("install-links", f"DESTDIR={tmp_path}")
    assert os.readlink(f"{tmp_path}{dirs['sysconfdir']}/ganeti/lib") == "/elsewhere"


def _Examples(installed):
    root, dirs = installed
    return f"{root}{dirs['docdir']}/examples"


def _Units(installed):
    """Name -> (section, key, value) rows of every unit."""
    found = {}
    for name in os.listdir(_Examples(installed)):
        if name.endswith((".service", ".target", ".timer")):
            with open(f"{_Examples(installed)}/{name}", encoding="utf-8") as stream:
                lines = [line.strip() for line in stream if line.strip() and not line.startswith("#")]
            section, rows = "", []
            for line in lines:
                if line.startswith("["):
                    section = line.strip("[]")
                else:
                    key, equals, value = line.partition("=")
                    assert equals and section, (name, line)
                    rows.append((section, key, value))
            found[name] = rows
    return found


DAEMONS = ("ganeti-noded", "ganeti-confd", "ganeti-masterd", "ganeti-rapi")
BY_TIMER = ("ganeti-watcher", "ganeti-watcher-strict", "ganeti-cleaner-node", "ganeti-cleaner-master")


def test_units_fit_the_daemons(installed):
    """systemd looks after the same daemons as daemon-util, under the names that daemon-util uses."""
    _, dirs = installed
    units = _Units(installed)
    assert set(units) == {
        *(f"{name}.service" for name in (*DAEMONS, *BY_TIMER, "ganeti-common")),
        *(f"{name}.timer" for name in BY_TIMER),
        "ganeti.target",
        "ganeti-node.target",
        "ganeti-master.target",
    }
    for name in DAEMONS:
        rows = units[f"{name}.service"]
        values = {key: value for section, key, value in rows if section == "Service"}
        assert values["ExecStart"].startswith(f"{dirs['sbindir']}/{name} -f ")
        for variable in (*daemon_util.ARGUMENT_VARIABLES[name], "ONETIME_ARGS"):
            assert f" ${variable}" in values["ExecStart"]
        files = [value for section, key, value in rows if key == "EnvironmentFile"]
        data = f"{dirs['localstatedir']}/lib/ganeti"
        assert files == [f"-{dirs['sysconfdir']}/default/ganeti", f"-{data}/{name}.onetime.conf"]
        given = dict(word.split("=", 1) for word in values.get("Environment", "").split())
        assert given == (memory.RETURNED if name == "ganeti-masterd" else {})
        assert int(values["TimeoutStopSec"].removesuffix("s")) >= daemon_util.STOP_TIMEOUT
        assert ("SuccessExitStatus" in values) == (name in daemon_util.MASTER_ORDER)
        # Guests live in the node daemon's group of processes.
        assert (values.get("KillMode"), values.get("TasksMax")) == (
            ("process", "infinity") if name == "ganeti-noded" else (None, None)
        )


def test_what_units_and_cron_run_is_installed(installed):
    root, dirs = installed
    named = [value for rows in _Units(installed).values() for _, key, value in rows if key == "ExecStart"]
    for file in ("ganeti.cron", "ganeti.logrotate"):
        with open(f"{_Examples(installed)}/{file}", encoding="utf-8") as stream:
            text = stream.read()
        assert not re.search("@[A-Z_]+@", text)
        found = re.findall(rf"(?:{re.escape(dirs['sbindir'])}|{re.escape(dirs['pkglibdir'])})/[a-z-]+", text)
        assert found
        named += found
    paths = {value.split()[0] for value in named}
    assert {os.path.basename(path) for path in paths} == {
        *DAEMONS, "ganeti-watcher", "ganeti-cleaner", "daemon-util", "ensure-dirs", "gnt-cluster",
    }  # fmt: skip
    assert [path for path in sorted(paths) if not os.access(root + path, os.X_OK)] == []


def test_timers_and_cron_agree_on_the_time(installed):
    when = {name: value for name, rows in _Units(installed).items() for _, key, value in rows if key == "OnCalendar"}
    tolerant = [str(minute) for minute in range(0, 60, 5) if minute % 30]
    assert when == {
        "ganeti-watcher.timer": f"*:{','.join(tolerant)}",
        "ganeti-watcher-strict.timer": "*:0,30",
        "ganeti-cleaner-node.timer": "02:45",
        "ganeti-cleaner-master.timer": "01:45",
    }
    with open(f"{_Examples(installed)}/ganeti.cron", encoding="utf-8") as stream:
        lines = [line.split() for line in stream if line[0] in "*0123456789"]
    assert [(" ".join(line[:5]), line[5], line[-2:]) for line in lines] == [
        ("5-25/5,35-55/5 * * * *", "root", [f"{installed[1]['sbindir']}/ganeti-watcher", "--no-strict"]),
        ("*/30 * * * *", "root", ["&&", f"{installed[1]['sbindir']}/ganeti-watcher"]),
        ("45 1 * * *", "root", [f"{installed[1]['sbindir']}/ganeti-cleaner", "master"]),
        ("45 2 * * *", "root", [f"{installed[1]['sbindir']}/ganeti-cleaner", "node"]),
    ]


@pytest.mark.slow
def test_systemd_takes_the_units(installed, tmp_path):
    """Where systemd is there to judge; what they say is looked at by the tests above in any case."""
    if shutil.which("systemd-analyze") is None:
        return
    root, _ = installed
    shutil.copytree(root, tmp_path / "root", symlinks=True)
    folder = tmp_path / "root" / "usr/lib/systemd/system"
    folder.mkdir(parents=True)
    for name in ("sysinit", "basic", "shutdown", "timers", "network-online", "multi-user", "time-set", "time-sync"):
        (folder / f"{name}.target").write_text("[Unit]\nDescription=of the system\n")
    for name in _Units(installed):
        shutil.copy(f"{_Examples(installed)}/{name}", folder)
    argv = ["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}/root"]
    done = subprocess.run(
        [*argv, *sorted(map(str, folder.glob("ganeti*")))], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
