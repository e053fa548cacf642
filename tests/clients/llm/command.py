"""The program llm: prompts, streams, and --schema."""

import json
import os
import subprocess
import sys
import tempfile

MODEL = """- model_id: demo
  model_name: demo
  api_base: "{url}"
  api_key_name: demo
  supports_schema: true
  supports_tools: true
"""
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["Ada", "Lily"]}, "age": {"enum": [7, 8]}},
          "required": ["name", "age"], "additionalProperties": False}


def run(*arguments):
    done = subprocess.run([os.path.join(os.path.dirname(sys.executable), "llm"), *arguments], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, (arguments, done)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    os.environ["LLM_USER_PATH"] = folder
    with open(os.path.join(folder, "extra-openai-models.yaml"), "w", encoding="utf-8") as file:
        file.write(MODEL.format(url=os.environ["OPENAI_BASE_URL"]))
    run("keys", "set", "demo", "--value", os.environ["OPENAI_API_KEY"])
    assert "demo" in run("models")
    short = ("-m", "demo", "-o", "temperature", "0", "-o", "max_tokens", "8", "17+25=")
    assert run(*short) == run(*short, "--no-stream")
    for more in ((), ("--no-stream", "-o", "temperature", "1")):
        person = json.loads(run("-m", "demo", "--schema", json.dumps(SCHEMA), "Who?", *more))
        assert person["name"] in ("Ada", "Lily") and person["age"] in (7, 8), person
    count = json.loads(run("-m", "demo", "--schema", "count int", "-o", "seed", "3", "Who?"))
    assert isinstance(count["count"], int), count
    run("-m", "demo", "-T", "llm_version", "-o", "max_tokens", "8", "Who?")
