"""A whole configuration: how ``config.data`` is read, and what must hold across its objects.

::

    text --LoadConfig--> objects.Snapshot        version, what is missing, what older releases wrote
    Snapshot --StructuralProblems--> texts       no master may start with these
    Snapshot --VerifyConfig--> texts             everything that is wrong; prevents nothing

The objects themselves know nothing of the parameter tables, which both need.
"""

from ganeti.configfile.load import LoadConfig, LoadDict
from ganeti.configfile.verify import StructuralProblems, VerifyConfig

__all__ = ["LoadConfig", "LoadDict", "StructuralProblems", "VerifyConfig"]
