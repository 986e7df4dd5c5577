"""Nodes with stores and a direct wire between them: each node serves calls on a thread of its own, through its Dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulated import World

from ganeti import runtime
from ganeti.rpc.base import Answer, Failure, Request
from ganeti.rpc.server import Dispatcher
from ganeti.store import Member, NodeStore, election
from ganeti.store.base import Row
from ganeti.store.files import adopt
from ganeti.store.relay import Passer

CLUSTER = "00000001-aaaa-4bbb-8ccc-000000000001"


class Node:
    """A machine: its store and whoever asks it."""

    def __init__(self, wire: Wire, number: int, folder: str):
        self.wire = wire
        self.name = f"node{number}.example.org"
        self.member = Member(f"{number:08x}-aaaa-4bbb-8ccc-0000000000aa", self.name, f"127.0.0.{number}")
        self.folder = folder
        self.up = True
        # Names of nodes whose certificates this one does not accept.
        self.rejects: set[str] = set()
        self.way = Way(wire, self.name)
        # Looked at before a call is served: (procedure, message) -> None, "lost call", "lost answer", or what is answered.
        self.fault: Callable[[str, Any], str | bytes | None] = lambda path, body: None
        self.served: list[str] = []
        self._queue = runtime.Queue()
        self.Renew()
        runtime.Thread(self._Serve, f"serve-{number}").start()

    def Renew(self) -> None:
        """The store as after a restart of the node."""
        self.store = NodeStore(f"{self.folder}/ext/store.db", self.name, f"{self.folder}/run/calls")
        handlers = {**self.store.Handlers(), **Passer(self.store, lambda: self.way).Handlers()}
        self.dispatcher = Dispatcher(handlers, self.store)

    def LoseDisk(self) -> None:
        self.store.Close()
        runtime.RemoveTree(f"{self.folder}/ext")
        self.Renew()

    def put(self, item: Any) -> None:
        self._queue.put(item)

    def _Serve(self) -> None:
        while True:
            source, request, done = self._queue.get()
            if request is None:
                return
            if request.path == "/store_relay":
                # It waits for other nodes, which may wait for this one.
                runtime.Thread(self._Finish, "relay", (source, request, done)).start()
            else:
                self._Finish(source, request, done)

    def _Finish(self, source: str, request: Request, done: Callable[[Answer], None]) -> None:
        done(self._Answer(source, request))

    def _Answer(self, source: str, request: Request) -> Answer:
        if not self.up:
            return Answer("connection refused")
        if source in self.rejects:
            return Answer("rejected", failure=Failure.REJECTED)
        fault = self.fault(request.path, request.body)
        if fault == "lost call":
            return Answer("timed out")
        if isinstance(fault, bytes):
            return Answer(None, 200, {}, fault)
        self.served.append(request.path[1:])
        headers = {name.lower(): value for name, value in request.headers.items()}
        status, answer_headers, body = self.dispatcher.Handle(request.path, headers, request.body)
        if fault == "lost answer":
            return Answer("timed out")
        return Answer(None, status, {k.lower(): v for k, v in answer_headers.items()}, body)


class Wire:
    """What connects the nodes."""

    def __init__(self) -> None:
        self.by_address: dict[str, Node] = {}

    def Close(self) -> None:
        for node in self.by_address.values():
            node.put(("", None, None))


class Way:
    """The transport of one node."""

    def __init__(self, wire: Wire, source: str):
        self._wire = wire
        self._source = source

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        self._wire.by_address[request.host].put((self._source, request, done))

    def Abort(self, request: Request) -> None:
        del request

    def Close(self) -> None:
        """Leave everything as it is: what is under way ends by itself."""


class Cluster:
    """Some nodes, and who of them is master."""

    def __init__(self, folder: str, count: int):
        self.wire = Wire()
        self.nodes = [Node(self.wire, number, f"{folder}/node{number}") for number in range(1, count + 1)]
        for node in self.nodes:
            self.wire.by_address[node.member.address] = node
        self.members = [node.member for node in self.nodes]
        self.lost: list[Exception] = []
        self.stores: list[Any] = []
        self.wanted: list[Member] | None = None

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def Resolve(self, node: str) -> tuple[str, str, int, bool, str]:
        """Where a node is, as the configuration would tell."""
        (member,) = [member for member in self.members if node in (member.uuid, member.name)]
        return (member.name, member.address, 1811, False, member.uuid)

    def Found(self, number: int = 0, *rows: Row, candidates: int | None = None, **options: Any) -> Any:
        """Makes the first history on a node."""
        options.setdefault("ready_timeout", 10)
        node = self.nodes[number]
        options.setdefault("resolve", self.Resolve)
        store = adopt.FoundStore(
            node.store,
            node.member,
            CLUSTER,
            self.members,
            self.members[:candidates],
            rows,
            node.way,
            lost=self.lost.append,
            candidates_now=lambda: self.wanted,
            **options,
        )
        self.stores.append(store)
        return store

    def Become(self, number: int, **options: Any) -> Any:
        node = self.nodes[number]
        options.setdefault("ready_timeout", 10)
        options.setdefault("resolve", self.Resolve)
        store = election.BecomeMaster(
            node.store,
            node.member,
            self.members,
            node.way,
            lost=self.lost.append,
            candidates=lambda: self.wanted,
            **options,
        )
        self.stores.append(store)
        return store

    def Close(self) -> None:
        for store in self.stores:
            store.Stop(0.1)
        self.wire.Close()
        for node in self.nodes:
            node.store.Close()


def Story(story: Callable[[Callable[[int], Cluster]], None]) -> Callable[[], None]:
    """A test that runs on a simulated machine, so that waiting costs nothing; all nodes are folders of that machine."""

    def play() -> None:
        made: list[Cluster] = []

        def build(count: int) -> Cluster:
            made.append(Cluster("/srv", count))
            return made[-1]

        story(build)
        for cluster in made:
            cluster.Close()

    def test() -> None:
        with World(7) as world:
            world.AddMachine("all").Call(play)
            assert not world.failures

    test.__name__ = story.__name__
    test.__doc__ = story.__doc__
    return test


def Until(check: Callable[[], Any], seconds: float = 10.0) -> None:
    """Waits for something that comes by itself; the test fails if it does not."""
    deadline = runtime.Monotonic() + seconds
    while not check():
        assert runtime.Monotonic() < deadline, "it did not come"
        runtime.Sleep(0.01)


def Live(node: Node) -> dict[tuple[str, str], str]:
    return {(r.kind, r.id): r.value for r in node.store.database.GetRows() if r.value is not None}
