import pytest

from tether.demo import biopsy_rounds
from tether.rounds import read_history


def test_later_rounds_follow_the_model_further_and_are_kept(tmp_path):
    output = []
    rounds = biopsy_rounds.run_rounds(tmp_path, show=output.append)
    assert len(rounds) == biopsy_rounds.ROUNDS
    assert rounds[0].beta == 0
    assert all(record.pending == 0 for record in rounds)
    assert rounds[-1].reward.lower > rounds[0].reward.upper  # clearly more biopsies are avoided
    losses = sum(record.losses["loss"].mean * record.losses["loss"].count for record in rounds[1:])
    assert (
        losses / sum(record.losses["loss"].count for record in rounds[1:])
        < biopsy_rounds.ROUND_PROMISE
    )
    assert read_history(tmp_path / "demo.db").rounds == rounds
    assert f"Report: {tmp_path / 'report.html'}" in output
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(FileExistsError, match="a store is never overwritten"):
        biopsy_rounds.run_rounds(tmp_path, show=output.append, overwrite=True)
    again = biopsy_rounds.run_rounds(tmp_path / "again", show=output.append)
    assert [record.beta for record in again] == [record.beta for record in rounds]
