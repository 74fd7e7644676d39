"""Ray as the engine past one machine: kernels in tasks, and policies that score in actors.

Files are read by plain tasks, one per file: only the small summaries travel, so that an object
store of a few megabytes is enough, and a task whose worker dies is run again. A Ray dataset is read
through its own streaming executor, which keeps whole blocks in the object store: give it several
processors, and at least three times the size of its largest blocks per processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tether._core import progress
from tether._core.kernels import Kernel, merge_all, needs_whole_parts
from tether.scan.data_files import DataFile
from tether.scan.parquet import Parquet
from tether.scan.scoring import ROWS_PER_SCORED_BATCH, MakePolicies, Scoring, unscored

TASKS_PER_PROCESSOR = 2
"""How many tasks are waiting or running per processor of the cluster."""
RESTARTS = 3
"""How often a task or actor is begun again where its worker dies."""


class RayFiles:
    """Parquet files that all machines of a cluster can read, one task per file.

    Parameters
    ----------
    path : str, Path or sequence of these
        A file, a folder, a glob, or a list of these.
    where : pyarrow.compute.Expression, optional
        Which rows to read.
    """

    def __init__(self, path: Any, *, where: Any = None) -> None:
        self._opened = Parquet(path, where=where)
        self.files, self.where, self.names = self._opened.files, where, self._opened.names

    def __repr__(self) -> str:
        return f"RayFiles({len(self.files)} file(s), first {self.files[0]})"

    def reduce(self, kernel: Kernel) -> Any:
        """The merged summaries of the kernel on all files; None if they have no rows."""
        import ray

        known = ray.put(kernel)
        task = ray.remote(max_retries=RESTARTS)(_summary_of_file)
        unchanged = map(self._opened.require_unchanged, self.files)
        calls = ((task, (known, file, self.where)) for file in unchanged)
        with progress.step("reading files", len(self.files)) as step:
            return merge_all(_finished(calls, step))


class RayDataset:
    """A Ray dataset, whose blocks are the parts.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The dataset. Where the rows of an item must be together, no block may split them.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.names: list[str] | None = list(dataset.schema().names)

    def __repr__(self) -> str:
        return f"RayDataset({self.names})"

    def reduce(self, kernel: Kernel) -> Any:
        """The merged summaries of the kernel on all blocks; None if they have no rows."""
        chosen = self.dataset.select_columns(list(kernel.columns))
        size = None if needs_whole_parts(kernel) else "default"
        found = chosen.map_batches(
            _OnBlock(kernel), batch_format="pyarrow", batch_size=size, zero_copy_batch=True
        )
        return merge_all(_unpickled(found))


def source(data: Any, *, where: Any = None) -> RayFiles | RayDataset:
    """Open files or a dataset for `Log.scan`, `Proposals.scan` and `Claims.scan` on a cluster.

    Parameters
    ----------
    data : path, sequence of paths or ray.data.Dataset
        Parquet files that all machines can read, or a dataset.
    where : pyarrow.compute.Expression, optional
        Which rows of files to read.

    Returns
    -------
    RayFiles or RayDataset
        The source.
    """
    if isinstance(data, (str, Path, list, tuple)):
        return RayFiles(data, where=where)
    if where is not None:
        raise TypeError("where filters files only: filter the dataset itself")
    return RayDataset(data)


