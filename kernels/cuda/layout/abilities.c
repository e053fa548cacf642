#include "kernels/cuda/layout/abilities.h"

#include "kernels/cuda/common/limits.h"

const yk_device_abilities yk_cuda_abilities = {.name = "cuda",
                                               .head_dim_unit = YK_CUDA_HEAD_DIM_UNIT,
                                               .max_head_dim = YK_CUDA_MAX_HEAD_DIM,
                                               .max_hidden = YK_CUDA_MAX_HIDDEN,
                                               .max_vocab = YK_CUDA_MAX_VOCAB};
