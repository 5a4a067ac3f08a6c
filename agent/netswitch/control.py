"""The manager's side: setting and telling routes, for bearers of the cluster token."""

from __future__ import annotations

import hmac
import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from devcluster.core.errors import BadRequest, DevClusterError, Forbidden, NotFound
from devcluster.core.records import Route
from pydantic import ValidationError

from .admission import Admission
from .switchboard import Switchboard

log = logging.getLogger("devcluster.netswitch")

_HEALTH = "/v1/health"


def control_app(board: Switchboard, admission: Admission, token: str) -> web.Application:
    """Build the application of the control port; ``client`` lists what it answers."""
    control = _Control(board, admission)
    app = web.Application(middlewares=[_speak_errors, _guard(token)])
    app.router.add_put("/v1/routes/{name}", control.put_route)
    app.router.add_get("/v1/routes", control.list_routes)
    app.router.add_get(_HEALTH, control.health)
    return app


class _Control:
    def __init__(self, board: Switchboard, admission: Admission) -> None:
        self._board = board
        self._admission = admission

    async def put_route(self, request: web.Request) -> web.Response:
        try:
            route = Route.model_validate_json(await request.read())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "body"
            raise BadRequest(f"The route is malformed at {where}: {first['msg']}.") from error
        present = await self._board.apply(request.match_info["name"], route)
        log.info("%s is %s (revision %d)", route.workspace, present.mode, present.revision)
        return web.json_response(text=present.model_dump_json())

    async def list_routes(self, request: web.Request) -> web.Response:
        texts = ",".join(route.model_dump_json() for route in self._board.routes)
        return web.json_response(text=f"[{texts}]")

    async def health(self, request: web.Request) -> web.Response:
        gates = list(self._board.gates)
        return web.json_response(
            {
                "loaded": self._board.loaded.is_set(),
                "routes": len(gates),
                "websockets": sum(len(gate.links) for gate in gates),
                "requests": sum(gate.under_way for gate in gates),
                "held": self._admission.waiting + sum(gate.held for gate in gates),
            }
        )


def _guard(token: str) -> Middleware:
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.path != _HEALTH and not hmac.compare_digest(given, expected):
            raise Forbidden("The Net Switch's control port needs the cluster's bearer token.")
        return await handler(request)

    return guard


@web.middleware
async def _speak_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except DevClusterError as error:
        return web.json_response(error.to_json(), status=error.status)
    except web.HTTPNotFound:
        unknown = NotFound(f"There is no {request.path} here. Allowed: /v1/routes, {_HEALTH}.")
        return web.json_response(unknown.to_json(), status=unknown.status)
    except web.HTTPException as other:
        wrong = BadRequest(f"{request.method} {request.path}: {other.reason}.")
        return web.json_response(wrong.to_json(), status=other.status)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        defect = DevClusterError("The Net Switch has a defect; its log says where.")
        return web.json_response(defect.to_json(), status=defect.status)
