"""Best of N for every kind of language model and every kind of score, end to end."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("peft", reason="needs tether[llm]")
pytest.importorskip("openai", reason="needs openai")

import tether
from tests.llm.best_of_n_worlds import TEXTS, WORLDS

SIZE = 5


@pytest.fixture(params=WORLDS)
def world(request):
    with WORLDS[request.param]() as made:
        yield made


def test_candidates_of_a_context_are_one_request_or_one_reading_of_the_prompt(world):
    shortlist, rng = tether.Shortlist(world.safe, size=SIZE), np.random.default_rng(0)
    if world.server is None:
        read = []
        hook = world.safe.model.register_forward_pre_hook(
            lambda module, _, given: read.append(given["input_ids"].shape), with_kwargs=True
        )
        rows = shortlist.draw(world.contexts, rng)
        hook.remove()
        distinct = len(set(TEXTS))
        passes = [shape for shape in read if shape[0] > 1 or shape[1] > 1]
        # the prompts, each once; then a token of every candidate at a time
        assert (distinct, max(map(len, TEXTS))) in passes
        unfinished = int((rows.candidates[:, :, 1] >= 0).sum()), 1
        assert unfinished in passes
        assert all(shape[1] == 1 for shape in read[read.index(unfinished) :])
    else:
        rows = shortlist.draw(world.contexts, rng)
        asked = sorted(body["n"] for body in world.server.requests)
        counts = np.unique(TEXTS, return_counts=True)[1]
        assert asked == sorted(counts * SIZE)
    assert rows.candidates.shape[:2] == (len(TEXTS), SIZE)
    distinct = {str(each) for row in rows.candidates for each in row}
    assert len(distinct) > 3, "candidates are draws of their own"


@pytest.mark.filterwarnings("ignore:.*in the log more than once")
def test_an_old_log_joins_by_fresh_draws_and_every_score_is_calibrated_and_served(world):
    rng = np.random.default_rng(0)
    contexts = np.tile(world.contexts, 5)
    actions = world.safe.sample(contexts, rng)
    if world.server is not None:
        world.server.requests.clear()
    for name, optimized in world.scores.items():
        shortlist = tether.Shortlist(world.safe, optimized, size=SIZE)
        rows, index = shortlist.join(contexts, actions, rng)
        assert np.array_equal(rows.picked(index), actions)
        assert len(set(index)) == SIZE
        log = shortlist.make_log(contexts, actions, world.losses(actions), rng)
        found = tether.calibrate(log, alpha=0.6)
        assert found.exists, name
        assert found.log_beta > -np.inf, name
        policy = shortlist.tethered(found)
        assert policy.sample(world.contexts, rng).shape == actions[: len(TEXTS)].shape
        scores = policy.pick.optimized.scores(shortlist.draw(world.contexts, rng))
        assert np.isfinite(scores).all()
        assert np.ptp(scores, axis=1).max() > 0, f"{name} prefers some candidates"


def test_two_rounds_of_a_controller(world, tmp_path):
    rng, store = np.random.default_rng(0), tmp_path / "run.db"
    name, optimized = list(world.scores.items())[-1]
    contexts = np.tile(world.contexts, 2)
    settings = {"alpha": 0.6, "stop": None, "calibration_share": 1.0}
    with tether.Controller(tether.Shortlist(world.safe, size=SIZE), store=store, **settings) as run:
        run.begin()
        logged = run.record(contexts, world.safe.sample(contexts, rng), rng)
        run.observe(logged.ids, world.losses(logged.actions))
        for number in (2, 3):
            round_ = run.begin(optimized, name=f"{name} {number}")
            assert round_.calibration.log_beta > -np.inf
            taken = round_.act(contexts, rng)
            assert taken.candidates.shape[:2] == (len(contexts), SIZE)
            run.observe(taken.ids, world.losses(taken.actions))
        assert len(run.history().units) == 3
        assert run.verify() == []
    policies = dict.fromkeys((f"{name} 2", f"{name} 3"), optimized)
    again = tether.Controller(
        tether.Shortlist(world.safe, size=SIZE), store=store, policies=policies, **settings
    )
    with again:  # the run goes on
        assert len(again.round.act(world.contexts, rng).actions) == len(world.contexts)
