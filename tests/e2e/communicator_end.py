"""A program ends without exit handlers, but with all its output, while a library still destroys its communicator. Runs
yoke_with_faults: see fault/hook/fault_hook.h."""

import os
from unittest import mock

import harness
import server_case

EXIT_HANDLERS = "hook: exit handlers"


class CommunicatorEnd(server_case.Case):
    def fault(self, kind):
        return f"rank=1 operation=destroy call=1 fault={kind}"

    def generate(self, kind):
        with mock.patch.object(self, "yoke", self.faulty), mock.patch.dict(os.environ, YOKE_FAULT=self.fault(kind)):
            done = self.run_yoke("generate", "--model", os.path.join(harness.FAMILIES, "qwen3"), "--device", "cpu",
                                 "--tp", 2, "--token-ids", "1,17,93", "--max-tokens", 4, "--ignore-eos")
        self.assertIn("1 request (0 failed)", done.err)
        self.assertIn("hook: rank 1, destroy", done.out)
        return done.err

    def serve_and_stop(self, kind):
        server = self.serve("--tp", 2, program=self.faulty, env={"YOKE_FAULT": self.fault(kind)})
        self.assertEqual(server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status, 200)
        self.assertEqual(server.stop(), 0)
        return server.err

    def test_exit_handlers_run_once_it_is_destroyed(self):
        self.assertIn(EXIT_HANDLERS, self.generate("skip"))
        self.assertIn(EXIT_HANDLERS, self.serve_and_stop("skip"))

    def test_no_exit_handlers_while_it_lives(self):
        self.assertNotIn(EXIT_HANDLERS, self.generate("error"))
        self.assertNotIn(EXIT_HANDLERS, self.serve_and_stop("error"))


if __name__ == "__main__":
    harness.main()
