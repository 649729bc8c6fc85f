"""Learned rankings: trees over named features, for fusions and for hops."""
