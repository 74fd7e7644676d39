"""Files: written whole or not at all, read by another process, and never unpickled."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.saving import CannotSaveError, policy_from_bytes, policy_to_bytes

SERVE = """
import pickle, sys

import numpy as np
import tether

def refuse(*args, **kwargs):
    raise AssertionError("something was pickled")

pickle.load = pickle.loads = pickle.dump = pickle.dumps = refuse
pickle.Unpickler = pickle.Pickler = pickle._Unpickler = pickle._Pickler = refuse

policy = tether.load_policy(sys.argv[1])
actions = policy.sample(500, np.random.default_rng(11))
scores, error = policy.log_prob_with_error(500, actions)
same = tether.saving.policy_to_bytes(policy) == open(sys.argv[1], "rb").read()
np.savez(sys.argv[2], actions=actions, scores=scores, error=error, same=same)
print(policy.calibration.statement)
"""


def calibrated():
    safe, optimized = tether.Gaussian(0.0), tether.Mixture([tether.Gaussian(1.0, 0.8)], [1])
    actions = safe.sample(400, np.random.default_rng(0))
    log = tether.make_log(safe, optimized, None, actions, (actions > 1.5).astype(float))
    return tether.Tethered(safe, optimized, tether.calibrate(log, alpha=0.1))


def test_a_tethered_policy_is_served_by_another_process(tmp_path):
    policy = calibrated()
    policy.log_prob(1, [0.0])  # estimates the normalizing constant, which is saved
    tether.save_policy(policy, tmp_path / "served.tether")
    found = tmp_path / "found.npz"
    environment = {**os.environ, "PYTHONPATH": str(Path(tether.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(tmp_path / "served.tether"), str(found)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == policy.calibration.statement
    actions = policy.sample(500, np.random.default_rng(11))
    with np.load(found) as there:
        assert there["same"]
        assert there["actions"].tobytes() == actions.tobytes()
        assert there["scores"].tobytes() == policy.log_prob(500, actions).tobytes()
        error = policy.log_prob_with_error(500, actions)[1]
        assert there["error"].tobytes() == error.tobytes()


def test_files_are_private_and_not_replaced_unless_asked(tmp_path):
    path = tmp_path / "a.tether"
    tether.save_policy(tether.Gaussian(0.0), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"a\.tether"):
        tether.save_policy(tether.Gaussian(1.0), path)
    with pytest.raises(CannotSaveError):
        tether.save_policy(tether.Gaussian(lambda contexts: contexts), path, overwrite=True)
    assert path.read_bytes() == before
    tether.save_policy(tether.Gaussian(1.0), path, overwrite=True)
    assert path.read_bytes() == policy_to_bytes(tether.Gaussian(1.0))
    assert [each.name for each in tmp_path.iterdir()] == ["a.tether"]


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "a.tether"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"a\.tether: the file is not a complete zip archive"):
        tether.load_policy(path)
    with pytest.raises(FileNotFoundError):
        tether.load_policy(tmp_path / "b.tether")
    path.write_bytes(policy_to_bytes(tether.Gaussian(0.0)))
    with pytest.raises(ValueError, match="more than max_bytes = 99"):
        tether.load_policy(path, max_bytes=99)


def test_bytes_of_any_kind_are_read_and_nothing_else():
    data = policy_to_bytes(tether.Gaussian(0.0))
    assert isinstance(policy_from_bytes(memoryview(data)), tether.Gaussian)
    with pytest.raises(TypeError, match="data must be bytes, got str"):
        policy_from_bytes("served.tether")


def test_what_is_no_policy():
    with pytest.raises(TypeError, match=r"not a class: write Gaussian\(…\)"):
        policy_to_bytes(tether.Gaussian)
    for value in (3, None, "policy", np.zeros(3), print):
        with pytest.raises(CannotSaveError, match="policy must be a policy"):
            policy_to_bytes(value)
