"""The OpenAPI 3.1 document of the interface, made from the declarations."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ganeti import constants, ht, opcodes
from ganeti.rapi.declared import JSON, SEGMENTS, Argument, ArgumentKind, BodyUse, Etag, Job, Method, Resource
from ganeti.rapi.requests import bodies, preconditions, statuses
from ganeti.rapi.requests.call import Call, Caller
from ganeti.rapi.resources.common import TJob

_OUTSIDE: Final = "default"
_JOB_EXAMPLE: Final = 4711
# Where a body holds only what the body of every job may.
_BODY_EXAMPLE: Final = {"comment": "ticket 4711"}
_SEGMENT_DOCS: Final = {
    "name": "The object's name, or its UUID; the first part of the name of a node or an instance is enough.",
    "uuid": "The rule's UUID.",
    "resource": "The kind of objects.",
    "job": "The number of the job.",
    "index": "The number of the disk, from 0.",
}
_DESCRIPTION: Final = """\
The interface of Ganeti's remote API, version 2.  A request that makes a job answers with the number of the job at once;
follow it at `/2/jobs/{job}`, `/2/jobs/{job}/wait` or `/2/events`.  A job that fails is not an error of HTTP: the error is in
the job.

Where a request can depend on a version, its operation has the headers `If-Match` or `If-None-Match`.  What every request may
be answered with that belongs to no operation, or cannot be read, is the answer `default`."""
_IF_MATCH: Final = (
    "The versions, as an `ETag` shows them, of which one must be that of what is there; else the answer is 412."
)
_IF_NONE_MATCH: Final = (
    "The versions that the client has; if one of them is that of what is there, the answer is 304, without a body."
)
_ETAGS: Final = {"type": "string", "pattern": r'^(\*|(W/)?"[!#-~]*"(, ?(W/)?"[!#-~]*")*)$'}
_EXAMPLE_TAG: Final = '"d6a2f4b0-5c0e-4d1c-8a57-0b3f1f6f2c11-7"'
_HEADERS_OF: Final = {
    401: {"WWW-Authenticate": "What to log in with."},
    503: {"Retry-After": "After how many seconds it may be tried again; not with every 503."},
}
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
    by_path = {resource.path: resource for resource in resources}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ganeti remote API",
            "version": constants.RELEASE_VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "BSD-2-Clause", "identifier": "BSD-2-Clause"},
        },
        "servers": [{"url": "/"}],
        "paths": {resource.path: _Path(by_path, resource) for resource in by_path.values()},
        "components": {
            "schemas": {"Error": _TError.Schema()},
            "responses": {
                **{str(code): _Error(code, text) for code, text in statuses.ERRORS.items()},
                str(statuses.NOT_MODIFIED): _NotModified(),
                _OUTSIDE: _Outside(),
            },
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
    described = _ErrorAnswer(text, code, text)
    headers = _HEADERS_OF.get(code)
    return {**described, "headers": {name: _Header(doc) for name, doc in headers.items()}} if headers else described


def _ErrorAnswer(described: str, code: int, text: str) -> dict[str, Any]:
    """Describe an error's answer, with this one as the example."""
    example = {"code": code, "message": text, "explain": text}
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": described, "content": {JSON: {"schema": schema, "example": example}}}


def _Header(doc: str) -> dict[str, Any]:
    return {"description": doc, "schema": {"type": "string"}}


def _NotModified() -> dict[str, Any]:
    return {
        "description": "What is there has one of the versions of If-None-Match.",
        "headers": {"ETag": _VersionHeader("what is there")},
    }


def _VersionHeader(subject: str) -> dict[str, Any]:
    described = _Header(f"The version of {subject}.")
    return {**described, "example": _EXAMPLE_TAG}


def _Outside() -> dict[str, Any]:
    """Describe what is answered to requests that belong to no operation, once for all."""
    lines = [f"* {code}: {text}" for code, text in statuses.OUTSIDE.items()]
    text = "\n".join(["The request is none of those that this document describes:", "", *lines])
    return _ErrorAnswer(text, 501, statuses.OUTSIDE[501])


def _Path(by_path: Mapping[str, Resource], resource: Resource) -> dict[str, Any]:
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
    described.update({verb.lower(): _Operation(by_path, resource, verb) for verb in resource.methods})
    return described


def _Operation(by_path: Mapping[str, Resource], resource: Resource, verb: str) -> dict[str, Any]:
    method = resource.methods[verb]
    others = [*map(str, statuses.OfOperation(by_path, resource, verb)), _OUTSIDE]
    roles = f"A token needs the role `{method.role.name.lower()}`."
    operation: dict[str, Any] = {
        "operationId": f"{verb.lower()}_{resource.word}".rstrip("_/"),
        "summary": re.split(r"[.:;] ", method.doc)[0].rstrip("."),
        "description": f"{method.doc}\n\n{roles}",
        "tags": [_Area(resource.path)],
        "responses": {
            "200": _Answer(method),
            **{code: {"$ref": f"#/components/responses/{code}"} for code in others},
        },
    }
    if resource.Access(verb):
        operation["security"] = [{"password": []}, {"token": []}]
    else:
        operation["security"] = [{}, {"password": []}, {"token": []}]
    parameters = [*map(_Argument, method.arguments), *_RequestHeaders(by_path, resource, verb)]
    if parameters:
        operation["parameters"] = parameters
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
    media["example"] = method.answer_example
    described = {"description": "The answer.", "content": {method.media: media}}
    if method.etag is Etag.NONE:
        return described
    subject = "the object" if method.etag is Etag.OBJECT else "the answer"
    return {**described, "headers": {"ETag": _VersionHeader(subject)}}


def _RequestHeaders(by_path: Mapping[str, Resource], resource: Resource, verb: str) -> Iterator[dict[str, Any]]:
    method = resource.methods[verb]
    conditions = [("If-Match", _IF_MATCH)] if preconditions.TakesIfMatch(by_path, resource, verb) else []
    conditions += [("If-None-Match", _IF_NONE_MATCH)] if method.etag is Etag.WHOLE else []
    for name, doc in conditions:
        yield {"name": name, "in": "header", "description": doc, "schema": _ETAGS, "example": _EXAMPLE_TAG}
    for header in method.headers:
        yield {"name": header.name, "in": "header", "description": _Sentence(header.doc), "schema": {"type": "string"}}


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
    if not statuses.TakesBody(verb, method):
        return None
    schema = BodySchema(resource, verb)
    media = {"schema": schema, "example": _BODY_EXAMPLE if method.example is None else method.example}
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
