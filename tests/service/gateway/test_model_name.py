"""Another model in a body, and every other byte as it was."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tether.service.gateway.model_name import with_model

NAMES = st.sampled_from(["model", "user", 'a"b', "\\", "{", "ä", ""]) | st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(NAMES, VALUES, max_size=5),
    st.text(),
    st.fixed_dictionaries({"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 2])}),
)
def test_the_model_is_replaced_and_nothing_else(body, model, style):
    content = json.dumps(body, **style).encode()
    assert json.loads(with_model(content, model)) == body | {"model": model}
    if "model" in body:
        assert with_model(content, "m") == json.dumps(body | {"model": "m"}, **style).encode()


def test_spaces_numbers_repeats_and_depth_stay_as_they_are():
    content = b' { "x" : 1.0E+5 ,"model"  : "a" , "model":["b", {"model": 1}]\n, "y": 1e999 } '
    assert with_model(content, "new") == (
        b' { "x" : 1.0E+5 ,"model"  : "new" , "model":"new"\n, "y": 1e999 } '
    )
    assert with_model(b" {\n} ", "m") == b' {"model": "m"\n} '
    assert with_model(b'{"a":{"model":1}}', "m") == b'{"model": "m", "a":{"model":1}}'
    assert with_model(b'{"\\u006dodel": null}', "m") == b'{"\\u006dodel": "m"}'
    deep = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b', "model": 1}'
    assert with_model(deep, "m") == deep[:-2] + b'"m"}'
