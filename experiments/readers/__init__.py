"""Readers of the papers' own corpora."""
