"""Tokens of the remote interface (doc/design-rapi.rst).  The token itself is made by the command; a job sees its hash only."""

from __future__ import annotations

from ganeti import constants, errors, opcodes, runtime
from ganeti.cmdlib.base import Feedback, NoHooksLU
from ganeti.config.writer import CheckTags
from ganeti.utils.text import JoinOr


class LUClusterRapiTokenAdd(NoHooksLU[opcodes.OpClusterRapiTokenAdd]):
    """Lets a token in."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}

    def CheckPrereq(self) -> None:
        try:
            CheckTags(self.op.tags)
        except errors.TagError as err:
            raise errors.OpPrereqError(str(err), errors.ECODE_INVAL) from err
        if self.op.tags and self.op.role not in constants.RAPI_ROLES_WITH_TAGS:
            raise errors.OpPrereqError(
                f"A token for instances with certain tags cannot have the role {self.op.role}",
                errors.ECODE_INVAL,
                hint=f"choose the role {JoinOr(constants.RAPI_ROLES_WITH_TAGS)}, or leave the tags out",
            )
        if self.op.expires is not None and self.op.expires <= runtime.Time():
            raise errors.OpPrereqError("A token must expire in the future", errors.ECODE_INVAL)

    def Exec(self, feedback: Feedback) -> None:
        token = {
            "sha256": self.op.sha256,
            "role": self.op.role,
            "tags": sorted(set(self.op.tags)),
            "created": runtime.Time(),
        }
        if self.op.expires is not None:
            token["expires"] = float(self.op.expires)
        self.cfg.AddRapiToken(self.op.name, token)


class LUClusterRapiTokenRemove(NoHooksLU[opcodes.OpClusterRapiTokenRemove]):
    """Revokes a token: from the next request on it is not known."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.RemoveRapiToken(self.op.name)
