"""The opcodes: what clients may ask the cluster to do, each declared once.

::

    client --JSON--> OpCode.FromDict --> job file --> mcpu --> logical unit of the same name (LU for Op)

From the declarations come validation, LUXI and RAPI bodies, command-line help and the tables of the man pages.

Glossary

* summary -- what a job list shows of an opcode: ``INSTANCE_CREATE(web1)``
* private, secret -- dictionaries whose values must not be logged, or not even be stored
"""

from ganeti.opcodes.backup import *  # noqa: F403
from ganeti.opcodes.base import (
    CHANGED_SINCE,
    COMMON_PARAMS,
    OP_MAPPING,
    REDACTED,
    InheritFromParent,
    NameToId,
    OpCode,
    Param,
    ParamSpec,
)
from ganeti.opcodes.cluster import *  # noqa: F403
from ganeti.opcodes.group import *  # noqa: F403
from ganeti.opcodes.instance import *  # noqa: F403
from ganeti.opcodes.network import *  # noqa: F403
from ganeti.opcodes.node import *  # noqa: F403
from ganeti.opcodes.query import *  # noqa: F403
from ganeti.opcodes.systems import *  # noqa: F403
from ganeti.opcodes.tags import *  # noqa: F403
from ganeti.opcodes.test import *  # noqa: F403

__all__ = [
    "CHANGED_SINCE",
    "COMMON_PARAMS",
    "OP_MAPPING",
    "REDACTED",
    "InheritFromParent",
    "NameToId",
    "OpCode",
    "Param",
    "ParamSpec",
    *(cls.__name__ for cls in OP_MAPPING.values()),
]
