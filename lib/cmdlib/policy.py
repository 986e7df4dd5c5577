"""Instance policies of the cluster and of groups: changing them, and who breaks them then (doc/reference/parameters.md 6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ganeti import constants, objects
from ganeti.cmdlib.common import CheckNoProblems, ForceTypes, Invalid
from ganeti.cmdlib.instance.base import PolicyViolations
from ganeti.objects.base import Thaw
from ganeti.params import ipolicy
from ganeti.utils.text import NiceSort

_UNSET = (constants.VALUE_DEFAULT, [constants.VALUE_DEFAULT])


def UpdatedPolicy(old: Mapping[str, Any], changes: Mapping[str, Any], is_group: bool) -> dict[str, Any]:
    """Return ``old`` with the checked changes of a request.

    Bounds, ratios and templates are replaced, ``std`` is merged.  ``default`` removes a key of a group, and of the cluster
    one that need not be there.
    """
    result: dict[str, Any] = Thaw(old)
    for key, value in changes.items():
        optional = key in ipolicy.OPTIONAL_TABLE
        if key not in ipolicy.ALL_KEYS:
            raise Invalid(f"Invalid key in new ipolicy: {key[:60]}", hint=f"known are: {', '.join(ipolicy.ALL_KEYS)}")
        if value in _UNSET or (value is None if optional else not value):
            if not (is_group or optional):
                raise Invalid(f"Can't unset ipolicy attribute '{key}' on the cluster")
            result.pop(key, None)
        else:
            result[key] = _TypedPart(key, value, result, is_group)
    problems = ipolicy.SyntaxProblems(result, is_group)
    CheckNoProblems([text.removeprefix("instance policy: ") for text in problems], "Invalid instance policy")
    return result


def _TypedPart(key: str, value: Any, current: Mapping[str, Any], is_group: bool) -> Any:
    if key in ipolicy.RATIO_TABLE:
        return ForceTypes({key: value}, ipolicy.RATIO_TABLE, subject="ratio")[key]
    if key in ipolicy.OPTIONAL_TABLE:
        return ForceTypes({key: value}, ipolicy.OPTIONAL_TABLE, subject="limit")[key]
    if key == ipolicy.STD:
        if is_group:
            raise Invalid(f"{key} cannot appear in the instance policy of a group")
        return {**current.get(key, {}), **ForceTypes(value, ipolicy.SPEC_TABLE, subject="standard spec")}
    if key == ipolicy.MINMAX:
        if not (isinstance(value, list) and all(isinstance(pair, dict) for pair in value)):
            raise Invalid(f"{key} must be a list of objects with min and max")
        return [
            {end: ForceTypes(spec, ipolicy.SPEC_TABLE, subject="bound") for end, spec in pair.items()} for pair in value
        ]
    return value


def CheckTemplates(policy: Mapping[str, Any], enabled: Collection[str]) -> None:
    """Check that a policy allows enabled disk templates only; a group that names none inherits them."""
    refused = [name for name in policy.get(ipolicy.DISK_TEMPLATES, ()) if name not in enabled]
    if refused:
        raise Invalid(
            "The following disk templates are allowed by the ipolicy, but not enabled on the cluster:"
            f" {', '.join(refused)}"
        )


def NewViolations(
    before: objects.Snapshot, after: objects.Snapshot, instances: Iterable[objects.Instance]
) -> list[str]:
    """Return the names of the instances that fit the policy of their group before and not after."""
    found = []
    for inst in instances:
        node = before.nodes.get(inst.primary_node) if inst.primary_node is not None else None
        if node is None:
            continue
        broken = set(PolicyViolations(after, inst, after.nodegroups[node.group]))
        if broken - set(PolicyViolations(before, inst, before.nodegroups[node.group])):
            found.append(inst.name)
    return NiceSort(found)
