"""Hosts at the edge: preloading servers, multiprocessing, subinterpreters, ends without close.

EXITS says how often the last ones run; 200 is the full size.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from programs import PRELUDE, ROOT, run

EXITS = int(os.environ.get("EXITS", "10"))


def script(path: Path, source: str) -> tuple[int, str]:
    """Runs a file: what multiprocessing needs."""
    path.write_text(PRELUDE + textwrap.dedent(source))
    process = subprocess.run(
        [sys.executable, str(path)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return process.returncode, process.stdout


WORKERS = """
import multiprocessing

async def work_in_child(number):
    async with await make(group_id=f"g{number}") as client:
        await client.subscribe(Handler())
        await client.send("t", "k", number)
    return number

def job(number):
    try:
        return asyncio.run(work_in_child(number))
    except RuntimeError as error:
        return str(error)

async def parent(context):
    client = await make()
    with context.Pool(2) as pool:
        print(pool.map(job, [1, 2, 3]))
    await client.send("t", "k", 0)
    await client.shutdown()
    print("parent done")
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    """Processes that do not inherit the library have clients of their own."""
    code, output = script(
        tmp_path / "program.py",
        WORKERS
        + f"""
if __name__ == "__main__":
    asyncio.run(parent(multiprocessing.get_context("{method}")))
""",
    )
    assert code == 0, output
    assert "[1, 2, 3]" in output
    assert "parent done" in output


def test_multiprocessing_by_fork(tmp_path: Path) -> None:
    """Forked after the first client each child says so; forked before it, each has its own."""
    code, output = script(
        tmp_path / "program.py",
        WORKERS
        + """
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        print(pool.map(job, [1, 2, 3]))
    asyncio.run(parent(context))
""",
    )
    assert code == 0, output
    assert "[1, 2, 3]" in output
    assert output.count("cannot be used after fork. Create a new") == 3
    assert "parent done" in output


APPLICATION = """
import asyncio, os, threading
from prosody import EventHandler, ProsodyClient

class Quiet(EventHandler):
    async def on_message(self, context, message): pass
    on_excise = on_timer = on_message

loop = client = None
lock = threading.Lock()

def get():
    global loop, client
    with lock:
        if client is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True).start()
            do(make())
    return client

def do(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

async def make():
    global client
    client = await ProsodyClient.create(mock=True, bootstrap_servers="local", group_id="g",
                                      source_system="s", subscribed_topics="t")
    await client.subscribe(Quiet())

async def send(client):
    await client.send("t", "k", os.getpid())

def app(environ, respond):
    try:
        client = get()
        do(send(client))
        status, body = "200 OK", f"sent by {os.getpid()}"
    except RuntimeError as error:
        status, body = "500 Error", f"{error} {os.getpid()}"
    respond(status, [("Content-Type", "text/plain"), ("Connection", "close")])
    return [body.encode()]
"""


@contextmanager
def gunicorn(folder: Path, source: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server with two workers that were forked after the application was loaded."""
    (folder / "application.py").write_text(source)
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--threads", "2"]
    command += ["--bind", "127.0.0.1:0", "--chdir", str(folder), "application:app"]
    process = subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        address = ""
        for line in process.stdout:
            found = re.search(r"Listening at: (http://[0-9.:]+)", line)
            address = found[1] if found else address
            if "Booting worker" in line:
                break
        assert address
        yield process, address
    finally:
        process.kill()
        process.stdout.close()


def ask(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=40) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def both(address: str) -> set[tuple[int, str]]:
    """The answers of two workers, each with its process id."""
    answers: set[tuple[int, str]] = set()
    deadline = time.monotonic() + 60
    while len(answers) < 2:
        assert time.monotonic() < deadline, answers
        answers.add(ask(address))
    return answers


def test_preloading_server(tmp_path: Path) -> None:
    """Each worker of gunicorn makes its client after the fork, and all end by TERM."""
    with gunicorn(tmp_path, APPLICATION) as (process, address):
        answers = both(address)
        assert {status for status, _ in answers} == {200}, answers
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert "Fatal" not in output
    assert "Traceback" not in output


def test_preloading_server_with_a_client(tmp_path: Path) -> None:
    """A client that was made before the fork is refused in each worker; none hangs."""
    source = APPLICATION.replace("do(send(client))", "asyncio.run(send(client))") + "\nget()\n"
    with gunicorn(tmp_path, source) as (process, address):
        answers = both(address)
        assert {status for status, _ in answers} == {500}
        assert all("cannot be used after fork" in body for _, body in answers)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output


INNER = """
import asyncio, sys
sys.path.insert(0, ROOT)
try:
    from prosody import ProsodyClient
    async def main():
        await ProsodyClient.create(mock=True, bootstrap_servers="local", source_system="s")
    asyncio.run(main())
except (RuntimeError, ImportError) as error:
    print("refused:", error, flush=True)
""".replace("ROOT", repr(str(ROOT)))


def test_subinterpreter() -> None:
    """A subinterpreter gets an error that says so; the main one goes on."""
    code, output = run(f"""
    import warnings
    warnings.simplefilter("ignore")
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    inner = {INNER!r}
    other = interpreters.create()
    interpreters.run_string(other, inner)
    async def main():
        async with await make() as client:
            await client.send("t", "k", 1)
    asyncio.run(main())
    interpreters.run_string(other, inner)
    asyncio.run(main())
    interpreters.destroy(other)
    print("main interpreter goes on")
    """)
    assert code == 0, output
    assert output.count("refused: ") == 2
    assert output.count("subinterpreter") == 2
    assert "main interpreter goes on" in output


ENDS = {
    "": 0,
    "sys.exit(3)": 3,
    "os._exit(4)": 4,
    "raise ValueError": 1,
}


@pytest.mark.parametrize("end", ENDS)
def test_exit_without_close(end: str) -> None:
    """The interpreter ends amid traffic, with its usual status."""
    for _ in range(EXITS):
        code, output = run(f"""
        async def main():
            client = await make()
            await client.subscribe(Handler())
            calls = [client.send("t", str(n), n) for n in range(30)]
            await calls[0]
            {end or "pass"}
        asyncio.run(main())
        """)
        assert code == ENDS[end], output
        assert "Fatal" not in output
        assert "panic" not in output
