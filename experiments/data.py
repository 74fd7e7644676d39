"""Where data sets come from: `$TETHER_DATA`, the cache, their public source, or a stand-in.

No data file is part of the project. `python -m experiments.data NAME …` downloads public files at
fixed commits and converts them into the cache (`$TETHER_CACHE`, by default ~/.cache/tether). A
quick run takes a small generated stand-in where a file is missing, and says so: it shows that the
experiment works, not what it finds.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pandas as pd

Arrays = dict[str, np.ndarray]
CPC = "samuelstanton/conformal-policy-control/d4e621d1562e2eda24000f77c3f5922ec8863ac4"
MEPS = "wuziyueemory/Two-stage-SuperLearner/29479917dd473e11a87750da2e4465c439f78d9c"
COFACT = "huzr1999/CoFact/a7e9d5439744590d0599fb886075969b57353b74"
ROUTELLM = "lm-sys/RouteLLM/zip/0b64fdafe049e596a3f5657c219329f24af24198"
OBP = "https://files.pythonhosted.org/packages/py3/o/obp/obp-0.4.1-py3-none-any.whl"
YEAR = 2016


class DataMissing(SystemExit):
    """A data set that is nowhere: a program ends with the sentence that says what to do."""


@dataclass(frozen=True)
class DataSet:
    """A data set as one table: its file, its public sources, how to convert them, a stand-in."""

    file: str
    sources: Mapping[str, str]
    convert: Callable[[dict[str, bytes]], Any]
    stand_in: Callable[[np.random.Generator], Any]


def load(name: str, *, stand_in: bool = False) -> Any:
    """A table (a DataFrame, or arrays by name); with `stand_in`, a generated one if it is missing.

    Raises
    ------
    DataMissing
        If the file is neither in `$TETHER_DATA` nor in the cache.
    """
    if name not in DATA:
        raise ValueError(f"name must be one of {', '.join(DATA)}, got {name!r}")
    given = os.environ.get("TETHER_DATA")
    for folder in (*([Path(given)] if given else []), cache()):
        if (folder / DATA[name].file).is_file():
            return read(folder / DATA[name].file)
    if stand_in:
        print(f"{name}: no file, so a generated stand-in is used: figures mean nothing")
        return DATA[name].stand_in(np.random.default_rng(len(name)))
    raise DataMissing(
        f"{DATA[name].file} is neither in TETHER_DATA ({given or 'not set'}) nor in {cache()}: "
        f"`python -m experiments.data {name}` downloads and converts it"
    )


def cache() -> Path:
    """The folder where converted files are kept."""
    return Path(os.environ.get("TETHER_CACHE", Path.home() / ".cache" / "tether"))


def read(path: Path) -> Any:
    """A converted file."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays}
    return pd.read_csv(path) if path.name.endswith(".csv.gz") else pd.read_parquet(path)


def fetch(name: str) -> Path:
    """Download the sources of a data set and convert them into the cache."""
    content = {}
    for part, address in DATA[name].sources.items():
        print(f"{name}: {address}", flush=True)
        with urlopen(address, timeout=60) as answer:
            content[part] = answer.read()
    path = cache() / DATA[name].file
    path.parent.mkdir(parents=True, exist_ok=True)
    table, part = DATA[name].convert(content), path.with_name(f"part-{path.name}")
    if path.suffix == ".npz":
        np.savez_compressed(part, **table)
    elif path.name.endswith(".csv.gz"):
        table.to_csv(part, index=False)
    else:
        table.to_parquet(part, index=False)
    part.replace(path)
    return path


def _raw(repository: str, path: str) -> str:
    return f"https://raw.githubusercontent.com/{repository}/{quote(path)}"


# ---- tables for regression --------------------------------------------------------------------

AIRFOIL = [
    *("frequency_hz", "angle_of_attack_deg", "chord_length_m", "free_stream_velocity_mps"),
    *("suction_side_displacement_thickness_m", "sound_pressure_db"),
]
MEPS_COLUMNS = [
    *("age", "education_years", "poverty_level_pct", "sex_dum", "race_hispanic", "race_black"),
    *("race_asian", "race_other", "region_northeast", "region_midwest", "region_west", "diabetes"),
    *("high_blood_pressure", "cancer", "insure1", "insure2", "insure3", "uninsured"),
    *("heart_disease", "total_expenditure_usd"),
]


def convert_airfoil(content: dict[str, bytes]) -> pd.DataFrame:
    """UCI's airfoil self-noise, with raw values."""
    return pd.read_csv(io.BytesIO(content["table"]), sep="\t", header=None, names=AIRFOIL)


def convert_kin8nm(content: dict[str, bytes]) -> pd.DataFrame:
    """OpenML's kin8nm: what stands below @data."""
    text = content["table"].decode()
    start = text.lower().index("@data") + len("@data")
    names = [*(f"theta{k}" for k in range(1, 9)), "y"]
    return pd.read_csv(io.StringIO(text[start:].lstrip()), header=None, names=names)


