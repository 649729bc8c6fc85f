"""Cross-encoders: bases, heads and scoring."""
