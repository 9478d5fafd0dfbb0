"""The page: ask in a browser, watch the route being taken, and check the answer against its sources."""
