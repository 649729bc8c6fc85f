"""What tests of the laboratory share with those of the application."""

from tests.app.conftest import built_index, make_pipelines

__all__ = ["built_index", "make_pipelines"]
