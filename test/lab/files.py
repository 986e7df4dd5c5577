"""Kernel, ramdisk and packages of the laboratory's nodes, fetched from Debian's mirror once and kept."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.lab import CACHE, QEMU, TREE
from support.programs import Load

KERNEL_PACKAGE = "linux-image-amd64"
# Unpacked for the nodes; nothing of it is installed on this machine.
# Of a disk that boots: its sectors, and how many of them the boot loader has.
_SECTOR, _GRUB_SECTORS = 512, 2048
GRUB_PACKAGES = ("grub-common", "grub-pc-bin")
PACKAGES = ("drbd-utils", "openssh-server", "openssh-sftp-server", "libwrap0")

COMPILED = {"PYTHONPYCACHEPREFIX": "/srv/compiled"}

# Of a disk with inside/guest.asm: what is on it is zero before.
GUEST_DISK_MIB = 16

# What a node takes of the machine's memory, QEMU's own needs included.
NODE_MIB = 1280

# In the order in which they must be loaded: disks and network, the shared system, then storage.
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("virtio_blk", "virtio_console", "failover", "net_failover", "virtio_net"),
    *("netfs", "fscache", "9pnet", "9pnet_virtio", "9p", "overlay"),
    *("crc16", "mbcache", "jbd2", "ext4"),
    *("crc32c_generic", "libcrc32c", "lru_cache", "dm_mod", "dm_bufio", "dm_snapshot", "drbd"),
)


class NodeFiles(NamedTuple):
    """``extra``: a tree of files that the nodes have beside those of this machine."""

    kernel: Path
    initrd: Path
    extra: Path


def Lack(nodes: int) -> str:
    """Return why so many nodes cannot run on this machine, an empty text if they can."""
    if os.geteuid() != 0:
        return "it must be run as root, because the nodes share the system of this machine"
    for program in (QEMU, "mke2fs", "nasm", "ssh-keygen"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"{program} is missing; tools/run-tests installs it"
    found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    needed = nodes * NODE_MIB
    if found is None or int(found[1]) // 1024 < needed:
        return f"{nodes} nodes need {needed} MiB of memory that is free"
    try:
        Fetch()
    except (OSError, RuntimeError, subprocess.SubprocessError) as err:
        return f"Debian's packages cannot be fetched: {err}"
    return ""


def Fetch() -> NodeFiles:
    """Return the files; the first call takes a minute and needs Debian's mirror."""
    directory = CACHE / "node"
    init = (Path(__file__).parent / "init").read_bytes()
    files = NodeFiles(directory / "vmlinuz", directory / "initrd.gz", FetchPackages())
    _Once(directory, [init, repr(MODULES).encode()], lambda maker, work: _Make(maker, work, files, init))
    return files


def FetchPackages() -> Path:
    """Return a directory with what the packages bring; the first call needs Debian's mirror."""
    mark = repr(PACKAGES).encode()
    directory = CACHE / f"extra-{hashlib.sha256(mark).hexdigest()[:12]}"
    _Once(directory, [mark], lambda maker, work: _Unpack(maker, work, directory / "tree"))
    return directory / "tree"


