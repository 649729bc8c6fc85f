"""The small index and its encoder, as the tests of the application have them."""

from tests.app.conftest import built_index, word_encoder

__all__ = ["built_index", "word_encoder"]