def convert_communities(content: dict[str, bytes]) -> pd.DataFrame:
    """UCI's communities and crime, as the authors' scripts take it.

    Without the five columns that name a community, and without columns that lack values.
    """
    frame = pd.read_csv(io.BytesIO(content["table"]), header=None, na_values="?").iloc[:, 5:]
    frame = frame.dropna(axis=1)
    names = [*(f"x{k}" for k in range(frame.shape[1] - 1)), "violent_crimes"]
    return frame.set_axis(names, axis=1)


def convert_meps(content: dict[str, bytes]) -> pd.DataFrame:
    """Adults of 2016 (and 2017); not the paper's file, which is not in a public repository."""
    parts = []
    for year, name in ((YEAR, "train"), (YEAR + 1, "test")):
        frame = pd.read_csv(io.BytesIO(content[name]))
        frame = frame.loc[:, "AGE1X":"TOTEXP"]
        frame = frame.set_axis(MEPS_COLUMNS, axis=1)
        frame.insert(0, "year", year)
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def regression(names: list[str], target: str, rows: int, **more: Any) -> Callable[..., Any]:
    """A stand-in: correlated features, and a target that depends on them."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        x = rng.gamma(2.0, size=(rows, len(names))) + rng.gamma(1.0, size=(rows, 1))
        frame = pd.DataFrame(x, columns=names)
        y = np.sin(x[:, 0]) + x @ np.linspace(0.5, 0.1, len(names)) + rng.normal(size=rows) / 4
        return frame.assign(**{target: np.exp(y - y.max()) * 100}, **more)

    return make


# ---- claims, prompts, impressions -------------------------------------------------------------


class ArraysOnly(pickle.Unpickler):
    """Reads lists of numpy arrays, and runs nothing else that a pickle may name."""

    def find_class(self, module: str, name: str) -> Any:
        """What numpy's own arrays are made of."""
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not an array")


def convert_medlfqa(content: dict[str, bytes]) -> Arrays:
    """Labels and three scores of the claims of 4,805 questions, and where the questions are from.

    The question files have 4,851 questions, as the paper lists them; the annotated set of Cherian,
    Gibbs and Candès, which the paper uses too, leaves 46 of them out.
    """
    lists = {
        name: ArraysOnly(io.BytesIO(content[name])).load()
        for name in ("annotations", "frequencies", "selfevals", "logprobs")
    }
    groups = np.load(io.BytesIO(content["features"]))["arr_0"][:, 5:]
    names = np.array(["healthsearch_qa", "kqa_golden", "kqa_silver_wogold", "live_qa"])
    found = {
        "offsets": np.append(0, np.cumsum([len(each) for each in lists["annotations"]])),
        "is_supported": np.concatenate(lists["annotations"]).astype(bool),
        "dataset_id": np.where(groups.any(axis=1), groups.argmax(axis=1), len(names)),
        "dataset_names": np.append(names, "medication_qa"),
    }
    for name in ("frequencies", "selfevals", "logprobs"):
        short = {"frequencies": "frequency"}.get(name, name[:-1])
        found[short] = np.concatenate(lists[name]).astype(float)
    return found


def medlfqa_stand_in(rng: np.random.Generator) -> Arrays:
    """600 questions with a few claims each, of which some sources have more false ones."""
    sizes = rng.integers(2, 20, 600)
    source, skill = rng.integers(0, 5, 600), rng.beta(18, 1, 600)
    true = rng.random(sizes.sum()) < np.repeat(skill, sizes)
    noise = rng.normal(size=(3, len(true)))
    scores = 1 / (1 + np.exp(-(1.5 + 1.2 * true + noise)))
    return {
        "offsets": np.append(0, np.cumsum(sizes)),
        "is_supported": true,
        "dataset_id": source,
        "dataset_names": np.array(["a", "b", "c", "d", "e"]),
        **dict(zip(("selfeval", "logprob", "frequency"), scores.round(3), strict=True)),
    }


def convert_routellm(content: dict[str, bytes]) -> pd.DataFrame:
    """Whether a cheap and an expensive model answered each prompt rightly."""
    parts, models = [], ["mistralai/Mixtral-8x7B-Instruct-v0.1", "gpt-4-1106-preview"]
    with zipfile.ZipFile(io.BytesIO(content["archive"])) as archive:
        for path in sorted(archive.namelist()):
            is_mmlu = "/evals/mmlu/responses/mmlu_" in path and path.endswith(".csv")
            if not is_mmlu and not path.endswith("/gsm8k_responses.csv"):
                continue
            frame = pd.read_csv(archive.open(path))[["prompt", *models]]
            frame.insert(0, "subject", Path(path).stem.removeprefix("mmlu_").split("_resp")[0])
            frame.insert(0, "benchmark", "mmlu" if is_mmlu else "gsm8k")
            parts.append(frame)
    names = dict(zip(models, ("correct_mixtral_8x7b", "correct_gpt4_1106"), strict=True))
    frame = pd.concat(parts, ignore_index=True).rename(columns=names)
    order = frame["benchmark"].eq("gsm8k")  # MMLU first
    return frame.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)


