"""Files that are damaged or forged: each is a ValueError that says what is wrong, at once."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether.saving import policy_from_bytes, policy_to_bytes
from tether.saving.archive import pack, unpack
from tether.saving.array_members import array_to_bytes

LIMIT = 1 << 24


def example():
    safe = tether.Gaussian(0.0)
    rng = np.random.default_rng(0)
    actions = safe.sample(60, rng)
    log = tether.make_log(safe, tether.Gaussian(1.0), None, actions, 0.5 * (actions > 1.5))
    found = tether.calibrate(log, alpha=0.2)
    inner = tether.Tethered(safe, tether.Gaussian(1.0), found, family=None)
    inner.log_prob(1, [0.0])
    return tether.Mixture([inner, tether.Gaussian([0.3], 0.7)], [0.25, 0.75])


DATA = policy_to_bytes(example())
KINDS = [node["kind"] for node in json.loads(unpack(DATA, LIMIT)["policy.json"])]


def forge(change):
    """A file whose digests are right, after its table of objects or its members were changed."""
    members = unpack(DATA, LIMIT)
    table = json.loads(members["policy.json"])
    change(table, members)
    members["policy.json"] = json.dumps(table).encode()
    return pack(members)


def node_of(table, kind):
    return next(node for node in table if node["kind"] == kind)


def test_the_forger_changes_nothing_by_itself():
    assert policy_to_bytes(policy_from_bytes(forge(lambda table, members: None))) == DATA


def test_truncated_files():
    for length in range(0, len(DATA), 97):
        with pytest.raises(ValueError, match="the file"):
            policy_from_bytes(DATA[:length])


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_is_found_or_changes_nothing(place, change):
    damaged = bytearray(DATA)
    damaged[place] ^= change
    try:
        loaded = policy_from_bytes(bytes(damaged))
    except ValueError:
        return
    assert policy_to_bytes(loaded) == DATA  # a date or a comment of the archive


def test_swapped_and_exchanged_members_are_found():
    members = unpack(DATA, LIMIT)
    names = sorted(name for name in members if name.endswith(".npy"))
    from tether.saving.archive import canonical_json, manifest_of, stored_zip

    manifest = canonical_json(manifest_of(members))
    swapped = {**members, names[0]: members[names[1]], names[1]: members[names[0]]}
    with pytest.raises(ValueError, match=f"member '{names[0]}' of the file is damaged"):
        policy_from_bytes(stored_zip({"manifest.json": manifest, **swapped}))


VALUES = [
    *(None, True, -1, 0, 2**70, -(2**70), 1e308, "", "inf", "x" * 50, [], {}, [[]]),
    *({"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"float": 3}, {"float": []}),
    *({"object": 0}, {"object": -1}, {"object": 10**9}, {"object": 2**70}, {"object": True}),
    *({"object": "0"}, {"array": "../x"}, {"array": 0}, {"array": "policy.json"}),
    *({"member": "policy.json"}, {"member": "x"}, {"tuple": 3}, {"tuple": []}, {"mapping": 3}),
    *({"mapping": [["a", 1], ["a", 2]]}, {"mapping": [[1, 2]]}, {"mapping": [[]]}),
    *({"unknown": 1}, {"array": "arrays/0.npy", "object": 0}),
]


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_every_entry_replaced_by_every_odd_value(kind):
    """Whatever an entry is replaced by, the file is refused or it is a policy that was checked."""
    plain = node_of(json.loads(unpack(DATA, LIMIT)["policy.json"]), kind)
    for part in ("state", "notes"):
        for name in plain.get(part, {}):
            for value in VALUES:

                def change(table, members, part=part, name=name, value=value):
                    node_of(table, kind)[part][name] = value

                _load_or_refuse(forge(change), (kind, name, value))


@pytest.mark.parametrize("place", ["log_beta", "constraints", "curves", "risks", "promise_terms"])
def test_calibrations_with_odd_entries(place):
    for value in VALUES:

        def change(table, members, value=value):
            pairs = node_of(table, "calibration")["state"]["content"]["mapping"]
            next(pair for pair in pairs if pair[0] == place)[1] = value

        _load_or_refuse(forge(change), (place, value))


def _load_or_refuse(data, what):
    try:
        loaded = policy_from_bytes(data)
    except ValueError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert "object" in refused, what
        return
    assert isinstance(loaded, tether.Mixture), what
    numbers = [loaded.weights, loaded.policies[0].log_beta, loaded.policies[1]._scale]
    assert all(np.all(np.isfinite(each)) or what[1] == "log_beta" for each in numbers), what


def test_nodes_that_are_no_nodes():
    cases = {
        "has no kind and state": [3, [], None, {}, {"kind": "pool"}, {"state": {}}],
        "there is no kind": [
            {"kind": "pickle", "state": {}},
            {"kind": None, "state": {}},
            {"kind": ["pool"], "state": {}},
        ],
        "expected named values": [{"kind": "pool", "state": []}],
        "its entries are not those of a pool": [
            {"kind": "pool", "state": {}},
            {"kind": "pool", "state": {"x": 1}},
        ],
        "entries that a clip has not": [
            {"kind": "clip", "state": {}, "more": 1},
            {"kind": "clip", "state": {}, "notes": {}},
        ],
    }
    for message, nodes in cases.items():
        for node in nodes:
            with pytest.raises(ValueError, match=message):
                policy_from_bytes(pack({"policy.json": json.dumps([node]).encode()}))


def test_tables_that_are_no_tables():
    for table in (b"{}", b"[]", b"3", b"null", b"[" * 50_000, b"[NaN]", b"", b"\xff\xfe"):
        with pytest.raises(ValueError, match=r"policy\.json"):
            policy_from_bytes(pack({"policy.json": table}))
    with pytest.raises(ValueError, match=r"the file has no policy\.json"):
        policy_from_bytes(pack({}))


def test_what_is_saved_must_be_a_policy():
    table = [{"kind": "clip", "state": {}}]
    with pytest.raises(ValueError, match="the file holds a Clip, which is not a policy"):
        policy_from_bytes(pack({"policy.json": json.dumps(table).encode()}))


def with_array(array, kind="pool", name="log_probabilities", **state):
    content = {"arrays/1.npy": array_to_bytes(np.asarray(array))}
    node = {"kind": kind, "state": {name: {"array": "arrays/1.npy"}, **state}}
    return pack({"policy.json": json.dumps([node]).encode(), **content})


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([np.nan, 0.0], "NaN|nan"),
        ([np.inf], "inf"),
        ([0.0, 0.0], "sum to 2"),
        ([[0.0]], "dimensions"),
        (np.zeros(0), "empty|dimension"),
        (np.array(["0.0"]), "must be an array of float64, got an array of <U3"),
        (np.zeros(1, np.float32), "got an array of float32"),
        (np.zeros(1, ">f8"), "got an array of >f8"),
        (np.zeros(1, complex), "got an array of complex128"),
        (-np.inf * np.ones(2), "sum to 0"),
    ],
)
def test_tables_of_probabilities_that_are_none(array, message):
    with pytest.raises(ValueError, match=message):
        policy_from_bytes(with_array(array))


@pytest.mark.parametrize(
    "factor",
    [np.zeros((2, 2)), [[1.0, 1.0], [0.0, 1.0]], [[np.nan]], [[np.inf]], [[1.0, 0.0]], [[-1.0]]],
)
def test_factors_of_a_covariance_that_are_none(factor):
    mean = {"array": "arrays/1.npy"}
    with pytest.raises(ValueError, match=r"cholesky|mean"):
        policy_from_bytes(
            with_array(np.array(factor, float), "gaussian", "cholesky", mean=mean, scale=None)
        )


def test_shortlists_of_absurd_sizes_are_refused_without_making_them():
    data = policy_to_bytes(tether.Shortlist(tether.Gaussian(0.0), tether.Gaussian(1.0), size=3))
    for size in (2**70, 2**40, 10**8, -1, 0, 1, 3.0, True, "3"):
        members = unpack(data, LIMIT)
        table = json.loads(members["policy.json"])
        for kind in ("picker", "shortlist"):
            node_of(table, kind)["state"]["size"] = size
        members["policy.json"] = json.dumps(table).encode()
        with pytest.raises(ValueError, match="size"):
            policy_from_bytes(pack(members))


def test_a_calibration_of_another_beta_is_refused():
    def change(table, members):
        node_of(table, "tethered")["state"]["log_beta"] = 6.0  # a beta of 403

    with pytest.raises(ValueError, match="the calibration has log beta, family and blend"):
        policy_from_bytes(forge(change))


def test_import_paths_that_are_not_allowed():
    for path in ("os:system", "builtins:exec", "posix:system", "a:b", 3, None, "tether:Gaussian"):
        node = {"kind": "made", "state": {"path": path, "arguments": {"mapping": []}}}
        with pytest.raises(ValueError, match=r"object 0 of the file \(made\): .*import path"):
            policy_from_bytes(pack({"policy.json": json.dumps([node]).encode()}))


def test_models_that_are_none():
    pytest.importorskip("skops")
    for content in (b"", b"x" * 100, pack({}), pack({"policy.json": b"[]"})):
        node = {"kind": "model", "state": {"model": {"member": "models/1.skops"}}}
        members = {"policy.json": json.dumps([node]).encode(), "models/1.skops": content}
        with pytest.raises(ValueError, match=r"object 0 of the file \(model\)"):
            policy_from_bytes(pack(members))


def test_methods_that_are_not_to_be_called():
    for name in ("fit", "__init__", "tether_save", "_parameters", 3, None):
        table = [
            {"kind": "zero_log_ratio", "state": {}},
            {"kind": "method", "state": {"of": {"object": 0}, "name": name}},
        ]
        with pytest.raises(ValueError, match="is not a method of"):
            policy_from_bytes(pack({"policy.json": json.dumps(table).encode()}))


def test_a_member_is_used_once():
    pytest.importorskip("skops")
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    members = unpack(policy_to_bytes(model), LIMIT)
    table = json.loads(members["policy.json"])
    table.insert(1, table[0])
    members["policy.json"] = json.dumps(table).encode()
    with pytest.raises(ValueError, match=r"object 1 of the file .*there is no member"):
        policy_from_bytes(pack(members))
