"""Over time: the controller, the store, and what a run has been so far."""

from tether.rounds.controller import Controller
from tether.rounds.errors import LossesMissingError, RoundOverError, RoundTakenError, StoreError
from tether.rounds.history import Alarm, Estimate, History, RoundRecord, history
from tether.rounds.round import Round, Taken
from tether.rounds.training import TrainingRows

__all__ = [
    "Alarm",
    "Controller",
    "Estimate",
    "History",
    "LossesMissingError",
    "Round",
    "RoundOverError",
    "RoundRecord",
    "RoundTakenError",
    "StoreError",
    "Taken",
    "TrainingRows",
    "history",
]