def routellm_stand_in(rng: np.random.Generator) -> pd.DataFrame:
    """Prompts of made-up words; those with hard words are answered wrongly more often."""
    words = np.array([f"word{k}" for k in range(200)])
    chosen = rng.integers(0, 200, size=(2500, 12))
    hard = (chosen < 40).mean(axis=1)
    prompts = [f"{' '.join(words[row])} {number}" for number, row in enumerate(chosen)]
    strong = rng.random(2500) < 0.95 - 0.4 * hard
    weak = np.where(rng.random(2500) < 0.95, strong, ~strong) & (rng.random(2500) < 1.05 - hard)
    benchmark = np.where(rng.random(2500) < 0.1, "gsm8k", "mmlu")
    subject = np.where(benchmark == "gsm8k", "gsm8k", rng.choice(["law", "physics"], 2500))
    return pd.DataFrame(
        {"benchmark": benchmark, "subject": subject, "prompt": prompts}
        | {"correct_mixtral_8x7b": weak, "correct_gpt4_1106": strong}
    )


def convert_open_bandit(policy: str, campaign: str) -> Callable[[dict[str, bytes]], pd.DataFrame]:
    """A sample log inside the wheel of obp: what was shown where, and clicks."""

    def convert(content: dict[str, bytes]) -> pd.DataFrame:
        with zipfile.ZipFile(io.BytesIO(content["wheel"])) as archive:
            name = f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv"
            frame = pd.read_csv(archive.open(name), index_col=0)
        frame = frame.rename(columns={"propensity_score": "propensity"})
        return frame[["position", "item_id", "click", "propensity"]]

    return convert


def impressions_stand_in(policy: str) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Ten items in three positions, of which one policy prefers those that are clicked."""

    def make(rng: np.random.Generator) -> pd.DataFrame:
        rates = np.linspace(0.02, 0.2, 10)
        chance = rates**1.5 if policy == "bts" else np.ones(10)
        chance = chance / chance.sum()
        item = rng.choice(10, 6000, p=chance)
        click = (rng.random(6000) < rates[item]).astype(int)
        columns = {"position": rng.integers(1, 4, 6000), "item_id": item, "click": click}
        return pd.DataFrame(columns | {"propensity": chance[item]})

    return make


DATA: dict[str, DataSet] = {
    "airfoil": DataSet(
        "airfoil/airfoil_self_noise.csv.gz",
        {"table": _raw(CPC, "constrained_AL/datasets/airfoil/airfoil.txt")},
        convert_airfoil,
        regression(AIRFOIL[:-1], AIRFOIL[-1], 700),
    ),
    "kin8nm": DataSet(
        "kin8nm/kin8nm.csv.gz",
        {"table": _raw(CPC, "constrained_AL/datasets/robot_arm/dataset_2175_kin8nm.arff")},
        convert_kin8nm,
        regression([f"theta{k}" for k in range(1, 9)], "y", 700),
    ),
    "communities": DataSet(
        "communities_crime/communities_crime.csv.gz",
        {"table": _raw(CPC, "constrained_AL/datasets/communities/communities.data")},
        convert_communities,
        regression([f"x{k}" for k in range(20)], "violent_crimes", 700),
    ),
    "meps": DataSet(
        "meps/meps_2016_2017_expenditure.parquet",
        {name: _raw(MEPS, f"MEPS data analysis/{name}.csv") for name in ("train", "test")},
        convert_meps,
        regression(MEPS_COLUMNS[:-1], MEPS_COLUMNS[-1], 700, year=YEAR),
    ),
    "medlfqa": DataSet(
        "medlfqa/medlfqa_arrays.npz",
        {
            name.partition(".")[0]: _raw(COFACT, f"processed_data/MedLFQAv2/{name}")
            for name in (
                *("annotations.pkl", "frequencies.pkl", "selfevals.pkl", "logprobs.pkl"),
                "features.npz",
            )
        },
        convert_medlfqa,
        medlfqa_stand_in,
    ),
    "routellm": DataSet(
        "routellm_two_model/routellm_two_model.parquet",
        {"archive": f"https://codeload.github.com/{ROUTELLM}"},
        convert_routellm,
        routellm_stand_in,
    ),
    **{
        f"open_bandit_{policy}_{campaign}": DataSet(
            f"open_bandit_small/obd_{policy}_{campaign}.parquet",
            {"wheel": OBP},
            convert_open_bandit(policy, campaign),
            impressions_stand_in(policy),
        )
        for policy in ("random", "bts")
        for campaign in ("all", "men", "women")
    },
}


if __name__ == "__main__":
    if unknown := [name for name in sys.argv[1:] if name not in DATA] or not sys.argv[1:]:
        sys.exit(f"name some of {', '.join(DATA)}" + (f", got {unknown}" if sys.argv[1:] else ""))
    for chosen in sys.argv[1:]:
        print(fetch(chosen))