def MakeBootable(disk: Path, kernel: Path, initrd: Path, arguments: str) -> None:
    """Make a disk from which a BIOS boots this kernel: Debian's boot loader, then both files, as blocks without a file system."""
    mark = repr(GRUB_PACKAGES).encode()
    folder = CACHE / f"grub-{hashlib.sha256(mark).hexdigest()[:12]}"
    _Once(folder, [mark], lambda maker, work: _Unpack(maker, work, folder / "tree", GRUB_PACKAGES))
    data, blocks, at = b"", [], _GRUB_SECTORS
    for path in (kernel, initrd):
        content = path.read_bytes()
        content += bytes(-len(content) % _SECTOR)
        blocks.append(f"(hd0){at}+{len(content) // _SECTOR}")
        at += len(content) // _SECTOR
        data += content
    script, core = disk.with_suffix(".cfg"), disk.with_suffix(".core")
    script.write_text(f"linux {blocks[0]} {arguments}\ninitrd {blocks[1]}\nboot\n", encoding="ascii")
    modules = folder / "tree/usr/lib/grub/i386-pc"
    argv = [folder / "tree/usr/bin/grub-mkimage", "-O", "i386-pc", "-d", modules, "-c", script, "-p", "/", "-o", core]
    subprocess.run([*argv, "biosdisk", "linux", "boot"], check=True, timeout=60)
    loader = (modules / "boot.img").read_bytes() + core.read_bytes()
    assert len(loader) <= _GRUB_SECTORS * _SECTOR
    disk.write_bytes(loader.ljust(_GRUB_SECTORS * _SECTOR, b"\0") + data)
    script.unlink()
    core.unlink()


def _Once(directory: Path, parts: Sequence[bytes], make: Callable[[Any, Path], None]) -> None:
    """Make something in a directory unless it was made of the same parts before."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp, made_from = hashlib.sha256(b"\n".join(parts)).hexdigest(), directory / "made-from"
    with open(directory / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made_from.exists() and made_from.read_text(encoding="utf-8") == stamp:
            return
        # The program that makes such files for the OS definition "mini".
        maker = Load(TREE / "os" / "mini" / "make-files")
        with tempfile.TemporaryDirectory(dir=directory, prefix="work-") as work:
            try:
                make(maker, Path(work))
            except maker.Trouble as err:
                raise RuntimeError(str(err)) from err
        made_from.write_text(stamp, encoding="utf-8")


def Install(folder: Path) -> Path:
    """Install this tree, which is built already, as on a node of its own; return the directory that has it."""
    done = subprocess.run(
        ["make", "-s", "-C", str(TREE), "install", f"DESTDIR={folder}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{TREE} cannot be installed; is it built (tools/run-tests --only-setup)?\n{done.stderr}")
    return folder


def Compile(folder: Path) -> Path:
    """Compile the modules of this tree, which would take a node a quarter of a minute after each start.

    Return a directory for ``Machine``; with ``COMPILED`` in their environment programs find the modules.
    """
    prefix = f"{folder}{COMPILED['PYTHONPYCACHEPREFIX']}"
    argv = [sys.executable, "-m", "compileall", "-q", "-j", "0", f"{TREE}/ganeti", f"{TREE}/test/support"]
    subprocess.run(argv, env={**os.environ, "PYTHONPYCACHEPREFIX": prefix}, check=True)
    return folder


def MakeGuestDisk(path: Path) -> Path:
    """Make a disk that boots ``inside/guest.asm``."""
    source = Path(__file__).parent / "inside" / "guest.asm"
    subprocess.run(["nasm", "-f", "bin", "-o", str(path), str(source)], check=True)
    os.truncate(path, GUEST_DISK_MIB << 20)
    return path


def _Make(maker: Any, work: Path, files: NodeFiles, init: bytes) -> None:
    kernel, modules = maker.FetchKernel(work / "kernel", KERNEL_PACKAGE, MODULES, _Report)
    maker.Write(files.kernel, kernel)
    busybox = maker.FetchBusybox(work / "busybox", _Report)
    maker.Write(files.initrd, maker.Initrd(busybox, init, modules))


def _Unpack(maker: Any, work: Path, tree: Path, packages: Sequence[str] = PACKAGES) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(tree)
    tree.mkdir()
    for name in packages:
        maker.Unpack(name, work / name, _Report)
        for folder in (work / name / "tree").iterdir():
            # /bin, /lib and /sbin are links on the machine; a directory of that name would hide what they lead to.
            target = tree / "usr" / folder.name if folder.name in ("bin", "lib", "sbin") else tree / folder.name
            shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)


def _Report(text: str) -> None:
    print(f"laboratory: {text}", file=sys.stderr, flush=True)
