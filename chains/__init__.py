"""Readers: they answer from documents, with a language model or by copying sentences."""
