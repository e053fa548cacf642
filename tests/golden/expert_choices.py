"""Prompts for mixtures of experts without rows near a tie between experts, and without large errors of 16 bits.

A row whose last chosen expert is as good as the first unchosen one takes another expert when its activations are
rounded to 16 bits, and its logits then change by as much as a third of an FFN: transformers' own class differs there
between bfloat16 and float32. A score is a logit, or a sigmoid of one plus the expert's correction; margins are in
logits (the sigmoid rises by a quarter of its logit at most). In bfloat16 a router's logits are off by 0.1 at most in
these models.
"""

import copy

import torch

import goldens

MIN_MARGIN = 0.1
MAX_ROUNDING = 0.1  # largest error of an answer's log-probability in the class in bfloat16: GPUs must be within 0.16
N_OUTPUT_TOKENS = 12


class Choices:
    """Records, for each row of the model's last forward, the margins of its choices of experts."""

    def __init__(self, config, model):
        self.config, self.margins = config, []
        model.register_forward_pre_hook(lambda module, args: self.margins.clear())
        for name, module in model.named_modules():
            is_router = name.endswith(("mlp.gate", "mlp.router", "block_sparse_moe.gate", "block_sparse_moe.router",
                                       "mlp.gate.wg", "mixer.gate", "feed_forward.router"))
            if is_router and hasattr(module, "weight"):  # Hunyuan's mlp.gate holds wg
                module.register_forward_hook(self.note)

    def gap(self, scores, n_chosen):
        """Difference between a row's last chosen score and its first unchosen score, if any."""
        ordered = scores.sort(-1, descending=True).values
        if n_chosen < scores.shape[-1]:
            self.margins.append(ordered[:, n_chosen - 1] - ordered[:, n_chosen])

    @torch.no_grad()
    def note(self, router, args, out):
        x = args[0].reshape(-1, self.config["hidden_size"])
        bias = getattr(router, "bias", None)
        scores = torch.nn.functional.linear(x.float(), router.weight.float(), None if bias is None else bias.float())
        correction = getattr(router, "e_score_correction_bias", None)
        if correction is not None:
            scores = 4 * (scores.sigmoid() + correction)
        if hasattr(router, "moe_statics"):  # Ernie 4.5; a softmax, too, rises by a quarter of its logit at most
            scores = 4 * (scores.softmax(-1) + router.moe_statics.e_score_correction_bias.float())
        if correction is not None or self.config.get("topk_method") == "group_limited_greedy":
            groups = scores.view(len(scores), self.config["n_group"], -1)
            of_group = groups.topk(1 if correction is None else 2, -1).values.sum(-1)
            self.gap(of_group, self.config["topk_group"])
            kept = torch.zeros_like(of_group).scatter_(1, of_group.topk(self.config["topk_group"], -1).indices, 1.0)
            scores = groups.masked_fill(kept[..., None] == 0, -torch.inf).flatten(1)
        n_chosen = next(self.config[key] for key in ("moe_k", "moe_topk", "num_experts_per_tok") if key in self.config)
        self.gap(scores, n_chosen)

    def are_clear(self):
        return all((margins > MIN_MARGIN).all() for margins in self.margins)


def in_bfloat16(model):
    """The model with weights and activations in bfloat16; corrections of its routers and frequencies stay float32."""
    half = torch.nn.Module.to(copy.deepcopy(model), torch.bfloat16)
    for module, exact in zip(half.modules(), model.modules()):
        module._buffers.update({name: buffer.clone() for name, buffer in exact._buffers.items()})
    return half


def rounding_of(model, half, prompt):
    """The largest change of a log-probability of the answer's tokens in bfloat16."""
    ids, first = prompt["prompt_ids"] + prompt["output_ids"], len(prompt["prompt_ids"]) - 1
    answer = range(first, len(ids) - 1)
    exact, rounded = (torch.log_softmax(goldens.logits_of(one, ids).float(), -1)[answer, prompt["output_ids"]]
                      for one in (model, half))
    return (exact - rounded).abs().max().item()


def draw_prompts(config, model, rng, lengths):
    """Golden prompts of these lengths: a token is drawn again until its row has clear choices, the last few until the
    answer's rows have. Answers are short, because each further row makes clear answers rarer."""
    half = in_bfloat16(model)
    choices, prompts = Choices(config, model), []
    for length in lengths:
        ids, prompt = [], None
        while prompt is None:
            ids = ids[:-4]
            while len(ids) < length:
                ids.append(int(rng.randint(config["vocab_size"])))
                goldens.logits_of(model, ids)
                if not choices.are_clear():
                    ids.pop()
            prompt = goldens.golden_prompt(model, ids, N_OUTPUT_TOKENS, choices.are_clear)
            if prompt and rounding_of(model, half, prompt) > MAX_ROUNDING:
                prompt = None
        prompts.append(prompt)
    return prompts
