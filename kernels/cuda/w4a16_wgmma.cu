/* w4a16_wgmma.cu - host side of the products of more than 16 tokens on Hopper: choice of tile, split of K, launch. */
#include <algorithm>

#include "kernels/cuda/w4a16_tensor_map.cuh"
#include "kernels/cuda/w4a16_wgmma.cuh"

namespace w4a16 {
namespace {

variant_list<wgmma_variant> variants_of(yk_dtype dtype)
{
  return dtype == YK_F16 ? wgmma_variants_f16() : wgmma_variants_bf16();
}

struct plan {
  wgmma_variant variant;
  int row_tiles, token_tiles, split_tiles, split_blocks, blocks, x_stages, weight_stages, shared_bytes, threads;

  int cuts() const
  {
    return cuts_of(split_tiles, split_blocks);
  }
};

/* Units of a block's tile. */
int units_of(const wgmma_variant &v)
{
  return v.warpgroups * v.column_tiles * TILE_UNITS;
}

constexpr int X_STAGES = 6; /* at most: one is read, the next come from the L2 cache */

/* A tile's float32 sums. */
int64_t partial_bytes(const wgmma_variant &v)
{
  return static_cast<int64_t>(units_of(v)) * UNIT_COLUMNS * v.tokens * 4;
}

/* Microseconds fitted to 1,900 measured plans of 32 to 256 tokens on H200 (bench/NOTES.md), such that the plans chosen are
 * 0.4 % slower than the best on average; one by one they mean little. They decide how K is split and nothing else, and are
 * the same on every machine, so that the split is a function of the shapes. */
constexpr double SMALL_START_US = 0.17,
                 CLUSTER_START_US = 0.64; /* more, for tiles of up to 64 tokens, or where blocks share them */
constexpr double TILE_END_US = 25.8e-6;   /* for each byte of a tile's sums */
constexpr double PART_US = 0.17;          /* an exchange, for each part of a tile but one */
constexpr double CUT_US = 0.44, CUT_BYTE_US = 38e-6;     /* and where every tile is cut alike */
constexpr double RANGE_US = 0.49, RANGE_BYTE_US = 75e-6; /* and where ranges ignore tiles ... */
constexpr double RANGE_PART_BYTE_US = 8e-6;              /* ... for each of up to two other parts */
constexpr double START_US = 1.20;                        /* of any plan, against the estimates of w4a16_batch.cu */

double cost_us(const wgmma_variant &v, const yk_w4a16_desc &desc, const plan &l, int clusters)
{
  double k_tiles = static_cast<double>(n_k_tiles(desc)), bytes = static_cast<double>(partial_bytes(v));
  double whole = std::ceil((static_cast<double>(l.row_tiles) * l.token_tiles - l.split_tiles) / clusters);
  double units = whole * k_tiles, ends = whole;
  double us = v.tokens <= 64 ? SMALL_START_US : v.cluster > 1 ? CLUSTER_START_US : 0.0;
  if (l.split_blocks > 0) {
    double range = l.cuts() ? std::ceil(k_tiles / l.cuts()) : std::ceil(l.split_tiles * k_tiles / l.split_blocks);
    double others = l.cuts() ? l.cuts() - 1 : std::ceil(k_tiles / range);
    units += range;
    ends++;
    if (others > 0)
      us += others * PART_US + (l.cuts()
                                    ? CUT_US + bytes * CUT_BYTE_US
                                    : RANGE_US + bytes * (RANGE_BYTE_US + RANGE_PART_BYTE_US * std::min(others, 2.0)));
  }
  return START_US + us + units * v.unit_us + ends * bytes * TILE_END_US;
}

/* Fill in a plan for one variant with the first split_tiles tiles cut into split_blocks ranges. */
plan lay_out(const wgmma_variant &v, const yk_w4a16_desc &desc, int64_t m, int turn, int64_t split_tiles,
             int64_t split_blocks)
{
  plan l = {};
  l.variant = v;
  l.row_tiles = static_cast<int>(ceil_div(n_units(desc), units_of(v) * v.cluster));
  l.token_tiles = static_cast<int>(ceil_div(m, v.tokens));
  l.split_tiles = static_cast<int>(split_tiles);
  l.split_blocks = static_cast<int>(split_blocks);
  int x_bytes = x_stage_bytes(v.tokens), weight_bytes = weight_stage_bytes(groups_per_tile(desc), units_of(v)),
      staging = v.warpgroups * 4 * staging_bytes(v.column_tiles, v.tokens),
      rings = most_shared_bytes(v.where, turn) - staging;
  l.x_stages = std::min(X_STAGES, rings / (x_bytes + weight_bytes));
  l.weight_stages = std::min(MAX_STAGES, (rings - l.x_stages * x_bytes) / weight_bytes);
  l.shared_bytes = l.x_stages * x_bytes + l.weight_stages * weight_bytes + staging;
  l.threads = (v.warpgroups + 1) * 128;
  if (v.where == place::SHARED) {
    l.shared_bytes = turn_shared_bytes(turn, l.shared_bytes);
    l.threads = TURN_THREADS[turn];
  }
  return l;
}

/* The cheapest tile and split. Whole waves go uncut, but a remainder takes one wave with it, so that no block has less
 * than a tile's worth; with fewer tiles than multiprocessors each is cut evenly, or all together into one range a
 * multiprocessor. */
plan make_plan(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m, int turn)
{
  plan best = {};
  double best_cost = 0;
  auto consider = [&](const wgmma_variant &v, int64_t split_tiles, int64_t split_blocks, int64_t blocks) {
    plan l = lay_out(v, desc, m, turn, split_tiles, split_blocks);
    l.blocks = static_cast<int>(blocks);
    double c = cost_us(v, desc, l, gpu.n_multiprocessors / v.cluster);
    if (best.blocks && c >= best_cost) return;
    best = l;
    best_cost = c;
  };
  for (const wgmma_variant &v : variants_of(desc.dtype)) {
    int64_t sms = gpu.n_multiprocessors / v.cluster;
    int64_t tiles = ceil_div(n_units(desc), units_of(v) * v.cluster) * ceil_div(m, v.tokens);
    int64_t units = tiles * n_k_tiles(desc);
    if (tiles >= sms) {
      consider(v, 0, 0, sms);
      if (tiles % sms) consider(v, tiles % sms + sms, sms, sms);
      continue;
    }
    for (int64_t cuts = 1; tiles * cuts <= std::min<int64_t>(sms, units); cuts++)
      consider(v, tiles, tiles * cuts, tiles * cuts);
    if (units >= sms) consider(v, tiles, sms, sms);
  }
  return best;
}

} // namespace

size_t wgmma_workspace_bytes(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t)
{
  int64_t most = 0;
  for (const wgmma_variant &v : variants_of(desc.dtype)) most = std::max(most, partial_bytes(v));
  return static_cast<size_t>(gpu.n_multiprocessors * most);
}

cudaError_t wgmma_init(yk_w4a16_gpu *gpu)
{
  cudaDriverEntryPointQueryResult found;
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &gpu->encode_tensor_map, 12000,
                                                       cudaEnableDefault, &found);
  if (error != cudaSuccess) return error;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  error = allow_shared_bytes(wgmma_variants_f16());
  return error == cudaSuccess ? allow_shared_bytes(wgmma_variants_bf16()) : error;
}

