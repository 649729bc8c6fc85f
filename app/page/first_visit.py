"""What a first visit needs, made ready in the background as soon as the server has started."""

from __future__ import annotations

import importlib
from contextlib import suppress

from linkseek.app.background.services import SERVICES
from linkseek.app.page.context import AppOptions
from linkseek.app.rendering.html_templates import compile_templates
from linkseek.indexer.program.errors import LinkseekError


def prepare(options: AppOptions) -> None:
    """Open the index and the pipelines of a first visit; load the start page and the templates."""
    with suppress(LinkseekError):  # which the page shows
        service = SERVICES.open(options.index.resolve(), options.pipelines_file, options.results)
        if options.simple:
            service.pipelines.warm([service.pipelines.recommended])
    importlib.import_module("linkseek.app.page." + ("simple" if options.simple else "search") + "_page")
    compile_templates()
