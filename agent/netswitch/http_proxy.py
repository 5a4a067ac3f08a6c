"""HTTP, streamed both ways as it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

from aiohttp import ClientError, ClientResponse, ClientSession, hdrs, web
from aiohttp.http import HttpVersion11
from devcluster.core.records import RouteMode
from yarl import URL

from .admission import Admission
from .gate import Exchange, Gate
from .headers import for_client, for_upstream, is_foreign
from .limits import Limits
from .poll_cache import CachedAnswer, Key, is_poll, key

log = logging.getLogger("devcluster.netswitch")

#: What a cached answer does not repeat: it is about one answer, or set anew.
_ONCE = frozenset({"set-cookie", "content-length", "date"})


class _Passage:
    """How far an exchange has come."""

    answer: web.StreamResponse | None = None

    @property
    def begun(self) -> bool:
        """Whether the client has got the beginning of an answer."""
        return self.answer is not None and self.answer.prepared


class HttpProxy:
    """Passes requests on to the server of their workspace."""

    def __init__(
        self,
        admission: Admission,
        session: ClientSession,
        limits: Limits,
        polls: Collection[str],
    ) -> None:
        self._admission = admission
        self._session = session
        self._limits = limits
        self._polls = frozenset(polls)

    async def handle(self, request: web.BaseRequest, target: str) -> web.StreamResponse:
        """Answer one request.

        Raises
        ------
        Refused
            If there is no server for it, or none that answers.
        """
        cached = await self._from_cache(request, target)
        while cached is None:
            gate = await self._admission.admit(target)
            exchange = gate.enter(request.method, target)
            passage = _Passage()
            # A task of its own: a request that changes something is on its way until the
            # server has answered it, even if the browser has gone, and parking must see it.
            passing = asyncio.create_task(self._pass(request, gate, exchange, passage))
            passing.add_done_callback(partial(_leave, gate, exchange))
            exchange.cut = passing.cancel
            try:
                await asyncio.wait({passing})
            except asyncio.CancelledError:
                if exchange.safe:
                    passing.cancel()
                raise
            failure = None if passing.cancelled() else passing.exception()
            if failure is None and not passing.cancelled():
                return passing.result()
            if passage.begun and passage.answer is not None:
                # The beginning is told and the end is lost: break off, so that nobody
                # takes a part for the whole.
                if request.transport is not None:
                    request.transport.abort()
                return passage.answer
            if exchange.was_cut and exchange.safe and not request.body_exists:
                continue  # nothing was told yet: ask the new server
            if failure is not None and not isinstance(failure, (ClientError, OSError, ValueError)):
                raise failure
            log.info("%s %s: the server is lost: %s", request.method, target, failure)
            raise self._admission.lost(gate, target)
        return cached

    async def _pass(
        self, request: web.BaseRequest, gate: Gate, exchange: Exchange, passage: _Passage
    ) -> web.StreamResponse:
        route, lease = exchange.route, exchange.route.lease or ""
        cache_as = self._cache_key(request, gate, exchange.target)
        generation = gate.cache.generation
        headers = for_upstream(request.headers, lease)
        if not request.body_exists:
            headers.popall(hdrs.CONTENT_LENGTH, None)
        elif request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await _say_continue(request)
        async with self._session.request(
            request.method,
            URL(f"{(route.backend or '').rstrip('/')}{exchange.target}", encoded=True),
            headers=headers,
            data=request.content if request.body_exists else None,
            allow_redirects=False,
        ) as upstream:
            if is_foreign(upstream.status, upstream.headers, lease):
                raise self._admission.lost(gate, exchange.target)
            answer = passage.answer = web.StreamResponse(
                status=upstream.status,
                reason=upstream.reason,
                headers=for_client(upstream.headers),
            )
            await answer.prepare(request)
            copy = bytearray()
            async for chunk in upstream.content.iter_any():
                await answer.write(chunk)
                if cache_as is not None and len(copy) <= self._limits.cache_body_bytes:
                    copy += chunk
            await answer.write_eof()
        if cache_as is not None:
            self._remember(gate, cache_as, generation, upstream, bytes(copy))
        return answer

    # --- polls ------------------------------------------------------------------------

    async def _from_cache(self, request: web.BaseRequest, target: str) -> web.StreamResponse | None:
        gate = await self._admission.gate(target)
        if gate is None or gate.route.mode is not RouteMode.parked:
            return None
        cache_as = self._cache_key(request, gate, target)
        answer = gate.cache.get(cache_as) if cache_as is not None else None
        if answer is None:
            return None
        return web.Response(body=answer.body, headers=answer.headers)

    def _cache_key(self, request: web.BaseRequest, gate: Gate, target: str) -> Key | None:
        if is_poll(request.method, target, gate.route.prefix, self._polls):
            return key(target, request.headers)
        return None

    def _remember(
        self, gate: Gate, cache_as: Key, generation: int, upstream: ClientResponse, body: bytes
    ) -> None:
        known = gate.cache.get(cache_as)
        if upstream.status == 200 and len(body) <= self._limits.cache_body_bytes:
            kept = for_client(upstream.headers)
            pairs = tuple((n, v) for n, v in kept.items() if n.lower() not in _ONCE)
            gate.cache.put(cache_as, CachedAnswer(pairs, body), generation)
        elif (
            upstream.status != 304
            or known is None
            or (("ETag", upstream.headers.get("ETag", "")) not in known.headers)
        ):
            gate.cache.drop(cache_as)


def _leave(gate: Gate, exchange: Exchange, passing: asyncio.Task[web.StreamResponse]) -> None:
    gate.leave(exchange)
    if not passing.cancelled():
        passing.exception()  # looked at, even where the client is gone and nobody asks


async def _say_continue(request: web.BaseRequest) -> None:
    """Ask for the body that a client keeps back, as aiohttp's own applications do."""
    if request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
