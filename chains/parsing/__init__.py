"""Parsing of a model's reply: choices, answers and located quotes."""
