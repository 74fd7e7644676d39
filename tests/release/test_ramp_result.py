import json
from dataclasses import replace

from tether.release import ArmCounts, Guardrail, GuardrailShare, RampShare


def part(**changed):
    values = {
        "guardrail": Guardrail(0.02, bound=0.5),
        "old": ArmCounts(99, 0.0),
        "new": ArmCounts(9, 0.0),
        "old_bound": 0.01,
        "new_bound": 0.1,
        "alpha": 0.02,
        "share": 0.1,
        "stability": 0.001,
        "existence": 0.002,
    }
    return GuardrailShare(**values | changed)


def test_a_promise_is_the_sum_of_its_terms_and_at_most_the_bound():
    assert part().promise == 0.02 + 0.001 + 0.002
    assert part(existence=1.0).promise == 0.5
    assert abs(part().calibrated_risk(0.5) - 0.055) < 1e-12


def test_a_promise_far_above_alpha_is_not_useful():
    assert RampShare(0.1, {"loss": part()}, "loss").useful
    assert not RampShare(0.1, {"loss": part(existence=0.1)}, "loss").useful


def test_it_reads_well():
    made = RampShare(0.1, {"loss": part()}, "loss")
    assert str(made) == "share 0.1: in expectation, loss ≤ 0.023 (alpha 0.02); limited by 'loss'"
    assert "limited" not in str(replace(made, share=1.0))  # by nothing
    closed = RampShare(0.0, {"loss": part()}, "loss", "halted by hand")
    assert str(closed) == "share 0: halted by hand; nothing is promised"


def test_it_can_be_read_back_from_json():
    made = RampShare(0.1, {"loss": part()}, "loss", confidence=0.9)
    assert RampShare.from_dict(json.loads(json.dumps(made.to_dict()))) == made
