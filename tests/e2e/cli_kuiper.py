"""KuiperLLama model files through the program: the same answers as the same model as AWQ safetensors, on any number of
ranks; the tokenizer next to the file or elsewhere; faults of a file are named."""

import json
import os
import shutil

import harness
from safetensors_case import read_tensors, write_tensors
from server_case import Server

KUIPER = os.path.join(harness.TESTS_DIR, "golden", "kuiper")
QWEN3_ROPE_THETA = 1e6  # implied by the format


def add_head(tensors):
    """The embedding's rows in reverse, as in golden/make_kuiper_goldens.py."""
    dtype, shape, content = tensors["model.embed_tokens.weight"]
    size = len(content) // shape[0]
    rows = [content[i * size:(i + 1) * size] for i in reversed(range(shape[0]))]
    tensors["lm_head.weight"] = (dtype, shape, b"".join(rows))


def make_twin(name, folder):
    """The model of golden/kuiper/NAME.bin as AWQ safetensors."""
    shutil.copytree(os.path.join(harness.FAMILIES, {"tied": "qwen3", "untied": "qwen3_group_all"}[name]), folder)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config.update(rope_theta=QWEN3_ROPE_THETA, tie_word_embeddings=name == "tied", eos_token_id=None, bos_token_id=None)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    if name == "untied":
        tensors = read_tensors(folder)
        add_head(tensors)
        write_tensors(folder, tensors)
    return folder


