"""`examples/serve_http.py`, started as users start it, answers as the search does."""

import importlib.util
import json
import re
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from cases import each
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from skhash import HashedNeighbors, ITQHash

SCRIPT = Path(__file__).parents[1] / "examples/serve_http.py"
VECTORS = load_digits().data[:400].astype(np.float32)
DATABASE, QUERIES = VECTORS[:360], VECTORS[360:]


@pytest.fixture(scope="module")
def search():
    ids = [f"digit {i}" for i in range(len(DATABASE))]
    return HashedNeighbors(ITQHash(32, random_state=0)).fit(DATABASE, ids=ids)


@pytest.fixture(scope="module")
def port(search, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service") / "search"
    search.save(folder)
    command = [sys.executable, SCRIPT, folder, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as service:
        try:
            yield int(service.stdout.readline().rpartition(":")[2])
            assert service.poll() is None
        finally:
            service.terminate()


def ask(port, body, method="POST", path="/search", headers=None):
    """Return the status and the content of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, json.load(answer)
    finally:
        connection.close()


def question(vectors, **more):
    return json.dumps({"vectors": np.asarray(vectors).tolist(), **more})


def test_threads_get_what_the_search_finds(port, search):
    def asked(i):
        return ask(port, question(QUERIES[i : i + 3], n_neighbors=1 + i))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(asked, range(30)))
    for i, (status, found) in enumerate(answers):
        truth = search.kneighbors(QUERIES[i : i + 3], 1 + i, return_ids=True)
        assert status == 200
        assert_array_equal(found["distances"], truth[0])
        assert_array_equal(found["ids"], truth[1])


TOO_MANY = question(np.zeros((300, 64)), n_neighbors=360)
BAD = {
    "no JSON": ("{vectors", "property name"),
    "nested": ("[" * 100_000, "recursion"),
    "words": ('{"vectors": [["one"]]}', "could not convert"),
    "an object": ('{"vectors": {}}', "float"),
    "too far": (f'{{"vectors": [[1{"0" * 400}]]}}', "too large"),
    "a list": ("[1, 2]", "The body is"),
    "no vectors": ("{}", "The body is"),
    "a row": (question(QUERIES[0]), r"rows of 64 numbers; got shape \(64,\)"),
    "narrow": (question(QUERIES[:, :9]), r"rows of 64 numbers; got shape \(40, 9\)"),
    "NaN": (question(np.full((1, 64), np.nan)), "NaN"),
    "huge": (question(np.full((1, 64), 1e300)), "infinity"),
    "none asked": (question(QUERIES, n_neighbors=0), "at least 1, got 0"),
    "a part": (question(QUERIES, n_neighbors=1.5), "integer"),
    "more than there are": (question(QUERIES[:1], n_neighbors=361), "only 360"),
    "too many": (TOO_MANY, "at most 100000"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD)
def test_bad_questions_are_told_so(port, body, message):
    status, found = ask(port, body)
    assert status == 400
    assert re.search(message, found["error"])
    assert ask(port, None, "GET", "/health")[0] == 200


def test_a_body_that_is_too_large_is_not_read(port):
    body = b"[" + b" " * 20_000_000 + b"]"
    assert ask(port, body) == (413, {"error": "A body has at most 4194304 bytes."})
    told = {"Content-Length": "9" * 5000}
    assert ask(port, None, headers=told)[0] == 413


@each("length", ["-1", "many", "1_0", "²"])
def test_a_length_is_needed(port, length):
    assert ask(port, None, headers={"Content-Length": length.encode("utf-8")})[0] == 411


def test_health(port):
    found = ask(port, None, "GET", "/health")
    assert found == (200, {"n_vectors": 360, "n_features": 64})
    status, found = ask(port, None, "GET", "/")
    assert status == 404 and "/health" in found["error"]


def spoken(port, *parts):
    """Send bytes, and return the statuses of all answers until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"".join(parts))
        answers = b"".join(iter(lambda: connection.recv(65536), b""))
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", answers)]


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@each("head, status", [("GET /health", 200), ("GET /", 404), ("POST /other", 404)])
def test_a_body_is_no_request(port, head, status):
    head = f"{head} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n"
    assert spoken(port, head.encode(), SMUGGLED, LAST) == [status, 200]


UNCERTAIN = (
    *("Transfer-Encoding: chunked", "Content-Length: 2\r\nTransfer-Encoding: chunked"),
    *("Content-Length: 2\r\nContent-Length: 40", "Content-Length : 40"),
    *("Content-Length: 2,40", "Content-Length: +2", "Content-Length: 2\r\n 4"),
)


@each("method", ["GET", "POST", "PUT"])
@each("headers", UNCERTAIN)
def test_a_body_of_uncertain_length_ends_the_connection(port, method, headers):
    head = f"{method} /health HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n"
    (status,) = spoken(port, head.encode(), SMUGGLED, LAST)
    assert status in (400, 411, 501)


@contextmanager
def served(search, **overrides):
    """Serve in this process, with the handler of the script; yield the address."""
    spec = importlib.util.spec_from_file_location("serve_http", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    handler = type("Silent", (script.Handler,), {"log_message": lambda *_: None})
    kind = type("Server", (ThreadingHTTPServer,), overrides)
    with kind(("127.0.0.1", 0), partial(handler, search)) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address
        server.shutdown()
        thread.join()


def test_clients_that_leave_are_no_errors(search, capsys):
    left = [b"", b"GET /he", b"POST /search HTTP/1.1\r\nContent-Length: 900\r\n\r\n["]
    body = question(QUERIES, n_neighbors=360).encode()
    head = f"POST /search HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    left += [head + body, head * 2 + body, b"POST / HTTP/1.1\r\n\r\n" + body]
    with served(search, daemon_threads=False) as address:  # its end waits for threads
        for sent, is_reset in product(left * 2, (False, True)):
            with socket.create_connection(address, timeout=60) as connection:
                linger = struct.pack("ii", is_reset, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.sendall(sent)
        assert ask(address[1], None, "GET", "/health")[0] == 200
    assert capsys.readouterr().err == ""


def test_real_queries_and_positions():
    """Without ids, by decoded codes: in this process, by the classes of the script."""
    search = HashedNeighbors(4).fit(DATABASE).remove([5, 7])
    with served(search) as (_, port):
        status, found = ask(port, question(QUERIES, n_neighbors=7))
        health = ask(port, None, "GET", "/health")
    distances, positions = search.kneighbors(QUERIES, 7)
    assert status == 200
    assert_array_equal(found["distances"], distances)
    assert_array_equal(found["ids"], positions)
    assert health == (200, {"n_vectors": 358, "n_features": 64})
