"""A small Gaussian process on the unit square, with fixed hyperparameters."""

import numpy as np
import torch
from botorch.models import SingleTaskGP


def fitted():
    points = np.random.default_rng(1).random((12, 2))
    values = np.sin(5 * points[:, 0]) + points[:, 1]
    model = SingleTaskGP(
        torch.tensor(points),
        torch.tensor(values)[:, None],
        train_Yvar=torch.full((12, 1), 1e-3, dtype=torch.float64),
    )
    return model.eval()
