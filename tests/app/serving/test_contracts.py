"""Clients as their projects have them: what each sends, and what each reads of the answer."""

from __future__ import annotations
