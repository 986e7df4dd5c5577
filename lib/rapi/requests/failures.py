"""From errors of ours to answers of HTTP: the one table (doc/reference/rapi.md 4)."""

from __future__ import annotations

from ganeti import errors
from ganeti.luxi import protocol
from ganeti.rapi.requests.call import HttpError

# The first class that fits counts.
_BY_CLASS: tuple[tuple[type[Exception], int], ...] = (
    (errors.JobLost, 404),
    (errors.JobQueueDrainError, 503),
    (errors.JobQueueFull, 503),
    (errors.NotMasterError, 502),
    (protocol.TimeoutError, 504),
    (protocol.InternalError, 500),
    (protocol.RequestError, 400),  # the master daemon read the call and found it wrong
    (protocol.ProtocolError, 502),
    (errors.LuxiError, 502),
    (errors.ParameterError, 400),
    (errors.ParseError, 400),
    (errors.TypeEnforcementError, 400),
    (errors.UnitParseError, 400),
    (errors.TagError, 400),
)
_BY_CODE = {
    errors.ECODE_INVAL: 400,
    errors.ECODE_NOENT: 404,
    errors.ECODE_EXISTS: 409,
    errors.ECODE_NOTUNIQUE: 409,
    errors.ECODE_STATE: 409,
    errors.ECODE_NORES: 503,
    errors.ECODE_TEMP_NORES: 503,
}


def FromError(err: errors.GenericError) -> HttpError:
    """Return the answer for an error of the master daemon or of an action."""
    if isinstance(err, HttpError):
        return err
    code = 500
    if isinstance(err, errors.OpPrereqError):
        code = _BY_CODE.get(err.args[1] if len(err.args) > 1 else "", 500)
    else:
        code = next((status for kind, status in _BY_CLASS if isinstance(err, kind)), 500)
    return HttpError(code, _Text(err))


def _Text(err: errors.GenericError) -> str:
    text = str(err.args[0]) if isinstance(err, errors.OpPrereqError) and err.args else str(err)
    text = text or type(err).__name__
    return f"{text}; {err.hint}" if err.hint else text
