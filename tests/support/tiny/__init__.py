"""Corpora, graphs, models, indexes and trainings of a few words."""
