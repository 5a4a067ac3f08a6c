"""A fetch as a whole: home, then capture, in a thread that a called-off request ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import quote

from devcluster.core.records import Fetch, FetchReport

from .homes.folders import Folders
from .homes.transfer import HomeFetch, HomeResult, Source, fetch_files


async def fetch(
    folders: Folders, token: str, request: Fetch, stream_point: Callable[[], None]
) -> FetchReport:
    """Pull what a request names; everything is verified before it answers."""
    source = Source(request.source, token)
    task = asyncio.ensure_future(asyncio.to_thread(_fetch, folders, source, request, stream_point))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        source.stop()
        await asyncio.gather(task, return_exceptions=True)  # nobody may change the home after us
        raise
    finally:
        source.close()


def _fetch(
    folders: Folders, source: Source, request: Fetch, stream_point: Callable[[], None]
) -> FetchReport:
    began = time.monotonic()
    workspace = request.workspace
    home, capture_bytes = HomeResult(), 0
    if request.home:
        with folders.lock(workspace):
            home = HomeFetch(
                folders.home(workspace, make=True),
                folders.staging,
                folders.cache(workspace),
                source,
                workspace,
                stream_point if request.capture is None else lambda: None,
            ).run(final=request.capture is not None)
    if request.capture is not None:
        base = f"/v1/captures/{quote(workspace, safe='')}/{quote(request.capture, safe='')}"
        folder = folders.capture(workspace, request.capture)
        capture_bytes = fetch_files(source, base, folder, stream_point)
    return FetchReport(
        home_bytes=home.bytes,
        home_files=home.files,
        home_deleted=home.deleted,
        capture_bytes=capture_bytes,
        seconds=time.monotonic() - began,
    )
