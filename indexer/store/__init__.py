"""On-disk formats: manifests, Arrow tables, ids."""
