"""The gate, with the requests that Argo Rollouts and Flagger document.

Argo Rollouts' web metric (docs/analysis/web.md there): GET with headers, a JSON answer with status
2xx, of which `jsonPath` picks the `result` of the conditions; another status is an error of the
measurement. Flagger's webhooks (docs/gitbook/usage/webhooks.md): POST of JSON with the name, the
namespace, the phase, a checksum and metadata of the canary, without headers of one's own; 200 to
202 advances it, anything else halts it and counts as a failed check.
"""

from tests.service.running import bearer, running, settings, tries
from tether.release import ArmCounts
from tether.rounds.releases.served_release import ServedRelease
from tether.service import ApiKeys, add_key
from tether.service.settings.service_settings import ServiceLimits

GATE = "/v1/gate"
FLAGGER = {
    "name": "podinfo",
    "namespace": "test",
    "phase": "Progressing",
    "checksum": "85d557f47b",
    "metadata": {"test": "all", "token": "any"},
}
HALF = {"guardrails": {"complaint": 0.4}, "old": {"complaint": ArmCounts(10_000, 0.0)}}
"""A release whose first share is about 40 %."""


def argo(client, query="", **headers):
    """What the web metric measures with `jsonPath: "{$}"`: None where it counts an error."""
    found = client.get(GATE + query, headers=headers)
    return found.json() if 200 <= found.status_code < 300 else None


def flagger(client, query="", **options):
    """Whether Flagger advances the canary."""
    found = client.post(GATE + query, json=FLAGGER, **options)
    return 200 <= found.status_code <= 202


def test_argo_and_flagger_are_told_of_alarms_and_shares(tmp_path):
    file = tmp_path / "keys.json"
    secret, other = add_key(file, "argo", ["read"]), add_key(file, "ann", ["operate"])
    given = settings(tmp_path / "release.db", release=HALF, keys=ApiKeys.read(file))
    key = bearer(secret)
    with running(given) as client:
        open_gate = argo(client, **key)
        assert (open_gate["pass"], open_gate["alarm"], open_gate["step"]) == (True, None, 1)
        assert open_gate["losses"] == {"complaint": {}}
        assert 0.3 < open_gate["share"] < 0.4
        passing = argo(client, "?weight=30", **key)
        assert passing["pass"] is True
        assert "of the keys, at least 30 %" in passing["reason"]
        too_far = argo(client, "?weight=40", **key)
        assert too_far["pass"] is False
        assert "of the keys, less than 40 %" in too_far["reason"]
        # Flagger sends no headers of one's own: the key is the password in the URL of its webhook
        assert flagger(client, auth=("flagger", secret))
        assert flagger(client, "?weight=30", auth=("flagger", secret))
        assert not flagger(client, "?weight=40", auth=("flagger", secret))
        assert not flagger(client)
        assert not flagger(client, auth=("flagger", other))
        assert argo(client) is None
        client.post("/v1/halt", json={"reason": "a rumour"}, headers=bearer(other))
        halted = argo(client, **key)
        assert (halted["pass"], halted["alarm"], halted["share"]) == (False, 1, 0)
        assert "alarm 1 stands (halt)" in halted["reason"]
        refused = client.post(GATE, json=FLAGGER, headers=key)
        assert refused.status_code == 412
        assert refused.json() == halted  # Flagger shows the body in its events
        client.post("/v1/resume", json={"reason": "it was none"}, headers=bearer(other))
        assert argo(client, "?weight=0", **key)["pass"] is True


def test_nothing_passes_while_the_store_is_silent(tmp_path):
    """It is an error for Argo Rollouts, and neither success nor failure; Flagger halts."""
    store = tmp_path / "release.db"
    limits = ServiceLimits(answer_within=0.05, store_deadline=0.2)
    with running(settings(store, limits=limits)) as client:
        assert argo(client)["pass"]
        with ServedRelease(str(store), deadline=60) as frozen:
            with frozen._store.writing(exclusive=True):
                for _ in tries():
                    client.post("/v1/decisions", json={"key": "ann"})
                    if client.get(GATE).status_code == 503:
                        break
                assert argo(client) is None
                assert not flagger(client)
        for _ in tries():
            client.post("/v1/decisions", json={"key": "ann"})
            if argo(client):
                break
        assert flagger(client)
