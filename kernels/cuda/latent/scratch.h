/* scratch.h - sizes of the scratch of latent attention, and their bounds. Pure arithmetic, also compiled without CUDA,
 * so that any machine can plan memory for GPUs. */
#ifndef YK_KERNELS_CUDA_LATENT_SCRATCH_H
#define YK_KERNELS_CUDA_LATENT_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/latent.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  /* rows of latent attention whose products with kv_b_proj are in the scratch at once */
  YK_CUDA_LATENT_ROWS = 256,
  YK_CUDA_LATENT_SPLIT_BLOCKS = 264, /* maximum number of thread blocks that write partial results */
  /* Sequences with more rows than EXPANDED_ROWS in a step use expanded keys and values, within these maxima: number of
   * sequences, number of groups of heads, bytes of the keys and values of a group. */
  YK_CUDA_LATENT_EXPANDED_ROWS = 170,
  YK_CUDA_LATENT_EXPANDED_SEQS = 256,
  YK_CUDA_LATENT_HEAD_GROUPS = 128,
  YK_CUDA_LATENT_MADE_BYTES = 128 << 20
};

/* yk_cuda_latent_expands - whether the kernels for expanded keys and values take these sizes. */
bool yk_cuda_latent_expands(const yk_latent_layout *layout);

/* yk_cuda_latent_scratch_bytes - latent_scratch_bytes of the device's table. */
int64_t yk_cuda_latent_scratch_bytes(const yk_latent_layout *layout, int32_t max_tokens);

#ifdef __cplusplus
}
#endif
#endif
