"""Runs a test's program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PRELUDE = """
import asyncio, gc, os, signal, sys, threading, time
from prosody import AdminClient, EventHandler, ProsodyClient

class Handler(EventHandler):
    async def on_message(self, context, message):
        print("message", message.payload, flush=True)
        await work(context, message)
    on_excise = on_timer = on_message

async def work(context, message): pass

def make(**more):
    options = dict(bootstrap_servers="local", mock=True, group_id="g", source_system="s",
                   subscribed_topics="t", shutdown_timeout=3.0) | more
    return ProsodyClient.create(**options)
"""


def start(source: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(source)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


def run(source: str, limit: float = 60, **environment: str) -> tuple[int, str]:
    process = start(source, **environment)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"hangs: {process.communicate()[0]}") from None
    return process.returncode, output
