"""The OpenAPI 3.1 document of the interface, made from the declarations."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, Final

from ganeti import constants, ht, opcodes
from ganeti.rapi import bodies
from ganeti.rapi.call import Call, Caller
from ganeti.rapi.declared import SEGMENTS, Argument, ArgumentKind, BodyUse, Job, Method, Resource
from ganeti.rapi.resources.common import TJob

JSON: Final = "application/json"
_JOB_EXAMPLE: Final = 4711
_SEGMENT_DOCS: Final = {
    "name": "The object's name, or its UUID; the first part of the name of a node or an instance is enough.",
    "uuid": "The rule's UUID.",
    "resource": "The kind of objects.",
    "job": "The number of the job.",
    "index": "The number of the disk, from 0.",
}
ERRORS: Final = {
    400: "The request is malformed: an argument, the body, or one of its parameters; the message names it.",
    401: "Wrong or missing credentials.",
    403: "This user or token may not do this.",
    404: "There is no such path or object.",
    406: "The representation that Accept asks for does not exist.",
    409: "The object is not in a state that allows this.",
    412: "The object is not in the version that If-Match demands.",
    413: "The body is too large.",
    415: f"The content type of the body is not exactly {JSON}.",
    500: "An unexpected error; the daemon's log says more.",
    501: "The path does not have this method.",
    502: "The master daemon cannot be reached, or this node is not the master.",
    503: "Not possible at the moment, such as the console of a stopped instance or a job for a drained queue.  With"
    " `Retry-After`: too many calls to the master daemon are under way; some places are kept for clients that log in,"
    " and for other users and tokens.",
    504: "The master daemon did not answer in time.",
}
_DESCRIPTION: Final = """\
The interface of Ganeti's remote API, version 2.  A request that makes a job answers with the number of the job at once;
follow it at `/2/jobs/{job}`, `/2/jobs/{job}/wait` or `/2/events`.  A job that fails is no error of HTTP: the error is in
the job.

