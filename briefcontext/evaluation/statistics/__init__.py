"""Scores, intervals and tests."""
