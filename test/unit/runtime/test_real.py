"""What only the real machine can show."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from ganeti import errors, runtime

_ROOT = pathlib.Path(__file__).parents[3]


def _Python(script: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *args],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _Output(script: str, *args: str) -> str:
    process = _Python(script, *args)
    output = process.communicate(timeout=50)[0]
    assert process.returncode == 0
    return output.strip()


def test_nothing_heavy_is_imported_before_it_is_used(tmp_path: pathlib.Path) -> None:
    output = _Output(
        """
        import sys, ganeti.runtime
        heavy = "ssl asyncio sqlite3 pyinotify subprocess logging random uuid socket threading shutil dataclasses queue"
        print([name for name in heavy.split() if name in sys.modules])
        ganeti.runtime.WriteFile(sys.argv[1], b"")
        ganeti.runtime.RemoveFile(sys.argv[1])
        ganeti.runtime.NewUuid(), ganeti.runtime.Time()
        print([name for name in heavy.split() if name in sys.modules])
        """,
        str(tmp_path / "file"),
    )
    assert output == "[]\n[]"


def test_every_function_is_there_on_both_sides() -> None:
    from simulated.side import Side

    from ganeti.runtime import real

    ours = {"ReadText", "NewUuid", "ShellQuote", "UnfinishedName", "EnterSide", "CurrentSide", "DamagedDatabase"}
    public = {name for name, value in vars(runtime).items() if name[0].isupper() and not isinstance(value, (type, int))}
    public -= {"TYPE_CHECKING", "KILL_DELAY"}
    assert public - ours == set(real.FUNCTIONS)
    for name in real.FUNCTIONS:
        assert callable(getattr(real, name)), name
        assert callable(getattr(Side, name, None)), name
    with pytest.raises(AttributeError):
        _ = real.Nonsense


def test_mode_does_not_depend_on_the_umask(tmp_path: pathlib.Path) -> None:
    before = os.umask(0o077)
    try:
        runtime.WriteFile(str(tmp_path / "file"), b"", 0o664)
        runtime.MakeDirs(str(tmp_path / "a/b"), 0o775)
        runtime.CreateFile(str(tmp_path / "image"), 10, 0o660)
        runtime.OpenDatabase(str(tmp_path / "db"), 0o660).Close()
        runtime.ListenUnix(str(tmp_path / "sock"), 0o666).close()
        runtime.LockFile(str(tmp_path / "lock"), mode=0o644).release()
    finally:
        os.umask(before)
    modes = {
        name: stat.S_IMODE((tmp_path / name).stat().st_mode)
        for name in ("file", "a", "a/b", "image", "db", "sock", "lock")
    }
    assert modes == {"file": 0o664, "a": 0o775, "a/b": 0o775, "image": 0o660, "db": 0o660, "sock": 0o666, "lock": 0o644}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_set_before_the_name(tmp_path: pathlib.Path) -> None:
    runtime.WriteFile(str(tmp_path / "file"), b"x", 0o4750, uid=65534, gid=65533)
    found = (tmp_path / "file").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (65534, 65533, 0o4750)


def test_a_failed_write_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        runtime.WriteFile(str(tmp_path / "folder"), b"x")
    with pytest.raises(TypeError):
        runtime.WriteFile(str(tmp_path / "file"), 5)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="symbolic link"):
        (tmp_path / "link").symlink_to("folder")
        runtime.LockFile(str(tmp_path / "link"))
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]


def _SystemCalls(action: Callable[[], Any]) -> list[str]:
    """The calls that matter for durability, in their order."""
    watched = {os.fchown, os.fchmod, os.write, os.fsync, os.rename, os.mkdir, os.unlink, os.ftruncate}
    seen: list[str] = []

    def note(_frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called in watched:
            seen.append(called.__name__)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return seen


def test_a_file_is_on_the_disk_before_it_gets_its_name_and_the_name_before_we_return(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "file")
    assert _SystemCalls(lambda: runtime.WriteFile(path, b"x", uid=os.getuid())) == [
        *("fchown", "fchmod", "write", "fsync", "rename", "fsync")
    ]
    assert _SystemCalls(lambda: runtime.WriteFile(path, b"x", sync=False)) == ["fchmod", "write", "rename"]
    assert _SystemCalls(lambda: runtime.MakeDirs(str(tmp_path / "a/b"))) == ["mkdir", "fsync", "mkdir", "fsync"]
    assert _SystemCalls(lambda: runtime.Rename(path, str(tmp_path / "a/file"))) == ["rename", "fsync", "fsync"]
    assert _SystemCalls(lambda: runtime.RemoveFile(str(tmp_path / "a/file"), sync=True)) == ["unlink", "fsync"]
    image = str(tmp_path / "image")
    assert _SystemCalls(lambda: runtime.CreateFile(image, 5)) == ["fchmod", "ftruncate", "fsync", "fsync"]
    with runtime.LockFile(str(tmp_path / "lock")) as lock:
        assert _SystemCalls(lambda: lock.Write(b"1")) == ["ftruncate", "write", "fsync"]
    assert _SystemCalls(lambda: runtime.OpenDatabase(str(tmp_path / "db")).Close()) == ["fchmod", "fsync"]


def test_several_files_are_on_the_disk_before_any_gets_its_name(tmp_path: pathlib.Path) -> None:
    def write(count: int) -> list[str]:
        files = [runtime.NewFile(str(tmp_path / f"{number}"), b"x%d" % number) for number in range(count)]
        calls = _SystemCalls(lambda: runtime.WriteFiles(files))
        assert [(tmp_path / f"{number}").read_bytes() for number in range(count)] == [b"x%d" % n for n in range(count)]
        assert len(os.listdir(tmp_path)) == count
        return calls

    # The system may write all of them at once; few are open at a time.
    assert write(3) == [*("fchmod", "write") * 3, *["fsync"] * 3, *["rename"] * 3, "fsync"]
    many = write(100)
    assert many.index("rename") > len(many) - 1 - many[::-1].index("write")
    assert many[: many.index("rename")].count("fsync") == 100
    assert (
        max(map(len, "".join("w" if call == "write" else " " for call in many if call in ("write", "fsync")).split()))
        == 32
    )


def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    assert runtime.ReadFile("/proc/self/status", 1 << 20).startswith(b"Name:")
    with pytest.raises(runtime.FileTooLarge):
        runtime.ReadFile("/proc/self/status", 10)


def test_a_lock_ends_with_its_process(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lock")
    holder = _Python(
        """
        import sys
        from ganeti import runtime
        lock = runtime.LockFile(sys.argv[1])
        lock.Write(b"%d" % runtime.ProcessId())
        print("locked", flush=True)
        sys.stdin.read()
        """,
        path,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(runtime.LockBusy) as caught:
        runtime.LockFile(path, timeout=0)
    assert caught.value.holder == holder.pid
    holder.kill()
    holder.communicate()
    runtime.LockFile(path, timeout=30).release()


def test_a_thread_that_fails_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise KeyError("lost")

    thread = runtime.Thread(fail, "committer")
    thread.start()
    thread.join()
    assert "committer" in caplog.text
    assert "KeyError: 'lost'" in caplog.text
    caplog.clear()
    thread = runtime.Thread(sys.exit, "leaver")
    thread.start()
    thread.join()
    assert caplog.records == []


# Programs


def test_output_beyond_the_limit_is_dropped_and_the_rest_is_lenient() -> None:
    result = runtime.RunCmd(["sh", "-c", "head -c 11000000 /dev/zero; printf '\\377end' >&2"])
    assert not result.failed
    assert result.truncated
    assert len(result.stdout) == runtime.OUTPUT_LIMIT
    assert result.stderr == "�end"


def test_a_program_that_reads_nothing_does_not_hang_us() -> None:
    result = runtime.RunCmd(["sh", "-c", "exec <&-; echo closed"], stdin=b"x" * 5_000_000)
    assert result.stdout == "closed\n"


def test_large_data_flows_in_both_directions() -> None:
    data = bytes(range(32, 127)) * 20000
    assert runtime.RunCmd(["cat"], stdin=data).stdout.encode() == data


def test_a_child_left_behind_with_the_output_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    result = runtime.RunCmd(["sh", "-c", f"sleep 300 & echo $! > {pid_file}; echo started"])
    assert result.stdout == "started\n"
    assert time.monotonic() - began < 20
    pid = int(pid_file.read_text())
    assert runtime.ProcessAlive(pid)
    os.kill(pid, signal.SIGKILL)


def test_who_ignores_the_polite_signal_is_killed_with_its_children(tmp_path: pathlib.Path) -> None:
    pid_file = tmp_path / "pid"
    script = (
        f"trap '' TERM; sh -c \"trap '' TERM; echo \\$\\$ > {pid_file}; while :; do sleep 1; done\" & wait; wait; wait"
    )
    result = runtime.RunCmd(["sh", "-c", script], timeout=2)
    assert result.failed
    assert result.signal == signal.SIGKILL
    assert "2 seconds" in result.fail_reason
    assert runtime.WaitProcess(int(pid_file.read_text()), 20)


def test_a_child_that_ignores_the_end_of_its_parent_is_killed_too(tmp_path: pathlib.Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sh -c \"trap '' TERM; echo \\$\\$ > {pid_file}; while :; do sleep 1; done\" & wait"
    result = runtime.RunCmd(["sh", "-c", script], timeout=2)
    assert result.signal == signal.SIGTERM
    assert runtime.WaitProcess(int(pid_file.read_text()), 20)


def test_a_program_that_cannot_be_killed_is_left_behind(tmp_path: pathlib.Path) -> None:
    """As one that waits in the kernel for a disk; this one is held by a tracer when it is about to end."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    tracer = _Python(
        """
        import ctypes, sys
        with open(sys.argv[1]) as stream:
            pid = int(stream.read())
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize, stops_at_its_end = 0x4206, 0x40
        print(pid, ptrace(seize, pid, None, stops_at_its_end), flush=True)
        sys.stdin.read()
        """,
        str(pipe),
    )
    assert tracer.stdin is not None and tracer.stdout is not None
    began = time.monotonic()
    result = runtime.RunCmd(["sh", "-c", f"echo $$ > {pipe}; exec sleep 300"], timeout=2)
    took = time.monotonic() - began
    pid, seized = map(int, tracer.stdout.readline().split())
    assert seized == 0 and runtime.ProcessAlive(pid)
    tracer.communicate("", timeout=20)
    assert result.failed and result.exit_code is None and took < 40
    assert "did not end within 2 seconds, and cannot be killed: it waits in the kernel" in result.fail_reason
    assert runtime.WaitProcess(pid, 20)
    runtime.RunCmd(["true"])
    assert not os.path.exists(f"/proc/{pid}"), "it has been collected"


