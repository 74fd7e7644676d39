"""The mixture that is kept from round to round is the one made anew, whatever happens between."""

import sqlite3
from contextlib import closing, nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import tether
from tests.rounds.worlds import World
from tests.scale import scaled
from tether.rounds import Controller, calibrate_round, running_mixture
from tether.rounds.store import checkpoints
from tether.rounds.store.verify_run import find_tampering


class Picks(World):
    """Shortlists: the safe policy draws candidates, and a score picks one of them."""

    def safe(self):
        return tether.Shortlist(tether.Gaussian(lambda x: x[:, 0]), size=3)

    def optimized(self, number):
        return lambda contexts, candidates: 0.4 * number * (candidates - contexts)

    def contexts(self, rows, rng):
        return rng.normal(size=(rows, 1))

    def losses(self, contexts, actions):
        return (np.asarray(actions) > contexts[:, 0] + 1.2).astype(float)


RUNS = [
    (World("tables"), "clip"),
    (World("tables"), "mix"),
    (World("pool"), "clip"),
    (World("marginal"), "clip"),
    (World("marginal"), "mix"),
    (World("in contexts"), "mix"),
    (World("in contexts"), "budgeted_clip(4)"),
    (Picks("shortlist"), "clip"),
]


@dataclass(frozen=True)
class Step:
    """What happens in a round: rows, and the shares of pending ones that are settled before it."""

    rows: int
    observed: float
    withdrawn: float
    retires: bool
    restarts: bool
    elsewhere: bool


STEPS = st.lists(
    st.builds(
        Step,
        rows=st.integers(0, 25),
        observed=st.sampled_from([0.0, 0.5, 1.0, 1.0]),
        withdrawn=st.sampled_from([0.0, 0.0, 0.3]),
        retires=st.sampled_from([False] * 5 + [True]),
        restarts=st.booleans(),
        elsewhere=st.sampled_from([False, False, True]),
    ),
    min_size=3,
    max_size=6,
)


