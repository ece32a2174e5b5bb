"""Plays scenarios.txt by way of Python and writes the transcript. See there for the grammar."""

import asyncio
import collections
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

import prosody
from prosody import Context, EventHandler, ExciseMessage, Message, ProsodyClient, Timer
from prosody.mock import advance

COLLECTIONS: dict[str, Any] = {
    "v": prosody.value("v", published=True, read_cache=False),
    "m": prosody.map("m"),
    "s": prosody.set("s"),
    "d": prosody.deque("d", capacity=3),
    "last": prosody.message_value("last"),
}
MAKERS: dict[str, Any] = {"v": prosody.value, "m": prosody.map, "d": prosody.deque}
KINDS = {"at": "m", "put": "m", "push": "d", "get": "v"}
TOPIC = "scenarios"
ERRORS: dict[type, str] = {prosody.HandlerError: "handler", prosody.Timeout: "timeout"}


class Wanted(Exception):
    """What a script wants to fail with."""

    def __init__(self, permanent: bool) -> None:
        super().__init__("as the script wants")
        self.is_permanent = permanent


class Transcript:
    """Notes what happens, by key."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = collections.defaultdict(list)
        self.count: collections.Counter[str] = collections.Counter()
        self.changed = asyncio.Condition()

    def note(self, key: str, text: str) -> None:
        self.lines[key].append(text)

    async def ended(self, key: str, text: str) -> None:
        self.note(key, text)
        self.count[key] += 1
        async with self.changed:
            self.changed.notify_all()

    async def wait(self, key: str, count: int) -> None:
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: self.count[key] >= count), 60)

    def print(self) -> None:
        self.lines.pop("-", None)
        main = self.lines.pop("main", [])
        for key, lines in [("main", main), *sorted(self.lines.items())]:
            for line in lines:
                print(f"> {key}: {line}")


class Player(EventHandler[Any, Any]):
    """Runs the scripts."""

    def __init__(self, transcript: Transcript, began: int, scripts: dict[str, str]) -> None:
        self.transcript, self.began, self.scripts = transcript, began, scripts
        self.attempts: collections.Counter[Any] = collections.Counter()

    async def on_message(self, context: Context, message: Message[Any]) -> Any:
        return await self.play(context, message, "message", message.payload["do"], message.offset)

    async def on_excise(self, context: Context, message: ExciseMessage) -> Any:
        script = self.scripts.get("excise", "")
        return await self.play(context, message, "excise", script, message.offset)

    async def on_timer(self, context: Context, timer: Timer) -> None:
        second = int(timer.time.timestamp())
        kind, script = f"timer +{second - self.began}", self.scripts.get("timer", "")
        await self.play(context, timer, kind, script, -second)

    async def play(self, context: Context, event: Any, kind: str, script: str, ident: int) -> Any:
        self.attempts[event.key, ident] += 1
        demand, result = context.demand, None
        asked = " asked" if getattr(event, "response_requested", False) else ""
        self.transcript.note(event.key, f"{kind} {demand.kind.value} {demand.retry}{asked}")
        try:
            for line in filter(None, map(str.strip, script.split(";"))):
                result = await self.step(context, event, line, self.attempts[event.key, ident])
        except Wanted as error:
            how = "permanent" if error.is_permanent else "transient"
            await self.transcript.ended(event.key, f"failed {how}")
            raise
        except asyncio.CancelledError:
            await self.transcript.ended(event.key, "failed transient")
            raise
        await self.transcript.ended(event.key, "ok")
        return result

    async def step(self, context: Context, event: Any, line: str, attempt: int) -> Any:
        command, *words = line.split(" ", 2)
        if command == "fail":
            if attempt <= int(words[0]):
                if words[1] != "hang":
                    raise Wanted(words[1] == "permanent")
                await self.hang(event, False)
        elif command in ("linger", "hang"):
            await self.hang(event, command == "linger")
        elif command == "return":
            return json.loads(line.removeprefix("return "))
        elif command in ("schedule", "replace", "lasting", "unschedule"):
            await self.change(context, event, command, words[0])
        else:
            answer = await self.perform(context, event, command, words)
            self.transcript.note(event.key, line if answer is None else f"{line} -> {answer}")
        return None

    async def hang(self, event: Any, linger: bool) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.transcript.note(event.key, "cancelled")
            if not linger:
                raise

    async def change(self, context: Context, event: Any, command: str, second: str) -> None:
        if second == "all":
            await context.clear_scheduled()
            self.transcript.note(event.key, "unschedule all")
            return
        due = datetime.fromtimestamp(self.began + int(second), timezone.utc)
        if command == "schedule":
            await context.schedule(due)
        elif command == "replace":
            await context.clear_and_schedule(due)
        elif command == "lasting":
            await context.schedule(due, immediate=True)
        else:
            await context.unschedule(due)
        self.transcript.note(event.key, f"{command} +{second}")

    async def perform(self, context: Context, event: Any, command: str, words: list[str]) -> str | None:
        if command == "say":
            return None
        if command == "scheduled":
            times = await context.scheduled()
            return text([int(due.timestamp()) - self.began for due in times])
        name, rest = words[0], words[1] if len(words) > 1 else ""
        kind = KINDS.get(command)
        # A command asks for a collection of its own kind, also when the name has another one.
        fits = kind is None or kind == name
        definition = COLLECTIONS[name] if fits else MAKERS[str(kind)](name)
        try:
            state = context.state(definition)
            return await STEPS[command](state, rest, event)
        except prosody.PermanentError:
            return "error permanent"
        except prosody.TransientError:
            return "error transient"


def text(value: Any) -> str:
    if isinstance(value, Message):
        return str(value.payload["do"])
    if isinstance(value, prosody.StoreOutcome):
        return value.name.lower()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def listed(scan: Any) -> str:
    return text([item async for item in scan])


Step = Callable[[Any, str, Any], Awaitable[str | None]]


def say(call: Callable[[Any, str, Any], Awaitable[Any]]) -> Step:
    async def step(state: Any, rest: str, event: Any) -> str:
        return text(await call(state, rest, event))

    return step


def do(call: Callable[[Any, str, Any], Awaitable[Any]]) -> Step:
    async def step(state: Any, rest: str, event: Any) -> None:
        await call(state, rest, event)

    return step


def put(state: Any, rest: str, _event: Any) -> Awaitable[Any]:
    key, value = rest.split(" ", 1)
    return state.set(key, json.loads(value))  # type: ignore[no-any-return]


STEPS: dict[str, Step] = {
    "get": say(lambda state, rest, event: state.get()),
    "recall": say(lambda state, rest, event: state.get()),
    "at": say(lambda state, rest, event: state.get(rest)),
    "has": say(lambda state, rest, event: state.contains(rest)),
    "commit": say(lambda state, rest, event: state.commit()),
    "rollback": say(lambda state, rest, event: state.rollback()),
    "pop": say(lambda state, rest, event: state.pop()),
    "shift": say(lambda state, rest, event: state.popleft()),
    "peek": say(lambda state, rest, event: state.peek()),
    "item": say(lambda state, rest, event: state.get(int(rest))),
    "size": say(lambda state, rest, event: state.size()),
    "set": do(lambda state, rest, event: state.set(json.loads(rest))),
    "keep": do(lambda state, rest, event: state.set(event)),
    "clear": do(lambda state, rest, event: state.clear()),
    "put": do(put),
    "remove": do(lambda state, rest, event: state.remove(rest)),
    "add": do(lambda state, rest, event: state.add(rest)),
    "discard": do(lambda state, rest, event: state.discard(rest)),
    "push": do(lambda state, rest, event: state.append(json.loads(rest))),
    "unshift": do(lambda state, rest, event: state.appendleft(json.loads(rest))),
    "keys": lambda state, rest, event: listed(state.keys()),
    "back": lambda state, rest, event: listed(state.keys(prosody.Direction.BACKWARD)),
    "pairs": lambda state, rest, event: listed(state.items()),
    "members": lambda state, rest, event: listed(state.members()),
    "items": lambda state, rest, event: listed(state.values()),
}


class Scenario:
    """Plays one scenario."""

    def __init__(self, name: str) -> None:
        self.name, self.servers = name, f"scenario-{name}"
        self.scripts: dict[str, str] = {}
        self.options: list[str] = []
        self.transcript = Transcript()
        self.began = int(time.time())
        self.client: ProsodyClient | None = None
        self.other: ProsodyClient | None = None

    async def play(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        first, _, second = rest.partition(" ")
        if command == "option":
            self.options.append(f"PROSODY_{first.upper()}")
            os.environ[self.options[-1]] = second
        elif command == "on":
            self.scripts[first] = second
        else:
            if self.client is None:
                self.client = await ProsodyClient.create(
                    mock=True,
                    bootstrap_servers=self.servers,
                    group_id="group",
                    source_system="scenarios",
                    subscribed_topics=TOPIC,
                    subsystem="scenarios",
                    state_collections=COLLECTIONS.values(),
                )
                await self.client.subscribe(self.player())
            await self.run(self.client, command, first, second)

    def player(self) -> Player:
        return Player(self.transcript, self.began, self.scripts)

    async def run(self, client: ProsodyClient, command: str, key: str, rest: str) -> None:
        note = self.transcript.note
        if command == "send":
            await self.attempt("send", client.send(TOPIC, key, {"do": rest}))
        elif command == "many":
            count, script = rest.split(" ", 1)
            for _ in range(int(count)):
                await client.send(TOPIC, key, {"do": script})
        elif command == "repeat":
            await self.repeat(key, *rest.split(" ", 1))
        elif command == "excise":
            await self.attempt("excise", client.excise(TOPIC, key))
        elif command == "wait":
            await self.transcript.wait(key, int(rest))
        elif command == "advance":
            advance(int(key), self.servers)
        elif command in ("request", "erase"):
            await self.request(client, command, key, *rest.split(" ", 2))
        elif command == "read":
            reader = await client.state("scenarios", COLLECTIONS["v"])
            note("main", f"read {key} -> {text(await reader.get(key))}")
        elif command == "state":
            note("main", f"state {await client.consumer_state()}")
        elif command == "subscribe":
            await self.attempt(command, client.subscribe(self.player()))
        elif command in ("unsubscribe", "shutdown"):
            await self.attempt(command, getattr(client, command)())
        else:
            raise SystemExit(f"unknown step {command}")

    async def request(
        self, client: ProsodyClient, command: str, key: str, seconds: str, names: str, script: str = ""
    ) -> None:
        asked = {"subsystems": names.split(","), "timeout": float(seconds)}
        if command == "erase":
            outcomes = await client.request_excise(TOPIC, key, **asked)  # type: ignore[arg-type]
        else:
            outcomes = await client.request(TOPIC, key, {"do": script}, **asked)  # type: ignore[arg-type]
        for name in names.split(","):
            outcome = outcomes[name]
            if isinstance(outcome, prosody.Success):
                answer = text(outcome.value)
            else:
                answer = "failure " + ERRORS[type(outcome.error)]
            self.transcript.note("main", f"{command} {key} {name} -> {answer}")

    async def repeat(self, key: str, ident: str, script: str) -> None:
        if self.other is None:
            self.other = await ProsodyClient.create(
                mock=True,
                bootstrap_servers=self.servers,
                source_system="other",
                idempotence_cache_size=1,
            )
        await self.other.send(TOPIC, key, {"id": ident, "do": script})
        # Its own memory of ids is no part of the story.
        await self.other.send("elsewhere", key, {"id": "forget", "do": ""})

    async def attempt(self, name: str, call: Awaitable[Any]) -> None:
        try:
            await call
        except prosody.ProsodyError as error:
            self.transcript.note("main", f"{name} refused {error.status}")

    async def finish(self) -> None:
        for client in filter(None, (self.client, self.other)):
            await client.shutdown()
        print(f"scenario {self.name}")
        self.transcript.print()
        for name in self.options:
            del os.environ[name]


async def main(lines: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    current: Scenario | None = None
    for line in lines:
        if line.startswith("scenario "):
            if current:
                await current.finish()
            current = Scenario(line.removeprefix("scenario "))
        elif line and not line.startswith(("#", ">")) and current:
            await current.play(line)
    if current:
        await current.finish()


with open(sys.argv[1], encoding="utf-8") as scenarios:
    asyncio.run(main(scenarios.read().splitlines()))
