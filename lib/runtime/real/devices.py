"""Network interfaces that programs serve, and descriptors made to be handed on."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import BinaryIO

_TUN_DEVICE = "/dev/net/tun"
_NAME_BYTES = 16

# linux/if_tun.h
_TUNSETIFF = 0x400454CA
_TUNGETFEATURES = 0x800454CF
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_IFF_MULTI_QUEUE = 0x0100


class Tap:
    """An interface and its descriptors, one per queue."""

    def __init__(self, name: str, fds: list[int]):
        self.name = name
        self.fds = fds

    def Close(self) -> None:
        """Close our descriptors; the interface stays while another program has one."""
        while self.fds:
            os.close(self.fds.pop())


def OpenTap(name: str, vnet_hdr: bool, queues: int) -> Tap:
    if len(name.encode()) >= _NAME_BYTES:
        raise OSError(f"interface name {name!r} is longer than {_NAME_BYTES - 1} bytes")
    tap = Tap(name, [])
    try:
        for _ in range(queues):
            handle = os.open(_TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC)
            tap.fds.append(handle)
            tap.name = _Attach(handle, tap.name, vnet_hdr, queues > 1)
    except BaseException:
        tap.Close()
        raise
    return tap


def _Attach(handle: int, name: str, vnet_hdr: bool, multi_queue: bool) -> str:
    known = struct.unpack("I", fcntl.ioctl(handle, _TUNGETFEATURES, struct.pack("I", 0)))[0]
    flags = _IFF_TAP | _IFF_NO_PI
    if vnet_hdr and known & _IFF_VNET_HDR:
        flags |= _IFF_VNET_HDR
    if multi_queue:
        flags |= _IFF_MULTI_QUEUE
    answer = fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    return answer[:_NAME_BYTES].rstrip(b"\0").decode()


def OpenDevice(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC), "r+b", buffering=0)
