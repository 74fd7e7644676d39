"""Tables in files: a log and its proposals with the options that name their columns.

One file is read into memory (CSV, Parquet, Arrow or Feather, JSON lines); a log in a folder, a glob
or an address of Parquet files is read in parts by `Log.scan`. All that is missing is reported at
once.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.frames import UNSTATED
from tether._core.words import AssumptionWarning, warn_user
from tether.cli.terminal import Options, refuse
from tether.control.log import Log, Proposals

FORMATS = {
    **dict.fromkeys((".parquet", ".parq", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "ipc"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **{".csv": "csv"},
}
"""The formats of files by the endings of their names."""
ANY_FILE = "a CSV, Parquet, Arrow or JSON lines file, or a folder, glob or address of Parquet"
LOG_OPTIONS: Options = {
    "proposals": (str | None, None, "Fresh draws: a file, a folder, a glob or an address."),
    "loss": (list[str], ["loss"], "The column of losses; repeat for several."),
    "log_safe": (str, "log_safe", "The column of log-probabilities under the safe policy."),
    "log_optimized": (str, "log_optimized", "The column of those under the optimized policy."),
    "context": (list[str] | None, None, "A column known before an action; repeat for several."),
    "no_context": (bool, False, "Neither policy depends on a context."),
    "log_mix": (str | None, None, "The column of log-densities of the mixture that logged."),
    "safe_share": (float | None, None, "The share of rows produced by the safe policy."),
    "max_ratio": (float | None, None, "A bound on the optimized over the safe probability."),
    "propensity": (str | None, None, "The safe policy's probabilities, instead of --log-safe."),
    "probability": (str | None, None, "The optimized policy's, instead of --log-optimized."),
    "min_propensity": (float | None, None, "A lower bound on the safe policy's probabilities."),
    "reward": (str | None, None, "The column of rewards, from which the gain is estimated."),
    "source": (str | None, None, "Who drew the proposals: safe, optimized, or a column."),
    "missing": (str | None, None, "worst_case: count a missing loss as the bound."),
}
"""The options that say what the columns of a log are: type, default and help."""


def read_log(
    path: str, bound: Any, columns: dict[str, Any], problems: Sequence[str] = ()
) -> tuple[Log, Proposals | None]:
    """A log and its proposals; one error for all `problems`, of the options or the files."""
    of = SimpleNamespace(**columns)
    problems = [*problems, *_contradictions(of)]
    wanted = [("loss", each) for each in of.loss]
    wanted.append(("propensity", of.propensity) if of.propensity else ("log_safe", of.log_safe))
    by_log = ("log_optimized", of.log_optimized)
    wanted.append(("probability", of.probability) if of.probability else by_log)
    wanted += [("context", each) for each in of.context or ()]
    wanted += [("reward", of.reward), ("log_mix", of.log_mix)]
    data = open_columns(path, wanted, problems, is_stated=bool(of.context or of.no_context))
    drawn = None if of.proposals is None else open_columns(of.proposals, (), problems)
    refuse(problems)

    def made(kind: Any, path: str, data: Any, **names: Any) -> Any:  # in parts from several files
        if kind is Proposals or not is_in_parts(path):
            return kind.from_frame(_prepared(data.to_table(), of, bound), **names)
        if not (of.propensity or of.probability or of.missing):
            return kind.scan(path, **names)
        each = partial(_prepared, of=of, bound=bound)
        return kind.scan(lambda: map(each, open_dataset(path).to_batches()), **names)

    listed = of.context or [None if of.no_context else UNSTATED]
    shared = {each: getattr(of, each) for each in ("log_safe", "log_optimized", "log_mix")}
    shared["context"] = listed[0] if len(listed) == 1 else listed
    ratio = of.max_ratio if of.min_propensity is None else 1 / of.min_propensity
    own = {"safe_share": of.safe_share, "max_ratio": ratio, "reward": of.reward}
    loss: Any = "loss" if of.loss == ["loss"] else of.loss  # a list keeps the names
    log = made(Log, path, data, **shared, **own, loss=loss)
    if of.proposals is None:
        return log, None
    return log, made(Proposals, of.proposals, drawn, **shared, source=of.source)


def _contradictions(of: SimpleNamespace) -> Iterator[str]:
    if of.missing not in (None, "worst_case"):
        yield f"--missing must be worst_case, got {of.missing!r}"
    if of.min_propensity is not None and of.max_ratio is not None:
        yield "--min-propensity and --max-ratio state the same thing: give one of them"
    if of.min_propensity is not None and not 0 < of.min_propensity < 1:
        yield f"--min-propensity must be above 0 and below 1, got {of.min_propensity}"
    if of.context and of.no_context:
        yield "--context and --no-context contradict each other"
    for name in {*of.loss, of.reward} & set(of.context or ()):
        yield f"--context {name} is a loss or reward: a context is known before an action"


def _prepared(table: Any, of: SimpleNamespace, bound: Any) -> Any:
    """A table or batch with log-probabilities, and without missing losses if these count."""
    import pyarrow as pa

    columns = dict(zip(table.schema.names, table.columns, strict=True))
    pairs = (of.propensity, of.log_safe), (of.probability, of.log_optimized)
    for name, target in pairs:
        if name is not None and name in columns:
            columns[target] = pa.array(_logs(name, columns[name]))
    for name in of.loss if of.missing else ():
        if name in columns and columns[name].null_count:
            worst = bound[name] if isinstance(bound, dict) else bound
            count = f"{columns[name].null_count:,} losses of {name!r} are missing"
            warn_user(f"{count} and count as {worst:g}", AssumptionWarning)
            columns[name] = columns[name].cast(pa.float64()).fill_null(worst)
    return type(table).from_arrays(list(columns.values()), names=list(columns))


def is_in_parts(path: str) -> bool:
    """Whether a path names several files, or an address."""
    return "://" in path or Path(path).is_dir() or bool(glob.has_magic(path))


def open_dataset(path: str) -> Any:
    """A dataset of Arrow: one file of any format, or Parquet files."""
    import pyarrow as pa
    from pyarrow import dataset

    try:
        if is_in_parts(path):
            from tether.scan.files import find_files

            filesystem, paths = find_files(path)
            return dataset.dataset(paths, filesystem=filesystem, format="parquet")
        suffix = Path(path).suffix.lower()
        if not Path(path).is_file():
            raise ValueError(f"there is no file {path}")
        if suffix not in FORMATS:
            raise ValueError(f"{path} must end in one of {', '.join(FORMATS)}")
        return dataset.dataset(path, format=FORMATS[suffix])
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def open_columns(
    path: str, wanted: Iterable[tuple[str, Any]], problems: list[str], *, is_stated: bool = True
) -> Any:
    """A dataset with the columns that options name; what it lacks is added to the problems."""
    try:
        data = open_dataset(path)
    except (ValueError, OSError) as error:
        return problems.append(str(error))
    names = data.schema.names
    instead = {"log_safe": ", or --propensity", "log_optimized": ", or --probability"}
    absent = [
        f"--{option.replace('_', '-')}{instead.get(option, '')} (no column {name!r})"
        for option, name in wanted
        if name and name not in names
    ]
    if not is_stated and not any(name.startswith("log_safe_all_") for name in names):
        absent.append("--context COLUMN (or --no-context if neither policy depends on one)")
    if absent:
        problems.append(f"{path} needs {', '.join(absent)}; its columns are {', '.join(names)}")
    return data


def read_columns(path: str, names: dict[str, str], problems: Sequence[str] = ()) -> dict[str, Any]:
    """Columns by option as arrays by name, none of them with missing values; or one error."""
    problems = list(problems)
    data = open_columns(path, names.items(), problems)
    refuse(problems)
    table = data.to_table(columns=list(dict.fromkeys(names.values())))
    for option, name in names.items():
        if missing := table[name].null_count:
            raise ValueError(
                f"--{option}: column {name!r} has {missing} missing value(s): fill them in, or "
                "leave out all rows of items that have one (the promise is for complete items)"
            )
    return {name: table[name].to_numpy() for name in table.column_names}


def _logs(name: str, column: Any) -> Any:
    """Logarithms of a column of probabilities."""
    values = validate.floats(name, column.to_numpy(zero_copy_only=False))
    bad = ~((values >= 0) & (values <= 1 + 1e-9))
    if bad.any():
        validate.reject(name, values, bad, "a probability from 0 to 1 (40 % is 0.4)")
    with np.errstate(divide="ignore"):
        return np.log(np.minimum(values, 1.0))
