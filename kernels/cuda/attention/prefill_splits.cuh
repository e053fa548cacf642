/* prefill_splits.cuh - which work tiles of prefill are split. Few rows over a long context are fewer work tiles than
 * the GPU has multiprocessors, so several thread blocks share the key tiles of each. Plain arithmetic that also runs on
 * the host (tests/unit/test_work_division.cu).
 *
 * All work tiles of a sequence have the same number of splits: a work tile's key tiles divided by a thread block's even
 * share of the step's key tiles, rounded down. A step therefore has at most as many splits as thread blocks, and a step
 * with balanced work tiles has none. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_SPLITS_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_SPLITS_CUH

#include <algorithm>
#include <cstdint>

namespace yk_attn {

/* A split has at least this many key tiles: combining partial results takes as long as three or four. */
constexpr int MIN_SPLIT_KEY_TILES = 8;

/* The work tiles of a sequence. */
struct sequence_tiles {
  int32_t n;      /* work tiles */
  int32_t mean;   /* key tiles of the work tile in the middle */
  int32_t fewest; /* at most the key tiles of any of them */

  /* Key tiles of all of them, about. */
  __host__ __device__ int32_t n_key_tiles() const
  {
    return n * mean;
  }

  /* Splits of each of them; 1: they are not split. n_key_tiles: of the whole step. */
  __host__ __device__ int32_t n_splits(int32_t n_key_tiles, int32_t n_blocks) const
  {
    return n == 0 ? 1 : max(1, min(mean * n_blocks / n_key_tiles, fewest / MIN_SPLIT_KEY_TILES));
  }
};

/* The key tiles [begin, end) of a work tile or of one of its splits. */
struct key_tile_range {
  int32_t begin, end;

  /* Equal parts, up to one. */
  __host__ __device__ key_tile_range part(int32_t split, int32_t n_splits) const
  {
    const int32_t each = (end - begin) / n_splits, n_longer = end - begin - each * n_splits;
    const int32_t first = begin + split * each + min(split, n_longer);
    return {first, first + each + (split < n_longer ? 1 : 0)};
  }
};

} // namespace yk_attn

#endif
