"""Documents: the program accepts every command line in them, and manuals name every option of their commands."""

import os
import re
import shlex

import harness

ROOT = os.path.join(harness.TESTS_DIR, "..")


def documents():
    """CONTRIBUTING.md and every README."""
    yield "CONTRIBUTING.md"
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name != "build" and name[0] != "."]
        if "README.md" in names:
            yield os.path.relpath(os.path.join(folder, "README.md"), ROOT)


def commands(text):
    """Command lines of the program, from fenced blocks and from code between backticks."""
    lines = []
    for block in re.findall(r"(?ms)^```\w*\n(.*?)^```", text):
        lines += block.replace("\\\n", " ").splitlines()
    lines += re.findall(r"`(yoke [^`]*)`", re.sub(r"(?ms)^```.*?^```", "", text).replace("\n", " "))
    found = []
    for line in lines:
        for part in re.split(r" \| | && |; ", line):
            if part.startswith("yoke ") and "..." not in part and not part.startswith("yoke COMMAND"):
                found.append(shlex.split(part, comments=True)[1:])
    return found


class Documents(harness.Case):
    def read(self, name):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            return file.read()

    def options(self, *command):
        return set(re.findall(r"(?m)^  (?:-\w, |--\w+, )?--([\w-]+)", self.run_yoke(*command, "--help").out))

    def test_commands(self):
        """Parsed up to --help, which is last."""
        folder = harness.scratch_folder(self.addCleanup)
        with open(os.path.join(folder, "keys.txt"), "w", encoding="utf-8") as file:
            file.write("key\n")
        n_commands = 0
        for name in documents():
            for words in commands(self.read(name)):
                n_commands += 1
                words = [os.path.join(folder, word) if word == "keys.txt" else word for word in words]
                with self.subTest(name, command=words):
                    out = self.run_yoke(*words, "--help").out
                    self.assertIn("yoke", out)
                    if words[0][0] != "-":
                        self.assertTrue(out.startswith(f"Usage: yoke {words[0]} "), out[:60])
        self.assertGreater(n_commands, 60)

    def test_tables_of_options(self):
        shared = self.options("score") - {"text", "text-file", "token-ids", "window", "stride", "tokens", "format"}
        for document, *names in (("runtime/server/README.md", ["serve"]), ("runtime/study/README.md", ["study"]),
                                 ("runtime/quantize/README.md", ["quantize"], ["convert"])):
            text = self.read(document)
            for command in names:
                for option in sorted(self.options(*command) - shared):
                    with self.subTest(document, option=option):
                        self.assertTrue(re.search(rf"--{option}(?![\w-])", text), f"expected --{option} in the manual")


if __name__ == "__main__":
    harness.main()
