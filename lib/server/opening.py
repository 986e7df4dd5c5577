"""How masterd opens the cluster's store: vote, election or first history (doc/design-store.rst, 5, 8 and 11)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ganeti import configfile, constants, errors, objects, pathutils, runtime, serializer, upgrade
from ganeti.bootstrap import vote
from ganeti.config import Draft, VotersOf
from ganeti.jqueue import job as jobs
from ganeti.rpc import RpcRunner
from ganeti.rpc.resolver import AddressResolver
from ganeti.store import Member, NodeStore, Row, Store, StoreError, election
from ganeti.store.base import ID_DRAIN, ID_SERIAL, KIND_JOB, KIND_QUEUE, StoredRow
from ganeti.store.files import adopt
from ganeti.store.files.edits import HandEdits
from ganeti.store.files.look import JobFiles, Look

if TYPE_CHECKING:
    from ganeti.rpc import Transport

_CONFIG_LIMIT = 512 * 1024 * 1024
_JOB_LIMIT = 64 * 1024 * 1024
# Seconds in which the voters are informed that what they hold is acknowledged.
_LAST_WORD = 10.0


class Wishes(NamedTuple):
    """The administrator's choices on the command line.  ``ask`` puts a question; None without a terminal.

    ``without``: the names of nodes to give up although they are running.
    """

    no_voting: bool = False
    yes_do_it: bool = False
    take_over: bool = False
    without: frozenset[str] = frozenset()
    ask: Callable[[list[str]], bool] | None = None


class Ears(NamedTuple):
    """The store's callbacks: see store.Store."""

    lost: Callable[[StoreError], None]
    resolve: Callable[[str], Any]
    candidates: Callable[[], Iterable[Member] | None]


def ReadConfigFile() -> objects.Snapshot:
    """Return the configuration in config.data, upgraded if it is one of 2.16 or 3.0.

    ConfigurationError names the file, the reason and the way out; the file stays as it is.
    """
    try:
        snapshot = _ParseConfigFile()
        problems = configfile.StructuralProblems(snapshot)
        if problems:
            raise errors.ConfigurationError("; ".join(problems))
    except OSError as err:
        raise _RefuseConfig(err.strerror or str(err), None) from err
    except (errors.ParseError, errors.ConfigurationError) as err:
        raise _RefuseConfig(str(err), err.hint) from err
    return snapshot


def _ParseConfigFile() -> objects.Snapshot:
    data = serializer.LoadProper(runtime.ReadFile(pathutils.CLUSTER_CONF_FILE, _CONFIG_LIMIT), _CONFIG_LIMIT)
    if not isinstance(data, dict):
        raise errors.ConfigurationError("it holds no JSON object")
    if data.get("version") != constants.CONFIG_VERSION:
        if upgrade.Version(data) < upgrade.V2_16:
            raise errors.ConfigurationError(
                f"it is one of release {upgrade.VersionText(upgrade.Version(data))}",
                hint=f"stop the daemons of all nodes, then run '{pathutils.CFGUPGRADE}' on the master",
            )
        data = upgrade.UpgradeConfig(data)
    return configfile.LoadDict(data)


def _RefuseConfig(reason: str, hint: str | None) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"{pathutils.CLUSTER_CONF_FILE} cannot be used: {reason}",
        hint=hint or "correct it, or put a good copy in its place: every master candidate has one, and so have backups",
    )


def FileRows(snapshot: objects.Snapshot) -> list[Row]:
    """Return the rows of the files of a 3.x cluster: configuration, live jobs, last job id, drain flag.

    A job file that cannot be read is left where it is and logged; the exporter sets it aside.
    """
    rows = [Row(*row) for row in snapshot.ToRows()]
    highest = 0
    for job_id, path in JobFiles().items():
        highest = max(highest, job_id)
        try:
            text = runtime.ReadText(path, _JOB_LIMIT)
            _CheckJob(job_id, text)
        except (OSError, ValueError, errors.JobFileCorrupted) as err:
            logging.error("Job file %s is not taken over: %s", path, err)
            continue
        rows.append(Row(KIND_JOB, str(job_id), text))
    rows.append(Row(KIND_QUEUE, ID_SERIAL, str(max(highest, _Serial()))))
    if runtime.Exists(pathutils.JOB_QUEUE_DRAIN_FILE):
        rows.append(Row(KIND_QUEUE, ID_DRAIN, "true"))
    return rows


def _Serial() -> int:
    path = pathutils.JOB_QUEUE_SERIAL_FILE
    try:
        text = runtime.ReadText(path, 100).strip()
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as err:
        raise errors.JobQueueError(f"{path} cannot be read: {err}") from err
    if not (text.isascii() and text.isdigit()):
        raise errors.JobQueueError(f"{path} holds no number", hint="write the highest job id ever used into it")
    return int(text)


def MembersOf(snapshot: objects.Snapshot) -> list[Member]:
    return [Member(node.uuid, node.name, node.primary_ip) for node in snapshot.nodes.values()]


