"""A TCP proxy that delays, swallows and cuts what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Proxy:
    """Runs in a thread of its own. The attributes may be set at any time."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.delay = 0.0  # seconds that each answer waits
        self.swallow = False  # answers are dropped, the connection with them only if it is cut
        self.closed = False  # connections are refused
        self.count = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        if self.closed:
            writer.transport.abort()
            return
        with contextlib.suppress(OSError):
            there, onward = await asyncio.open_connection(*self.target)
            self._writers |= {writer, onward}
            await asyncio.gather(self._copy(reader, onward, False), self._copy(there, writer, True))
            self._writers -= {writer, onward}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if answers and self.delay:
                    await asyncio.sleep(self.delay)
                if not (answers and self.swallow):
                    writer.write(data)
                    await writer.drain()
        writer.close()

    def cut(self) -> None:
        """Breaks all connections."""

        async def work() -> None:
            for writer in list(self._writers):
                writer.transport.abort()
            self._writers.clear()

        self._call(work())

    def heal(self) -> None:
        self.delay, self.swallow, self.closed = 0.0, False, False

    def close(self) -> None:
        async def work() -> None:
            self._server.close()

        self.closed = True
        self._call(work())
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
