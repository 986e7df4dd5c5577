"""Where a program's cluster comes from (doc/reference/htools.md 3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ganeti import constants, errors, pathutils, runtime
from ganeti.htools.model.entities import Load as Utilisation
from ganeti.htools.model.resources import Node
from ganeti.htools.model.state import Cluster
from ganeti.htools.options import Values
from ganeti.htools.sources import (
    fields,
    loading,
    luxidata,
    monitoring,
    rapidata,
    request,
    simulation,
    text,
    utilisation,
)
from ganeti.htools.sources.loading import LoadError, Raw
from ganeti.http import fetch
from ganeti.tools.htools.output import Failed, Streams
from ganeti.utils.text import Printable

_FILE = "file://"
MAX_FILE = 256 * 1024 * 1024
_LIMITS = fetch.Limits(connect=15, total=60, size=MAX_FILE)
_MOND_LIMITS = fetch.Limits(connect=5, total=15, size=1024 * 1024)
_LONGEST_REASON = 200
_OK = 200


def ReadFile(path: str) -> str:
    """Return the content of a file; raises LoadError."""
    try:
        return runtime.ReadFile(path, MAX_FILE).decode("utf-8")
    except (OSError, runtime.FileTooLarge) as err:
        raise LoadError(f"{path}: {getattr(err, 'strerror', None) or err}") from err
    except UnicodeDecodeError as err:
        raise LoadError(f"{path}: not a text in UTF-8") from err


def _Given(options: Values, name: str) -> Any:
    """Return the value of an option that a program may not have."""
    return options.values.get(name)


def ReadRaw(options: Values, streams: Streams) -> Raw:
    """Return the data of the source that the options name; raises LoadError."""
    if sum(_Given(options, name) is not None for name in ("master", "luxi", "text_data")) > 1:
        raise TooManySources("Only one of the rapi, luxi, and data files options should be given.")
    address = _Given(options, "master")
    if address is not None:
        return FromRapi(address, AccessOf(options))
    if _Given(options, "luxi") is not None:
        return FromLuxi(options.luxi, streams)
    for name, read in _SOURCES:
        value = _Given(options, name)
        if value is not None and value != []:
            return read(value)
    raise LoadError("No backend selected! Exiting.")


def AccessOf(options: Values) -> fetch.Access:
    """Return how servers of RAPI are addressed: ``--credentials``, ``--cacert``; raises LoadError.

    Credentials are sent to servers whose certificate is verified only; those in a URL are sent as 3.1 does.
    """
    path, cafile = _Given(options, "credentials"), _Given(options, "cacert")
    if cafile is None:
        if path is None:
            return fetch.ANYBODY
        raise LoadError(
            f"The credentials in {path} are not sent to a server that is not known: give its certificate with --cacert;"
            f" on the master node, 'openssl x509 -in {pathutils.RAPI_CERT_FILE}' prints it"
        )
    from ganeti import x509

    certificates = ReadFile(cafile)
    try:
        pin = x509.OwnPin(certificates, cafile)
    except errors.X509CertError as err:
        raise LoadError(str(err)) from err
    words = [] if path is None else ReadFile(path).split()
    if path is not None and len(words) not in (1, 2):
        raise LoadError(f"{path}: expected 'USER PASSWORD', or a token ('gnt-cluster rapi-token add NAME' makes one)")
    return fetch.Access(
        login=(words[0], words[1]) if len(words) == 2 else None,
        token=words[0] if len(words) == 1 else None,
        cafile=cafile,
        pin=pin,
    )


class TooManySources(Exception):
    """The command line names several sources."""


def _FromText(path: str) -> Raw:
    return text.Parse(ReadFile(path))


def FromRapi(address: str, access: fetch.Access) -> Raw:
    """Return the cluster that RAPI, or a directory of its answers, describes; raises LoadError."""
    parts = {
        "groups": "/2/groups?bulk=1",
        "nodes": "/2/nodes?bulk=1",
        "instances": "/2/instances?bulk=1",
        "info": "/2/info",
    }

    def read(name: str, path: str) -> str:
        if address.startswith(_FILE):
            return ReadFile(os.path.join(address.removeprefix(_FILE), f"{name}.json"))
        return _FetchAnswer(BaseUrl(address), access, name, path)

    answers = {name: fields.ParseJson(read(name, path), f"Parsing {name}") for name, path in parts.items()}
    return rapidata.Parse(rapidata.Answers(**answers))


def BaseUrl(address: str) -> str:
    """Return what stands before the paths of RAPI; ``address``: a host, or this itself."""
    return address if ":" in address else f"https://{address}:{constants.DEFAULT_RAPI_PORT}"


def _FetchAnswer(base: str, access: fetch.Access, name: str, path: str) -> str:
    if access != fetch.ANYBODY and not base.lower().startswith("https://"):
        raise LoadError(f"{base.partition('://')[0]}:// does not protect credentials; give an address with https://")
    try:
        status, body = fetch.Fetch(base + path, _LIMITS, access)
        text = body.decode("utf-8")
    except fetch.FetchError as err:
        raise LoadError(f"Cannot read {name}: {err}") from err
    except UnicodeDecodeError as err:
        raise LoadError(f"Cannot read {name}: the answer is not a text in UTF-8") from err
    if status != _OK:
        raise LoadError(f"Cannot read {name}: the answer has the status {status}")
    return text


def FromLuxi(path: str, streams: Streams) -> Raw:
    """Return the cluster that the master daemon describes; raises LoadError.  ``path``: of its socket, "" for the usual."""
    from ganeti.tools.htools import master

    try:
        with master.MasterClient(path, streams) as client:
            nodes = client.Query("node", luxidata.NODE_FIELDS)
            instances = client.Query("instance", luxidata.INSTANCE_FIELDS)
            info = client.QueryClusterInfo()
            groups = client.Query("group", luxidata.GROUP_FIELDS)
    except errors.GenericError as err:
        raise LoadError(master.Explain(err)) from err
    return luxidata.Parse(nodes, instances, info, groups)


def _FromRequest(path: str) -> Raw:
    try:
        return request.Parse(ReadFile(path)).raw
    except request.BadMessage as err:
        raise LoadError(str(err)) from err


_SOURCES: tuple[tuple[str, Callable[[Any], Raw]], ...] = (
    ("simulate", simulation.Parse),
    ("text_data", _FromText),
    ("ialloc_src", _FromRequest),
)


def _Loads(path: str) -> Mapping[str, Utilisation]:
    try:
        return utilisation.Parse(ReadFile(path))
    except LoadError as err:
        raise Failed(f"can't parse utilisation data: {err}") from err


def Wishes(options: Values) -> loading.Wishes:
    """Return what the options say about loading."""
    path = _Given(options, "dynu_file")
    memory = _Given(options, "static_kvm_node_memory")
    return loading.Wishes(
        loads={} if path is None else _Loads(path),
        ignore_loads=bool(_Given(options, "ignore_dynu")),
        exclusion_tags=_Given(options, "exclusion_tags") or (),
        selected=_Given(options, "select_instances"),
        excluded=_Given(options, "exclude_instances") or (),
        static_kvm_memory=loading.STATIC_KVM_NODE_MEMORY if memory is None else memory,
    )


def Load(options: Values, streams: Streams) -> Cluster:
    """Return the cluster as its source describes it, and print warnings.

    Raises LoadError, TooManySources, and Failed for files beside the source that cannot be used.
    """
    return Complete(loading.Build(ReadRaw(options, streams), Wishes(options)), options, streams)


def Complete(cluster: Cluster, options: Values, streams: Streams) -> Cluster:
    """Return a cluster with what monitoring daemons say of it, and print warnings."""
    cluster = _Monitored(cluster, options, streams)
    if cluster.silent:
        streams.Err(f"Warning: these nodes do not answer and count as offline: {', '.join(cluster.silent)}")
    if cluster.warnings and options.verbosity != 0:
        streams.Err("Warning: cluster has inconsistent data:", *cluster.warnings, "")
    return cluster


def _Monitored(cluster: Cluster, options: Values, streams: Streams) -> Cluster:
    """Return the cluster with what monitoring daemons say of its load, if the options ask for it."""
    if not _Given(options, "mond") or _Given(options, "ignore_dynu"):
        return cluster
    collector = monitoring.XEN_CPU if _Given(options, "mond_xen") else monitoring.CPU
    path = _Given(options, "mond_data")
    reports = _AskDaemons(cluster, collector, streams) if path is None else monitoring.ParseFile(ReadFile(path))
    data = {name: monitoring.FindData(found, collector) for name, found in reports.items()}
    found = monitoring.Use(cluster, collector, data)
    if found is None:
        streams.Err(monitoring.Missing(collector))
        if _Given(options, "exit_on_missing_mond_data"):
            raise Failed("Not all required data available")
    return found or cluster


def _AskDaemons(cluster: Cluster, collector: str, streams: Streams) -> Mapping[str, list[Any]]:
    """Return node name -> reports of the monitoring daemons that answer, and print a line for each of the others.

    A drained node may answer, an offline one will not; the model does not tell them apart, so both are asked.
    """
    nodes = cluster.state.Ordered()
    names = [node.facts.name for node in nodes]
    wrong = [name for name in names if not monitoring.HOST_NAME.fullmatch(name)]
    asked = [name for name in names if name not in wrong]
    answers = fetch.FetchAll([monitoring.Url(name, collector) for name in asked], _MOND_LIMITS)
    reports = {}
    problems = dict.fromkeys(wrong, "this is not the name of a host")
    for name, answer in zip(asked, answers, strict=True):
        try:
            reports[name] = [_ReadReport(answer)]
        except LoadError as err:
            problems[name] = str(err)
    missed = [node.facts.name for node in nodes if not node.offline and node.facts.name in problems]
    streams.Err(
        *(f"Node {name}: no report of {collector}: {Printable(problems[name][:_LONGEST_REASON])}" for name in missed)
    )
    return reports


def _ReadReport(answer: fetch.Answer | fetch.FetchError) -> Any:
    """Return the report that a monitoring daemon sent; raises LoadError."""
    if isinstance(answer, fetch.FetchError):
        raise LoadError(str(answer))
    if answer.status != _OK:
        raise LoadError(f"the monitoring daemon answered with the status {answer.status}")
    try:
        report = fields.ParseJson(answer.body.decode("utf-8"), "the answer of the monitoring daemon")
    except UnicodeDecodeError as err:
        raise LoadError("the answer of the monitoring daemon is not a text in UTF-8") from err
    problem = monitoring.Problem(report)
    if problem is not None:
        raise LoadError(problem)
    return report


class UnknownNodes(Exception):
    """The command line names nodes that do not exist."""


def Adjust(cluster: Cluster, options: Values) -> Cluster:
    """Apply the options that change nodes after loading: ``-O``, ``--max-cpu``, ``--min-disk`` (section 4, 17)."""
    nodes = cluster.state.Ordered()
    names = [node.facts.name for node in nodes]
    words = _Given(options, "offline") or []
    wrong = [word for word in reversed(words) if loading.FindName(word, names) is None]
    if wrong:
        raise UnknownNodes(",".join(wrong))
    offline = {loading.FindName(word, names) for word in words}
    ratio, part = _Given(options, "max_cpu"), _Given(options, "min_disk") or 0.0

    def adjusted(node: Node) -> Node:
        facts = node.facts
        return node.WithFacts(
            replace(
                facts,
                offline=facts.offline or facts.name in offline,
                vcpu_ratio=facts.vcpu_ratio if ratio is None else ratio,
                least_disk=max(facts.least_disk, int(part * facts.total_disk // 1)),
            )
        )

    return cluster.WithState(cluster.state.With(adjusted(node) for node in nodes))
