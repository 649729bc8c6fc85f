"""Training pairs from the link graph: topology, mining, pairs and labels."""
