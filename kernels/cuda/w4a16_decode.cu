/* w4a16_decode.cu - host side of the products of few tokens on Hopper: choice of kernel and cluster, tensor maps, launch. */
#include <algorithm>
#include <cuda.h>

#include "kernels/cuda/w4a16_decode.cuh"

namespace w4a16 {
namespace {

constexpr int LEAST_STAGES = 6;               /* 52 KB under way */
constexpr int64_t MOST_X_BYTES = 20 * 1024;   /* of a block: more takes too long to reach every block */
constexpr int64_t SHARED_X_BYTES = 12 * 1024; /* from here on a cluster that is done in one sweep had better share x */
constexpr int64_t CLUSTER_UNITS = 8;          /* at most, since every sweep of a cluster ends with an exchange */

struct decode_plan {
  const decode_variant *variant;
  int64_t cluster, clusters; /* blocks of a cluster, clusters */
  int stages, stage_tiles, x_pitch, shared_bytes, threads;
};

int64_t n_units(const yk_w4a16_desc &desc)
{
  return ceil_div(desc.n, UNIT_COLUMNS);
}

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
  const decode_variant *all = desc.dtype == YK_F16 ? decode_variants_f16() : decode_variants_bf16();
  auto cost = [&](const decode_variant &v) { return ceil_div(units, v.units) * v.sweep_cost; };
  plan->variant = std::min_element(all, all + DECODE_VARIANTS,
                                   [&](const decode_variant &a, const decode_variant &b) { return cost(a) < cost(b); });
  plan->stage_tiles = static_cast<int>(ceil_div(tiles, ceil_div(tiles, DECODE_WARPS)));
  plan->x_pitch = static_cast<int>(tiles * X_TILE_BYTES + X_PAD_BYTES);
  int stage = plan->stage_tiles * UNIT_NIBBLE_BYTES + scale_stage_bytes(plan->stage_tiles, groups_per_tile(desc));
  int64_t rest = x + sums_bytes(plan->variant->units) + received_bytes(plan->variant->units);
  auto stages_in = [&](int64_t bytes) { return std::min<int64_t>((bytes - rest) / stage, DECODE_STAGES); };
  if (stages_in(std::min(TURN_SHARED_BYTES[0], TURN_SHARED_BYTES[1])) < LEAST_STAGES) return false;
  plan->stages = static_cast<int>(stages_in(TURN_SHARED_BYTES[turn]));
  plan->shared_bytes = turn_shared_bytes(turn, static_cast<int>(rest + plan->stages * stage));
  plan->threads = TURN_THREADS[turn];
  return true;
}

/* Packed weights as [K tile of a pair of column tiles][column tile][row][warp][a unit's part], a box being stage_tiles K
 * tiles of one unit.
 *   part_bytes   of a unit in a row: rows are the halves of the nibbles, or groups
 *   row_bytes    from row to row                                                                                      */
bool encode_weights(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const void *from, int part_bytes, int n_rows,
                    int row_bytes, int stage_tiles, CUtensorMap *map)
{
  auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(gpu.encode_tensor_map);
  cuuint64_t tile = static_cast<cuuint64_t>(tile_bytes(desc));
  cuuint32_t words = static_cast<cuuint32_t>(part_bytes / 4), rows = static_cast<cuuint32_t>(n_rows);
  cuuint64_t sizes[5] = {words, 4, rows, 2, static_cast<cuuint64_t>(n_column_tiles(desc) / 2 * n_k_tiles(desc))};
  cuuint64_t strides[4] = {static_cast<cuuint64_t>(part_bytes), static_cast<cuuint64_t>(row_bytes), tile, 2 * tile};
  cuuint32_t box[5] = {words, 1, rows, 1, static_cast<cuuint32_t>(stage_tiles)}, steps[5] = {1, 1, 1, 1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_INT32, 5, const_cast<void *>(from), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

} // namespace

cudaError_t decode_init()
{
  for (const decode_variant *variants : {decode_variants_f16(), decode_variants_bf16()}) {
    for (int i = 0; i < DECODE_VARIANTS; i++) {
      for (const void *kernel : variants[i].kernels) {
        cudaError_t error = allow_shared_bytes(kernel, TURN_SHARED_BYTES[0]);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

bool decode_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call, cudaStream_t stream,
                    cudaError_t *error)
{
  decode_plan plan;
  if (!make_plan(gpu, desc, call.m, call.turn, &plan)) return false;
  const uint8_t *packed = static_cast<const uint8_t *>(call.packed);
  CUtensorMap nibbles, scales;
  if (!encode_weights(gpu, desc, packed, UNIT_NIBBLE_BYTES / 2, 2, TILE_NIBBLE_BYTES / 2, plan.stage_tiles, &nibbles) ||
      !encode_weights(gpu, desc, packed + TILE_NIBBLE_BYTES, UNIT_SCALE_BYTES, groups_per_tile(desc), GROUP_SCALE_BYTES,
                      plan.stage_tiles, &scales)) {
    *error = cudaErrorInvalidValue;
    return true;
  }
  decode_params p = {};
  p.bias = call.bias;
  p.x = call.x;
  p.y = call.y;
  p.m = static_cast<int>(call.m);
  p.n = static_cast<int>(desc.n);
  p.k = static_cast<int>(desc.k);
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.units = static_cast<int>(n_units(desc));
  p.clusters = static_cast<int>(plan.clusters);
  p.stage_tiles = plan.stage_tiles;
  p.stages = plan.stages;
  p.x_pitch = plan.x_pitch;
  p.gate_up = desc.gate_up;
  void *args[] = {&nibbles, &scales, &p};
  *error = launch_overlapped(plan.variant->kernels[groups_per_tile(desc) / 2], plan.clusters, plan.cluster,
                             plan.threads, plan.shared_bytes, args, stream);
  return true;
}

} // namespace w4a16
