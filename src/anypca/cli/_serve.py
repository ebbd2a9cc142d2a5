"""``anypca serve``: a page on this machine where one drops a file; it answers the one who has its address only."""

from __future__ import annotations

import json
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from anypca._optional import optional
from anypca.cli._serve_jobs import Job, TooLarge, discard, look, pack, read_limited, receive, start, stop

with optional("anypca serve", "starlette and uvicorn", "serve"):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol

_COOKIE = "anypca"
#: Bytes of the largest document that asks for a fit: a word for each of many columns.
_MOST_JSON = 2**23
#: Seconds in which a new connection must send something, and for which the end waits for stalled uploads.
_PATIENCE = 10
#: Exceptions of readers on invalid files; the page shows the message.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)
#: No content from elsewhere, no frames of other sites, no address sent to other sites.
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass
class Service:
    """State of the server: address, secrets and uploaded tables."""

    host: str
    """Host and port, as in the Host header."""
    root: Path
    limit: int
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))
    """One-time token of the address."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    jobs: dict[str, Job] = field(default_factory=dict)

    def job(self, request: Request) -> Job:
        """The table of an address."""
        return self.jobs[request.path_params["job"]]

    def allows(self, request: Request) -> str | None:
        """The reason to refuse a request, or None."""
        if request.headers.get("host") != self.host:
            return "another host"  # a name that was made to point here
        if request.headers.get("origin", f"http://{self.host}") != f"http://{self.host}":
            return "another origin"
        if self.knows(request) or request.url.path == "/":
            return None
        return "no session: open the address that anypca serve printed"

    def knows(self, request: Request) -> bool:
        """Whether a request has the session."""
        return _equal(request.cookies.get(_COOKIE, ""), self.session)


def _equal(given: str, secret: str) -> bool:
    """Compare texts of any characters in constant time."""
    return secrets.compare_digest(given.encode(errors="replace"), secret.encode())


def make_app(service: Service) -> Starlette:
    """The application.

    Parameters
    ----------
    service : Service

    Returns
    -------
    starlette.applications.Starlette
    """

    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        reason = service.allows(request)
        response = JSONResponse({"error": reason}, 403) if reason else await answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        for job in service.jobs.values():
            await stop(job)

    return Starlette(
        routes=_routes(service),
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
        lifespan=lifespan,
    )


def _routes(service: Service) -> list[Route]:
    async def page(request: Request) -> Response:
        return _open(service, request)

    async def upload(request: Request) -> Response:
        return await _upload(service, request)

    async def fit(request: Request) -> Response:
        return await _fit(service.job(request), request)

    async def state(request: Request) -> Response:
        job = service.job(request)
        return JSONResponse({"state": job.state, "line": job.line})

    async def end(request: Request) -> Response:
        await stop(service.job(request))
        return await state(request)

    async def report(request: Request) -> Response:
        # Its scripts run in a sandbox and reach no other page.
        sandbox = {
            "Content-Security-Policy": "sandbox allow-scripts allow-downloads; frame-ancestors 'self'",
            "X-Frame-Options": "SAMEORIGIN",
        }
        return FileResponse(service.job(request).out / "report.html", headers=sandbox)

    async def files(request: Request) -> Response:
        content = await run_in_threadpool(pack, service.job(request))
        headers = {"Content-Disposition": "attachment; filename=anypca-results.zip"}
        return Response(content, media_type="application/zip", headers=headers)

    return [
        Route("/", page),
        Route("/tables", upload, methods=["POST"]),
        Route("/tables/{job}/fit", _known(service, fit), methods=["POST"]),
        Route("/tables/{job}/stop", _known(service, end), methods=["POST"]),
        Route("/tables/{job}", _known(service, state)),
        Route("/tables/{job}/report", _done(service, report)),
        Route("/tables/{job}/files", _done(service, files)),
    ]


Endpoint = Callable[[Request], Awaitable[Response]]


def _known(service: Service, endpoint: Endpoint) -> Endpoint:
    async def answer(request: Request) -> Response:
        if request.path_params["job"] not in service.jobs:
            return JSONResponse({"error": "there is no such table"}, 404)
        return await endpoint(request)

    return answer


def _done(service: Service, endpoint: Endpoint) -> Endpoint:
    async def answer(request: Request) -> Response:
        if service.job(request).state != "done":
            return JSONResponse({"error": "there are no results yet"}, 409)
        return await endpoint(request)

    return _known(service, answer)


def _open(service: Service, request: Request) -> Response:
    """The page for those who have the session; the token of the address is good for one."""
    given = request.query_params.get("token")
    if given is not None and service.token is not None and _equal(given, service.token):
        service.token = None
        response: Response = RedirectResponse("/", 303)
        response.set_cookie(_COOKIE, service.session, httponly=True, samesite="strict")
        return response
    if not service.knows(request):
        return JSONResponse({"error": "open the address that anypca serve printed; it works once"}, 403)
    nonce = secrets.token_urlsafe(16)
    own = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
    policy = f"default-src 'none'; {own}; connect-src 'self'; frame-src 'self'"
    # Names and messages enter the page as text only.
    page = resources.files("anypca.cli").joinpath("assets", "serve.html").read_text(encoding="utf-8")
    return HTMLResponse(page.replace("NONCE", nonce), headers={"Content-Security-Policy": policy})


async def _upload(service: Service, request: Request) -> Response:
    name = request.query_params.get("name", "table.csv")
    job = Job.create(service.root, name)
    try:
        await receive(job, request.stream(), service.limit)
        found = await run_in_threadpool(look, job)
    except ClientDisconnect:
        discard(job)
        return Response(status_code=400)
    except (TooLarge, *_EXPECTED) as error:
        discard(job)
        return JSONResponse(
            {"error": " ".join(str(error).split())}, 413 if isinstance(error, TooLarge) else 422
        )
    service.jobs[job.folder.name] = job
    return JSONResponse({"id": job.folder.name, **found})


async def _fit(job: Job, request: Request) -> Response:
    if job.state == "running":
        return JSONResponse({"error": "this table is being fitted; stop that first"}, 409)
    try:
        wanted: Any = json.loads(await read_limited(request.stream(), _MOST_JSON))
        await start(job, wanted)
    except ClientDisconnect:
        return Response(status_code=400)
    except TooLarge as error:
        return JSONResponse({"error": str(error)}, 413)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return JSONResponse({"error": "what was asked for is not understood"}, 422)
    return JSONResponse({"state": job.state})


class _Impatient(H11Protocol):
    """Closes connections that send nothing."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(_PATIENCE, transport.close)


def serve(port: int, limit: int) -> None:
    """Run the server until it is stopped.

    Parameters
    ----------
    port : int
        0 takes a free one.
    limit : int
        Bytes of the largest upload.
    """
    with tempfile.TemporaryDirectory(prefix="anypca-serve-") as folder, socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        service = Service(f"127.0.0.1:{bound.getsockname()[1]}", Path(folder), limit)
        sys.stdout.write(f"Open http://{service.host}/?token={service.token}\nIt works once. Ctrl-C ends.\n")
        sys.stdout.flush()
        config = uvicorn.Config(
            make_app(service),
            http=_Impatient,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE,
        )
        uvicorn.Server(config).run(sockets=[bound])
