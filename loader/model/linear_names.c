#include "loader/model/linear_names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "loader/model/weight_names.h"

/* Names after the layer's prefix; # stands for a number. */
static const char *const linear_names[] = {
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "self_attn.qkv_proj", /* Phi-3, like mlp.gate_up_proj */
    "mlp.gate_proj",
    "mlp.gate_up_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "self_attn.q_a_proj", /* latent attention: DeepSeek; vLLM quantises these layers */
    "self_attn.q_b_proj",
    "self_attn.kv_a_proj_with_mqa",
    "self_attn.kv_b_proj",
    "mlp.experts.#.gate_proj", /* Qwen, DeepSeek */
    "mlp.experts.#.up_proj",
    "mlp.experts.#.down_proj",
    "mlp.shared_expert.gate_proj", /* Qwen2-MoE */
    "mlp.shared_expert.up_proj",
    "mlp.shared_expert.down_proj",
    "mlp.shared_experts.gate_proj", /* DeepSeek */
    "mlp.shared_experts.up_proj",
    "mlp.shared_experts.down_proj",
    "linear_attn.in_proj_qkv", /* Qwen3.5 */
    "linear_attn.in_proj_z",
    "linear_attn.in_proj_qkvz", /* Qwen3-Next */
    "linear_attn.out_proj",
    "mixer.in_proj", /* Nemotron-H */
    "mixer.out_proj",
    "mamba.in_proj", /* Granite */
    "mamba.out_proj",
    "mixer.q_proj",
    "mixer.k_proj",
    "mixer.v_proj",
    "mixer.o_proj",
    "mixer.up_proj",
    "mixer.down_proj",
    "mixer.experts.#.up_proj",
    "mixer.experts.#.down_proj",
    "mixer.shared_experts.up_proj",
    "mixer.shared_experts.down_proj",
    "mixer.fc1_latent_proj",
    "mixer.fc2_latent_proj",
    "mlp.shared_mlp.gate_proj", /* Hunyuan */
    "mlp.shared_mlp.up_proj",
    "mlp.shared_mlp.down_proj",
    "shared_mlp.input_linear", /* Granite */
    "shared_mlp.output_linear",
    "feed_forward.gate_proj", /* Llama 4 */
    "feed_forward.up_proj",
    "feed_forward.down_proj",
    "feed_forward.shared_expert.gate_proj",
    "feed_forward.shared_expert.up_proj",
    "feed_forward.shared_expert.down_proj",
    "feed_forward.experts.#.gate_proj",
    "feed_forward.experts.#.up_proj",
    "feed_forward.experts.#.down_proj",
    "experts.#.gate_proj", /* Gemma 4 */
    "experts.#.up_proj",
    "experts.#.down_proj",
    "block_sparse_moe.experts.#.w1", /* Mixtral, Granite */
    "block_sparse_moe.experts.#.w2",
    "block_sparse_moe.experts.#.w3",
};

/* Small layers: quantising them costs accuracy and saves little memory. */
static const char *const gate_names[] = {"mlp.gate",
                                         "mlp.shared_expert_gate",
                                         "mixer.gate",
                                         "block_sparse_moe.gate",
                                         "block_sparse_moe.router.layer",
                                         "mlp.gate.wg",
                                         "linear_attn.in_proj_a",
                                         "linear_attn.in_proj_b",
                                         "linear_attn.in_proj_ba",
                                         "feed_forward.router",
                                         "router.proj", /* Gemma 4, with embeddings of each layer */
                                         "per_layer_input_gate",
                                         "per_layer_projection"};

/* Whether name is pattern followed by ".weight". */
static bool fits(const char *name, const char *pattern)
{
  for (; *pattern; pattern++) {
    if (*pattern != '#') {
      if (*name++ != *pattern) return false;
      continue;
    }
    if (!isdigit((unsigned char)*name)) return false;
    while (isdigit((unsigned char)*name)) name++;
  }
  return strcmp(name, ".weight") == 0;
}

static bool fits_any(const char *name, const char *const *patterns, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (fits(name, patterns[i])) return true;
  return false;
}

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

yk_weight_kind yk_weight_kind_of(const char *tensor)
{
  const char *name = yk_weight_within_layer(tensor);
  if (!name) return YK_KIND_OTHER;
  if (fits_any(name, linear_names, sizeof linear_names / sizeof *linear_names)) return YK_KIND_LINEAR;
  if (fits_any(name, gate_names, sizeof gate_names / sizeof *gate_names)) return YK_KIND_GATE;
  bool is_norm = ends_with(name, "norm.weight") || strstr(name, "_norm") || strstr(name, "layernorm");
  bool is_convolution = ends_with(name, "conv1d.weight");
  return ends_with(name, ".weight") && !is_norm && !is_convolution ? YK_KIND_UNKNOWN : YK_KIND_OTHER;
}
