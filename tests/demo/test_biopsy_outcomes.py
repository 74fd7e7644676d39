import numpy as np

from tether.demo.biopsy_outcomes import (
    ALPHAS,
    CHOSEN,
    NAIVE,
    TETHERED,
    Outcome,
    most_avoided,
    summarize,
)


def test_tether_keeps_to_alpha_and_avoids_more_biopsies_as_alpha_grows(demo_run):
    by_name = {(outcome.name, outcome.alpha): outcome for outcome in demo_run.outcomes}
    for name in TETHERED:
        outcomes = [by_name[name, alpha] for alpha in ALPHAS]
        avoided = [outcome.avoided.mean() for outcome in outcomes]
        assert avoided[0] > by_name["safe", None].avoided.mean()
        assert np.all(np.diff(avoided) > 0)
        assert not any(outcome.exceeds_alpha for outcome in outcomes)
        assert all(np.all(outcome.promise >= 100 * outcome.alpha) for outcome in outcomes)


def test_missing_no_more_cancers_the_choice_spares_85_percent_of_what_the_naive_threshold_does(
    demo_run,
):
    naive = next(outcome for outcome in demo_run.outcomes if outcome.name == NAIVE)
    chosen = most_avoided(demo_run.outcomes, CHOSEN, naive.missed.mean())
    assert chosen.missed.mean() <= naive.missed.mean()
    assert chosen.avoided.mean() >= 0.85 * naive.avoided.mean()


def test_the_most_avoided_are_those_of_an_outcome_within_the_risk():
    def outcome(alpha, missed, avoided):
        return Outcome("a", alpha, np.full(2, missed), np.full(2, avoided), np.full(2, np.nan))

    outcomes = [outcome(0.05, 3.0, 10.0), outcome(0.06, 5.0, 30.0), outcome(0.08, 6.0, 40.0)]
    assert most_avoided(outcomes, "a", 5.5) is outcomes[1]
    assert most_avoided(outcomes, "a", 1.0) is outcomes[0]


def test_a_policy_without_alpha_cannot_exceed_it():
    missed = np.array([50.0, 60.0])
    assert not Outcome("optimized", None, missed, missed, missed).exceeds_alpha
    assert Outcome("naive threshold", 0.05, missed, missed, missed).exceeds_alpha


def test_each_summary_is_one_sentence(demo_run):
    for sentence in summarize(demo_run.outcomes):
        assert sentence in demo_run.output
        assert sentence.count(". ") == 0
