import sys

import numpy as np

from tether.demo.biopsy_outcomes import FAMILIES, PROMISES, Outcome, print_table, summarize


def test_tether_keeps_to_alpha_and_avoids_more_biopsies_as_alpha_grows(demo_run):
    by_name = {(outcome.name, outcome.promise): outcome for outcome in demo_run.outcomes}
    for family in FAMILIES:
        outcomes = [by_name[f"tether, {family}", promise] for promise in PROMISES]
        avoided = [outcome.avoided.mean() for outcome in outcomes]
        assert avoided[0] > by_name["safe", None].avoided.mean()
        assert np.all(np.diff(avoided) > 0)
        assert not any(outcome.exceeds_promise for outcome in outcomes)


def test_a_policy_without_alpha_cannot_exceed_it():
    missed = np.array([50.0, 60.0])
    assert not Outcome("optimized", None, missed, missed).exceeds_promise
    assert Outcome("naive threshold", 0.05, missed, missed).exceeds_promise


def test_each_summary_is_one_sentence(demo_run):
    for sentence in summarize(demo_run.outcomes):
        assert sentence in demo_run.output
        assert sentence.count(". ") == 0


def test_the_table_is_printed_without_rich_too(demo_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    lines = []
    print_table(demo_run.outcomes, 12, lines.append)
    assert lines[0] == "Of 100 patients, over 12 random splits (± one standard error)"
    assert any(line.startswith("tether, clip") for line in lines)
