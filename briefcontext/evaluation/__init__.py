"""Experiments: data sets, sampling, scoring and statistics."""
