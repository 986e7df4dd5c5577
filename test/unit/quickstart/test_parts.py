"""The parts of tools/quickstart that need no cluster: places, answers of a guest, ramdisks, what belongs to whom."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstart import cluster, console, machine
from quickstart.place import Networks, Place
from quickstart.progress import QuickstartError
from support.programs import Load

TREE = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def launcher() -> ModuleType:
    return Load(TREE / "tools" / "quickstart")


@pytest.fixture(scope="module")
def make_files() -> ModuleType:
    return Load(TREE / "os" / "mini" / "make-files")


def test_place() -> None:
    place = Place("/tmp/gq", 3, "127.201.7")
    assert place.nodes == ["node1", "node2", "node3"]
    assert place.Hosts() == "127.201.7.254 cluster\n127.201.7.1 node1\n127.201.7.2 node2\n127.201.7.3 node3\n"
    assert [place.NodeOf(number) for number in (1, 2, 3, 4)] == ["node1", "node2", "node3", "node1"]
    assert place.Environment("node2", "/bin")["GANETI_ROOTDIR"] == "/tmp/gq/node2"
    assert len(place.bridge) <= 15 and place.bridge != Place("/tmp/gq2", 3, "127.201.7").bridge


@given(st.text(alphabet="/abcgq0123456789", min_size=1, max_size=32))
def test_every_base_has_networks_of_its_own_to_try(base: str) -> None:
    found = Networks(base)
    assert len(set(found)) == 20
    for network in found:
        first, second, third = (int(part) for part in network.split("."))
        assert first == 127 and 200 <= second < 240 and 1 <= third <= 254


def test_taken_network_is_not_used(tmp_path: Path) -> None:
    import socket

    place = machine.FindPlace(str(tmp_path), 1)
    with socket.socket() as taken:
        taken.bind((place.Address("node1"), 1811))
        taken.listen()
        assert machine.FindPlace(str(tmp_path), 1).network != place.network


def test_guest_s_answer_is_found_in_what_the_line_says() -> None:
    boot_id = "9c4fcc50-acf4-4f56-966b-6bedbdf16639"
    noise = b"\x1bc\x1b[?7l" + f"mini a boot-id={boot_id} uptime=1.20\r\n".encode()
    assert console.ParseAnswer(noise) == console.Answer("a", boot_id, 1.2)
    assert console.ParseAnswer(noise + f"mini b boot-id={boot_id} uptime=7.".encode()) == console.Answer(
        "a", boot_id, 1.2
    )
    assert console.ParseAnswer(b"mini a boot-id=x uptime=1") is None
    assert console.SocketOf("env X=1 /w socat i /q STDIO,raw UNIX-CONNECT:/run/i.serial\n") == "/run/i.serial"
    with pytest.raises(QuickstartError, match="does not contain a socket"):
        console.SocketOf("ssh node xm console i")


def test_accelerator_is_what_the_probe_says() -> None:
    place = Place("/tmp/gq", 1, "127.200.1")
    for accel, flag in (("kvm", "enabled"), ("tcg", "disabled")):
        words = cluster.InitCommand(place, "kvm", accel)
        [values] = [word for word in words if word.startswith("kvm:")]
        assert f"kvm_flag={flag}" in values and "kernel_path=," in values
    words = cluster.InitCommand(place, "fake", "")
    assert "kvm:" not in " ".join(words) and words[words.index("--default-iallocator") + 1] == "hail"
    assert machine.BuildProbe(place, "kvm", "/x")[1:3] == ["-accel", "kvm"]


# --- the guest's files ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.binary(max_size=40)), max_size=5))
def test_archive_is_what_the_kernel_reads(make_files: ModuleType, files: list[tuple[str, bytes]]) -> None:
    names = dict(files)
    archive = make_files.Cpio([make_files.Entry(name, 0o100644, data) for name, data in names.items()])
    found: dict[str, bytes] = {}
    stream = io.BytesIO(archive)
    while True:
        head = stream.read(110)
        assert head[:6] == b"070701" and len(archive) % 4 == 0
        size, name_size = int(head[54:62], 16), int(head[94:102], 16)
        name = stream.read(name_size).rstrip(b"\0").decode()
        stream.read(-(110 + name_size) % 4)
        data = stream.read(size)
        stream.read(-size % 4)
        if name == "TRAILER!!!":
            break
        found[name] = data
    assert found == names


def test_package_behind_the_kernel(make_files: ModuleType) -> None:
    text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n"
    assert make_files.ParseDepends(text) == "linux-image-6.1.0-56-cloud-amd64"
    with pytest.raises(make_files.Trouble, match="run apt-get update"):
        make_files.ParseDepends("linux-image-cloud-amd64\n")


# --- the launcher ---------------------------------------------------------------------------------------------------------


def test_only_our_processes_are_ended(launcher: ModuleType, tmp_path: Path) -> None:
    base = str(tmp_path / "gq")
    root = {**os.environ, "GANETI_ROOTDIR": f"{base}/node1"}
    wait = "import sys; sys.stdin.read()"

    def start(argv: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, env=env, stdin=subprocess.PIPE)

    ours = [
        start([sys.executable, "-c", wait, f"{base}/inst/sbin/ganeti-noded"], root),
        start([sys.executable, "-c", wait, f"path={base}/node1/x"], dict(os.environ)),
    ]
    # A checkout may be called as it likes, and so may what is in it.
    python = tmp_path / "ganeti" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    others = [
        start([sys.executable, "-c", wait], root),  # an administrator's shell after --env
        start([str(python), "-c", wait], root),
        start([sys.executable, "-c", wait, f"{base}2/inst/sbin/ganeti-noded"], dict(os.environ)),
    ]
    try:
        assert launcher.EndProcesses(base) == 2
        assert [process.wait(10) for process in ours] == [-15, -15]
        assert [process.poll() for process in others] == [None] * 3
    finally:
        for process in ours + others:
            process.communicate(b"")


def test_foreign_directories_are_not_touched(launcher: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(launcher.Trouble, match="was not made by quickstart"):
        launcher.Stop(str(tmp_path))
    (tmp_path / "quickstart.json").write_text('{"base": "/elsewhere"}')
    with pytest.raises(launcher.Trouble, match="was not written for"):
        launcher.Stop(str(tmp_path))
    (tmp_path / "quickstart.json").write_text("{")
    with pytest.raises(launcher.Trouble, match="could not be read"):
        launcher.Stop(str(tmp_path))
    assert (tmp_path / "precious").exists()


def test_base_is_private(launcher: ModuleType, tmp_path: Path) -> None:
    base = tmp_path / "gq"
    launcher.MakeBase(str(base))
    assert base.stat().st_mode & 0o777 == 0o700
    launcher.MakeBase(str(base))


@pytest.mark.parametrize("prepared", ["by another user", "for everybody", "as a link", "as a file"])
def test_base_that_others_prepared_is_rejected(launcher: ModuleType, tmp_path: Path, prepared: str) -> None:
    base = tmp_path / "gq"
    if prepared == "as a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        base.symlink_to(tmp_path / "elsewhere")
    elif prepared == "as a file":
        base.write_text("")
    else:
        base.mkdir(mode=0o700)
    if prepared == "by another user":
        os.chown(base, 65534, 65534)
    if prepared == "for everybody":
        base.chmod(0o777)
    for act in (launcher.MakeBase, launcher.Stop):
        with pytest.raises(launcher.Trouble, match="choose another --base"):
            act(str(base))


def test_base_in_a_directory_that_others_change_is_rejected(launcher: ModuleType, tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(launcher.Trouble, match="others can rename"):
        launcher.MakeBase(str(open_to_all / "gq"))
    open_to_all.chmod(0o1777)
    launcher.MakeBase(str(open_to_all / "gq"))


def test_only_one_works_in_a_base(launcher: ModuleType, tmp_path: Path) -> None:
    with launcher.Locked(str(tmp_path)):
        with pytest.raises(launcher.Trouble, match="another quickstart is at work"):
            with launcher.Locked(str(tmp_path)):
                pass
    with launcher.Locked(str(tmp_path)):
        pass


def test_cluster_is_removed_only_on_demand(launcher: ModuleType, tmp_path: Path) -> None:
    def options(*argv: str) -> Any:
        return launcher.ParseArguments([*argv, "--base", "/tmp/gq2"])

    def look(state: dict[str, Any], *argv: str) -> None:
        (tmp_path / "quickstart.json").write_text(json.dumps({"base": str(tmp_path), "tree": launcher.TREE, **state}))
        found = options(*argv)
        found.base = str(tmp_path)
        launcher.CheckReplace(found)

    look({})  # the run before this one failed
    with pytest.raises(launcher.Trouble, match=r"(?s)there is a cluster in .*tools/quickstart --replace --base"):
        look({"ready": True})
    with pytest.raises(launcher.Trouble, match="made from /another/tree"):
        look({"ready": True, "tree": "/another/tree"})
    look({"ready": True}, "--replace")


def test_program_counts_whichever_package_brought_it(launcher: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    needed = (("sh", "not-asked-for"), (str(tmp_path / "file"), "not-asked-for-either"), ("no-such-program", "wanted"))
    assert [name for name in launcher.MissingPackages(needed) if name != "python3-venv"] == ["wanted"]


@pytest.fixture
def fake_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose apt-get only writes down its arguments; the first time another program has the lock."""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nif [ ! -e {calls} ]; then echo busy > {calls}; echo "E: Could not get lock /x"; exit 100; fi\n'
        f'echo "$@" >> {calls}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return calls


