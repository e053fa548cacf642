/* adapters.h - layout of the low-rank adapters of a linear layer (yk_linear_adapter) in a GPU's memory. Pure
 * arithmetic, also compiled without CUDA.
 *
 * A layer's memory begins with a table of ranks and scales [n_adapters, n_parts], followed by the matrices of each
 * adapter: A of all parts, then B of each part, as act. Ranks are padded to tiles of 16, columns of x and outputs of a
 * part to chunks of 32; the padding is 0. A tile by a chunk is a block of 512 elements, in the order in which the lanes
 * of a warp hold them as operands of mma.sync, 16 elements a lane: a lane loads 32 contiguous bytes, a warp 1 KiB.
 *
 *   A  [tiles of all parts][chunks of columns]  lane 4 g + q: ranks g and g + 8 by columns 8 q .. 8 q + 7
 *   B  [chunks of outputs][tiles of a part]     lane 4 g + q: ranks 4 q .. 4 q + 3 by outputs 8 (g / 2) + g % 2 + 2 j,
 *                                               j = 0 .. 3
 *
 * The products of both (kernels/cuda/adapters) leave each lane with 8 neighbouring outputs. */
#ifndef YK_KERNELS_CUDA_LAYOUT_ADAPTERS_H
#define YK_KERNELS_CUDA_LAYOUT_ADAPTERS_H

#include "kernels/linear.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_ADAPTER_TILE_RANKS = 16,
  YK_ADAPTER_CHUNK = 32, /* columns of x, or outputs */
  YK_ADAPTER_BLOCK = YK_ADAPTER_TILE_RANKS * YK_ADAPTER_CHUNK,
  YK_ADAPTER_ELEMENT_BYTES = 2,
  YK_ADAPTER_RANGES = 16,       /* maximum number of K ranges with separate sums of A x */
  YK_ADAPTER_ROW_RANGES = 4096, /* maximum of rows times K ranges, unless there is one range */
  /* Steps whose thread blocks exchange sums of A x: most rows, most tiles of ranks of all parts of a layer, and octets
   * of rows of a tile of rows. */
  YK_ADAPTER_EXCHANGE_ROWS = 64,
  YK_ADAPTER_EXCHANGE_TILES = 12,
  YK_ADAPTER_TILE_OCTETS = 2
};

/* An entry of the table: one part of one adapter. */
typedef struct yk_cuda_adapter_part {
  int32_t rank; /* 0: the adapter does not change the part */
  float scale;  /* of the product of the stored matrices */
} yk_cuda_adapter_part;

typedef struct yk_cuda_adapter_layout {
  int32_t n_adapters; /* 0: the layer has none, and no memory */
  int32_t n_parts;
  int32_t max_rank;
  int32_t part_tiles; /* tiles of ranks of a part */
  int64_t k;          /* columns of x */
  int64_t k_chunks;
  int64_t n[YK_MAX_LINEAR_PARTS]; /* outputs of each part */
  int64_t b[YK_MAX_LINEAR_PARTS]; /* bytes from an adapter's A to its B of each part */
  int64_t matrices;               /* bytes from the table to the first adapter's A */
  int64_t adapter_bytes;          /* distance between adapters */
} yk_cuda_adapter_layout;

/* yk_cuda_adapters_lay_out - the layout of a layer's adapters. Without outputs or columns on this rank: none. */
yk_cuda_adapter_layout yk_cuda_adapters_lay_out(const yk_linear_spec *spec);

/* yk_cuda_adapters_bytes - memory of all adapters of a layer. */
int64_t yk_cuda_adapters_bytes(const yk_cuda_adapter_layout *layout);

/* yk_cuda_adapter_product_floats - floats of the products A x of a layer of n_tiles tiles of ranks, of all parts, for
 *   steps of up to max_rows rows. */
int64_t yk_cuda_adapter_product_floats(int64_t n_tiles, int64_t max_rows);

/* yk_cuda_adapter_exchange_bytes - memory in which thread blocks exchange sums of A x (kernels/cuda/adapters), of a
 *   layer of n_tiles tiles of ranks, of all parts. */
int64_t yk_cuda_adapter_exchange_bytes(int64_t n_tiles, int64_t n_adapters);

/* yk_cuda_adapter_tiles - tiles of ranks of a part. */
static inline int32_t yk_cuda_adapter_tiles(int32_t max_rank)
{
  return (max_rank + YK_ADAPTER_TILE_RANKS - 1) / YK_ADAPTER_TILE_RANKS;
}

/* yk_cuda_adapter_pack - an adapter's matrices in the order of the layout.
 *   parts   [n_parts], ranks within max_rank
 *   dtype   of the elements: float16 or bfloat16. Both matrices of a part are multiplied with powers of two, after
 *           which their largest elements are in [1, 2), so that small ones do not vanish; the table's scale has the
 *           inverse of both
 *   to      adapter_bytes, zeroed
 *   table   [n_parts] */
void yk_cuda_adapter_pack(const yk_cuda_adapter_layout *layout, yk_dtype dtype, const yk_linear_adapter *parts,
                          void *to, yk_cuda_adapter_part *table);

/* yk_cuda_adapter_a_at, yk_cuda_adapter_b_at - the element of A, counted from an adapter's A, and of B, counted from
 *   the part's B. rank: of the part; column: of x; output: of the part. */
static inline int64_t yk_cuda_adapter_a_at(const yk_cuda_adapter_layout *layout, int part, int32_t rank, int64_t column)
{
  const int64_t tile = (int64_t)part * layout->part_tiles + rank / YK_ADAPTER_TILE_RANKS;
  const int64_t block = tile * layout->k_chunks + column / YK_ADAPTER_CHUNK;
  const int32_t r = rank % YK_ADAPTER_TILE_RANKS, c = (int32_t)(column % YK_ADAPTER_CHUNK);
  return block * YK_ADAPTER_BLOCK + (r % 8 * 4 + c / 8) * 16 + r / 8 * 8 + c % 8;
}

static inline int64_t yk_cuda_adapter_b_at(const yk_cuda_adapter_layout *layout, int32_t rank, int64_t output)
{
  const int64_t block = output / YK_ADAPTER_CHUNK * layout->part_tiles + rank / YK_ADAPTER_TILE_RANKS;
  const int32_t r = rank % YK_ADAPTER_TILE_RANKS, c = (int32_t)(output % YK_ADAPTER_CHUNK);
  const int32_t g = c / 8 * 2 + c % 2, j = c % 8 / 2;
  return block * YK_ADAPTER_BLOCK + (g * 4 + r / 4) * 16 + j * 4 + r % 4;
}

#ifdef __cplusplus
}
#endif
#endif
