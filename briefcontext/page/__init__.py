"""The page: ask in a browser, watch the route, and check the answer against its sources."""
