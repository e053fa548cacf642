/* scratch.h - the scratch memory of latent attention, and the sizes that bound it. Pure arithmetic, compiled also where
 * there is no CUDA, so that a plan can be made for GPUs on any machine. */
#ifndef YK_KERNELS_CUDA_LATENT_SCRATCH_H
#define YK_KERNELS_CUDA_LATENT_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/latent.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_CUDA_LATENT_ROWS = 256,         /* rows of latent attention whose products with kv_b_proj lie in the scratch */
  YK_CUDA_LATENT_SPLIT_BLOCKS = 264, /* thread blocks of latent attention that leave partial results, at most */
  /* Sequences with more rows than these in a step get keys and values of each head: at most so many sequences, in so
   * many groups of heads, with so many bytes for the keys and values of a group. */
  YK_CUDA_LATENT_EXPANDED_ROWS = 170,
  YK_CUDA_LATENT_EXPANDED_SEQS = 256,
  YK_CUDA_LATENT_HEAD_GROUPS = 128,
  YK_CUDA_LATENT_MADE_BYTES = 128 << 20
};

/* yk_cuda_latent_expands - whether kernels for keys and values of each head take these sizes. */
bool yk_cuda_latent_expands(const yk_latent_layout *layout);

/* yk_cuda_latent_scratch_bytes - latent_scratch_bytes of the device's table. */
int64_t yk_cuda_latent_scratch_bytes(const yk_latent_layout *layout, int32_t max_tokens);

#ifdef __cplusplus
}
#endif
#endif
