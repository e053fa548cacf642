#include "kernels/cuda/latent/scratch.h"

#include "base/checked.h"
#include "kernels/device.h"

bool yk_cuda_latent_expands(const yk_latent_layout *layout)
{
  return layout->kv_rank == 512 && layout->rope_dim == 64 && layout->nope_dim == 128 && layout->value_dim == 128;
}

/* Bytes of the keys and values of a group of heads, and of the lists of sequences and rows before them: an
 * expanded_work of latent/expanded_work.cuh (16 bytes, 4 for each group of heads, 24 for each sequence), and 16 bytes
 * for each row. */
static int64_t latent_expanded_bytes(const yk_latent_layout *layout, int32_t max_tokens)
{
  if (!yk_cuda_latent_expands(layout) || max_tokens <= YK_CUDA_LATENT_EXPANDED_ROWS) return 0;
  int64_t lists = INT64_C(24) * YK_CUDA_LATENT_EXPANDED_SEQS + INT64_C(4) * YK_CUDA_LATENT_HEAD_GROUPS + 16;
  return yk_round_up_i64(lists + INT64_C(16) * max_tokens, YK_DEVICE_ALIGNMENT_BYTES) + YK_CUDA_LATENT_MADE_BYTES;
}

/* Absorbed queries and weighted sums, of 2 bytes each; then, for tiles of at most 64 queries, float32 partial sums with
 * their maximum and sum; then 12 bytes per row with the location of its partial sums (latent/attention.cu). */
static int64_t latent_absorbed_bytes(const yk_latent_layout *layout)
{
  int64_t head_rows = (int64_t)YK_CUDA_LATENT_ROWS * layout->n_heads;
  return head_rows * layout->kv_rank * 4 + (int64_t)YK_CUDA_LATENT_SPLIT_BLOCKS * 64 * (layout->kv_rank + 2) * 4 +
         YK_CUDA_LATENT_ROWS * 12;
}

int64_t yk_cuda_latent_scratch_bytes(const yk_latent_layout *layout, int32_t max_tokens)
{
  return yk_round_up_i64(latent_absorbed_bytes(layout), YK_DEVICE_ALIGNMENT_BYTES) +
         latent_expanded_bytes(layout, max_tokens);
}
