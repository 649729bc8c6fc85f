"""Readers: one file a source format, and their common base."""
