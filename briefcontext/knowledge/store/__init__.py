"""The store of a knowledge base: its tables, their indexes, and the manifest."""

import os

# Lance reads this when it is imported. Its warnings do not concern users.
os.environ.setdefault("LANCE_LOG", "error")