def test_a_program_inherits_nothing_but_its_streams(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "secret", "w") as stream:
        os.set_inheritable(stream.fileno(), True)
        listed = runtime.RunCmd(["sh", "-c", "ls /proc/self/fd"]).stdout.split()
        assert set(listed) <= {"0", "1", "2", "3"}  # 3: ls reads the folder
        handle = str(stream.fileno())
        assert handle in runtime.RunCmd(["ls", "/proc/self/fd"], pass_fds=[stream.fileno()]).stdout.split()
    session = runtime.RunCmd(["sh", "-c", "cut -d' ' -f1,6 /proc/$$/stat"]).stdout.split()
    assert session[0] == session[1] != str(os.getsid(0))
    assert runtime.RunCmd(["sh", "-c", "umask"], umask=0o027).stdout.strip() == "0027"
    assert runtime.RunCmd(["pwd"], cwd=str(tmp_path)).stdout.strip() == str(tmp_path)
    assert runtime.RunCmd(["sh", "-c", "kill -9 $$"]).fail_reason.endswith("ended by signal 9")


def test_a_program_that_is_left_behind_keeps_the_lock_that_it_was_given(tmp_path: pathlib.Path) -> None:
    """What it works on is not free before it has ended, even if whoever ran it has given up."""
    path, pipe = str(tmp_path / "lock"), str(tmp_path / "pipe")
    os.mkfifo(pipe)
    lock = runtime.LockFile(path)
    # In a session of its own, as no signal reaches one that waits in the kernel.
    result = runtime.RunCmd(["sh", "-c", f"setsid cat {pipe} & sleep 300"], timeout=1, lock=lock)
    assert result.failed and "1 seconds" in result.fail_reason
    lock.release()
    with pytest.raises(runtime.LockBusy):
        runtime.LockFile(path, timeout=0)
    with open(pipe, "w"):
        pass
    runtime.LockFile(path, timeout=30).release()


