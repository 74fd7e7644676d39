"""A calibration against its log."""

import json

import numpy as np
import pytest

import tether
from tests.control import forged_records as forged
from tests.control.test_calibration_record import CASES, argmax, gaussian, several, shortlist
from tests.control.test_family import Geometric
from tether.control.refuted_log import refute
from tether.verification import verify_record


@pytest.mark.parametrize("case", ["alpha", "promise", "confidence", "ratio error", "none"])
def test_the_log_of_a_calibration_gives_it_again(case, tmp_path):
    CASES[case]().save(tmp_path / "found.json")
    log, proposals = gaussian(2000 if case == "confidence" else 800)
    found = verify_record(tmp_path / "found.json", log=log, proposals=proposals)
    assert found.ok, str(found)
    assert [finding.ok for finding in found.findings if finding.name in ("log", "result")] == [
        True, True,
    ]  # fmt: skip
    without = verify_record(tmp_path / "found.json", log=log)
    assert "proposals: log_safe" in str(without)
    assert not without.ok


def test_tables_and_several_losses(tmp_path):
    CASES["blend"]().save(tmp_path / "blend.json")
    assert verify_record(tmp_path / "blend.json", log=argmax()).ok
    CASES["promises"]().save(tmp_path / "several.json")
    log, proposals = several()
    assert verify_record(tmp_path / "several.json", log=log, proposals=proposals).ok


def test_a_shortlist_from_its_log_or_from_a_table_of_its_rows(tmp_path):
    CASES["shortlist"]().save(tmp_path / "found.json")
    log = shortlist()
    assert verify_record(tmp_path / "found.json", log=log).ok
    names = ("log_safe", "log_optimized", "log_safe_all", "log_optimized_all")
    table = tether.Log(log.loss, **{name: getattr(log, name) for name in names})
    assert table.scored_by is None
    found = verify_record(tmp_path / "found.json", log=table)
    assert found.ok, str(found)
    entries = forged.entries_of(tmp_path / "found.json")
    entries["pick_quantiles"] = [1.0] * 101
    (tmp_path / "forged.json").write_text(json.dumps(forged.with_digest(entries)))
    found = verify_record(tmp_path / "forged.json", log=log)
    assert "calibrating again gives another pick_quantiles" in str(found)


def test_a_forged_result_of_the_true_log_is_named(tmp_path):
    CASES["alpha"]().save(tmp_path / "found.json")
    entries = forged.entries_of(tmp_path / "found.json")
    entries["robustness"] = 3.0
    (tmp_path / "forged.json").write_text(json.dumps(forged.with_digest(entries)))
    log, proposals = gaussian()
    assert verify_record(tmp_path / "forged.json").ok
    found = verify_record(tmp_path / "forged.json", log=log, proposals=proposals)
    assert [each.text for each in found.problems] == ["calibrating again gives another robustness"]


def test_one_changed_loss_is_another_log(tmp_path):
    CASES["alpha"]().save(tmp_path / "found.json")
    log, proposals = gaussian()
    losses = log.loss["loss"].copy()
    losses[17] = 1 - losses[17]
    other = tether.Log(losses, log.log_safe, log.log_optimized)
    found = verify_record(tmp_path / "found.json", log=other, proposals=proposals)
    assert [each.text for each in found.problems] == ["another log: these differ: log: loss[loss]"]


def test_settings_that_do_not_calibrate_are_named(tmp_path):
    CASES["alpha"]().save(tmp_path / "found.json")
    entries = forged.entries_of(tmp_path / "found.json")
    entries["provenance"]["settings"]["blend"] = "x"
    entries["provenance"]["version"] = "0.0.1"
    (tmp_path / "forged.json").write_text(json.dumps(forged.with_digest(entries)))
    log, proposals = gaussian()
    found = verify_record(tmp_path / "forged.json", log=log, proposals=proposals)
    assert "its settings do not calibrate: blend must be a number" in str(found)
    assert "saved by 0.0.1" in str(found)


def test_a_family_of_ones_own_cannot_be_computed_again_from_its_name(tmp_path):
    log = tether.Log(np.zeros(50), np.zeros(50), np.linspace(-1, 1, 50))
    proposals = tether.Proposals([0.0, 0.0], [0.5, -0.5])
    tether.calibrate(log, proposals, alpha=0.2, family=Geometric()).save(tmp_path / "own.json")
    found = verify_record(tmp_path / "own.json", log=log, proposals=proposals)
    assert found.ok
    assert found.findings[-1].ok is None
    assert "not a family of the package" in found.findings[-1].text


def test_a_calibration_without_an_origin_is_named(tmp_path):
    saved = CASES["alpha"]().to_dict() | {"provenance": None}
    tether.Calibration.from_dict(saved).save(tmp_path / "old.json")
    assert tether.Calibration.load(tmp_path / "old.json").provenance is None
    found = verify_record(tmp_path / "old.json")
    assert [each.name for each in found.problems] == ["origin"]


def test_a_log_read_from_a_table_lacks_what_was_noticed_when_it_was_made(tmp_path):
    """What `make_log` warned of is kept; what the table itself shows must be in the record."""
    log, proposals = gaussian()
    noticed = tether.Log(log.loss, log.log_safe, log.log_optimized, warnings=["rows are missing"])
    tether.calibrate(noticed, proposals, alpha=0.2).save(tmp_path / "found.json")
    found = verify_record(tmp_path / "found.json", log=log, proposals=proposals)
    assert found.ok, str(found)
    entries = forged.entries_of(tmp_path / "found.json")
    for name in ("warnings", "log_warnings"):
        entries[name] = [each for each in entries[name] if each != "rows are missing"]
    (tmp_path / "forged.json").write_text(json.dumps(forged.with_digest(entries)))
    found = verify_record(tmp_path / "forged.json", log=noticed, proposals=proposals)
    text = "calibrating again gives another warnings, log_warnings"
    assert sorted(each.text for each in found.problems) == [text]
    entries["log_warnings"] = ["rows are missing"]
    (tmp_path / "forged.json").write_text(json.dumps(forged.with_digest(entries)))
    assert "warnings does not say all" in str(verify_record(tmp_path / "forged.json"))


def test_a_record_of_a_refuted_log_is_true_also_beside_a_table_of_its_rows(tmp_path):
    """The table does not show what refuted the log; the record may not hide what a log shows."""
    log, proposals = gaussian()
    columns = log.loss, log.log_safe, log.log_optimized
    refuted = tether.Log(*columns, warnings=[refute("another sampler took the actions")])
    found = tether.calibrate(refuted, proposals, alpha=0.2)
    assert found.refuted_by == refuted.warnings
    assert not found.useful
    found.save(tmp_path / "found.json")
    for each in (log, refuted):
        verified = verify_record(tmp_path / "found.json", log=each, proposals=proposals)
        assert verified.ok, str(verified)
    tether.calibrate(log, proposals, alpha=0.2).save(tmp_path / "hidden.json")
    verified = verify_record(tmp_path / "hidden.json", log=refuted, proposals=proposals)
    (problem,) = verified.problems
    assert "another" in problem.text
    assert "refuted_by" in problem.text
    entries = forged.entries_of(tmp_path / "found.json")
    entries["warnings"], entries["log_warnings"] = [], []
    (tmp_path / "forged.json").write_text(json.dumps(forged.with_digest(entries)))
    assert "not say all that refuted_by says" in str(verify_record(tmp_path / "forged.json"))
