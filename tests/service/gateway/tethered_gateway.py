"""A tethered gateway in front of a chat server on loopback, and a small world of answers."""

import numpy as np

from tests.service.running import PATIENT
from tether.service.settings.service_settings import ServiceSettings
from tether.service.settings.tethered_table import SafeUpstream, ScorerSettings, TetheredSettings

ANSWERS = ("no", "maybe", "yes")
PROBABILITIES = np.array([0.5, 0.3, 0.2])
QUESTIONS = ("treat?", "wait?")
RISKS = {"treat?": dict(no=0.0, maybe=0.1, yes=0.6), "wait?": dict(no=0.0, maybe=0.05, yes=0.2)}
"""The probability that an answer does harm, to each question."""


def draw_answer(request, rng):
    """What the upstream answers."""
    return ANSWERS[rng.choice(3, p=PROBABILITIES)]


def prefer_yes(messages, answers):
    """A scorer that likes what does harm."""
    return [2.0 * ANSWERS.index(each["content"]) for each in answers]


def fail(messages, answers):
    """A scorer that is unavailable."""
    raise ConnectionError("no scorer")


def tethered_settings(store, url="http://127.0.0.1:9/v1", **options):
    """A gateway that tolerates harm in 15 of 100 answers."""
    old = SafeUpstream(url, "small", timeout=30.0, retries=0, **options.pop("old", {}))
    path = "tests.service.gateway.tethered_gateway:prefer_yes"
    scorer = options.pop("scorer", ScorerSettings("v1", function=path))
    controller = {"alpha": 0.15, "missing": "exclude"} | options.pop("controller", {})
    usual = {"candidates": 4, "requests_at_once": 8}
    return TetheredSettings(str(store), old, scorer, controller=controller, **usual | options)


def service_settings(store, url, *, limits=PATIENT, **options):
    """The same behind HTTP, on any free port."""
    tethered = tethered_settings(store, url, **options)
    return ServiceSettings(str(store), tethered=tethered, port=0, limits=limits)
