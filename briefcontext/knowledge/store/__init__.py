"""The store of a knowledge base: a table of passages, its indexes, and the manifest that publishes them."""

import os

# Lance warns of what is of no concern to who uses a knowledge base, on standard error; it reads
# this as it is imported.
os.environ.setdefault("LANCE_LOG", "error")
