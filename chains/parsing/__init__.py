"""Parsing of a model's reply: records, choices, answers, and quotes found in their documents."""
