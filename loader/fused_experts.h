/* fused_experts.h - presents experts that a checkpoint stores as one tensor as separate tensors.
 *
 *   ...mlp.experts.gate_up_proj  [experts, 2 ffn, hidden]   ->  ...mlp.experts.3.gate_proj.weight  [ffn, hidden]
 *                                                               ...mlp.experts.3.up_proj.weight    [ffn, hidden]
 *   ...mlp.experts.down_proj     [experts, hidden, ffn]     ->  ...mlp.experts.3.down_proj.weight  [hidden, ffn]
 *
 * The companions of quantised experts (_packed, _scale, _scale_inv, _zero_point) are split likewise and become
 * weight_packed and so on. The new tensors are views of the same bytes, so no other code handles fused experts.
 * Granite: ...block_sparse_moe.input_linear.weight [experts, 2 ffn, hidden] and output_linear.weight become w1, w3 and
 * w2 of ...block_sparse_moe.experts.3.
 * Nemotron-3: ...mixer.experts.up_proj [experts, ffn, hidden] and down_proj, without gates.
 * Llama 4: ...feed_forward.experts.gate_up_proj [experts, hidden, 2 ffn] and down_proj [experts, ffn, hidden] are
 * transposed, as the views of them are (yk_tensor.column_stride).
 * gpt-oss: ...mlp.experts.gate_up_proj_blocks [experts, 2 ffn, hidden / 32, 16], _scales [experts, 2 ffn, hidden / 32]
 * and _bias become weight_packed, weight_scale and bias of ...mlp.experts.3.gate_up_proj; down_proj likewise. Without
 * quantisation gate_up_proj and down_proj are as those of Llama 4.
 *
 * Together with fused experts transformers 5 also renames Mixtral's router to ...mlp.gate, which becomes
 * ...block_sparse_moe.gate again. */
#ifndef YK_LOADER_FUSED_EXPERTS_H
#define YK_LOADER_FUSED_EXPERTS_H

#include "loader/model/model_config.h"
#include "loader/safetensors/shards.h"

/* yk_fused_experts_split - replace fused tensors by the tensors of each expert. No effect for models without experts.
 *   Errors: YK_E_FORMAT naming the tensor: a wrong number of experts or of rows; YK_E_NOMEM. */
yk_status yk_fused_experts_split(const yk_model_config *config, yk_shards *shards, yk_err *err);

#endif
