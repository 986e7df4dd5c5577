"""All resources, in the order of documents; one module for each area."""

from __future__ import annotations

from ganeti.rapi.declared import Resource
from ganeti.rapi.resources import (
    cluster,
    events,
    filters,
    groups,
    instances,
    jobs,
    metrics,
    networks,
    nodes,
    openapi,
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
    *openapi.RESOURCES,
    *events.RESOURCES,
    *metrics.RESOURCES,
)
