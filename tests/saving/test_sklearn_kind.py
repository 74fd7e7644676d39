"""Fitted scikit-learn models: the same predictions, the same bytes, and only trusted types."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tether
from tests.saving.round_trip import round_trip
from tether.saving import CannotSaveError, policy_from_bytes, policy_to_bytes
from tether.saving.sklearn_kind import is_sklearn

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(80, 2))
LABELS = np.where(FEATURES[:, 0] > 0, "treat", "wait")
TREE = "sklearn.tree._tree.Tree"


def logistic():
    return make_pipeline(StandardScaler(), LogisticRegression(class_weight={"treat": 2, "wait": 1}))


@pytest.mark.parametrize(
    "model",
    [
        logistic(),
        LogisticRegression(),
        make_pipeline(
            ColumnTransformer([("scaled", StandardScaler(), [1])], remainder="passthrough"),
            LogisticRegression(),
        ),
    ],
)
def test_classifiers_as_policies(model):
    loaded = round_trip(tether.Categorical.from_classifier(model.fit(FEATURES, LABELS)), FEATURES)
    assert loaded.actions.tolist() == ["treat", "wait"]
    round_trip(
        tether.Tethered(
            tether.Categorical.from_probabilities([0.5, 0.5], ["treat", "wait"]), model, 0.8
        ),
        FEATURES,
    )


def test_a_classifier_over_more_actions():
    model = logistic().fit(FEATURES, LABELS)
    policy = tether.Categorical.from_classifier(model, actions=["none", "wait", "treat"])
    loaded = round_trip(policy, FEATURES)
    assert loaded.actions.tolist() == ["none", "wait", "treat"]
    assert np.isneginf(loaded.log_prob_all(FEATURES)[:, 0]).all()


def test_a_classifier_is_saved_as_the_policy_that_it_is_taken_for():
    loaded = policy_from_bytes(policy_to_bytes(logistic().fit(FEATURES, LABELS)))
    assert isinstance(loaded, tether.Categorical)


def test_the_method_of_a_regression_as_a_mean():
    model = LinearRegression().fit(FEATURES, FEATURES[:, 0])
    round_trip(tether.Gaussian(model.predict, 0.5), FEATURES)
    with pytest.raises(CannotSaveError, match=r"policy\.mean is the method 'fit' of LinearReg"):
        policy_to_bytes(tether.Gaussian(model.fit, 0.5))


def test_types_that_are_not_trusted_are_named():
    model = RandomForestClassifier(3, random_state=0).fit(FEATURES, LABELS)
    policy = tether.Categorical.from_classifier(model)
    with pytest.raises(ValueError, match=rf"not trusted: {TREE}\. Pass trusted=\['{TREE}'\]"):
        policy_from_bytes(policy_to_bytes(policy))
    round_trip(policy, FEATURES, trusted=[TREE])


def test_sparse_parts_of_a_model():
    rows = sparse.csr_matrix(np.maximum(FEATURES, 0))
    model = KNeighborsClassifier(3, algorithm="brute").fit(rows, LABELS)
    loaded = round_trip_of_model(model, trusted=["scipy.sparse._csr.csr_matrix"])
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


def test_text_models_keep_the_types_of_their_keys():
    model = make_pipeline(CountVectorizer(), LogisticRegression(class_weight={1: 1.0, 0: 2.0}))
    words = np.array(["a good day", "a bad day", "good", "bad"])
    model.fit(words, [1, 0, 1, 0])
    loaded = round_trip_of_model(model)
    assert np.array_equal(loaded.predict_proba(words), model.predict_proba(words))


def round_trip_of_model(model, trusted=()):
    policy = tether.Categorical.from_classifier(model)
    data = policy_to_bytes(policy)
    loaded = policy_from_bytes(data, trusted=trusted)
    assert policy_to_bytes(loaded) == data
    return loaded._function.function.classifier


@pytest.mark.parametrize("part", [lambda x: x, (x for x in ()), {1: 0, "1": 0}])
def test_a_model_that_skops_cannot_save_or_not_load_again(part):
    model = LogisticRegression().fit(FEATURES, LABELS)
    model.part_ = part
    with pytest.raises(CannotSaveError, match="LogisticRegression, which skops cannot save"):
        policy_to_bytes(model)


CODE = """
import hashlib, numpy as np, tether
from sklearn.ensemble import RandomForestClassifier
x = np.random.default_rng(0).normal(size=(80, 2))
model = RandomForestClassifier(5, random_state=0).fit(x, x[:, 0] > 0)
digest = hashlib.sha256(tether.saving.policy_to_bytes(model)).hexdigest()
print(hash("a"), digest)
"""


@pytest.mark.slow
def test_the_same_model_has_the_same_bytes_in_every_process():
    """In this process, and in one that orders sets in another way."""
    here: dict = {}
    exec(CODE, here)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(tether.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    order, digest = done.stdout.split()
    assert int(order) != hash("a")
    assert digest == here["digest"]


def test_without_skops_the_error_names_the_extra(monkeypatch):
    data = policy_to_bytes(logistic().fit(FEATURES, LABELS))
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (
        lambda: policy_from_bytes(data),
        lambda: policy_to_bytes(logistic().fit(FEATURES, LABELS)),
    ):
        with pytest.raises(ImportError, match=r"tether\[skops\]"):
            call()


def test_what_is_a_model():
    assert is_sklearn(LogisticRegression())
    assert not is_sklearn(tether.Gaussian(0.0))
