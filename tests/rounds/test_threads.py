"""Threads that share a controller: every row is there once, and every beta is right."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest

import tether
from tests.rounds.worlds import World
from tether.rounds import Controller, RoundOverError
from tether.rounds.store.verify_run import find_tampering

THREADS = 8


def all_at_once(jobs):
    """Run the jobs in threads that start at the same moment; their results."""
    barrier = Barrier(len(jobs))

    def run(job):
        barrier.wait(timeout=60)
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request):
    """A store of each kind; in memory there is one connection for all threads."""
    if request.param == "memory":
        return "sqlite://"
    name = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param]
    return request.getfixturevalue(name)


def start(world, url, **options):
    settings = {"alpha": 0.3, "alarm_risk": 0.9, "missing": "exclude", "deadline": 60}
    return Controller(world.safe(), store=url, **settings, **options)


def test_threads_that_act_and_observe_and_one_that_begins(url):
    """Every action is stored once; betas are those that a fresh process computes."""
    world = World("tables")
    stored, betas = {}, {}
    with start(world, url) as run:
        rng = np.random.default_rng(0)
        taken = run.begin().act(world.contexts(300, rng), rng)
        losses = world.losses(taken.contexts, taken.actions)
        run.observe(taken.ids, losses)

        def act(seed):
            rng, mine = np.random.default_rng(seed), {}
            for _ in range(12):
                try:
                    taken = run.round.act(world.contexts(5, rng), rng)
                except RoundOverError:
                    continue
                losses = world.losses(taken.contexts, taken.actions)
                run.observe(taken.ids, losses)
                mine |= dict(zip(taken.ids.tolist(), losses.tolist(), strict=True))
                run.pending()
            return mine

        def begin():
            for number in range(2, 6):
                begun = run.begin(world.optimized(number), name=f"{number}")
                betas[begun.number] = begun.beta
            return {}

        jobs = [lambda seed=seed: act(seed) for seed in range(THREADS - 1)] + [begin]
        for mine in all_at_once(jobs):
            assert not stored.keys() & mine.keys()
            stored |= mine
        stored |= dict(zip(taken.ids.tolist(), losses.tolist(), strict=True))
        run._refresh()
        assert (
            dict(zip(run._rows.ids.tolist(), run._rows.losses[:, 0].tolist(), strict=True))
            == stored
        )
        with run._store.reading() as connection:
            assert list(find_tampering(connection)) == []
        last = run.begin(world.optimized(6), name="6").beta
    if url != "sqlite://":
        check_again(world, url, betas | {6: last})


def check_again(world, url, betas):
    """A controller that never saw these rows before deploys the same policies."""
    with start(world, url, policies=lambda name: world.optimized(int(name))) as fresh:
        for record in fresh.history().rounds[1:]:
            assert record.beta == betas[record.number]
        again = fresh.begin(world.optimized(6), name="again")
        assert again.beta == pytest.approx(betas[6], rel=1e-9)


def test_an_idempotency_key_in_many_threads_acts_once(url):
    with Controller(tether.Gaussian(0.0), store=url, alpha=0.1, deadline=60) as run:
        round_ = run.begin()
        jobs = [lambda k=k: round_.act(3, np.random.default_rng(k), key="one") for k in range(8)]
        found = all_at_once(jobs)
        assert len({tuple(each.ids.tolist()) for each in found}) == 1
        assert len({tuple(each.actions.tolist()) for each in found}) == 1
        assert len(run.pending()) == 3
        with pytest.raises(ValueError, match="key 'one' was used for other contexts"):
            round_.act(4, np.random.default_rng(0), key="one")


def test_a_thread_that_is_interrupted_while_it_waits_blocks_nobody(sqlite_url):
    """Neither in the queue, nor when it would have led."""
    with start(World("marginal"), sqlite_url) as run:
        commits, entered, leave = run._recorder._commits, Event(), Event()

        def slow(_):
            entered.set()
            leave.wait(60)

        for promoted in (False, True):
            entered.clear(), leave.clear()

            def interrupted(job, promoted=promoted):
                if promoted:
                    leave.set()
                    job.done.wait(60)
                raise KeyboardInterrupt

            with ThreadPoolExecutor(1) as pool:
                leading = pool.submit(commits.submit, slow)
                entered.wait(60)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(commits, "_wait", interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        commits.submit(lambda _: None)
                leave.set()
                leading.result(60)
            assert commits.submit(lambda _: 7) == 7
