"""Queries that are run as jobs, and what there is of OS definitions and storage providers."""

from __future__ import annotations

from typing import Any, TypeVar

from ganeti import constants, errors, opcodes
from ganeti.cmdlib.base import Feedback, NoHooksLU, OpT
from ganeti.master import querydata
from ganeti.query.text import MakeFilter

# Kinds that 3.1 answers by a job; all others are asked of the master daemon directly.
_AS_JOB = ("cluster", "os", "extstorage")


class _QueryLU(NoHooksLU[OpT]):
    """A unit that only looks."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}

    @property
    def _query(self) -> querydata.QueryData:
        query = self.context.query
        assert query is not None, "the master was started without query data"
        return query


class LUQuery(_QueryLU[opcodes.OpQuery]):
    """Rows of a kind, with a filter."""

    def CheckArguments(self) -> None:
        if self.op.what not in _AS_JOB:
            raise errors.OpPrereqError(
                f"Query of {self.op.what} is not done by a job: ask the master daemon directly", errors.ECODE_INVAL
            )
        if self.op.use_locking and self.op.what == "cluster":
            raise errors.OpPrereqError("Locking is not available for cluster queries", errors.ECODE_INVAL)

    def Exec(self, feedback: Feedback) -> dict[str, Any]:
        return self._query.QueryNow(self.op.what, self.op.fields, self.op.qfilter)


class LUQueryFields(_QueryLU[opcodes.OpQueryFields]):
    """The fields of a kind."""

    def Exec(self, feedback: Feedback) -> dict[str, Any]:
        return self._query.QueryFields(self.op.what, self.op.fields)


_DiagnoseOp = TypeVar("_DiagnoseOp", opcodes.OpOsDiagnose, opcodes.OpExtStorageDiagnose)


class _DiagnoseLU(_QueryLU[_DiagnoseOp]):
    """Old-style rows of definitions that lie on the nodes: bare values, null where there is none."""

    WHAT = ""

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        known = {field["name"] for field in self._query.QueryFields(self.WHAT, None)["fields"]}
        unknown = [name for name in self.op.output_fields if name not in known]
        if unknown:
            raise errors.OpPrereqError(f"Unknown output field(s): {', '.join(unknown)}", errors.ECODE_INVAL)
        qfilter = MakeFilter(self.op.names, False, "name") if self.op.names else None
        answer = self._query.QueryNow(self.WHAT, self.op.output_fields, qfilter)
        return [[value for _, value in row] for row in answer["data"]]


class LUOsDiagnose(_DiagnoseLU[opcodes.OpOsDiagnose]):
    """Operating systems; hidden, blacklisted and invalid ones only where they are asked for."""

    WHAT = "os"
    _HIDERS = (("hidden", True), ("blacklisted", True), ("valid", False))

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        # As 3.1: a name that does not exist is not an error, and without the field its items are left out.
        wanted = list(self.op.output_fields)
        self.op.output_fields = wanted + [name for name, _ in self._HIDERS if name not in wanted]
        names, self.op.names = set(self.op.names), []
        columns = {name: index for index, name in enumerate(self.op.output_fields)}
        name_column = columns.get("name")
        if name_column is None:
            self.op.output_fields.append("name")
            name_column = len(self.op.output_fields) - 1
        rows = []
        for row in super().Exec(feedback):
            if names and row[name_column] not in names:
                continue
            if any(row[columns[field]] is value for field, value in self._HIDERS if field not in wanted):
                continue
            rows.append(row[: len(wanted)])
        return rows


class LUExtStorageDiagnose(_DiagnoseLU[opcodes.OpExtStorageDiagnose]):
    """Providers of external storage."""

    WHAT = "extstorage"


class LUClusterQuery(_QueryLU[opcodes.OpClusterQuery]):
    """Return the facts about the cluster as a whole."""

    def Exec(self, feedback: Feedback) -> dict[str, Any]:
        return querydata.ClusterInfo(self.snapshot)


class LUClusterConfigQuery(_QueryLU[opcodes.OpClusterConfigQuery]):
    """Some values of the cluster, in the order asked for."""

    def Exec(self, feedback: Feedback) -> list[Any]:
        answer = self._query.QueryNow("cluster", self.op.output_fields, None)
        (row,) = answer["data"]
        unknown = [f["name"] for f in answer["fields"] if f["kind"] == "unknown"]
        if unknown:
            raise errors.OpPrereqError(f"Unknown output field(s): {', '.join(unknown)}", errors.ECODE_INVAL)
        return [value if status == constants.RS_NORMAL else None for status, value in row]
