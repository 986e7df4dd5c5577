"""Every requirement is shown by a test, ruled out, or has a reason why it is not shown yet."""

from support import requirements


def test_pages_were_read():
    known = requirements.Read()
    assert len(known) > 700
    assert known["D21-NODED-03"].text.startswith("Log messages that cannot be written")
    assert known["D21-OS-04"].difference == "named HYPERVISOR" and not known["D20-GOAL-01"].difference
    assert "IAL-01" in known or any(ident.startswith("IAL-") for ident in known)


def test_marked_ids_exist():
    known = requirements.Read()
    unknown = {ident: tests for ident, tests in requirements.Shown().items() if ident not in known}
    assert unknown == {}


def test_listed_ids_exist():
    known = requirements.Read()
    assert [ident for ident in requirements.RuledOut() if ident not in known] == []


def test_every_requirement_has_a_place():
    shown, ruled_out, reasons = requirements.Shown(), requirements.RuledOut(), requirements.NotYet()
    lost = [
        ident
        for ident in requirements.Read()
        if ident not in shown and ident not in ruled_out and requirements.WhyNotYet(ident, reasons) is None
    ]
    assert lost == []


def test_reasons_are_given_for_groups_that_exist():
    groups = {item.group for item in requirements.Read().values()}
    reasons = requirements.NotYet()
    assert [start for start in reasons if start not in groups and start not in requirements.Read()] == []
    assert all([*reasons.values(), *requirements.RuledOut().values()])


def test_what_is_ruled_out_is_shown_by_no_test():
    assert sorted(set(requirements.Shown()) & set(requirements.RuledOut())) == []


def test_every_reason_is_of_a_requirement_that_needs_one():
    placed, reasons = {*requirements.Shown(), *requirements.RuledOut()}, requirements.NotYet()
    needed = {requirements.WhyNotYet(ident, reasons) for ident in requirements.Read() if ident not in placed}
    assert sorted(set(reasons) - needed) == []
