"""Readers: one file a source format, and what they share."""
