"""The OpenAPI document, made from the table of endpoints."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from typing import Any

from devcluster.core.records import ErrorBody
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from .endpoints import ENDPOINTS, Endpoint

_REF = "#/components/schemas/{model}"


@cache
def document(base: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of an interface at ``base``."""
    schemas: dict[str, Any] = models_json_schema([(ErrorBody, "serialization")], ref_template=_REF)[
        1
    ].get("$defs", {})
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dev Cluster", "version": version("devcluster")},
        "servers": [{"url": base.rstrip("/")}],
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "'token TOKEN', a JupyterHub token with a scope "
                    "custom:devcluster:use or custom:devcluster:admin",
                }
            },
        },
        "paths": paths,
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    where = [(name, "path") for name in re.findall(r"{(\w+)}", endpoint.path)]
    where += [(name, "query") for name in endpoint.query]
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": [
            {
                "name": name,
                "in": place,
                "required": place == "path",
                "schema": {"type": "string" if place == "path" else "number"},
            }
            for name, place in where
        ],
        "responses": {
            "200": _content(endpoint.returns, schemas, "serialization", "The answer."),
            "default": {
                "description": "What is wrong, and what is allowed.",
                "content": {
                    "application/json": {"schema": {"$ref": _REF.format(model="ErrorBody")}}
                },
            },
        },
    }
    if endpoint.who != "all":
        operation["security"] = [{"token": []}]
    if endpoint.body is not None:
        operation["requestBody"] = {
            **_content(endpoint.body, schemas, "validation", "The request."),
            "required": True,
        }
    return operation


def _content(
    kind: Any, schemas: dict[str, Any], mode: JsonSchemaMode, description: str
) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema(ref_template=_REF, mode=mode)
    schemas.update(schema.pop("$defs", {}))
    return {"description": description, "content": {"application/json": {"schema": schema}}}
