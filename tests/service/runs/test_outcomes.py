"""Outcomes of actions, and what is refused."""

import pytest

import tether
from tests.service.running import PATIENT, running
from tether.service.settings.run_table import RunTable
from tether.service.settings.service_settings import ServiceSettings


def make_controller(store):
    """A run with two losses and without contexts."""
    limits = {"complaint": 0.2, "delay": 15.0}
    bounds = {"complaint": 1.0, "delay": 60.0}
    return tether.Controller(tether.Gaussian(0.0), store=store, alpha=limits, bound=bounds)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("run") / "run.db")
    table = RunTable("tests.service.runs.test_outcomes:make_controller", store=store)
    with running(ServiceSettings(store, run=table, port=0, limits=PATIENT)) as made:
        yield made


def take(client, count=2):
    answer = client.post("/v1/actions", json={"contexts": [None] * count})
    return [each["id"] for each in answer.json()["actions"]]


def test_losses_arrive_on_their_own_and_may_be_repeated(client):
    first, second = take(client)
    body = {"outcomes": [{"id": each, "losses": {"delay": 10}} for each in (first, second)]}
    assert client.post("/v1/outcomes", json=body).json() == {"new": 2}
    assert client.post("/v1/outcomes", json=body).json() == {"new": 0}
    late = {"id": int(first), "losses": {"complaint": 1.0}}
    assert client.post("/v1/outcomes", json=late).json() == {"new": 1}
    assert client.post("/v1/outcomes", json={"outcomes": []}).json() == {"new": 0}
    both = {"id": second, "losses": {"complaint": 0, "delay": 10}, "reward": 2.5}
    answer = client.post("/v1/outcomes", json=both)
    assert answer.status_code in (200, 400, 409)  # a reward belongs to the first report of a loss


def test_all_or_nothing(client):
    first, second = take(client)
    bad = {
        "outcomes": [{"id": first, "losses": {"delay": 1}}, {"id": 10**9, "losses": {"delay": 1}}]
    }
    assert client.post("/v1/outcomes", json=bad).status_code == 400
    good = {"id": first, "losses": {"delay": 2}}
    assert client.post("/v1/outcomes", json=good).json() == {"new": 1}  # nothing was kept
    contradiction = {"id": first, "losses": {"delay": 3}}
    assert client.post("/v1/outcomes", json=contradiction).status_code == 409
    assert second
