"""Pairs of answers, and verdicts on them."""
