"""Scores on Ray: by its own vLLM processor, and by actors that ask live servers."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")
pytest.importorskip("ray", reason="needs tether[ray]")

import ray

import tether
from tests.llm.live.live_policies import END, LENGTH, PROGRAM
from tether.llm import CausalPolicy
from tether.scan import ray as on_ray

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="TETHER_VLLM names no vLLM"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROWS = 24
SCRIPT = Path(__file__).parents[3] / "examples" / "vllm_on_ray" / "score.py"
DEADLINE_SECONDS = 600


@pytest.fixture(scope="module")
def rows(folder, tmp_path_factory):
    """Two files of completions of the base model, and their scores by transformers."""
    from transformers import LlamaForCausalLM

    def local(name):
        model = LlamaForCausalLM.from_pretrained(folder / name).eval()
        return CausalPolicy(model, None, eos_token_id=END, max_new_tokens=LENGTH)

    rng, made = np.random.default_rng(3), tmp_path_factory.mktemp("rows")
    prompts = rng.integers(3, 300, size=(ROWS, 5))
    base, tuned = local("base"), local("merged")
    drawn = base.sample(prompts, rng)
    assert (drawn == -1).any(), "some must end before the last token"
    columns = {
        "prompt_tokens": list(prompts),
        "completion_tokens": list(drawn),
        "cost": rng.random(ROWS),
        "expected_safe": base.log_prob(prompts, drawn),
        "expected_optimized": tuned.log_prob(prompts, drawn),
    }
    table = pa.table(columns)
    for number in range(2):
        parquet.write_table(table.slice(number * 12, 12), made / f"{number}.parquet")
    return made


def check(out):
    """The scores are those of transformers, and a calibration can read them."""
    found = parquet.read_table(out)
    assert len(found) == ROWS
    for each in ("safe", "optimized"):
        np.testing.assert_allclose(found[f"log_{each}"], found[f"expected_{each}"], atol=1e-3)
    gap = np.asarray(found["log_safe"]) - np.asarray(found["log_optimized"])
    assert np.abs(gap).max() > 0.1, "the two models must differ"
    log = tether.Log.scan(out, loss="cost", context=None)
    assert tether.calibrate(log, alpha=0.9).rows == ROWS


def test_the_processor_of_ray_data_scores_as_transformers_does(folder, rows, tmp_path):
    python = Path(PROGRAM).parent / "python"
    if subprocess.run([python, "-c", "import ray.data.llm"], check=False).returncode:
        pytest.skip("the environment of vLLM has no ray[data]")
    command = [python, SCRIPT, rows, tmp_path / "scored", "--device", "CPU"]
    models = ["--safe", folder / "base", "--optimized", folder / "merged"]
    environment = {
        **{name: each for name, each in os.environ.items() if name != "PYTHONPATH"},
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = subprocess.run(
        [*map(str, [*command, *models]), "--max-model-len", "128"],
        env=environment,
        timeout=DEADLINE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(tmp_path / "scored")


def test_actors_that_ask_servers_score_as_transformers_does(
    base_server, tuned_server, rows, tmp_path
):
    urls = {"base": base_server.url, "tuned": tuned_server.url}
    options = {"eos_token_id": END, "max_new_tokens": LENGTH, "deadline": 60}

    def policies():
        from tether.llm import OpenAIPolicy

        return tuple(OpenAIPolicy(url, name, **options) for name, url in urls.items())

    ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False)
    try:
        given = {"action": "completion_tokens", "context": "prompt_tokens", "actors": 1}
        assert on_ray.score(rows, tmp_path / "scored", policies, **given) == ROWS
        assert on_ray.score(rows, tmp_path / "scored", policies, **given) == 0
    finally:
        ray.shutdown()
    check(tmp_path / "scored")
