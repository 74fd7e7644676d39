"""A round whose rows contradict their own probabilities: more rows are advised nowhere."""

import numpy as np
import pytest

import tether
from tests.cli.command_line import one_line
from tests.cli.command_line import run as command
from tether.report import render
from tether.report.sentences import run_promise, run_state
from tether.rounds import Controller, read_history

ADVICE = "The log was not scored under the policy that took the actions"


class Misstated:
    """A policy that acts with another mean than the one that it states, until it is mended."""

    mean = 0.8

    def sample(self, contexts, rng):
        return tether.Gaussian(self.mean).sample(contexts, rng)

    def log_prob(self, contexts, actions):
        return tether.Gaussian(0.0).log_prob(contexts, actions)


@pytest.fixture(params=[{}, {"confidence": 0.9}], ids=["alpha", "confidence"])
def refuted(request, tmp_path):
    """The store of a run and its last round."""
    safe, store = Misstated(), tmp_path / "run.db"
    settings = {"alpha": 0.3, "alarm_risk": 0.9, "calibration_share": 1} | request.param
    with Controller(safe, store=store, **settings) as run:
        taken = run.begin().act(400, np.random.default_rng(0))
        run.observe(taken.ids, (taken.actions > 2.2).astype(float))
        safe.mean = 0.0
        return store, run.begin(tether.Gaussian(0.8))


def test_its_note_is_the_warning_of_its_calibration(refuted):
    store, begun = refuted
    assert begun.calibration.exists
    assert begun.calibration.refuted_by == (begun.note,)
    assert ADVICE in begun.note
    last = read_history(store).rounds[-1]
    assert last.note == begun.note
    text = " ".join(str(last).split())
    assert text.count(ADVICE) == 1
    assert "collect" not in text
    text = one_line(command("status", store))
    assert ADVICE in text
    assert "collect" not in text


def test_report_and_dashboard_say_what_to_do_instead(refuted):
    history = read_history(refuted[0])
    assert ADVICE in run_state(history).details
    promise, explanation = run_promise(history)
    assert promise == "None: a calibration on this log does not hold."
    assert explanation.startswith("Serve the safe policy. More rows of such a log do not help")
    page = render(history)
    assert explanation in page
    assert ADVICE in page
    assert "collect more rows" not in page
    assert "of no use" not in page
