"""The guest of a laboratory's instance: writes numbered blocks to its disk for as long as it runs on this node.

    writer.py write LABEL INSTANCE NODE COUNT FIRST     node NODE of COUNT (from 0); the first number to use
    writer.py read LABEL DEVICE < OFFSETS               print "OFFSET NODE NUMBER" for each; "OFFSET bad" otherwise
    writer.py record LABEL INSTANCE                     the guest is ``guest.asm`` in QEMU: report what its console says
    writer.py sectors LABEL DEVICE < OFFSETS            print "OFFSET START NUMBER" for each; "OFFSET bad" otherwise

Each acknowledged write is reported outside the node (the port ``writes``) as "LABEL NUMBER OFFSET" before the next one
begins.  Blocks of different nodes, or of different starts of ``guest.asm``, never share a place, and a number is used
once: what is read can be judged without knowing in which order two nodes wrote.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import socket
import sys
import time
from collections.abc import Callable

BLOCK = 4096
# So many places over the whole disk are written again and again.
PLACES = 1024
PAUSE = 0.02
RECORDS = "/run/ganeti/fake-hypervisor"
LINKS = "/run/ganeti/instance-disks"
CONSOLES = "/run/ganeti/kvm-hypervisor/ctrl"
# Of guest.asm: a number has the start in its highest byte; each start has so many sectors for itself.
SECTOR = 512
START = 24
SECTORS_OF_START = 2048
_NUMBER = re.compile(rb"[0-9a-f]{8}\n")


def Content(label: str, node: int, number: int, offset: int) -> bytes:
    """Return a block that says everywhere what it is, so that half a block is noticed."""
    line = f"{label} {node} {number} {offset}\n".encode()
    return (line * (BLOCK // len(line) + 1))[:BLOCK]


def Parse(label: str, offset: int, block: bytes) -> tuple[int, int] | None:
    """Return node and number of a whole block of this label at this place."""
    try:
        found_label, node, number, found_offset = block[: block.index(b"\n")].decode().split()
        whole = Content(found_label, int(node), int(number), int(found_offset))
    except ValueError:
        return None
    if found_label != label or int(found_offset) != offset or whole != block:
        return None
    return int(node), int(number)


def Place(number: int, node: int, count: int, size: int) -> int:
    """Return the offset of write ``number`` in a disk of ``size`` bytes."""
    groups = size // BLOCK // count
    step = max(1, groups // PLACES)
    return (number * step % groups * count + node) * BLOCK


def Runs(instance: str, records: str = RECORDS) -> bool:
    """Whether the guest runs here: neither on its way here nor gone elsewhere."""
    try:
        with open(f"{records}/{instance}", encoding="ascii") as stream:
            return len(stream.read().split()) == 3
    except OSError:
        return False


def Buffer() -> mmap.mmap:
    """Return memory that is aligned as O_DIRECT needs it."""
    return mmap.mmap(-1, BLOCK)


def WriteOne(device: str, label: str, node: int, count: int, number: int, memory: mmap.mmap) -> int:
    """Write a block and return its offset.  The disk is open only meanwhile: nobody finds it in use afterwards."""
    handle = os.open(device, os.O_RDWR | os.O_DIRECT | os.O_SYNC)
    try:
        offset = Place(number, node, count, os.lseek(handle, 0, os.SEEK_END))
        memory[:] = Content(label, node, number, offset)
        if os.pwritev(handle, [memory], offset) != BLOCK:
            raise OSError("short write")
    finally:
        os.close(handle)
    return offset


def Write(label: str, instance: str, node: int, count: int, number: int) -> None:
    memory = Buffer()
    report = os.open(_Port(), os.O_WRONLY)
    while True:
        if Runs(instance):
            try:
                offset = WriteOne(f"{LINKS}/{instance}:0", label, node, count, number, memory)
            except OSError as err:
                print(f"write {number}: {err}", file=sys.stderr, flush=True)
                time.sleep(0.2)
            else:
                os.write(report, f"{label} {number} {offset}\n".encode())
            # A number whose write failed may be on the disk as well.
            number += 1
        time.sleep(PAUSE)


def _Port() -> str:
    folder = "/sys/class/virtio-ports"
    for name in os.listdir(folder):
        with open(f"{folder}/{name}/name", encoding="ascii") as stream:
            if stream.read().strip() == "writes":
                return f"/dev/{name}"
    raise SystemExit("writer: there is no port")


def Read(device: str, size: int, parse: Callable[[int, bytes], tuple[int, int] | None]) -> None:
    memory = Buffer()
    handle = os.open(device, os.O_RDONLY | os.O_DIRECT)
    for line in sys.stdin:
        offset = int(line)
        got = os.preadv(handle, [memoryview(memory)[:size]], offset)
        print(offset, *(parse(offset, memory[:got]) or ("bad",)))
    os.close(handle)


# --- a guest in QEMU ------------------------------------------------------------------------------------------------------


def SectorOffset(number: int) -> int:
    """Return the offset of a write of ``guest.asm``."""
    return ((number >> START) * SECTORS_OF_START + number % SECTORS_OF_START) * SECTOR


def ParseSector(offset: int, sector: bytes) -> tuple[int, int] | None:
    """Return start and number of a sector that is written as a whole and belongs to this place."""
    number = int.from_bytes(sector[:4], "little")
    if sector != sector[:4] * (SECTOR // 4) or SectorOffset(number) != offset:
        return None
    return number >> START, number


def Record(label: str, instance: str) -> None:
    report = os.open(_Port(), os.O_WRONLY)
    while True:
        # The guest is not here, or has left.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as console:
            console.connect(f"{CONSOLES}/{instance}.serial")
            with console.makefile("rb") as stream:
                for line in stream:
                    # A guest may leave in the middle of a number: its end, said elsewhere, is none.
                    if _NUMBER.fullmatch(line):
                        number = int(line, 16)
                        os.write(report, f"{label} {number} {SectorOffset(number)}\n".encode())
        time.sleep(PAUSE)


if __name__ == "__main__":
    what, name, target, *rest = sys.argv[1:]
    if what == "write":
        Write(name, target, *map(int, rest))
    elif what == "read":
        Read(target, BLOCK, lambda offset, block: Parse(name, offset, block))
    elif what == "record":
        Record(name, target)
    else:
        Read(target, SECTOR, ParseSector)
