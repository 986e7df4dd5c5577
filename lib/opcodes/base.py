"""What an opcode is: a flat set of declared parameters with types, defaults and docs (doc/reference/opcodes.md 1)."""

from __future__ import annotations

import copy
import re
from typing import Any, ClassVar, Final

from ganeti import constants, errors, ht
from ganeti.opcodes import types

# What the error of a job says whose ``if_match`` does not fit; whoever submitted it recognises it by these words.
CHANGED_SINCE: Final = "was changed since it was looked at"

REDACTED: Final = "<redacted>"


class _Required:
    """Marks a parameter without default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()


class ParamSpec:
    """One declared parameter; on an opcode object reading it gives the value or the default."""

    __slots__ = ("default", "doc", "name", "type")

    def __init__(self, kind: ht.Type, default: Any, doc: str):
        self.name = ""
        self.type = kind
        self.default = default
        self.doc = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: OpCode | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if self.required:
            raise AttributeError(f"{type(instance).__name__}.{self.name} is required and not set")
        # A list or dictionary is given to this opcode alone, so that filling it in place is safe.
        value = copy.copy(self.default)
        instance.__dict__[self.name] = value
        return value

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def private(self) -> bool:
        return self.type.privacy >= ht.PRIVATE

    @property
    def secret(self) -> bool:
        return self.type.privacy == ht.SECRET


def Param(kind: ht.Type, default: Any = REQUIRED, doc: str = "") -> Any:
    """Declares a parameter in the body of an opcode class."""
    return ParamSpec(kind, default, doc)


# Opcode id -> class, filled as the classes are declared.
OP_MAPPING: dict[str, type[OpCode]] = {}

_WORD_START = re.compile("([a-z])([A-Z])")


def NameToId(class_name: str) -> str:
    """``OpInstanceCreate`` -> ``OP_INSTANCE_CREATE``."""
    return _WORD_START.sub(r"\1_\2", class_name).upper()


def _TypeErrorText(name: str, spec: ParamSpec, value: Any) -> str:
    if spec.private:
        return f"parameter '{name}': expected {spec.type.words} (the given value is not shown)"
    return f"parameter '{name}': {spec.type.Problem(value)}"


class OpCode:
    """One operation on the cluster, as clients submit it and job files keep it.

    Attributes are the parameters of the class and the common ones below.  ``OP_DSC_FIELD`` names the parameter shown in
    the summary, ``OP_RESULT`` is the type of the result (None: not checked), ``OP_HOOK`` the path of its hooks,
    ``WITH_LU`` is false where no logical unit exists on purpose.  Jobs of ``URGENT`` opcodes alone start whatever else runs.
    """

    OP_ID: ClassVar[str] = ""
    OP_DSC_FIELD: ClassVar[str | None] = None
    OP_RESULT: ClassVar[ht.Type | None] = None
    OP_HOOK: ClassVar[str | None] = None
    WITH_LU: ClassVar[bool] = True
    URGENT: ClassVar[bool] = False
    OP_PARAMS: ClassVar[dict[str, ParamSpec]] = {}

    dry_run: bool | None = Param(ht.TMaybe(ht.TBool), None, "stop after the prerequisite checks and pre-hooks")
    debug_level: int | None = Param(ht.TMaybe(ht.TNonNegativeInt), None, "debug level")
    priority: int = Param(types.TPriority, constants.OP_PRIO_NORMAL, "queue priority")
    depends: list[Any] | None = Param(ht.TMaybe(types.TDepends), None, "jobs that must end first, and how")
    comment: str | None = Param(ht.TMaybe(ht.TString), None, "free text")
    reason: list[Any] = Param(types.TReason, [], "reason trail: who asked for it and why")
    if_match: str | None = Param(
        ht.TMaybe(types.TVersion), None, "do it only while the object with this UUID has this serial number"
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.OP_ID = NameToId(cls.__name__)
        own = {name: spec for name, spec in vars(cls).items() if isinstance(spec, ParamSpec)}
        cls.OP_PARAMS = {**COMMON_PARAMS, **own}
        OP_MAPPING[cls.OP_ID] = cls

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - self.OP_PARAMS.keys()
        if unknown:
            names = ", ".join(f"'{n}'" for n in sorted(unknown))
            raise errors.OpPrereqError(f"{self.OP_ID}: unknown parameter {names}", errors.ECODE_INVAL)
        self.__dict__.update(values)

    def __repr__(self) -> str:
        shown = ", ".join(f"{n}={REDACTED if self.OP_PARAMS[n].private else v!r}" for n, v in self.__dict__.items())
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpCode) and self.ToDict() == other.ToDict()

    __hash__ = None  # type: ignore[assignment]

    # --- wire ---------------------------------------------------------------------------------------------------------

    def ToDict(self, redact: bool = False) -> dict[str, Any]:
        """Return the flat JSON object of this opcode; ``redact`` replaces the values that must not be stored."""
        result: dict[str, Any] = {"OP_ID": self.OP_ID}
        for name, spec in self.OP_PARAMS.items():
            if spec.required and name not in self.__dict__:
                continue
            value = getattr(self, name)
            if value is None and spec.default is None and name not in _ALWAYS_WRITTEN:
                continue
            if redact and spec.secret and value is not None:
                value = dict.fromkeys(value, REDACTED)
            result[name] = value
        return result

    @staticmethod
    def FromDict(data: Any) -> OpCode:
        """The opcode of a JSON object as clients send it.

        Everything is checked here, so that a wrong request fails before there is a job (doc/reference/opcodes.md 1.4, 3.x).
        Raises errors.ParseError naming the parameter.
        """
        if not isinstance(data, dict):
            raise errors.ParseError(f"An opcode is a JSON object, got {type(data).__name__}")
        op_id = data.get("OP_ID")
        cls = OP_MAPPING.get(op_id) if isinstance(op_id, str) else None
        if cls is None:
            raise errors.ParseError(f"Unknown opcode {str(op_id)[:100]!r} in OP_ID")
        values: dict[str, Any] = {}
        for name, value in data.items():
            if name == "OP_ID":
                continue
            spec = cls.OP_PARAMS.get(name)
            if spec is None:
                raise errors.ParseError(f"{op_id}: unknown parameter {str(name)[:100]!r}")
            if value is None and not spec.required and spec.default is not None:
                continue  # null means the default
            if not spec.type(value):
                raise errors.ParseError(f"{op_id}: {_TypeErrorText(name, spec, value)}")
            values[name] = value
        missing = [n for n, s in cls.OP_PARAMS.items() if s.required and n not in values]
        if missing:
            raise errors.ParseError(f"{op_id}: required parameter {', '.join(map(repr, missing))} is missing")
        return cls(**values)

    # --- checks -------------------------------------------------------------------------------------------------------

    def Validate(self, set_defaults: bool = True) -> None:
        """Checks every parameter; ``set_defaults`` also replaces null where the default is something else.

        Raises OpPrereqError(wrong_input).
        """
        for name, spec in self.OP_PARAMS.items():
            if spec.required and name not in self.__dict__:
                raise errors.OpPrereqError(f"Required parameter '{self.OP_ID}.{name}' is missing", errors.ECODE_INVAL)
            value = getattr(self, name)
            if value is None and set_defaults and not spec.required and spec.default is not None:
                value = copy.copy(spec.default)
                setattr(self, name, value)
            if not spec.type(value):
                raise errors.OpPrereqError(f"{self.OP_ID}: {_TypeErrorText(name, spec, value)}", errors.ECODE_INVAL)

    def CheckResult(self, result: Any) -> None:
        """Raises OpResultError when a logical unit returned something else than its opcode declares."""
        if self.OP_RESULT is not None and not self.OP_RESULT(result):
            text = repr(result)[:200]
            raise errors.OpResultError(f"Opcode result does not match {self.OP_RESULT} for {self.OP_ID}: {text}")

    # --- for people ---------------------------------------------------------------------------------------------------

    def Summary(self) -> str:
        """Return the text shown for a job, such as ``INSTANCE_CREATE(web1.example.com)``."""
        text = self.OP_ID.removeprefix("OP_")
        if self.OP_DSC_FIELD is None:
            return text
        value = getattr(self, self.OP_DSC_FIELD, None)
        return f"{text}({self._FormatSummary(value)})"

    def _FormatSummary(self, value: Any) -> str:
        if isinstance(value, (list, tuple)):
            return ",".join(str(v) for v in value)
        return str(value)

    def Secrets(self) -> dict[str, dict[str, Any]]:
        """Return the values that must not be stored, by parameter."""
        return {
            n: getattr(self, n) for n, s in self.OP_PARAMS.items() if s.secret and getattr(self, n, None) is not None
        }


COMMON_PARAMS: dict[str, ParamSpec] = {n: s for n, s in vars(OpCode).items() if isinstance(s, ParamSpec)}
OpCode.OP_PARAMS = COMMON_PARAMS

# 3.x writes these also when they are unset (doc/reference/opcodes.md 1.3).
_ALWAYS_WRITTEN = frozenset(["depends", "comment"])


def InheritFromParent(child: OpCode, parent: OpCode) -> None:
    """Fills a generated opcode from the one that generated it (doc/reference/opcodes.md 1.5).

    A priority the child was made with is kept.
    """
    child.debug_level = parent.debug_level
    if "priority" not in child.__dict__:
        child.priority = parent.priority
    if child.comment is None:
        child.comment = f"Submitted by {parent.OP_ID}"
    child.reason = [*child.reason, *parent.reason]
