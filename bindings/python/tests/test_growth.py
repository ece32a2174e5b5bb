"""Many calls of each kind leave nothing behind.

CALLS says how many; 1000000 is the full size.
"""

from __future__ import annotations

import os
import sys

from programs import run

CALLS = int(os.environ.get("CALLS", "3000"))


def test_many_calls() -> None:
    """No kind of call leaves memory, handles or open calls behind."""
    code, output = run(
        """
    CALLS = int(os.environ["CALLS"])
    import ctypes, json, logging
    from datetime import datetime, timedelta, timezone
    from prosody import AdminClient, PermanentError, deque, map, mock, runtime, set, value
    logging.disable(logging.CRITICAL)
    V, M, S, D = value("v", published=True, read_cache=False), map("m"), set("s"), deque("d")
    later = datetime.now(timezone.utc) + timedelta(days=1)
    LOG = 64 << 20

    class Work(EventHandler):
        wanted = received = 0
        call = None
        def on_message(self, context, message):
            return self.work(context, message)
        async def work(self, context, message):
            for _ in range(200 if self.call else 0):
                await self.call(context)
            self.received += 1
            if message.key == "bad":
                raise PermanentError("as the test wants")
        on_excise = on_timer = on_message

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * 4096

    async def state(context):
        v, m, s, d = map_(context.state, (V, M, S, D))
        await v.set(1); await v.get(); await m.set("a", 1); await m.get("a"); await s.add("a")
        await s.contains("a"); await d.append(1); await d.popleft()
        async for _ in m.items(): pass
    map_ = __import__("builtins").map

    async def timers(context):
        await context.schedule(later); await context.scheduled(); await context.unschedule(later)

    async def signs(context):
        context.should_cancel(); context.demand

    async def main():
        work = Work()
        client = await make(state_collections=[V, M, S, D], subsystem="sub")
        admin = AdminClient(mock=True, bootstrap_servers="local")
        await admin.create_topic("t", partition_count=1)
        await client.subscribe(work)
        pad = "x" * 400  # so that the log of mock mode is full before a million records
        reader = await client.state("sub", V)
        library = runtime.current().library

        def handles():
            buffer, size = ctypes.create_string_buffer(1 << 17), ctypes.c_size_t()
            stats = library._handle.prosody_client_stats
            stats.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                              ctypes.c_void_p]
            assert stats(client._core.handle, buffer, 1 << 17, ctypes.byref(size), None) == 0
            return json.loads(buffer.raw[: size.value])["library"]

        async def events(number):
            work.wanted += number
            while work.received < work.wanted:
                await asyncio.sleep(0.001)

        async def sends(key, call=None):
            work.call = call
            number = 1 if call else 200
            await asyncio.gather(*(client.send("t", key, pad) for _ in range(number)))
            await events(number)

        async def excises():
            await asyncio.gather(*(client.excise("t", "k") for _ in range(200)))
            await events(200)

        async def asks():
            for _ in range(200):
                await client.consumer_state(); await client.assigned_partition_count()
                await client.is_stalled(); client.source_system

        async def refused():
            for _ in range(200):
                for call in (lambda: client.send(1, "k", 1), lambda: client.send("t", "k", b"")):
                    try:
                        await call()
                    except (TypeError, ValueError):
                        pass

        async def dropped():
            for _ in range(200):
                client.send("t", "k", pad)
            await events(200)

        async def reads():
            for _ in range(200):
                await reader.get("k"); await client.state("sub", V)

        async def advances():
            for _ in range(200):
                mock.advance(0.001, "local")

        async def clients():
            async with await make(group_id="other"): pass
            work.call = None
            await client.unsubscribe(); await client.subscribe(work)
            await admin.create_topic("passing"); await admin.delete_topic("passing")

        kinds = {
            "sends": (lambda: sends("k"), 200, 1200),
            "failures": (lambda: sends("bad"), 200, 1200),
            "excises": (excises, 200, 1200), "dropped": (dropped, 200, 1200),
            "asks": (asks, 200, 0),
            "refused": (refused, 200, 0), "reads": (reads, 200, 0), "advances": (advances, 200, 0),
            "state": (lambda: sends("k", state), 200, 0),
            "timers": (lambda: sends("k", timers), 200, 0),
            "signs": (lambda: sends("k", signs), 200, 0), "clients": (clients, 1, 0),
        }
        await clients()
        gc.collect()
        first = handles()
        for name, (kind, each, log) in kinds.items():
            began, work.call = time.monotonic(), None
            half = max(1, CALLS // 2 // 200)
            for _ in range(half):
                await kind()
            gc.collect()
            before = resident()
            for _ in range(half):
                await kind()
            gc.collect()
            grown = resident() - before
            print(f"{name:10} {2 * half * each:8} calls {time.monotonic() - began:6.1f} s,"
                  f" {grown >> 10:+6} KiB in the second half", flush=True)
            share = half * each
            assert grown < (16 << 20) + (share * log if share * 400 < LOG else 0), name
            while handles() != first:
                assert time.monotonic() - began < 600, (name, first, handles())
                await asyncio.sleep(0.01)
            assert not runtime.current().port().pending, name
        await client.shutdown()
        print("nothing left")
    asyncio.run(main())
    """,
        limit=max(120, CALLS / 50),
        CALLS=str(CALLS),
    )
    sys.stdout.write(output)
    assert code == 0, output[-3000:]
    assert "nothing left" in output
