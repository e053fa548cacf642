/* experts.h - checkpoints in which all experts of a layer are one tensor, as transformers 5 writes them:
 *
 *   PREFIX.experts.gate_up_proj [experts, 2 * intermediate, hidden] -> PREFIX.experts.N.gate_proj.weight
 *                                                                      PREFIX.experts.N.up_proj.weight
 *   PREFIX.experts.down_proj    [experts, hidden, intermediate]     -> PREFIX.experts.N.down_proj.weight
 *
 * AWQ's formats have a layer for each, by the names that it has where experts are tensors of their own: with a PREFIX
 * that ends in block_sparse_moe (Mixtral) w1, w3 and w2. */
#ifndef YK_QUANTIZE_EXPERTS_H
#define YK_QUANTIZE_EXPERTS_H

#include "base/json.h"
#include "loader/safetensors/safetensors.h"

/* yk_experts_count - how many layers a tensor is made of; 0: it is no such tensor. */
int64_t yk_experts_count(const yk_tensor *tensor);

/* yk_experts_check - whether its shape is as above; the hidden size is the configuration's.
 *   Errors: YK_E_UNSUPPORTED (transposed experts, as other families have them; Mixtral's without its own PREFIX, whose
 *   layers nobody would read by those names). */
yk_status yk_experts_check(const yk_tensor *tensor, yk_json config, yk_err *err);

/* yk_experts_layer - layer i of those: a matrix within the tensor's data. Its name is malloc'ed, and the caller's.
 *   Errors: YK_E_NOMEM. */
yk_status yk_experts_layer(const yk_tensor *tensor, int64_t i, yk_tensor *out, yk_err *err);

#endif
