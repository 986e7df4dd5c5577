"""Parameters: one table per family, the checks a master can do, and how values are inherited.

::

    hv      cluster < OS < instance                 hypervisor: one table each, traits, files to ship
    be      cluster < instance                      memory, CPUs
    nic     cluster < NIC                           mode, link, vlan
    nd      cluster < group < node                  node; tables of their recorded state
    nodestate  cluster < group < node               recorded state of nodes, what is in force
    disk    constants < cluster < group < disk      disk templates: tables, traits, device names
    ipolicy cluster < group                         bounds for instances
    (OS)    cluster by OS < by OS+variant < instance

    types   Param, Check, ForceDictType             one declaration: type, default, check, help
    fill    FillHV FillBE FillNIC FillND FillOS FillDisk FillIPolicy   work on objects.Snapshot

Tables are plain data: defaults, type checks, syntax checks, node checks, help and man pages derive from them.

Each kind has one contract: ``SyntaxProblems(values)`` returns every problem as a text for people, none if all is well,
and likewise ``GlobalProblems``.  Nobody here raises because of a wrong value; whoever asked does, with the error that
fits the request.

Glossary:

filled
    every level merged; what checks and nodes see
own, custom
    only what was set on this object; what is stored
global parameter
    one that lower levels cannot override
DT, LD names
    names of disk parameters on the template and on its devices
"""

from typing import TYPE_CHECKING, Any

from ganeti.params.types import (
    FillDict,
    ForceDictType,
    GetUpdatedParams,
    Param,
)

if TYPE_CHECKING:
    from ganeti.params.fill import (
        AnnotateDisk,
        BEDefaults,
        ComputeLDParams,
        FillBE,
        FillDisk,
        FillDiskParams,
        FillHV,
        FillIPolicy,
        FillND,
        FillNDGroup,
        FillNIC,
        FillOS,
        FillOSAll,
        FillOSPrivate,
        HVDefaults,
        OSDefaults,
        SimpleFillNIC,
    )

__all__ = [
    "AnnotateDisk",
    "BEDefaults",
    "ComputeLDParams",
    "FillBE",
    "FillDict",
    "FillDisk",
    "FillDiskParams",
    "FillHV",
    "FillIPolicy",
    "FillND",
    "FillNDGroup",
    "FillNIC",
    "FillOS",
    "FillOSAll",
    "FillOSPrivate",
    "ForceDictType",
    "GetUpdatedParams",
    "HVDefaults",
    "OSDefaults",
    "Param",
    "SimpleFillNIC",
]


def __getattr__(name: str) -> Any:
    """Load how values are filled when it is asked for: programs that know tables alone start without."""
    if name not in __all__:
        raise AttributeError(name)
    from ganeti.params import fill

    value = globals()[name] = getattr(fill, name)
    return value
