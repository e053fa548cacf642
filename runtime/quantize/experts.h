/* experts.h - checkpoints that store all experts of a layer in one tensor, as transformers 5 writes them:
 *
 *   PREFIX.experts.gate_up_proj [experts, 2 * intermediate, hidden] -> PREFIX.experts.N.gate_proj.weight
 *                                                                      PREFIX.experts.N.up_proj.weight
 *   PREFIX.experts.down_proj    [experts, hidden, intermediate]     -> PREFIX.experts.N.down_proj.weight
 *
 * and Granite's, PREFIX.input_linear.weight and PREFIX.output_linear.weight, which have these shapes.
 * AWQ's formats have one layer per expert, named as in checkpoints with separate experts: w1, w3 and w2 if PREFIX ends
 * in block_sparse_moe (Mixtral, Granite). */
#ifndef YK_QUANTIZE_EXPERTS_H
#define YK_QUANTIZE_EXPERTS_H

#include "base/json.h"
#include "loader/safetensors/safetensors.h"

/* yk_experts_count - number of layers that a tensor consists of; 0: not such a tensor. */
int64_t yk_experts_count(const yk_tensor *tensor);

/* yk_experts_check - whether the tensor's shape is as above; the hidden size is taken from the configuration.
 *   Errors: YK_E_UNSUPPORTED (transposed experts, as in other families; Mixtral's experts without its own PREFIX,
 *   because no reader expects layers with those names). */
yk_status yk_experts_check(const yk_tensor *tensor, yk_json config, yk_err *err);

/* yk_experts_layer - layer i of the tensor: a matrix within the tensor's data. The name is malloc'ed; the caller frees
 *   it.
 *   Errors: YK_E_NOMEM. */
yk_status yk_experts_layer(const yk_tensor *tensor, int64_t i, yk_tensor *out, yk_err *err);

#endif
