"""Lines that the log file does not take go to the console, and never disturb the work."""

import json
import logging
import os
import re
import subprocess
import sys
import threading

import pytest
from support.virtualnode import TOP

from ganeti.daemon import logs


@pytest.fixture
def console(tmp_path):
    path = tmp_path / "console"
    path.write_text("")
    return path


def _Logger(handler):
    handler.setFormatter(logs.LineFormatter("ganeti-test"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger


@pytest.mark.req("D21-NODED-03")
def test_full_disk(tmp_path, console):
    handler = logs.LogFile("/dev/full", str(console))
    logger = _Logger(handler)
    logger.info("to the console")
    assert console.read_text().endswith("INFO to the console\n")
    handler.close()


@pytest.mark.req("D21-NODED-03")
def test_file_that_comes_back(tmp_path, console):
    directory = tmp_path / "log"
    handler = logs.LogFile(str(directory / "x.log"), str(console))
    logger = _Logger(handler)
    logger.info("nowhere to go")
    directory.mkdir()
    logger.info("file is there")
    assert "nowhere to go" in console.read_text()
    assert "file is there" in (directory / "x.log").read_text()
    assert "file is there" not in console.read_text()
    handler.close()


@pytest.mark.req("D21-NODED-03")
def test_children_write_to_the_console_too(tmp_path, console):
    handler = logs.LogFile("/dev/full", str(console))
    logger = _Logger(handler)
    pid = os.fork()
    if pid == 0:
        logger.info("from a child")
        os._exit(0)
    os.waitpid(pid, 0)
    assert "from a child" in console.read_text()
    handler.close()


_ALL_LEVELS = """
import logging
from ganeti.daemon import logs
logs.SetUp("ganeti-test", PATH, debug=True, console=False)
for level in ("debug", "info", "warning", "error", "critical"):
    getattr(logging, level)("of level %s", level)
"""


@pytest.mark.req("D20-LOG-02")
def test_one_file_takes_all_levels(tmp_path):
    path = tmp_path / "test.log"
    subprocess.run([sys.executable, "-c", f"PATH = {str(path)!r}\n{_ALL_LEVELS}"], check=True, timeout=60, cwd=TOP)
    assert os.listdir(tmp_path) == ["test.log"]
    lines = path.read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["debug", "info", "warning", "error", "critical"]


@pytest.mark.req("D20-LOG-01")
def test_nobody_else_sets_up_logging():
    """Other modules call functions of the logging module; only tools, which write to a terminal, set it up as well."""
    own = re.compile(r"logging\.(?:\w*Handler|handlers|Formatter|basicConfig|FileHandler)\b|import syslog")
    found = []
    for folder, _, names in os.walk(os.path.join(TOP, "lib")):
        for name in (name for name in names if name.endswith(".py")):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                if own.search(stream.read()):
                    found.append(os.path.relpath(os.path.join(folder, name), TOP))
    assert sorted(found) == ["lib/daemon/logs.py", "lib/tools/common.py"]


def test_neither_file_nor_console(tmp_path):
    handler = logs.LogFile(str(tmp_path / "no" / "x.log"), str(tmp_path / "no" / "console"))
    _Logger(handler).info("lost, and nobody minds")
    assert not (tmp_path / "no").exists()


def test_wrong_message_does_not_disturb(tmp_path):
    handler = logs.LogFile(str(tmp_path / "x.log"), None)
    _Logger(handler).info("%d items", "no number")
    assert "cannot be shown" in (tmp_path / "x.log").read_text()
    handler.close()


def test_a_message_cannot_look_like_another_line(tmp_path):
    handler = logs.LogFile(str(tmp_path / "x.log"), None)
    _Logger(handler).info("name=%s", "x\n2030-01-01 00:00:00,000: ganeti-test pid=1 ERROR forged\r \x1b[2J\x9b")
    lines = (tmp_path / "x.log").read_text().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("  2030") and lines[1].endswith("forged\\r \\x1b[2J\\x9b")
    handler.close()


def test_threads_are_named(tmp_path):
    handler = logs.LogFile(str(tmp_path / "x.log"), None)
    logger = _Logger(handler)
    thread = threading.Thread(target=logger.info, args=("hello",), name="Jq3")
    thread.start()
    thread.join()
    assert f"pid={os.getpid()}/Jq3 INFO hello" in (tmp_path / "x.log").read_text()
    handler.close()


@pytest.mark.parametrize("trap", ["link", "dangling", "pipe", "hard link", "directory"])
def test_a_trap_in_the_place_of_the_file_catches_nothing(tmp_path, console, trap):
    """The daemons' group may write to the directory, and noded logs there as root."""
    prey, path = tmp_path / "prey", tmp_path / "x.log"
    prey.write_text("untouched")
    handler = logs.LogFile(str(path), str(console))
    _Logger(handler).info("first")
    path.unlink()
    if trap == "link":
        path.symlink_to(prey)
    elif trap == "dangling":
        path.symlink_to(tmp_path / "made")
    elif trap == "pipe":
        os.mkfifo(path)
    elif trap == "hard link":
        os.link(prey, path)
    else:
        path.mkdir()
    _Logger(handler).info("second")
    handler.close()
    assert prey.read_text() == "untouched" and not (tmp_path / "made").exists()
    assert "second" in console.read_text(), "a line that cannot be written is not lost"


NOBODY = 65534


def _Give(path, text="his"):
    path.write_text(text)
    path.chmod(0o666)
    os.chown(path, NOBODY, NOBODY)


def test_root_replaces_a_log_that_a_stranger_made_and_says_so(tmp_path, console):
    """After a rotation the first to make the file owns it: he would read and change what root writes."""
    path = tmp_path / "x.log"
    handler = logs.LogFile(str(path), str(console))
    logger = _Logger(handler)
    logger.info("first")
    path.rename(tmp_path / "x.log.1")
    _Give(path)
    with open(path, "rb") as his:
        logger.info("second")
        assert his.read() == b"his", "what he holds open gets nothing"
    lines = path.read_text().splitlines()
    moved = " WARNING The log before this line belonged to user nobody, who could read and change it: it was moved to "
    assert len(lines) == 2 and lines[0].endswith(f"{moved}{path}.foreign")
    assert (tmp_path / "x.log.foreign").read_text() == "his"  # of another release, perhaps
    assert lines[1].endswith("second")
    info = path.stat()
    assert (info.st_uid, info.st_mode & 0o777) == (0, 0o600) and console.read_text() == ""
    handler.close()


_AS_NOBODY = """
import os, sys
from ganeti.daemon import logs
os.setresuid(65534, 65534, 65534)
try:
    logs.OpenForAppending(sys.argv[1])
except OSError as err:
    print(err.strerror)
"""


def test_a_daemons_user_does_not_log_to_a_file_of_another_one(tmp_path):
    path = tmp_path / "log" / "x.log"
    path.parent.mkdir()
    _Give(path)
    os.chown(path, 1, 1)
    # The test's own directory is closed to others.
    code = _AS_NOBODY.replace("sys.argv[1]", "'x.log'").replace("os.setresuid", "os.chdir(sys.argv[1]); os.setresuid")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path.parent)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": TOP},
    )
    assert done.stdout == "belonged to user daemon\n", done.stderr
    assert path.read_text() == "his"


