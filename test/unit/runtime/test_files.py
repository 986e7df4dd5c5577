"""Files, on both sides."""

from __future__ import annotations

import errno
import stat

import pytest
from support.sides import Everywhere, Place

from ganeti import runtime


@Everywhere
def test_a_written_file_is_read_back_with_its_mode(place: Place) -> None:
    path = place.Path("config.data")
    runtime.WriteFile(path, b"one", 0o640)
    assert runtime.ReadFile(path) == b"one"
    assert stat.S_IMODE(runtime.Stat(path).st_mode) == 0o640
    runtime.WriteFile(path, "zwei ä", 0o604)
    assert runtime.ReadText(path) == "zwei ä"
    assert stat.S_IMODE(runtime.Stat(path).st_mode) == 0o604
    assert runtime.Stat(path).st_size == 7
    assert [name for name in runtime.ListDir(place.folder) if name != ".programs"] == ["config.data"]


@Everywhere
def test_many_files_are_written_and_removed_at_once(place: Place) -> None:
    for count in (1, 3, 300):
        _WriteAndRemoveMany(place, count)


def _WriteAndRemoveMany(place: Place, count: int) -> None:
    runtime.MakeDirs(place.Path("a"))
    runtime.MakeDirs(place.Path("b"))
    runtime.WriteFile(place.Path("a/0"), b"before")
    files = [runtime.NewFile(place.Path(f"{'ab'[n % 2]}/{n}"), b"%d" % n, 0o640) for n in range(count)]
    runtime.WriteFiles(files)
    assert [runtime.ReadFile(file.path) for file in files] == [file.data for file in files]
    assert {stat.S_IMODE(runtime.Stat(file.path).st_mode) for file in files} == {0o640}
    assert len(runtime.ListDir(place.Path("a"))) + len(runtime.ListDir(place.Path("b"))) == count
    with pytest.raises(FileNotFoundError):
        runtime.WriteFiles([*files, runtime.NewFile(place.Path("missing/x"), b"")])
    runtime.RemoveFiles([file.path for file in files] + [place.Path("a/nothing")])
    assert runtime.ListDir(place.Path("a")) == runtime.ListDir(place.Path("b")) == [], "no temporary file is left"


@Everywhere
def test_limits_protect_the_reader(place: Place) -> None:
    path = place.Path("large")
    runtime.WriteFile(path, b"x" * 100)
    assert len(runtime.ReadFile(path, limit=100)) == 100
    with pytest.raises(runtime.FileTooLarge) as caught:
        runtime.ReadFile(path, limit=99)
    assert caught.value.errno == errno.EFBIG
    assert path in str(caught.value)
    runtime.WriteFile(path, b"\xff")
    with pytest.raises(ValueError, match="utf-8"):
        runtime.ReadText(path)


@Everywhere
def test_the_end_of_a_file_alone_is_read(place: Place) -> None:
    path = place.Path("log")
    runtime.WriteFile(path, b"0123456789")
    assert [runtime.ReadEnd(path, count) for count in (0, 3, 10, 11)] == [b"", b"789", b"0123456789", b"0123456789"]
    with pytest.raises(FileNotFoundError):
        runtime.ReadEnd(place.Path("missing"), 3)


