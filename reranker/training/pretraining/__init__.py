"""Pre-training of cross-encoders, on the pieces of `reranker.training`: of `reranker.pretrain`."""
