"""Runs the programs of the documentation, and checks what it names: `docs.py [FILE...]`.

The blocks of one language in one section (##) make one program, in their order. An HTML comment that
begins with the language adds lines that readers do not need. Programs run in mock mode. Python may
await at the top level. Blocks of `sh` are checked for syntax, and for the make targets and files that
they name. Links and tests that are named (`path::name`) must exist.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 60
BLOCK = re.compile(r"^ *(?:```(\w+)\n(.*?)^ *```|<!--(python|ruby|c)\n(.*?)^-->)", re.M | re.S)
TEST = re.compile(r"`([\w./-]+\.(?:py|rb|go|c|cpp|sh))(?:::([^`]+))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
AWAIT = """
import ast, asyncio, sys
code = compile(open(sys.argv[1]).read(), sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
async def main():
    result = eval(code, names)
    if result is not None:
        await result
asyncio.run(main()) if code.co_flags & 0x80 else eval(code, names)
"""


def programs(text: str) -> list[tuple[str, str, str]]:
    """Title, language and source of each program of a page."""
    found = []
    for section in re.split(r"^(?=## )", text, flags=re.M):
        title = section.splitlines()[0] if section else ""
        sources: dict[str, list[str]] = {}
        for block in BLOCK.finditer(section):
            language, source = block[1] or block[3], block[2] or block[4]
            sources.setdefault(language, []).append(source)
        found += [(title, language, "\n".join(parts)) for language, parts in sources.items()]
    return found


def command(language: str, source: str, folder: Path) -> list[str] | None:
    """What runs a program; None when there is nothing to run."""
    library = ROOT / "build" / "lib"
    if language == "python":
        (folder / "program.py").write_text(source)
        (folder / "run.py").write_text(AWAIT)
        if "def test_" in source:
            (folder / "program.py").rename(folder / "test_program.py")
            plugin = ["-p", "prosody.testing.plugin"]
            return [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider", str(folder)]
        return [sys.executable, str(folder / "run.py"), str(folder / "program.py")]
    if language == "ruby":
        (folder / "program.rb").write_text(source)
        paths = [f"-I{ROOT / 'bindings/ruby/lib'}"]
        if re.search(r"^(RSpec\.)?describe|^it ", source, re.M):
            return ["rspec", *paths, str(folder / "program.rb")]
        return ["ruby", *paths, str(folder / "program.rb")]
    if language == "c":
        (folder / "program.c").write_text(source)
        compile_ = f"cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -I{ROOT}/include"
        if "int main(" not in source:
            return ["sh", "-c", f"{compile_} -Wno-unused -fsyntax-only {folder}/program.c"]
        link = f"-L{library} -lprosody -Wl,-rpath,{library}"
        return ["sh", "-c", f"{compile_} {folder}/program.c -o {folder}/program {link} && {folder}/program"]
    if language == "sh":
        (folder / "program.sh").write_text(source)
        return ["bash", "-n", str(folder / "program.sh")]
    return None


def run(language: str, source: str) -> str:
    """Runs a program and gives what went wrong."""
    with tempfile.TemporaryDirectory(prefix="prosody-docs-") as name:
        wanted = command(language, source, Path(name))
        if wanted is None:
            return ""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PROSODY_")}
        environment |= {
            "PYTHONPATH": str(ROOT / "bindings" / "python"),
            "PROSODY_MOCK": "true",
            "PROSODY_BOOTSTRAP_SERVERS": "docs",
            "PROSODY_SOURCE_SYSTEM": "docs-sender",
            "PROSODY_PROBE_PORT": "none",
        }
        try:
            ended = subprocess.run(
                wanted,
                cwd=name,
                env=environment,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired as late:
            return f"ran longer than {LIMIT_S} s\n{late.stdout}"
        bad = ended.returncode or re.search("Traceback|handling failed", ended.stdout)
        return f"exit {ended.returncode}\n{ended.stdout}" if bad else ""


def named(page: Path, text: str) -> list[str]:
    """Links, tests, make targets and scripts that a page names, and that do not exist."""
    faults = []
    for link in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S)):
        if not (page.parent / link).exists():
            faults.append(f"link to {link}")
    for path, name in TEST.findall(text):
        if not name and "/" not in path:
            continue
        file = ROOT / path
        if not file.is_file():
            faults.append(f"no file {path}")
            continue
        content = file.read_text()
        shapes = {".py": f"def {name}(", ".go": f"func {name}(", ".rb": f'"{name}"'}
        if name and shapes.get(file.suffix, name) not in content:
            faults.append(f"no {name} in {path}")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    faults += [f"no target {one}" for one in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.M) if one not in targets]
    return faults


def main(arguments: list[str]) -> int:
    pages = [Path(name).resolve() for name in arguments] or [
        ROOT / name
        for name in ["README.md", "CONTRIBUTING.md", "tests/cases.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]
    ]
    failed = count = tests = 0
    for page in pages:
        text = page.read_text()
        tests += sum(1 for _, name in TEST.findall(text) if name)
        for fault in named(page, text):
            failed += 1
            print(f"{page.relative_to(ROOT)}: {fault}")
        for title, language, source in programs(text):
            fault = run(language, source)
            count += language in ("python", "ruby", "c")
            if fault:
                failed += 1
                print(f"{page.relative_to(ROOT)} {title} [{language}]: {fault}")
    print(f"{len(pages)} pages, {count} programs, {tests} tests named, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
