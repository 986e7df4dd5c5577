"""Lines that the log file does not take go to the console, and never disturb the work."""

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
