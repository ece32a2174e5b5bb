"""The host's signals amid the library's work, and callers that are interrupted."""

from __future__ import annotations

import re
import signal
import time

import pytest
from programs import run, start


def test_profiler_signals() -> None:
    """A profiler's timer, and a burst of its signals, amid traffic."""
    code, output = run("""
    ticks = []
    got = []
    async def work(context, message): got.append(message.payload)
    def burst(parent):
        for number in range(10_000):
            os.kill(parent, signal.SIGPROF)
            if number % 16 == 0:
                time.sleep(0.0001)
    async def main():
        signal.signal(signal.SIGPROF, lambda *_: ticks.append(1))
        async with await make() as client:
            await client.subscribe(Handler())
            signal.signal(signal.SIGPROF, lambda *_: ticks.append(2))
            signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
            child = threading.Thread(target=burst, args=(os.getpid(),))
            child.start()
            sent = 0
            while child.is_alive():
                await asyncio.gather(*(client.send("t", str(n), n) for n in range(50)))
                sent += 50
            signal.setitimer(signal.ITIMER_PROF, 0)
            while len(got) < sent:
                await asyncio.sleep(0.01)
        print("survived", len(ticks) > 50, set(ticks[-50:]) == {2}, file=sys.stderr)
    Handler.on_message = lambda self, context, message: work(context, message)
    asyncio.run(main())
    """)
    assert code == 0, output[-2000:]
    assert "survived True True" in output


@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler(when: str) -> None:
    """A crash of the host is reported by faulthandler, whenever that was switched on."""
    source = """
    import ctypes, faulthandler
    faulthandler.disable()
    async def main():
        BEFORE
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", 1)
        AFTER
        ctypes.string_at(8)
    asyncio.run(main())
    """
    chosen = {"before": "BEFORE", "after": "AFTER"}[when]
    source = re.sub(chosen, "faulthandler.enable()", source)
    code, output = run(re.sub("BEFORE|AFTER", "pass", source))
    assert code == -signal.SIGSEGV, output
    assert "Fatal Python error: Segmentation fault" in output
    assert "in string_at" in output


def test_terminate() -> None:
    """TERM ends a process as usual; a handler of the loop may shut down instead."""
    for handling, status in ("", -signal.SIGTERM), ("loop.add_signal_handler(15, end.set)", 0):
        process = start(f"""
        async def main():
            loop, end = asyncio.get_running_loop(), asyncio.Event()
            {handling or "pass"}
            async with await make() as client:
                await client.subscribe(Handler())
                print("ready", flush=True)
                await end.wait()
            print("shut down", await client.consumer_state())
        asyncio.run(main())
        """)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
        assert process.returncode == status, output
        assert ("shut down shut_down" in output) == (status == 0)
        assert time.monotonic() - began < 20


def test_signals_stay_with_the_host() -> None:
    """No thread of the library, nor of librdkafka inside it, is there for the host's signals."""
    code, output = run("""
    def blocked(task, number):
        for line in open(f"/proc/self/task/{task}/status"):
            if line.startswith("SigBlk:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    async def main():
        calls = [make(mock=False, bootstrap_servers="localhost:1", cassandra_nodes="localhost:1"),
                 make()]
        while len(os.listdir("/proc/self/task")) <= 6:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        tasks = [int(task) for task in os.listdir("/proc/self/task")]
        names = {open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks}
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGUSR1, signal.SIGALRM]
        open_ = [task for task in tasks for number in numbers if not blocked(task, number)]
        print("open", set(open_) == {os.getpid()}, len(tasks) > 6)
        await asyncio.gather(*calls, return_exceptions=True)
    asyncio.run(main())
    """)
    assert code == 0, output
    assert "open True True" in output


def test_asynchronous_exceptions() -> None:
    """Threads with loops of their own are ended by exceptions that are thrown in."""
    code, output = run("""
    import ctypes, logging
    from prosody import runtime
    logging.disable(logging.CRITICAL)
    class Stop(Exception): pass
    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
    async def use(client, number):
        while True:
            await client.send("t", str(number), number)
            await client.consumer_state()
            await asyncio.gather(*(client.send("t", "k", n) for n in range(10)))
    def body(loop, client, number):
        try:
            loop.run_until_complete(use(client, number))
        except Stop:
            pass
    async def main():
        client = await make()
        await client.subscribe(Silent())
        for number in range(100):
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=body, args=(loop, client, number))
            thread.start()
            await asyncio.sleep(0.002 * (number % 8))
            while thread.is_alive():  # the first one may meet a callback, which the loop reports
                throw(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
                loop.call_soon_threadsafe(int)  # it may wait, and then meets nothing
                await asyncio.sleep(0.005)
            loop.close()
        await asyncio.gather(*(client.send("t", "last", n) for n in range(100)))
        port = runtime.current().port()
        print("pending", len(port.pending), "ports", len(runtime.current()._ports) <= 2)
        await client.shutdown()
        print("still usable")
    class Silent(EventHandler):
        async def on_message(self, context, message): pass
        on_excise = on_timer = on_message
    asyncio.run(main())
    """)
    assert code == 0, output[-3000:]
    assert "still usable" in output
    assert "pending 0 ports True" in output


