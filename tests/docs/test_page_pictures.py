"""Pictures have texts, and lead to their full size."""

import pytest

pytest.importorskip("sphinx")


@pytest.mark.parametrize(
    "picture",
    [
        '<img alt="a" src="../_images/found.png" style="width: 640px;" />',
        '<img src="_images/sphx_glr_plot_a_001.png" alt="a" srcset="_images/a.png" class = "b"/>',
    ],
)
def test_a_picture_leads_to_its_full_size(extension, picture):
    body = f"<p>{picture}</p>"
    address = picture.split('src="')[1].split('"')[0]
    expected = f'<p><a class="full-size" href="{address}">{picture}</a></p>'
    assert extension("page_pictures").linked(body) == expected


def test_a_thumbnail_is_a_link_already(extension):
    body = '<a href="plot_a.html"><img src="../_images/sphx_glr_plot_a_thumb.png" /></a>'
    assert extension("page_pictures").linked(body) == body


def test_the_text_is_the_line_that_drew_it_or_the_title(extension):
    nodes = pytest.importorskip("docutils.nodes")
    text_of = extension("page_pictures").text_of
    image = nodes.image(uri="a.png")
    cell = nodes.container("", nb_element="cell_code")
    code = nodes.literal_block("", "import tether\nfound.plot()\n")
    cell += [nodes.container("", code), nodes.container("", nodes.paragraph("", "", image))]
    assert text_of(image, {}) == "Picture drawn by found.plot()"
    thumbnail = nodes.image(uri="gallery/images/thumb/sphx_glr_plot_a_thumb.png")
    assert text_of(thumbnail, {"gallery/plot_a": nodes.title("", "A")}) == "Picture of: A"
    assert text_of(nodes.image(uri="b.png"), {}) == ""
