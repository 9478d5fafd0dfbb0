"""The store of a knowledge base: a table of passages, its indexes, and the manifest that publishes them."""
