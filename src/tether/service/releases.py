"""A release behind HTTP: decisions, outcomes, the gate, and flags for OpenFeature.

Requests that wait for the store share one transaction: outcomes and other jobs first, decisions
last. All of it may be repeated: a key that comes back in a step has its system, and a loss that is
stored already is not stored again.

The gate is for other rollout tools. `GET` tells in the body whether they may go on, as the web
metric of Argo Rollouts reads it; `POST` by the status, as Flagger's webhooks do. It fails when an
alarm stands or a guardrail's own mean is shown to exceed what is tolerated; where the store does
not answer nobody knows, and the status is 503.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct
from starlette.requests import Request

from tether.runs import Release
from tether.runs.actions import named_losses
from tether.runs.decide_share import is_over, is_tightened, used_rows
from tether.runs.errors import StoreError, TamperedError
from tether.runs.event_log import Transaction
from tether.runs.release import SYSTEMS
from tether.runs.state import MICROSECONDS
from tether.service.api import ApiError, endpoint
from tether.service.served import MOST_ITEMS, Result, Served, loss_columns, refusals
from tether.service.settings import Limits, ReleaseTable, title_of
from tether.service.status import Status

LONGEST_KEY = 500
"""How many bytes a key may have."""
PAUSE_SECONDS = 0.02
"""How long a store that has refused a call is left alone."""
GATHER_SECONDS = 0.002
"""How long a transaction waits for requests that are likely to come."""

OFREP_PATH = "/ofrep/v1/evaluate/flags"
"""Where all flags are evaluated, and below which each one is."""

Key = str | int
System = Literal["old", "new"]
Decided = tuple[System, bool, bool]
"""The system of a key, whether this request has its row, and whether there is one."""
KeyLosses = tuple[bytes, str, Mapping[str, float]]
"""A key, the system that answered it, and what that cost."""
Job = Callable[[Transaction], Any]
Asked = list[tuple[Job | list[bytes], float]]
"""What requests ask of the store in one transaction: jobs, or keys; and until when."""
log = logging.getLogger("tether.service")


class OneKey(Struct, forbid_unknown_fields=True):
    """A key."""

    key: Key


class ManyKeys(Struct, forbid_unknown_fields=True):
    """Several keys."""

    keys: Annotated[list[Key], Meta(max_length=MOST_ITEMS)]


class Decision(Struct):
    """Which system answers a key; without the store the old one does, and nothing counts."""

    key: Key
    system: System
    stored: bool


class Outcome(Struct, forbid_unknown_fields=True):
    """What a key cost under the system that answered it, by guardrail."""

    key: Key
    system: System
    losses: Annotated[dict[str, float], Meta(min_length=1)]


class OneOutcome(Outcome, forbid_unknown_fields=True):
    """An outcome; with `keep_first` another value for a loss that is known is passed over."""

    keep_first: bool = False


class ManyOutcomes(Struct, forbid_unknown_fields=True):
    """Several outcomes."""

    outcomes: Annotated[list[Outcome], Meta(max_length=MOST_ITEMS)]
    keep_first: bool = False


class GateQuery(Struct, forbid_unknown_fields=True):
    """The weight that another tool is about to set, in percent."""

    weight: Annotated[float, Meta(ge=0, le=100)] = 0.0


class GateAnswer(Struct, rename={"passes": "pass"}):
    """Whether another tool may go on, and why; "wait" is neither yes nor no."""

    passes: bool
    verdict: Literal["pass", "wait", "fail"]
    reason: str
    share: float
    step: int
    alarm: int | None


def read_key(key: str | int, name: str = "key") -> bytes:
    """A key as bytes."""
    content = str(key).encode("utf-8", "surrogatepass")
    if not 0 < len(content) <= LONGEST_KEY:
        raise ApiError(400, f"{name} must have 1 to {LONGEST_KEY} bytes, got {len(content)}")
    return content


class PatientRelease(Release):
    """A release whose steps wait for `reported` losses, for at most `patience` seconds a row.

    They are those that the gateway reports by itself: an answer under way, in any process, is
    not a failure. To begin a step later is always allowed: which rows it rests on stays the same.
    """

    def __init__(
        self, store: str, *, reported: Iterable[str] = (), patience: float = 0.0, **options: Any
    ) -> None:
        self._reported, self._patience = reported, int(patience * MICROSECONDS)
        super().__init__(store, **options)
        known = {name for name, each in self.settings.limits.items() if each.bound >= 1}
        if not known.issuperset(reported):
            self.close()
            raise ValueError(
                f"what the gateway reports must be guardrails with a bound of at least 1, some of "
                f"{sorted(known)}, got {list(reported)} as failure_guardrail and latency_guardrail"
            )

    def begin_if_due(self, t: Transaction) -> None:
        """Begin the next step, if the present one is over and none of its answers is under way."""
        last, state = t.state.last, t.state
        if last is None or state.cleared > last.cleared or is_tightened(state, last):
            super().begin_if_due(t)
        elif is_over(state, t.now):
            rows = state.kept(used_rows(state, last.number))
            young = rows[state.rows["at"][rows] > t.now - self._patience]
            if not any(np.isnan(state.loss(name)[young]).any() for name in self._reported):
                super().begin_if_due(t)


class ServedRelease(Served):
    """A release that is served."""

    run: PatientRelease
    unit = "step"

    def __init__(self, name: str, table: ReleaseTable, run: PatientRelease, limits: Limits) -> None:
        super().__init__(title_of(name, table), run, limits.store_deadline)
        self.prefix, self.flag = f"/{name}" if name else "", table.flag
        self._answer_within = limits.answer_within
        self._asked, self._turn, self._is_ending = Asked(), asyncio.Lock(), False
        self._expected, self._is_full = 0, asyncio.Event()

    async def decide(self, keys: list[bytes]) -> list[Decided]:
        """The system of each key: the old one where the store has not taken them in time."""
        was = self.takes_rows
        try:
            found: list[Decided] = await self._ask(keys, self._answer_within)
            self.takes_rows = True
        except StoreError as error:
            found, self.takes_rows = [("old", False, False)] * len(keys), False
            if was:
                log.error("decisions are not stored; the old system answers: %s", error)
        for (system, _, stored), count in Counter(found).items():
            self.metrics.of("decisions", self.title, system, str(stored).lower()).inc(count)
        if self.takes_rows and not was:
            log.info("decisions are stored again")
        return found

    async def observe(
        self, outcomes: Sequence[KeyLosses], *, keep_first: bool, within: float
    ) -> dict[str, int]:
        """Store losses of keys by system: how many are new, and how many outcomes have no row."""
        keys, systems, losses = zip(*outcomes, strict=True)
        arms = np.array([SYSTEMS.index(system) for system in systems])
        with refusals():
            limits, given = self.run.settings.limits, loss_columns(losses)
            columns = named_losses(given, limits, len(keys), of="outcomes")

            def job(t: Transaction) -> tuple[int, int]:
                keep = {"keep_first": keep_first, "skip_unknown": True}  # which is no error
                return self.run.observe_in(t, list(keys), arms, columns, **keep)

            new, without_row = await self._ask(job, within)
        self.metrics.of("outcomes", self.title).inc(new)
        self.metrics.of("outcomes_without_row", self.title).inc(without_row)
        return {"new": new, "without_row": without_row}

    async def close(self) -> None:
        """Store what waits, and close the store."""
        self._is_ending = True
        await super().close()

    async def _submit(self, job: Callable[[Transaction], Result]) -> Result:
        found: Result = await self._ask(job, self.deadline)
        return found

    def _read(self, t: Transaction) -> Status:
        self.run.begin_if_due(t)
        return super()._read(t)

    async def _ask(self, item: Job | list[bytes], within: float) -> Any:
        """What a job returns, or the systems of keys; a store that fails is asked again in time."""
        clock = asyncio.get_running_loop().time
        until = clock() + within
        while True:
            self._asked.append((item, until))
            place = len(self._asked) - 1
            if place + 1 >= self._expected:
                self._is_full.set()
            if place == 0:
                self._answers = asyncio.create_task(self._answer(self._asked))
            try:
                found = (await asyncio.shield(self._answers))[place]
            except StoreError as error:
                is_over = self._is_ending or clock() + PAUSE_SECONDS > until
                if is_over or isinstance(error, TamperedError):
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if isinstance(found, Exception):
                raise found
            return found

    async def _answer(self, asked: Asked) -> list[Any]:
        """The answers to all who have come while the batch before was answered.

        As many as were answered then, or came meanwhile, are awaited for a moment: clients that ask
        one after the other come back together.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            if len(asked) < self._expected:
                self._is_full.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATHER_SECONDS):
                        await self._is_full.wait()
            self._asked, items = [], [item for item, _ in asked]
            seconds = min(self.deadline, min(until for _, until in asked) - loop.time())
            try:
                return await self.run.submit_async(partial(self._carry_out, items), seconds)
            finally:
                self._expected = len(items) + len(self._asked)

    def _carry_out(self, items: list[Job | list[bytes]], t: Transaction) -> list[Any]:
        """Jobs first, so that what is known of a step is stored before a key can end it."""
        found: list[Any] = [None] * len(items)
        asked = dict[int, list[bytes]]()
        for place, item in enumerate(items):
            if isinstance(item, list):
                asked[place] = item
                continue
            try:
                found[place] = item(t)
            except (ValueError, ApiError) as error:
                found[place] = error
        if asked:
            arms, fresh = self.run.assign_in(t, list(dict.fromkeys(chain(*asked.values()))))
            for place, keys in asked.items():
                found[place] = [(SYSTEMS[arms[key]], key in fresh, True) for key in keys]
                fresh.difference_update(keys)
        return found

    # ---- endpoints ------------------------------------------------------------------------------

    @endpoint("POST", "/v1/decisions", "decide")
    async def post_decisions(
        self, request: Request, body: OneKey | ManyKeys
    ) -> Decision | dict[str, list[Decision]]:
        """Which system answers a key, or each of many."""
        given = [body.key] if isinstance(body, OneKey) else body.keys
        keys = [read_key(each) for each in given]
        found = await self.decide(keys) if keys else []
        pairs = zip(given, found, strict=True)
        made = [Decision(key, system, stored) for key, (system, _, stored) in pairs]
        return made[0] if isinstance(body, OneKey) else {"decisions": made}

    @endpoint("POST", "/v1/outcomes", "report")
    async def post_outcomes(
        self, request: Request, body: OneOutcome | ManyOutcomes
    ) -> dict[str, int]:
        """Store the losses of a key, or of each of many: all of them or nothing."""
        given: Sequence[Outcome] = [body] if isinstance(body, OneOutcome) else body.outcomes
        if not given:
            return {"new": 0, "without_row": 0}
        outcomes = [(read_key(each.key), each.system, each.losses) for each in given]
        return await self.observe(outcomes, keep_first=body.keep_first, within=self.deadline)

    @endpoint("GET", "/v1/gate", "read")
    async def read_gate(self, request: Request, query: GateQuery) -> GateAnswer:
        """Whether another tool may go on."""
        if 0 < query.weight < 1:
            raise ApiError(400, f"weight must be in percent (30 for 30 %), got {query.weight:g}")
        await self.look()  # not what held before
        if (status := self.status) is None or not status.store_available:
            raise ApiError(503, "the store is unavailable: nobody knows whether an alarm stands")
        share = status.share or 0.0
        verdict: Any = "pass"
        if status.verdict == "fail":
            verdict, reason = "fail", "; ".join(status.warnings)
        elif share < query.weight / 100:
            verdict, reason = "wait", f"{status.state}: less than {query.weight:g} %"
        else:
            reason = f"no alarm stands, and no mean is shown to exceed; {status.state}"
        alarm = None if status.alarm is None else status.alarm.number
        return GateAnswer(verdict == "pass", verdict, reason, share, status.step.number, alarm)

    @endpoint("POST", "/v1/gate", "read")
    async def check_gate(self, request: Request, query: GateQuery) -> GateAnswer:
        """Whether another tool may go on, by the status: 412 if not; a body is not read."""
        answer = await self.read_gate(request, query)
        if not answer.passes:
            raise ApiError(412, f"{answer.verdict}: {answer.reason}")
        return answer


