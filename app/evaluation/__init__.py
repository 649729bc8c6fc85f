"""Batch evaluation: answers in passages, measures, and the runner that joins them."""
