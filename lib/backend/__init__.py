"""What a node does: one function per procedure of ``rpc.procedures``, by subject.

::

    rpc.server.Dispatcher --> Handlers()[name](*args) --> a module's function --> storage, hypervisor, runtime.RunCmd
                                  ^
       each module below has HANDLERS: {procedure: function}

A function gets arguments whose shapes were checked against the table, returns the payload, and raises a GenericError
(``errors.RpcCallError`` if nothing fits better) whose text names the object, what happened and what to do.  It keeps
nothing in memory: the next call may be served by another process.  Programs are run by ``runtime.RunCmd`` only; their
command lines are built, and their output read, by pure functions.

Glossary

* virtual path -- a path as it travels between the nodes of a virtual cluster (``pathutils``)
* demote -- to stop keeping what only master candidates keep
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ganeti import errors
from ganeti.storage import looks

MODULES = (
    "node",
    "master",
    "files",
    "verify",
    "programs",
    "trust.certificates",
    "trust.renewing",
    "trust.sshkeys",
    "trust.sshrenewal",
    "instance",
    "migration",
    "blockdev",
    "drbd",
    "storage",
    "filestorage",
    "exports",
    "guestos.osdef",
    "guestos.osrun",
    "guestos.package",
    "transfer",
)


def Handlers() -> dict[str, Callable[..., Any]]:
    """Return every procedure of this node but the store's."""
    handlers: dict[str, Callable[..., Any]] = {}
    for name in MODULES:
        module = importlib.import_module(f"{__name__}.{name}")
        twice = sorted(handlers.keys() & module.HANDLERS.keys())
        if twice:
            raise errors.ProgrammerError(f"backend.{name} repeats procedures of another module: {', '.join(twice)}")
        handlers.update(module.HANDLERS)
    return {name: _Sharing(handler) for name, handler in handlers.items()}


def _Sharing(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Let everything that one call looks at be looked at once (``storage.looks``)."""

    @functools.wraps(handler)
    def serve(*args: Any) -> Any:
        with looks.Sharing():
            return handler(*args)

    return serve
