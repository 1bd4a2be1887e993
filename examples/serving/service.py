"""A service that takes node numbers and returns class, confidence and whether to abstain.

    python examples/serving/service.py run --port 8000
    curl -d '{"nodes": [0, 7]}' localhost:8000/predict

``make_app`` is plain ASGI, so any server of that standard can run it. ``ImpatientProtocol`` is for
uvicorn, which by itself waits for ever for a question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from torch_geometric.nn import GCN
from uvicorn.protocols.http.h11_impl import H11Protocol

from gnncal import InputError
from gnncal.torch import CalibratedModel

MOST_NODES = 10_000  # in one question
MOST_CONNECTIONS = 100  # at once; others are told to come back
LARGEST_QUESTION = 1 << 20  # bytes
LONGEST_ECHO = 40  # characters of a question that an answer repeats
PATIENCE = 10.0  # seconds in which a question must have come


class BadQuestionError(ValueError):
    """The question cannot be answered; the message says why."""


class Service:
    """The model, its calibrator, the graph and the certified threshold of one folder."""

    def __init__(self, folder: Path) -> None:
        settings = read_settings(folder / "settings.json")
        threshold = settings["threshold"]
        self.threshold = math.inf if threshold is None else threshold
        with np.load(folder / "graph.npz") as arrays:
            self.load(folder, settings, {name: torch.from_numpy(arrays[name]) for name in arrays})

    def load(self, folder: Path, settings: dict[str, Any], arrays: dict[str, torch.Tensor]) -> None:
        """Read what the probabilities are computed from."""
        self.x, self.edge_index = arrays["x"], arrays["edge_index"]
        model = GCN(settings["n_features"], 64, 2, settings["n_classes"], dropout=0.5)
        self.model = CalibratedModel.load(folder, model).eval()
        self.n_nodes = len(self.x)

    def probabilities(self, nodes: list[int]) -> torch.Tensor:
        """Return the calibrated probabilities of some nodes, (n, n_classes)."""
        return self.model(self.x, self.edge_index)[nodes]

    def answer(self, nodes: list[int]) -> list[dict[str, Any]]:
        """Return class, confidence and whether to abstain, for each node."""
        with torch.inference_mode():
            confidence, classes = self.probabilities(nodes).max(dim=1)
        rows = zip(nodes, classes.tolist(), confidence.tolist(), strict=True)
        return [
            {"node": node, "class": c, "confidence": p, "abstain": not p >= self.threshold}
            for node, c, p in rows
        ]

    def read_nodes(self, body: bytes) -> list[int]:
        """Return the node numbers of a question such as ``{"nodes": [0, 7]}``."""
        try:
            nodes = json.loads(body)["nodes"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadQuestionError('expected JSON such as {"nodes": [0, 7]}.') from error
        if not isinstance(nodes, list) or not 0 < len(nodes) <= MOST_NODES:
            raise BadQuestionError(f"nodes must be a list of 1 to {MOST_NODES} numbers.")
        n_nodes = self.n_nodes
        wrong = [node for node in nodes if type(node) is not int or not 0 <= node < n_nodes]
        if wrong:
            raise BadQuestionError(f"unknown node {echo(wrong[0])}; nodes are 0 to {n_nodes - 1}.")
        return nodes


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a folder, or raise an InputError that says what is wrong with them."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        sizes = [settings["n_features"], settings["n_classes"]]
        threshold = settings["threshold"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} cannot be used ({error!r}); run prepare.py again.") from error
    if not all(type(size) is int and 0 < size < 2**31 for size in sizes):
        raise InputError(f"{path}: n_features and n_classes are {sizes}; expected whole numbers.")
    is_number = type(threshold) in (int, float) and 0 <= threshold <= 1
    if threshold is not None and not is_number:
        raise InputError(
            f"{path}: the threshold is {echo(threshold)}; expected a confidence from 0 to 1, or "
            "null to leave every node to people. Run prepare.py again."
        )
    return settings


def echo(value: Any) -> str:
    """Return a value as a message repeats it, at most a few characters."""
    if isinstance(value, list | dict):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= LONGEST_ECHO else f"{text[:LONGEST_ECHO]}..."


def make_app(service: Service) -> Callable[..., Awaitable[None]]:
    """Return the ASGI application."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        route = scope["method"], scope["path"]
        if route == ("GET", "/health"):
            await reply(send, 200, {"status": "ok", "n_nodes": service.n_nodes})
        elif route == ("POST", "/predict"):
            try:
                async with asyncio.timeout(PATIENCE):
                    body = await read_body(receive)
                nodes = service.read_nodes(body)
            except TimeoutError:
                await reply(send, 408, {"error": "the question came too slowly."}, last=True)
                return
            except BadQuestionError as error:
                await reply(send, 400, {"error": str(error)}, last=True)
                return
            answers = await asyncio.to_thread(service.answer, nodes)  # meanwhile others can ask
            await reply(send, 200, {"answers": answers})
        else:
            await reply(send, 404, {"error": "ask POST /predict or GET /health."})

    return app


async def read_body(receive: Any) -> bytes:
    """Return the whole body of a request, if it is not too large."""
    body, has_more = b"", True
    while has_more:
        message = await receive()
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(body) > LARGEST_QUESTION:
            raise BadQuestionError(f"the question is longer than {LARGEST_QUESTION} bytes.")
    return body


async def reply(send: Any, status: int, content: dict[str, Any], *, last: bool = False) -> None:
    """Send a JSON document; the ``last`` on a connection closes it."""
    body = json.dumps(content).encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    if last:  # whatever may still come of the question is not waited for
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ImpatientProtocol(H11Protocol):
    """Closes a connection on which no question has begun for a while, or only half of one."""

    waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first question."""
        super().connection_made(transport)
        self.wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the head of a question is complete; its body has a limit of its own."""
        super().data_received(data)
        if self.waiting and self.cycle is not None and not self.cycle.response_complete:
            self.waiting.cancel()

    def on_response_complete(self) -> None:
        """Wait for the next question."""
        super().on_response_complete()
        self.wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self.waiting:
            self.waiting.cancel()
        super().connection_lost(exc)

    def wait(self) -> None:
        """Close the connection unless a question comes in time."""
        if self.waiting:
            self.waiting.cancel()
        self.waiting = self.loop.call_later(PATIENCE, self.transport.close)


def main(kind: type[Service] = Service) -> None:
    """Load a folder and serve it on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="written by prepare.py")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free port")
    options = parser.parse_args()
    try:
        app = make_app(kind(options.folder))
    except InputError as error:
        parser.error(str(error))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", options.port))
        listener.listen()
        print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            http=ImpatientProtocol,
            limit_concurrency=MOST_CONNECTIONS,
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
