"""Models by their names on Hugging Face's hub, from a cache in the layout of `hf download`; nothing is downloaded."""

import json
import os
import shutil

import harness

COMMIT, OTHER = "c0ffee" + "0" * 34, "beef" + "1" * 36
SHARDED = os.path.join(harness.FAMILIES, "qwen3")


def fill(cache, name, source, commit=COMMIT, revision="main"):
    """Links into blobs, like the hub's tools; returns the model's folder in the cache."""
    folder = os.path.join(cache, "models--" + name.replace("/", "--"))
    snapshot = os.path.join(folder, "snapshots", commit)
    for part in ("refs", "blobs", os.path.join("snapshots", commit)):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    if revision:
        path = os.path.join(folder, "refs", revision)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(commit)
    for number, entry in enumerate(sorted(os.listdir(source))):
        if not os.path.isfile(os.path.join(source, entry)):
            continue
        blob = f"{commit[:8]}{number:04d}"
        shutil.copy(os.path.join(source, entry), os.path.join(folder, "blobs", blob))
        os.symlink(os.path.join("..", "..", "blobs", blob), os.path.join(snapshot, entry))
    return folder


@harness.of_the_program
class HubCache(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = harness.scratch_folder(cls.addClassCleanup)
        cls.cache = os.path.join(cls.folder, "hub")
        fill(cls.cache, "org/demo", harness.DEMO)
        fill(cls.cache, "org/demo", SHARDED, OTHER, "refs/pr/1")
        fill(cls.cache, "demo", harness.DEMO)
        cls.empty = os.path.join(cls.folder, "empty")
        os.makedirs(cls.empty)

    def setUp(self):
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)
        os.environ["HOME"] = self.empty

    def ask(self, *arguments):
        done = self.run_yoke("generate", *arguments, "--device", "cpu", "-p", "17+25=", "--temperature", 0,
                             "--kv-cache-bytes", "16MiB", "--log-level", "warn")
        return done.out.strip()

    def test_places(self):
        """Environment variables have the same precedence as in the hub's tools; --download-dir overrides all of
        them."""
        os.environ["HF_HUB_CACHE"] = self.cache
        self.assertEqual(self.ask("org/demo"), "42")
        self.assertEqual(self.ask("--model", "org/demo", "--tokenizer", "org/demo"), "42")
        os.environ["HF_HUB_CACHE"] = self.empty
        self.assertEqual(self.ask("org/demo", "--download-dir", self.cache), "42")
        del os.environ["HF_HUB_CACHE"]
        os.environ["HF_HOME"] = self.folder
        self.assertEqual(self.ask("org/demo"), "42")
        home = os.path.join(self.folder, "home")
        os.makedirs(os.path.join(home, ".cache", "huggingface"))
        os.symlink(self.cache, os.path.join(home, ".cache", "huggingface", "hub"))
        os.environ["HOME"] = home
        os.environ["HF_HOME"] = "~/.cache/huggingface"
        self.assertEqual(self.ask("org/demo"), "42")
        del os.environ["HF_HOME"]
        self.assertEqual(self.ask("org/demo"), "42")
        os.environ.update(HOME=self.empty, XDG_CACHE_HOME=os.path.join(home, ".cache"))
        self.assertEqual(self.ask("org/demo"), "42")
        os.environ.update(XDG_CACHE_HOME=self.empty, HUGGINGFACE_HUB_CACHE=self.cache)
        self.assertEqual(self.ask("org/demo"), "42")
        self.assertEqual(self.ask("demo"), "42")

    def test_commands(self):
        os.environ["HF_HUB_CACHE"] = self.cache
        self.assertEqual(self.run_yoke("tokenize", "-m", "org/demo", "17+25=").out,
                         self.run_yoke("tokenize", "-m", harness.DEMO, "17+25=").out)
        self.assertTrue(self.run_json("plan", "org/demo", "--device", "cpu", "--tp", 1)[0]["fits"])
        done = self.run_yoke("batch", "org/demo", "-", "--device", "cpu", "--kv-cache-bytes", "16MiB",
                             stdin='{"custom_id": "a", "method": "POST", "url": "/v1/completions", '
                                   '"body": {"prompt": "17+25="}}\n')
        self.assertEqual(json.loads(done.out)["response"]["body"]["model"], "org/demo")
        out = os.path.join(self.folder, "converted")
        self.assert_error(["convert", "org/none", "--to", "awq", "-o", out], "hf download org/none")
        self.assert_error(["quantize", "org/none", "-o", out], "hf download org/none")

    def test_revisions(self):
        os.environ["HF_HUB_CACHE"] = self.cache
        self.assertEqual(self.ask("org/demo", "--revision", COMMIT), "42")
        for revision in (OTHER, "refs/pr/1"):
            self.assertEqual(self.run_json("plan", "org/demo", "--revision", revision, "--device", "cpu", "--tp", 1),
                             self.run_json("plan", SHARDED, "--device", "cpu", "--tp", 1))
        self.assert_error(["generate", "org/demo", "--revision", "v2", "-p", "x"], "no revision v2",
                          "hf download org/demo --revision v2, or take (--revision) one of: main\n")
        half = fill(self.cache, "org/half", harness.DEMO)
        shutil.rmtree(os.path.join(half, "snapshots", COMMIT))
        self.assert_error(["generate", "org/half", "-p", "x"],
                          "no revision main of it in the Hugging Face cache, nor any other; download it")
        for revision in ("../x", "", "/etc"):
            self.assert_error(["generate", "org/demo", "--revision", revision, "-p", "x"], "--revision: ")

    def test_a_directory_wins(self):
        os.environ["HF_HUB_CACHE"] = self.empty
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        shutil.copytree(harness.DEMO, os.path.join(self.folder, "org", "demo"))
        self.addCleanup(shutil.rmtree, os.path.join(self.folder, "org"))
        self.assertEqual(self.ask("org/demo"), "42")

    def test_not_there(self):
        os.environ["HF_HUB_CACHE"] = self.cache
        for command in (["generate", "-p", "x"], ["chat"], ["score", "--text", "x"], ["serve", "--port", "0"],
                        ["bench"], ["plan"], ["batch", "-"]):
            with self.subTest(command):
                self.assert_error([command[0], "--model", "org/none", *command[1:]],
                                  "org/none: no such directory, and not in the Hugging Face cache; download it: "
                                  "hf download org/none (")
        for path in ("org/../none", "a/b/none", "-x/none", "org/.none", "org/none/"):
            self.assert_error(["plan", "--model", path], path + ": No such file or directory\n")
        self.assert_error(["generate", "none", "-p", "x"], "none: No such file or directory", "ORG/NAME")
        self.assert_error(["generate", harness.DEMO, "--tokenizer", "org/none", "-p", "x"],
                          "--tokenizer: org/none: no such directory")

    def test_incomplete(self):
        cache = os.path.join(self.folder, "incomplete")
        os.environ["HF_HUB_CACHE"] = cache
        folder = fill(cache, "org/demo", harness.DEMO)
        snapshot = os.path.join(folder, "snapshots", COMMIT)
        weights = os.path.join(snapshot, "model.safetensors")
        arguments = ["generate", "org/demo", "-p", "x", "--device", "cpu"]

        def refused(*parts):
            self.assert_error(arguments, "org/demo: its download in the Hugging Face cache is incomplete; finish it: "
                              "hf download org/demo; missing: ", *parts)

        blob = os.path.join(snapshot, os.readlink(weights))
        os.rename(blob, blob + ".incomplete")
        refused("model.safetensors", "1 blobs are .incomplete")
        os.unlink(weights)
        refused("model.safetensors or its index")
        self.assertTrue(self.run_json("plan", "org/demo", "--device", "cpu", "--tp", 1)[0]["fits"])
        for shard in ("model-00001-of-00004.safetensors", "model-00003-of-00004.safetensors"):
            with open(os.path.join(snapshot, shard), "wb"):
                pass
        refused("model.safetensors.index.json")
        names = [f"model-0000{i}-of-00009.safetensors" for i in range(1, 9)]
        with open(os.path.join(snapshot, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"weight_map": {f"t{i}": names[i % 8] for i in range(32)}}, file)
        refused(", ".join(names[:3]) + " and 5 more")
        os.unlink(os.path.join(snapshot, "config.json"))
        with open(os.path.join(snapshot, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.assert_error(arguments, "model.safetensors.index.json: line 1 column 2: ")
        os.unlink(os.path.join(snapshot, "model.safetensors.index.json"))
        refused("config.json")


if __name__ == "__main__":
    harness.main()
