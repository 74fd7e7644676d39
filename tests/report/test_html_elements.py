from tether.report.html_elements import Markup, element, join


def test_text_is_escaped_and_markup_is_not():
    assert join("<", Markup("<b>"), None, False, ["&"], 0) == "&lt;<b>&amp;0"


def test_attributes_are_escaped():
    assert element("meta", content='"') == '<meta content="&quot;">'


def test_control_characters_are_shown_as_escapes():
    shown = element("p", "a\x1b[31m\u202e\n", title="\x00\x9b")
    assert shown == '<p title="\\x00\\x9b">a\\x1b[31m\\u202e\n</p>'