# ---- OpenFeature: OFREP 0.3, https://github.com/open-feature/protocol ----------------------------


class Evaluation(Struct):
    """A flag of OFREP; without the store its reason is "UNKNOWN"."""

    key: str
    value: str | bool | float
    reason: Literal["SPLIT", "UNKNOWN"]
    variant: System
    metadata: dict[str, bool]


class EvaluationContext(Struct, frozen=True):
    """For whom a flag is evaluated (OFREP)."""

    targetingKey: Key | None = None  # noqa: N815


class EvaluationRequest(Struct):
    """A request of OFREP."""

    context: EvaluationContext = EvaluationContext()


class OfrepApi:
    """The two endpoints of the protocol; every release is a flag.

    The targeting key is the key of the release, and the variant is the system. An evaluation is an
    assignment, and is stored before it is answered.
    """

    def __init__(self, releases: Iterable[ServedRelease]) -> None:
        self._releases = {each.title: each for each in releases}

    @endpoint("POST", f"{OFREP_PATH}/{{flag}}", "decide")
    async def evaluate(self, request: Request, body: EvaluationRequest) -> Evaluation:
        """Evaluate a flag (OFREP)."""
        name = request.path_params["flag"]
        if name not in self._releases:
            raise refusal("FLAG_NOT_FOUND", f"there is no flag {name!r:.120}", name, 404)
        return await self._evaluation(name, targeting_key(body, name))

    @endpoint("POST", OFREP_PATH, "decide")
    async def evaluate_all(
        self, request: Request, body: EvaluationRequest
    ) -> dict[str, list[Evaluation]]:
        """Evaluate all flags (OFREP)."""
        key = targeting_key(body)
        found = await asyncio.gather(*(self._evaluation(name, key) for name in self._releases))
        return {"flags": found}

    async def _evaluation(self, name: str, key: bytes) -> Evaluation:
        served = self._releases[name]
        ((system, _, stored),) = await served.decide([key])
        value, told = getattr(served.flag, system), {"stored": stored}
        return Evaluation(name, value, "SPLIT" if stored else "UNKNOWN", system, told)


def targeting_key(asked: EvaluationRequest, flag: str | None = None) -> bytes:
    """The targeting key of a request."""
    key = asked.context.targetingKey
    if key is None or key == "":
        raise refusal("TARGETING_KEY_MISSING", "the context must have a targetingKey", flag)
    try:
        return read_key(key, "targetingKey")
    except ApiError as error:
        raise refusal("INVALID_CONTEXT", str(error), flag) from None


def refusal(code: str, details: str, flag: str | None, status: int = 400) -> ApiError:
    """An error of the protocol."""
    told = {"errorCode": code, "errorDetails": details}
    return ApiError(status, details, told if flag is None else told | {"key": flag})