def test_a_lock_that_no_program_was_given_is_free_at_once(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "lock")
    lock = runtime.LockFile(path)
    pid = runtime.RunCmd(["sh", "-c", "sleep 300 & echo $!"]).stdout
    lock.release()
    runtime.LockFile(path, timeout=0).release()
    os.kill(int(pid), signal.SIGKILL)


def test_an_environment_that_no_program_can_have() -> None:
    result = runtime.RunCmd(["/bin/true"], env={"GATEWAY": "fe80::1\0"})
    assert result.failed and "embedded null byte" in result.fail_reason
    with pytest.raises(errors.RunCmdError, match="embedded null byte"):
        runtime.StartProcess(["/bin/true"], env={"GATEWAY": "fe80::1\0"})


def test_a_program_that_cannot_be_run_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plain").write_text("no program")
    result = runtime.RunCmd([str(tmp_path / "plain")])
    assert result.exit_code == 126
    assert "Permission denied" in result.fail_reason


def test_a_started_process_is_no_zombie_and_has_its_own_session() -> None:
    pid = runtime.StartProcess(["sleep", "300"])
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)
    assert runtime.WaitProcess(pid, 20)
    assert not os.path.exists(f"/proc/{pid}")


def test_only_a_process_with_one_thread_may_fork() -> None:
    output = _Output("""
        import os
        from ganeti import errors, runtime
        first = runtime.Random().random()
        pid = runtime.Fork()
        if pid == 0:
            os._exit(0 if runtime.Random().random() != first else 1)
        print(os.waitpid(pid, 0)[1])
        stop = runtime.Event()
        runtime.Thread(stop.wait, "committer").start()
        try:
            runtime.Fork()
        except errors.ProgrammerError as err:
            print(err)
    """)
    assert output.startswith("0\n")
    assert "committer" in output


