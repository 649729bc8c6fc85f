"""Training of re-rankers, on the pieces of `retriever.training`: what `reranker.finetune` puts together."""
