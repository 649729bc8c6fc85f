"""Documents, links, passages, vectors and indexes: everything that is stored."""
