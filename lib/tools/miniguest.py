"""Kernel and initial ramdisk of the OS definition ``mini``: Debian's cloud kernel and a busybox.

::

    apt-get download linux-image-*-cloud-amd64 -> vmlinuz, modules -+
    /bin/busybox (busybox-static) ----------------------------------+-> DIRECTORY/vmlinuz, DIRECTORY/initrd.gz
    os/mini/guest-init ---------------------------------------------+

The files are the same for every instance: they are made once per machine and named by the OS parameter ``files``.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import posixpath
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ganeti import errors, runtime

KERNEL_PACKAGE = "linux-image-cloud-amd64"
BUSYBOX = "/bin/busybox"
KERNEL_FILE, INITRD_FILE, STAMP_FILE = "vmlinuz", "initrd.gz", "made-from"

# In the order in which they must be loaded: disks, NICs, balloon, power button.
MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_balloon",
    "evdev",
    "button",
)

_DOWNLOAD_SECONDS = 600.0
_FILE_LIMIT = 256 * 1024 * 1024
_DEVICE_MODE = 0o020600
_FILE_MODE = 0o100000
_DIR_MODE = 0o040755


class Entry(NamedTuple):
    """A member of an archive; ``device``: (major, minor) of a character device."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def Cpio(entries: Iterable[Entry]) -> bytes:
    """An archive in the format that the kernel unpacks (newc)."""
    parts = []
    for number, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], 1):
        name = entry.name.encode() + b"\0"
        fields = [number, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, *entry.device, len(name), 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        parts += [head, bytes(-len(head) % 4), entry.data, bytes(-len(entry.data) % 4)]
    return b"".join(parts)


def Initrd(busybox: bytes, init: bytes, modules: list[tuple[str, bytes]]) -> bytes:
    """The ramdisk; ``modules`` are (file name, content) in loading order."""
    order = "".join(f"{name}\n" for name, _ in modules).encode()
    entries = [Entry(name, _DIR_MODE) for name in ("bin", "dev", "modules")]
    entries.append(Entry("dev/console", _DEVICE_MODE, device=(5, 1)))
    entries.append(Entry("bin/busybox", _FILE_MODE | 0o755, busybox))
    entries.append(Entry("init", _FILE_MODE | 0o755, init))
    entries.append(Entry("modules/order", _FILE_MODE | 0o644, order))
    entries += [Entry(f"modules/{name}", _FILE_MODE | 0o644, data) for name, data in modules]
    return gzip.compress(Cpio(entries), 6, mtime=0)


def ParseDepends(text: str) -> str:
    """The versioned package behind ``KERNEL_PACKAGE``, from apt-cache depends."""
    for line in text.splitlines():
        key, _, value = line.strip().partition(": ")
        if key == "Depends" and value.startswith("linux-image-"):
            return value.strip()
    raise errors.CommandError(
        f"apt-cache knows no package behind {KERNEL_PACKAGE}; run apt-get update, or check /etc/apt/sources.list"
    )


def Prepare(directory: str, init_path: str, tell: Callable[[str], None] = lambda _: None) -> None:
    """Makes the files in ``directory`` unless they are there, made from the same parts; ``tell`` hears what it does."""
    runtime.MakeDirs(directory)
    busybox, init = _ReadPart(BUSYBOX, "install busybox-static"), _ReadPart(init_path, "take it from the source tree")
    stamp = hashlib.sha256(busybox + init + "\n".join(MODULES).encode()).hexdigest() + "\n"
    paths = [posixpath.join(directory, name) for name in (KERNEL_FILE, INITRD_FILE, STAMP_FILE)]
    if all(runtime.Exists(path) for path in paths) and runtime.ReadText(paths[2], limit=4096) == stamp:
        return
    if b"/lib64/ld-linux" in busybox[:4096]:
        raise errors.CommandError(f"{BUSYBOX} needs libraries, a static one is needed: install busybox-static")
    with runtime.LockFile(posixpath.join(directory, "lock"), timeout=_DOWNLOAD_SECONDS):
        work = posixpath.join(directory, f"work-{runtime.RandomBytes(4).hex()}")
        try:
            kernel, modules = _FetchKernel(work, tell)
            runtime.WriteFile(paths[0], kernel, mode=0o644)
            runtime.WriteFile(paths[1], Initrd(busybox, init, modules), mode=0o644)
            runtime.WriteFile(paths[2], stamp, mode=0o644)
        finally:
            runtime.RemoveTree(work)


def _ReadPart(path: str, advice: str) -> bytes:
    try:
        return runtime.ReadFile(path, limit=_FILE_LIMIT)
    except OSError as err:
        raise errors.CommandError(f"{path} cannot be read ({err.strerror}): {advice}") from err


def _FetchKernel(work: str, tell: Callable[[str], None]) -> tuple[bytes, list[tuple[str, bytes]]]:
    """(kernel, modules in loading order), from Debian's package; nothing is installed."""
    runtime.MakeDirs(work)
    package = ParseDepends(_Run(["apt-cache", "depends", KERNEL_PACKAGE], work))
    tell(f"downloading {package}")
    # As root apt would drop to a user that cannot write here.
    _Run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package], work)
    archives = [name for name in runtime.ListDir(work) if name.endswith(".deb")]
    if len(archives) != 1:
        raise errors.CommandError(f"apt-get download {package} left {len(archives)} files instead of one")
    tell("unpacking it")
    _Run(["dpkg-deb", "-x", archives[0], "tree"], work)
    boot = posixpath.join(work, "tree", "boot")
    kernels = [name for name in runtime.ListDir(boot) if name.startswith("vmlinuz-")]
    if len(kernels) != 1:
        raise errors.CommandError(f"package {package} has {len(kernels)} kernels, one was expected")
    kernel = runtime.ReadFile(posixpath.join(boot, kernels[0]), limit=_FILE_LIMIT)
    found = _FindModules(posixpath.join(work, "tree"))
    # What this kernel has built in is no file.
    return kernel, [(name + ".ko", _ReadModule(found[name])) for name in MODULES if name in found]


def _ReadModule(path: str) -> bytes:
    data = runtime.ReadFile(path, limit=_FILE_LIMIT)
    return lzma.decompress(data) if path.endswith(".xz") else data


def _FindModules(directory: str) -> dict[str, str]:
    """Module name -> path."""
    found: dict[str, str] = {}
    for name in runtime.ListDir(directory):
        path = posixpath.join(directory, name)
        if runtime.IsDir(path) and not _IsLink(path):
            found.update(_FindModules(path))
        elif name.endswith((".ko", ".ko.xz")):
            found[name.partition(".ko")[0].replace("-", "_")] = path
    return found


def _IsLink(path: str) -> bool:
    try:
        runtime.ReadLink(path)
    except OSError:
        return False
    return True


def _Run(argv: list[str], cwd: str) -> str:
    result = runtime.RunCmd(argv, cwd=cwd, timeout=_DOWNLOAD_SECONDS)
    if result.failed:
        raise errors.CommandError(result.fail_reason)
    return result.stdout
