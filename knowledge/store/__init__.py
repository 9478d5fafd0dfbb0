"""Where a knowledge base is kept: its table of passages, the indexes over it, and the manifest that publishes both."""
