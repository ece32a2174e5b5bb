"""A service of the interop test. It runs on any package named `prosody` with the common API.

The first argument is a JSON object of client options; PATH-like settings come by the environment.
Commands come as JSON lines, one answer each; what handlers see is told in lines of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

from prosody import EventHandler, Failure, PermanentError, ProsodyClient, Success, TransientError


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


BEGUN = datetime.now(timezone.utc)


def soon(seconds: int) -> datetime:
    """A time that is the same for each call of an attempt."""
    return BEGUN.replace(microsecond=0) + timedelta(seconds=seconds)


def fields(kind: str, message: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": round(message.timestamp.timestamp() * 1000),
        "key": message.key,
        "payload": getattr(message, "payload", None),
        "source": message.source_system,
        "asked": message.response_requested,
    }


class Handler(EventHandler):
    def __init__(self) -> None:
        self.failed: set[str] = set()

    async def on_message(self, context: Any, message: Any) -> Any:
        say(seen=fields("message", message))
        payload = message.payload
        match payload.get("do"):
            case "permanent":
                raise PermanentError("no such order")
            case "later" if message.key not in self.failed:
                self.failed.add(message.key)
                raise TransientError("not yet")
            case "large":
                return "x" * payload["size"]
            case "fail":
                raise TransientError("boom")
            case "timer":
                await context.schedule(datetime.now(timezone.utc) + timedelta(seconds=1))
            case "moved":
                await context.schedule(soon(3600))
                await context.clear_and_schedule(soon(7200))
                await context.unschedule(soon(7200))
        return payload.get("value")

    async def on_excise(self, context: Any, message: Any) -> Any:
        say(seen=fields("excise", message))
        return {"gone": message.key}

    async def on_timer(self, context: Any, timer: Any) -> None:
        say(seen={"kind": "timer", "key": timer.key})
        if timer.key.endswith("failed"):
            raise PermanentError("no such timer")


def shown(outcome: Any) -> Any:
    if isinstance(outcome, Success):
        return {"success": outcome.value}
    assert isinstance(outcome, Failure)
    return {"failure": type(outcome.error).__name__, "message": outcome.error.message}


async def serve(client: Any, command: dict[str, Any]) -> Any:
    match command.pop("do"):
        case "subscribe":
            await client.subscribe(Handler())
            # Neither package has an event for it.
            while not await client.assigned_partition_count():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        case "send":
            await client.send(command["topic"], command["key"], command["payload"])
        case "excise":
            await client.excise(command["topic"], command["key"])
        case "request":
            outcomes = await client.request(
                command["topic"],
                command["key"],
                command["payload"],
                subsystems=command["subsystems"],
                timeout=command["timeout"],
            )
            return {name: shown(outcome) for name, outcome in outcomes.items()}
        case "request_excise":
            outcomes = await client.request_excise(
                command["topic"],
                command["key"],
                subsystems=command["subsystems"],
                timeout=command["timeout"],
            )
            return {name: shown(outcome) for name, outcome in outcomes.items()}
    return None


async def main() -> None:
    client = await ProsodyClient.create(**json.loads(sys.argv[1]))
    say(answer="ready")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        say(answer=await serve(client, json.loads(line)))
    await client.shutdown()


asyncio.run(main())
