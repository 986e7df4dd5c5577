"""Every error of ours: its wire name, its exit code, and what to do next.

The class name and the arguments travel over LUXI and stand in job files (doc/reference/luxi.md 3); ``hint`` and attributes do not.
"""

from __future__ import annotations

from typing import Any

from ganeti import constants

# Codes of OpPrereqError.
ECODE_RESOLVER = "resolver_error"
ECODE_NORES = "insufficient_resources"
ECODE_TEMP_NORES = "temp_insufficient_resources"
ECODE_INVAL = "wrong_input"
ECODE_STATE = "wrong_state"
ECODE_NOENT = "unknown_entity"
ECODE_EXISTS = "already_exists"
ECODE_NOTUNIQUE = "resource_not_unique"
ECODE_FAULT = "internal_error"
ECODE_ENVIRON = "environment_error"

ECODE_ALL = frozenset(value for name, value in list(globals().items()) if name.startswith("ECODE_"))


class GenericError(Exception):
    """Parent of every error that may leave a process of ours."""

    exit_code = constants.EXIT_FAILURE

    def __init__(self, *args: Any, hint: str | None = None):
        super().__init__(*args)
        self.hint = hint


class LockError(GenericError):
    """A lock was deleted, or its set has no such member."""


class PidFileLockError(LockError):
    """Another process holds the pid file."""


class HypervisorError(GenericError):
    """A hypervisor rejected something or failed."""


class HotplugError(HypervisorError):
    """A device could not be changed on a running instance."""


class ProgrammerError(GenericError):
    """Code of ours was used wrongly: a bug."""


class BlockDeviceError(GenericError):
    """A block device operation failed."""


class ConfigurationError(GenericError):
    """The configuration cannot be read or makes no sense."""

    exit_code = constants.EXIT_CONFIG


class ConfigVersionMismatch(ConfigurationError):
    """Arguments: expected version, found version."""

    def __str__(self) -> str:
        if len(self.args) == 2:
            return f"configuration version {self.args[1]} found, this release needs {self.args[0]}"
        return super().__str__()


class ConfigVerifyError(ConfigurationError):
    """Arguments: message, list of all problems."""


class AddressPoolError(GenericError):
    """An address pool is full or an address cannot be used."""


class ReservationError(GenericError):
    """A value was reserved by somebody else."""


class RemoteError(GenericError):
    """A remote side failed."""


class SignatureError(GenericError):
    """A signature does not fit."""


class ParameterError(GenericError):
    """An unknown or wrong parameter; the argument is its name or a text."""


class ResultValidationError(GenericError):
    """A result has the wrong shape."""


class OpPrereqError(GenericError):
    """The operation cannot be done as things are.  Arguments: message, one of ECODE_ALL."""


class OpExecError(GenericError):
    """The operation failed while it was done."""


class OpResultError(GenericError):
    """An opcode's result is not of its declared type."""


class OpRetryNotSupportedError(GenericError):
    """The logical unit cannot be tried again."""


class DeviceCreationError(GenericError):
    """A device could not be made; ``created_devices`` are those that were."""

    def __init__(self, message: str, created_devices: list[Any]):
        super().__init__()
        self.message = message
        self.created_devices = created_devices

    def __str__(self) -> str:
        return self.message


class OpCodeUnknown(GenericError):
    """No logical unit does this opcode."""


class JobLost(GenericError):
    """The job is not (or no longer) in the queue."""


class JobCanceled(GenericError):
    """The job was canceled."""


class JobFileCorrupted(GenericError):
    """A job file cannot be read."""


class ResolverError(GenericError):
    """Arguments: host name, resolver code, resolver text."""

    def __str__(self) -> str:
        if len(self.args) == 3:
            return f"can't resolve hostname '{self.args[0]}': {self.args[2]}"
        return super().__str__()


class HooksFailure(GenericError):
    """The hooks could not be run."""


