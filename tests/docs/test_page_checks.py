"""A page that shows what no page should show is found when it is built."""

import pytest

pytest.importorskip("sphinx")

PRINTED = '<div class="output stream highlight-none notranslate"><pre><span></span>{}</pre></div>'


@pytest.fixture
def found(extension):
    return lambda body: list(extension("page_checks").problems(body))


@pytest.mark.parametrize("name", ["Figure", "NotebookFigure"])
def test_a_figure_that_is_not_shown_as_a_picture(found, name):
    (problem,) = found(PRINTED.format(f"&lt;{name} size 640x480 with 1 Axes&gt;"))
    assert "instead of a picture" in problem


@pytest.mark.parametrize("text", ["see monitor.md", "(docs/explanation/release.md)"])
def test_a_page_that_is_named_by_its_file(found, text):
    (problem,) = found(f'<p>Alarms: <a href="x.html"><span>{text}</span></a>.</p>')
    assert "instead of its title" in problem


@pytest.mark.parametrize(
    "classes", ["cell_output output", "sphx-glr-script-out highlight-none", "highlight-text"]
)
def test_a_printed_line_that_is_too_long(found, classes):
    page = '<div class="{}"><div class="highlight"><pre>one\n{}\nthree</pre></div></div>'
    (problem,) = found(page.format(classes, "x" * 89))
    assert "89 columns" in problem
    assert found(page.format(classes, "x" * 88)) == []


def test_what_is_right_passes(found):
    code = f'<div class="highlight-python"><pre>{"x" * 99}  # see notes.md</pre></div>'
    page = (
        f"<h1>Monitors</h1><p>See <code>CONTRIBUTING.md</code>,<br>a Figure.<img src='a'></p>{code}"
    )
    assert found(page) == []


def test_a_block_after_a_printed_one_is_no_printed_one(found):
    code = f'<div class="highlight-python"><pre>{"x" * 99}</pre></div>'
    assert found(PRINTED.format("a<br>b") + code) == []
