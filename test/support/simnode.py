"""A node on a simulated machine, as the node daemon makes it: real backend and store, only storage and hypervisor are fakes.

Tests prepare it and look at it from outside; nothing here answers a call by itself.  What the seams allow can be broken:
``faults`` lets calls fail, ``before`` is called when one arrives, ``Stop`` ends the daemon, ``answers`` has what a node
of another release or a broken one would reply, ``stand_ins`` procedures whose programs are played
(``support.playedtransfers``).
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from simulated import Invocation, World
from simulated.transport import Network, ServeCalls

from ganeti import constants, errors, objects, pathutils, runtime, serializer, ssconf, x509
from ganeti.hypervisor.fake import FakeHypervisor, FormatRecord
from ganeti.params import runstate
from ganeti.rpc.resolver import NodedPort
from ganeti.rpc.server import Dispatcher
from ganeti.server import noded, ownnode
from ganeti.storage.drivers import fake
from ganeti.store import Member, NodeStore
from support import drivers
from support.standinlvm import StandInLvm

# script(environment) -> (status, output)
Script = Callable[[dict[str, str]], tuple[int, str]]

FILE_FOLDER = pathutils.DEFAULT_FILE_STORAGE_DIR
SHARED_FOLDER = "/srv/shared"
_FOLDERS = (
    pathutils.DATA_EXT_DIR,
    pathutils.RUN_EXT_DIR,
    pathutils.QUEUE_DIR,
    pathutils.JOB_QUEUE_ARCHIVE_DIR,
    pathutils.SOCKET_DIR,
    pathutils.FAKE_DIR,
    pathutils.CRYPTO_KEYS_DIR,
    pathutils.RAPI_DATA_DIR,
    pathutils.LOG_OS_DIR,
    pathutils.INSTANCE_REASON_DIR,
    pathutils.DISK_LINKS_DIR,
    pathutils.CONF_DIR,
    pathutils.LOCK_DIR,
    FILE_FOLDER,
    SHARED_FOLDER,
    "/proc/sys/kernel/random",
    "/etc",
)
_OS_FOLDER = pathutils.OS_SEARCH_PATH[0]
_MIB = 1 << 20


class Device(NamedTuple):
    """One layer of a disk on this machine; ``size`` and ``wiped`` (up to where) in MiB, ``link`` of a mirror.

    ``file`` is the same object as long as the storage is the same.
    """

    size: int | None
    info: str
    assembled: bool
    open: bool
    wiped: int
    link: str
    file: object


def NameOf(disk: objects.Disk) -> str:
    """The name that fake storage gives to a disk."""
    if disk.dev_type == constants.DT_DRBD8:
        return f"mirror%{disk.uuid}"
    return "%".join([disk.dev_type, *(str(part).replace("/", "%") for part in disk.logical_id)])


class SimNode:
    """One machine of a simulated cluster and its node daemon.

    ``calls``: the procedures served, in order; ``arguments``: of the last call of each; ``hook_runs``: (hook path, phase,
    environment) of each request to run hooks; ``installed``: (instance, whether reinstalled, OS parameters) of each run of
    a create script; ``renamed``: old names that rename scripts got; ``copied``: (from, to) of each copy of a disk or an image;
    ``written``: the beginning of a device that dd wrote or a guest would have written; ``ssh_names``: other node -> how it
    calls itself when this one reaches it by ssh.
    """

    def __init__(self, world: World, network: Network, number: int):
        self.world = world
        self.machine = world.AddMachine(f"node{number}.example.org", f"192.0.2.{10 + number}")
        self.name = self.machine.name
        self.member = Member(f"{number:08x}-aaaa-4bbb-8ccc-0000000000aa", self.name, self.machine.address)
        self.secondary_address = f"198.51.100.{number}"
        self.machine.addresses[self.secondary_address] = None
        self.faults: dict[str, str] = {}
        self.ssconf_stuck = False
        self.answers: dict[str, Any] = {}
        self.edits: dict[str, Callable[[Any], Any]] = {}
        self.calls: list[str] = []
        self.arguments: dict[str, tuple[Any, ...]] = {}
        self.before: Callable[[str, tuple[Any, ...]], None] = lambda name, args: None
        self.watch: Callable[[str], None] = lambda name: None
        self.hook_runs: list[tuple[str, str, dict[str, str]]] = []
        self.installed: list[tuple[str, bool, dict[str, str]]] = []
        self.renamed: list[str] = []
        self.copied: list[tuple[str, str]] = []
        self.written: dict[str, bytes] = {}
        self.ssh_names: dict[str, str] = {}
        self.stand_ins: dict[str, Callable[..., Any]] = {}
        self.lvm: StandInLvm
        self._wiped: dict[str, int] = {}
        self._network = network
        self._noded: Any = None
        self.machine.programs.update({"dd": self._Dd, "ssh": self._Ssh, "bash": self._Bash, "ovs-vsctl": _Succeed})
        self.machine.programs[pathutils.DAEMON_UTIL] = _Succeed
        self.machine.programs[pathutils.DEFAULT_MASTER_SETUP_SCRIPT] = self._SetUpAddress
        self.Call(self._Furnish)
        self.SetMemory(32768)
        self.AddOs("debian", "minimal", "full")
        self.AddOs("noop")
        self.Start()

    # --- the machine --------------------------------------------------------------------------------------------------

    def _Furnish(self) -> None:
        """What an installation leaves on a machine."""
        self._MakeFolders()
        runtime.WriteFile("/etc/hosts", "127.0.0.1 localhost\n", mode=0o644)
        runtime.WriteFile(pathutils.FILE_STORAGE_PATHS_FILE, f"{FILE_FOLDER}\n{SHARED_FOLDER}\n")
        runtime.WriteFile(pathutils.NODED_CLIENT_CERT_FILE, Certificate(self.name))
        runtime.WriteFile(pathutils.NODED_CERT_FILE, Certificate("cluster"))
        for bridge in ("br0", "xen-br0"):
            runtime.MakeDirs(f"/sys/class/net/{bridge}/bridge")

    def _MakeFolders(self) -> None:
        for path in _FOLDERS:
            runtime.MakeDirs(path)
        runtime.WriteFile("/proc/sys/kernel/random/boot_id", "boot\n")

    def Call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs a function on this machine, wherever the caller is; returns or raises what it does."""
        if self.world.current is None:
            return self.machine.Call(function, *args)
        done, result = runtime.Event(), []

        def run() -> None:
            try:
                result.append((function(*args), None))
            except Exception as err:  # noqa: BLE001 - whoever asked gets it
                result.append((None, err))
            finally:
                done.set()

        self.machine.StartProcess(run, getattr(function, "__name__", "call"))
        done.wait()
        [(value, error)] = result
        if error is not None:
            raise error
        return value

    def Read(self, path: str) -> bytes:
        return bytes(self.Call(runtime.ReadFile, path))

    def Write(self, path: str, text: str) -> None:
        self.Call(runtime.WriteFile, path, text)

    def Exists(self, path: str) -> bool:
        return bool(self.Call(runtime.Exists, path))

    def Names(self, path: str) -> list[str]:
        return list(self.Call(runtime.ListDir, path)) if self.Call(runtime.Exists, path) else []

    def SetMemory(self, total: int, system: int = 1024) -> None:
        """The machine has this much memory (MiB); the system takes ``system`` of it, guests the rest."""
        free, used = (total - system) << 10, system << 10
        lines = {"MemTotal": total << 10, "MemFree": free, "Buffers": 0, "Cached": 0, "Active": used}
        self.Write("/proc/meminfo", "".join(f"{name}: {value} kB\n" for name, value in lines.items()))
        self.Write("/proc/cpuinfo", "".join(f"processor : {number}\n" for number in range(8)))

    def _Dd(self, invocation: Invocation) -> int:
        """dd writes zeros where the backend wipes, copies an image, writes what it is given, or shows the beginning of a device."""
        options = dict(word.split("=", 1) for word in invocation.argv[1:])
        if "if" not in options:
            self.written[options["of"]] = invocation.stdin
            return 0
        if "of" not in options:
            invocation.Print(self.written.get(options["if"], b"").decode("utf-8", "replace"))
            return 0
        self.written.pop(options["of"], None)
        if options["if"] != "/dev/zero":
            self.copied.append((options["if"], options["of"]))
            return 0
        name = options["of"].rpartition("/")[2]
        self._wiped[name] = int(options["seek"]) + int(options["count"])
        return 0

    def _Bash(self, invocation: Invocation) -> int:
        """bash copies the content of one disk to another, which are empty here."""
        words = dict(word.split("=", 1) for word in shlex.split(invocation.argv[-1]) if "=" in word)
        self.copied.append((words["if"], words["of"]))
        return 0

    def _Ssh(self, invocation: Invocation) -> int:
        """ssh reaches every machine; the only command with an answer is that for the host's name."""
        if "hostname --fqdn" in invocation.argv[-1]:
            target = next(name for name in self.world.machines if any(name in word for word in invocation.argv))
            invocation.Print(self.ssh_names.get(target, target) + "\n")
        return 0

    def _SetUpAddress(self, invocation: Invocation) -> int:
        address = invocation.env["MASTER_IP"]
        if invocation.argv[1] == "start":
            self.machine.addresses[address] = None
        else:
            self.machine.addresses.pop(address, None)
        return 0

    def InstallLvm(self, *sizes: int, group: str = "xenvg") -> None:
        """The machine has LVM and in it a volume group of disks of these MiB, by default two of 64 GiB."""
        self.lvm = StandInLvm(self.machine)
        for letter, size in zip("abcdef", sizes or (65536, 65536), strict=False):
            self.lvm.AddPv(f"/dev/sd{letter}", group, size)

    # --- programs of the administrator --------------------------------------------------------------------------------

    def AddHook(self, hpath: str, phase: str, name: str, script: Script) -> None:
        def run(invocation: Invocation) -> int:
            status, output = script(dict(invocation.env))
            invocation.Print(output)
            return status

        self._Install(f"{pathutils.HOOKS_BASE_DIR}/{hpath}-{phase}.d/{name}", run)

    def AddOs(self, name: str, *variants: str, create: str = "create") -> None:
        folder = f"{_OS_FOLDER}/{name}"
        self.Call(runtime.MakeDirs, folder)
        for file, text in (
            ("ganeti_api_version", "20\n"),
            ("variants.list", "\n".join(variants)),
            ("parameters.list", "mirror where packages are\na first\nb second\nc third\n"),
        ):
            self.Call(runtime.WriteFile, f"{folder}/{file}", text)
        scripts = {create: self._Create, "rename": self._Rename, "verify": None, "import": None, "export": None}
        for script, program in scripts.items():
            self._Install(f"{folder}/{script}", program or (lambda invocation: 0))

    def AddAllocator(self, name: str, program: Callable[[Invocation], int | None]) -> None:
        self._Install(f"{pathutils.IALLOCATOR_SEARCH_PATH[-1]}/{name}", program)

    def _Install(self, path: str, program: Callable[[Invocation], int | None]) -> None:
        self.Call(runtime.MakeDirs, path.rpartition("/")[0])
        self.Call(functools.partial(runtime.WriteFile, path, "", mode=0o755))
        self.machine.programs[path] = program

    def _Create(self, invocation: Invocation) -> int:
        env = invocation.env
        osparams = {name[4:].lower(): value for name, value in env.items() if name.startswith("OSP_")}
        self.installed.append((env["INSTANCE_NAME"], env.get("INSTANCE_REINSTALL") == "1", osparams))
        return 0

    def _Rename(self, invocation: Invocation) -> int:
        self.renamed.append(invocation.env["OLD_INSTANCE_NAME"])
        return 0

    # --- the node daemon ----------------------------------------------------------------------------------------------

    def NewStore(self) -> NodeStore:
        """This node's copy of the store, opened by the calling process."""
        return ownnode.OwnStore()

    def Start(self) -> None:
        self._noded = self.machine.StartProcess(self._Noded, "noded")

    def Boot(self) -> None:
        """The machine was switched on: what the system makes at its start is there, and the node daemon runs."""
        self.Call(self._MakeFolders)
        self.Start()

    def Reboot(self) -> None:
        """The power fails for a moment; for ``World.Schedule``."""

        def boot() -> None:
            self._MakeFolders()
            self.Start()

        self.machine.PowerOff()
        self.machine.PowerOn()
        self.machine.StartProcess(boot, "boot")

    @property
    def noded(self) -> Any:
        """The process of the node daemon."""
        return self._noded

    def Stop(self) -> None:
        """Ends the node daemon: connections are refused."""
        self._noded.Kill()

    def _Noded(self) -> None:
        own = self.NewStore()
        runtime.Thread(_AcceptAll, "accept", (runtime.ListenTcp("", NodedPort()),)).start()
        served = {**noded.NodeHandlers(own), **self.stand_ins}
        handlers = {name: self._Watched(name, handler) for name, handler in served.items()}
        ServeCalls(self._network, Dispatcher(handlers, own))

    def _Watched(self, name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        def serve(*args: Any) -> Any:
            self.calls.append(name)
            self.arguments[name] = args
            if name == "hooks_runner":
                self.hook_runs.append(args)  # type: ignore[arg-type]
            self.watch(name)
            self.before(name, args)
            if name in self.faults:
                raise errors.RpcCallError(self.faults[name])
            answer = self.answers[name] if name in self.answers else handler(*args)
            return self.edits[name](answer) if name in self.edits else answer

        return serve

    def Rows(self) -> list[Any]:
        """The rows of this node's copy of the store."""
        return list(self.Call(lambda: self.NewStore().ReadAll()[2]))

    def LoseStore(self) -> None:
        """The daemon stops, its copy of the store is gone, and it starts again."""
        self.Stop()
        self.Call(runtime.RemoveTree, pathutils.DATA_EXT_DIR)
        self.Call(runtime.MakeDirs, pathutils.DATA_EXT_DIR)
        self.Start()

    def Digest(self) -> str:
        """The digest of this node's client certificate."""
        path = pathutils.NODED_CLIENT_CERT_FILE
        return x509.Digest(self.Read(path), path)

    def WriteSsconf(self, root: objects.Snapshot) -> None:
        self.Call(ssconf.WriteSsconfFiles, ssconf.Values(root))

    # --- guests and disks ---------------------------------------------------------------------------------------------

    @property
    def guests(self) -> dict[str, int]:
        """Memory of each guest that is here, in MiB; those still on their way are ``incoming``."""
        found = self.Call(FakeHypervisor().AllInfo)
        return {guest.name: guest.memory for guest in found if guest.run_state != runstate.ARRIVING}

    @property
    def incoming(self) -> list[str]:
        found = self.Call(FakeHypervisor().AllInfo)
        return [guest.name for guest in found if guest.run_state == runstate.ARRIVING]

    def StartGuest(self, name: str, memory: int = 512, state: str = runstate.RUNNING) -> None:
        """A guest is here, whoever started it."""
        self.Write(f"{pathutils.FAKE_DIR}/{name}", FormatRecord(memory, 1, state))

    def KeepMemory(self, name: str) -> None:
        """The guest does not give memory back."""
        self.Call(drivers.KeepMemory, name)

    def GiveMemory(self, name: str) -> None:
        """It does again."""
        self.Call(drivers.GiveMemory, name)

    def TouchLate(self) -> None:
        """Guests have not touched their memory yet: the node counts it as free."""
        self.Call(drivers.TouchLate)

    def FailMigrations(self) -> None:
        """The hypervisor sends nothing."""
        self.Call(drivers.FailMigrations)

    def SetHypervisorVersion(self, version: str) -> None:
        self.Call(drivers.SetVersion, version)

    def KillGuest(self, name: str) -> None:
        """A guest ends by itself."""
        self.Call(runtime.RemoveFile, f"{pathutils.FAKE_DIR}/{name}")

    def EndsUnheard(self, name: str) -> None:
        """Let the next shutdowns of a guest end it without an answer."""

        def end(call: str, _args: Any) -> None:
            if call == "instance_shutdown":
                self.KillGuest(name)
                raise errors.RpcCallError("connection lost")

        self.before = end

    def ShutDownByUser(self, name: str) -> None:
        """The guest's own user stops it."""
        self.KillGuest(name)
        self.Call(drivers.ShutDownByUser, name)

    @property
    def devices(self) -> dict[str, Device]:
        """What fake storage holds here, by its name there."""
        return dict(self.Call(self._Devices))

    def _Devices(self) -> dict[str, Device]:
        data, state = fake._DataDir(), fake._StateDir()
        names = {
            name.removesuffix(".info") for folder in (data, state) if runtime.Exists(folder)
            for name in runtime.ListDir(folder)
        }  # fmt: skip
        found = {name: self._Device(data, state, name) for name in sorted(names)}
        for kind, folder in (("file", FILE_FOLDER), ("sharedfile", SHARED_FOLDER)):
            for path in FilesBelow(folder):
                name = "%".join([kind, "loop", path.replace("/", "%")])
                wiped = self._wiped.get(path.rpartition("/")[2], 0)
                size = runtime.Stat(path).st_size // _MIB
                found[name] = Device(size, "", False, False, wiped, "", self.machine.disk.Lookup(path))
        return found

    def _Device(self, data: str, state: str, name: str) -> Device:
        def load(path: str) -> dict[str, Any]:
            return dict(serializer.Load(runtime.ReadFile(path))) if runtime.Exists(path) else {}

        noted = load(f"{state}/{name}")
        size = runtime.Stat(f"{data}/{name}").st_size // _MIB if runtime.Exists(f"{data}/{name}") else None
        info = load(f"{data}/{name}.info").get("info", "")
        return Device(
            size,
            info,
            bool(noted.get("assembled")),
            bool(noted.get("open")),
            self._wiped.get(name, 0),
            noted.get("link", ""),
            self.machine.disk.Lookup(f"{data}/{name}"),
        )

    def MakeStorage(self, disk: objects.Disk) -> None:
        """This machine reaches a disk that another one made."""
        path = f"{fake._DataDir()}/{NameOf(disk)}"
        self.Call(runtime.MakeDirs, fake._DataDir())
        self.Call(runtime.CreateFile, path, disk.size * _MIB)

    def Resize(self, name: str, size: int) -> None:
        self.Call(runtime.Extend, f"{fake._DataDir()}/{name}", size * _MIB)

    def LoseDisks(self) -> None:
        """The disks' data is gone, as after a broken drive."""
        for folder in (fake._DataDir(), fake._StateDir()):
            if self.Call(runtime.Exists, folder):
                self.Call(runtime.RemoveTree, folder)

    def CutLink(self, cut: bool = True) -> None:
        """What mirrors of this machine write does not reach the others any more, or does again."""
        self.Call(drivers.CutLink, cut)

    def FailOtherDisk(self, failed: bool = True) -> None:
        """The other sides of this machine's mirrors have no disk any more, or have one again."""
        self.Call(drivers.FailOtherDisk, failed)

    def SetStranger(self, text: str | None) -> None:
        """The numbers of this machine's mirrors belong to another device, or to them again (None)."""
        self.Call(drivers.SetStranger, text)

    def MirrorRecord(self, disk_uuid: str) -> dict[str, Any]:
        """What the fake mirror noted of a disk here."""
        path = f"{pathutils.RUN_EXT_DIR}/fake-storage/mirror%{disk_uuid}"
        record: dict[str, Any] = self.Call(lambda: serializer.Load(runtime.ReadFile(path)))
        return record

    def SetMirrors(self, *states: dict[str, Any]) -> None:
        """Mirrors of this machine show these states, one a look, the last one for good (``support.drivers``)."""
        self.Call(drivers.SetMirrors, list(states))


def FilesBelow(folder: str) -> list[str]:
    """The files below a directory of the calling machine."""
    paths = [f"{folder}/{name}" for name in runtime.ListDir(folder)]
    return [file for path in paths for file in (FilesBelow(path) if runtime.IsDir(path) else [path])]


def _AcceptAll(listener: Any) -> None:
    """Whoever looks whether the daemon is up finds that it is."""
    while True:
        sock, _ = listener.accept()
        sock.close()


def _Succeed(_invocation: Invocation) -> int:
    return 0


@functools.cache
def Certificate(name: str) -> str:
    """Key and certificate of a node; made once, as it takes a while."""
    key, certificate = x509.MakeSelfSigned(name, 10 * 365 * 86400, 1)
    return f"{key}{certificate}"
