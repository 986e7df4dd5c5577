"""Does a guest really run with /dev/kvm here?

The device may exist and accept guests that then never get anywhere: some clouds emulate kernel code instruction by
instruction.  So a boot sector is run that switches to 64-bit mode, counts to a hundred million and says so: a moment
for real virtualization, hours for such an emulation.  The verdict is kept until the machine or QEMU changes.
"""

from __future__ import annotations

import posixpath

from ganeti import errors, pathutils, runtime, serializer
from ganeti.hypervisor.kvm.options import Opt

KVM_DEVICE = "/dev/kvm"
LIMIT_SECONDS = 5.0
_VALUE = 42
# isa-debug-exit ends QEMU with this exit code when the guest writes _VALUE to it.
SUCCESS_EXIT_CODE = (_VALUE << 1) | 1
_DEBUG_PORT = 0xF4
_CACHE_LIMIT = 64 * 1024

# At 0x7c00, 16 bit.  Tables at 0x1000, 0x2000, 0x3000 map the first 2 MiB onto themselves.
_CODE = bytes.fromhex(
    "fa"  # cli
    "31c0 8ed8 8ec0 8ed0 bc007c fc"  # all segments 0, stack below the code, upwards
    "bf0010 b90018 f3ab"  # clear the tables
    "c70600100320 c70600200330 c70600308300"  # PML4[0] -> PDPT[0] -> PD[0]: a 2 MiB page
    "66b820000000 0f22e0"  # CR4: physical address extension
    "66b800100000 0f22d8"  # CR3: the tables
    "66b9800000c0 0f32 0d0001 0f30"  # EFER: long mode
    "0f20c0 660d01000080 0f22c0"  # CR0: protection and paging
    "0f0116807c ea5c7c0800"  # descriptor table at 0x7c80, far jump to 0x7c5c
    "b900e1f505 ffc9 75fc"  # 64 bit: count 100000000 down
    "b02a e6f4 f4 ebfd"  # write 42 to port 0xf4; halt
)
_DESCRIPTORS = bytes.fromhex("0000000000000000 ffff0000009aaf00")  # null, 64-bit code
_DESCRIPTOR_TABLE = bytes.fromhex("0f00 707c0000")


def BootSector() -> bytes:
    """512 bytes that a PC boots."""
    image = bytearray(512)
    image[: len(_CODE)] = _CODE
    image[0x70 : 0x70 + len(_DESCRIPTORS)] = _DESCRIPTORS
    image[0x80 : 0x80 + len(_DESCRIPTOR_TABLE)] = _DESCRIPTOR_TABLE
    image[510:] = b"\x55\xaa"
    return bytes(image)


def BuildCommand(kvm_path: str, accel: str, image: str) -> list[str]:
    """Return the command that runs the boot sector in the file ``image``."""
    argv = [kvm_path, "-accel", accel, "-m", "16", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-device", Opt("isa-debug-exit", {"iobase": hex(_DEBUG_PORT), "iosize": 4})]
    disk = {"driver": "raw", "node-name": "boot", "read-only": False, "file.driver": "file", "file.filename": image}
    return [*argv, "-blockdev", Opt("", disk), "-device", Opt("ide-hd", {"drive": "boot"})]


def Run(kvm_path: str, accel: str, directory: str, limit: float = LIMIT_SECONDS) -> bool:
    """Return whether the boot sector finished with this accelerator within ``limit`` seconds.

    Its image lies in ``directory`` meanwhile.
    """
    runtime.MakeDirs(directory)
    image = posixpath.join(directory, f"kvm-probe-{runtime.RandomBytes(4).hex()}.img")
    runtime.WriteFile(image, BootSector(), sync=False)
    try:
        return runtime.RunCmd(BuildCommand(kvm_path, accel, image), timeout=limit).exit_code == SUCCESS_EXIT_CODE
    finally:
        runtime.RemoveFile(image)


def KvmWorks(kvm_path: str) -> bool:
    """Return whether guests of this node run with KVM; tested once per boot of the machine and release of QEMU."""
    if not runtime.Exists(KVM_DEVICE):
        return False
    boot_id = runtime.ReadText("/proc/sys/kernel/random/boot_id", limit=4096).strip()
    key = f"{boot_id} {kvm_path} {runtime.Stat(kvm_path).st_mtime_ns}"
    cache = posixpath.join(pathutils.RUN_EXT_DIR, "kvm-probe.json")
    try:
        known = serializer.Load(runtime.ReadFile(cache, limit=_CACHE_LIMIT))
        if isinstance(known, dict) and isinstance(known.get(key), bool):
            return bool(known[key])
    except (OSError, errors.ParseError):
        pass
    works = Run(kvm_path, "kvm", pathutils.RUN_EXT_DIR)
    runtime.WriteFile(cache, serializer.DumpBytes({key: works}), mode=0o644, sync=False)
    return works
