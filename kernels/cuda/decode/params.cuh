/* params.cuh - parameters of the decode kernel, the division of its work, and its shared memory. */
#ifndef YK_KERNELS_CUDA_DECODE_PARAMS_CUH
#define YK_KERNELS_CUDA_DECODE_PARAMS_CUH

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/decode/types.h"
#include "kernels/cuda/gemm/common.cuh"
#include "kernels/kv_cache.h"

namespace yk_decode {

constexpr int WARP = 32;
constexpr int WARPS = 16; /* that compute, in a thread block; K tile t of every GEMM belongs to warp t % WARPS */
constexpr int THREADS = WARPS * WARP;
constexpr int PRODUCER_RINGS = 4; /* that a producer warp fills: ring.cuh */
constexpr int BLOCK_THREADS = THREADS + WARPS / PRODUCER_RINGS * WARP;
constexpr int REGISTERS = 104, PRODUCER_REGISTERS = 64; /* of a thread that computes; that produces */
static_assert(REGISTERS * THREADS + PRODUCER_REGISTERS * (BLOCK_THREADS - THREADS) <= 96 * BLOCK_THREADS,
              "within the registers that the thread block starts with");
/* Most copies in flight of a ring that has no arrived unit; of one that has any. Two keep memory busy; more let some
 * thread blocks run ahead of others, and delay the packets of exchanges. */
constexpr int FLIGHT_OF_EMPTY = 2, FLIGHT_OF_READY = 1;
constexpr int HEAD_DIM = 128;
constexpr int MOST_Q_PER_KV = 8; /* columns of mma.sync */
constexpr int SPLITS = WARPS;    /* thread blocks that share the tokens of a KV head */
constexpr int ATTENTION_WARPS = 8;
constexpr int MOST_BLOCK_PAGES = 32; /* pages of a thread block, of one KV head */
constexpr int MOST_LAYERS = 128;
constexpr int CHUNK = 8;                              /* neighbouring elements of a row in one packet */
constexpr int MOST_HIDDEN = 8192, MOST_FFN = 1 << 15; /* panels times blocks are below 2^20: small_quotient */
constexpr int PAGE_UNITS = 2;                         /* units of a page of K, and of V */
constexpr int LEAST_SLOTS = 2 * PAGE_UNITS;           /* of a warp's ring: a page is read at once */
constexpr int PAGE_UNIT_TOKENS = YK_KV_BLOCK_TOKENS / PAGE_UNITS;
constexpr int TOKEN_BYTES = HEAD_DIM * 2;
constexpr int PAGE_UNIT_BYTES = PAGE_UNIT_TOKENS * TOKEN_BYTES;

using panel = yk_gemm::panel_layout<YK_GEMM_INT4, 1>;
constexpr int TILE_K = yk_gemm::TILE_K;
constexpr int PANEL_COLUMNS = yk_gemm::PANEL_COLUMNS;
constexpr int UNIT_PANELS = 2;
constexpr int UNIT_BYTES = UNIT_PANELS * panel::BYTES;
static_assert(PAGE_UNIT_BYTES <= UNIT_BYTES, "a slot holds a part of a page");

constexpr int PASS_TILES = 2;            /* K tiles that a warp prepares at once, half a warp each */
constexpr int X_TILE_BYTES = 2 * TILE_K; /* a K tile of x in two bytes an input */
/* Partial sums of a panel: [WARPS][16] floats, with padding that puts neighbouring panels into other banks. */
constexpr int PANEL_SUMS = WARPS * PANEL_COLUMNS + 16;

/* Positions of the exchanged rows in a rank's exchange memory, in units of 16 bytes (exchange.cuh). The memory begins
 * with a counter of layers. */
struct exchange_layout {
  /* Results: of gate and up after the activation; of o and down one row from each rank, row_chunks apart. */
  int32_t of_gemm[YK_DECODE_N_GEMMS], row_chunks;
  int32_t partials, maxima, attended;  /* of attention */
  int32_t input_of[YK_DECODE_N_GEMMS]; /* the row that a GEMM's input is made of: one of the above */
  int32_t end;
};

/* Offsets in dynamic shared memory, in bytes, after the warps' rings. */
struct shared_layout {
  int32_t barriers; /* full [WARPS][slots], then empty [WARPS][slots] mbarriers */
  int32_t x;        /* [WARPS][PASS_TILES] K tiles of the input of a GEMM */
  int32_t x_scales; /* [WARPS][PASS_TILES] x_scale */
  /* [panels, a multiple of UNIT_PANELS][PANEL_SUMS] floats: of qkv, gate and up, or outputs of attention's warps; and
   * of o and down */
  int32_t sums[2];
  int32_t residual; /* [hidden] act, in chunks */
  int32_t queries;  /* [MOST_Q_PER_KV][HEAD_DIM] act, then the new token's K and V */
  int32_t angles;   /* [HEAD_DIM] cosines, then sines */
  int32_t squares;  /* [WARPS] sums of squares */
  int32_t pages;    /* [MOST_BLOCK_PAGES] blocks of the cache */
  int32_t ranges;   /* [YK_DECODE_N_GEMMS] panel_range */
  int32_t units;    /* [WARPS] layer_units */
  int32_t layers;   /* [n_layers] yk_decode_weights */
  int32_t end;
};

struct params {
  yk_decode_shape shape;
  yk_decode_call call;
  uint4 *exchange_memory; /* of this rank */
  exchange_layout exchange;
  shared_layout shared;
  int32_t n_blocks, slots, q_per_kv;
  float scale_log2;  /* of attention's scores, for powers of 2 */
  float per_element; /* 1 / hidden */
  int32_t n_panels[YK_DECODE_N_GEMMS], n_tiles[YK_DECODE_N_GEMMS];
};

/* The panels of a GEMM that a thread block multiplies. */
struct panel_range {
  int first, count;

  __device__ static panel_range of(int n_panels, int block, int n_blocks)
  {
    const int first = yk_cuda::small_quotient(block * n_panels, n_blocks);
    return {first, yk_cuda::small_quotient((block + 1) * n_panels, n_blocks) - first};
  }
};

/* A warp's units of a layer: where each part begins, and the number of all. See ring.cuh. */
struct layer_units {
  int begin[YK_DECODE_N_GEMMS], tiles[YK_DECODE_N_GEMMS], pages, end;
};

/* Attention's work of a thread block: a KV head, and the pages of one of its splits. The last split has the new token.
 * Thread blocks without work have kv_head -1. */
struct attention_share {
  int kv_head, split, first_page, n_pages;

  __device__ static attention_share of(const params &p, int block, int n_tokens)
  {
    if (block >= p.shape.n_kv_heads * SPLITS) return {-1, 0, 0, 0};
    const int n_pages = (n_tokens + YK_KV_BLOCK_TOKENS - 1) / YK_KV_BLOCK_TOKENS;
    const int split = block % SPLITS, first = split * n_pages / SPLITS;
    return {block / SPLITS, split, first, (split + 1) * n_pages / SPLITS - first};
  }
};

} // namespace yk_decode

#endif
