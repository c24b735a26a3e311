"""face: views over HTTP: one function per operation."""

from __future__ import annotations

from catalog.rest import answers
from catalog.rest.service import Service
from server import asgi, calls


async def list_views(service: Service, call: calls.Call) -> asgi.Response:
    """Answer with the views of a namespace. No operation makes one yet, so there are none."""
    return await answers.answer_names(service, call, "view")
