"""Shared by all packages: errors, options, progress, processes."""
