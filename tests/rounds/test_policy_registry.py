"""A policy is recognized by its name, its fingerprint and its scores."""

import sys

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import MovingGaussian, begun_run, controller
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller, StoreError, reopen
from tether.rounds.policy_registry import fingerprint
from tether.rounds.store.database import Store


def test_fingerprints():
    import tether

    assert fingerprint(tether.Gaussian(0.0)) == fingerprint(tether.Gaussian(0.0))
    assert fingerprint(tether.Gaussian(0.0)) != fingerprint(tether.Gaussian(1e-9))
    assert fingerprint(tether.Gaussian(lambda x: x)) is None  # only its scores tell
    used = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), 0.5)
    before = fingerprint(used)
    used.log_prob(2, np.zeros(2))
    used.sample(3, np.random.default_rng(0))
    assert fingerprint(used) == before
    pool = tether.Pool(np.arange(5.0))
    assert fingerprint(pool) not in (None, fingerprint(tether.Pool(np.arange(6.0))))

    class Named(tether.Gaussian):
        fingerprint = "v3"

    class Asked(tether.Gaussian):
        def fingerprint(self):
            return "v4"

    assert fingerprint(Named(0.0)) == "v3"
    assert fingerprint(Asked(0.0)) == "v4"


def tethered(beta=0.7):
    return tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(0.5), beta)


def test_using_a_policy_does_not_change_its_fingerprint():
    used = tethered()
    used.log_prob(3, used.sample(3, np.random.default_rng(0)))  # remembers its normalizer
    assert fingerprint(used) == fingerprint(tethered()) != fingerprint(tethered(0.8))


def test_a_store_made_with_a_used_policy_opens_with_a_fresh_one(tmp_path):
    used = tethered()
    used.log_prob(3, used.sample(3, np.random.default_rng(0)))
    tether.Controller(used, alpha=0.2, store=tmp_path / "run.db").close()
    tether.Controller(tethered(), alpha=0.2, store=tmp_path / "run.db").close()


def test_a_run_goes_on_after_a_restart(tmp_path):
    world, store = World("marginal"), tmp_path / "run.db"
    whole, halves = [], []
    rng = np.random.default_rng(15)
    with controller(world, tmp_path / "other.db", alpha=0.3) as run:
        whole = [one_round(run, world, number, 200, rng)[0].beta for number in range(1, 6)]
    rng = np.random.default_rng(15)
    with controller(world, store, alpha=0.3) as run:
        halves = [one_round(run, world, number, 200, rng)[0].beta for number in range(1, 4)]
    names = {f"round {number}": world.optimized(number) for number in range(1, 6)}
    with controller(
        world, store, alpha=0.3, policies=names | {"round 3": tether.Gaussian(9.0)}
    ) as run:
        with pytest.raises(ValueError, match=r"policies\['round 3'\] is not the policy of round 3"):
            run.begin(world.optimized(4))
    for opened in (
        controller(world, store, alpha=0.3, policies=names.get),
        reopen(store),  # the same from the store alone
    ):
        with opened as run:
            current = run.round
            assert current.number == len(halves)
            assert current.beta == pytest.approx(halves[-1])
            halves.append(one_round(run, world, current.number + 1, 200, rng)[0].beta)
    assert halves == pytest.approx(whole, rel=1e-9)


def test_a_policy_that_cannot_be_stored_is_asked_for(tmp_path):
    store = tmp_path / "run.db"

    def moving(mean):
        policy = tether.Gaussian(mean, 0.9)
        return tether.FunctionPolicy(lambda n, rng: policy.sample(n, rng), policy.log_prob)

    run, round_, rng = begun_run(moving(0.6), store=store)
    run.observe(round_.act(20, rng).ids, np.zeros(20))
    run.close()
    options = {"alpha": 0.3, "alarm_risk": 0.9, "store": store}
    with Controller(tether.Gaussian(0.0), **options) as run:
        assert not run.history().rounds[1].stored
        with pytest.raises(ValueError, match=r"'round 2'.*Pass policies=.*not in the store: .*"):
            run.begin(tether.Gaussian(0.4))
    with Controller(tether.Gaussian(0.0), policies={"round 2": moving(0.6)}, **options) as run:
        assert run.begin(tether.Gaussian(0.4)).beta > 0
        assert run.history().rounds[2].stored


