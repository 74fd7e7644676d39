"""Save, load, and compare: bytes, draws and scores, for every kind of policy."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tether
from tests.saving import parts
from tether.aiming import AimedPolicy, AimedScore, TemperedPolicy, fit_loss
from tether.bo import AcquisitionPool
from tether.policies import Picker, ShortlistRows
from tether.saving import CannotSaveError, policy_from_bytes, policy_to_bytes

HERE = "tests.saving.parts"
X = np.random.default_rng(0).normal(size=(6, 2))
FIRST = tether.Categorical.from_probabilities([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
SAFE, NEW = tether.Gaussian(0.0), tether.Gaussian(1.0, 0.8)


def same(policy, loaded, contexts):
    drawn = [each.sample(contexts, np.random.default_rng(3)) for each in (policy, loaded)]
    assert drawn[0].dtype == drawn[1].dtype
    assert drawn[0].tobytes() == drawn[1].tobytes()
    if hasattr(policy, "log_prob"):
        scores = [each.log_prob(contexts, drawn[0]) for each in (policy, loaded)]
        assert scores[0].tobytes() == scores[1].tobytes()


def round_trip(policy, contexts=6, **options):
    """The reloaded policy, after it was found to be the same."""
    data = policy_to_bytes(policy)
    loaded = policy_from_bytes(data, **{"allow_imports": [HERE], **options})
    assert policy_to_bytes(loaded) == data
    same(policy, loaded, contexts)
    return loaded


def fitted(model=None):
    features = np.random.default_rng(1).normal(size=(30, 2))
    return (model or LogisticRegression()).fit(features, [0, 1, 2] * 10)


CLASSIFIER = tether.Categorical.from_classifier(fitted())


def aimed_model():
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=(300, 2)), rng.integers(3, size=300)
    harm = (rng.random(300) < 1 / (1 + np.exp(-3 * contexts[:, 0]))).astype(float)
    return fit_loss(contexts, actions, harm, rng=rng, policies=[CLASSIFIER])


def calibrated(family="clip", **options):
    rng = np.random.default_rng(0)
    actions = SAFE.sample(400, rng)
    log = tether.make_log(SAFE, NEW, None, actions, 0.5 * (actions > 1.5))
    proposals = tether.make_proposals(SAFE, NEW, None, 400, rng)
    found = tether.calibrate(log, proposals, family=family, **options)
    policy = tether.Tethered(SAFE, NEW, found)
    policy.log_prob(1, [0.0])  # caches a normalizer
    return policy


RATIO = tether.estimate_ratio(SAFE, NEW, 400, np.random.default_rng(1))
POLICIES = {
    "gaussian": (tether.Gaussian([0.1, -2.0], [2.0, 0.7]), 6),
    "gaussian of a function": (tether.Gaussian(parts.doubled), X[:, 0]),
    "table": (FIRST, np.array([0, 1, 1])),
    "function": (tether.Categorical.from_logits(parts.flat_logits, actions=["a", "b", "c"]), X),
    "classifier": (tether.Categorical.from_classifier(fitted(), temperature=0.5), X),
    "pool": (tether.Pool([0.0, 1.0, -np.inf], temperature=0.3), 6),
    "acquisition": (AcquisitionPool(lambda points: points[:, 0], [[0.0], [1.0]]), 6),
    "mixture": (tether.Mixture([SAFE, NEW], [1, 2]), 6),
    "functions": (tether.FunctionPolicy(parts.draw, parts.log_density), 6),
    "made": (tether.policies.policy_from(f"{HERE}:shifted", by=2.0), X[:, 0]),
    "own": (parts.Own(SAFE, np.arange(3.0), [1, "x", None]), 6),
    "tethered": (tether.Tethered(SAFE, NEW, 0.5, sampler="overlap"), 6),
    "mix": (tether.Tethered(FIRST, FIRST, 3.0, family="mix"), np.array([0, 1])),
    "budgeted": (tether.Tethered(SAFE, NEW, 2.0, family="budgeted_clip(3)"), 6),
    "infinite": (tether.Tethered(SAFE, NEW, np.inf), 6),
    "calibrated": (calibrated(alpha=0.2), 6),
    "promised": (calibrated(promise=0.2, spread=True), 6),
    "estimated ratio": (tether.Tethered(RATIO.safe, RATIO.optimized, 0.7, family="mix"), 6),
    "tempered": (TemperedPolicy(FIRST, 0.5), np.array([0, 1])),
    "aimed": (AimedPolicy(CLASSIFIER, {"": aimed_model()}, {"": 3.0}), X),
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_kind_of_policy(name):
    round_trip(*POLICIES[name])


def test_shortlists():
    for pick in (parts.score, partial(parts.score, slope=2.0), NEW):
        shortlist = tether.Shortlist(SAFE, pick, size=3, temperature=0.5)
        loaded = policy_from_bytes(policy_to_bytes(shortlist), allow_imports=[HERE])
        same(shortlist.tethered(2.0), loaded.tethered(2.0), 6)
        round_trip(shortlist.tethered(2.0))
    picker = tether.Shortlist(SAFE, NEW, size=3).required_picker
    aimed = AimedScore(picker, {"": parts.cost}, {"": 1.5})
    round_trip(tether.Shortlist(parts.draw, Picker(aimed, 3), size=3).tethered(2.0))


def test_models_need_trust_beyond_the_usual_types():
    text = make_pipeline(TfidfVectorizer(), LogisticRegression())
    words = np.array(["one two", "two three", "six one"] * 3)
    round_trip(tether.Categorical.from_classifier(text.fit(words, [0, 1, 2] * 3)), words)
    trees = fitted(HistGradientBoostingClassifier(max_iter=3))
    data = policy_to_bytes(trees)
    with pytest.raises(ValueError, match="TreePredictor"):
        policy_from_bytes(data)
    trusted = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
    same(tether.Categorical.from_classifier(trees), policy_from_bytes(data, trusted=trusted), X)


def test_torch_modules():
    torch, of = pytest.importorskip("torch"), partial(Picker, size=3)
    module = tether.policies.policy_from(f"{HERE}:network", width=5)
    with torch.no_grad():
        module.layers[0].weight += 1.0
        module.shift += 0.5
    loaded = policy_from_bytes(policy_to_bytes(of(module.eval())), allow_imports=[HERE])
    rows = ShortlistRows(X, np.zeros((6, 3)))
    assert np.array_equal(*(each.log_prob_all(rows) for each in (loaded, of(module))))
    with pytest.raises(CannotSaveError, match="torch module"):
        policy_to_bytes(of(parts.network()))


def test_a_part_that_appears_twice_is_saved_once():
    big = tether.Categorical.from_probabilities(np.full((20_000, 4), 0.25))
    assert len(policy_to_bytes(tether.Mixture([big, big, big], [1, 1, 1]))) < 700_000


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (parts.Stranger(), "tether_save"),
        (tether.Gaussian(lambda contexts: contexts), "import path"),
        (tether.Mixture([SAFE, tether.Gaussian(lambda x: x)], [1, 1]), r"policies\[1\].mean"),
        (3, "must be a policy"),
        (tether.Gaussian, "must be a policy"),
    ],
)
def test_what_cannot_be_saved_is_named(policy, words):
    with pytest.raises(CannotSaveError, match=words):
        policy_to_bytes(policy)


def test_files_in_another_process(tmp_path):
    path = tmp_path / "served.tether"
    tether.save_policy(calibrated(alpha=0.2), path)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    code = f"import tether; print(tether.load({str(path)!r}).log_prob(1, [0.3])[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert float(done.stdout) == calibrated(alpha=0.2).log_prob(1, [0.3])[0]
