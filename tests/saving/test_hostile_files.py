"""Files that are damaged or forged: each is a ValueError at once, and none runs code."""

import contextlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import tether
from tests.saving import parts
from tether.saving import policy_from_bytes, policy_to_bytes
from tether.saving.archive import DIGEST, array_from_bytes, pack, stored_zip, unpack
from tether.saving.objects import OBJECT_TABLE

SAFE, NEW = tether.Gaussian(0.0), tether.Gaussian(1.0)
POLICY = tether.Mixture([tether.Tethered(SAFE, NEW, 0.5), tether.Gaussian(0.3, 0.7)], [0.25, 0.75])
DATA = policy_to_bytes(POLICY)


def forge(change, data=DATA):
    """A file whose digest is right, after its objects or members were changed."""
    members = unpack(data, 1 << 24)
    version, table = json.loads(members[OBJECT_TABLE])
    change(table, members)
    members[OBJECT_TABLE] = json.dumps([version, table]).encode()
    return pack(members)


def entries_of(table, kind):
    return next(entries for name, entries in table if name == kind)


def of_nodes(*nodes, **members):
    content = json.dumps([2, nodes]).encode()
    return pack({OBJECT_TABLE: content, **{f"models/{k}.skops": v for k, v in members.items()}})


def test_truncated_files_and_files_that_are_too_large():
    assert policy_to_bytes(policy_from_bytes(forge(lambda table, members: None))) == DATA
    for length in range(0, len(DATA), 97):
        with pytest.raises(ValueError, match="the file"):
            policy_from_bytes(DATA[:length])
    with pytest.raises(ValueError, match="max_bytes"):
        policy_from_bytes(DATA, max_bytes=len(DATA) - 1)


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_a_changed_byte_is_found_or_changes_nothing(place, change):
    damaged = bytearray(DATA)
    damaged[place] ^= change
    try:
        loaded = policy_from_bytes(bytes(damaged))
    except ValueError:
        return
    assert policy_to_bytes(loaded) == DATA  # a date or a comment of the archive


def test_swapped_and_missing_members_are_found():
    with zipfile.ZipFile(io.BytesIO(DATA)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    first, second = [name for name in members if name.endswith(".npy")][:2]
    swapped = {**members, first: members[second], second: members[first]}
    lacking = {name: content for name, content in members.items() if name != first}
    for changed in (swapped, lacking, {**members, "arrays/99.npy": b""}, {DIGEST: b"0"}, {}):
        with pytest.raises(ValueError, match="changed"):
            policy_from_bytes(stored_zip(changed))


def raw_zip(name, content=b"x", compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def test_archives_that_are_refused():
    for data in (raw_zip("../x"), b"PK\x05\x06" + b"\0" * 18, b"", b"\x80\x04N."):
        with pytest.raises(ValueError, match="the file"):
            policy_from_bytes(data)
    with pytest.raises(ValueError, match="compressed"):  # it could unpack to any size
        unpack(raw_zip("policy.json", b"0", zipfile.ZIP_DEFLATED), 1 << 20)


def header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    about = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


NONE = [b"", b"x" * 99, header((2**40,)), header((-1,)), header((2,)) + b"0", header((0,), "<U0")]


@pytest.mark.parametrize("content", [*NONE, header((1,), "|O") + pickle.dumps(parts.Own)])
def test_arrays_that_are_none(content):
    with pytest.raises(ValueError, match=r"arrays/0\.npy"):
        array_from_bytes("arrays/0.npy", content)


@pytest.mark.parametrize("kind", ["Picker", "Shortlist"])
def test_a_shortlist_without_end_is_refused_before_it_is_listed(kind):
    data = policy_to_bytes(tether.Shortlist(SAFE, NEW, size=2))
    with pytest.raises(ValueError, match="at most"):
        policy_from_bytes(forge(lambda t, _: entries_of(t, kind).update(size=10**14), data))


ODD = (None, -1, 2**70, "", {"float": "nan"}, {"object": 0}, {"object": 99}, {"x": 1})


@pytest.mark.parametrize("kind", ["Gaussian", "Mixture", "Tethered"])
def test_every_entry_replaced_by_odd_values(kind):
    """The file is refused, or it is a policy that was checked."""
    for name in entries_of(json.loads(unpack(DATA, 1 << 24)[OBJECT_TABLE])[1], kind):
        for value in ODD:

            def change(table, members, name=name, value=value):
                entries_of(table, kind)[name] = value

            with contextlib.suppress(ValueError):
                loaded = policy_from_bytes(forge(change))
                assert np.isfinite(loaded.weights).all()
                assert np.isfinite(loaded.policies[1]._scale).all()


def test_a_calibration_of_other_policies_is_refused():
    safe, rng = tether.Gaussian(0.0), np.random.default_rng(0)
    actions = safe.sample(200, rng)
    log = tether.make_log(safe, tether.Gaussian(1.0), None, actions, 0.5 * (actions > 1.5))
    served = tether.Tethered(safe, tether.Gaussian(1.0), tether.calibrate(log, alpha=0.2))

    def swap_policies(table, members):
        entries = entries_of(table, "Tethered")
        entries["safe"], entries["optimized"] = entries["optimized"], entries["safe"]

    with pytest.raises(ValueError, match="Tethered"):
        policy_from_bytes(forge(swap_policies, policy_to_bytes(served)))


def test_code_runs_only_where_it_is_allowed():
    paths = ("os:system", "builtins:exec", "a:b", 3, None, "tether:Gaussian", "tether.llm:x")
    for path in (*paths, "tether.policies:policy_from"):
        made = ["made", {"path": path, "arguments": {"mapping": []}}]
        for node in (made, ["function", {"path": path}]):
            with pytest.raises(ValueError, match="import path"):
                policy_from_bytes(of_nodes(node))
    own = policy_to_bytes(parts.Own(tether.Gaussian(0.0), np.zeros(1), []))
    with pytest.raises(ValueError, match="allow_imports"):
        policy_from_bytes(own)
    imported = of_nodes(["function", {"path": "tests.saving.parts:np.zeros"}])
    with pytest.raises(ValueError, match="import path"):
        policy_from_bytes(imported, allow_imports=["tests.saving.parts"])
    for allowed in (True, "tests.saving", ["tests"], lambda path: path.endswith(":Own")):
        assert isinstance(policy_from_bytes(own, allow_imports=allowed), parts.Own)
    for name in ("fit", "__init__", "_parameters", 3, None):
        nodes = ["Clip", {}], ["method", {"of": {"object": 0}, "name": name}]
        with pytest.raises(ValueError, match="method"):
            policy_from_bytes(of_nodes(*nodes))


def test_models_that_are_none():
    node = ["model", {"model": {"member": "models/0.skops"}}]
    bomb, empty = raw_zip("a.npy", header((2**40,))), raw_zip("schema.json", b"{}")
    for content in (b"", b"x" * 100, stored_zip({}), empty, bomb):
        with pytest.raises(ValueError, match="object 0 of the file"):
            policy_from_bytes(of_nodes(node, **{"0": content}))
    model = policy_to_bytes(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))

    def change(table, members):
        name = next(each for each in members if each.endswith(".skops"))
        with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
            inner = {each: archive.read(each) for each in archive.namelist()}
        renamed = inner["schema.json"].replace(b"LogisticRegression", b"Popen")
        renamed = renamed.replace(b"sklearn.linear_model._logistic", b"subprocess")
        members[name] = stored_zip({**inner, "schema.json": renamed})

    with pytest.raises(ValueError, match="trusted"):
        policy_from_bytes(forge(change, model))