Single objects and lists have an `ETag`; `If-Match` binds a change to a version, and `If-None-Match` is answered with 304
where no live value would be hidden."""
_TError: Final = ht.TStrictDict({"code": ht.TInt, "message": ht.TString, "explain": ht.TString}, {})


class _NoMaster:
    async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
        raise AssertionError("a description asks nothing")


def FixedNames(resource: Resource, verb: str) -> frozenset[str]:
    """Return the parameters of a job that its body may not hold."""
    method = resource.methods[verb]
    job = method.action
    if not isinstance(job, Job):
        return frozenset()
    # Names do not depend on values, so those of any request will do.
    arguments = {a.name: [] if a.kind is ArgumentKind.TEXTS else a.default for a in method.arguments}
    call = Call(
        resource, method, verb, Caller(None, ""), _NoMaster(), dict.fromkeys(SEGMENTS, "1"), arguments, method.example
    )
    fixed = frozenset([*job.static(call), *job.static_names, *job.forbidden, "reason"])
    return fixed - bodies.OF_ALL_JOBS if method.body is BodyUse.IGNORED else fixed


def BodyParameters(resource: Resource, verb: str) -> dict[str, opcodes.ParamSpec]:
    """Return the parameters that the body of a job may hold."""
    job = resource.methods[verb].action
    assert isinstance(job, Job)
    fixed = FixedNames(resource, verb)
    return {name: spec for name, spec in job.opcode.OP_PARAMS.items() if name not in fixed}


@functools.cache
def Document() -> dict[str, Any]:
    """Return the document of all resources."""
    from ganeti.rapi.resources import RESOURCES

    return Describe(RESOURCES)


def Describe(resources: Iterable[Resource]) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ganeti remote API",
            "version": constants.RELEASE_VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "BSD-2-Clause", "identifier": "BSD-2-Clause"},
        },
        "servers": [{"url": "/"}],
        "paths": {resource.path: _Path(resource) for resource in resources},
        "components": {
            "schemas": {"Error": _TError.Schema()},
            "responses": {str(code): _Error(code, text) for code, text in ERRORS.items()},
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic", "description": "A user of the users file."},
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token: it has a role, and may be bound to instances with certain tags.",
                },
            },
        },
    }


def _Error(code: int, text: str) -> dict[str, Any]:
    example = {"code": code, "message": text, "explain": text}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {JSON: {"schema": schema, "example": example}}}


def _Path(resource: Resource) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", resource.path)
    described: dict[str, Any] = {"description": resource.doc}
    if names:
        described["parameters"] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": _SEGMENT_DOCS[name],
                "schema": {"type": "string", "pattern": f"^{SEGMENTS[name]}$"},
            }
            for name in names
        ]
    described.update({verb.lower(): _Operation(resource, verb) for verb in resource.methods})
    return described


def _Operation(resource: Resource, verb: str) -> dict[str, Any]:
    method = resource.methods[verb]
    roles = f"A token needs the role `{method.role.name.lower()}`."
    operation: dict[str, Any] = {
        "operationId": f"{verb.lower()}_{resource.word}".rstrip("_/"),
        "summary": re.split(r"[.:;] ", method.doc)[0].rstrip("."),
        "description": f"{method.doc}\n\n{roles}",
        "tags": [_Area(resource.path)],
        "responses": {
            "200": _Answer(method),
            **{str(code): {"$ref": f"#/components/responses/{code}"} for code in ERRORS},
        },
    }
    if resource.Access(verb):
        operation["security"] = [{"password": []}, {"token": []}]
    else:
        operation["security"] = [{}, {"password": []}, {"token": []}]
    if method.arguments:
        operation["parameters"] = [_Argument(argument) for argument in method.arguments]
    body = _Body(resource, verb)
    if body is not None:
        operation["requestBody"] = body
    return operation


def _Area(path: str) -> str:
    areas = ("nodes", "instances", "groups", "networks", "jobs", "query", "filters")
    return next((area for area in areas if path.startswith(f"/2/{area}")), "cluster")


def _Answer(method: Method) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": method.answer.Schema() if method.media == JSON else {"type": "string"}}
    if method.answer is TJob:
        return {"description": "The number of the job.", "content": {JSON: {**media, "example": _JOB_EXAMPLE}}}
    return {"description": "The answer.", "content": {method.media: media}}


def _Argument(argument: Argument) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    more: dict[str, Any] = {}
    if argument.kind is ArgumentKind.FLAG:
        schema = {"type": "integer", "enum": [0, 1]}
        if argument.default is not None:
            schema["default"] = int(argument.default)
    elif argument.kind is ArgumentKind.TEXTS:
        schema, more = {"type": "array", "items": {"type": "string"}}, {"style": "form", "explode": True}
    elif argument.kind is ArgumentKind.FIELDS:
        schema, more = {"type": "array", "items": {"type": "string"}}, {"style": "form", "explode": False}
    described = {"name": argument.name, "in": "query", "description": _Sentence(argument.doc), "schema": schema, **more}
    return {**described, "required": True} if argument.required else described


def _Sentence(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text[0].upper()}{text[1:]}."


# --- bodies -----------------------------------------------------------------------------------------------------------


def _Body(resource: Resource, verb: str) -> dict[str, Any] | None:
    method = resource.methods[verb]
    if method.body is BodyUse.IGNORED and (verb == "GET" or not isinstance(method.action, Job)):
        return None
    schema = BodySchema(resource, verb)
    media: dict[str, Any] = {"schema": schema}
    if method.example is not None:
        media["example"] = method.example
    return {"required": method.body in (BodyUse.REQUIRED, BodyUse.ANY), "content": {JSON: media}}


def BodySchema(resource: Resource, verb: str) -> dict[str, Any]:
    """Return the schema of a method's body."""
    method = resource.methods[verb]
    own = method.body_type.Schema() if method.body_type is not None else {}
    job = method.action
    if not isinstance(job, Job) or method.body is BodyUse.ANY:
        return own
    specs = BodyParameters(resource, verb)
    if method.body is BodyUse.IGNORED:
        common = {name: _Parameter(spec) for name, spec in specs.items() if name in bodies.OF_ALL_JOBS}
        return {"type": "object", "properties": common}
    alias = {target: name for name, target in job.aliases.items()}
    properties = {name: _Parameter(spec) for name, spec in specs.items()}
    properties.update(
        {
            name: {**properties[target], "description": f"The same as `{target}`."}
            for name, target in job.aliases.items()
        }
    )
    properties.update(own.get("properties", {}))
    required = [name for name, spec in specs.items() if spec.required]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [*own.get("required", []), *(name for name in required if name not in alias)],
        "additionalProperties": False,
    }
    either = [{"oneOf": [{"required": [name]}, {"required": [alias[name]]}]} for name in required if name in alias]
    return {**schema, "allOf": either} if either else schema


def _Parameter(spec: opcodes.ParamSpec) -> dict[str, Any]:
    schema = {**spec.type.Schema(), "description": _Sentence(spec.doc)}
    if spec.private:
        schema["writeOnly"] = True
    return schema if spec.required else {**schema, "default": spec.default}
