"""Encodings of arguments: the shape each has on the wire, and which function writes it.

Pure facts: the functions themselves stand in ``encoders``, since they need configuration objects and the node needs
only the shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ganeti import ht
from ganeti.utils import oob

MAX_NAME = 4096


@dataclass(frozen=True, slots=True)
class Encoding:
    """``wire`` is what a node accepts; ``per_node``: the encoded value depends on the target node."""

    name: str
    wire: ht.Type
    per_node: bool = False


def _IsName(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        return False
    return not any(char < " " or char == "\x7f" for char in value)


def _Within(inner: ht.Type, limit: int) -> ht.Type:
    """Return the type of numbers of kind ``inner`` that a system call takes: within ``limit`` of zero."""
    return ht.Type(str(inner), lambda v: inner(v) and -limit <= v <= limit, inner.Schema())


# Names end up in file names, lines of files and logs: a control character has no place in one.
_NAME = ht.Type("name", _IsName, {"type": "string", "maxLength": MAX_NAME})
_INT = _Within(ht.TInt, 2**63 - 1)
_SIZE = _Within(ht.TNonNegativeInt, 2**63 - 1)
_TIME = _Within(ht.TFloat, 2**33)
# Read, write and execute: nothing that the cluster distributes gives its reader other rights.
_MODE = ht.TMaybe(_Within(ht.TNonNegativeInt, 0o777))
_PATH = ht.Type("path", lambda v: _NAME(v) and v.startswith("/"), {"type": "string", "pattern": "^/"})
_OBJECT = ht.Type("object", lambda v: isinstance(v, dict) and all(isinstance(k, str) for k in v), {"type": "object"})
_PARAMS_BY_HV = ht.TDictOf(ht.TString, _OBJECT)
_BLOB = ht.TItems(ht.TElemOf([0, 1]), ht.TString)
_DISKS = ht.TListOf(_OBJECT)
_TRAIL = ht.TListOf(ht.TItems(ht.TString, ht.TMaybe(ht.TString), ht.TNonNegativeInt))
_USER = ht.TMaybe(_NAME)
_FILE_ITEMS = ht.TItems(_PATH, _BLOB, _MODE, _USER, _USER, _TIME, _TIME)
_STORAGE_UNITS = ht.TListOf(ht.TItems(ht.TString, ht.TMaybe(ht.TString), ht.TMaybe(ht.TList)))

_ALL = (
    # plain values
    Encoding("any", ht.TAny),
    Encoding("bool", ht.TBool),
    Encoding("int", _INT),
    Encoding("size", _SIZE),
    Encoding("size?", ht.TMaybe(_SIZE)),
    Encoding("seconds", _Within(ht.TNonNegativeFloat, 2**31)),
    Encoding("time", _TIME),
    Encoding("time?", ht.TMaybe(_TIME)),
    Encoding("mode", _MODE),
    Encoding("str", ht.TString),
    Encoding("str?", ht.TMaybe(ht.TString)),
    Encoding("name", _NAME),
    Encoding("name?", ht.TMaybe(_NAME)),
    Encoding("user", _USER),
    Encoding("path", _PATH),
    Encoding("path or URL", _NAME),
    Encoding("address", _NAME),
    Encoding("port", ht.Type("port", lambda v: ht.TInt(v) and 0 < v < 65536, {"type": "integer"})),
    Encoding("[str]", ht.TListOf(ht.TString)),
    Encoding("[path]", ht.TListOf(_PATH)),
    Encoding("[name]", ht.TListOf(_NAME)),
    Encoding("list", ht.TList),
    Encoding("list?", ht.TMaybe(ht.TList)),
    Encoding("{}", _OBJECT),
    Encoding("{str: str}", ht.TDictOf(ht.TString, ht.TString)),
    Encoding(
        "{str: str?}", ht.TMaybe(ht.TDictOf(ht.TString, ht.TMaybe(ht.TOr(ht.TString, ht.TInt, ht.TFloat, ht.TBool))))
    ),
    Encoding("{hv: {}}", _PARAMS_BY_HV),
    Encoding("ssconf values", ht.TDictOf(_NAME, ht.TOr(ht.TString, ht.TListOf(ht.TString)))),
    Encoding("phase", ht.TElemOf(["pre", "post"])),
    Encoding("reboot type", ht.TElemOf(["soft", "hard"])),
    Encoding("hot action", ht.TElemOf(["hotadd", "hotremove", "hotmod"])),
    Encoding("hot device", ht.TElemOf(["nic", "disk"])),
    Encoding("add or remove", ht.TElemOf(["add", "remove"])),
    Encoding("oob command", ht.TElemOf(oob.COMMANDS)),
    Encoding("tokens", ht.TListOf(ht.TItems(ht.TString, ht.TString, ht.TAny))),
    Encoding("renames", ht.TListOf(ht.TItems(_PATH, _PATH))),
    # objects
    Encoding("OBJ", _OBJECT),
    Encoding("INST", _OBJECT, per_node=True),
    Encoding("INST+osp", _OBJECT, per_node=True),
    Encoding("INST for IO", _OBJECT, per_node=True),
    Encoding("INST+hvp,bep", _OBJECT, per_node=True),
    Encoding("DISK", _OBJECT, per_node=True),
    Encoding("[DISK]", _DISKS, per_node=True),
    Encoding("[DISK] by node", _DISKS, per_node=True),
    Encoding("[[DISK, id]]", ht.TListOf(ht.TItems(_OBJECT, ht.TList)), per_node=True),
    Encoding("[DISK or false]", ht.TListOf(ht.TOr(_OBJECT, ht.TValue(False))), per_node=True),
    Encoding("NIC or DISK", _OBJECT, per_node=True),
    Encoding("IO", ht.TItems(ht.TElemOf(["file", "raw", "script"]), ht.TList), per_node=True),
    Encoding("storage units", ht.TMaybe(_STORAGE_UNITS), per_node=True),
    Encoding("hv specs", ht.TMaybe(ht.TListOf(ht.TItems(ht.TString, _OBJECT)))),
    # files
    Encoding("BLOB", _BLOB),
    Encoding("FILE", _FILE_ITEMS),
    Encoding("vpath", _PATH),
    Encoding("vpath renames", ht.TListOf(ht.TItems(_PATH, _PATH))),
    Encoding("TRAIL", _TRAIL),
)

ENCODINGS: dict[str, Encoding] = {encoding.name: encoding for encoding in _ALL}

OBJECTS = frozenset(
    name
    for name in ENCODINGS
    if name.startswith(("OBJ", "INST", "DISK", "NIC", "IO", "[DISK", "[[DISK", "{str", "[str]"))
)
"""Encodings of objects of the configuration and of lists and dictionaries of texts that go to the system."""
