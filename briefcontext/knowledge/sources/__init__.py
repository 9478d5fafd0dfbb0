"""Readers of source formats: from files to documents, deletions and rejects."""
