/* w4a16_decode.cu - host side of the products of up to 8 tokens on Hopper: choice of kernel and cluster, launch. */
#include <algorithm>
#include <cuda.h>

#include "kernels/cuda/w4a16_decode.cuh"

namespace w4a16 {
namespace {

constexpr int LEAST_STAGES = 6;               /* 52 KB under way */
constexpr int64_t MOST_X_BYTES = 20 * 1024;   /* of a block: more takes too long to reach every block */
constexpr int64_t SHARED_X_BYTES = 12 * 1024; /* from here on a cluster that is done in one sweep had better share x */
constexpr int64_t CLUSTER_UNITS = 4;          /* at most, since every sweep of a cluster ends with an exchange */

struct decode_plan {
  const decode_variant *variant;
  int64_t cluster, clusters; /* blocks of a cluster, clusters */
  int stages, stage_tiles, x_pitch, shared_bytes, threads;
};

/* Units of the busiest cluster. */
int64_t units_of_cluster(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t cluster)
{
  return ceil_div(n_units(desc), std::min(n_units(desc), gpu.n_multiprocessors / cluster));
}

/* Blocks that share the inputs: two where one each would leave multiprocessors idle or unevenly loaded, where x is too
 * much for one, or where it is much and two are done in one sweep. One token's x is never much. */
int64_t cluster_size_for(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m)
{
  if (gpu.n_multiprocessors < 2 || n_k_tiles(desc) < 2) return 1;
  int64_t alone = units_of_cluster(gpu, desc, 1), both = units_of_cluster(gpu, desc, 2), x = m * desc.k * 2;
  if (n_units(desc) < gpu.n_multiprocessors || 5 * both < 9 * alone) return 2;
  if (m == 1) return x > 2 * MOST_X_BYTES ? 2 : 1;
  return x > MOST_X_BYTES || (x > SHARED_X_BYTES && both <= 4) ? 2 : 1;
}

/* False where another kernel is faster, or the shape does not fit. */
bool make_plan(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m, int turn, decode_plan *plan)
{
  if (m > DECODE_TOKENS) return false;
  *plan = {};
  plan->cluster = cluster_size_for(gpu, desc, m);
  plan->clusters = std::min(n_units(desc), gpu.n_multiprocessors / plan->cluster);
  int64_t tiles = ceil_div(n_k_tiles(desc), plan->cluster), x = m * (tiles * X_TILE_BYTES + X_PAD_BYTES);
  int64_t units = units_of_cluster(gpu, desc, plan->cluster);
  bool slow = m * tiles * X_TILE_BYTES > MOST_X_BYTES || (plan->cluster > 1 && units > CLUSTER_UNITS);
  if (m > 1 && slow) return false;
  variant_list<decode_variant> all = desc.dtype == YK_F16 ? decode_variants_f16() : decode_variants_bf16();
  auto cost = [&](const decode_variant &v) { return ceil_div(units, v.units) * v.sweep_cost; };
  plan->variant = std::min_element(all.begin(), all.end(),
                                   [&](const decode_variant &a, const decode_variant &b) { return cost(a) < cost(b); });
  plan->stage_tiles = static_cast<int>(ceil_div(tiles, ceil_div(tiles, MULTIPLIERS)));
  plan->x_pitch = static_cast<int>(tiles * X_TILE_BYTES + X_PAD_BYTES);
  int stage = stage_bytes_of(plan->stage_tiles, groups_per_tile(desc));
  int64_t rest = x + sums_bytes(plan->variant->units) + received_bytes(plan->variant->units);
  auto stages_in = [&](int64_t bytes) { return std::min<int64_t>((bytes - rest) / stage, DECODE_STAGES); };
  if (stages_in(std::min(TURN_SHARED_BYTES[0], TURN_SHARED_BYTES[1])) < LEAST_STAGES) return false;
  plan->stages = static_cast<int>(stages_in(TURN_SHARED_BYTES[turn]));
  plan->shared_bytes = turn_shared_bytes(turn, static_cast<int>(rest + plan->stages * stage));
  plan->threads = TURN_THREADS[turn];
  return true;
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

bool decode_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call, cudaStream_t stream,
                    cudaError_t *error)
{
  decode_plan plan;
  if (!make_plan(gpu, desc, call.m, call.turn, &plan)) return false;
  CUtensorMap map;
  if (!encode_weights(gpu, desc, call.packed, plan.stage_tiles, &map)) {
    *error = cudaErrorInvalidValue;
    return true;
  }
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
  *error = launch_clusters(plan.variant->kernels[groups_per_tile(desc) / 2], plan.clusters, plan.cluster, plan.threads,
                           plan.shared_bytes, args, stream);
  return true;
}

} // namespace w4a16
