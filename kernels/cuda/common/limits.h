/* limits.h - the largest sizes of models that kernels take; also compiled without CUDA. */
#ifndef YK_KERNELS_CUDA_COMMON_LIMITS_H
#define YK_KERNELS_CUDA_COMMON_LIMITS_H

enum {
  YK_CUDA_HEAD_DIM_UNIT = 4,
  YK_CUDA_MAX_HEAD_DIM = 512,
  YK_CUDA_MAX_HIDDEN = 24512, /* elements of a row of 16 bits in 48 KiB of shared memory, next to 32 sums of warps */
  YK_CUDA_MAX_VOCAB = 327680  /* float32 logits of a row in the shared memory of a cluster: sampling/sample_rows.cu */
};

#endif
