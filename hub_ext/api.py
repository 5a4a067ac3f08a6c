"""HTTP: parse, authorise, write the wish, answer."""

from __future__ import annotations

import json
import logging
import re
from typing import Any
from urllib.parse import unquote

from devcluster.core.errors import BadRequest, DevClusterError, NotFound
from devcluster.core.names import DEFAULT, workspace_id
from pydantic import TypeAdapter, ValidationError
from tornado.web import Application, HTTPError, RequestHandler

from .auth import Caller, Gatekeeper
from .endpoints import ENDPOINTS, Endpoint, Request
from .openapi import document
from .page import page_routes
from .service import Service

log = logging.getLogger("devcluster.manager")

#: The longest body of a request, in bytes; the largest is a host's report.
_LONGEST_BODY = 4 * 2**20


class _JsonHandler(RequestHandler):  # type: ignore[misc]
    """Answers with JSON, errors as well."""

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")

    def refuse(self, error: DevClusterError) -> None:
        self.set_status(error.status)
        self.finish(json.dumps(error.to_json()))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = DevClusterError("Something unexpected happened; the manager's log has more.")
        reason = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(reason, HTTPError) and status_code < 500:
            error = BadRequest(reason.log_message or f"HTTP {status_code}: {self._reason}.")
        self.finish(json.dumps(error.to_json()))


class EndpointHandler(_JsonHandler):
    """Serves the endpoints that share one path."""

    def initialize(
        self, endpoints: dict[str, Endpoint], service: Service, gate: Gatekeeper
    ) -> None:
        """Take what the route gives."""
        self._endpoints, self._service, self._gate = endpoints, service, gate

    async def get(self, **path: str) -> None:
        """Serve a question."""
        await self._serve("GET", path)

    async def post(self, **path: str) -> None:
        """Serve a wish."""
        await self._serve("POST", path)

    async def _serve(self, method: str, path: dict[str, str]) -> None:
        try:
            endpoint = self._endpoints.get(method)
            if endpoint is None:
                self.set_header("Allow", ", ".join(self._endpoints))
                raise _NotAllowed(
                    f"{method} is not allowed here, only {', '.join(self._endpoints)}."
                )
            request = await self._authorised(endpoint, {k: unquote(v) for k, v in path.items()})
            value = await endpoint.act(self._service, request)
            self.finish(TypeAdapter(endpoint.returns).dump_json(value))
        except DevClusterError as error:
            if error.status >= 500:
                log.warning("%s %s: %s", method, self.request.path, error.message)
            self.refuse(error)

    async def _authorised(self, endpoint: Endpoint, path: dict[str, str]) -> Request:
        """Find out who asks and whether they may, before the body is even looked at."""
        query = {
            k: v[-1].decode("utf-8", "replace") for k, v in self.request.query_arguments.items()
        }
        if endpoint.who == "all":
            return Request(Caller("nobody"), path, query)
        caller = await self._gate.identify(self.request.headers.get("Authorization"))
        if "user" in path:
            server = "" if path["name"] == DEFAULT else path["name"]
            path["workspace"] = workspace_id(path["user"], server)
        if endpoint.who == "hub":
            caller.need_hub()
        elif endpoint.who == "part":
            caller.need_part()
        elif endpoint.who == "workspace":
            caller.need_workspace(path["workspace"])
        return Request(caller, path, query, _parse(endpoint, self.request.body))


class _NotAllowed(DevClusterError):
    code, status = "method-not-allowed", 405


class DocumentHandler(_JsonHandler):
    """Serves the OpenAPI document."""

    def initialize(self, base: str) -> None:
        """Take what the route gives."""
        self._base = base

    def get(self) -> None:
        """Serve it."""
        self.finish(json.dumps(document(self._base)))


class NothingHandler(_JsonHandler):
    """Answers where there is nothing."""

    def prepare(self) -> None:
        """Say so."""
        self.refuse(NotFound(f"There is nothing at {self.request.path}."))


def _parse(endpoint: Endpoint, body: bytes) -> Any:
    """Return a body as the record that the endpoint wants; None where it wants none.

    Raises
    ------
    BadRequest
        With one sentence that names the field and what is allowed.
    """
    if endpoint.body is None:
        return None
    try:
        content = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The request's body is not JSON: {error}.") from error
    try:
        return endpoint.body.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        allowed = f" Allowed fields: {', '.join(endpoint.body.model_fields)}."
        raise BadRequest(f"{field or 'The body'}: {first['msg']}.{allowed}", field=field) from error


def _pattern(base: str, path: str) -> str:
    return re.escape(base.rstrip("/")) + re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path) + "/?"


def build_app(service: Service, gate: Gatekeeper, base: str, cookie_secret: bytes) -> Application:
    """Return the web application under ``base``."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes: list[Any] = [
        (
            _pattern(base, path),
            EndpointHandler,
            {"endpoints": endpoints, "service": service, "gate": gate},
        )
        for path, endpoints in by_path.items()
    ]
    routes.append((_pattern(base, "/api/openapi.json"), DocumentHandler, {"base": base}))
    routes += page_routes(base, service, gate)
    return Application(
        routes,
        default_handler_class=NothingHandler,
        cookie_secret=cookie_secret,
        log_function=_log_request,
        max_body_size=_LONGEST_BODY,
    )


def _log_request(handler: RequestHandler) -> None:
    # The path alone: queries and headers hold what is nobody's business.
    log.debug("%d %s %s", handler.get_status(), handler.request.method, handler.request.path)
