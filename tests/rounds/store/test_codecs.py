"""What is stored comes back unchanged, or is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tether.policies import ShortlistRows
from tether.rounds.store.codecs import Codec, RowCodecs

numbers = hnp.arrays(
    st.sampled_from(["float64", "float32", "int64", "int8", "uint16", "bool", ">f8", ">i4"]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
)


def there_and_back(rows):
    codec = Codec.of("contexts", rows)
    assert Codec.from_dict(codec.to_dict()) == codec
    encoded = codec.encode("contexts", rows)
    assert len(encoded) == len(rows)
    return codec.decode(encoded)


def test_frames_come_back_with_their_types():
    rows = pd.DataFrame(
        {"age": [40, 50], "name": ["a", "β"], "dose": [0.5, np.nan], "ok": [True, False]}
    )
    back = there_and_back(rows)
    pd.testing.assert_frame_equal(back, rows, check_dtype=False)
    assert back["age"].dtype == np.int64
    assert back["ok"].dtype == bool
    with pytest.raises(TypeError, match=r"contexts\['when'\] must hold numbers or text"):
        Codec.of("contexts", pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}))


def vectors(rows, size):
    return np.arange(rows * size * 3.0).reshape(rows, size, 3)


def objects(rows, size):
    table = np.empty((rows, size), dtype=object)
    for place in np.ndindex(rows, size):
        table[place] = list(range(sum(place)))
    return table


@pytest.mark.parametrize(
    "candidates",
    [
        np.array([[1, 2], [3, 4], [5, 6]]),
        vectors(3, 2),
        np.array([["a", "bb"], ["β", ""], ["long text", "x"]]),
        objects(3, 2),
        np.array([[[1, 2], [3, 4]]] * 3, dtype=object),
    ],
    ids=["integers", "vectors", "text", "lists", "objects in vectors"],
)
@pytest.mark.parametrize("contexts", [3, np.arange(3.0), pd.DataFrame({"age": [1, 2, 3]})])
def test_candidates_come_back_with_their_contexts(contexts, candidates):
    if candidates.dtype == object and candidates.ndim == 3:
        with pytest.raises(TypeError, match="candidates must be numbers, text, lists"):
            RowCodecs.of(ShortlistRows(contexts, candidates), np.zeros(3, int))
        return
    rows = ShortlistRows(contexts, candidates)
    codecs = RowCodecs.of(rows, np.zeros(3, int))
    assert RowCodecs.from_dict(codecs.to_dict()) == codecs
    columns = codecs.encode(rows, np.array([0, 1, 0]))
    back = codecs.decode_contexts(columns["context"], columns["candidates"])
    assert back.candidates.tolist() == candidates.tolist()
    assert back.candidates.shape == candidates.shape
    if isinstance(contexts, int):
        assert back.contexts == contexts
    else:
        np.testing.assert_array_equal(np.asarray(back.contexts), np.asarray(contexts))
    with pytest.raises(TypeError, match="candidates must have the format of the run's first rows"):
        codecs.encode(ShortlistRows(contexts, np.zeros((3, 7), bool)), np.zeros(3, int))
