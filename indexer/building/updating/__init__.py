"""An index that changes: documents added, removed, mirrored from their corpus."""
