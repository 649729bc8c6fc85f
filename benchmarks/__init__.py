"""Speed and quality figures: one script each, with their last results."""
