"""Each example is a program that starts, and that ends in order when it is asked to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

OPTIONS = {
    "PROSODY_MOCK": "true",
    "PROSODY_BOOTSTRAP_SERVERS": "mock",
    "PROSODY_GROUP_ID": "example",
    "PROSODY_SUBSCRIBED_TOPICS": "orders",
}


@pytest.mark.parametrize("name", ["counter", "window", "orders"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_starts_and_ends(name, number):
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name(f"{name}.py")],
        env=os.environ | OPTIONS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        line = program.stdout.readline()
        program.send_signal(number)
        _, errors = program.communicate(timeout=30)
    assert "until Ctrl-C" in line
    assert (program.returncode, errors) == (0, "")
