"""What needs a process of its own: ends without shutdown, signals, forks, loading."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import ROOT, run, start

FORGETFUL = """
import logging
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
async def main():
    client = await make()
    await client.subscribe(Handler())
    while not await client.assigned_partition_count():
        await asyncio.sleep(0.01)
    {between}
    print("sent", flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("between", "status"),
    [
        ("await client.send('t', 'k', 1)", 0),
        ("await asyncio.gather(*(client.send('t', str(n), n) for n in range(500)))", 0),
        ("client.send('t', 'k', 1)", 0),
        ("client.shutdown()", 0),
        ("await asyncio.sleep(0); raise SystemExit(9)", 9),
        ("raise ZeroDivisionError", 1),
        ("globals().update(kept=client); await client.send('t', 'k', 1)", 0),
        ("client.me = client; await client.send('t', 'k', 1)", 0),
    ],
)
def test_end_without_shutdown(between: str, status: int) -> None:
    began = time.monotonic()
    code, output = run(FORGETFUL.format(between=between, end="asyncio.run(main())"))
    assert code == status, output
    assert "Fatal" not in output
    assert "Exception ignored" not in output
    if between != "client.shutdown()":  # the loop is over before its lines are read
        assert output.count("partition given up") == 3, output  # the group was left
    assert time.monotonic() - began < 30


def test_twenty_ends_without_shutdown() -> None:
    source = FORGETFUL.format(
        between="await asyncio.gather(*(client.send('t', str(n), n) for n in range(50)))",
        end="asyncio.run(main())",
    )
    for _ in range(20):
        code, output = run(source)
        assert code == 0, output
        assert "sent" in output


@pytest.mark.parametrize(
    "end",
    [
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close()",
        "t = threading.Thread(target=lambda: asyncio.run(main())); t.start(); t.join()",
        "threading.Thread(target=lambda: asyncio.run(main())).start()",
    ],
)
def test_other_ends_of_the_loop(end: str) -> None:
    code, output = run(FORGETFUL.format(between="await client.send('t', 'k', 1)", end=end))
    assert code == 0, output
    assert "sent" in output


def test_end_with_a_handler_at_work() -> None:
    """Handlers are cancelled with the loop, and the group is left at once."""
    code, output = run("""
    async def work(context, message):
        started.set()
        await asyncio.sleep(600)
    async def main():
        global started
        started = asyncio.Event()
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        await started.wait()
    began = time.monotonic()
    asyncio.run(main())
    import atexit
    print("ran", time.monotonic() - began < 30)
    """)
    assert code == 0, output
    assert "ran True" in output


def test_daemon_loop_at_exit() -> None:
    """A loop that still runs in a daemon thread does no harm."""
    code, output = run("""
    ready = threading.Event()
    async def main():
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        ready.set()
        while True:
            await client.send("t", "k", 2)
    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
    ready.wait()
    print("leaving", flush=True)
    """)
    assert code == 0, output[-2000:]
    assert "leaving" in output


@pytest.mark.parametrize(
    ("error", "statuses"), [("SystemExit(7)", (7,)), ("KeyboardInterrupt()", (130, -2, 1))]
)
@pytest.mark.parametrize("late", ["", "await asyncio.sleep(0.01)"])
def test_exit_in_a_handler(error: str, statuses: tuple[int, ...], late: str) -> None:
    code, output = run(f"""
    async def work(context, message):
        {late or "pass"}
        raise {error}
    async def main():
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        await asyncio.sleep(30)
    asyncio.run(main())
    """)
    assert code in statuses, output
    assert "never retrieved" not in output


SIGNALLED = {
    "idle": """
    async def main():
        client = await make()
        await client.subscribe(Handler())
        print("ready", flush=True)
        await asyncio.sleep(60)
    """,
    "handler": """
    async def work(context, message):
        print("ready", flush=True)
        await asyncio.sleep(60)
    async def main():
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        await asyncio.sleep(60)
    """,
    "blocking handler": """
    async def work(context, message):
        print("ready", flush=True)
        time.sleep(60)
    async def main():
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        await asyncio.sleep(60)
    """,
    "dead broker: create": """
    async def main():
        print("ready", flush=True)
        await make(mock=False, bootstrap_servers="localhost:1", cassandra_nodes="localhost:1")
        await asyncio.sleep(60)
    """,
    "dead broker: send": """
    async def main():
        client = await make(mock=False, bootstrap_servers="localhost:1", send_timeout=60,
                            group_id=None, subscribed_topics=None, cassandra_nodes="localhost:9042")
        print("ready", flush=True)
        await client.send("t", "k", 1)
        await asyncio.sleep(60)
    """,
    "shutdown": """
    async def work(context, message):
        print("ready", flush=True)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
    async def main():
        client = await make(shutdown_timeout=60)
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        await asyncio.sleep(0.05)
        await client.shutdown()
    loop = asyncio.new_event_loop()  # without the signal handler of asyncio.run
    loop.run_until_complete(main())
    """,
}


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("localhost", port)) == 0