class Run:
    """A run in a file, with the policies that it deployed."""

    def __init__(self, path, world, **options):
        self.path, self.world, self.options = path, world, options
        self.policies = {f"round {k}": world.optimized(k) for k in range(2, 12)}
        self.deployed, self.retired = {}, set()
        self.run = self.open(path)

    def open(self, path):
        return Controller(
            self.world.safe(), store=path, alarm_risk=0.95, max_silence=None,
            policies=self.policies, normalizer_draws=200, **self.options,
        )  # fmt: skip

    def copied(self):
        copy = self.path.with_name("copy.db")
        copy.unlink(missing_ok=True)
        with (
            closing(sqlite3.connect(self.path)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
        return copy

    def settle(self, step, rng):
        """Observe some pending rows of any round, and withdraw others."""
        pending = self.run.pending()
        fate = rng.random(len(pending.ids))
        is_observed, is_withdrawn = fate < step.observed, fate > 1 - step.withdrawn * (fate > 0)
        for where in (is_observed, is_withdrawn & ~is_observed):
            if not where.any():
                continue
            if where is is_observed:
                contexts = (
                    pending.contexts
                    if isinstance(pending.contexts, int)
                    else pending.contexts[where]
                )
                losses = self.world.losses(contexts, pending.actions[where])
                self.run.observe(pending.ids[where], losses)
            else:
                self.run.withdraw(pending.ids[where], "never carried out")

    def retire_one(self):
        for number in sorted(self.deployed.keys() - self.retired):
            try:
                self.run.retire(number, "its policy is lost")
            except ValueError:  # a later beta is measured against it
                continue
            self.retired.add(number)
            return


def used_rows(run, retired, missing):
    rows = run._rows
    used = rows.calibration & ~rows.withdrawn & ~np.isin(rows.served, list(retired))
    return np.flatnonzero(used & rows.observed if missing == "exclude" else used)


def check_by_brute_force(made, log, missing):
    """Compare the mixture with that of the deployed policies themselves, row by row."""
    run = made.run
    rows, where = run._rows, used_rows(run, made.retired, missing)
    kinds, counts = np.unique(rows.served[where], return_counts=True)
    contexts = rows.contexts if isinstance(rows.contexts, int) else rows.contexts[where]
    contexts = len(where) if isinstance(contexts, int) else contexts
    policies = {0: run._registry.policy(0)} | made.deployed
    if log.log_mix is None:
        assert len(kinds) == 1
        return
    mixture = tether.Mixture([policies[k] for k in kinds], counts)
    np.testing.assert_allclose(
        log.log_mix, mixture.log_prob(contexts, rows.actions[where]), rtol=1e-9, atol=1e-9
    )
    if log.log_mix_all is not None:
        table = np.broadcast_to(mixture.log_prob_all(contexts), log.log_mix_all.shape)
        np.testing.assert_allclose(log.log_mix_all, table, rtol=1e-9, atol=1e-9)


def same_log(one, other):
    np.testing.assert_array_equal(one.loss["loss"], other.loss["loss"])
    for name in ("log_safe", "log_optimized", "log_mix", "log_mix_all", "ratio_error"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("log_logged", "log_logged_all", "log_base_limit"):
        np.testing.assert_array_equal(getattr(one.acting, name, 0), getattr(other.acting, name, 0))


def begin(run, policy):
    """The round, or why it does not begin."""
    try:
        return run.begin(policy), ""
    except ValueError as error:  # for example, densities that are not precise enough
        return None, str(error)


def play(made, steps, logs, missing, rng):
    """Go through the steps; each beta is also found by a process that has just been started."""
    for number, step in enumerate(steps, start=2):
        made.settle(step, rng)
        if step.retires:
            made.retire_one()
        if step.restarts:
            made.run.close()
            made.run = made.open(made.path)
        copy = made.copied()
        logs.clear()
        # another process may begin the round
        with made.open(made.path) if step.elsewhere else nullcontext(made.run) as other:
            begun, error = begin(other, made.world.optimized(number))
        with made.open(copy) as fresh:
            again, same_error = begin(fresh, made.world.optimized(number))
        assert error == same_error
        if begun is None:
            return
        assert begun.beta == again.beta
        made.run._refresh()
        begun = made.run.round
        if logs:
            assert len(logs) == 2
            same_log(*logs)
            if made.world.name != "in contexts" or made.options["family"] == "mix":
                check_by_brute_force(made, logs[0], missing)
        if begun._deployed is not None:
            made.deployed[number] = begun._deployed.policy
        if step.rows:
            begun.act(made.world.contexts(step.rows, rng), rng)
    with made.run._store.reading() as connection:
        assert list(find_tampering(connection)) == []


def check_run(world, family, steps, seed, options, small, path):
    rng, logs = np.random.default_rng(seed), []

    def noted(log, *arguments, **options):
        logs.append(log)
        return tether.calibrate(log, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate_round, "calibrate", noted)
        if small:
            patch.setattr(checkpoints, "MIN_ROWS", 30)
            patch.setattr(running_mixture, "SCORES_PER_CHUNK", 37)
            patch.setattr(running_mixture, "MAX_UNFOLDED", 2)
        made = Run(path, world, alpha=0.35, family=family, **options)
        taken = made.run.begin().act(world.contexts(60, rng), rng)
        made.run.observe(taken.ids, world.losses(taken.contexts, taken.actions))
        play(made, steps, logs, options["missing"], rng)
        made.run.close()


CASES = {
    "steps": STEPS,
    "seed": st.integers(0, 2**32 - 1),
    "options": st.fixed_dictionaries(
        {
            "missing": st.sampled_from(["worst_case", "exclude"]),
            "against": st.sampled_from(["safe", "last"]),
            "confidence": st.sampled_from([None, None, 0.8]),
        }
    ),
    "small": st.booleans(),
}
for_each_run = pytest.mark.parametrize(
    ("world", "family"), RUNS, ids=lambda each: getattr(each, "name", each)
)
STEADY = [Step(18, 1.0, 0.0, retires=False, restarts=False, elsewhere=False)] * 8
LATE = [Step(18, 0.6, 0.0, retires=False, restarts=False, elsewhere=False)] * 6
WITHDRAWN = [Step(18, 0.6, 0.3, retires=False, restarts=False, elsewhere=False)] * 6


@for_each_run
@settings(deadline=None, phases=[Phase.explicit])
@example(
    steps=STEADY,
    seed=3,
    options={"missing": "exclude", "against": "safe", "confidence": None},
    small=False,
)
@example(
    steps=LATE,
    seed=1,
    options={"missing": "exclude", "against": "safe", "confidence": None},
    small=False,
)
@example(
    steps=WITHDRAWN,
    seed=2,
    options={"missing": "worst_case", "against": "last", "confidence": 0.8},
    small=False,
)
@given(**CASES)
def test_every_beta_is_that_of_a_new_process_and_of_brute_force(
    world, family, steps, seed, options, small, tmp_path_factory
):
    path = tmp_path_factory.mktemp("run") / "run.db"
    check_run(world, family, steps, seed, options, small, path)


@pytest.mark.slow
@for_each_run
@settings(max_examples=scaled(2), deadline=None, phases=[Phase.generate])  # to shrink takes long
@given(**CASES)
def test_many_runs(world, family, steps, seed, options, small, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.db"
    check_run(world, family, steps, seed, options, small, path)
