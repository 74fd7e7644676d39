"""In worlds whose risk is known: who keeps a promise, who breaks alpha, who gets how far."""

import numpy as np
import pytest
from experiments.peers import formulas, methods
from experiments.peers.__main__ import main
from experiments.peers.worlds import Binary, Labelled

import tether
from tests.experiments.read import table


def test_integrals_of_the_labelled_world():
    world = Labelled(10)
    scores, labels = world.draw(np.random.default_rng(0), 40_000)
    for threshold in (0.2, 0.6, 0.9):
        kept = scores >= threshold
        for loss, exact in (("fdr", world.false_share), ("miss", world.missed)):
            values = formulas.losses_on(scores, labels, np.array([threshold]), loss)[:, 0]
            error = values.std() / len(values) ** 0.5
            assert abs(values.mean() - exact(threshold)) <= 4 * error
        dropped = (~kept & ~labels).sum() / (~labels).sum()
        assert dropped == pytest.approx(world.dropped(threshold), abs=0.01)


def test_integrals_of_the_binary_world():
    scores, labels = Binary().draw(np.random.default_rng(0), 200_000)
    for threshold in (0.3, 0.7):
        selected = scores >= threshold
        risk, power = Binary().risk_and_power(threshold)
        assert (~labels[selected]).mean() == pytest.approx(risk, abs=0.005)
        assert selected[labels].mean() == pytest.approx(power, abs=0.005)


def test_formulas_and_tether_agree_on_a_grid():
    grid = np.linspace(0, 1, 40, endpoint=False)
    for seed in range(20):
        scores, labels = Labelled(5).draw(np.random.default_rng(seed), 150)
        losses = formulas.losses_on(scores, labels, grid, "fdr")
        for alpha in (0.1, 0.2, 0.25):
            assert formulas.crc(losses, grid, alpha) == _or_none(
                tether.crc(losses, grid, alpha=alpha)
            )
            for procedure in ("bonferroni", "fixed_sequence"):
                options = {"procedure": procedure, "pvalue": "hoeffding_bentkus"}
                found = tether.ltt(losses, grid, alpha=alpha, **options)
                assert formulas.ltt(losses, grid, alpha, 0.1, procedure) == _or_none(found)


def _or_none(found):
    return found.threshold if found.exists else np.inf


@pytest.mark.skipif(not methods.mapie_installed(), reason="MAPIE is not installed")
def test_mapie_finds_what_the_formula_finds():
    settings = {"miss_alpha": 0.1, "thresholds": 20, "items": 100}
    problem = methods.keep_true(Labelled(10), settings)
    sample = problem.draw(np.random.default_rng(3), 100)
    found = {method.name: method.choose(sample) for method in problem.methods}
    assert found["MAPIE, CRC"] == pytest.approx(found["CRC formula"])


def test_quick_run(tmp_path):
    main(["--quick", "--out", str(tmp_path)])
    rows = {(row["task"], row["method"]): row for row in table(tmp_path / "peers.csv")}
    for row in rows.values():
        assert row["held"] or row["promise"] == "nothing", row
        assert row["seconds"] > 0
        assert row["megabytes"] > 0
    assert not rows["losses by coin", "CRC formula"]["held"]
    labels = {method: row for (task, method), row in rows.items() if task == "drop false labels"}
    assert labels["tether.gcrc"]["power"] > labels["tether.ltt"]["power"]
    assert labels["tether.ltt"]["power"] > labels["LTT formula, Bonferroni"]["power"]
    policy = {method: row for (task, method), row in rows.items() if task.startswith("policy")}
    assert policy["tether, clip"]["risk"] < policy["weighted mean looks safe"]["risk"]
    assert policy["tether, clip"]["power"] > policy["weighted, Bernstein bound"]["power"] + 0.1
    assert (tmp_path / "peers.md").read_text().count("\n") == len(rows) + 2
    assert (tmp_path / "peers.svg").stat().st_size > 5_000
