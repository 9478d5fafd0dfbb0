"""Experiments: data sets, sampling, scoring and statistics."""

from importlib import import_module

from briefcontext.errors import needing

with needing("experiments", "Experiments need scipy and statsmodels"):
    import_module("statsmodels")
    import_module("scipy")
