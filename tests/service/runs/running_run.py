"""The run of examples/served_run.py behind HTTP."""

from pathlib import Path
from typing import Any

from tests.service.running import PATIENT
from tether.service.settings.run_table import RunTable
from tether.service.settings.service_settings import ServiceSettings

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_settings(store: Any, **options: Any) -> ServiceSettings:
    """Settings of the example on any free port."""
    functions = ("served_run:make_controller", "served_run:make_optimized")
    table = RunTable(*functions, store=str(store), folder=EXAMPLES)
    return ServiceSettings(str(store), run=table, port=0, **{"limits": PATIENT} | options)


def harmed(context, action):
    """Whether an action does harm in a context."""
    return float(action == "treat" and context[0] > 0.5)


def collect(client, rng, count=400):
    """Actions in many contexts, and their outcomes."""
    contexts = rng.normal(size=(count, 2)).tolist()
    taken = client.post("/v1/actions", json={"contexts": contexts}).json()["actions"]
    outcomes = [
        {
            "id": each["id"],
            "loss": harmed(context, each["action"]),
            "reward": float(each["action"] == "treat" and context[1] > 0),
        }
        for context, each in zip(contexts, taken, strict=True)
    ]
    answer = client.post("/v1/outcomes", json={"outcomes": outcomes})
    assert answer.json() == {"new": count}, answer.text
    return taken, outcomes
