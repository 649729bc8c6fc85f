"""Training of re-rankers, on the loop of `retriever.training`: fine-tuning and pre-training."""