def test_a_run_whose_safe_policy_is_not_stored_is_not_reopened(tmp_path):
    store, safe = tmp_path / "run.db", tether.Gaussian(0.0)
    hidden = tether.FunctionPolicy(lambda n, rng: safe.sample(n, rng), safe.log_prob)
    Controller(hidden, alpha=0.3, store=store).close()
    with pytest.raises(ValueError, match=r"the safe policy 'safe' is not in .*pass it to tether"):
        reopen(store)
    Store(tmp_path / "empty.db").close()
    with pytest.raises(StoreError, match="holds no run of tether yet"):
        reopen(tmp_path / "empty.db")


def test_a_run_on_shortlists_is_reopened_from_its_store(tmp_path):
    store, rng = tmp_path / "run.db", np.random.default_rng(0)
    shortlist = tether.Shortlist(tether.Gaussian(0.0), size=4)
    with Controller(shortlist, alpha=0.3, alarm_risk=0.9, store=store) as run:
        taken = run.begin().act(200, rng)
        run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))
        taken = run.begin(tether.Gaussian(0.5)).act(50, rng)
        run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))
        beta = run.round.beta
    with reopen(store) as run:
        assert run.round.beta == beta > 0
        assert run.begin(tether.Gaussian(0.6)).beta > 0


def test_a_policy_with_other_scores_is_refused(tmp_path):
    world, store, rng = World("marginal"), tmp_path / "run.db", np.random.default_rng(16)

    def hidden(mean):
        policy = tether.Gaussian(mean, 0.9)
        return tether.FunctionPolicy(policy.sample, policy.log_prob)

    with controller(world, store) as run:
        one_round(run, world, 1, 200, rng)
        round_ = run.begin(hidden(0.6), name="bold")
        run.observe(round_.act(50, rng).ids, np.zeros(50))
    with controller(world, store, policies={"bold": hidden(0.7)}) as run:
        with pytest.raises(ValueError, match="the optimized policy is not the 'bold'"):
            run.begin(world.optimized(3))
    with controller(world, store, policies={"bold": hidden(0.6)}) as run:
        assert run.begin(world.optimized(3)).beta > 0


def test_a_normalizer_is_read_from_the_store(tmp_path, monkeypatch):
    policies = {"round 2": tether.Gaussian(0.6, 0.9)}
    run, round_, _ = begun_run(policies["round 2"], store=tmp_path / "run.db")
    expected = round_.policy.normalizer(1).log_psi[0]
    run.close()
    options = {"alpha": 0.3, "alarm_risk": 0.9, "store": tmp_path / "run.db", "policies": policies}
    with Controller(tether.Gaussian(0.0), **options) as run:
        module = sys.modules["tether.policies.tethered"]
        monkeypatch.setattr(module, "normalizers_by_context", None)  # nothing is estimated again
        assert run.round.policy.normalizer(1).log_psi[0] == expected
    with pytest.raises(ValueError, match="normalizer_draws is 5"):
        Controller(tether.Gaussian(0.0), normalizer_draws=5, **options)


def test_a_name_belongs_to_one_policy():
    run, _, _ = begun_run(MovingGaussian(0.6))
    run.begin(tether.Gaussian(0.5), name="m")
    run.begin(tether.Gaussian(0.5), name="m")  # the same one
    with pytest.raises(ValueError, match="name 'm' belongs to the policy of round 3"):
        run.begin(tether.Gaussian(0.7), name="m")
    with pytest.raises(ValueError, match="is not known to be the same"):
        run.begin(MovingGaussian(0.5), name="m")
