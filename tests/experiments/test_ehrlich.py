import itertools
import json
import math
import warnings

import numpy as np
import pytest
import torch
from experiments.ehrlich import genetic, train
from experiments.ehrlich.function import INSTANCES, Ehrlich
from experiments.ehrlich.model import Shape, make_model
from experiments.ehrlich.policy import Language, Prompted, token_log_probs
from experiments.ehrlich.rows import Rows, Served, affordable, log_acceptance
from experiments.ehrlich.stock import Stocked

import tether

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


def test_coarser_steps_round_down():
    plain = json.loads(INSTANCES.read_text(encoding="utf-8"))["Ehr(16,16)-2-4-4"]
    plain = plain | {"quantization": 2}
    function = Ehrlich.from_dict("coarse", plain)
    sequences = mixed_sequences(function, 1000, np.random.default_rng(1))
    assert function(sequences).tolist() == [direct(plain, row) for row in sequences.tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_the_function_equals_the_reference_on_a_hundred_thousand_sequences(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the reference imports warns of its own future
        pytest.importorskip("holo")
        from experiments.ehrlich.export import plain, reference

        theirs = reference(name)
        assert plain(theirs) == json.loads(INSTANCES.read_text(encoding="utf-8"))[name]
        function = Ehrlich.load(name)
        sequences = mixed_sequences(function, 100_000, np.random.default_rng(2))
        expected = theirs(torch.as_tensor(sequences)).double().numpy()
    values = function(sequences)
    assert np.array_equal(values, expected)
    assert 0.05 < np.isneginf(values).mean() < 0.95


def test_an_unknown_function_is_named():
    with pytest.raises(ValueError, match=r"function must be one of .* got 'Ehr\(1\)'"):
        Ehrlich.load("Ehr(1)")


@pytest.fixture(scope="module")
def history():
    function = Ehrlich.load(NAMES[1])
    options = {"mutation": 0.05, "recombination": 0.5, "survival": 0.5}
    rng = np.random.default_rng(0)
    return genetic.evolve(function, rng, rounds=6, particles=500, **options)


def test_evolution_improves_and_keeps_everything_it_saw(history):
    function = Ehrlich.load(NAMES[1])
    assert np.array_equal(history.values, function(history.sequences))
    assert (np.diff(history.feasible().values) <= 0).all()
    assert history.values[0] > function(function.start[None])[0]
    assert len(np.unique(history.sequences, axis=0)) == len(history.sequences) > 1000


def test_evolution_keeps_the_share_that_shall_survive():
    function = Ehrlich.load(NAMES[1])
    options = {"rounds": 6, "particles": 400, "mutation": 0.05, "recombination": 0.5}
    strict, lax = (
        genetic.evolve(function, np.random.default_rng(0), **options, survival=survival)
        for survival in (0.1, 1.0)
    )
    assert strict.feasible().values.mean() > 1.2 * lax.feasible().values.mean()


@pytest.mark.parametrize("closest", [False, True])
def test_pairs_improve_within_the_distance(history, closest):
    function = Ehrlich.load(NAMES[1])
    before, after = genetic.improving_pairs(
        history, 200, 4, np.random.default_rng(1), closest=closest
    )
    assert len(before) == 200
    assert (function(after) > function(before)).all()
    assert np.isfinite(function(before)).all()
    assert (before != after).sum(axis=1).max() <= 4


def test_diverse_seeds_begin_with_the_best_and_spread(history):
    pool = history.feasible().sequences[: len(history.feasible().values) // 10]
    seeds = genetic.diverse(history, 6, 0.1)
    assert np.array_equal(seeds[0], pool[0])
    apart = (seeds[:, None] != seeds[None]).sum(axis=2) + 99 * np.eye(6)
    nearest = (pool[:, None] != seeds[:5]).sum(axis=2).min(axis=1)
    assert apart[5, :5].min() == nearest.max()  # the last one is the farthest that there was


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


def test_pretrained_layers_are_loaded(model, language, tmp_path):
    transformers = pytest.importorskip("transformers")
    shape = model.shape
    config = transformers.GPTNeoXConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128,
    )  # fmt: skip
    saved = transformers.GPTNeoXForCausalLM(config)
    saved.save_pretrained(tmp_path)
    loaded = make_model(shape, 3, "cpu", str(tmp_path)).state_dict()
    name = "gpt_neox.layers.1.attention.query_key_value.weight"
    assert torch.equal(loaded[name], saved.state_dict()[name])
    assert loaded["gpt_neox.embed_in.weight"].shape == (language.vocabulary, 32)


def test_scores_share_prompts_without_a_difference(policy, language):
    actions = policy.sample(700, np.random.default_rng(1))
    columns = []
    for seed in policy.seeds:
        prompts = torch.as_tensor(language.prompts(np.tile(seed, (len(actions), 1))))
        with torch.no_grad():
            score = token_log_probs(policy.model, prompts, torch.as_tensor(actions), language.end)
        columns.append(score.double().numpy())
    expected = np.logaddexp.reduce(columns, axis=0) - np.log(3)
    assert np.abs(policy.log_prob(None, actions) - expected).max() < 1e-4
    assert np.ptp(expected) > 1


def test_what_is_scored_is_what_is_sampled(model):
    """All actions of a tiny language: frequencies are the scored probabilities, which sum to 1."""
    plain = {"length": 2, "allowed": ["11", "11"], "motifs": [[0, 1]], "spacings": [[1]]}
    tiny = Language(Ehrlich.from_dict("tiny", plain | {"quantization": 2, "start": [0, 1]}))
    small = make_model(Shape(tiny.vocabulary, width=32, layers=2), 0, "cpu")
    generator = torch.Generator().manual_seed(0)
    for parameter in small.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    policy = Prompted(small.eval(), np.array([[0, 1], [1, 1]]), tiny)
    one, two = (Prompted(small, policy.seeds[[place]], tiny) for place in (0, 1))
    rows = {
        tuple(row[: row.index(tiny.end)] + [tiny.end] * (3 - row.index(tiny.end)))
        if tiny.end in row
        else tuple(row)
        for row in map(list, itertools.product(range(tiny.vocabulary), repeat=3))
    }
    every = np.array(sorted(rows))
    probability = np.exp(policy.log_prob(None, every))
    assert abs(probability.sum() - 1) < 1e-5
    apart = np.exp(one.log_prob(None, every)) - np.exp(two.log_prob(None, every))
    assert np.abs(apart).sum() > 0.5  # so that drawing one prompt too often is seen
    count = 40_000
    drawn, times = np.unique(
        policy.sample(count, np.random.default_rng(0)), axis=0, return_counts=True
    )
    place = [sorted(rows).index(tuple(row)) for row in drawn.tolist()]
    observed = np.zeros(len(every))
    observed[place] = times
    expected = count * probability
    often = expected > 5
    chi = ((observed - expected)[often] ** 2 / expected[often]).sum()
    assert chi < often.sum() + 5 * np.sqrt(2 * often.sum())


def test_what_cannot_be_read_is_an_action_that_is_infeasible(language):
    good = language.actions(language.function.start[None])
    short, long, odd = good.copy(), good.copy(), good.copy()
    short[0, -3:] = language.end
    long[0, -1] = 3
    odd[0, 4] = language.begin
    actions = np.concatenate([good, short, long, odd])
    assert language.read(actions)[1].tolist() == [True, False, False, False]
    values = language.values(actions)
    assert values[0] > 0
    assert np.isneginf(values[1:]).all()


def test_the_stock_is_used_once_and_then_fresh_draws(policy):
    actions = policy.sample(50, np.random.default_rng(3))
    scores = policy.log_prob(None, actions)
    stocked = Stocked(policy, actions, scores - 1)  # marked, to see which scores are remembered
    rng = np.random.default_rng(4)
    drawn = np.concatenate([stocked.sample(30, rng), stocked.sample(30, rng)])
    assert np.array_equal(drawn[:50], actions)
    assert stocked.used == 50
    found = stocked.log_prob(None, drawn)
    fresh = policy.log_prob(None, drawn[50:])
    remembered = [any((row == actions).all(axis=1)) for row in drawn[50:]]
    assert np.allclose(found[:50], scores - 1)
    assert np.allclose(found[50:], fresh - remembered, atol=1e-5)


@pytest.mark.parametrize("infeasible", [False, True])
def test_preferences_are_within_groups_and_ordered(infeasible):
    rng = np.random.default_rng(0)
    values, group = rng.choice([-np.inf, 0.1, 0.5], size=300), rng.integers(4, size=300)
    better, worse = train.preferences(values, group, 128, rng, infeasible=infeasible)
    assert len(better) == 128
    assert np.isneginf(values[worse]).any() == infeasible
    assert (values[better] > values[worse]).all()
    assert (group[better] == group[worse]).all()


def test_preference_training_raises_the_margin_and_leaves_the_model_alone(model, language):
    rng = np.random.default_rng(0)
    seeds = np.tile(language.function.start, (64, 1))
    better = language.actions(np.tile(language.function.start, (64, 1)))
    worse = language.actions(rng.integers(16, size=(64, 16)))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    options = {"rate": 1e-3, "beta": 0.1}
    _, first = train.preferred(model, language, seeds, better, worse, rng, **options, batch=64)
    assert first == pytest.approx(np.log(2), abs=1e-5)  # the model is its own reference
    tuned, _ = train.preferred(model, language, seeds, better, worse, rng, **options, batch=32)
    one = Prompted(model, seeds[:1], language)
    two = Prompted(tuned, seeds[:1], language)
    margins = [
        (each.log_prob(None, better) - each.log_prob(None, worse)).mean() for each in (one, two)
    ]
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
    stocked = Stocked(policy, np.empty((0, 17), dtype=np.int64), np.empty(0))
    seeds = np.random.default_rng(5).integers(16, size=(2, 16))
    optimized = Prompted(policy.model, seeds, policy.language)
    served = [Served(None, "clip", -np.inf, 0.0), Served(optimized, "clip", -1.0, -1.3)]
    actions = optimized.sample(20, np.random.default_rng(1))
    rows = Rows.scored(stocked, served, actions, np.zeros(20))
    log_safe, log_optimized = policy.log_prob(None, actions), optimized.log_prob(None, actions)
    clipped = np.exp(np.minimum(log_optimized, log_safe - 1) + 1.3)
    expected = np.log(0.75 * np.exp(log_safe) + 0.25 * clipped)
    assert np.allclose(rows.log_mix(served, [30, 10]), expected, atol=1e-4)
    more = optimized.sample(10, np.random.default_rng(2))
    later = rows.joined(Rows.scored(stocked, served, more, np.ones(10)))
    assert np.allclose(later.log_past[1], optimized.log_prob(None, later.actions), atol=1e-4)
    assert np.allclose(later.log_safe, policy.log_prob(None, later.actions), atol=1e-4)
    assert later.loss.tolist() == [0.0] * 20 + [1.0] * 10
    assert later.scored_too(None).log_past[2] is None
