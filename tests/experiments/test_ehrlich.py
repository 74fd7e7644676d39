import itertools
import json
import math

import numpy as np
import pytest
import torch
from experiments.ehrlich import train
from experiments.ehrlich.function import INSTANCES, Ehrlich
from experiments.ehrlich.model import Shape, make_model
from experiments.ehrlich.policy import Language, Prompted, log_probs
from experiments.ehrlich.rounds import Aimed
from experiments.ehrlich.start import Start
from experiments.ehrlich.weighted import WeightedRun, affordable, log_acceptance

import tether
from tests.fit import chi_square

NAMES = tuple(json.loads(INSTANCES.read_text(encoding="utf-8")))


def mixed_sequences(function, count, rng):
    """Near the start and near a best one, feasible and not, and some quite random ones."""
    best = []
    for motif, offsets in zip(function.motifs, function.offsets, strict=True):
        best += np.repeat(motif, np.append(np.diff(offsets), 1)).tolist()
    best += [best[-1]] * (function.length - len(best))  # a token may always be repeated
    sequences = np.where(rng.random((count, 1)) < 0.5, function.start, best)
    for place in rng.permutation(function.length - 1):  # so this keeps most of them feasible
        copied = rng.random(count) < 0.1
        sequences[copied, place + 1] = sequences[copied, place]
    rate = rng.choice([0.0, 0.02, 0.1, 1.0], size=(count, 1))
    random = rng.integers(function.states, size=sequences.shape)
    return np.where(rng.random(sequences.shape) < rate, random, sequences)


def direct(plain, sequence):
    """The definition, one element at a time, from the numbers in the file."""
    for one, two in itertools.pairwise(sequence):
        if plain["allowed"][one][two] == "0":
            return -math.inf
    value = 1.0
    for motif, gaps in zip(plain["motifs"], plain["spacings"], strict=True):
        size, best = len(motif), 0
        for first in range(plain["length"] - sum(gaps)):
            place, found = first, int(sequence[first] == motif[0])
            for token, gap in zip(motif[1:], gaps, strict=True):
                place += gap
                found += sequence[place] == token
            best = max(best, found)
        step = math.ceil(size / plain["quantization"])
        value *= best // step / (size / step)
    return value


@pytest.mark.parametrize("name", NAMES)
def test_the_function_is_its_definition(name):
    function, plain = Ehrlich.load(name), json.loads(INSTANCES.read_text(encoding="utf-8"))[name]
    sequences = mixed_sequences(function, 3000, np.random.default_rng(0))
    values = function(sequences)
    assert values.tolist() == [direct(plain, row) for row in sequences.tolist()]
    assert np.isneginf(values).any()
    assert values.max() == 1.0
    assert len(np.unique(values)) > 10
    assert function(function.start[None])[0] > 0


@pytest.fixture(scope="module")
def language():
    return Language(Ehrlich.load(NAMES[1]))


@pytest.fixture(scope="module")
def model(language):
    """A model with an opinion: random weights large enough to prefer some tokens."""
    made = make_model(Shape(language.vocabulary, width=32, layers=2), 0, "cpu")
    generator = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data += (0.25 if parameter.ndim > 1 else 0.3) * noise
    return made.eval()


@pytest.fixture(scope="module")
def policy(model, language):
    seeds = np.random.default_rng(0).integers(16, size=(3, language.function.length))
    return Prompted(model, seeds, language, batch=500)


