"""Search engines under the index: FAISS, exact search on GPUs, Lucene."""