def test_packages_are_only_added(
    launcher: ModuleType, fake_apt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.InstallPackages((("no-such-program", "wanted"),), str(tmp_path / "log"))
    busy, update, install = fake_apt.read_text().splitlines()
    assert (busy, update) == ("busy", "update -q")
    assert install.startswith("install ") and install.endswith(" wanted") and " --no-remove " in install
    assert "waiting for another program that is installing packages" in capsys.readouterr().out


def test_master_that_moved_is_found(launcher: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {"base": str(tmp_path), "nodes": ["node1", "node2"]}
    (tmp_path / "quickstart.json").write_text(json.dumps(state))
    data = tmp_path / "node1" / "var" / "lib" / "ganeti"
    data.mkdir(parents=True)
    (data / "ssconf_master_node").write_text("node2\n")
    launcher.ShowEnvironment(str(tmp_path))
    assert f"export GANETI_ROOTDIR={tmp_path}/node2\nexport GANETI_HOSTNAME=node2\n" in capsys.readouterr().out


def test_what_is_asked_for_is_checked(launcher: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, words in [
        (["--nodes", "0"], "from 1 to 90"),
        (["--instances", "-1"], "from 0 to 1000"),
        (["--base", "/" + "x" * 40], "at most 32 characters"),
        (["--stop", "--env"], "not allowed with"),
    ]:
        with pytest.raises(SystemExit):
            launcher.ParseArguments(argv)
        assert words in capsys.readouterr().err


def test_failing_program_shows_the_end_of_its_output(launcher: ModuleType, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    with pytest.raises(launcher.Trouble, match=r"exit code 3; .*log ends with:\n(.*\n)*    the reason"):
        launcher.Run(["sh", "-c", "echo the reason; exit 3"], log)
    with pytest.raises(launcher.Trouble, match="could not be started"):
        launcher.Run(["/nowhere/program"], log)


def test_packages_of_python_are_those_of_the_project(launcher: ModuleType) -> None:
    found = launcher.Requirements()
    assert any(line.startswith("docutils==") for line in found), "the manuals need it"
    assert any(line.startswith("qemu.qmp==") for line in found)
    assert any(line.startswith("pyasyncore==") and "3.12" in line for line in found)


def test_a_guest_that_does_not_read_is_asked_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        closed = False

        def sendall(self, data: bytes) -> None:
            raise TimeoutError("timed out")

        def close(self) -> None:
            self.closed = True

    line = Full()
    monkeypatch.setattr("ganeti.runtime.ConnectUnix", lambda path, timeout: line)
    with pytest.raises(QuickstartError, match=r"did not answer on its console within 0\.05 s"):
        console.Ask("/serial", 0.05)
    assert line.closed
