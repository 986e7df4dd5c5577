"""Instance policies: from options, for people, and as options that set them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import info
from ganeti.cli.parser import Options

MINMAX, STD = "minmax", "std"
VCPU_RATIO, SPINDLE_RATIO, TEMPLATES = "vcpu-ratio", "spindle-ratio", "disk-templates"
# Options of these keys; the second are absent unless they are set, so 'default' removes them of the cluster, too.
_RATIOS = {VCPU_RATIO: "ipolicy_vcpu_ratio", SPINDLE_RATIO: "ipolicy_spindle_ratio"}
_OPTIONAL = {"memory-ratio": "ipolicy_memory_ratio", "max-node-failures": "ipolicy_max_node_failures"}
_SIZES = frozenset(["memory-size", "disk-size"])
SPEC_NAMES = ("memory-size", "cpu-count", "disk-count", "disk-size", "nic-count", "spindle-use")


def ParseSpec(option: str, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of a specification; sizes may have units."""
    from ganeti.utils.text import ParseUnit

    result = {}
    for name, value in values.items():
        if name not in SPEC_NAMES:
            raise errors.OpPrereqError(
                f"Invalid key '{name}' in option {option}",
                errors.ECODE_INVAL,
                hint=f"known are: {', '.join(SPEC_NAMES)}",
            )
        try:
            result[name] = ParseUnit(str(value)) if name in _SIZES else int(value)
        except (errors.UnitParseError, ValueError):
            raise errors.OpPrereqError(
                f"Invalid value '{value}' for '{name}' in option {option}",
                errors.ECODE_INVAL,
                hint="write a size in MiB, or with m, g or t" if name in _SIZES else "write a whole number",
            ) from None
    return result


def _Bounds(groups: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[dict[str, dict[str, int]]]:
    option = "--ipolicy-bounds-specs"
    bounds = []
    for group in groups:
        if isinstance(group, str) or set(group) != {"min", "max"}:
            raise errors.OpPrereqError(
                f"Option {option}: exactly the sections min and max are expected", errors.ECODE_INVAL
            )
        pair = {name: ParseSpec(option, values) for name, values in group.items()}
        for name, spec in pair.items():
            missing = [key for key in SPEC_NAMES if key not in spec]
            if missing:
                raise errors.OpPrereqError(
                    f"Missing {', '.join(missing)} in '{name}' of option {option}", errors.ECODE_INVAL
                )
        bounds.append(pair)
    return bounds


def FromOptions(options: Options, group: bool = False) -> dict[str, Any]:
    """Return the policy of the options, empty if none was given; in a group ``default`` inherits again."""
    policy: dict[str, Any] = {}
    bounds = options.ipolicy_bounds_specs
    if bounds == constants.VALUE_DEFAULT and group:
        policy[MINMAX] = bounds
    elif bounds is not None:
        policy[MINMAX] = _Bounds(bounds)
    std = getattr(options, "ipolicy_std_specs", None)
    if std is not None:
        policy[STD] = ParseSpec("--ipolicy-std-specs", std)
    for key, dest in {**_RATIOS, **_OPTIONAL}.items():
        value = getattr(options, dest)
        if value is not None:
            if value == constants.VALUE_DEFAULT and not group and key in _RATIOS:
                raise errors.OpPrereqError(f"'default' is not allowed for {key} of the cluster", errors.ECODE_INVAL)
            policy[key] = value
    templates = options.ipolicy_disk_templates
    if templates is not None:
        is_default = group and templates == [constants.VALUE_DEFAULT]
        unknown = [] if is_default else [name for name in templates if name not in constants.DISK_TEMPLATES]
        if unknown:
            raise errors.OpPrereqError(
                f"Unknown disk template '{unknown[0]}' in option --ipolicy-disk-templates", errors.ECODE_INVAL
            )
        policy[TEMPLATES] = constants.VALUE_DEFAULT if is_default else list(templates)
    return policy


def Describe(custom: Mapping[str, Any] | None, policy: Mapping[str, Any]) -> info.Pairs:
    """Return the tree of a policy; with ``custom`` (the group's own keys) inherited values are marked."""
    inherited = custom is not None
    own = policy if custom is None else custom

    def shown(key: str, value: Any) -> Any:
        return f"default ({value})" if inherited and key not in own else value

    bounds: Any = [
        info.Pairs([(f"max/{number}", pair["max"]), (f"min/{number}", pair["min"])])
        for number, pair in enumerate(own[MINMAX] if MINMAX in own else policy[MINMAX])
    ]
    if inherited and MINMAX not in own:
        bounds = [info.Pairs([(key, info.WithDefaults({}, spec)) for key, spec in pair]) for pair in bounds]
    tree = info.Pairs([("bounds specs", bounds)])
    if not inherited:
        tree.append((STD, policy[STD]))
    templates = own.get(TEMPLATES, policy[TEMPLATES])
    tree.append(("allowed disk templates", shown(TEMPLATES, ", ".join(templates))))
    for key in (VCPU_RATIO, SPINDLE_RATIO):
        tree.append((key, shown(key, info.FormatInfo(own.get(key, policy[key])))))
    for key in _OPTIONAL:
        if key in policy:
            tree.append((key, shown(key, info.FormatInfo(policy[key]))))
    return tree


def _SpecText(spec: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={spec[name]}" for name in sorted(spec))


def BoundsText(bounds: Sequence[Mapping[str, Mapping[str, Any]]]) -> str:
    """Return ``min:.../max:...//...``, as the option takes it."""
    return "//".join(f"min:{_SpecText(pair['min'])}/max:{_SpecText(pair['max'])}" for pair in bounds)


def StdText(spec: Mapping[str, Any]) -> str:
    return _SpecText(spec)
