"""Where data sets come from: `$TETHER_DATA`, a local cache, or their public source.

No data file is part of the project. Each is known by its SHA-256, wherever it is found.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DataError(RuntimeError):
    """A data file that is unknown, or is not the file it should be."""


class DataMissing(DataError):  # noqa: N818 - it says what happened
    """A data file that is nowhere and cannot be downloaded; the text says what to do."""


@dataclass(frozen=True)
class Folder:
    """The files of one data set, where they come from, and how to make them if that is automatic.

    `prepare` downloads the source, whose SHA-256 is pinned, and writes the files into a folder.
    """

    origin: str
    files: Mapping[str, str]
    prepare: Callable[[Path], None] | None = None


def path(name: str) -> Path:
    """The file `name` ("folder/file"), checked by its SHA-256; downloaded if its source allows.

    Looks in the folder named by the environment variable `TETHER_DATA`, then in the cache folder.
    """
    folder, expected = _known(name)
    given = os.environ.get("TETHER_DATA")
    if given and (found := Path(given) / name).is_file():
        return _checked(found, {expected})
    cached = cache() / name
    if not cached.is_file():
        if folder.prepare is None:
            raise DataMissing(_missing(name, given, "it is not downloaded automatically"))
        cached.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.prepare(cached.parent)
        except OSError as error:  # no connection, or the source has gone
            raise DataMissing(_missing(name, given, f"its download failed ({error})")) from error
    return _checked(cached, {expected, *_recorded(cached)})


def cache() -> Path:
    """The folder where downloaded files are kept between runs."""
    import pooch

    return Path(pooch.os_cache("tether"))


def _known(name: str) -> tuple[Folder, str]:
    first, _, file = name.partition("/")
    if first not in FOLDERS or file not in FOLDERS[first].files:
        known = sorted(f"{folder}/{file}" for folder in FOLDERS for file in FOLDERS[folder].files)
        raise DataError(f"no data file is named {name!r}; there are {', '.join(known)}")
    return FOLDERS[first], FOLDERS[first].files[file]


def _missing(name: str, given: str | None, why: str) -> str:
    looked = f"TETHER_DATA ({given})" if given else "TETHER_DATA (not set)"
    folder, expected = _known(name)
    return (
        f"the data file {name} was found neither in {looked} nor in the cache ({cache()}), and "
        f"{why}. Source: {folder.origin} Put the file, with SHA-256 {expected}, at "
        f"{cache() / name}, or at {name} in a folder and set TETHER_DATA to that folder. A file "
        "that you converted yourself has other bytes: to use it, put it into the cache and its "
        f"SHA-256 beside it into {Path(name).name}.sha256."
    )


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _checked(file: Path, expected: set[str]) -> Path:
    digest = _digest(file)
    if digest not in expected:
        raise DataError(
            f"{file} has SHA-256 {digest}, not {' or '.join(sorted(expected))}: it is another file "
            "or a damaged one. Remove it, or put the right one in its place."
        )
    return file


def _recorded(file: Path) -> list[str]:
    """What was noted of a converted file: its bytes depend on the library that wrote it."""
    note = file.with_name(file.name + ".sha256")
    return note.read_text(encoding="ascii").split() if note.is_file() else []


def _write(frame: Any, file: Path) -> None:
    """Write a converted table and a note of its SHA-256; a broken-off write leaves no file."""
    part = file.with_name(file.name + ".part")
    frame.to_parquet(part, index=False, compression="zstd")
    file.with_name(file.name + ".sha256").write_text(_digest(part) + "\n", encoding="ascii")
    part.replace(file)


WHEEL = "https://files.pythonhosted.org/packages/py3/o/obp/obp-0.4.1-py3-none-any.whl"
WHEEL_SHA256 = "87dec9caf4283c25ab13036532e0a24566f1c7bdcad1653a8ded43b2f5ef8208"


def _open_bandit(folder: Path) -> None:
    import pooch

    wheel = pooch.retrieve(WHEEL, known_hash=f"sha256:{WHEEL_SHA256}", path=cache() / "sources")
    convert_open_bandit(Path(wheel), folder)


def convert_open_bandit(wheel: Path, folder: Path) -> None:
    """Write the sample logs inside an `obp` wheel as tables, hashed categories as small integers.

    A category's number is its place in the order of its column's hashes over all the logs.
    """
    import pandas as pd

    logs, items = {}, []
    with zipfile.ZipFile(wheel) as archive:
        for policy in ("random", "bts"):
            for campaign in ("all", "men", "women"):
                home = f"obp/dataset/obd/{policy}/{campaign}"
                with archive.open(f"{home}/{campaign}.csv") as file:
                    logs[policy, campaign] = pd.read_csv(file, index_col=0)
                if policy == "random":
                    with archive.open(f"{home}/item_context.csv") as file:
                        items.append(pd.read_csv(file, index_col=0))
                        items[-1].insert(0, "campaign", campaign)
    for name in [f"user_feature_{i}" for i in range(4)]:
        coded = _coded(pd.concat([log[name] for log in logs.values()]))
        for log in logs.values():
            log[name] = log[name].map(coded).astype("int8")
    for (policy, campaign), log in logs.items():
        log["timestamp"] = pd.to_datetime(log["timestamp"], format="ISO8601").dt.as_unit("us")
        log.insert(1, "policy", policy)
        log.insert(2, "campaign", campaign)
        log.insert(3, "position", log.pop("position"))
        log = log.astype(dict.fromkeys(["item_id", "position", "click"], "int8"))
        log = log.rename(columns=lambda name: name.replace("user-item_affinity", "affinity"))
        log = log.rename(columns={"propensity_score": "propensity"})
        affinities = [name for name in log if name.startswith("affinity_")]
        _write(
            log.astype(dict.fromkeys(affinities, "float32")),
            folder / f"obd_{policy}_{campaign}.parquet",
        )
    contexts = pd.concat(items, ignore_index=True)
    for name in [f"item_feature_{i}" for i in range(1, 4)]:
        contexts[name] = contexts[name].map(_coded(contexts[name])).astype("int16")
    _write(contexts, folder / "obd_item_context.parquet")


def _coded(column: Any) -> dict[str, int]:
    return {value: number for number, value in enumerate(sorted(set(column)))}


FOLDERS = {
    "medlfqa": Folder(
        "labels of github.com/huzr1999/CoFact (commit a7e9d54, processed_data/MedLFQAv2) joined to "
        "scores of github.com/jjcherian/conformal-safety (commit 0e21c1a, data/medlfqa_*.npz), as "
        "arrays offsets, is_supported, frequency, selfeval, logprob, dataset_id, dataset_names.",
        {
            "medlfqa_arrays.npz": "699e520353b0abdc4bf36ce75e3bb1f7"
            "f320bfea5c612064dc68d1eb400ce86d",
            "medlfqa_claims.parquet": "2a8bb1ec8291b7dc27ebd2876095a46c"
            "d8215bc09f64cf86b2f9404117b62711",
            "medlfqa_prompts.parquet": "5a5d1e3ebb5dbc27d5e4ec6c0593e58a"
            "db46a9003e757f07a89593fdfc199fc0",
        },
    ),
    "kin8nm": Folder(
        "github.com/samuelstanton/conformal-policy-control (commit d4e621d, constrained_AL/"
        "datasets/robot_arm/dataset_2175_kin8nm.arff, which is OpenML's kin8nm), rewritten as CSV "
        "with the columns theta1 to theta8 and y, eight significant digits, gzip.",
        {"kin8nm.csv.gz": "14df437b2268bfeaa3a97bef6891b7ea36110ab9eeab989497106de5bc9b195b"},
    ),
    "airfoil": Folder(
        "github.com/samuelstanton/conformal-policy-control (commit d4e621d, constrained_AL/"
        "datasets/airfoil/airfoil.txt, which is UCI's Airfoil Self-Noise), rewritten as CSV, gzip.",
        {
            "airfoil_self_noise.csv.gz": "137813cee719cbebf5830afff89a2f02"
            "72d83946858edf4fe1a97dc6884223e6"
        },
    ),
    "meps": Folder(
        "not the paper's file: for 2016-17 github.com/wuziyueemory/Two-stage-SuperLearner (commit "
        "2947991, MEPS data analysis/train.csv and test.csv), for 2006 github.com/jhlee1408/"
        "assessor (commit f25a700, data/MEPS.rda), columns renamed, as Parquet.",
        {
            "meps_2016_2017_expenditure.parquet": "dc374b551dc1e0a3ffbdf9c9799038b8"
            "23e7d5debc30c9c900d603966234145b",
            "meps_2006_office_expenditure.parquet": "344c8b77d3c681b14606d310e432840342f235c5"
            "b7bce45902e28bf6ff64d29a",
        },
    ),
    "open_bandit_small": Folder(
        f"the sample logs in the Python package obp 0.4.1 ({WHEEL}).",
        {
            "obd_bts_all.parquet": "d2df4a3d5a1afee7cf98401458104612"
            "792ae1525da2957775f98cf6d28305fc",
            "obd_bts_men.parquet": "aa1cec48100f9269e5a621e2e654207d"
            "0d72fbc5c8c0f887f245c48ddd3571b1",
            "obd_bts_women.parquet": "40b3b885a9a2eec8273ddf0e3b7e0dba"
            "49b21c3ae4706cb05c0e7a73aac5f6c9",
            "obd_item_context.parquet": "71694aa5215ad718a4811f8429c42068"
            "d6f57421ffc285fb0a50c59a76bc2fbd",
            "obd_random_all.parquet": "8d9a088f63c1d8ba1d9464bc92fd03c3"
            "6cb345d86e440b8079010446697f25a5",
            "obd_random_men.parquet": "cf8f3aedf47ff61b2b85572edb89bdaf"
            "c82eea67701a746f403afeb386b3e109",
            "obd_random_women.parquet": "45f091f03615cdb6c2c6909fde7da75a"
            "d6365f90d8276435bdd1000ea5af54d8",
        },
        _open_bandit,
    ),
    "routellm_two_model": Folder(
        "github.com/lm-sys/RouteLLM (commit 0b64fda, routellm/evals/mmlu/responses/*.csv and "
        "routellm/evals/gsm8k/gsm8k_responses.csv), as one table with the columns benchmark, "
        "subject, prompt, correct_mixtral_8x7b, correct_gpt4_1106.",
        {
            "routellm_two_model.parquet": "96094f19d05237c766be667743fa489c"
            "7065de42e9e413661e4947950401c298"
        },
    ),
    "xstest_labels": Folder(
        "github.com/paul-rottger/exaggerated-safety (commit d7bb5bd, xstest_prompts.csv, "
        "model_completions and evaluation/automated_evaluation_labels), joined by prompt.",
        {
            "xstest_labels.parquet": "0543251fbd219153bd480d2aa80d8b35"
            "964c07453d802c9a5ab87c77fe0f9fce",
            "xstest_prompts.parquet": "b025722260bad70b20bbf38167480811"
            "de57e4e37ea358c6c4feb2c7070e8d76",
        },
    ),
}
