"""The losses of bi-encoders, and their exact gradients over large batches."""