@Everywhere
def test_errors_name_the_path_and_the_cause(place: Place) -> None:
    missing = place.Path("none/at/all")
    for call in (
        lambda: runtime.ReadFile(missing),
        lambda: runtime.WriteFile(missing, b""),
        lambda: runtime.ListDir(missing),
        lambda: runtime.Stat(missing),
        lambda: runtime.ListStats(missing),
        lambda: runtime.RemoveDir(missing),
        lambda: runtime.ReadLink(missing),
        lambda: runtime.Chmod(missing, 0o600),
        lambda: runtime.Rename(missing, place.Path("there")),
        lambda: runtime.LockFile(missing, timeout=0),
        lambda: runtime.OpenDatabase(missing),
        lambda: runtime.DiskFree(missing),
        lambda: runtime.IsHeld(missing),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert "none/at/" in str(caught.value)
    runtime.RemoveFile(missing)
    runtime.RemoveTree(missing)
    assert not runtime.Exists(missing)
    assert not runtime.IsDir(missing)
    with pytest.raises(IsADirectoryError):
        runtime.ReadFile(place.folder)
    with pytest.raises(ValueError, match="null"):
        runtime.ReadFile(place.Path("a\0b"))


@Everywhere
def test_a_file_in_the_way_is_reported_and_stays(place: Place) -> None:
    path = place.Path("file")
    runtime.WriteFile(path, b"precious")
    with pytest.raises(FileExistsError):
        runtime.MakeDirs(path)
    with pytest.raises(NotADirectoryError):
        runtime.ReadFile(path + "/below")
    with pytest.raises(FileExistsError):
        runtime.CreateFile(path, 10)
    with pytest.raises(FileExistsError):
        runtime.Symlink("elsewhere", path)
    runtime.MakeDirs(place.Path("folder/below"))
    with pytest.raises(OSError, match="folder"):
        runtime.WriteFile(place.Path("folder"), b"")
    with pytest.raises(OSError, match="not empty"):
        runtime.RemoveDir(place.Path("folder"))
    with pytest.raises(IsADirectoryError):
        runtime.RemoveFile(place.Path("folder"))
    assert runtime.ReadFile(path) == b"precious"
    assert runtime.IsDir(place.Path("folder/below"))
    assert [name for name in runtime.ListDir(place.folder) if name.startswith(".folder")] == []


@Everywhere
def test_folders_are_made_with_their_mode_and_removed_with_all(place: Place) -> None:
    runtime.MakeDirs(place.Path("a/b/c"), 0o750)
    for name in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE(runtime.Stat(place.Path(name)).st_mode) == 0o750
    runtime.Chmod(place.Path("a"), 0o700)
    runtime.MakeDirs(place.Path("a/b/d"), 0o755)
    assert stat.S_IMODE(runtime.Stat(place.Path("a")).st_mode) == 0o700
    runtime.WriteFile(place.Path("outside"), b"kept")
    runtime.Symlink(place.Path("outside"), place.Path("a/link"))
    assert runtime.ListDir(place.Path("a")) == ["b", "link"]
    runtime.Symlink(place.Path("nowhere"), place.Path("a/dangling"))
    listed = runtime.ListStats(place.Path("a"))
    assert set(listed) == {"b", "link"}, "what a dangling link leads to has no stat"
    assert stat.S_ISDIR(listed["b"].st_mode)
    assert listed["link"].st_size == len(b"kept"), "links are followed"
    outside = runtime.Stat(place.Path("outside"))
    assert (listed["link"].st_ino, listed["link"].st_mtime_ns) == (outside.st_ino, outside.st_mtime_ns)
    runtime.RemoveTree(place.Path("a"))
    assert not runtime.Exists(place.Path("a"))
    assert runtime.ReadFile(place.Path("outside")) == b"kept"


@Everywhere
def test_renaming_replaces_a_file_and_only_a_file(place: Place) -> None:
    runtime.WriteFile(place.Path("a"), b"a")
    runtime.WriteFile(place.Path("b"), b"b")
    runtime.Rename(place.Path("a"), place.Path("b"))
    assert runtime.ReadFile(place.Path("b")) == b"a"
    assert not runtime.Exists(place.Path("a"))
    runtime.MakeDirs(place.Path("full/below"))
    runtime.MakeDirs(place.Path("empty"))
    with pytest.raises(IsADirectoryError):
        runtime.Rename(place.Path("b"), place.Path("empty"))
    with pytest.raises(OSError, match="not empty"):
        runtime.Rename(place.Path("empty"), place.Path("full"))
    with pytest.raises(OSError, match="Invalid"):
        runtime.Rename(place.Path("full"), place.Path("full/below/inside"))
    runtime.Rename(place.Path("full"), place.Path("empty"))
    assert runtime.ListDir(place.Path("empty")) == ["below"]


@Everywhere
def test_links_lead_to_their_targets(place: Place) -> None:
    runtime.WriteFile(place.Path("target"), b"data", 0o644)
    runtime.Symlink("target", place.Path("link"))
    runtime.Symlink(place.Path("nowhere"), place.Path("dangling"))
    assert runtime.ReadLink(place.Path("link")) == "target"
    assert runtime.ReadFile(place.Path("link")) == b"data"
    assert stat.S_ISLNK(runtime.Stat(place.Path("link"), follow=False).st_mode)
    assert stat.S_ISREG(runtime.Stat(place.Path("link")).st_mode)
    assert not runtime.Exists(place.Path("dangling"))
    assert stat.S_ISLNK(runtime.Stat(place.Path("dangling"), follow=False).st_mode)
    runtime.Symlink("circle", place.Path("circle"))
    with pytest.raises(OSError, match="symbolic links"):
        runtime.ReadFile(place.Path("circle"))
    runtime.RemoveFile(place.Path("link"))
    assert runtime.ReadFile(place.Path("target")) == b"data"
    with pytest.raises(OSError, match="Invalid"):
        runtime.ReadLink(place.Path("target"))


@Everywhere
def test_a_file_of_two_names_stays_as_long_as_it_has_one(place: Place) -> None:
    runtime.WriteFile(place.Path("file"), b"old")
    runtime.HardLink(place.Path("file"), place.Path("kept"))
    assert runtime.Stat(place.Path("file")).st_ino == runtime.Stat(place.Path("kept")).st_ino
    runtime.WriteFile(place.Path("file"), b"new")
    assert (runtime.ReadFile(place.Path("file")), runtime.ReadFile(place.Path("kept"))) == (b"new", b"old")
    with pytest.raises(FileExistsError):
        runtime.HardLink(place.Path("file"), place.Path("kept"))
    with pytest.raises(FileNotFoundError):
        runtime.HardLink(place.Path("missing"), place.Path("other"))
    runtime.MakeDirs(place.Path("folder"))
    with pytest.raises(PermissionError):
        runtime.HardLink(place.Path("folder"), place.Path("other"))
    runtime.Symlink("file", place.Path("link"))
    runtime.HardLink(place.Path("link"), place.Path("other"))
    assert runtime.ReadLink(place.Path("other")) == "file"


@Everywhere
def test_only_a_regular_file_is_read_where_others_put_things(place: Place) -> None:
    runtime.WriteFile(place.Path("file"), b"data")
    assert runtime.ReadRegular(place.Path("file"), 4) == b"data"
    with pytest.raises(runtime.FileTooLarge):
        runtime.ReadRegular(place.Path("file"), 3)
    with pytest.raises(FileNotFoundError):
        runtime.ReadRegular(place.Path("missing"))
    runtime.Symlink("file", place.Path("link"))
    runtime.MakeDirs(place.Path("folder"))
    for name in ("link", "folder"):
        with pytest.raises(OSError, match="It is not a regular file"):
            runtime.ReadRegular(place.Path(name))


@Everywhere
def test_a_folder_is_worked_in_by_its_own_path(place: Place) -> None:
    runtime.MakeDirs(place.Path("a/b"))
    with runtime.HoldFolder(place.Path("a")) as held:
        runtime.WriteFile(f"{held}/file", b"data")
        runtime.MakeDirs(f"{held}/b/c")
        assert runtime.ListDir(held) == ["b", "file"]
        runtime.RemoveTree(f"{held}/b")
    assert runtime.ListDir(place.Path("a")) == ["file"]
    with pytest.raises(FileNotFoundError), runtime.HoldFolder(place.Path("missing")):
        pass
    runtime.Symlink("a", place.Path("link"))
    runtime.MakeDirs(place.Path("a/d"))
    for name in ("link", "link/d", "a/file"):
        with pytest.raises(NotADirectoryError), runtime.HoldFolder(place.Path(name)):
            pass
    with pytest.raises(FileNotFoundError) as caught, runtime.HoldFolder(place.Path("a")) as held:
        runtime.ReadFile(f"{held}/missing")
    assert caught.value.filename == place.Path("a/missing")


@Everywhere
def test_an_image_takes_no_room_until_it_is_written(place: Place) -> None:
    path = place.Path("disk")
    runtime.CreateFile(path, 5 * 1024**3, 0o600)
    assert runtime.Stat(path).st_size == 5 * 1024**3
    assert 0 < runtime.DiskFree(place.folder) <= runtime.DiskSize(place.folder)
    assert not runtime.IsHeld(path)


@Everywhere
def test_a_file_is_extended_and_never_made_smaller(place: Place) -> None:
    path = place.Path("disk")
    runtime.WriteFile(path, b"data")
    for size, content in ((12, b"data" + bytes(8)), (2, b"data" + bytes(8)), (0, b"data" + bytes(8))):
        runtime.Extend(path, size)
        assert runtime.ReadFile(path) == content
    runtime.CreateFile(place.Path("image"), 10)
    runtime.Extend(place.Path("image"), 5 * 1024**3)
    assert runtime.Stat(place.Path("image")).st_size == 5 * 1024**3


@Everywhere
def test_times_are_set_and_read(place: Place) -> None:
    path = place.Path("file")
    before = runtime.Time()
    runtime.WriteFile(path, b"")
    assert abs(runtime.Stat(path).st_mtime - before) < 60
    runtime.Chown(path, -1, -1)
    owner = runtime.Stat(path)
    runtime.Chown(path, owner.st_uid, owner.st_gid)
    assert runtime.Stat(path).st_uid == owner.st_uid
    runtime.SetTimes(path, 1000.0, 2000.0)
    assert runtime.Stat(path).st_mtime == 2000.0


@Everywhere
def test_a_file_lock_keeps_others_out_and_names_the_holder(place: Place) -> None:
    path = place.Path("daemon.pid")
    with runtime.LockFile(path, timeout=0, mode=0o644) as lock:
        lock.Write(b"4711\n")
        assert lock.path == path
        with pytest.raises(runtime.LockBusy) as caught:
            runtime.LockFile(path, timeout=0)
        assert caught.value.holder == 4711
        assert str(caught.value) == f"file {path} is locked by process 4711"
        began = runtime.Monotonic()
        with pytest.raises(runtime.LockBusy):
            runtime.LockFile(path, exclusive=False, timeout=0.12)
        assert 0.1 <= runtime.Monotonic() - began < 10
        lock.Write(b"1\n")
        assert runtime.ReadFile(path) == b"1\n"
    assert stat.S_IMODE(runtime.Stat(path).st_mode) == 0o644
    first = runtime.LockFile(path, exclusive=False, timeout=0)
    second = runtime.LockFile(path, exclusive=False, timeout=0)
    with pytest.raises(runtime.LockBusy):
        runtime.LockFile(path, timeout=0)
    first.release()
    first.release()
    second.release()
    runtime.LockFile(path, timeout=0).release()


@Everywhere
def test_a_waiter_gets_the_file_lock_when_it_is_free(place: Place) -> None:
    path = place.Path("lock")
    held = runtime.LockFile(path)
    got = runtime.Queue()

    def wait(timeout: float | None) -> None:
        with runtime.LockFile(path, timeout=timeout):
            got.put(timeout)

    for timeout in (None, 30.0):
        runtime.Thread(wait, f"waiter {timeout}", (timeout,)).start()
    runtime.Sleep(0.1)
    assert got.qsize() == 0
    held.release()
    assert {got.get(30), got.get(30)} == {None, 30.0}


@Everywhere
def test_a_lock_on_a_removed_file_is_no_lock(place: Place) -> None:
    path = place.Path("lock")
    old = runtime.LockFile(path, timeout=0)
    runtime.RemoveFile(path)
    with runtime.LockFile(path, timeout=0), pytest.raises(runtime.LockBusy):
        runtime.LockFile(path, timeout=0)
    old.release()


@Everywhere
def test_who_waited_for_a_removed_file_locks_the_new_one(place: Place) -> None:
    path = place.Path("lock")
    held = runtime.LockFile(path)
    got, done = runtime.Event(), runtime.Event()

    def wait() -> None:
        with runtime.LockFile(path):
            got.set()
            done.wait()

    thread = runtime.Thread(wait, "waiter")
    thread.start()
    runtime.Sleep(0.1)
    runtime.RemoveFile(path)
    held.release()
    assert got.wait(30)
    with pytest.raises(runtime.LockBusy):
        runtime.LockFile(path, timeout=0)
    done.set()
    thread.join()


@Everywhere
def test_a_watch_sees_replaced_files_and_new_names(place: Place) -> None:
    path, other = place.Path("watched"), place.Path("other")
    runtime.MakeDirs(place.Path("queue"))
    watch = runtime.WatchFiles([path, place.Path("queue")])
    assert watch.wait(0.01) == []
    runtime.WriteFile(other, b"")
    assert watch.wait(0.05) == []
    runtime.WriteFile(path, b"1")
    assert watch.wait(10) == [path]

    def change() -> None:
        runtime.Sleep(0.05)
        runtime.WriteFile(place.Path("queue/job-1"), b"")

    runtime.Thread(change, "changer").start()
    seen: set[str] = set()
    while place.Path("queue/job-1") not in seen:
        found = watch.wait(10)
        assert found
        seen.update(found)
    runtime.RemoveFile(path)
    while path not in watch.wait(10):
        pass
    watch.Close()


@Everywhere
def test_what_is_not_there_cannot_be_watched(place: Place) -> None:
    from ganeti import errors

    with pytest.raises(errors.InotifyError, match="none") as caught:
        runtime.WatchFiles([place.Path("none/file")])
    assert caught.value.hint