def test_the_model_is_what_transformers_computes(model, language):
    transformers = pytest.importorskip("transformers")
    shape = model.shape
    config = transformers.GPTNeoXConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        rotary_pct=shape.rotary,
    )
    theirs = transformers.GPTNeoXForCausalLM(config).eval()
    last = next(key for key in theirs.state_dict() if key in ("embed_out.weight", "lm_head.weight"))
    ours = {key.replace("embed_out.weight", last): v for key, v in model.state_dict().items()}
    theirs.load_state_dict(ours)
    tokens = torch.randint(shape.vocabulary, (7, 31), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected, (found, _) = theirs(tokens).logits, model(tokens)
    assert (found - expected).abs().max() < 2e-5
    assert expected.std() > 0.5


def test_scores_share_prompts_without_a_difference(policy, language):
    actions = policy.sample(700, np.random.default_rng(1))
    columns = []
    for seed in policy.seeds:
        prompts = torch.as_tensor(language.prompts(np.tile(seed, (len(actions), 1))))
        with torch.no_grad():
            score = log_probs(policy.model, prompts, torch.as_tensor(actions), language.states)
        columns.append(score.double().numpy())
    expected = np.logaddexp.reduce(columns, axis=0) - np.log(3)
    assert np.abs(policy.log_prob(None, actions) - expected).max() < 1e-4
    assert np.ptp(expected) > 1


def test_what_is_scored_is_what_is_sampled(model):
    """All actions of a tiny language: frequencies are the scored probabilities, which sum to 1."""
    plain = {"length": 3, "allowed": ["111"] * 3, "motifs": [[0, 1]], "spacings": [[1]]}
    tiny = Language(Ehrlich.from_dict("tiny", plain | {"quantization": 2, "start": [0, 1, 2]}))
    small = make_model(Shape(tiny.vocabulary, width=32, layers=2), 0, "cpu")
    generator = torch.Generator().manual_seed(0)
    for parameter in small.parameters():
        parameter.data += 0.8 * torch.randn(parameter.shape, generator=generator)
    policy = Prompted(small.eval(), np.array([[0, 1, 2], [1, 1, 1]]), tiny)
    one, two = (Prompted(small, policy.seeds[[place]], tiny) for place in (0, 1))
    every = np.array(list(itertools.product(range(tiny.states), repeat=tiny.length)))
    probability = np.exp(policy.log_prob(None, every))
    assert abs(probability.sum() - 1) < 1e-5
    apart = np.exp(one.log_prob(None, every)) - np.exp(two.log_prob(None, every))
    assert np.abs(apart).sum() > 0.5  # so that drawing one prompt too often is seen
    place = (policy.sample(40_000, np.random.default_rng(0))[:, None] == every).all(axis=2)
    assert place.any(axis=1).all()
    assert chi_square(place.argmax(axis=1), probability) > 1e-4


def test_preference_training_raises_the_margin_and_leaves_the_model_alone(model, language):
    rng = np.random.default_rng(0)
    seeds = better = np.tile(language.function.start, (64, 1))
    worse = rng.integers(16, size=(64, 16))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    options = {"rate": 1e-3, "beta": 0.1}
    _, first = train.preferred(model, language, seeds, better, worse, rng, **options, batch=64)
    assert first == pytest.approx(np.log(2), abs=1e-5)  # the model is its own reference
    tuned, _ = train.preferred(model, language, seeds, better, worse, rng, **options, batch=32)
    policies = (Prompted(each, seeds[:1], language) for each in (model, tuned))
    margins = [(p.log_prob(None, better) - p.log_prob(None, worse)).mean() for p in policies]
    assert margins[1] > margins[0] + 1
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_acceptance_is_that_of_the_tethered_policy():
    safe, optimized = tether.Gaussian(0.0), tether.Gaussian(1.5)
    rng = np.random.default_rng(0)
    draws = np.concatenate([each.sample(10_000, rng) for each in (safe, optimized)])
    scores = safe.log_prob(None, draws), optimized.log_prob(None, draws)
    for beta in (0.05, 0.7, 4.0):
        expected = tether.Tethered(safe, optimized, beta).acceptance(1)[0]
        found = np.exp(log_acceptance(np.log(beta), *scores)[0])
        assert found == pytest.approx(expected, abs=0.02)
    limit = affordable(0.0, *scores, draws=1.5)
    assert limit < 0
    assert np.exp(log_acceptance(limit, *scores)[0]) == pytest.approx(1 / 1.5, abs=0.02)
    assert affordable(0.0, *scores, draws=5.0) == 0.0
    assert affordable(np.inf, *scores, draws=1.001) == np.inf


def test_the_mixture_counts_each_past_policy_with_its_own_normalizer(policy):
    rng, language = np.random.default_rng(5), policy.language
    stock = policy.sample(5, rng)
    stock = stock, policy.log_prob(None, stock)
    start = Start(language, policy.model, policy.seeds, stock, {})
    settings = {"calibration_share": 0.5}
    labels = {"dpo_from": "served", "arm": "clip", "alpha": 0.3, "seed": 0}
    run = WeightedRun(start, settings, labels)
    optimized = Prompted(policy.model, rng.integers(16, size=(2, 16)), language)
    run._observe(policy.sample(60, rng), None, -np.inf, 0.0)
    run._observe(optimized.sample(20, rng), optimized, -1.0, -1.3)
    assert run.counts == [30, 10]
    actions = np.concatenate(run.actions)
    log_safe, log_optimized = policy.log_prob(None, actions), optimized.log_prob(None, actions)
    clipped = np.exp(np.minimum(log_optimized, log_safe - 1) + 1.3)
    expected = np.log(0.75 * np.exp(log_safe) + 0.25 * clipped)
    assert np.allclose(run._log_mix(None, log_safe), expected, atol=1e-4)
    assert np.allclose(run._log_mix(actions, log_safe), expected, atol=1e-4)


def test_aim_takes_the_first_of_the_draws_whose_neighbours_were_seen(policy):
    function, rng = policy.language.function, np.random.default_rng(0)
    training = mixed_sequences(function, 300, rng)
    aimed = Aimed.learn(policy, training, 3)
    feasible = training[np.isfinite(function(training))]
    known = {pair for row in feasible for pair in itertools.pairwise(row)}
    assert {tuple(pair) for pair in np.argwhere(aimed.seen)} == known
    drawn = policy.sample(30, np.random.default_rng(1)).reshape(10, 3, -1)
    unseen = [[sum(p not in known for p in itertools.pairwise(row)) for row in of] for of in drawn]
    expected = [of[int(np.argmin(count))] for of, count in zip(drawn, unseen, strict=True)]
    assert np.array_equal(aimed.sample(10, np.random.default_rng(1)), expected)
