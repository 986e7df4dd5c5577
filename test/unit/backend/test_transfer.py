"""Disks sent from one node to another by the node's own procedures, with the real program, processes and connections."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.allocator import Lease
from support.nodes import Node
from support.realcluster import WaitUntil
from support.realtransfers import Pem
from support.virtual import MakeDisk, MakeInstance
from support.virtualnode import TOP

from ganeti import backend, errors, objects, pathutils, runtime, serializer
from ganeti.backend import exports, transfer
from ganeti.rpc.answers import Fits
from ganeti.rpc.encoders import Body
from ganeti.rpc.procedures import PROCEDURES
from ganeti.storage import tree

MIB = 1 << 20
_PROGRAM = f"#!{sys.executable}\nimport sys\nsys.path[:1] = [{TOP!r}]\nfrom ganeti.tools.import_export import Main\nsys.exit(Main())\n"
OPTIONS: dict[str, Any] = {"key_name": None, "ca_pem": None, "compress": "none", "magic": "magic", "ipv6": False, "connect_timeout": 30}  # fmt: skip


class TransferNode(Node):
    """A node with one disk, an operating system, and the program."""

    def __init__(self, base: Path, name: str, address: str):
        super().__init__(base, name, [base / "os"])
        self.address = address
        self.disk = MakeDisk("file", ["loop", f"{self.root}/disks/d0"])
        self.instance = MakeInstance(disks=[self.disk], os="tiny", hypervisor="kvm")
        program = base / "import-export"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        self.program = str(program)
        with self:
            Path(pathutils.NODED_CERT_FILE).write_text(Pem())
            Path(f"{self.root}/disks").mkdir()
            with open(pathutils.ETC_HOSTS, "a") as stream:
                stream.write(f"{address} {name}\n")
        self.AllowFileStorage(f"{self.root}/disks")
        with self:
            tree.Create(self.disk, 8, self.instance.name, True)

    def __enter__(self) -> TransferNode:
        super().__enter__()
        pathutils.IMPORT_EXPORT_DAEMON = self.program
        return self

    def Call(self, procedure: str, *args: Any) -> Any:
        """One call, whose answer must have the shape that the master expects."""
        with self:
            # What really travels.
            sent = serializer.Load(Body(PROCEDURES[procedure], args, None).For(self.name, "").data)
            payload = backend.Handlers()[procedure](*sent)
        assert Fits(procedure, payload)
        return payload

    def Import(self, dest: tuple[str, Any], component: str = "disk0", **options: Any) -> str:
        opts = {**OPTIONS, "bind": self.address, **options}
        return str(self.Call("import_start", opts, self.instance.ToDict(runtime=True), component, dest))

    def Export(self, source: tuple[str, Any], host: str, port: int, component: str = "disk0", **options: Any) -> str:
        opts = {**OPTIONS, **options}
        return str(self.Call("export_start", opts, host, port, self.instance.ToDict(runtime=True), component, source))

    def Status(self, name: str) -> dict[str, Any]:
        [found] = self.Call("impexp_status", [name])
        return dict(found)

    def Port(self, name: str) -> int:
        return int(WaitUntil(lambda: self.Status(name)["listen_port"], "it listens"))

    def End(self, name: str) -> dict[str, Any]:
        """The last status."""
        WaitUntil(lambda: self.Status(name)["exit_status"] is not None, "it has ended")
        return self.Status(name)

    def Directory(self, name: str) -> Path:
        return Path(f"{self.root}/var/run/ganeti/import-export/{name}")

    def Holder(self, name: str) -> int:
        return int((self.Directory(name) / "pid").read_text())

    def Logs(self, kind: str) -> str:
        return "".join(
            path.read_text()
            for path in Path(f"{self.root}/var/log/ganeti/os").glob(f"{kind}-tiny-guest.example.com-disk*")
        )

    @property
    def disk_file(self) -> Path:
        return Path(self.disk.logical_id[1])

    def Exported(self, name: str) -> Path:
        """A file below the directory of exports, as it is called here."""
        with self:
            return Path(pathutils.EXPORT_DIR) / name


class Pair:
    """A source node and a target node."""

    def __init__(self, base: Path, lease: Lease):
        self.base = base
        self.source = TransferNode(base, "one", lease.Address())
        self.target = TransferNode(base, "two", lease.Address())
        self.os = base / "os" / "tiny"
        self.os.mkdir(parents=True)
        (self.os / "ganeti_api_version").write_text("20\n")
        (self.os / "variants.list").write_text("")
        (self.os / "parameters.list").write_text("")
        for name in ("create", "import", "export", "rename", "verify"):
            self.Script(name, "exit 0\n")

    def Script(self, name: str, text: str) -> None:
        (self.os / name).write_text(f"#!/bin/bash\n{text}")
        (self.os / name).chmod(0o755)

    def Send(
        self, source: tuple[str, Any], dest: tuple[str, Any], **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Carry a transfer out and clean up; return both last statuses."""
        receiver = self.target.Import(dest, **options)
        sender = self.source.Export(source, self.target.address, self.target.Port(receiver), **options)
        ends = self.source.End(sender), self.target.End(receiver)
        self.CleanUp(sender, receiver)
        assert not self.source.Directory(sender).exists() and not self.target.Directory(receiver).exists()
        return ends

    def CleanUp(self, sender: str, receiver: str) -> None:
        self.source.Call("impexp_cleanup", sender)
        self.target.Call("impexp_cleanup", receiver)

    def CheckSent(self, source: tuple[str, Any], dest: tuple[str, Any], **options: Any) -> None:
        ends = self.Send(source, dest, **options)
        assert [end["error_message"] for end in ends] == [None, None]
        assert [end["exit_status"] for end in ends] == [0, 0]