# Databases


def test_the_database_is_as_durable_as_promised(tmp_path: pathlib.Path) -> None:
    database = runtime.OpenDatabase(str(tmp_path / "db"))
    with database.Transaction():
        assert database.Query("PRAGMA journal_mode") == [("wal",)]
        assert database.Query("PRAGMA synchronous") == [(2,)]
        database.Execute("CREATE TABLE t (a)")
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}
    assert sorted(os.listdir(tmp_path)) == ["db", "db-shm", "db-wal"]
    database.Close()
    assert os.listdir(tmp_path) == ["db"]


def test_a_killed_process_loses_its_open_transaction_only(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "db")
    writer = _Python(
        """
        import sys
        from ganeti import runtime
        database = runtime.OpenDatabase(sys.argv[1])
        with database.Transaction():
            database.Execute("CREATE TABLE t (a)")
            database.Execute("INSERT INTO t VALUES ('committed')")
        with database.Transaction():
            database.ExecuteMany("INSERT INTO t VALUES (?)", [("open" * 1000,)] * 5000)
            print("inside", flush=True)
            sys.stdin.read()
        """,
        path,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "inside\n"
    database = runtime.OpenDatabase(path)
    assert database.Query("SELECT * FROM t") == [("committed",)]
    writer.kill()
    writer.communicate()
    with database.Transaction():
        database.Execute("INSERT INTO t VALUES ('later')")
    assert database.Query("SELECT * FROM t") == [("committed",), ("later",)]
    database.Close()


def test_a_forked_child_cannot_harm_its_parents_database(tmp_path: pathlib.Path) -> None:
    output = _Output(
        """
        import os, sys
        from ganeti import errors, runtime
        database = runtime.OpenDatabase(sys.argv[1])
        with database.Transaction():
            database.Execute("CREATE TABLE t (a)")
        pid = runtime.Fork()
        if pid == 0:
            for use in (lambda: database.Query("SELECT 1"), lambda: database.Transaction().__enter__()):
                try:
                    use()
                except errors.ProgrammerError as err:
                    print(err)
            database.Close()
            del database
            sys.stdout.flush()
            sys.exit(0)  # with all of the interpreter's tidying up
        os.waitpid(pid, 0)
        with database.Transaction():
            database.Execute("INSERT INTO t VALUES (1)")
        print(database.Query("SELECT * FROM t"), sorted(os.listdir(os.path.dirname(sys.argv[1]))))
        """,
        str(tmp_path / "db"),
    )
    lines = output.splitlines()
    assert len(lines) == 3
    assert "before a fork" in lines[0]
    assert lines[0] == lines[1]
    assert lines[2] == "[(1,)] ['db', 'db-shm', 'db-wal']"


def test_a_full_disk_is_a_system_error_and_the_database_goes_on(tmp_path: pathlib.Path) -> None:
    database = runtime.OpenDatabase(str(tmp_path / "db"))
    with database.Transaction():
        database.Execute("CREATE TABLE t (a)")
        database.Query("PRAGMA max_page_count = 10")
    with pytest.raises(OSError, match="No space") as caught, database.Transaction():
        database.ExecuteMany("INSERT INTO t VALUES (?)", [(b"x" * 4000,)] * 20)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "db")
    with database.Transaction():
        database.Execute("INSERT INTO t VALUES (1)")
    assert database.Query("SELECT * FROM t") == [(1,)]
    database.Close()


