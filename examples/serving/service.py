"""A service that takes node numbers and returns class, confidence and whether to abstain.

    python examples/serving/service.py run --port 8000
    curl -d '{"nodes": [0, 7]}' localhost:8000/predict

``make_app`` is plain ASGI, so any server of that standard can run it.
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

from gnncal.torch import CalibratedModel

MOST_NODES = 10_000  # in one question
LARGEST_QUESTION = 1 << 20  # bytes


class BadQuestionError(ValueError):
    """The question cannot be answered; the message says why."""


class Service:
    """The model, its calibrator, the graph and the certified threshold of one folder."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "settings.json").read_text())
        model = GCN(settings["n_features"], 64, 2, settings["n_classes"], dropout=0.5)
        self.model = CalibratedModel.load(folder, model).eval()
        with np.load(folder / "graph.npz") as arrays:
            self.x = torch.from_numpy(arrays["x"])
            self.edge_index = torch.from_numpy(arrays["edge_index"])
        threshold = settings["threshold"]
        self.threshold = math.inf if threshold is None else threshold

    def answer(self, nodes: list[int]) -> list[dict[str, Any]]:
        """Return class, confidence and whether to abstain, for each node."""
        with torch.inference_mode():
            probs = self.model(self.x, self.edge_index)[nodes]
        confidence, classes = probs.max(dim=1)
        rows = zip(nodes, classes.tolist(), confidence.tolist(), strict=True)
        return [
            {"node": node, "class": c, "confidence": p, "abstain": p < self.threshold}
            for node, c, p in rows
        ]

    def read_nodes(self, body: bytes) -> list[int]:
        """Return the node numbers of a question such as ``{"nodes": [0, 7]}``."""
        try:
            nodes = json.loads(body)["nodes"]
        except (ValueError, KeyError, TypeError) as error:
            raise BadQuestionError('expected JSON such as {"nodes": [0, 7]}.') from error
        if not isinstance(nodes, list) or not 0 < len(nodes) <= MOST_NODES:
            raise BadQuestionError(f"nodes must be a list of 1 to {MOST_NODES} numbers.")
        n_nodes = len(self.x)
        wrong = [node for node in nodes if type(node) is not int or not 0 <= node < n_nodes]
        if wrong:
            raise BadQuestionError(f"there is no node {wrong[0]!r}; nodes are 0 to {n_nodes - 1}.")
        return nodes


def make_app(service: Service) -> Callable[..., Awaitable[None]]:
    """Return the ASGI application."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        route = scope["method"], scope["path"]
        if route == ("GET", "/health"):
            await reply(send, 200, {"status": "ok", "n_nodes": len(service.x)})
        elif route == ("POST", "/predict"):
            try:
                nodes = service.read_nodes(await read_body(receive))
            except BadQuestionError as error:
                await reply(send, 400, {"error": str(error)})
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


async def reply(send: Any, status: int, content: dict[str, Any]) -> None:
    """Send a JSON document."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


def main() -> None:
    """Load a folder and serve it on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="written by prepare.py")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free port")
    options = parser.parse_args()
    app = make_app(Service(options.folder))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", options.port))
        listener.listen()
        print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app, log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
