"""The client openai: embeddings, as base64 and as floats, against goldens of sentence-transformers."""

import json
import os

import harness
import openai
from openai import OpenAI
from server_case import Case

MODEL = os.path.join(harness.TESTS_DIR, "golden", "embeddings", "tied")


@harness.of_the_program
class Embeddings(Case):
    def test_embeddings(self):
        server = self.serve("--dtype", "float32", "--served-model-name", "demo", "--api-key", "secret", model=MODEL)
        client = OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="secret", max_retries=0)
        with open(os.path.join(MODEL, "golden.json"), encoding="utf-8") as file:
            texts = json.load(file)["texts"]
        for fields in ({}, {"encoding_format": "float"}):
            found = client.embeddings.create(model="demo", input=[text["text"] for text in texts], **fields)
            for entry, text in zip(found.data, texts, strict=True):
                worst = max(abs(a - b) for a, b in zip(entry.embedding, text["embedding"], strict=True))
                self.assertLess(worst, 1e-3)
            self.assertEqual(found.usage.prompt_tokens, sum(len(text["token_ids"]) for text in texts))
        found = client.embeddings.create(model="demo", input=texts[0]["token_ids"], dimensions=24)
        self.assertEqual(len(found.data[0].embedding), 24)
        for fields, error in (({"dimensions": 65}, openai.BadRequestError), ({"model": "x"}, openai.NotFoundError)):
            with self.assertRaises(error):
                client.embeddings.create(**{"model": "demo", "input": "x", **fields})
        self.assertEqual(client.models.list().data[0].id, "demo")


if __name__ == "__main__":
    harness.main()
