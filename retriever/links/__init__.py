"""The link graph as objectives see it: sentences, anchors, dual links and co-mentions."""
