/* w4a16_decode.cu - host side of the products of up to 8 tokens on Hopper: choice of kernel and cluster, launch. */
#include <algorithm>
#include <cuda.h>
#include <limits>

#include "kernels/cuda/w4a16_decode.cuh"

namespace w4a16 {
namespace {

constexpr int LEAST_STAGES = 6; /* 52 KB under way */

struct decode_plan {
  const decode_variant *variant; /* NULL where the shape does not fit */
  int64_t cluster, clusters;     /* blocks of a cluster, clusters */
  int stages, stage_tiles, x_pitch, shared_bytes, threads;
};

/* Stages 0 where x takes too much memory in either turn. */
decode_plan lay_out(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m, const decode_variant &v,
                    int64_t cluster, int turn)
{
  decode_plan plan = {};
  int64_t tiles = ceil_div(n_k_tiles(desc), cluster), x = m * (tiles * X_TILE_BYTES + X_PAD_BYTES);
  plan.variant = &v;
  plan.cluster = cluster;
  plan.clusters = std::min(n_units(desc), gpu.n_multiprocessors / cluster);
  plan.stage_tiles = static_cast<int>(ceil_div(tiles, ceil_div(tiles, MULTIPLIERS)));
  plan.x_pitch = static_cast<int>(tiles * X_TILE_BYTES + X_PAD_BYTES);
  int stage = stage_bytes_of(plan.stage_tiles, groups_per_tile(desc));
  int64_t rest = x + sums_bytes(v.units) + received_bytes(v.units);
  auto stages_in = [&](int64_t bytes) { return std::min<int64_t>((bytes - rest) / stage, DECODE_STAGES); };
  if (stages_in(std::min(TURN_SHARED_BYTES[0], TURN_SHARED_BYTES[1])) < LEAST_STAGES) return plan;
  plan.stages = static_cast<int>(stages_in(TURN_SHARED_BYTES[turn]));
  plan.shared_bytes = turn_shared_bytes(turn, static_cast<int>(rest + plan.stages * stage));
  plan.threads = TURN_THREADS[turn];
  return plan;
}

/* Microseconds fitted together with those of the other kernels (bench/NOTES.md); one by one they mean little. */
constexpr double START_US = 1.26;
constexpr double SWEEP_US = 0.445;    /* end of a sweep, ... */
constexpr double EXCHANGE_US = 0.075; /* ... and more between two blocks */
constexpr double X_US = 0.0115;       /* a token's K tile, before the first product */

double cost_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m, const decode_plan &plan)
{
  int64_t tiles = ceil_div(n_k_tiles(desc), plan.cluster), units = ceil_div(n_units(desc), plan.clusters);
  double sweeps = static_cast<double>(ceil_div(units, plan.variant->units));
  double busy = static_cast<double>(plan.clusters * plan.cluster) / gpu.n_multiprocessors;
  double memory_us = static_cast<double>(tiles * units) * MEMORY_UNIT_US * busy;
  double products_us = static_cast<double>(ceil_div(tiles, MULTIPLIERS)) * sweeps * plan.variant->tile_us;
  return START_US + static_cast<double>(m * tiles) * X_US + std::max(memory_us, products_us) +
         sweeps * (SWEEP_US + (plan.cluster > 1 ? EXCHANGE_US : 0.0));
}

/* The cheapest kernel and cluster. */
decode_plan make_plan(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m, int turn)
{
  decode_plan best = {};
  for (const decode_variant &v : desc.dtype == YK_F16 ? decode_variants_f16() : decode_variants_bf16()) {
    for (int64_t cluster = 1; cluster <= std::min<int64_t>({2, gpu.n_multiprocessors, n_k_tiles(desc)}); cluster++) {
      decode_plan plan = lay_out(gpu, desc, m, v, cluster, turn);
      if (plan.stages == 0) continue;
      if (!best.variant || cost_us(gpu, desc, m, plan) < cost_us(gpu, desc, m, best)) best = plan;
    }
  }
  return best;
}

/* Packed weights as [K tile][unit][8 bytes], a box being stage_tiles K tiles of one unit. */
bool encode_weights(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const void *packed, int stage_tiles,
                    CUtensorMap *map)
{
  auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(gpu.encode_tensor_map);
  cuuint64_t bytes = static_cast<cuuint64_t>(unit_bytes(desc)), units = static_cast<cuuint64_t>(n_units(desc));
  cuuint64_t sizes[3] = {bytes / 8, units, static_cast<cuuint64_t>(n_k_tiles(desc))};
  cuuint64_t strides[2] = {bytes, bytes * units};
  cuuint32_t box[3] = {static_cast<cuuint32_t>(bytes / 8), 1, static_cast<cuuint32_t>(stage_tiles)};
  cuuint32_t steps[3] = {1, 1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_INT64, 3, const_cast<void *>(packed), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

} // namespace

cudaError_t decode_init()
{
  cudaError_t error = allow_shared_bytes(decode_variants_f16());
  return error == cudaSuccess ? allow_shared_bytes(decode_variants_bf16()) : error;
}

double decode_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m)
{
  decode_plan plan = make_plan(gpu, desc, m, 0);
  return plan.variant ? cost_us(gpu, desc, m, plan) : std::numeric_limits<double>::infinity();
}

cudaError_t decode_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                           cudaStream_t stream)
{
  decode_plan plan = make_plan(gpu, desc, call.m, call.turn);
  CUtensorMap map;
  if (!encode_weights(gpu, desc, call.packed, plan.stage_tiles, &map)) return cudaErrorInvalidValue;
  decode_params p = {};
  p.x = call.x;
  p.out = {call.bias, call.y, static_cast<int>(call.m), static_cast<int>(desc.n), desc.gate_up};
  p.k = static_cast<int>(desc.k);
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.units = deal_units(n_units(desc), plan.clusters);
  p.stage_tiles = plan.stage_tiles;
  p.stages = plan.stages;
  p.x_pitch = plan.x_pitch;
  void *args[] = {&map, &p};
  return launch_clusters(plan.variant->kernels[groups_per_tile(desc) / 2], plan.clusters, plan.cluster, plan.threads,
                         plan.shared_bytes, args, stream);
}

} // namespace w4a16
