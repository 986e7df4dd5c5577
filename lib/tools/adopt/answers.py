"""The shapes of what the steps of a node return.

A reply of another shape counts as a failure of that node, so that nobody behind ``remote.Ask`` has to distrust lists, keys and types.
Steps that are missing here return what nobody reads.
"""

from __future__ import annotations

from ganeti import ht

_Strings = ht.TListOf(ht.TString)
_Difference = ht.TItems(ht.TString, ht.TString, ht.TNonNegativeInt, ht.TString, ht.TNonNegativeInt)
# Seconds since 1970; anything else could not be compared.
_Time = ht.Type("time", lambda value: ht.TFloat(value) and 0 <= value < 1e12, words="seconds since 1970")
_Look = ht.TStrictDict(
    {
        "version": ht.TString,
        "broken": ht.TMaybe(ht.TString),
        "ours": ht.TString,
        "over": ht.TBool,
        "daemons": ht.TDictOf(ht.TString, ht.TString),
        "differences": ht.TListOf(_Difference),
        "lacking": ht.TMaybe(ht.TString),
        "boot": _Strings,
        "boot_missing": _Strings,
        "boot_others": _Strings,
        "free": ht.TNonNegativeInt,
        "data": ht.TNonNegativeInt,
        "backup_free": ht.TNonNegativeInt,
        "time": _Time,
        "store": ht.TBool,
        "record": ht.TBool,
    },
    {},
    ht.TAny,
)

ENVELOPE = ht.TStrictDict({"ok": ht.TBool, "value": ht.TAny}, {}, ht.TAny)
"""What the program writes on a node: the value of the last step, or the text of an error."""

BY_STEP = {
    "look": _Look,
    "started-here": _Strings,
    "guests": ht.TDictOf(ht.TString, ht.TString),
    "pause": _Strings,
    "hand-back": _Strings,
}
