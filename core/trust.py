"""What a client of our own trusts: the system's authorities for https, nothing for http."""

from __future__ import annotations

import functools
import ssl


@functools.cache
def trust(scheme: str) -> ssl.SSLContext:
    """Return the TLS settings for addresses of a scheme, made once a process.

    Reading the system's authorities takes some 50 ms, too long to be done for each
    client, and needless inside a cluster that speaks plain http. An ``http`` client that
    met ``https`` all the same would trust nobody, and fail.
    """
    if scheme == "https":
        return ssl.create_default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
