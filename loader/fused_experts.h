/* fused_experts.h - experts that a checkpoint holds as one tensor, as tensors of each.
 *
 *   ...mlp.experts.gate_up_proj  [experts, 2 ffn, hidden]   ->  ...mlp.experts.3.gate_proj.weight  [ffn, hidden]
 *                                                               ...mlp.experts.3.up_proj.weight    [ffn, hidden]
 *   ...mlp.experts.down_proj     [experts, hidden, ffn]     ->  ...mlp.experts.3.down_proj.weight  [hidden, ffn]
 *
 * and so for what belongs to quantised ones (_packed, _scale, _scale_inv, _zero_point), which become weight_packed and
 * so on: views of the same bytes, so that nobody else knows of it. Beside fused experts transformers 5 calls Mixtral's
 * router ...mlp.gate too, which becomes ...block_sparse_moe.gate. */
#ifndef YK_LOADER_FUSED_EXPERTS_H
#define YK_LOADER_FUSED_EXPERTS_H

#include "loader/model/model_config.h"
#include "loader/safetensors/shards.h"

/* yk_fused_experts_split - put the tensors of each expert in the place of fused ones; none for models without experts.
 *   Errors: YK_E_FORMAT naming the tensor: a number of experts or of rows that does not fit; YK_E_NOMEM. */
yk_status yk_fused_experts_split(const yk_model_config *config, yk_shards *shards, yk_err *err);

#endif
