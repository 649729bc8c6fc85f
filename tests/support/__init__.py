"""Shared by tests of several packages."""