class FullDisk:
    """A directory on a file system of a few pages, in a mount namespace of its own; ``Run`` executes Python there."""

    def __init__(self, place):
        self._place = place
        place.mkdir()

    def Run(self, code):
        mounted = f'mount -t tmpfs -o size=64k none {self._place} && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, "-c", _FULL + code, str(self._place)]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": TOP}, check=False
        )


_FULL = """
import json, logging, os, sys
from ganeti.daemon import logs
place = sys.argv[1]
path = place + "/test.log"
logs.SetUp("ganeti-test", path, console=False)
logging.info("before")
def fill(left):
    with open(place + "/filler", "wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
        except OSError:
            pass
        stream.truncate(os.path.getsize(place + "/filler") - left)
def free():
    os.unlink(place + "/filler")
def show():
    print(json.dumps([open(path).read().splitlines(), logs.Lost()[path]]))
"""


def test_lines_that_a_full_disk_did_not_take_are_counted_in_the_log(tmp_path):
    """A reader of the log learns that something is missing, and the torn line swallows no other one."""
    disk = FullDisk(tmp_path / "log")
    done = disk.Run(
        "fill(0)\n"
        "for number in range(200):\n    logging.info('lost %03d %s', number, 'x' * 60)\n"
        "free()\nlogging.info('after')\nlogging.info('one more')\nshow()"
    )
    assert done.returncode == 0, done.stderr
    lines, lost = json.loads(done.stdout)
    kept = [line for line in lines if re.search(r" INFO lost \d{3} x{60}$", line)]
    assert 100 < lost < 200 and len(kept) + lost == 200
    assert lines[-3].endswith(f" WARNING {lost} lines were not written: No space left on device")
    assert lines[-2].endswith(" INFO after") and lines[-1].endswith(" INFO one more")
    assert lines[-4] not in kept and "WARNING" not in lines[-4], "the one that was torn stands alone"


def test_a_child_does_not_tell_of_its_parents_loss(tmp_path):
    done = FullDisk(tmp_path / "log").Run(
        "fill(0)\nfor number in range(200):\n    logging.info('lost %s', 'x' * 60)\nfree()\n"
        "pid = os.fork()\nif not pid:\n    logging.info('child')\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\nlogging.info('parent')\nshow()"
    )
    lines, _ = json.loads(done.stdout)
    assert [line.rpartition(" ")[2] for line in lines if "not written" in line] == ["device"], lines[-5:]
    assert "not written" in lines[-2] and lines[-1].endswith("parent")


def test_a_program_without_another_place_complains_on_its_terminal(tmp_path):
    done = FullDisk(tmp_path / "log").Run(
        "fill(0)\nfor number in range(200):\n    logging.info('lost %s', 'x' * 60)\nlogs.Complain('ganeti-test')"
    )
    assert re.fullmatch(
        r"ganeti-test: \S+/test.log: 1\d\d lines were not written: No space left on device\n", done.stderr
    )
    assert FullDisk(tmp_path / "other").Run("logs.Complain('ganeti-test')").stderr == ""
