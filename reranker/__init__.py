"""From a ranking to a better one: cross-encoders that read query and passage together."""
