"""From text to a ranking: the bi-encoder and first-stage search."""