double wgmma_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m)
{
  plan l = make_plan(gpu, desc, m, 0);
  return cost_us(l.variant, desc, l, gpu.n_multiprocessors / l.variant.cluster);
}

cudaError_t wgmma_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                          cudaStream_t stream)
{
  plan l = make_plan(gpu, desc, call.m, call.turn);
  CUtensorMap map;
  if (!encode_x(gpu, desc, call, l.variant.tokens / l.variant.cluster, &map)) return cudaErrorInvalidValue;
  wgmma_params p = {};
  p.packed = static_cast<const uint8_t *>(call.packed);
  p.bias = call.bias;
  p.y = call.y;
  p.partial = static_cast<float *>(call.workspace);
  p.m = static_cast<int>(call.m);
  p.n = static_cast<int>(desc.n);
  p.units = static_cast<int>(n_units(desc));
  divide_tiles(p, static_cast<int>(n_k_tiles(desc)), l.row_tiles, l.token_tiles, l.split_tiles, l.split_blocks,
               l.blocks);
  p.x_stages = l.x_stages;
  p.weight_stages = l.weight_stages;
  p.gate_up = desc.gate_up;
  void *args[] = {&map, &p};
  return launch_clusters(l.variant.kernels[groups_per_tile(desc) / 2], l.blocks, l.variant.cluster, l.threads,
                         l.shared_bytes, args, stream);
}

} // namespace w4a16
