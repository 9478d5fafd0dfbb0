"""Data sets of questions, each read from the layout in which it is published."""

from briefcontext.evaluation.data_sets.data_set import DataSet
from briefcontext.evaluation.data_sets.load import KINDS, load_data_set

__all__ = ["KINDS", "DataSet", "load_data_set"]
