"""node_verify: each key of the request is one check, declared in CHECKS (doc/reference/noderpc.md 4).

A check that fails in itself leaves its key out of the answer and a line in the log, so that it hides no other one;
where the protocol has room for a text, the text is the answer.
"""

from __future__ import annotations

import hashlib
import logging
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants, errors, hosts, hypervisor, pathutils, runtime, x509
from ganeti.backend import drbd, node, storage
from ganeti.backend.guestos import osdef
from ganeti.backend.trust import sshcheck, sshkeys
from ganeti.rpc.resolver import NodedPort
from ganeti.storage import paths
from ganeti.utils import programs

_PEM_LIMIT = 1024 * 1024
_CONNECT_TIMEOUT = 10.0
_SYSFS = ("/sys/block", "/sys/class/net")
_PROCFS_DIR, _SYSRQ_TRIGGER = "/proc/sys", "/proc/sysrq-trigger"
_LOOPBACK = "127.0.0.1"


class Context(NamedTuple):
    """The facts that a check may use besides its own value."""

    request: Mapping[str, Any]
    cluster_name: str
    hvparams: Mapping[str, Mapping[str, Any]]
    own_name: str

    def IsTester(self, candidates: Any) -> bool:
        """Only candidates try to reach others: n times all would be too much."""
        return isinstance(candidates, list) and self.own_name in candidates


class NoAnswer(Exception):
    """The check has nothing to say: its key stays out."""


class Check(NamedTuple):
    """``vm``: only on nodes that may run instances.  ``as_text``: an error's text is the answer."""

    function: Callable[[Any, Context], Any]
    vm: bool = False
    as_text: bool = False


def Verify(checkdict: Mapping[str, Any], cluster_name: str, all_hvparams: Mapping[str, Any]) -> dict[str, Any]:
    context = Context(checkdict, cluster_name, all_hvparams, hosts.OwnName())
    others = checkdict.get("nonvmnodes") or checkdict.get("vmnodes") or ()
    if not isinstance(others, list | tuple):
        raise errors.RpcCallError("node_verify: the value of 'nonvmnodes' is not a list")
    may_run_instances = context.own_name not in others
    result: dict[str, Any] = {}
    for key, check in CHECKS.items():
        if key not in checkdict or (check.vm and not may_run_instances):
            continue
        try:
            result[key] = check.function(checkdict[key], context)
        except NoAnswer:
            pass
        except (errors.GenericError, OSError) as err:
            if check.as_text:
                result[key] = str(err)
            else:
                logging.error("Check %s failed: %s", key, err)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as err:
            raise errors.RpcCallError(f"node_verify: the value of '{key}' has a wrong shape ({err})") from err
    return result


# Storage


def _LvList(value: Any, context: Context) -> dict[str, list[Any]]:
    """The volumes of all groups, whichever was named."""
    del value, context
    return storage.LvList([])


def _VgList(value: Any, context: Context) -> dict[str, float]:
    del value, context
    return storage.VgList()


def _PvList(value: Sequence[str], context: Context) -> list[dict[str, Any]]:
    del context
    return storage.PvList(value)


def _SharedPvs(value: Any, context: Context) -> list[list[Any]]:
    """Only together with the list of physical volumes, whose groups count."""
    groups = context.request.get("pvlist")
    if not value or not groups:
        raise NoAnswer
    return storage.SharedPvs(groups)


def _DrbdVersion(value: Any, context: Context) -> str:
    del value, context
    return drbd.Version()


def _DrbdMinors(value: Any, context: Context) -> list[int]:
    del value, context
    return drbd.MinorsInUse()


def _DrbdHelper(value: Any, context: Context) -> list[Any]:
    """Return the helper that is set, whatever the master expects: it compares them."""
    del value, context
    try:
        return [True, drbd.Helper()]
    except errors.BlockDeviceError as err:
        return [False, str(err)]


# Files and programs


def _FileList(value: Sequence[str], context: Context) -> dict[str, str]:
    del context
    found = {}
    for name in value:
        try:
            data = runtime.ReadFile(pathutils.LocalizeVirtualPath(name))
        except OSError:
            continue
        # The format is 3.1's; it finds differences, not forgeries.
        found[name] = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return found


def _UserScripts(value: Sequence[str], context: Context) -> list[str]:
    del context
    return [path for path in value if _ExecutableProblem(path) is not None]


def _OobPaths(value: Sequence[str], context: Context) -> list[str | None]:
    del context
    problems = ((path, programs.Problem(path)) for path in value)
    return [None if problem is None else f"{path}: {problem}" for path, problem in problems]


