from tests.report.example_histories import example, rendered
from tests.report.html_tree import parse


def test_one_round_is_shown_and_the_others_are_hidden(name):
    history, page = example(name), parse(rendered(name))
    cards = list(page.find_all("div", **{"class": "card"}))
    assert len(cards) == len(history.rounds)
    hidden = ["hidden" in card.attributes for card in cards]
    assert hidden == [True] * (len(cards) - 1) + [False] * (len(cards) > 0)
    selected = {
        node.attributes["data-round"]
        for node in page.find_all("g")
        if "selected" in (node.attributes.get("class") or "")
    }
    last = history.rounds[-1] if history.rounds else None
    assert selected == ({str(last.number)} if last and last.calibration else set())
