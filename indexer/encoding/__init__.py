"""Passages to vectors: batches, shards, resuming."""
