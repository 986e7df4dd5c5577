"""The real machine.  Each module loads when one of its functions is used for the first time."""

from __future__ import annotations

from typing import Any

_MODULES = {
    "clock": ("Time", "Monotonic", "Sleep", "Random", "RandomBytes"),
    "threads": (
        "Thread",
        "Lock",
        "RLock",
        "Condition",
        "Event",
        "Semaphore",
        "Queue",
        "Local",
        "ThreadName",
        "SetThreadName",
        "ThreadIdent",
    ),
    "files": (
        "ReadFile",
        "ReadRegular",
        "ReadEnd",
        "WriteFile",
        "WriteFiles",
        "CreateFile",
        "Extend",
        "ListDir",
        "Stat",
        "ListStats",
        "Exists",
        "IsDir",
        "MakeDirs",
        "RemoveFile",
        "RemoveFiles",
        "RemoveDir",
        "RemoveTree",
        "Rename",
        "HardLink",
        "Symlink",
        "ReadLink",
        "Chmod",
        "Chown",
        "SetTimes",
        "HoldFolder",
        "IsHeld",
        "DiskFree",
        "DiskSize",
        "LockFile",
    ),
    "database": ("OpenDatabase",),
    "watch": ("WatchFiles",),
    "processes": (
        "RunCmd",
        "KillPrograms",
        "StartProcess",
        "WaitProcess",
        "KillProcess",
        "ProcessAlive",
        "ProcessId",
        "Fork",
        "RunInteractive",
        "Environment",
    ),
    "piped": ("Pipe", "StartProgram"),
    "devices": ("OpenTap", "OpenDevice"),
    "sockets": (
        "HostName",
        "LookupHost",
        "ListenUnix",
        "ConnectUnix",
        "PeerUser",
        "ListenTcp",
        "ConnectTcp",
        "LimitSilence",
        "KeepAlive",
        "OpenUdp",
        "SocketPair",
        "Poller",
        "Waker",
    ),
}

# Function -> module: also the list of what a side offers.
FUNCTIONS = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = FUNCTIONS.get(name)
    if module is None:
        raise AttributeError(f"the runtime has no {name!r}")
    import importlib

    loaded = importlib.import_module(f"ganeti.runtime.real.{module}")
    for each in _MODULES[module]:
        globals()[each] = getattr(loaded, each)
    return globals()[name]
