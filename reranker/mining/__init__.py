"""Contrasts for pre-training cross-encoders: mining and their records."""
