/* w4a16_batch.cu - host side of the products of up to 32 tokens on Hopper: choice of kernel and cluster, launch. */
#include <algorithm>

#include "kernels/cuda/w4a16_batch.cuh"
#include "kernels/cuda/w4a16_tensor_map.cuh"

namespace w4a16 {
namespace {

struct batch_plan {
  const batch_variant *variant;
  int64_t cluster, clusters; /* blocks of a cluster, clusters */
  int team_size, stages, shared_bytes, threads;
};

/* What a cluster's blocks send each other, of two sweeps. */
int received_bytes(const batch_variant &v, int team_size, int64_t cluster)
{
  return cluster > 1 ? 2 * unit_sums_bytes(v.tokens, team_size * v.warp_units) : 0;
}

/* Stages in so much memory, as many for each team; 0 where that is too few, or too little for a sweep's sums. */
int n_stages(const batch_variant &v, const yk_w4a16_desc &desc, int team_size, int64_t bytes)
{
  int64_t stage = stage_bytes_of(v.tokens, team_size * v.warp_units, unit_bytes(desc)), teams = MULTIPLIERS / team_size;
  int64_t stages = std::min<int64_t>(bytes / stage, BATCH_STAGES) / teams * teams;
  bool fits = stages >= 2 && stages * stage >= unit_sums_bytes(v.tokens, MULTIPLIERS * v.warp_units);
  return fits ? static_cast<int>(stages) : 0;
}

batch_plan lay_out(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const batch_variant &v, int team_size,
                   int64_t cluster, int turn)
{
  batch_plan plan = {};
  int received = received_bytes(v, team_size, cluster);
  plan.variant = &v;
  plan.cluster = cluster;
  plan.clusters = std::min(n_units(desc), gpu.n_multiprocessors / cluster);
  plan.team_size = team_size;
  plan.shared_bytes = ALONE_SHARED_BYTES;
  plan.threads = TURN_THREADS[0];
  plan.stages =
      n_stages(v, desc, team_size, std::min(most_shared_bytes(v.where, 0), most_shared_bytes(v.where, 1)) - received);
  if (v.where == place::SHARED) {
    int stage = stage_bytes_of(v.tokens, team_size * v.warp_units, unit_bytes(desc));
    plan.shared_bytes = turn_shared_bytes(turn, plan.stages * stage + received);
    plan.threads = TURN_THREADS[turn];
  }
  return plan;
}

/* Microseconds fitted to 3,900 plans of this kernel and others, timed for 1 to 32 tokens on H200 (bench/NOTES.md), such that
 * the plans chosen are 0.5 % slower than the best on average; one by one they mean little. */
constexpr double UNIT_US = 0.0346; /* memory's time for a unit's K tile, where every multiprocessor asks for one */
constexpr double X_US = 0.98e-3;   /* and for a token's */
constexpr double ALONE_US = 1.0;   /* where the next product cannot begin early */
constexpr double SWEEP_US = 1.39;  /* end of a sweep, ... */
constexpr double TEAM_US = 0.105;  /* ... for each team, ... */
constexpr double UNIT_TOKEN_US = 3.9e-3; /* ... and for each unit and token */
constexpr double EXCHANGE_US = 0.155;    /* between two blocks */

double cost_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const batch_plan &plan)
{
  const batch_variant &v = *plan.variant;
  int64_t tiles = ceil_div(n_k_tiles(desc), plan.cluster), teams = MULTIPLIERS / plan.team_size;
  int64_t sweep_units = plan.team_size * v.warp_units;
  double busy = static_cast<double>(plan.clusters * plan.cluster) / gpu.n_multiprocessors;
  double us = (v.where == place::SHARED ? 0.0 : ALONE_US) + (plan.cluster > 1 ? EXCHANGE_US : 0.0);
  for (int64_t left = ceil_div(n_units(desc), plan.clusters); left > 0; left -= sweep_units) {
    double units = static_cast<double>(std::min(left, sweep_units));
    double memory_us = static_cast<double>(tiles) * units * UNIT_US * busy;
    us += std::max(memory_us, static_cast<double>(ceil_div(tiles, teams)) * v.tile_us);
    us += static_cast<double>(tiles * v.tokens) * X_US * busy;
    us += SWEEP_US + static_cast<double>(teams) * TEAM_US + units * v.tokens * UNIT_TOKEN_US;
  }
  return us;
}

/* The cheapest kernel, cluster and division of a block's warps. There is always one: 32 columns a block fit any memory. */
batch_plan make_plan(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m, int turn)
{
  variant_list<batch_variant> all = desc.dtype == YK_F16 ? batch_variants_f16() : batch_variants_bf16();
  int64_t tokens = ceil_div(m, 8) * 8;
  batch_plan best = {};
  for (const batch_variant &v : all) {
    if (v.tokens != tokens) continue;
    for (int team_size = 1; team_size <= MULTIPLIERS; team_size *= 2) {
      for (int cluster = 1; cluster <= std::min(2, gpu.n_multiprocessors); cluster++) {
        batch_plan plan = lay_out(gpu, desc, v, team_size, cluster, turn);
        if (plan.stages == 0) continue;
        if (!best.variant || cost_us(gpu, desc, plan) < cost_us(gpu, desc, best)) best = plan;
      }
    }
  }
  return best;
}

} // namespace

cudaError_t batch_init()
{
  cudaError_t error = allow_shared_bytes(batch_variants_f16());
  return error == cudaSuccess ? allow_shared_bytes(batch_variants_bf16()) : error;
}

double batch_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m)
{
  return cost_us(gpu, desc, make_plan(gpu, desc, m, 0));
}

cudaError_t batch_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                          cudaStream_t stream)
{
  batch_plan plan = make_plan(gpu, desc, call.m, call.turn);
  CUtensorMap map;
  if (!encode_x(gpu, desc, call, plan.variant->tokens, &map)) return cudaErrorInvalidValue;
  batch_params p = {};
  p.packed = static_cast<const uint8_t *>(call.packed);
  p.out = {call.bias, call.y, static_cast<int>(call.m), static_cast<int>(desc.n), desc.gate_up};
  p.k_tiles = static_cast<int>(n_k_tiles(desc));
  p.n_units = static_cast<int>(n_units(desc));
  p.units = deal_units(n_units(desc), plan.clusters);
  p.stages = plan.stages;
  p.team_size = plan.team_size;
  p.n_teams = MULTIPLIERS / plan.team_size;
  p.sweep_units = plan.team_size * plan.variant->warp_units;
  void *args[] = {&map, &p};
  return launch_clusters(plan.variant->kernels[groups_per_tile(desc) / 2], plan.clusters, plan.cluster, plan.threads,
                         plan.shared_bytes, args, stream);
}

} // namespace w4a16
