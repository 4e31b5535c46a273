"""Every edit of pyspider 0.3.10, one module for each area."""

from edits import (
    commands,
    crawled,
    databases,
    fetcher,
    hostile,
    language,
    listening,
    pages,
    processes,
    processor,
    queues,
    requests,
    scheduler,
    scripts,
    sqlite,
    urls,
    webdav,
    webui,
)
from edits.edit import Edit, Span

EDITS: tuple[Edit | Span, ...] = (
    *language.EDITS,
    *processes.EDITS,
    *sqlite.EDITS,
    *databases.EDITS,
    *queues.EDITS,
    *processor.EDITS,
    *fetcher.EDITS,
    *urls.EDITS,
    *hostile.EDITS,
    *scripts.EDITS,
    *requests.EDITS,
    *scheduler.EDITS,
    *webui.EDITS,
    *pages.EDITS,
    *crawled.EDITS,
    *listening.EDITS,
    *webdav.EDITS,
    *commands.EDITS,
)

REMOVED = (*databases.REMOVED, *pages.REMOVED)
