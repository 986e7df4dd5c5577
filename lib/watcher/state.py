"""What the watcher of a group remembers from run to run: tries, and the nodes' boot ids (doc/reference/files.md 13)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Mapping
from typing import Any

from ganeti import errors, pathutils, runtime, serializer
from ganeti.watcher import volumegroups
from ganeti.watcher.volumegroups import StoredNumber

# Seconds after which tries to start an instance are forgotten.
EXPIRES = 8 * 3600.0
_LIMIT = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Tries:
    """How often jobs were submitted to start an instance, and to clean up after its user; when the last time was.

    The id of the last job of each kind is 0 where there is none, or where it is known that the job did not act.
    """

    restart_count: int = 0
    restart_when: float = 0.0
    cleanup_count: int = 0
    cleanup_when: float = 0.0
    restart_job: int = 0
    cleanup_job: int = 0

    def Restarted(self, now: float, job_id: int = 0) -> Tries:
        return dataclasses.replace(self, restart_count=self.restart_count + 1, restart_when=now, restart_job=job_id)

    def CleanedUp(self, now: float, job_id: int = 0) -> Tries:
        return dataclasses.replace(self, cleanup_count=self.cleanup_count + 1, cleanup_when=now, cleanup_job=job_id)

    @property
    def jobs(self) -> set[int]:
        return {self.restart_job, self.cleanup_job} - {0}

    def Without(self, jobs: Collection[int]) -> Tries:
        """Return the tries without those of jobs that did not act."""
        found = self
        if self.restart_job in jobs:
            found = dataclasses.replace(found, restart_count=max(0, self.restart_count - 1), restart_job=0)
        if self.cleanup_job in jobs:
            found = dataclasses.replace(found, cleanup_count=max(0, self.cleanup_count - 1), cleanup_job=0)
        return found if found.restart_count or found.cleanup_count else NONE

    def IsFresh(self, now: float) -> bool:
        """Return whether the last try still counts; one in the future was made before the clock was set back."""
        return abs(now - max(self.restart_when, self.cleanup_when)) <= EXPIRES

    def ToDict(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.restart_count:
            found |= {"restart_count": self.restart_count, "restart_when": self.restart_when}
            found |= {"restart_job": self.restart_job} if self.restart_job else {}
        if self.cleanup_count:
            found |= {"cleanup_count": self.cleanup_count, "cleanup_when": self.cleanup_when}
            found |= {"cleanup_job": self.cleanup_job} if self.cleanup_job else {}
        return found


NONE = Tries()


@dataclasses.dataclass(frozen=True)
class State:
    """The content of the file.

    ``activations``: node -> jobs that activate disks because it was booted, as far as their end is not known;
    ``volumes``: node -> what is known of its volume groups.
    """

    tries: Mapping[str, Tries]
    boot_ids: Mapping[str, str]
    activations: Mapping[str, frozenset[int]] = dataclasses.field(default_factory=dict)
    volumes: Mapping[str, volumegroups.Known] = dataclasses.field(default_factory=dict)

    def Dump(self) -> bytes:
        instances = {name: self.tries[name].ToDict() for name in sorted(self.tries)}
        nodes: dict[str, dict[str, Any]] = {name: {"bootid": self.boot_ids[name]} for name in sorted(self.boot_ids)}
        for name in sorted(self.activations.keys() & nodes.keys()):
            nodes[name]["activation_jobs"] = sorted(self.activations[name])
        for name in sorted(self.volumes):
            record = nodes.get(name, {}) | volumegroups.Dump(self.volumes[name])
            if record:
                nodes[name] = record
        return serializer.DumpBytes({"instance": instances, "node": nodes})

    def Maintained(self, names: Collection[str], now: float) -> State:
        """Return the state without instances that do not exist, or whose last try is too old to count."""
        kept = {
            name: tries for name, tries in self.tries.items() if name in names and tries != NONE and tries.IsFresh(now)
        }
        return dataclasses.replace(self, tries=kept)

    def Settled(self, idle: Collection[int], unfinished: Collection[int]) -> State:
        """Return the state when it is known which of its jobs did not act, and which have not ended.

        A node with a job that did not act counts as one that was not looked at since it was booted.
        """
        again = {node for node, jobs in self.activations.items() if jobs.intersection(idle)}
        waiting = {node: jobs.intersection(unfinished) for node, jobs in self.activations.items() if node not in again}
        return State(
            {name: known.Without(idle) for name, known in self.tries.items()},
            {node: boot_id for node, boot_id in self.boot_ids.items() if node not in again},
            {node: jobs for node, jobs in waiting.items() if jobs},
            self.volumes,
        )

    @property
    def jobs(self) -> set[int]:
        """Return the jobs whose end is not known."""
        return set[int]().union(*(known.jobs for known in self.tries.values()), *self.activations.values())


EMPTY = State({}, {})


def _ReadTries(record: Any) -> Tries:
    if not isinstance(record, dict):
        return NONE
    restarts, cleanups = (int(StoredNumber(record.get(f"{kind}_count"))) for kind in ("restart", "cleanup"))
    return Tries(
        restarts,
        StoredNumber(record.get("restart_when")),
        cleanups,
        StoredNumber(record.get("cleanup_when")),
        int(StoredNumber(record.get("restart_job"))) if restarts else 0,
        int(StoredNumber(record.get("cleanup_job"))) if cleanups else 0,
    )


def Parse(text: bytes) -> State:
    """Return the state in a file; raise ParseError for one that is not a JSON object.  Wrong records are left out."""
    data = serializer.Load(text)
    if not isinstance(data, dict):
        raise errors.ParseError("it does not hold an object")
    instances, nodes = data.get("instance"), data.get("node")
    tries = {name: _ReadTries(record) for name, record in instances.items()} if isinstance(instances, dict) else {}
    records = {
        name: record for name, record in (nodes.items() if isinstance(nodes, dict) else ()) if isinstance(record, dict)
    }
    known = {name: record for name, record in records.items() if isinstance(record.get("bootid"), str)}
    volumes = {name: volumegroups.Parse(record, runtime.Time()) for name, record in records.items()}
    activations = {name: _ReadJobs(record.get("activation_jobs")) for name, record in known.items()}
    return State(
        {name: value for name, value in tries.items() if value != NONE},
        {name: record["bootid"] for name, record in known.items()},
        {name: jobs for name, jobs in activations.items() if jobs},
        {name: found for name, found in volumes.items() if found != volumegroups.NOTHING},
    )


def _ReadJobs(values: Any) -> frozenset[int]:
    return frozenset(int(StoredNumber(value)) for value in (values if isinstance(values, list) else ())) - {0}


class File:
    """The file of one group, locked until ``Close``; raises LockBusy while another run has it."""

    def __init__(self, group_uuid: str):
        self._path = pathutils.WatcherStateFile(group_uuid)
        self._lock = runtime.LockFile(self._path, timeout=0)

    def Read(self) -> State:
        """Return the state; an empty one if the file is new or damaged."""
        try:
            data = runtime.ReadFile(self._path, _LIMIT)
            return Parse(data) if data else EMPTY
        except (OSError, errors.ParseError) as err:
            logging.warning("%s is damaged and treated as empty: %s", self._path, err)
            return EMPTY

    def Save(self, state: State) -> None:
        """Replace the content; an unchanged file gets a new time only, so that the cleaner does not remove it.

        Raise LockBusy if another run has locked the new file before this one did: it has begun with what was saved.
        """
        data = state.Dump()
        if runtime.ReadFile(self._path) == data:
            now = runtime.Time()
            runtime.SetTimes(self._path, now, now)
        else:
            runtime.WriteFile(self._path, data)
            # The lock is one of the file that was replaced.
            replaced, self._lock = self._lock, runtime.LockFile(self._path, timeout=0)
            replaced.release()

    def Close(self) -> None:
        self._lock.release()
