"""Tasks in several processes that share one device."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import torch


def _single_threaded() -> None:
    torch.set_num_threads(1)


def each(workers: int, task: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """What the task returns for each job, as it comes; one worker stays in this process."""
    if workers == 1:
        for job in jobs:
            yield task(*job)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_single_threaded) as pool:
        for done in as_completed([pool.submit(task, *job) for job in jobs]):
            yield done.result()
