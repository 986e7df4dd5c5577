"""What If-Match of a request is compared with, as far as the declarations say it."""

from __future__ import annotations

from collections.abc import Mapping

from ganeti.rapi.declared import Etag, Job, Resource


def Shown(resources: Mapping[str, Resource], resource: Resource) -> list[Resource]:
    """Return the resources whose GET shows what is changed at this one: the object in its path, then the path itself.

    ``resources``: all of them by path.
    """
    paths = dict.fromkeys([_PathOfObject(resource), resource.path])
    return [resources[path] for path in paths if path in resources and _Shows(resources[path])]


def _PathOfObject(resource: Resource) -> str:
    """Return the declared path of what is changed at this one."""
    parts = resource.path.split("/")
    return resource.shown_at or ("/".join(parts[: parts.index("{name}") + 1]) if "{name}" in parts else resource.path)


def _Shows(resource: Resource) -> bool:
    """Return whether there is a GET which shows something itself, not by a job."""
    shown = resource.methods.get("GET")
    return shown is not None and not isinstance(shown.action, Job)


def Changes(resource: Resource, verb: str) -> bool:
    """Return whether If-Match is about what the request changes, or makes a job for, not about what it shows."""
    return verb != "GET" or isinstance(resource.methods[verb].action, Job)


def TakesIfMatch(resources: Mapping[str, Resource], resource: Resource, verb: str) -> bool:
    """Return whether If-Match may name a version here, so that 412 is a possible answer.

    A job compares the version of one object again; what is changed without a job is compared by its values.
    """
    method = resource.methods[verb]
    if not Changes(resource, verb):
        return method.etag is not Etag.NONE
    if resource.version is not None:
        return True
    shown = [found.methods["GET"] for found in Shown(resources, resource)]
    versioned = [found for found in shown if found.etag is not Etag.NONE]
    if not versioned:
        return False
    if isinstance(method.action, Job):
        return versioned[0].etag is Etag.OBJECT
    return versioned[0].answer.Schema().get("type") == "object"
