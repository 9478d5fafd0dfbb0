"""Calls of a language model: retries, limits, budgets, reply cache and usage."""
