"""Numbers on their way to the page."""

import json
import math

from tether.service.dashboard.document import _plain


def test_numbers_that_json_cannot_have_are_none():
    found = _plain({"a": [math.nan, math.inf, (1.23456789, 3)], "b": {"c": None, "d": True}})
    assert found == {"a": [None, None, [1.23457, 3]], "b": {"c": None, "d": True}}
    json.dumps(found, allow_nan=False)
