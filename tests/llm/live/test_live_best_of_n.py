"""Best of N on a live vLLM: log, calibration, serving and two rounds keep alpha.

A loss on token ids stands for a judge: an answer is bad if its first token is a multiple of four.
The score likes even tokens and bad answers, and so picks those too often.
"""

import re

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm.live.live_policies import PROGRAM, live_policy
from tether.llm import ChatPolicy, ChatScorer, chat_context, read_answer
from tether.policies import ShortlistRows

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="TETHER_VLLM names no vLLM")

SIZE, ROWS, LENGTH, ALPHA = 8, 150, 4, 0.35


class TokenAnswers:
    """Answers as token ids, with log-probabilities that nobody asks for."""

    def __init__(self, server):
        self.safe = live_policy(server, "base", max_new_tokens=LENGTH)

    def contexts(self, rng, count):
        return rng.integers(3, 300, size=(count, 5))

    def tokens(self, answers):
        return np.asarray(answers)

    def score(self, contexts, candidates):
        return even_tokens(candidates)


class ChatAnswers:
    """Answers of the chat endpoint, which states no log-probabilities."""

    def __init__(self, server):
        settings = {"max_tokens": LENGTH, "temperature": 1.0}
        self.safe = ChatPolicy(server.url, "base", settings=settings, timeout=120)
        self.score = ChatScorer(lambda _, answers: [self._even(each) for each in answers])

    def contexts(self, rng, count):
        prompts = rng.integers(3, 300, size=(count, 5))
        texts = [" ".join(f"w{token}" for token in prompt) for prompt in prompts]
        return np.array(
            [chat_context({"messages": [{"role": "user", "content": text}]}) for text in texts],
            dtype=object,
        )

    def tokens(self, answers):
        answers = np.asarray(answers, dtype=object)
        read = [token_ids(read_answer(each)["message"]["content"]) for each in answers.ravel()]
        return np.array(read).reshape(*answers.shape, LENGTH)

    def _even(self, message):
        return float(even_tokens(np.array(token_ids(message["content"]))))


def token_ids(text):
    """The ids in a text of words, padded with −1."""
    ids = [int(found) for found in re.findall(r"w(\d+)", text or "")][:LENGTH]
    return ids + [-1] * (LENGTH - len(ids))


def even_tokens(tokens):
    """How many tokens of an answer are even, and one more if it is bad."""
    return (tokens % 2 == 0).sum(axis=-1) + is_bad(tokens)


def is_bad(tokens):
    """The loss: the first token is a multiple of four."""
    return (tokens[..., 0] % 4 == 0).astype(float)


def risk_of(pick, rows, losses):
    """The risk of a policy over positions given the candidates: mean and standard error."""
    chance = np.exp(
        np.stack([pick.log_prob(rows, np.full(len(rows), k)) for k in range(SIZE)], axis=1)
    )
    each = (chance * losses).sum(axis=1)
    return each.mean(), each.std(ddof=1) / np.sqrt(len(each))


def limit_of(calibration, error):
    """Alpha and three standard errors, of the log that beta comes from and of the new answers.

    The promise is an average over logs, and here is one.
    """
    of_log = np.sqrt(ALPHA * (1 - ALPHA) / calibration.effective_sample_size)
    return ALPHA + 3 * np.hypot(of_log, error)


@pytest.mark.parametrize("kind", [TokenAnswers, ChatAnswers])
def test_best_of_n_keeps_alpha_from_the_log_to_the_second_round(server, kind, capsys):
    rng = np.random.default_rng(0)
    made = kind(server)
    shortlist = tether.Shortlist(made.safe, made.score, size=SIZE, temperature=0.3)

    contexts = made.contexts(rng, ROWS)
    logged = made.safe.sample(contexts, rng)
    losses = is_bad(made.tokens(logged))
    log = tether.make_log(shortlist, made.score, contexts, logged, losses, rng=rng)
    calibration = tether.calibrate(log, alpha=ALPHA)
    assert calibration.exists
    served = shortlist.tethered(calibration)
    answers, rows, index = served.sample_with_rows(made.contexts(rng, ROWS), rng)
    of_all = is_bad(made.tokens(rows.candidates))
    risk, error = risk_of(served.pick, rows, of_all)
    greedy, greedy_error = risk_of(shortlist.picker, rows, of_all)
    lines = [
        f"safe {losses.mean():.3f}, served {risk:.3f} ± {error:.3f} at alpha {ALPHA} with beta "
        f"{served.beta:.3g}, the score alone {greedy:.3f} ± {greedy_error:.3f}"
    ]
    assert risk <= limit_of(calibration, error)
    assert greedy > limit_of(calibration, greedy_error)  # what breaks alpha is seen
    np.testing.assert_array_equal(made.tokens(answers), made.tokens(rows.picked(index)))

    run = tether.Controller(
        tether.Shortlist(made.safe, size=SIZE, temperature=0.3),
        alpha=ALPHA,
        store="sqlite://",
        calibration_share=0.9,
    )
    before = run.begin()
    before.observe(before.record(contexts, logged, rng).ids, losses)
    for number in (1, 2):
        contexts = made.contexts(rng, ROWS)
        round_ = run.begin(made.score, name=f"even tokens {number}")
        assert round_.calibration.exists, round_.note
        taken = round_.act(contexts, rng)
        taken_losses = is_bad(made.tokens(taken.actions))
        round_.observe(taken.ids, taken_losses)
        rows = ShortlistRows(contexts, taken.candidates)
        of_all = is_bad(made.tokens(taken.candidates))
        pick = shortlist.tethered(round_.calibration).pick
        risk, error = risk_of(pick, rows, of_all)
        lines.append(
            f"round {number}: {taken_losses.mean():.3f} of {ROWS} answers bad, risk {risk:.3f} ± "
            f"{error:.3f}, beta {pick.beta:.3g}"
        )
        assert risk <= limit_of(round_.calibration, error)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
