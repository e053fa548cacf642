/* shapes.h - the sizes in a model's configuration that determine the bytes and operations of a step. */
#ifndef YK_STUDY_SHAPES_H
#define YK_STUDY_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_model_shapes {
  int64_t n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, head_dim, vocab_size;
  int64_t group_size;       /* of quantised linear layers along K; 0: not quantised */
  int64_t max_model_tokens; /* 0: not in the configuration */
  /* A mixture of experts, in n_expert_layers of the layers; the others have intermediate_size. 0: none. */
  int64_t n_expert_layers, n_experts, top_k;
  int64_t expert_size, shared_size; /* FFN size of one expert, and of the shared expert */
  /* Latent attention: n_heads queries of nope_dim + rope_dim over latent vectors of kv_rank + rope_dim; n_kv_heads and
   * head_dim are then unused. kv_rank 0: no latent attention; q_rank 0: q is one projection. */
  int64_t kv_rank, q_rank, nope_dim, rope_dim, value_dim;
  /* Gated delta nets instead of attention, in n_delta_layers of the layers: heads of q and k and of v, and their
   * elements. 0: none. */
  int64_t n_delta_layers, delta_key_heads, delta_value_heads, delta_key_dim, delta_value_dim;
  bool has_attention_gates; /* attention projects a gate as wide as q */
  /* of a weight in a linear layer, including its share of scales and zeros; 0: not quantised */
  double linear_element_bytes;
} yk_model_shapes;

/* yk_model_shapes_read - read model_dir/config.json, with its text_config if there is one.
 *   Errors: YK_E_IO, YK_E_FORMAT (a key is missing or wrong, with its name). Thread: any. */
yk_status yk_model_shapes_read(const char *model_dir, yk_model_shapes *out, yk_err *err);

#endif
