"""Test sets of the papers whose files have formats of their own: LETOR, BioASQ and HotpotQA."""

from experiments.testsets import json_questions, letor  # noqa: F401 - their kinds of sources
