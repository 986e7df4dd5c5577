"""The little languages of option values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors
from ganeti.cli import values
from ganeti.utils import text


@given(st.lists(st.text(alphabet="a,\\=x ", min_size=1), min_size=1))
def test_joined_lists_come_apart_again(pieces):
    assert text.SplitEscaped(text.JoinEscaped(pieces)) == pieces


@given(st.text(alphabet="a,\\=:/-no_1"))
def test_no_text_breaks_the_parsers(value):
    for parse in (
        values.ParseList,
        values.ParseBool,
        lambda t: values.ParseKeyVal("-x", t),
        lambda t: values.ParseIdentKeyVal("-x", t),
        lambda t: values.ParseMultiListIdentKeyVal("-x", t),
        text.ParseTimespec,
        values.ParseUidPool,
    ):
        try:
            parse(value)
        except (errors.ParameterError, errors.OpPrereqError) as err:
            assert str(err)


@pytest.mark.parametrize(
    ("written", "pieces"),
    [
        ("a,b", ["a", "b"]),
        (r"a\,b", ["a,b"]),
        (r"a\\,b", ["a\\", "b"]),
        (r"a\\\,b,c", ["a\\,b", "c"]),
        ("a\\", ["a\\"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_escaping(written, pieces):
    assert text.SplitEscaped(written) == pieces


def test_keyval():
    assert values.ParseKeyVal("-B", "a=1,b,no_c,-d,e=x=y,f=") == {
        "a": "1", "b": True, "c": False, "d": None, "e": "x=y", "f": "",
    }  # fmt: skip
    assert values.ParseKeyVal("-B", "") == {}
    with pytest.raises(errors.ParameterError, match="Duplicate key 'a' in option -B"):
        values.ParseKeyVal("-B", "a=1,no_a")


def test_identkeyval():
    assert values.ParseIdentKeyVal("--disk", "0:size=1g,mode=ro") == ("0", {"size": "1g", "mode": "ro"})
    assert values.ParseIdentKeyVal("--net", "-1:add,mac=auto") == ("-1", {"add": True, "mac": "auto"})
    assert values.ParseIdentKeyVal("-H", "kvm") == ("kvm", {})
    assert values.ParseIdentKeyVal("-H", "no_kvm") == ("kvm", False)
    assert values.ParseIdentKeyVal("-H", "-kvm") == ("kvm", None)
    with pytest.raises(errors.ParameterError, match="Cannot pass options when removing"):
        values.ParseIdentKeyVal("-H", "no_kvm:a=1")


def test_multilistidentkeyval():
    assert values.ParseMultiListIdentKeyVal("-x", "min:a=1,b=2/max:a=3//min:a=4") == [
        {"min": {"a": "1", "b": "2"}, "max": {"a": "3"}},
        {"min": {"a": "4"}},
    ]
    for wrong in ("", "min:", "min:a=1/", "min:a=1/min:a=2", "min:a", ":a=1"):
        with pytest.raises(errors.ParameterError):
            values.ParseMultiListIdentKeyVal("-x", wrong)


def test_timespec():
    assert [text.ParseTimespec(t) for t in ("7", "7s", "2m", "6h", "1d", "1w")] == [7, 7, 120, 21600, 86400, 604800]
    for wrong in ("", "h", "5x", "1.5h", "h5"):
        with pytest.raises(errors.OpPrereqError):
            text.ParseTimespec(wrong)


def test_uid_pool():
    assert values.ParseUidPool("1000-2000,3000") == [(1000, 2000), (3000, 3000)]


def test_fields():
    assert values.ParseFields(None, ["a"]) == ["a"]
    assert values.ParseFields("+b,c", ["a"]) == ["a", "b", "c"]
    assert values.ParseFields("b", ["a"]) == ["b"]
