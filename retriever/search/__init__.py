"""First-stage search: searchers, fusion, runs."""
