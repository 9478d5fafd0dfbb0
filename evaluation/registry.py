"""The experiments by name."""

from importlib import import_module

from briefcontext.errors import InputError
from briefcontext.evaluation.experiment import Experiment

__all__ = ["EXPERIMENTS", "experiment"]

EXPERIMENTS = {
    "position": "Position",
    "integration": "Integration",
    "conflict": "Conflict",
    "context_length": "ContextLength",
    "attention_bias": "AttentionBias",
    "order": "Order",
    "open_ended": "OpenEnded",
    "cost": "Cost",
}
"""Module and class of each experiment that asks a model."""


def experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises:
        InputError: there is none of that name.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"There is no experiment {name!r}. There are: {', '.join([*EXPERIMENTS, 'preflight'])}.")
    found: Experiment = getattr(import_module(f"briefcontext.evaluation.{name}"), EXPERIMENTS[name])()
    return found
