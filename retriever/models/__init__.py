"""Encoders: where models come from, how they are opened, on which engine they run."""
