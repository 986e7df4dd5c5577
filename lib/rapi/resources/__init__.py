"""All resources, in the order of documents; one module for each area."""

from __future__ import annotations

from ganeti.rapi.declared import Resource
from ganeti.rapi.resources import (
    cluster,
    description,
    events,
    filters,
    groups,
    instances,
    jobs,
    metrics,
    networks,
    nodes,
    operations,
    query,
    root,
    tags,
)

RESOURCES: tuple[Resource, ...] = (
    *root.RESOURCES,
    *cluster.RESOURCES,
    tags.CLUSTER,
    *nodes.RESOURCES,
    *instances.RESOURCES,
    *operations.RESOURCES,
    *groups.RESOURCES,
    *networks.RESOURCES,
    *jobs.RESOURCES,
    *query.RESOURCES,
    *filters.RESOURCES,
    *description.RESOURCES,
    *events.RESOURCES,
    *metrics.RESOURCES,
)
