"""Training of bi-encoders and masked language models, and the loop that all trainings share."""