def test_damage_found_later_is_reported_as_damage(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "db"
    database = runtime.OpenDatabase(str(path))
    with database.Transaction():
        database.Execute("CREATE TABLE t (a)")
        database.ExecuteMany("INSERT INTO t VALUES (?)", [(b"x" * 4000,)] * 20)
    database.Close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xee" * (len(data) - 4096)
    path.write_bytes(data)
    database = runtime.OpenDatabase(str(path))
    with pytest.raises(errors.StorageError, match=f"database {path} is damaged"):
        database.Query("SELECT * FROM t")
    database.Close()


# Sockets


def test_a_path_too_long_for_a_socket_is_named(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / ("x" * 120))
    for call in (runtime.ListenUnix, runtime.ConnectUnix):
        with pytest.raises(OSError, match="106 bytes") as caught:
            call(path)
        assert caught.value.filename == path


def test_a_socket_takes_the_place_of_a_dead_daemons_one(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "sock")
    runtime.ListenUnix(path).close()
    listener = runtime.ListenUnix(path)
    assert os.listdir(tmp_path) == ["sock"]
    runtime.ConnectUnix(path, 5).close()
    listener.close()


_FIRST_THREAD_ENDS = """
    import ctypes, os, sys, threading
    threading.Thread(target=sys.stdin.read).start()
    print("ready", flush=True)
    # exit of this thread alone
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


def test_a_process_lives_as_long_as_any_of_its_threads() -> None:
    """A QEMU that is killed under load: its first thread is a zombie while another one still has the disk open."""
    process = _Python(_FIRST_THREAD_ENDS)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 20
    while b") Z " not in pathlib.Path(f"/proc/{process.pid}/stat").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert runtime.ProcessAlive(process.pid)
    assert not runtime.WaitProcess(process.pid, 0.1)
    process.kill()
    assert runtime.WaitProcess(process.pid, 20)
    process.communicate(timeout=20)


def test_a_program_at_the_terminal_gives_its_exit_code() -> None:
    assert runtime.RunInteractive(["sh", "-c", "exit 3"]) == 3
    assert runtime.RunInteractive(["sh", "-c", "kill -TERM $$"]) == 128 + 15
    assert runtime.RunInteractive(["/nowhere/program"]) == 127
    assert runtime.RunInteractive(["sh", "-c", 'test "$(cat)" = words'], stdin="words") == 0
    assert runtime.RunInteractive(["sh", "-c", "exec <&-; exit 4"], stdin="w" * 1000000) == 4


def test_the_lines_of_a_program_at_the_terminal_can_be_looked_at_first() -> None:
    lines: list[str] = []
    flood = "yes 0123456789 | head -n 20000; printf '\\033[2Jno end' >&2; cat >/dev/null; exit 5"
    assert runtime.RunInteractive(["sh", "-c", flood], stdin="w" * 1000000, show=lines.append) == 5
    assert len(lines) == 20001 and lines[-1] == "\x1b[2Jno end"
    assert runtime.RunInteractive(["/nowhere/program"], show=lines.append) == 127
    # What it leaves behind with its streams is not waited for.
    lines.clear()
    assert runtime.RunInteractive(["sh", "-c", "echo here; sleep 100 & echo $!"], show=lines.append) == 0
    assert lines[0] == "here"
    runtime.KillProcess(int(lines[1]), signal.SIGKILL)
