"""Ray: tasks over files, datasets, and scoring in actors, on a cluster of several processes."""

import os
import signal
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tether

ray = pytest.importorskip("ray", reason="needs tether[ray]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see tests
    ray.init(
        num_cpus=2,
        object_store_memory=200 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    yield
    ray.shutdown()


def write_claims(folder, *, n_files=6, seed=0):
    rng, tables = np.random.default_rng(seed), []
    for number in range(n_files):
        item = np.repeat(np.arange(200) + 1000 * number, 4)
        score = rng.random(len(item))
        columns = {"score": score, "label": rng.random(len(item)) < score, "item": item}
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet")
        tables.append(columns)
    joint = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    return tether.Claims.from_table(joint["score"], joint["label"], joint["item"])


class DiesOnce:
    """A kernel that kills its worker in one part, the first time."""

    columns = ("score",)

    def __init__(self, marker):
        self.marker = str(marker)

    def partial(self, columns):
        if columns["score"][0] > 5 and not os.path.exists(self.marker):
            with open(self.marker, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return Count(len(columns["score"]))


class Count:
    def __init__(self, rows):
        self.rows = rows

    def merge(self, other):
        return Count(self.rows + other.rows)


def test_claims_in_files_give_the_answer_of_memory(cluster, tmp_path):
    from tether.scan import ray as on_ray

    expected = tether.gcrc(write_claims(tmp_path), alpha=0.2)
    files = tether.Claims.scan(
        on_ray.source(str(tmp_path)), scores="score", supported="label", items="item"
    )
    found = tether.gcrc(files, alpha=0.2)
    assert (found.threshold, found.n_items) == (expected.threshold, expected.n_items)


def test_the_blocks_of_a_dataset_are_parts(cluster, tmp_path):
    from tether.scan import ray as on_ray

    expected = write_claims(tmp_path)
    dataset = ray.data.read_parquet(str(tmp_path), override_num_blocks=6)
    claims = tether.Claims.scan(
        on_ray.source(dataset), scores="score", supported="label", items="item"
    )
    assert (claims.n_items, claims.n_claims) == (expected.n_items, len(expected.scores))


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    from tether.scan import ray as on_ray

    for number in range(5):
        score = np.full(100, 10.0 if number == 3 else 0.5)
        parquet.write_table(pa.table({"score": score}), tmp_path / f"{number}.parquet")
    marker = tmp_path / "died"
    counted = on_ray.source(str(tmp_path)).reduce(DiesOnce(marker))
    assert counted.rows == 500
    assert marker.exists()


def test_an_error_in_a_worker_names_the_file(cluster, tmp_path):
    from tether.scan import ray as on_ray

    write_claims(tmp_path, n_files=3)
    (tmp_path / "1.parquet").write_bytes(b"PAR1 this is no Parquet file")
    claims = tether.Claims.scan(
        on_ray.source(str(tmp_path)), scores="score", supported="label", items="item"
    )
    with pytest.raises(ValueError, match=r"1\.parquet: cannot be read"):
        tether.gcrc(claims, alpha=0.2)


def test_a_file_that_is_written_again_between_passes_is_an_error(cluster, tmp_path):
    from tether.scan import ray as on_ray

    write_claims(tmp_path, n_files=3)
    source = on_ray.source(str(tmp_path))
    kernel = DiesOnce(tmp_path / "never")
    assert source.reduce(kernel).rows == 2400
    parquet.write_table(pa.table({"score": np.full(7, 0.5)}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet: the file has changed"):
        source.reduce(kernel)


def make_policies():
    return tether.Gaussian(0.0), tether.Gaussian(1.0)


def make_policies_that_die_once():
    """The first actor that scores is killed while it does."""
    safe, optimized = make_policies()
    marker = os.environ["TETHER_TEST_MARKER"]

    class Dies:
        def sample(self, contexts, rng):
            return safe.sample(contexts, rng)

        def log_prob(self, contexts, actions):
            if not os.path.exists(marker):
                with open(marker, "w"):
                    os.kill(os.getpid(), signal.SIGKILL)
            return safe.log_prob(contexts, actions)

    return Dies(), optimized


def test_scoring_goes_on_where_it_stopped_and_survives_a_killed_actor(
    cluster, tmp_path, monkeypatch
):
    from tether.scan import ray as on_ray

    data, out = tmp_path / "data", tmp_path / "scored"
    data.mkdir()
    rng = np.random.default_rng(0)
    for number in range(4):
        action = rng.normal(size=300)
        parquet.write_table(
            pa.table({"action": action, "loss": (action > 1.5).astype(float), "other": action}),
            data / f"{number}.parquet",
        )
    marker = tmp_path / "died"
    rows = on_ray.score(
        str(data),
        out,
        make_policies_that_die_once,
        action="action",
        keep=["loss"],
        rows_per_batch=100,
        actor_options={"runtime_env": {"env_vars": {"TETHER_TEST_MARKER": str(marker)}}},
    )
    assert rows == 1200
    assert marker.exists()
    (out / "2.parquet").unlink()
    assert on_ray.score(str(data), out, make_policies, action="action", keep=["loss"]) == 300
    assert on_ray.score(str(data), out, make_policies, action="action", keep=["loss"]) == 0
    for number in range(4):
        read, scored = (parquet.read_table(f / f"{number}.parquet") for f in (data, out))
        assert scored.column_names == ["loss", "log_safe", "log_optimized"]
        action = read["action"].to_numpy()
        assert np.array_equal(scored["log_safe"], tether.Gaussian(0.0).log_prob(300, action))
        assert np.array_equal(scored["log_optimized"], tether.Gaussian(1.0).log_prob(300, action))
    parquet.write_table(parquet.read_table(data / "1.parquet").slice(0, 10), data / "1.parquet")
    with pytest.raises(ValueError, match=r"scored/1\.parquet was not made from"):
        on_ray.score(str(data), out, make_policies, action="action")
