"""Fields of the filter rules of the job queue (doc/reference/queries.md 3.7)."""

from __future__ import annotations

from ganeti.objects.base import Thaw
from ganeti.query.base import OTHER, Field, Kind
from ganeti.query.common import Attribute

KIND = Kind(
    "filter",
    "uuid",
    [
        Field("watermark", "Watermark", OTHER, "Last job ID when the rule was set", Attribute("watermark")),
        Field("priority", "Priority", OTHER, "Rules with lower numbers come first", Attribute("priority")),
        Field("predicates", "Predicates", OTHER, "What a job must be like", lambda _, f: Thaw(f.predicates)),
        Field("action", "Action", OTHER, "What happens to such a job", lambda _, f: Thaw(f.action)),
        Field("reason_trail", "ReasonTrail", OTHER, "Who set the rule and why", lambda _, f: Thaw(f.reason_trail)),
        Field("uuid", "UUID", OTHER, "UUID of the rule", Attribute("uuid")),
    ],
    items=lambda context: context.snapshot.filters.values(),
    item_name=lambda rule: rule.uuid,
    by_name=False,
    default_fields="uuid watermark priority predicates action reason_trail",
)