class Kuiper(harness.Case):
    def setUp(self):
        self.scratch = harness.scratch_folder(self.addCleanup)

    def answers(self, model, *options):
        results = self.run_json("generate", "--model", model, "--device", "cpu", "--dtype", "float32", "--temperature",
                                0, "-n", 12, "--logprobs", 8, "--prompt-logprobs", 0, "--token-ids", "5,9,77,3",
                                "--token-ids", "150", *options)
        return [{key: result[key] for key in ("token_ids", "logprobs", "prompt_logprobs")} for result in results]

    def test_answers_are_those_of_the_same_model_in_safetensors(self):
        for name in ("tied", "untied"):
            twin = make_twin(name, os.path.join(self.scratch, name))
            for n_ranks in (3,) if harness.is_sanitized(self.yoke) else (1, 2, 3, 4):
                with self.subTest(name, n_ranks=n_ranks):
                    self.assertEqual(self.answers(os.path.join(KUIPER, name + ".bin"), "--tp", n_ranks),
                                     self.answers(twin, "--tp", n_ranks))

    def test_a_tokenizer_in_the_folder_or_elsewhere(self):
        text = harness.make_text_model(os.path.join(self.scratch, "text"))
        tokenizer = os.path.join(text, "tokenizer.json")
        beside = os.path.join(self.scratch, "beside")
        os.mkdir(beside)
        model = shutil.copy(os.path.join(KUIPER, "tied.bin"), beside)
        ask = ["--device", "cpu", "--prompt", "the and", "-n", 4]
        self.assert_error(["generate", "--model", model, *ask], "tokenizer.json")
        self.assert_error(["generate", "--model", model, "--tokenizer", self.scratch, *ask], self.scratch,
                          "tokenizer.json")
        self.assert_error(["tokenize", "--model", model, "the and"], "tokenizer.json")
        expected = self.run_yoke("generate", "--model", model, "--tokenizer", text, *ask).out
        self.assertEqual(self.run_yoke("generate", "--model", model, "--tokenizer", tokenizer, *ask).out, expected)
        shutil.copy(tokenizer, beside)
        for path in (model, beside):
            self.assertEqual(self.run_yoke("generate", "--model", path, *ask).out, expected)
            self.assertEqual(self.run_yoke("tokenize", "--model", path, "the and").out,
                             self.run_yoke("tokenize", "--model", tokenizer, "the and").out)

    def test_a_chat_template_comes_from_where_the_tokenizer_is(self):
        text = harness.make_text_model(os.path.join(self.scratch, "text"))
        with open(os.path.join(text, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write("{{ messages[0].content }} and")
        model = os.path.join(KUIPER, "tied.bin")
        chat = ("chat", "--model", model, "--device", "cpu", "--max-tokens", 4)
        self.assertNotEqual(self.run_yoke(*chat, "--tokenizer", text, stdin="the\n").out, "")
        self.run_yoke(*chat, stdin="the\n", expect=1)
        server = Server(self.yoke, "--tokenizer", text, model=model)
        self.addCleanup(server.stop)
        server.wait_for()
        body = {"messages": [{"role": "user", "content": "the"}], "max_tokens": 2}
        answer = server.post("/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.value["usage"]["completion_tokens"], 2)

    def test_a_batch_checks_the_file_and_the_tokenizer(self):
        """A run may continue another's results only with the same weights and tokenizer."""
        text = harness.make_text_model(os.path.join(self.scratch, "text"))
        model = shutil.copy(os.path.join(KUIPER, "tied.bin"), self.scratch)
        lines, output = (os.path.join(self.scratch, name) for name in ("in.jsonl", "out.jsonl"))
        with open(lines, "w", encoding="utf-8") as file:
            file.write('{"prompt": "the"}\n')

        def run(expect=0, tokenizer=text):
            return self.run_yoke("batch", "--model", model, "--tokenizer", tokenizer, "--device", "cpu", "-n", 2, lines,
                                 "-o", output, expect=expect).err
        run()
        run()
        with open(os.path.join(text, "tokenizer.json"), "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertIn("--overwrite", run(expect=1))
        with open(os.path.join(text, "tokenizer.json"), "r+", encoding="utf-8") as file:
            file.truncate(os.path.getsize(file.name) - 1)
        run()
        with open(model, "r+b") as file:
            file.seek(1000)
            file.write(b"\x01")
        self.assertIn("--overwrite", run(expect=1))

    def test_plans(self):
        twin = make_twin("tied", os.path.join(self.scratch, "tied"))
        plans = [self.run_json("plan", "--model", model, "--device", "cpu") for model in
                 (os.path.join(KUIPER, "tied.bin"), twin)]
        for found, expected in zip(plans[0][:-1], plans[1][:-1], strict=True):
            self.assertEqual(found["ranks"], expected["ranks"])

    def test_bad_files_are_named(self):
        with open(os.path.join(KUIPER, "tied.bin"), "rb") as file:
            whole = file.read()
        path = os.path.join(self.scratch, "bad.bin")
        for content, parts in ((whole[:-1], ["bytes for the sizes in its header", "found"]),
                               (whole[:8] + b"\0" * 4 + whole[12:], ["dim", "found 0"]),
                               (whole[:4] + b"\4" + whole[5:], ["version", "expected 5, found 4"]),
                               (b"PK\3\4" + whole[4:], ["KuiperLLama file"])):
            with open(path, "wb") as file:
                file.write(content)
            for n_ranks in (1, 3):
                self.assert_error(["generate", "--model", path, "--device", "cpu", "--token-ids", "5", "--tp", n_ranks],
                                  "bad.bin", *parts)

    def test_scales_that_are_no_numbers(self):
        with open(os.path.join(KUIPER, "tied.bin"), "rb") as file:
            content = bytearray(file.read())
        at = 256 + 2 * 64 * 5 + 2 * 200 * 64 + 64 * 96 // 2 + 2 * 96 // 2  # norms, embedding, q of layer 0
        content[at:at + 2] = b"\x00\x7e"
        path = os.path.join(self.scratch, "nan.bin")
        with open(path, "wb") as file:
            file.write(content)
        self.assert_error(["generate", "--model", path, "--device", "cpu", "--token-ids", "5"],
                          "model.layers.0.self_attn.q_proj.qweight", "scale of group 0, output 0", "finite")


if __name__ == "__main__":
    harness.main()
