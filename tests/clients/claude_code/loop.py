"""Claude Code against `yoke serve`, unchanged: the program in the package `claude-agent-sdk` reads a file, searches for
a further tool, edits the file and answers, as a scripted model directs.
"""

import json
import os
import subprocess
import sys

import harness
from chain_case import make_chain_model
from server_case import Case

BUG, FIX = "a - b", "a + b"
SCRIPT = r"""
import asyncio
import json
import sys
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

async def run():
    options = ClaudeAgentOptions(model="demo", cwd=sys.argv[1], permission_mode="acceptEdits", max_turns=8,
                                 setting_sources=[], allowed_tools=["Read", "Edit", "ToolSearch"])
    async for message in query(prompt="The function add in calc.py is wrong. Fix it.", options=options):
        if isinstance(message, ResultMessage):
            print(json.dumps({"result": message.result, "is_error": message.is_error, "turns": message.num_turns}))

asyncio.run(run())
"""
# The last token of the prompt is the number of results. A deferred tool is offered once the search has found it.
TEMPLATE = ("{% set ns = namespace(results=0) %}{% for message in messages %}{% if message.role == 'tool' %}"
            "{% set ns.results = ns.results + 1 %}{% endif %}{% endfor %}"
            "{% set names = tools | map(attribute='function') | map(attribute='name') | list %}"
            "{% set has_found = 'NotebookEdit' in names %}{% set has_placeholder = 'Placeholder' in names | join %}"
            "{% if has_found != (ns.results > 1) or has_placeholder %}"
            "{{ raise_exception('tools: ' ~ names) }}{% endif %}"
            "{{ messages | length }}{{ '<after ' ~ ns.results ~ '>' }}")


def steps(path):
    """Each piece of a call has one successor, so that the pieces of different calls differ."""
    calls = [("Read", {"file_path": path}), ("ToolSearch", {"query": "select:NotebookEdit"}),
             ("Edit", {"file_path": path, "old_string": BUG, "new_string": FIX})]
    found = {f"<after {len(calls)}>": "Fixed."}
    for i, (name, arguments) in enumerate(calls):
        pieces = [f"<after {i}>", "<think>" + "\n" * i, f"Step {i}.", "\n" * i + "</think>", "<tool_call>" + "\n" * i,
                  json.dumps({"name": name, "arguments": arguments}), "\n" * i + "</tool_call>"]
        found.update(zip(pieces, pieces[1:], strict=False))
    return found


@harness.of_the_program
class ClaudeCode(Case):
    def test_a_fixed_bug(self):
        folder = harness.scratch_folder(self.addCleanup)
        home, work = os.path.join(folder, "home"), os.path.join(folder, "work")
        os.mkdir(home)
        os.mkdir(work)
        path = os.path.join(os.path.realpath(work), "calc.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"def add(a, b):\n    return {BUG}\n")
        server = self.serve("--api-key", "secret", "--served-model-name", "demo", "--tool-call-parser", "hermes",
                            "--reasoning-parser", "qwen3",
                            model=make_chain_model(os.path.join(folder, "model"), steps(path), TEMPLATE))
        alone = {"PATH": os.environ["PATH"], "HOME": home, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}",
                 "ANTHROPIC_AUTH_TOKEN": "secret", "ANTHROPIC_DEFAULT_HAIKU_MODEL": "demo", "DISABLE_AUTOUPDATER": "1",
                 "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        done = subprocess.run([sys.executable, "-c", SCRIPT, work], capture_output=True, timeout=harness.TIMEOUT_S,
                              check=False, env=alone, stdin=subprocess.DEVNULL)
        said = done.stdout.decode() + done.stderr.decode() + server.err
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual(json.loads(done.stdout), {"result": "Fixed.", "is_error": False, "turns": 4}, said)
        with open(path, encoding="utf-8") as file:
            self.assertIn(FIX, file.read())
        self.assertNotIn('the field "', server.err)


if __name__ == "__main__":
    harness.main()
