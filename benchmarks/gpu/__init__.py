"""Benchmarks for GPUs: one script each, and `python -m benchmarks.gpu` for all of them in order of worth."""
