"""The run of a tethered gateway: a controller on shortlists of the safe upstream's answers.

Where both upstreams tell log-probabilities it may be a clip of the two instead.
"""

from __future__ import annotations

from typing import Any

from tether.llm.chat import ChatPolicy
from tether.llm.completions import Tokenizer
from tether.llm.openai_policy import OpenAIPolicy
from tether.llm.scorers import ChatScorer, ScoreServer
from tether.policies.shortlist import Shortlist
from tether.rounds.controller import Controller
from tether.rounds.served_run import ServedRun
from tether.service.gateway.tethered_clip import TokenIds
from tether.service.runs.open_run import named_function
from tether.service.settings.clip_table import ClipSettings
from tether.service.settings.tethered_table import ScorerSettings, TetheredSettings

SCORER_CHECK_SECONDS = 60.0
"""How often it is seen whether a scorer has changed, from the scores of a few old rows."""


def open_tethered(settings: TetheredSettings, *, deadline: float) -> ServedRun:
    """The run of a gateway, open. The first round is the safe upstream's.

    `deadline` is how many seconds a call may wait for the store.
    """
    if settings.clip is not None:
        return open_completions(settings, deadline=deadline)
    assert settings.scorer is not None  # the settings have one of both
    old = settings.old
    safe = ChatPolicy(
        old.url,
        old.model,
        settings=old.settings,
        max_n=old.max_n,
        api_key=old.api_key,
        timeout=old.timeout,
        retries=old.retries,
        concurrency=settings.requests_at_once,
    )
    everyone = (settings.scorer, *settings.past_scorers)
    scorers = {each.name: make_scorer(each, settings) for each in everyone}
    shortlist = Shortlist(safe, size=settings.candidates, temperature=settings.pick_temperature)
    run = Controller(
        shortlist,
        store=settings.store,
        policies=scorers,
        fallback="safe",
        spool=settings.spool,
        deadline=deadline,
        **settings.controller,
    )
    try:
        present = scorers[settings.scorer.name]
        return ServedRun(run, lambda rows: present, settings.scorer.name)
    except BaseException:
        run.close()
        raise


def open_completions(settings: TetheredSettings, *, deadline: float) -> ServedRun:
    """The run of a gateway whose two upstreams tell log-probabilities.

    Best of N, picked by the log ratio of the new upstream; or, with a budget, a clip of the two.
    """
    assert settings.clip is not None
    safe, new = completion_policies(settings, settings.clip)
    controller = dict(settings.controller)
    drawn: Shortlist | OpenAIPolicy = safe
    if settings.clip.budget is None:
        drawn = Shortlist(safe, size=settings.candidates, temperature=settings.pick_temperature)
    else:
        controller["family"] = f"budgeted_clip({settings.clip.budget})"
    run = Controller(
        drawn,
        store=settings.store,
        policies=lambda name: new,  # its scores are compared with the stored ones
        fallback="safe",
        spool=settings.spool,
        deadline=deadline,
        **controller,
    )
    try:
        return ServedRun(run, lambda rows: new)
    except BaseException:
        run.close()
        raise


def completion_policies(
    settings: TetheredSettings, completions: ClipSettings
) -> tuple[OpenAIPolicy, OpenAIPolicy]:
    """The safe and the new upstream as policies over completions."""
    assert settings.new is not None
    tokenizer: Tokenizer = TokenIds()
    if completions.tokenizer is not None:
        from tether.llm.model_folders import check_folder, load_tokenizer

        check_folder("gateway.tokenizer", completions.tokenizer)
        tokenizer = load_tokenizer(completions.tokenizer)
    options: dict[str, Any] = {} if settings.old.max_n is None else {"max_n": settings.old.max_n}
    safe, new = (
        OpenAIPolicy(
            each.url,
            each.model or "default",
            eos_token_id=completions.eos_token_id,
            tokenizer=tokenizer,
            max_new_tokens=completions.max_new_tokens,
            api_key=each.api_key,
            timeout=each.timeout,
            retries=each.retries,
            concurrency=settings.requests_at_once,
            **options,
        )
        for each in (settings.old, settings.new)
    )
    return safe, new


def make_scorer(settings: ScorerSettings, gateway: TetheredSettings) -> ChatScorer:
    """A scorer as the settings name it."""
    if settings.url is not None:
        server = ScoreServer(
            settings.url,
            api_key=settings.api_key,
            timeout=settings.timeout,
            concurrency=gateway.requests_at_once,
        )
        return ChatScorer(
            server, batched=True, name=settings.name, check_every=SCORER_CHECK_SECONDS
        )
    assert settings.function is not None  # the settings have one of both
    score = named_function("gateway.scorer.function", settings.function, gateway.folder)
    return ChatScorer(
        score, batched=settings.batched, name=settings.name, check_every=SCORER_CHECK_SECONDS
    )
