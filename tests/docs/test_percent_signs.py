"""A percent sign stays on the line of its number, in running text of HTML pages only."""

from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx")
nodes = pytest.importorskip("docutils.nodes")
utils = pytest.importorskip("docutils.utils")

SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture
def joined(extension):
    """Return a function that gives the nodes of a page to the extension."""

    def join(*children, output="html"):
        page = utils.new_document("page")
        page += children
        app = SimpleNamespace(builder=SimpleNamespace(format=output))
        extension("percent_signs").keep_together(app, page, "page")
        return page.astext()

    return join


def test_a_number_keeps_its_sign(joined):
    text = "From 10 % to 12.5 %, not 10% and not % 10 or 5 % 3."
    expected = text.replace("0 %", f"0{SPACE}%").replace("5 %", f"5{SPACE}%")
    assert joined(nodes.paragraph("", text)) == expected
    assert joined(nodes.paragraph("", "", nodes.strong("", "5 %"))) == f"5{SPACE}%"
    assert joined(nodes.paragraph("", text), output="latex") == text


def test_what_is_typed_stays_as_it_is(joined):
    code = nodes.literal_block("", "", nodes.inline("", "10 % 3"))
    for each in (nodes.literal("", "10 % 3"), nodes.math("", "10 % 3"), code):
        assert joined(nodes.paragraph("", "", each)) == "10 % 3"