def _ExecutableProblem(path: str) -> str | None:
    try:
        mode = runtime.Stat(path).st_mode
    except OSError as err:
        return f"{path}: {err.strerror}"
    if not stat.S_ISREG(mode):
        return f"{path} is not a file"
    return None if mode & stat.S_IXUSR else f"{path} is not executable"


def _ClientCertificate(value: Any, context: Context) -> list[str | None]:
    del value, context
    path = pathutils.NODED_CLIENT_CERT_FILE
    try:
        pem = runtime.ReadFile(path, _PEM_LIMIT)
    except FileNotFoundError:
        return [
            x509.ERROR,
            f"The client certificate {path} does not exist: set the node up again with 'gnt-node add --readd NODE'",
        ]
    code, text = x509.CheckExpiry(pem, path)
    if code is not None:
        return [code, text]
    if x509.IsSelfSigned(pem, path):
        return [
            x509.WARNING,
            f"The client certificate {path} is self-signed: set the node up again with 'gnt-node add --readd NODE'",
        ]
    return [None, x509.Digest(pem, path)]


# Reaching others


def _NodeList(value: Sequence[Any], context: Context) -> dict[str, str]:
    names, extra, candidates, *more = value
    if not context.IsTester(candidates):
        return {}
    # Ours: of a node that is about to be added ssconf knows no port.
    ports = more[0] if more else {}
    wanted = list(dict.fromkeys([*names, *extra.get(context.own_name, [])]))
    # Not all candidates knock at the same door first.
    runtime.Random().shuffle(wanted)
    found = {name: sshcheck.HostNameProblem(name, context.cluster_name, ports.get(name)) for name in wanted}
    return {name: text for name, text in found.items() if text is not None}


def _SshSetup(value: Sequence[Any], context: Context) -> list[str]:
    nodes, key_type = value
    return sshkeys.VerifySetup(nodes, key_type, context.own_name)


def _SshClutter(value: Any, context: Context) -> list[str]:
    if not value or "ssh-setup" not in context.request:
        raise NoAnswer
    return sshkeys.FindClutter(context.request["ssh-setup"][0])


def _NodeNetTest(value: Sequence[Any], context: Context) -> dict[str, str]:
    nodes, candidates = value
    if not context.IsTester(candidates):
        return {}
    own = next(((primary, secondary) for name, primary, secondary in nodes if name == context.own_name), None)
    if own is None:
        return {context.own_name: "Can't find my own primary/secondary IP in the node list"}
    failed = {}
    for name, primary, secondary in nodes:
        problems = []
        if not hosts.Answers(primary, NodedPort(), _CONNECT_TIMEOUT, source=own[0]):
            problems.append("primary")
        if secondary != primary and not hosts.IsInUse(secondary, NodedPort(), _CONNECT_TIMEOUT, own[1]):
            problems.append("secondary")
        if problems:
            failed[name] = f"failure using the {' and '.join(problems)} interface(s)"
    return failed


def _MasterIp(value: Sequence[Any], context: Context) -> bool | None:
    master_name, master_ip, candidates = value
    if not context.IsTester(candidates):
        return None
    # Node daemons listen on their node's primary address; a refusal proves that this one is up.
    source = _LOOPBACK if master_name == context.own_name and not pathutils.IsVirtual() else None
    return hosts.Answers(master_ip, NodedPort(), _CONNECT_TIMEOUT, live_port_needed=False, source=source)


# Guests


def _Hypervisors(value: Sequence[str], context: Context) -> dict[str, str | None]:
    return {name: _Problem(_VerifyDriver, name, context.hvparams.get(name)) for name in value}


def _HvParams(value: Sequence[Any], context: Context) -> list[list[Any]]:
    del context
    rows = []
    for source, name, hvparams in value:
        problem = _Problem(_ValidateParams, name, hvparams)
        if problem is not None:
            rows.append([source, name, problem])
    return rows


def _Driver(name: str) -> hypervisor.Hypervisor:
    return hypervisor.GetHypervisor(name)


def _VerifyDriver(name: str, hvparams: Mapping[str, Any] | None) -> str | None:
    return _Driver(name).Verify(hvparams)


def _ValidateParams(name: str, hvparams: Mapping[str, Any]) -> None:
    _Driver(name).ValidateParameters(hvparams)


def _Problem(call: Callable[..., str | None], *args: Any) -> str | None:
    """Return the call's answer, or the text of its failure."""
    try:
        return call(*args)
    except errors.GenericError as err:
        return str(err)


def _InstanceList(value: Sequence[str], context: Context) -> list[str]:
    return [guest for name in value for guest in _Driver(name).List(context.hvparams.get(name))]


def _HvInfo(value: str, context: Context) -> dict[str, Any]:
    return _Driver(value).NodeInfo(context.hvparams.get(value))


