"""MediaWiki's exports: pages, titles, redirects."""
