"""Pipelines by name: their tables, their kinds, how they are opened."""
