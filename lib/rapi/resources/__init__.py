"""All resources, in the order of documents; one module for each area."""

from __future__ import annotations

from ganeti.rapi.declared import Resource
from ganeti.rapi.resources import root

RESOURCES: tuple[Resource, ...] = (*root.RESOURCES,)