@pytest.mark.parametrize("name", SIGNALLED)
def test_interrupt(name: str) -> None:
    """Ctrl-C ends the process within seconds, with a KeyboardInterrupt in the main thread."""
    source = SIGNALLED[name]
    if "9042" in source and not reachable(9042):
        pytest.skip("needs Cassandra")
    process = start(source if "new_event_loop" in source else source + "\n    asyncio.run(main())")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("ready"):
                break
        time.sleep(0.2)  # let it reach the wait that the signal is to end
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        if name == "blocking handler":  # asyncio.run turns the first one into a cancellation
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
        elapsed = time.monotonic() - began
    finally:
        process.kill()
    assert process.returncode in (-2, 1, 130), output
    assert "Fatal" not in output
    assert "Exception ignored" not in output
    if name != "dead broker: create":
        assert "KeyboardInterrupt" in output
    assert elapsed < 25, output


def test_fork() -> None:
    """A child refuses every call, ends like any program, and leaves the parent alone."""
    code, output = run("""
    async def main():
        client = await make(source_system="forked")
        admin = AdminClient(mock=True, bootstrap_servers="local")
        await client.subscribe(Handler())
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert client.source_system == "forked"
                calls = [lambda: client.send("t", "k", 1), lambda: client.excise("t", "k"),
                         lambda: client.subscribe(Handler()), client.unsubscribe, client.shutdown,
                         client.consumer_state, client.assigned_partition_count, client.is_stalled,
                         make, lambda: admin.create_topic("x"), lambda: admin.delete_topic("x"),
                         lambda: AdminClient(mock=True, bootstrap_servers="local")]
                for call in calls:
                    try:
                        call()
                    except RuntimeError as error:
                        assert "cannot be used after fork. Create a new" in str(error)
                    else:
                        raise AssertionError("accepted")
                del client
                gc.collect()
                code = 42
            finally:
                sys.stdout.flush()
                os._exit(code) if code != 42 else sys.exit(code)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        await client.send("t", "k", "parent")
        await client.shutdown()
    asyncio.run(main())
    """)
    assert code == 0, output
    assert "child 42" in output


def test_fork_before_the_first_client() -> None:
    """Importing is harmless: a preloading server forks first, and each child has its client."""
    code, output = run("""
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            async def main():
                async with await make() as client:
                    await client.send("t", "k", number)
            asyncio.run(main())
            sys.exit(0)
        children.append(child)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    """)
    assert (code, "[0, 0, 0]" in output) == (0, True), output


def test_import_loads_nothing() -> None:
    code, output = run("""
    assert "libprosody" not in open("/proc/self/maps").read()
    print("ok")
    """)
    assert (code, output) == (0, "ok\n")


def test_missing_library() -> None:
    code, output = run(
        """
    async def main():
        try:
            await make()
        except RuntimeError as error:
            print(error)
    asyncio.run(main())
    """,
        PROSODY_LIBRARY="/nowhere/libprosody.so",
    )
    assert code == 0
    assert "/nowhere/libprosody.so" in output
    assert "make build" in output


def test_foreign_library() -> None:
    code, output = run(
        """
    async def main():
        try:
            await make()
        except RuntimeError as error:
            print(error)
    asyncio.run(main())
    """,
        PROSODY_LIBRARY=__file__,
    )
    assert code == 0
    assert "cannot load" in output


def test_garbage_collection_under_load() -> None:
    """Clients and handlers are dropped in all states while the collector runs at every turn."""
    code, output = run("""
    import warnings
    warnings.simplefilter("ignore")
    gc.set_threshold(1)
    class Silent(EventHandler):
        async def on_message(self, context, message):
            await asyncio.sleep(0)
        on_excise = on_timer = on_message
    async def main():
        for number in range(30):
            client = await make(group_id=f"g{number % 3}")
            if number % 2:
                client.subscribe(Silent())
            calls = [client.send("t", str(n), n) for n in range(20)]
            if number % 3:
                await asyncio.gather(*calls)
            if number % 5 == 0:
                client.unsubscribe()
            del client, calls
        gc.collect()
    asyncio.run(main())
    print("all dropped")
    """)
    assert code == 0, output[-3000:]
    assert "all dropped" in output


def test_demo() -> None:
    process = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        text=True,
        capture_output=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    lines = process.stdout.splitlines()
    assert lines[-1] == "done"
    for key in ("order-1", "order-2"):
        expected = [f'message {key} {{"n":{n}}}' for n in (1, 2, 3)]
        if key == "order-1":
            expected += ["excise order-1", "timer order-1"]
        assert [line for line in lines if key in line] == expected


@pytest.fixture(scope="module")
def faults() -> Path:
    """The library with faults, built if it is older than its sources."""
    tree = ROOT.parents[1]
    subprocess.run(["make", "-s", "-C", tree, "faults"], check=True)
    return tree / "build" / "faults" / "libprosody.so"


@pytest.mark.parametrize("place", ["client_send", "queue_poll", "complete"])
def test_fault_of_the_library(place: str, faults: Path) -> None:
    """It is told once; calls that are open and later ones fail; the process ends in order."""
    code, output = run(
        f"""
    async def main():
        client = await make()
        await client.subscribe(Handler())
        os.environ["PROSODY_FAULT"] = "prosody_{place}"
        for _ in range(5):
            try:
                await asyncio.wait_for(client.send("t", "k", 1), 20)
            except RuntimeError as error:
                print("refused", error.status)
            await asyncio.sleep(0.05)
    asyncio.run(main())
    """,
        PROSODY_LIBRARY=str(faults),
    )
    assert code == 0, output
    assert output.count("the Prosody library has failed") == 1
    assert "refused PROSODY_ERR_POISONED" in output
    assert "Exception ignored" not in output