def score(
    data: Any,
    out: str | Path,
    make_policies: MakePolicies,
    *,
    action: str | Sequence[str],
    context: str | Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    actors: int = 2,
    rows_per_batch: int = ROWS_PER_SCORED_BATCH,
    actor_options: dict[str, Any] | None = None,
) -> int:
    """Score the rows of many files under two policies, in actors that hold the policies.

    Each file becomes one of the same name in `out`, with the columns `log_safe` and
    `log_optimized` beside those that are kept. Files that are there already are not scored again,
    and each is written completely or not at all; so what was interrupted is called again. An actor
    whose worker dies is begun again, and scores its file from the start.

    Parameters
    ----------
    data : path or sequence of paths
        Parquet files that all machines can read.
    out : str or Path
        The folder to write to, which all machines can write to.
    make_policies : callable
        Makes the safe and the optimized policy; called once in each actor.
    action : str or sequence of str
        The column of actions, or several feature columns.
    context : str or sequence of str, optional
        The column of contexts, or several feature columns; None where neither policy has any.
    keep : sequence of str, optional
        The columns to write beside the scores; all of them by default.
    actors : int, default 2
        How many actors hold the policies.
    rows_per_batch : int, optional
        How many rows are scored at once.
    actor_options : dict, optional
        What an actor needs, such as `{"num_gpus": 1}`.

    Returns
    -------
    int
        How many rows were scored; those of files that were there already do not count.

    Raises
    ------
    ValueError
        If a file in `out` was made from another file, two files have the same name, or a score is
        not valid.
    """
    import ray
    from ray.util import ActorPool

    waiting = list(unscored(data, out))
    if not waiting:
        return 0
    scoring = Scoring(make_policies, action, context, keep, rows_per_batch)
    options = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS, **(actor_options or {})}
    holder = ray.remote(**options)(_PolicyHolder)
    held: list[Any] = [holder.remote(scoring) for _ in range(min(actors, len(waiting)))]
    total = 0
    try:
        with progress.step("scoring files", len(waiting)) as step:
            pool = ActorPool(held)
            for rows in pool.map_unordered(lambda actor, pair: actor.score.remote(*pair), waiting):
                total += rows
                step.advance()
    except ray.exceptions.RayTaskError as error:
        raise _own_error(error) from error
    finally:
        for actor in held:
            ray.kill(actor)
    return total


class _PolicyHolder:
    """An actor: the policies, made once."""

    def __init__(self, scoring: Scoring) -> None:
        self.scoring, self.policies = scoring, scoring.make_policies()

    def score(self, file: DataFile, target: str) -> int:
        """Score one file; nothing if a worker that died had written it."""
        if Path(target).exists():
            return 0
        return self.scoring.score_file(file, target, self.policies)


class _OnBlock:
    """What is done with a block of a dataset: one row, with the pickled summary."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, block: Any) -> Any:
        import pickle

        import pyarrow as pa

        from tether.scan.arrow_columns import joined, to_arrays

        found = [self.kernel.partial(to_arrays(batch)) for batch in joined(block.to_batches())]
        return pa.table({"summary": [pickle.dumps(summary) for summary in found]})


def _summary_of_file(kernel: Kernel, file: DataFile, where: Any) -> Any:
    return Parquet([file], where=where, threads=1).reduce(kernel)


def _finished(calls: Iterator[tuple[Any, tuple[Any, ...]]], step: progress.Step) -> Iterator[Any]:
    """The results of tasks as they finish, with few of them waiting at a time."""
    import ray

    limit = TASKS_PER_PROCESSOR * max(int(_resources().get("CPU", 1)), 1)
    running: list[Any] = []
    try:
        for task, arguments in calls:
            if len(running) >= limit:
                done, running = ray.wait(running)
                yield ray.get(done[0])
                step.advance()
            running.append(task.remote(*arguments))
        while running:
            done, running = ray.wait(running)
            yield ray.get(done[0])
            step.advance()
    except ray.exceptions.RayTaskError as error:
        raise _own_error(error) from error
    finally:
        for each in running:
            ray.cancel(each)


def _resources() -> dict[str, float]:
    import ray

    found: dict[str, float] = ray.cluster_resources()
    return found


def _unpickled(dataset: Any) -> Iterator[Any]:
    import pickle

    import ray

    try:
        for row in dataset.iter_rows():
            yield pickle.loads(row["summary"])
    except ray.exceptions.RayTaskError as error:
        raise _own_error(error) from error


def _own_error(error: Any) -> Exception:
    """The error that was raised in a worker, rather than the one that Ray wraps it in."""
    cause: Any = getattr(error, "cause", None)
    while getattr(cause, "cause", None) is not None:
        cause = cause.cause
    return type(cause)(str(cause)) if isinstance(cause, (TypeError, ValueError)) else error