def Raw(disk: objects.Disk) -> tuple[str, Any]:
    return "raw", (disk.ToDict(runtime=True), None)


def Script(disk: objects.Disk, index: int = 0) -> tuple[str, Any]:
    return "script", ((disk.ToDict(runtime=True), None), index)


def File(path: Path) -> tuple[str, Any]:
    return "file", str(path)


@pytest.fixture
def pair(tmp_path: Path, addresses: Lease) -> Iterator[Pair]:
    made = Pair(tmp_path, addresses)
    before = os.umask(0o077)  # as the node daemon's
    yield made
    os.umask(before)
    left = [pid for pid in _Processes(str(tmp_path)) if not runtime.WaitProcess(pid, 3)]
    for pid in left:
        runtime.KillProcess(pid, signal.SIGKILL)
    assert left == []


def _Processes(mark: str) -> list[int]:
    """Those that have this text in their command line: scripts get no environment by which they could be known."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            pass  # it has ended
    return found


# --- what is read and written -----------------------------------------------------------------------------------------


@pytest.mark.req("D22-MOVE-01", "D22-MOVE-04", "D22-MOVE-25", "D20-OS-20")
@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_a_whole_disk(pair: Pair, compress: str) -> None:
    content = os.urandom(8 * MIB)
    pair.source.disk_file.write_bytes(content)
    ends = pair.Send(Raw(pair.source.disk), Raw(pair.target.disk), compress=compress)
    assert [(end["exit_status"], end["progress_percent"], end["progress_mbytes"]) for end in ends] == [(0, 100, 8)] * 2
    assert pair.target.disk_file.read_bytes() == content


@pytest.mark.req("D20-OS-20")
def test_a_whole_disk_where_the_cache_cannot_be_passed_by(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no direct access (EINVAL when such a file is opened)."""
    tools = pair.base / "bin"
    tools.mkdir()
    (tools / "dd").write_text(
        "#!/bin/sh\nfor word; do case $word in ?flag=direct*)"
        " echo \"dd: failed to open 'x': Invalid argument\" >&2; exit 1;; esac; done\n"
        f'echo "$@" >> {pair.base}/calls\nexec /usr/bin/dd "$@"\n'
    )
    (tools / "dd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    content = os.urandom(8 * MIB)
    pair.source.disk_file.write_bytes(content)
    pair.CheckSent(Raw(pair.source.disk), Raw(pair.target.disk))
    assert pair.target.disk_file.read_bytes() == content
    calls = (pair.base / "calls").read_text()
    assert "oflag=dsync" in calls and "fsync" in calls


@pytest.mark.req("D22-MOVE-25")
@pytest.mark.parametrize("content", [b"", b"dump" * (3 * MIB // 4)])
def test_an_export_and_its_import(pair: Pair, content: bytes) -> None:
    """A disk becomes a file on another node, and a disk again; the master's path is that of the node it speaks to."""
    pair.Script("export", f"cat {pair.base}/guest\n")
    pair.Script("import", f"cat > {pair.base}/restored\n")
    (pair.base / "guest").write_bytes(content)
    dump = pair.target.Exported("guest.example.com.new/disk0")
    with pair.target:
        pair.CheckSent(Script(pair.source.disk), File(dump))
        assert dump.read_bytes() == content
        assert stat.S_IMODE(dump.parent.stat().st_mode) == 0o750 and dump.stat().st_mode & 0o077 == 0
    pair.source, pair.target = pair.target, pair.source
    with pair.source:
        name = pair.target.Import(Script(pair.target.disk))
        sender = pair.source.Export(File(dump), pair.target.address, pair.target.Port(name))
        assert pair.source.End(sender)["progress_percent"] == (100 if content else None)
        assert pair.target.End(name)["exit_status"] == 0
        pair.source.Call("impexp_cleanup", sender)
        pair.target.Call("impexp_cleanup", name)
    assert (pair.base / "restored").read_bytes() == content


@pytest.mark.req("D20-OS-07", "D20-OS-13", "D20-OS-16", "D22-MOVE-02", "D22-MOVE-03", "D22-MOVE-12")
def test_scripts_of_the_operating_system(pair: Pair) -> None:
    """Each is called once for each disk, and the messages of a script are not taken for its data."""
    show = 'echo "$0 index $EXPORT_INDEX$IMPORT_INDEX device $EXPORT_DEVICE$IMPORT_DEVICE in $PWD umask $(umask)" >&2\n'
    pair.Script("export", f'{show}echo 18 >&$EXP_SIZE_FD\nhead -c 9 "$EXPORT_DEVICE"\n')
    pair.Script("import", f'{show}cat > "$IMPORT_DEVICE"\n')
    pairs = []
    for number in range(2):
        snapshot = MakeDisk("file", ["loop", f"{pair.source.root}/disks/snap{number}"])
        disk = MakeDisk("file", ["loop", f"{pair.target.root}/disks/new{number}"])
        for node, made in ((pair.source, snapshot), (pair.target, disk)):
            with node:
                tree.Create(made, 4, "guest", True)
        Path(snapshot.logical_id[1]).write_bytes(f"content {number} and more".encode())
        pairs.append((snapshot, disk))
    names = [
        pair.target.Import(Script(disk, number), f"disk{number}", compress="gzip")
        for number, (_, disk) in enumerate(pairs)
    ]
    senders = [
        pair.source.Export(
            Script(snapshot, number), pair.target.address, pair.target.Port(name), f"disk{number}", compress="gzip"
        )
        for number, ((snapshot, _), name) in enumerate(zip(pairs, names, strict=True))
    ]
    ends = [pair.source.End(name) for name in senders]
    assert [(end["exit_status"], end["progress_percent"]) for end in ends] == [(0, 50)] * 2
    for number, (snapshot, disk) in enumerate(pairs):
        assert pair.target.End(names[number])["exit_status"] == 0
        assert Path(disk.logical_id[1]).read_bytes().rstrip(b"\0") == f"content {number}".encode()
        for node, name, kind, used in (
            (pair.source, senders[number], "export", snapshot),
            (pair.target, names[number], "import", disk),
        ):
            said = f"{pair.os}/{kind} index {number} device {used.logical_id[1]} in {pair.os} umask 0022"
            assert node.Status(name)["recent_output"] == [said]
            assert node.Logs(kind).count(said) == 1
            node.Call("impexp_cleanup", name)


def test_a_script_sees_the_environment_of_scripts_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "1")
    pair.Script("export", "env\n")
    pair.Script("import", f"cat > {pair.base}/seen; env >> {pair.base}/seen\n")
    pair.CheckSent(Script(pair.source.disk), Script(pair.target.disk))
    seen = (pair.base / "seen").read_text()
    assert "SECRET" not in seen and seen.count("INSTANCE_NAME=guest.example.com\n") == 2
    assert f"EXPORT_DEVICE={pair.source.disk_file}" in seen and f"IMPORT_DEVICE={pair.target.disk_file}" in seen


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_script_that_fails(pair: Pair, side: str) -> None:
    pair.Script("export", "echo data\n" if side == "target" else "echo data; echo 'no such volume' >&2; exit 5\n")
    pair.Script("import", "cat\n" if side == "source" else "cat >/dev/null; echo 'no such volume' >&2; exit 5\n")
    ends = dict(zip(("source", "target"), pair.Send(Script(pair.source.disk), Script(pair.target.disk)), strict=True))
    assert [end["exit_status"] for end in ends.values()] == [1, 1]
    assert "exit code 5 (no such volume)" in ends[side]["error_message"]


def test_a_disk_that_is_smaller_than_its_source_does_not_grow(pair: Pair) -> None:
    """One that is a file would grow and fill its file system."""
    large = pair.source.Exported("x/large")
    large.parent.mkdir(parents=True)
    large.write_bytes(b"x" * 10 * MIB)
    pair.Send(File(large), Raw(pair.target.disk))
    assert pair.target.disk_file.stat().st_size == 8 * MIB


def test_a_script_has_not_ended_well_before_its_disk_is_on_stable_storage(pair: Pair) -> None:
    """The source may be removed then.  A disk that has gone can no longer be waited for."""
    pair.Script("export", "echo data\n")
    pair.Script("import", 'cat >/dev/null; rm "$IMPORT_DEVICE"\n')
    _, end = pair.Send(Script(pair.source.disk), Script(pair.target.disk))
    assert end["exit_status"] == 1 and "No such file" in end["error_message"]


# --- who may read and write -------------------------------------------------------------------------------------------


def _OwnKeys(pair: Pair) -> tuple[dict[str, str], dict[str, str]]:
    keys = [node.Call("x509_cert_create", 3600) for node in (pair.source, pair.target)]
    options = [{"key_name": own[0], "ca_pem": other[1]} for own, other in (keys, keys[::-1])]
    return options[0], options[1]


@pytest.mark.req("D22-MOVE-12")
def test_keys_of_ones_own(pair: Pair) -> None:
    """As between clusters: each side knows the other's certificate only."""
    mine, other = _OwnKeys(pair)
    pair.source.disk_file.write_bytes(b"x" * 8 * MIB)
    receiver = pair.target.Import(Raw(pair.target.disk), **other)
    assert stat.S_IMODE((pair.target.Directory(receiver) / "ca").stat().st_mode) == 0o400
    stranger = pair.source.Export(Raw(pair.source.disk), pair.target.address, pair.target.Port(receiver))
    assert "certificate" in pair.source.End(stranger)["error_message"]
    sender = pair.source.Export(Raw(pair.source.disk), pair.target.address, pair.target.Port(receiver), **mine)
    assert pair.source.End(sender)["exit_status"] == 0 and pair.target.End(receiver)["exit_status"] == 0
    assert pair.target.disk_file.read_bytes() == b"x" * 8 * MIB
    for node, name in ((pair.source, stranger), (pair.source, sender), (pair.target, receiver)):
        node.Call("impexp_cleanup", name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key_name": "x509-2026-a"}, "both a key and the other side's certificate"),
        ({"ca_pem": "x"}, "both a key and the other side's certificate"),
        ({"key_name": "../x509-1", "ca_pem": "x"}, "not a valid certificate name"),
        ({"key_name": "x509-1", "ca_pem": "nonsense"}, "certificate of the other side"),
        ({"key_name": "x509-1", "ca_pem": Pem}, "Key x509-1 is not on this node any longer.*begin the move again"),
        ({"compress": "gzip; rm -rf /"}, "not the name of a compression program"),
        ({"compress": "/bin/gzip"}, "not the name of a compression program"),
        ({"compress": "-x"}, "not the name of a compression program"),
        ({"compress": 5}, "'compress': expected"),
        ({"magic": "x"}, "needs 5 to 100 characters"),
        ({"magic": "'; reboot"}, "needs 5 to 100 characters"),
        ({"ipv6": "yes"}, "'ipv6': expected"),
        ({"connect_timeout": 0}, "'connect_timeout': expected"),
        ({"connect_timeout": 1.5}, "'connect_timeout': expected"),
        ({"bind": "localhost"}, "'localhost' is not an IPv4 address"),
        ({"bind": "::1"}, "'::1' is not an IPv4 address"),
        ({"verbose": True}, "unknown key 'verbose'"),
    ],
)
def test_options_that_make_no_sense(pair: Pair, options: dict[str, Any], words: str) -> None:
    sent = {key: value("") if callable(value) else value for key, value in options.items()}
    with pytest.raises(errors.GenericError, match=words):
        pair.target.Import(Raw(pair.target.disk), **sent)
    with pair.target:
        assert not os.path.exists(pathutils.IMPORT_EXPORT_DIR) or os.listdir(pathutils.IMPORT_EXPORT_DIR) == []


def test_a_node_without_the_certificate_of_the_cluster(pair: Pair) -> None:
    with pair.target:
        os.unlink(pathutils.NODED_CERT_FILE)
    words = "server.pem, the certificate of the cluster, is missing on this node: set it up again with 'gnt-node add"
    with pytest.raises(errors.RpcCallError, match=words):
        pair.target.Import(Raw(pair.target.disk))


@pytest.mark.parametrize("host", ["node2", "--ca=/etc/passwd", "::1", "127.0.0.1,x", ""])
def test_an_export_goes_to_an_address(pair: Pair, host: str) -> None:
    with pytest.raises(errors.RpcCallError, match="is not an IPv4 address"):
        pair.source.Export(Raw(pair.source.disk), host, 5)


@pytest.mark.parametrize("component", ["disk/0", "..", "-x", "a b", "", "x" * 101, "a\nb"])
def test_a_component_has_a_plain_name(pair: Pair, component: str) -> None:
    with pytest.raises(errors.RpcCallError, match="is not a valid component name: letters, digits"):
        pair.target.Import(Raw(pair.target.disk), component)


def test_files_lie_below_the_directory_of_exports(pair: Pair) -> None:
    top = pair.target.Exported("")
    outside = pair.base / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    (top / "link").symlink_to(outside)
    (top / "file").symlink_to(outside / "file")
    (top / "guest").mkdir()
    os.mkfifo(top / "guest" / "fifo")
    with pair.target:
        for path in (top, top / "link" / "x", top / "file", pair.target.root / "etc" / "x"):
            with pytest.raises(errors.RpcCallError, match=f"is not below {top}, the directory of exports"):
                pair.target.Import(File(path))
            with pytest.raises(errors.RpcCallError, match=f"is not below {top}, the directory of exports"):
                pair.target.Export(File(path), "127.0.0.1", 5)
        for sent in ("/###-VIRTUAL-PATH-###,/var/lib/../x", "/etc/passwd", "relative", ""):
            with pytest.raises(errors.GenericError):
                transfer.StartImport(dict(OPTIONS), pair.target.instance.ToDict(runtime=True), "x", ["file", [sent]])
        for path, words in ((top / "guest", "not a regular file"), (top / "guest" / "fifo", "not a regular file"), (top / "none", "No such file")):  # fmt: skip
            with pytest.raises(errors.RpcCallError, match=words):
                pair.target.Export(File(path), "127.0.0.1", 5)
    assert (outside / "file").read_text() == "precious" and os.listdir(outside) == ["file"]


@pytest.mark.parametrize(
    "end", [["file", []], ["file", [5]], ["file", ["a", "b"]], ["raw", ["x"]], ["raw", []], ["script", [{}]], ["script", [{}, -1]]]
)  # fmt: skip
def test_ends_of_another_shape(pair: Pair, end: list[Any]) -> None:
    with pair.target, pytest.raises(errors.GenericError, match=f"End '{end[0]}' of a transfer"):
        transfer.StartImport(dict(OPTIONS), pair.target.instance.ToDict(runtime=True), "x", end)


def _Swap(path: Path, place: Path) -> None:
    """What another node can do that shares the directory of exports: a link in the place of one."""
    path.rename(f"{path}-away")
    path.symlink_to(place)


def test_a_directory_that_becomes_a_link_is_not_written_to(pair: Pair) -> None:
    """Not even after the path was looked at, while the receiver waits for its sender."""
    place = pair.base / "cron.d"
    place.mkdir()
    source, target = pair.source.Exported("x/source"), pair.target.Exported("web.new/disk")
    source.parent.mkdir(parents=True)
    source.write_bytes(b"* * * * * root true")
    receiver = pair.target.Import(File(target))
    _Swap(target.parent, place)
    sender = pair.source.Export(File(source), pair.target.address, pair.target.Port(receiver))
    assert "web.new has been replaced by something else" in pair.target.End(receiver)["error_message"]
    assert pair.source.End(sender)["exit_status"] == 1 and list(place.iterdir()) == []
    pair.CleanUp(sender, receiver)


class _Swapping:
    """The real side, on which a directory becomes a link to another place when somebody works in one for the last time."""

    def __init__(self, place: Path, times: int):
        self._side, self._place, self.left = runtime.CurrentSide(), place, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    @contextlib.contextmanager
    def HoldFolder(self, path: str) -> Iterator[str]:
        with self._side.HoldFolder(path) as held:
            self.left -= 1
            if self.left == 0:
                _Swap(Path(path), self._place)
            yield held


@pytest.mark.parametrize(("what", "times"), [("completed", 2), ("removed", 2), ("looked at", 1)])
def test_a_directory_that_becomes_a_link_is_left_alone(pair: Pair, what: str, times: int) -> None:
    place = pair.base / "lib"
    (place / "folder").mkdir(parents=True)
    (place / "config.ini").write_text("[export]\nversion = 0\n# a secret\n")
    name = pair.target.instance.name
    directory = pair.target.Exported(name if what == "looked at" else f"{name}.new")
    (directory / "left over").mkdir(parents=True)
    (directory / "config.ini").write_text("[export]\nversion = 0\n")
    side, swapping = runtime.CurrentSide(), _Swapping(place, times)
    runtime.EnterSide(swapping)
    try:
        if what == "completed":
            with pair.target, contextlib.suppress(errors.GenericError):
                exports.FinalizeExport(pair.target.instance.ToDict(runtime=True), [False])
        elif what == "removed":
            with contextlib.suppress(errors.GenericError, OSError):
                pair.target.Call("export_remove", name)
        else:
            assert "secret" not in pair.target.Call("export_info", str(directory))
    finally:
        runtime.EnterSide(side)
    assert swapping.left == 0
    assert sorted(os.listdir(place)) == ["config.ini", "folder"] and "secret" in (place / "config.ini").read_text()


def test_only_regular_files_are_read(pair: Pair) -> None:
    """Nobody waits for a pipe that has taken the place of one."""
    path = pair.base / "file"
    path.write_bytes(b"harmless")
    read = [shutil.which("bash") or "", "-c", transfer.BuildReadFile(str(path))]
    assert subprocess.run(read, capture_output=True, check=True, timeout=50).stdout == b"harmless"
    path.unlink()
    os.mkfifo(path)
    done = subprocess.run(read, capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stdout) == (1, b"") and b"has been replaced by something else" in done.stderr


@pytest.mark.parametrize("what", ["the directory", "the file"])
def test_what_becomes_a_link_is_not_read(pair: Pair, what: str) -> None:
    place = pair.base / "keys"
    place.mkdir()
    (place / "disk").write_bytes(b"a secret")
    source, target = pair.source.Exported("web/disk"), pair.target.Exported("web.new/disk")
    source.parent.mkdir(parents=True)
    source.write_bytes(b"harmless")
    receiver = pair.target.Import(File(target))
    port = pair.target.Port(receiver)
    # The sender has been told its file, and begins to read it when its peer answers.
    os.kill(pair.target.Holder(receiver), signal.SIGSTOP)
    sender = pair.source.Export(File(source), pair.target.address, port)
    if what == "the file":
        _Swap(source, place / "disk")
    else:
        _Swap(source.parent, place)
    os.kill(pair.target.Holder(receiver), signal.SIGCONT)
    said = pair.source.End(sender)["error_message"]
    assert said and "web/disk has been replaced by something else" in said
    assert pair.target.End(receiver)["exit_status"] == 1
    # It may have begun its file before it learned that nothing comes.
    assert not target.exists() or target.read_bytes() == b""
    pair.CleanUp(sender, receiver)


@pytest.mark.parametrize("kind", [os.symlink, os.link])
def test_what_takes_the_place_of_a_file_meanwhile_is_not_written_to(
    pair: Pair, kind: Callable[[Path, Path], None]
) -> None:
    source, target = pair.source.Exported("x/source"), pair.target.Exported("web.new/disk")
    precious = pair.target.Exported("precious")
    source.parent.mkdir(parents=True)
    source.write_bytes(b"* * * * * root true")
    precious.write_text("precious")
    receiver = pair.target.Import(File(target))
    kind(precious, target)
    sender = pair.source.Export(File(source), pair.target.address, pair.target.Port(receiver))
    assert pair.target.End(receiver)["exit_status"] == 1 and pair.source.End(sender)["exit_status"] == 1
    assert precious.read_text() == "precious"
    pair.CleanUp(sender, receiver)


def test_an_older_file_gives_way_to_a_new_one(pair: Pair) -> None:
    """What an earlier transfer still writes to it, one that was given up, does not get into the new one."""
    source, target = pair.source.Exported("x/source"), pair.target.Exported("web.new/disk")
    for path, content in ((source, b"new"), (target, b"of an earlier transfer")):
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    with target.open("r+b", buffering=0) as earlier:
        receiver = pair.target.Import(File(target))
        earlier.write(b"OF")
        assert not target.exists()
        sender = pair.source.Export(File(source), pair.target.address, pair.target.Port(receiver))
        assert pair.source.End(sender)["exit_status"] == 0 and pair.target.End(receiver)["exit_status"] == 0
        earlier.write(b" AN")
    assert target.read_bytes() == b"new"
    pair.CleanUp(sender, receiver)


def test_a_file_is_on_stable_storage_when_it_has_arrived(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = pair.base / "bin"
    tools.mkdir()
    (tools / "dd").write_text(f'#!/bin/sh\necho "$@" >> {pair.base}/calls\nexec /usr/bin/dd "$@"\n')
    (tools / "dd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    target = pair.target.Exported("web.new/disk")
    with pair.target:
        pair.CheckSent(Raw(pair.source.disk), File(target))
    [written] = [line for line in (pair.base / "calls").read_text().splitlines() if "of=disk " in line]
    assert "fsync" in written


@pytest.mark.parametrize(("limit", "arrives"), [(2, True), (1, False)])
def test_a_file_takes_no_more_than_it_was_said(pair: Pair, limit: int, arrives: bool) -> None:
    """A source that never ends, compressed to nearly nothing, would fill the node's file system."""
    source, target = pair.source.Exported("x/source"), pair.target.Exported("web.new/disk")
    source.parent.mkdir(parents=True)
    source.write_bytes(bytes(MIB + 1))
    _, end = pair.Send(File(source), File(target), limit=limit, compress="gzip")
    assert (end["exit_status"] == 0) == arrives and target.stat().st_size == min(MIB + 1, limit * MIB)
    assert arrives or "more than 1 MiB came" in end["error_message"]


def test_names_with_anything_in_them_are_words_to_the_shell(pair: Pair) -> None:
    odd = pair.target.Exported('it\'s $(touch oops); `x` & "y"\\ *')
    pair.source.disk_file.write_bytes(b"x" * 8 * MIB)
    with pair.target:
        pair.CheckSent(Raw(pair.source.disk), File(odd))
    assert odd.stat().st_size == 8 * MIB


# --- transfers that were started --------------------------------------------------------------------------------------


def test_what_is_known_of_transfers(pair: Pair) -> None:
    name = pair.target.Import(Raw(pair.target.disk))
    port = pair.target.Port(name)
    assert name.startswith("import-disk0-2") and stat.S_IMODE(pair.target.Directory(name).stat().st_mode) == 0o700
    unknown = [name + "x", "../etc", "", "import-" + "x" * 300, "status"]
    found = pair.target.Call("impexp_status", [unknown[0], name, *unknown[1:]])
    assert [status is not None for status in found] == [False, True, False, False, False, False]
    assert found[1]["listen_port"] == port and found[1]["connected"] is False and found[1]["exit_status"] is None
    pair.target.Call("impexp_cleanup", name)
    assert pair.target.Call("impexp_status", [name]) == [None]
    for procedure in ("impexp_abort", "impexp_cleanup"):
        for wrong in ("../etc", "status", "import-a/../../../etc"):
            with pytest.raises(errors.RpcCallError, match="is not the name of a transfer"):
                pair.target.Call(procedure, wrong)
        pair.target.Call(procedure, name)  # known no longer: fine


def test_an_abort_lets_the_scripts_clean_up(pair: Pair) -> None:
    begun, cleaned = pair.base / "begun", pair.base / "cleaned"
    pair.Script("import", f"trap 'touch {cleaned}; exit 1' TERM\ntouch {begun}\nwhile true; do sleep 0.05; done\n")
    pair.Script("export", "sleep 300\n")
    receiver = pair.target.Import(Script(pair.target.disk))
    sender = pair.source.Export(Script(pair.source.disk), pair.target.address, pair.target.Port(receiver))
    WaitUntil(begun.exists, "it has begun")
    pair.target.Call("impexp_abort", receiver)
    assert pair.target.End(receiver)["error_message"] == "The transfer was stopped by a signal"
    assert cleaned.exists()
    assert pair.source.End(sender)["exit_status"] == 1
    for node, name in ((pair.target, receiver), (pair.source, sender)):
        node.Call("impexp_abort", name)
        for _ in range(2):
            node.Call("impexp_cleanup", name)


def _Stubborn(pair: Pair) -> str:
    """An import whose script ignores what it is asked; it runs when this returns."""
    begun = pair.base / "begun"
    pair.Script("import", f"trap '' TERM\ntouch {begun}\nwhile true; do sleep 0.05; done\n")
    pair.Script("export", "sleep 1; cat /dev/zero\n")
    receiver = pair.target.Import(Script(pair.target.disk))
    sender = pair.source.Export(Script(pair.source.disk), pair.target.address, pair.target.Port(receiver))
    WaitUntil(begun.exists, "it has begun")
    pair.source.Call("impexp_cleanup", sender)
    return receiver


def test_a_cleanup_ends_what_does_not_want_to(pair: Pair) -> None:
    name = _Stubborn(pair)
    began = time.monotonic()
    pair.target.Call("impexp_cleanup", name)
    assert time.monotonic() - began < 30 and not pair.target.Directory(name).exists()


def test_what_a_killed_program_leaves_behind_is_found(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own programs hold the lock, so that nobody else has its number."""
    monkeypatch.setattr(transfer, "_END_SECONDS", 0.5)
    name = _Stubborn(pair)
    os.kill(pair.target.Holder(name), signal.SIGKILL)
    status = pair.target.End(name)
    assert status["exit_status"] == 1
    logs = f"{pair.target.root}/var/log/ganeti/os"
    assert (
        status["error_message"] == f"The transfer program ended without a result, perhaps killed; its log is in {logs}"
    )
    with pair.target:
        assert transfer._Holder(str(pair.target.Directory(name))) == pair.target.Holder(name)
    pair.target.Call("impexp_cleanup", name)
    assert not pair.target.Directory(name).exists()


def test_a_program_that_hangs_is_killed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_END_SECONDS", 0.5)
    name = pair.target.Import(Raw(pair.target.disk))
    os.kill(pair.target.Holder(name), signal.SIGSTOP)
    pair.target.Call("impexp_cleanup", name)
    assert not pair.target.Directory(name).exists()


@pytest.mark.parametrize("procedure", ["impexp_abort", "impexp_cleanup"])
def test_a_number_of_somebody_else_is_not_signalled(pair: Pair, procedure: str) -> None:
    """The file stays behind when a program is killed, and numbers are used again."""
    name = pair.target.Import(Raw(pair.target.disk))
    os.kill(pair.target.Holder(name), signal.SIGKILL)
    WaitUntil(lambda: pair.target.Status(name)["exit_status"], "it has ended")
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        (pair.target.Directory(name) / "pid").write_text(f"{other.pid}\n")
        pair.target.Call(procedure, name)
        assert other.poll() is None
        other.kill()
    pair.target.Call("impexp_cleanup", name)


def test_two_looks_at_once_do_not_take_each_other_for_the_program(pair: Pair) -> None:
    name = pair.target.Import(Raw(pair.target.disk))
    pair.target.Call("impexp_abort", name)
    pair.target.End(name)
    path = str(pair.target.Directory(name) / "pid")
    WaitUntil(lambda: not _IsLocked(path), "nothing of it runs")
    with runtime.LockFile(path, exclusive=False), pair.target:
        assert transfer._Holder(str(pair.target.Directory(name))) is None
    pair.target.Call("impexp_cleanup", name)


def _IsLocked(path: str) -> bool:
    try:
        runtime.LockFile(path, timeout=0).release()
    except runtime.LockBusy:
        return True
    return False


def test_a_transfer_that_nobody_asks_about_ends(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its job was cut off with its master; one that is asked about waits on for its sender."""
    monkeypatch.setattr(transfer, "UNASKED_SECONDS", 5)
    # The one that is wanted comes last: starting the other one would be a time in which nobody asks about it.
    forgotten, wanted = (pair.target.Import(Raw(pair.target.disk)) for _ in range(2))
    path = str(pair.target.Directory(forgotten) / "pid")
    WaitUntil(lambda: pair.target.Status(wanted) and not _IsLocked(path), "nothing of the forgotten one runs")
    assert pair.target.Status(wanted)["exit_status"] is None
    assert "Nobody has asked for this transfer for 5 seconds" in pair.target.Status(forgotten)["error_message"]
    for name in (wanted, forgotten):
        pair.target.Call("impexp_cleanup", name)


def test_what_nobody_has_cleaned_up_goes_after_a_day(pair: Pair) -> None:
    names = [pair.target.Import(Raw(pair.target.disk)) for _ in range(3)]
    old, young, running = names
    for name in (old, young):
        pair.target.Call("impexp_abort", name)
        pair.target.End(name)
        WaitUntil(lambda name=name: not _IsLocked(str(pair.target.Directory(name) / "pid")), "nothing of it runs")
    for name in (old, running):
        os.utime(pair.target.Directory(name), (1, time.time() - 86500))
    os.kill(pair.target.Holder(running), signal.SIGSTOP)  # else it writes its status
    os.utime(pair.target.Directory(running), (1, time.time() - 86500))
    foreign = pair.target.Directory("somebody-else")
    foreign.mkdir()
    os.utime(foreign, (1, 1))
    names.append(pair.target.Import(Raw(pair.target.disk)))
    assert [pair.target.Directory(name).exists() for name in names] == [False, True, True, True]
    assert foreign.exists()
    os.kill(pair.target.Holder(running), signal.SIGCONT)
    for name in names:
        pair.target.Call("impexp_cleanup", name)


# --- programs that cannot be started ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda path: path.unlink(), "program not found"),
        (lambda path: path.write_text("#!/bin/sh\necho 'it is broken' >&2\nexit 1\n"), "did not start.*it is broken"),
    ],
)
def test_a_program_that_does_not_start(pair: Pair, break_it: Callable[[Path], object], words: str) -> None:
    break_it(Path(pair.target.program))
    with pytest.raises(errors.GenericError, match=f"(?s){words}"):
        pair.target.Import(Raw(pair.target.disk))
    with pair.target:
        assert os.listdir(pathutils.IMPORT_EXPORT_DIR) == []


def test_a_disk_that_is_not_there(pair: Pair) -> None:
    missing = MakeDisk("file", ["loop", f"{pair.target.root}/disks/missing"])
    for end in (Raw(missing), Script(missing)):
        with pytest.raises(errors.BlockDeviceError, match="not active on this node"):
            pair.target.Import(end)
        with pytest.raises(errors.BlockDeviceError, match=r"not (active|found) on this node"):
            pair.target.Export(end, "127.0.0.1", 5)
