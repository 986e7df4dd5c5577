"""All targets by name."""

from __future__ import annotations

from fuzz.calls import NodeCalls
from fuzz.confd import Datagrams
from fuzz.doors import Luxi, NodeDoor
from fuzz.files import Configuration, JobFile, NodeFiles, RuntimeFiles, StoreDatabase
from fuzz.replies import Replies
from fuzz.rest import RestDoor
from fuzz.target import Target

TARGETS: dict[str, type[Target]] = {
    "config": Configuration,
    "job-files": JobFile,
    "runtime-files": RuntimeFiles,
    "node-files": NodeFiles,
    "databases": StoreDatabase,
    "node-rpc": NodeCalls,
    "replies": Replies,
    "luxi": Luxi,
    "tls": NodeDoor,
    "confd": Datagrams,
    "rest": RestDoor,
}
