"""What can be asked: fields of every kind of object, and filters over them; pure, no I/O.

::

    text --(query.text)--> JSON filter --(query.filters)--> test
    fields + filter + snapshot --(query.engine.Plan)--> items and live parts still needed
    plan + live data --> rows of [status, value]

Glossary

* kind -- node, instance, group, network, job, lock, filter, export, cluster, os, extstorage
* live -- known to the nodes only (or to the lock monitor), collected when asked for
* status -- whether a value is normal, unknown, not available, or on an offline node
"""

from __future__ import annotations

from importlib import import_module

from ganeti.query.base import Kind

# Kind -> (module, name); loaded when asked for, so that a command pays for one kind only.
_KINDS = {
    "node": ("node", "KIND"),
    "instance": ("instance", "KIND"),
    "group": ("group", "KIND"),
    "network": ("network", "KIND"),
    "job": ("job", "KIND"),
    "lock": ("lock", "KIND"),
    "filter": ("rule", "KIND"),
    "export": ("export", "KIND"),
    "cluster": ("cluster", "KIND"),
    "os": ("os", "OS"),
    "extstorage": ("os", "EXTSTORAGE"),
}
KIND_NAMES = tuple(_KINDS)


def GetKind(name: str) -> Kind:
    """Return the kind of this name; KeyError if there is none."""
    module, attribute = _KINDS[name]
    kind: Kind = getattr(import_module(f"ganeti.query.{module}"), attribute)
    return kind
