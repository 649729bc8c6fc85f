"""Training of the bi-encoder, on sentence-transformers' trainer: what `retriever.train` puts together."""
