"""Data files: where they are looked for, how public sources are converted, and stand-ins."""

import io
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest

from experiments import data


@pytest.fixture(autouse=True)
def empty(monkeypatch, tmp_path):
    monkeypatch.delenv("TETHER_DATA", raising=False)
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", data.DATA)
def test_a_missing_file_is_one_sentence_that_says_what_to_run(name):
    with pytest.raises(data.DataMissing, match=f"python -m experiments.data {name}") as caught:
        data.load(name)
    assert "\n" not in str(caught.value)
    assert len(data.load(name, stand_in=True)) > 3


def test_the_environment_comes_before_the_cache(monkeypatch, tmp_path):
    file = data.DATA["kin8nm"].file
    for folder, value in (("cache", 1.0), ("given", 2.0)):
        (tmp_path / folder / file).parent.mkdir(parents=True)
        pd.DataFrame({"y": [value]}).to_csv(tmp_path / folder / file, index=False)
    assert data.load("kin8nm")["y"][0] == 1.0
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "given"))
    assert data.load("kin8nm")["y"][0] == 2.0
    with pytest.raises(ValueError, match="'iris'"):
        data.load("iris")


def test_what_is_fetched_is_converted_and_found(monkeypatch):
    arff = b"@relation kin8nm\n@DATA\n" + b", ".join([b"0.5"] * 9) + b"\n"
    monkeypatch.setattr(data, "urlopen", lambda address, timeout: io.BytesIO(arff))
    data.fetch("kin8nm")
    assert data.load("kin8nm").shape == (1, 9)
    table = data.convert_airfoil({"table": b"800\t0\t0.3\t71.3\t0.002\t126.2\n"})
    assert table["sound_pressure_db"].tolist() == [126.2]
    crime = b"8,?,1,Aville,1,0.5,?,0.25,0.1\n9,?,2,Btown,1,0.75,0.2,0.5,0.2\n"
    table = data.convert_communities({"table": crime})
    assert table.to_numpy().tolist() == [[0.5, 0.25, 0.1], [0.75, 0.5, 0.2]]
    assert table.columns[-1] == "violent_crimes"
    head = ["AGE1X", *(f"c{k}" for k in range(18)), "TOTEXP"]
    row = ",".join(["7", *["1"] * 20])
    years = {name: f"DUPERSID,{','.join(head)}\n{row}\n".encode() for name in ("train", "test")}
    table = data.convert_meps(years)
    assert table["year"].tolist() == [2016, 2017]
    assert list(table.columns[1:]) == data.MEPS_COLUMNS


def test_claims_are_read_from_arrays_and_from_nothing_else():
    lists = [np.array([True, False]), np.array([True])]
    content = {
        name: pickle.dumps([each.astype(float) for each in lists])
        for name in ("frequencies", "selfevals", "logprobs")
    }
    groups = io.BytesIO()
    np.savez(groups, arr_0=np.array([[0.0] * 5 + [0, 1, 0, 0], [0.0] * 9]))
    content |= {"annotations": pickle.dumps(lists), "features": groups.getvalue()}
    found = data.convert_medlfqa(content)
    assert found["offsets"].tolist() == [0, 2, 3]
    assert found["dataset_names"][found["dataset_id"]].tolist() == ["kqa_golden", "medication_qa"]
    with pytest.raises(pickle.UnpicklingError, match="not an array"):
        data.convert_medlfqa(content | {"annotations": pickle.dumps(print)})


def zipped(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return made.getvalue()


def test_archives_are_converted():
    head = "prompt,mistralai/Mixtral-8x7B-Instruct-v0.1,gpt-4-1106-preview\n"
    place = "R/routellm/evals/"
    files = {f"{place}gsm8k/gsm8k_responses.csv": f"{head}q,1,0\n"}
    files[f"{place}mmlu/responses/mmlu_law.csv"] = f"{head}p,0,1\n"
    table = data.convert_routellm({"archive": zipped(**files)})
    assert table["subject"].tolist() == ["law", "gsm8k"]
    assert table["correct_gpt4_1106"].tolist() == [1, 0]
    rows = ",item_id,position,click,propensity_score\n0,79,2,0,0.5\n"
    wheel = zipped(**{"obp/dataset/obd/bts/men/men.csv": rows})
    table = data.DATA["open_bandit_bts_men"].convert({"wheel": wheel})
    assert table.iloc[0].tolist() == [2, 79, 0, 0.5]
