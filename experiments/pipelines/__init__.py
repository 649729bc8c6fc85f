"""Kinds of pipelines: hops by a rule, and adaptive re-ranking. docs/results/ has their figures."""