def _Me(snapshot: objects.Snapshot, own_name: str) -> Member:
    found = snapshot.NodeByName(own_name)
    if found is None:
        raise errors.NotMasterError(
            f"This node, {own_name}, is not in the configuration of cluster {snapshot.cluster.cluster_name}",
            hint="does the machine call itself by another name than when it was added?",
        )
    return Member(found.uuid, found.name, found.primary_ip)


def _CheckJob(job_id: int, text: str) -> None:
    """Raise JobFileCorrupted unless the text is a job file of this job."""
    job, _ = jobs.ReadJob(text)
    if job.id != job_id:
        raise errors.JobFileCorrupted(f"it says that it is job {job.id}")


def _CheckQueueRows(stored: Iterable[tuple[str, str, str]], job_ids: Iterable[str]) -> None:
    """Raise ParseError for what no queue could have written; a single job that cannot be read stays the queue's."""
    for job_id in job_ids:
        if not (job_id.isascii() and job_id.isdigit()):
            raise errors.ParseError(f"'{job_id[:40]}' is not a job id")
    for kind, row_id, value in stored:
        if (kind, row_id) == (KIND_QUEUE, ID_SERIAL) and not (value.isascii() and value.isdigit()):
            raise errors.ParseError("the last job id is not a number")


class Opener:
    """Becomes master, by a vote if that is wanted and by the store's own quorum in any case."""

    election_class: type[election.Election] = election.Election
    edits_class = HandEdits

    def __init__(self, own: NodeStore, transport: Transport, wishes: Wishes, ears: Ears):
        self._own = own
        self._transport = transport
        self._wishes = wishes
        self._ears = ears
        # At the files, while this node served its store already; for the exporter.
        self.look: Look | None = None

    def Open(self) -> tuple[Store, Member]:
        """Open the store and return it with this node; raise GenericError with the exit code of masterd."""
        rows = self._own.ReadChecked((*objects.ROW_KINDS, KIND_QUEUE))
        if self._own.GetState().last.seq or self._wishes.take_over:
            return self._Become(rows)
        return self._Found()

    def _OwnSnapshot(self, rows: list[StoredRow]) -> objects.Snapshot:
        """Return the configuration in this node's copy; StorageError names the database if it cannot be read."""
        stored = [(row.kind, row.id, row.value) for row in rows if row.value is not None]
        try:
            _CheckQueueRows(stored, self._own.Ids(KIND_JOB))
            return objects.Snapshot.FromRows(row for row in stored if row[0] in objects.ROW_KINDS)
        except (errors.ParseError, errors.ConfigurationError) as err:
            raise self._own.Damaged(err) from err

    def _Become(self, rows: list[StoredRow]) -> tuple[Store, Member]:
        if not rows:
            election.CheckVoter(self._own)
        snapshot = self._OwnSnapshot(rows)
        me = _Me(snapshot, self._own.node_name)
        others: list[str] = []
        store = election.BecomeMaster(
            self._own,
            me,
            MembersOf(snapshot),
            self._transport,
            vote=self._Vote(snapshot, stored=True),
            vouch=self._Vouch(),
            first=lambda adopted: self._FirstRows(adopted, me, others),
            resolve=self._ears.resolve,
            lost=self._ears.lost,
            candidates=self._ears.candidates,
            election_class=self.election_class,
        )
        if others:
            self._HandOver(store, others[0])
        return store, me

    def _HandOver(self, store: Store, master: str) -> NoReturn:
        """Raise NotMasterError for a fail-over that was stored, perhaps not everywhere: what this start has acknowledged
        shows everybody who the master is, and that node can start.
        """
        store.Stop(_LAST_WORD)
        raise errors.NotMasterError(
            f"The configuration names {master} as master, not this node: a fail-over that had not become known",
            hint=f"start the master daemon on {master}, or run gnt-cluster master-failover here",
        )

    def _FirstRows(self, adopted: election.Adopted, me: Member, others: list[str]) -> list[Row]:
        """Return the rows of the epoch's first transaction: edits made by hand, the master's name after a fail-over, and
        after a forced start the nodes it was made without are offline.

        Nothing where the history names another node as master: its name is put into ``others``.
        """
        cluster = serializer.Load(adopted.values["cluster"]["cluster"])
        if cluster["master_node"] != me.uuid and not self._wishes.take_over:
            node = serializer.Load(adopted.values["node"].get(cluster["master_node"], "{}"))
            others.append(node.get("name", "another node"))
            if self._wishes.no_voting:
                raise errors.NotMasterError(
                    f"The configuration names {others[0]} as master, not this node",
                    hint=f"start the master daemon on {others[0]}, or run gnt-cluster master-failover here",
                )
            return []
        edits = self.edits_class(self._own, _CheckJob)
        rows = edits.Rows(adopted)
        self.look = edits.look
        values = {
            (kind, row_id): value
            for kind in objects.ROW_KINDS
            for row_id, value in adopted.values.get(kind, {}).items()
        }
        for row in rows:
            if row.kind in objects.ROW_KINDS:
                values.pop((row.kind, row.id), None)
                if row.value is not None:
                    values[(row.kind, row.id)] = row.value
        snapshot = objects.Snapshot.FromRows((*key, value) for key, value in values.items())
        draft = Draft(snapshot, runtime.Time())
        if snapshot.cluster.master_node != me.uuid:
            draft.Touch(snapshot.cluster.Replace(master_node=me.uuid))
        for uuid in adopted.without:
            node = snapshot.nodes.get(uuid)
            if node is not None and not node.offline:
                draft.Touch(node.Replace(offline=True, master_candidate=False, drained=False))
                draft.BumpCluster()
        return [*rows, *draft.Finish()]

    def _Found(self) -> tuple[Store, Member]:
        """Found the store from the cluster's files."""
        snapshot = ReadConfigFile()
        me = _Me(snapshot, self._own.node_name)
        if snapshot.cluster.master_node != me.uuid:
            raise self._NamesAnother(snapshot)
        store = adopt.FoundStore(
            self._own,
            me,
            snapshot.cluster.uuid,
            MembersOf(snapshot),
            VotersOf(snapshot),
            FileRows(snapshot),
            self._transport,
            vote=self._Vote(snapshot, stored=False),
            vouch=self._Vouch(),
            resolve=self._ears.resolve,
            lost=self._ears.lost,
            candidates_now=self._ears.candidates,
            election_class=self.election_class,
        )
        return store, me

    def _NamesAnother(self, snapshot: objects.Snapshot) -> errors.NotMasterError:
        """Return the error of a node whose file names another master and which has no copy of the state."""
        node = snapshot.nodes.get(snapshot.cluster.master_node)
        name = self._own.GetState().promised_master or (node.name if node is not None else "another node")
        return errors.NotMasterError(
            f"{pathutils.CLUSTER_CONF_FILE} names another node as master, and this node holds no copy of the cluster's state:"
            " it is not a master candidate",
            hint=f"'gnt-node modify --master-candidate yes {self._own.node_name}' on the master ({name}) makes it one. If this"
            f" node was removed from the cluster: '{pathutils.NODE_CLEANUP} --yes-do-it' here, then add it again",
        )

    def _Vote(self, snapshot: objects.Snapshot, stored: bool) -> Callable[[], None] | None:
        """Return the vote; ``stored``: the configuration comes from the own copy of the store, not from the files."""
        if self._wishes.no_voting or self._wishes.take_over:
            return None
        addresses = {node.name: node.primary_ip for node in snapshot.nodes.values()}
        runner = RpcRunner(self._transport, AddressResolver(addresses), lambda: None)

        def confirm() -> None:
            try:
                vote.ConfirmMaster(runner, self._own.node_name, list(addresses))
            except vote.VoteLost as err:
                if not stored or snapshot.cluster.master_node != _Me(snapshot, self._own.node_name).uuid:
                    raise
                # Files are written a moment after the store: a fail-over that was cut off may have left them behind
                # everywhere.  Who the newest history names, the promises of a quorum show; if that is another node, this
                # one hands over to it (doc/design-store.rst, 5).
                logging.warning(
                    "%s; its copy of the cluster's state says that it is: asking the others for theirs", err
                )

        return confirm

    def _Vouch(self) -> Callable[[election.ForcedStart], bool] | None:
        return self._Answer if self._wishes.no_voting else None

    def _Answer(self, question: election.ForcedStart) -> bool:
        lines = question.Lines()
        for line in lines:
            logging.warning("%s", line)
        running = [name for name in question.running if name not in self._wishes.without]
        if running:
            return self._GiveUp(question, running)
        if self._wishes.yes_do_it:
            return True
        if self._wishes.ask is not None:
            return self._wishes.ask(lines)
        raise errors.NotMasterError(
            "\n".join(lines),
            hint="if all that is so, start again with --no-voting --yes-do-it, or in the foreground with -f",
        )

    def _GiveUp(self, question: election.ForcedStart, running: list[str]) -> bool:
        """Ask a person about nodes that accept connections, and so are not off: no option answers for all of them."""
        names = ", ".join(running)
        if self._wishes.ask is not None:
            return self._wishes.ask([*question.Lines(), AskGiveUp(names)])
        raise errors.NotMasterError(
            f"no forced start: there is no quorum, and not all other nodes are off: {question.silence}. A second master"
            f" beside {names} would change the same instances",
            hint=question.next_step,
        )


def AskGiveUp(names: str) -> str:
    """Return the plain words for a forced start beside nodes that are running."""
    return (
        f"{names} ARE RUNNING: they accept connections and do not answer this node. If one of them is the master, or follows"
        " one, there will be two masters that start the same instances twice and destroy their disks. Switch these machines"
        " off first. Continue only if you know why they cannot follow a master"
    )
