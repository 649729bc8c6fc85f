"""Background jobs: evaluations and builds started from the pages, in processes of their own."""
