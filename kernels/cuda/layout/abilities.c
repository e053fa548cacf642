#include "kernels/cuda/layout/abilities.h"

#include "kernels/cuda/common/limits.h"

const yk_device_abilities yk_cuda_abilities = {.name = "cuda",
                                               .attention_gates = true,
                                               .adapters = true,
                                               .weighted_inputs = true,
                                               .expert_branches = true,
                                               .mamba = true,
                                               .plain_experts = true,
                                               .latent_experts = true,
                                               .expert_biases = true,
                                               .attention_sinks = true,
                                               .result_norms = true,
                                               .row_norms = true,
                                               .residual_gain = true,
                                               .score_growth = true,
                                               .rotation_before_norms = true,
                                               .value_norms = true,
                                               .kv_columns = true,
                                               .logit_caps = true,
                                               .unrotated_layers = true,
                                               .attention_chunks = true,
                                               .layer_inputs = true,
                                               .head_dim_unit = YK_CUDA_HEAD_DIM_UNIT,
                                               .max_head_dim = YK_CUDA_MAX_HEAD_DIM,
                                               .max_hidden = YK_CUDA_MAX_HIDDEN,
                                               .max_vocab = YK_CUDA_MAX_VOCAB};