class HooksAbort(HooksFailure):
    """A pre hook failed.  Argument: list of [node, script, output]."""


class UnitParseError(GenericError):
    """A size with a unit cannot be read."""


class ParseError(GenericError):
    """A text cannot be read."""


class QueryFilterParseError(ParseError):
    """A filter cannot be read.  Arguments: message, details."""


class TypeEnforcementError(GenericError):
    """A parameter value is not of its type."""


class X509CertError(GenericError):
    """Arguments: file name, cause."""

    def __str__(self) -> str:
        return ": ".join(map(str, self.args))


class TagError(GenericError):
    """A tag is not valid or there are too many."""


class CommandError(GenericError):
    """An external command failed."""


class StorageError(GenericError):
    """A storage unit failed."""


class InotifyError(GenericError):
    """Files cannot be watched."""


class JobQueueError(GenericError):
    """The job queue cannot take or change this job."""


class JobQueueDrainError(JobQueueError):
    """The queue is drained."""


class JobQueueFull(JobQueueError):
    """The queue is full."""


class ConfdMagicError(GenericError):
    """A confd message without the right start."""


class ConfdClientError(GenericError):
    """A confd client was used wrongly."""


class UdpDataSizeError(GenericError):
    """A datagram would be too large."""


class NoCtypesError(GenericError):
    """A system call cannot be reached."""


class IPAddressError(GenericError):
    """Not an address."""


class LuxiError(GenericError):
    """Trouble between a client and the master daemon."""


class RapiTestResult(GenericError):
    """Result of a RAPI test."""


class FileStoragePathError(GenericError):
    """A path is not allowed for file storage."""


class SshUpdateError(GenericError):
    """SSH keys could not be distributed."""


def _Descendants(cls: type[GenericError]) -> dict[str, type[GenericError]]:
    found = {cls.__name__: cls}
    for sub in cls.__subclasses__():
        found.update(_Descendants(sub))
    return found


# Names that may travel; errors defined elsewhere (client transport, store, RPC) stay at home.
WIRE_ERRORS: dict[str, type[GenericError]] = _Descendants(GenericError)


class NotMasterError(GenericError):
    """This node is not the master, or is no longer."""

    exit_code = constants.EXIT_NOTMASTER


class RpcCallError(GenericError):
    """A procedure of the node daemon says no: the text becomes the caller's ``fail_msg``."""


class LockAcquireTimeout(GenericError):
    """An opcode could not have its locks in the time given; nothing was done, the job queue tries again."""


class RunCmdError(GenericError):
    """An external program could not be run."""


def EncodeException(err: BaseException) -> list[Any]:
    """Shapes an error for LUXI and job files: ``[class name, [args]]``.

    Errors outside our family become OpExecError with their text, so that no foreign class name reaches a client.
    """
    if isinstance(err, GenericError):
        cls = type(err)
        for base in cls.__mro__:
            if WIRE_ERRORS.get(base.__name__) is base:
                args = [list(a) if isinstance(a, tuple) else a for a in err.args]
                return [base.__name__, args]
    return ["OpExecError", [f"{type(err).__name__}: {err}" if str(err) else type(err).__name__]]


def DecodeException(value: Any) -> GenericError | None:
    """The error encoded in ``value``, or None if ``value`` is not an encoded error (client rule of doc/reference/luxi.md 2.1)."""
    if not (isinstance(value, (list, tuple)) and len(value) == 2):
        return None
    name, args = value
    if not (isinstance(name, str) and isinstance(args, (list, tuple)) and name in WIRE_ERRORS):
        return None
    cls = WIRE_ERRORS[name]
    if cls is DeviceCreationError:
        return DeviceCreationError("Device creation failed", [])
    return cls(*args)


def MaybeRaise(value: Any) -> None:
    """Raises the error encoded in ``value``, if it is one."""
    err = DecodeException(value)
    if err is not None:
        raise err
