"""A search as an HTTP service, with the standard library only, as a starting point.

    python examples/serve_http.py FOLDER --port 8000

FOLDER is a directory that ``HashedNeighbors.save`` wrote. Its index is mapped into
memory, so several such processes share it. Send a query with

    curl localhost:8000/search -d '{"vectors": [[0.1, 0.2, ...]], "n_neighbors": 3}'

There is no encryption, no password, and no limit on the number of connections. By
default, the service listens only to this machine; keep it so, and put a server in front
that provides all three.
"""

import argparse
import json
import socket
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import skhash

MAX_BYTES = 4 * 2**20
MAX_DROPPED = 16 * MAX_BYTES
MAX_ANSWERS = 100_000  # queries times neighbours
SECONDS = 30  # to send a request, and to wait for the next one of a connection


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection, in a separate thread."""

    protocol_version = "HTTP/1.1"  # a connection serves many requests
    timeout = SECONDS
    disable_nagle_algorithm = True  # the body of an answer waits for nothing

    def __init__(self, search, *arguments):
        self.search = search
        super().__init__(*arguments)

    def handle(self):
        """Serve a connection; the client may end it at any time."""
        with suppress(OSError):
            super().handle()

    def do_GET(self):
        """Say that the service is up, and what it searches."""
        if self.body() is None:
            return
        if self.path != "/health":
            return self.answer(404, {"error": f"No {self.path}; GET /health."})
        n_vectors = int(self.search.live_.sum())
        self.answer(
            200, {"n_vectors": n_vectors, "n_features": self.search.n_features_in_}
        )

    def do_POST(self):
        """Find the neighbours of the vectors in the body."""
        body = self.body()
        if body is None:
            return
        if self.path != "/search":
            return self.answer(404, {"error": f"No {self.path}; POST /search."})
        try:
            found = find(self.search, json.loads(body))
        # Raised for malformed JSON, and for vectors of a wrong width.
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            return self.answer(400, {"error": str(error)})
        self.answer(200, found)

    def body(self):
        """Read the body of a request, or refuse it and return None.

        The rest of a body would be taken for the next request of the connection. So the
        connection ends if the length of the body is uncertain.
        """
        lengths = self.headers.get_all("Content-Length", [])
        if self.headers.defects or len(lengths) > 1:
            return self.refuse(400, "These headers can be read in two ways.")
        length = lengths[0] if lengths else "0" * (self.command == "GET")
        is_number = length.isascii() and length.isdigit()
        if not is_number or "Transfer-Encoding" in self.headers:
            return self.refuse(411, "A body needs its Content-Length.")
        if len(length) > 12 or int(length) > MAX_BYTES:
            return self.refuse(413, f"A body has at most {MAX_BYTES} bytes.")
        return self.rfile.read(int(length))

    def refuse(self, status, message):
        """Answer without having read the body, and close the connection.

        Clients send the whole body before they read the answer, and lose the answer if
        the connection ends before that. So the rest of the body is read and dropped.
        """
        self.close_connection = True
        self.answer(status, {"error": message})
        self.connection.shutdown(socket.SHUT_WR)
        dropped = 0
        while dropped < MAX_DROPPED and (part := self.rfile.read1()):
            dropped += len(part)

    def answer(self, status, content):
        """Send `content` as JSON."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def find(search, question):
    """Return the answer to a question, or raise ``ValueError`` for a bad one."""
    if not isinstance(question, dict) or "vectors" not in question:
        raise ValueError('The body is {"vectors": [[...], ...], "n_neighbors": 10}.')
    vectors = np.asarray(question["vectors"], dtype=np.float32)
    width = search.n_features_in_
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise ValueError(
            f"vectors are rows of {width} numbers; got shape {vectors.shape}."
        )
    n_neighbors = question.get("n_neighbors", 10)
    has_ids = hasattr(search, "ids_")
    if isinstance(n_neighbors, int) and len(vectors) * n_neighbors > MAX_ANSWERS:
        raise ValueError(f"Ask for at most {MAX_ANSWERS} neighbours in all.")
    distances, ids = search.kneighbors(vectors, n_neighbors, return_ids=has_ids)
    return {"distances": distances.tolist(), "ids": ids.tolist()}


def main():
    """Read the arguments, and serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="directory that HashedNeighbors.save wrote")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 chooses a free port")
    options = parser.parse_args()
    search = skhash.load(options.folder, mmap=True)
    # Each request has its own thread, and several come at the same time.
    search.set_params(n_jobs=1)
    # The first search verifies checksums and compiles kernels.
    search.kneighbors(np.ones((1, search.n_features_in_)), 1)
    address = options.host, options.port
    with ThreadingHTTPServer(address, partial(Handler, search)) as server:
        print("Serving on http://{}:{}".format(*server.server_address), flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Ended.")


if __name__ == "__main__":
    main()