# The node


def _Version(value: Any, context: Context) -> list[Any]:
    del value, context
    return [constants.PROTOCOL_VERSION, constants.RELEASE_VERSION]


def _NodeSetup(value: Any, context: Context) -> list[str]:
    del value, context
    problems = []
    if not all(runtime.IsDir(path) for path in _SYSFS):
        problems.append(
            "The sysfs filesystem doesn't seem to be mounted under /sys,"
            f" missing required directories {' and '.join(_SYSFS)}"
        )
    if not runtime.IsDir(_PROCFS_DIR):
        problems.append(f"The procfs filesystem doesn't seem to be mounted under /proc: {_PROCFS_DIR} is missing")
    # Only for gnt-node powercycle, which a virtual node rejects: its machine is not its own to reset.
    elif not pathutils.IsVirtual() and not runtime.Exists(_SYSRQ_TRIGGER):
        problems.append(
            f"{_SYSRQ_TRIGGER} is missing (the kernel was built without CONFIG_MAGIC_SYSRQ):"
            " gnt-node powercycle has to start a program to reset this node"
        )
    return problems


def _Time(value: Any, context: Context) -> list[int]:
    del value, context
    microseconds = int(runtime.Time() * 1000000)
    return list(divmod(microseconds, 1000000))


def _OsList(value: Any, context: Context) -> list[list[Any]]:
    del value, context
    return osdef.Diagnose()


def _OsFacts(value: Any, context: Context) -> dict[str, Any]:
    del value, context
    return osdef.ExtraInfo()


def _Bridges(value: Sequence[str], context: Context) -> list[str]:
    del context
    return node.MissingBridges(value)


# Storage


def _AllowedPaths(value: str, context: Context) -> list[str]:
    if value != context.own_name:
        raise NoAnswer
    return paths.FindForbidden()


def _InstanceFiles(value: Mapping[str, Sequence[str]], context: Context) -> dict[str, list[str]]:
    """Return {directory: names of what is in it} of those directories that have any; each node has directories of its own."""
    found: dict[str, list[str]] = {}
    for directory in value.get(context.own_name, ()):
        try:
            names = paths.ListFiles(directory)
        except (errors.FileStoragePathError, OSError) as err:
            # What is wrong with the directories themselves is another check's business.
            logging.warning("Files in %s cannot be listed: %s", directory, err)
            continue
        if names:
            found[directory] = names
    return found


def _StoragePath(value: str, context: Context) -> str:
    del context
    problem = paths.CheckUsable(value)
    if problem is None:
        raise NoAnswer
    return problem


def _MountPoint(value: str, context: Context) -> str:
    del context
    problem = paths.CheckMountPoint(value or pathutils.DEFAULT_GLUSTER_STORAGE_DIR)
    if problem is None:
        raise NoAnswer
    return problem


CHECKS: dict[str, Check] = {
    "filelist": Check(_FileList),
    "client-cert": Check(_ClientCertificate),
    "ssh-setup": Check(_SshSetup),
    "ssh-clutter": Check(_SshClutter),
    "nodelist": Check(_NodeList),
    "node-net-test": Check(_NodeNetTest),
    "master-ip": Check(_MasterIp),
    "user-scripts": Check(_UserScripts),
    "oob-paths": Check(_OobPaths),
    "hypervisor": Check(_Hypervisors, vm=True),
    "hvparms": Check(_HvParams, vm=True),
    "instancelist": Check(_InstanceList, vm=True, as_text=True),
    "hvinfo": Check(_HvInfo, vm=True),
    "lvlist": Check(_LvList, vm=True, as_text=True),
    "vglist": Check(_VgList, vm=True),
    "pvlist": Check(_PvList, vm=True),
    "exclusive-pvs": Check(_SharedPvs, vm=True),
    "drbd-version": Check(_DrbdVersion, vm=True, as_text=True),
    "drbd-list": Check(_DrbdMinors, vm=True, as_text=True),
    "drbd-helper": Check(_DrbdHelper, vm=True),
    "version": Check(_Version),
    "nodesetup": Check(_NodeSetup),
    "time": Check(_Time),
    "oslist": Check(_OsList, vm=True),
    "os-facts": Check(_OsFacts, vm=True),
    "bridges": Check(_Bridges, vm=True),
    "allowed-file-storage-paths": Check(_AllowedPaths),
    "instance-files": Check(_InstanceFiles, vm=True),
    "file-storage-path": Check(_StoragePath),
    "shared-file-storage-path": Check(_StoragePath),
    "gluster-storage-path": Check(_MountPoint),
}


HANDLERS: dict[str, Callable[..., Any]] = {
    "node_verify": Verify,
    "node_verify_light": Verify,
}
