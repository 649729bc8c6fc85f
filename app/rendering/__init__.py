"""HTML, addresses and state of the pages; no page logic."""
