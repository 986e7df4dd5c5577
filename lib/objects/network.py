"""Networks and job filter rules (doc/reference/config.md 10 and 11)."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.objects.base import OPTIONAL, ConfigObject, Field, SerialField, TagsField, TimeField, UuidField

_BITS = ht.TRegex("[01]*")


class Network(ConfigObject):
    """An IPv4 network whose addresses are handed out to NICs; bit strings: config.md 18.2."""

    KIND = "network"

    name: str = Field(ht.TNonEmptyString, since="2.7", doc="unique")
    mac_prefix: str | None = Field(
        ht.TString, default=None, written=OPTIONAL, since="2.7", doc="three octets instead of the cluster's"
    )
    network: str = Field(ht.TString, since="2.7", doc="a.b.c.d/nn")
    network6: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.7")
    gateway: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.7")
    gateway6: str | None = Field(ht.TString, default=None, written=OPTIONAL, since="2.7")
    reservations: str | None = Field(
        _BITS, default=None, written=OPTIONAL, since="2.7", doc="one of 0 and 1 per address: taken by instances"
    )
    ext_reservations: str | None = Field(
        _BITS, default=None, written=OPTIONAL, since="2.7", doc="the same: taken by the administrator"
    )
    uuid: str = UuidField()
    tags: tuple[str, ...] = TagsField()
    ctime: float = TimeField("when it was made")
    mtime: float = TimeField("last change")
    serial_no: int = SerialField()


FILTER_ACTIONS = ("ACCEPT", "PAUSE", "REJECT", "CONTINUE")
RATE_LIMIT = "RATE_LIMIT"


class FilterRule(ConfigObject):
    """A rule about jobs that may start; evaluated in the order of (priority, watermark, uuid)."""

    KIND = "filter"

    watermark: int = Field(ht.TNonNegativeInt, since="2.13", doc="highest job id when the rule was made")
    priority: int = Field(ht.TNonNegativeInt, since="2.13", doc="lower is evaluated first")
    predicates: tuple[Any, ...] = Field(
        ht.TListOf(ht.TItems(ht.TElemOf(("jobid", "opcode", "reason")), ht.TAny)),
        default=(),
        since="2.13",
        doc="list of [name, expression]; all must match",
    )
    action: Any = Field(
        ht.TOr(ht.TElemOf(FILTER_ACTIONS), ht.TItems(ht.TValue(RATE_LIMIT), ht.TPositiveInt)), since="2.13"
    )
    reason_trail: tuple[Any, ...] = Field(
        ht.TListOf(ht.TItems(ht.TString, ht.TString, ht.TInt)), default=(), since="2.13"
    )
    uuid: str = UuidField()

    @property
    def order(self) -> tuple[int, int, str]:
        """Return the key by which rules are evaluated."""
        return (self.priority, self.watermark, self.uuid)
