"""`RoundRecord.plot`: the calibrated risk, and what has come of the promise."""

from matplotlib.figure import Figure

from tests.report.example_histories import example, two_losses


def heights(axes):
    """The heights of the horizontal marks, by their labels."""
    return {
        marks.get_label(): marks.get_segments()[0][0][1]
        for marks in axes.collections
        if marks.get_label() in ("alpha", "promise")
    }


def test_the_mean_stands_beside_alpha_and_promise():
    record = example("ten_rounds").rounds[-1]
    left, right = record.plot().axes
    assert left.get_xlabel().startswith("beta")
    assert right.lines[0].get_ydata()[0] == record.losses["loss"].mean
    assert heights(right) == {
        "alpha": record.calibration.binding.alpha,
        "promise": record.calibration.promise,
    }
    assert right.get_title(loc="left") == "round 10: 310 of 400 losses observed"


def test_several_losses_share_a_scale():
    record = two_losses().rounds[-1]
    right = record.plot().axes[-1]
    assert right.get_ylabel() == "loss / alpha"
    assert heights(right)["alpha"] == 1.0
    names = [text.get_text() for text in right.get_xticklabels()]
    assert names == list(record.calibration.losses)


def test_a_round_of_the_safe_policy_has_its_losses_alone():
    record = example("one_safe_round").rounds[0]
    (axes,) = record.plot().axes
    assert heights(axes) == {}
    assert axes.lines[0].get_ydata()[0] == record.losses["loss"].mean


def test_into_axes_of_the_user():
    figure = Figure()
    axes = figure.add_subplot()
    assert example("ten_rounds").rounds[-1].plot(axes) is figure
    assert len(figure.axes) == 1
