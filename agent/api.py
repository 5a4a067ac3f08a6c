"""The agent's HTTP interface: parse, authorise, pass on, answer. Its calls are in ``client.py``."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from devcluster.core import faults
from devcluster.core.errors import BadRequest, DevClusterError, Forbidden, NotFound, StepFailed
from devcluster.core.records import Fetch, HostReport, LeaseRequest, Record, WarmRequest
from pydantic import BaseModel, ValidationError

from . import server_client
from .homes.folders import Folders
from .homes.frames import send
from .homes.manifest import scan, to_bytes, to_wire
from .leases import Leases

Body = TypeVar("Body", bound=BaseModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: A manifest of a million names asks for files with a body of about this size.
MAX_BODY = 256 << 20


class FilesRequest(Record):
    """The files whose content is asked for; names as in the manifest."""

    paths: list[str]


class Api:
    """Answers the manager and other agents."""

    def __init__(
        self,
        host: str,
        token: str,
        leases: Leases,
        folders: Folders,
        report: Callable[[], HostReport],
        log: logging.Logger,
    ) -> None:
        self._host, self._expected = host, f"Bearer {token}".encode()
        self._leases, self._folders, self._report, self._log = leases, folders, report, log

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._guard], client_max_size=MAX_BODY)
        lease = "/v1/leases/{lease}"
        home, capture = "/v1/homes/{workspace}", "/v1/captures/{workspace}/{capture}"
        app.add_routes(
            [
                web.get("/v1/host", self._get_host),
                web.put(lease, self._ensure),
                web.get(lease, self._get_lease),
                web.delete(lease, self._remove),
                web.post(f"{lease}/warm", self._warm),
                web.post(f"{lease}/plan", self._plan),
                web.get(f"{lease}/idle", self._idle),
                web.post(f"{lease}/interrupt", self._interrupt),
                web.put(f"{lease}/captures/{{capture}}", self._capture),
                web.post(f"{lease}/thaw", self._thaw),
                web.post(f"{lease}/fetch", self._fetch),
                web.post(f"{lease}/restore/{{capture}}", self._restore),
                web.get(f"{home}/manifest", self._manifest),
                web.post(f"{home}/files", self._files),
                web.get(capture, self._list_capture),
                web.delete(capture, self._drop_capture),
                web.get(f"{capture}/{{file:.+}}", self._capture_file),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who has the cluster's token, and turn what goes wrong into JSON."""
        try:
            given = request.headers.get("Authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, self._expected):
                refusal = Forbidden(
                    "This agent serves its own cluster only: send Authorization: Bearer with "
                    "the cluster's token (DEVCLUSTER_CLUSTER_TOKEN)."
                )
                refusal.status = 401
                raise refusal
            return await handler(request)
        except DevClusterError as error:
            problem = error
        except ValidationError as error:
            problem = BadRequest(_sentence(error))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            problem = DevClusterError(f"{request.method} {request.path}: {error.reason}.")
            problem.status = error.status
        except Exception:
            self._log.exception("%s %s failed", request.method, request.path)
            problem = DevClusterError(f"The agent on {self._host} failed; its log tells more.")
        return web.json_response(problem.to_json(), status=problem.status)

    # --- host and leases ----------------------------------------------------------------

    async def _get_host(self, _request: web.Request) -> web.Response:
        return _json(self._report())

    async def _ensure(self, request: web.Request) -> web.Response:
        body = await _body(request, LeaseRequest)
        if body.lease != _lease(request):
            raise BadRequest(
                f"The path names the lease {_lease(request)!r}, the body {body.lease!r}."
            )
        return _json(await self._leases.ensure(body))

    async def _get_lease(self, request: web.Request) -> web.Response:
        return _json(self._leases.report(_lease(request)))

    async def _remove(self, request: web.Request) -> web.Response:
        await self._leases.remove(_lease(request))
        return _done()

    async def _warm(self, request: web.Request) -> web.Response:
        body = await _body(request, WarmRequest)
        await self._leases.ask(_lease(request), server_client.warm(body.kernels))
        return _done()

    async def _plan(self, request: web.Request) -> web.Response:
        plan = await self._leases.ask(_lease(request), server_client.plan())
        return _json(plan)

    async def _idle(self, request: web.Request) -> web.Response:
        text = request.query.get("wait", "0")
        try:
            wait_s = float(text)
        except ValueError:
            wait_s = -1.0
        if not 0 <= wait_s <= 3600:
            raise BadRequest(f"wait is a number of seconds from 0 to 3600, not {text!r}.")
        idle = await self._leases.ask(_lease(request), server_client.idle(wait_s))
        return web.json_response(idle)

    async def _interrupt(self, request: web.Request) -> web.Response:
        await self._leases.ask(_lease(request), server_client.interrupt())
        return _done()

    async def _capture(self, request: web.Request) -> web.Response:
        capture = request.match_info["capture"]
        return _json(await self._leases.capture(_lease(request), capture))

    async def _thaw(self, request: web.Request) -> web.Response:
        await self._leases.thaw(_lease(request))
        return _done()

    async def _fetch(self, request: web.Request) -> web.Response:
        body = await _body(request, Fetch)
        return _json(await self._leases.fetch(_lease(request), body))

    async def _restore(self, request: web.Request) -> web.Response:
        capture = request.match_info["capture"]
        return _json(await self._leases.restore(_lease(request), capture))

    # --- what other agents pull --------------------------------------------------------------

    async def _manifest(self, request: web.Request) -> web.Response:
        workspace = request.match_info["workspace"]
        live = self._leases.is_live(workspace)
        return web.Response(
            body=await asyncio.to_thread(self._manifest_of, workspace, live),
            content_type="application/json",
        )

    def _manifest_of(self, workspace: str, live: bool) -> bytes:
        home, cache = self._home(workspace), self._folders.cache(workspace)
        with self._folders.lock(workspace):
            cache.begin()
            found = scan(str(home), cache, strict=not live)
            cache.finish()
        rows = to_wire(found.entries)
        return json.dumps({"live": live, "notes": found.notes, "entries": rows}).encode()

    async def _files(self, request: web.Request) -> web.StreamResponse:
        home = self._home(request.match_info["workspace"])
        body = await _body(request, FilesRequest)
        pieces = send(str(home), [to_bytes(path) for path in body.paths])
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(request)
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                faults.reach(f"agent.{self._host}.serve.stream")
                await response.write(piece)
        except (OSError, DevClusterError) as error:
            # Too late for a status: cutting the stream tells the target that it is not whole.
            self._log.error("Sending files of %s stopped: %s", home.name, error)
            _cut(request)
        finally:
            await asyncio.to_thread(_close, pieces)
        return response

    async def _list_capture(self, request: web.Request) -> web.Response:
        folder = self._capture_folder(request)
        return web.json_response(
            [
                {"file": str(path.relative_to(folder)), "size": path.stat().st_size}
                for path in sorted(folder.rglob("*"))
                if path.is_file() and not path.is_symlink()
            ]
        )

    async def _capture_file(self, request: web.Request) -> web.StreamResponse:
        folder = self._capture_folder(request)
        name = request.match_info["file"]
        parts = name.split("/")
        path = folder.joinpath(*parts)
        if any(part in ("", ".", "..") for part in parts) or not path.is_file():
            raise NotFound(f"The capture has no file {name!r}.")
        try:
            faults.reach(f"agent.{self._host}.serve.stream")
        except StepFailed:
            _cut(request)
        return web.FileResponse(path, chunk_size=1 << 20)

    async def _drop_capture(self, request: web.Request) -> web.Response:
        workspace, capture = request.match_info["workspace"], request.match_info["capture"]
        await self._leases.drop_capture(workspace, capture)
        return _done()

    def _home(self, workspace: str) -> Path:
        home = self._folders.home(workspace)
        if not home.is_dir():
            raise NotFound(f"The host {self._host} has no home of {workspace!r}.")
        return home

    def _capture_folder(self, request: web.Request) -> Path:
        workspace, capture = request.match_info["workspace"], request.match_info["capture"]
        folder = self._folders.capture(workspace, capture)
        if not folder.is_dir():
            raise NotFound(f"The host {self._host} has no capture {capture!r} of {workspace!r}.")
        return folder


def _lease(request: web.Request) -> str:
    return request.match_info["lease"]


async def _body(request: web.Request, kind: type[Body]) -> Body:
    return kind.model_validate_json(await request.read())


def _json(value: BaseModel) -> web.Response:
    return web.Response(text=value.model_dump_json(), content_type="application/json")


def _done() -> web.Response:
    return web.Response(status=204)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _close(pieces: Iterator[Any]) -> None:
    pieces.close()  # type: ignore[attr-defined]  # a generator: lets go of its files


def _sentence(error: ValidationError) -> str:
    problems = "; ".join(
        f"{'.'.join(map(str, one['loc'])) or 'the body'}: {one['msg']}"
        for one in error.errors(include_url=False, include_input=False)[:5]
    )
    return f"The request's body is not a valid {error.title}: {problems}."
