"""What a verification found, as a whole."""

from tether._core.verification import Finding, Verification

GOOD, BAD = Finding("digest", True, "as it was saved"), Finding("content", False, "alpha is NaN")
OPEN = Finding("signature", None, "not signed")


def test_all_is_well_where_something_was_checked_and_nothing_is_wrong():
    assert Verification("x", (GOOD, OPEN)).ok
    assert not Verification("x", (GOOD, BAD)).ok
    assert Verification("x", (GOOD, BAD, OPEN)).problems == (BAD,)
    assert not Verification("x", ()).ok


def test_each_finding_is_one_line():
    lines = str(Verification("found.json", (GOOD, BAD, OPEN))).splitlines()
    assert lines[0] == "found.json: 1 of 2 checks failed"
    assert lines[2] == "  WRONG        content: alpha is NaN"
    assert "not checked  signature" in lines[3]
    assert str(Verification("x", (GOOD, OPEN))).startswith("x: all 1 checks passed")


def test_plain_values():
    plain = Verification("x", (BAD,)).to_dict()
    finding = {"name": "content", "ok": False, "text": "alpha is NaN"}
    assert plain == {"subject": "x", "findings": [finding], "ok": False}
