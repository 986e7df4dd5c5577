"""Write numbered blocks to a device and note each one that was acknowledged: numbered.py DEVICE NOTES BLOCKS.

It goes round the first BLOCKS blocks until it is ended or the device fails.  ``numbered.py check DEVICE NOTES BLOCKS``
prints the notes that the device does not bear out.
"""

from __future__ import annotations

import mmap
import os
import sys
import time

SIZE = 4096


def Write(device: str, notes: str, blocks: int) -> None:
    buffer = mmap.mmap(-1, SIZE)
    stream = os.open(device, os.O_RDWR | os.O_DIRECT)
    with open(notes, "a", encoding="ascii", buffering=1) as log:
        number = 0
        while True:
            number += 1
            buffer.seek(0)
            buffer.write(f"{number:16d}".encode() * (SIZE // 16))
            os.pwritev(stream, [buffer], number % blocks * SIZE)
            log.write(f"{number}\n")
            time.sleep(0.02)


def Check(device: str, notes: str, blocks: int) -> None:
    buffer = mmap.mmap(-1, SIZE)
    stream = os.open(device, os.O_RDWR | os.O_DIRECT)
    with open(notes, encoding="ascii") as log:
        acknowledged = [int(line) for line in log if line.endswith("\n")]
    for number in acknowledged[-blocks:]:
        os.preadv(stream, [buffer], number % blocks * SIZE)
        # A later write that nobody acknowledged may stand there.
        if int(buffer[:16]) < number or buffer[:] != buffer[:16] * (SIZE // 16):
            print(f"{number}: {buffer[:16]!r}")
    print(f"checked {len(acknowledged)}")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        Check(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        Write(sys.argv[1], sys.argv[2], int(sys.argv[3]))