def test_cancelled_calls() -> None:
    """Each call of a client, a thousand times, by a caller that soon goes away."""
    code, output = run("""
    import logging
    from datetime import datetime, timedelta, timezone
    from prosody import AdminClient, deque, map, runtime, set as members, value
    logging.disable(logging.CRITICAL)
    V, M, S, D = value("v"), map("m"), members("s"), deque("d")
    later = datetime.now(timezone.utc) + timedelta(days=1)
    seen = []
    class Cancels(EventHandler):
        async def on_message(self, context, message):
            if message.key != "inside":
                return
            state = context.state
            calls = [lambda: context.schedule(later, immediate=True), context.scheduled,
                     lambda: context.unschedule(later), context.clear_scheduled,
                     lambda: state(V).get(), lambda: state(V).set(1), lambda: state(V).commit(),
                     lambda: state(M).set("a", 1), lambda: state(M).get("a"),
                     lambda: state(S).add("a"), lambda: state(S).contains("a"),
                     lambda: state(D).append(1), lambda: state(D).popleft()]
            for call in calls:
                for turn in range(20):
                    await brief(call, turn)
            seen.append(message.payload)
        async def on_excise(self, context, message): pass
        on_timer = on_excise
    async def brief(call, turn):
        async def wait(): return await call()
        task = asyncio.ensure_future(wait())
        for _ in range(turn % 4):
            await asyncio.sleep(0)
        if turn % 5 == 0:
            await asyncio.sleep(0.0005)
        task.cancel()
        try:
            await task
        except (asyncio.CancelledError, RuntimeError):
            pass
    async def main():
        more = dict(state_collections=[V, M, S, D], subsystem="sub")
        client = await make(**more)
        admin = AdminClient(mock=True, bootstrap_servers="local")
        calls = [lambda: client.send("t", "k", 1), lambda: client.excise("t", "k"),
                 lambda: client.subscribe(Cancels()), client.unsubscribe, client.consumer_state,
                 client.assigned_partition_count, client.is_stalled,
                 lambda: admin.create_topic("passing"), lambda: admin.delete_topic("passing")]
        for turn in range(1000):
            await brief(calls[turn % len(calls)], turn)
        for turn in range(50):
            other = await make(group_id="other")
            await brief(other.shutdown, turn)
            await brief(lambda: make(group_id="third"), turn)
            await other.shutdown()
        try:
            await client.unsubscribe()
        except RuntimeError:
            pass
        await client.subscribe(Cancels())
        for number in range(4):
            await client.send("t", "inside", number)
        while len(seen) < 4:
            await asyncio.sleep(0.01)
        while runtime.current().port().pending:
            await asyncio.sleep(0.01)
        await client.shutdown()
        print("usable", seen)
    asyncio.run(main())
    """)
    assert code == 0, output[-3000:]
    assert "usable [0, 1, 2, 3]" in output


def test_blocked_loop() -> None:
    """A handler that blocks its loop holds up its own process, and loses nothing."""
    code, output = run("""
    got = []
    async def work(context, message):
        if message.payload == 0:
            time.sleep(4)
        got.append((message.key, message.payload))
    async def main():
        async with await make(timeout=1.0) as client:
            await client.subscribe(Handler())
            calls = [client.send("t", key, n) for n in range(3) for key in ("a", "b")]
            await asyncio.gather(*calls)
            while {("a", 2), ("b", 2)} - set(got):
                await asyncio.sleep(0.01)
            for key in ("a", "b"):
                order = list(dict.fromkeys(n for k, n in got if k == key))
                print(key, order)
    asyncio.run(main())
    """)
    assert code == 0, output
    assert "a [0, 1, 2]" in output
    assert "b [0, 1, 2]" in output


def test_same_program_twice() -> None:
    """asyncio.run, again and again, each time with a client of its own that is never shut down."""
    code, output = run("""
    from prosody import runtime
    async def main(number):
        client = await make()
        await client.subscribe(Handler())
        await client.send("t", "k", number)
    for number in range(20):
        asyncio.run(main(number))
    gc.collect()
    runtime.current().limbo.wait(20)
    print("left", len(runtime.current().cores), len(runtime.current()._ports))
    """)
    assert code == 0, output
    assert "left 0 0" in output
