/* lone_row_kernel.cuh - a lone row through a mixture of experts in one launch, on 9.0: its routing, gate and up, down
 * and their combination, with the layers of a shared expert. One thread block a multiprocessor; its warps are alike.
 *
 *   logits    the warps of the first blocks have 8 columns of the router each, whose weights they read before
 *             griddepcontrol.wait. Logits go to all blocks through device memory: words that are empty until they come
 *   choose    by one warp of every block, which takes all logits
 *   weights   a warp has a ring of its own, which it fills by bulk copies: no warp waits for another one's weights.
 *             Those of the shared expert's gate and up are asked for before the wait, those of the chosen experts' with
 *             the choice, those of down as the ones before are used: they come while the thread blocks meet
 *   gate, up  panels of all experts are dealt out evenly; the warps of a block divide K
 *   meet      results go to all blocks as logits do
 *   down      panels of the row: the warps of a block divide the K tiles of all slots, and their weighted sums meet
 *
 * Thread blocks wait for each other, so all of them must run at once: there is one for each multiprocessor at most, and
 * a GPU places all thread blocks of a grid before any of the next one. */
#ifndef YK_KERNELS_CUDA_EXPERTS_LONE_ROW_KERNEL_CUH
#define YK_KERNELS_CUDA_EXPERTS_LONE_ROW_KERNEL_CUH

#include "kernels/cuda/experts/logits_exchange.cuh"
#include "kernels/cuda/experts/route_choose.cuh"
#include "kernels/cuda/gemm/divider.cuh"
#include "kernels/cuda/gemm/wna16_grouped_row_kernel.cuh"

namespace yk_experts {

using namespace yk_gemm;

constexpr int LONE_WARPS = 16, LONE_THREADS = WARP * LONE_WARPS;
constexpr int LONE_REGISTERS = SM_REGISTERS / LONE_THREADS;
constexpr int LONE_GROUP = 3;     /* panels of a stage: neighbours of one K tile, or of neighbouring K tiles */
constexpr int LONE_STAGES = 8;    /* of a warp's ring, at most */
constexpr int LONE_INNER = 32768; /* values between the two GEMMs, at most */
constexpr uint32_t OTHER_NANS = 0x7FFF7FFFu;              /* what is sent in place of an empty word */
constexpr int LONE_PANELS = LONE_THREADS / PANEL_COLUMNS; /* of gate and up, of a block, at most: a thread a column */

/* In device memory. */
struct lone_exchange {
  logits_exchange logits;
  uint32_t turn;      /* the part of inner that the launch has; empty until block 0 has told */
  uint32_t next_turn; /* block 0's alone */
  /* Pairs of values. The next launch has the other part, which is emptied meanwhile. */
  alignas(16) uint32_t inner[2][LONE_INNER / 2];
};

/* One of the two GEMMs. */
struct lone_gemm {
  const uint8_t *weights, *bias; /* of matrix 0; bias may be NULL */
  int64_t matrix_bytes;
  const uint8_t *shared;             /* weights of the shared expert, or NULL */
  int k_tiles, n_panels;             /* of an expert */
  int shared_k_tiles, shared_panels; /* 0 without a shared expert */
};

struct lone_params {
  lone_gemm gate_up, down;
  yk_cuda::divider by_blocks, by_panels, by_down_tiles; /* panels of gate and up, K tiles of down, of an expert */
  route_params route;
  row_router router;
  int hidden, ffn, shared_ffn;
  yk_combine_args sum;
  lone_exchange *exchange;
  int max_slots;
  int stages;     /* of a warp's ring */
  int max_panels; /* of gate and up, of a block */
};

/* In shared memory. */
struct lone_row {
  uint32_t keys[ROUTED_EXPERTS]; /* of groups */
  float scores[ROUTED_EXPERTS];
  int chosen[YK_MAX_TOP_K]; /* experts by falling score; -1: padding */
  int matrix[YK_MAX_TOP_K]; /* of the slots, which are here the choices that the rank holds, in their order */
  int n_slots;
  bool is_finite;
  uint32_t turn;
  float weight[YK_MAX_TOP_K + 1]; /* of the slots; the shared expert's comes last */
  uint64_t full[LONE_WARPS][LONE_STAGES];
  float down_sums[2][LONE_WARPS][PANEL_COLUMNS]; /* of two panels alternately */
  router_tile<__half>::sums logits;
};

/* The row's inputs in shared memory: those of a K tile as row_x_at says, and the sums of each group of scales. */
struct lone_x {
  uint32_t x;
  float *sums; /* [K tiles, 4] */
};

__host__ __device__ constexpr int lone_x_bytes(int k_tiles)
{
  return row_x_bytes(k_tiles) + k_tiles * 16;
}

/* A number of the warp that the compiler knows to be one: behind a branch that depends on another it would put slow
 * sequences around everything that a warp does together. */
__device__ __forceinline__ int same_in_warp(int x)
{
  return __shfl_sync(ALL_LANES, x, 0);
}

/* ---- Routing ----------------------------------------------------------------------------------------------------- */

/* By one thread of block 0. */
__device__ __forceinline__ void send_turn(lone_exchange &e)
{
  const uint32_t turn = e.next_turn;
  e.next_turn = turn ^ 1;
  store_relaxed_gpu(&e.turn, turn);
}

/* By one warp: the logits of each lane's experts, the shared expert's weight and the turn, once they are there. */
template <int PER_LANE>
__device__ __forceinline__ void gather_row(const lone_params &p, lone_row &row, float (&logits)[PER_LANE])
{
  const bool has_gate = p.sum.shared_gate != nullptr;
  uint32_t turn, gate_logit;
  gather_logits(p.exchange->logits, p.route.spec.n_experts, logits, [&] {
    turn = load_relaxed_gpu(&p.exchange->turn);
    gate_logit = load_relaxed_gpu(&p.exchange->logits.gate_logit);
    return turn == EMPTY_WORD || (has_gate && gate_logit == EMPTY_WORD);
  });
  if (threadIdx.x % WARP > 0) return;
  row.turn = turn;
  row.weight[YK_MAX_TOP_K] = has_gate ? 1.0f / (1.0f + expf(-__uint_as_float(gate_logit))) : 1.0f;
}

/* By one warp, in shared memory: the top_k experts of the largest keys. A lane's keys are sorted first, so that a round
 * is a maximum over the warp. Equal keys of two lanes are rare: then once more, by the function that looks for them. */
template <int PER_LANE>
__device__ __forceinline__ void choose_by_keys(int top_k, uint32_t (&keys)[PER_LANE], int *chosen)
{
  const int lane = threadIdx.x % WARP;
  uint32_t sorted[PER_LANE];
  int expert[PER_LANE];
  bool has_equal = false;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    sorted[i] = keys[i];
    expert[i] = i * WARP + lane;
  }
#pragma unroll
  for (int end = PER_LANE - 1; end > 0; end--) {
#pragma unroll
    for (int i = 0; i < end; i++) {
      const bool swap = sorted[i + 1] > sorted[i];
      const uint32_t key = sorted[i];
      const int e = expert[i];
      sorted[i] = swap ? sorted[i + 1] : key;
      expert[i] = swap ? expert[i + 1] : e;
      sorted[i + 1] = swap ? key : sorted[i + 1];
      expert[i + 1] = swap ? e : expert[i + 1];
    }
  }
#pragma unroll 2
  for (int j = 0; j < top_k; j++) {
    const bool is_mine = sorted[0] == __reduce_max_sync(ALL_LANES, sorted[0]);
    const unsigned lanes = __ballot_sync(ALL_LANES, is_mine);
    has_equal |= (lanes & (lanes - 1)) != 0;
    if (is_mine) chosen[j] = expert[0];
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
      sorted[i] = !is_mine ? sorted[i] : i + 1 < PER_LANE ? sorted[i + 1] : 0;
      expert[i] = is_mine && i + 1 < PER_LANE ? expert[i + 1] : expert[i];
    }
  }
  if (has_equal) {
#pragma unroll 1
    for (int j = 0; j < top_k; j++) {
      const int e = take_largest(keys, lane);
      if (lane == 0) chosen[j] = e;
    }
  }
  __syncwarp();
}

/* By one warp, in shared memory: scores, choices and slots. */
template <int PER_LANE> __device__ __forceinline__ void route_lone_row(const lone_params &p, lone_row &row)
{
  const yk_route_spec &spec = p.route.spec;
  const int lane = threadIdx.x % WARP;
  const bool is_padding = p.route.kv_slots && p.route.kv_slots[0] < 0;
  float scores[PER_LANE], biases[PER_LANE];
  uint32_t keys[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = i * WARP + lane;
    biases[i] = p.route.bias && e < spec.n_experts ? p.route.bias[e] : 0.0f;
  }
  gather_row(p, row, scores);
  const bool is_finite = score(spec, lane, scores);
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = i * WARP + lane;
    keys[i] = e < spec.n_experts ? key_of(scores[i] + biases[i]) : 0;
    row.scores[e] = scores[i];
  }
  if (is_finite) {
    if (spec.n_groups > 1) keep_groups(spec, keys, row.keys, lane);
    choose_by_keys(spec.top_k, keys, row.chosen);
  }
  const int expert = lane >= spec.top_k || is_padding ? -1 : is_finite ? row.chosen[lane] : lane;
  const int matrix = expert - spec.first_local;
  const bool is_local = expert >= 0 && static_cast<unsigned>(matrix) < static_cast<unsigned>(spec.n_local);
  const unsigned local = __ballot_sync(ALL_LANES, is_local);
  if (is_local) row.matrix[__popc(local & ((1u << lane) - 1))] = matrix;
  row.chosen[lane] = expert;
  if (lane > 0) return;
  row.is_finite = is_finite;
  row.n_slots = __popc(local);
}

/* By one warp: what the slots are worth; write: and what a route writes. */
__device__ __forceinline__ void weigh_slots(const lone_params &p, lone_row &row, bool write)
{
  const yk_route_spec &spec = p.route.spec;
  const int lane = threadIdx.x % WARP, expert = row.chosen[lane], matrix = expert - spec.first_local;
  const bool is_local = expert >= 0 && static_cast<unsigned>(matrix) < static_cast<unsigned>(spec.n_local);
  const unsigned local = __ballot_sync(ALL_LANES, is_local);
  float weight = expert >= 0 ? row.scores[expert] : 0.0f;
  if (spec.normalise) {
    float sum = 0.0f; /* in the order of the choices */
#pragma unroll 1
    for (int j = 0; j < spec.top_k; j++) sum += __shfl_sync(ALL_LANES, weight, j);
    weight /= sum + 1e-20f;
  }
  weight *= spec.scale;
  if (!row.is_finite) weight = __uint_as_float(0x7FC00000u);
  if (is_local) row.weight[__popc(local & ((1u << lane) - 1))] = weight;
  if (!write) return;
  const auto slots_below = [&](int e) { /* of the rank's experts, in the order of a route's slots */
                                        int slots = 0;
#pragma unroll 1
                                        for (int i = 0; i < spec.top_k; i++) {
                                          const int other = __shfl_sync(ALL_LANES, matrix, i);
                                          slots += (local >> i & 1) && other < e;
                                        }
                                        return slots;
  };
  const int slot = slots_below(matrix);
  for (int first = 0; first <= spec.n_local; first += WARP) {
    const int start = slots_below(first + lane);
    if (first + lane <= spec.n_local) p.route.starts[first + lane] = start;
  }
  if (lane >= spec.top_k) return;
  p.route.choices[lane] = expert;
  p.route.weights[lane] = expert >= 0 ? weight : 0.0f;
  p.route.slot_of_choice[lane] = is_local ? slot : -1;
  if (is_local) p.route.row_of_slot[slot] = 0;
  if (p.route.counts && expert >= 0) atomicAdd(reinterpret_cast<unsigned long long *>(p.route.counts) + expert, 1ull);
}

/* By one warp of every block. */
__device__ __forceinline__ void empty_other_inner(lone_exchange &e, uint32_t turn)
{
  uint4 *to = reinterpret_cast<uint4 *>(e.inner[turn ^ 1]);
  for (int i = blockIdx.x * WARP + threadIdx.x % WARP; i < LONE_INNER / 8; i += gridDim.x * WARP)
    to[i] = make_uint4(EMPTY_WORD, EMPTY_WORD, EMPTY_WORD, EMPTY_WORD);
}

/* ---- Work -------------------------------------------------------------------------------------------------------- */

/* What a warp multiplies, counted in units, each of which is a stage of its ring. First those of gate and up: up to
 * LONE_GROUP neighbouring panels of the block by one of the warp's K tiles, the shared expert's before the others. Then
 * those of down: one of the block's panels by up to LONE_GROUP neighbouring K tiles of the warp's, which are counted
 * over slots, the shared expert's last. */
struct lone_work {
  int shared_panel, n_shared; /* gate and up: the block's panels of the shared expert */
  int expert_panel, n_expert; /* and of the others, counted over slots */
  int k_tile, n_k_tiles;      /* the warp's of the row */
  int down_panel, n_down;
  int down_tile, n_down_tiles;
  int n_slots;
  int n_gate_up, n_units; /* units of gate and up; of both */

  /* slots: of the row. */
  __device__ __forceinline__ lone_work(const lone_params &p, int warp, int slots)
  {
    const auto groups = [](int n) { return (n + LONE_GROUP - 1) / LONE_GROUP; };
    const int block = blockIdx.x;
    const auto of_block = [&](int n) { return p.by_blocks.quotient(block * n); };
    const auto end_of_block = [&](int n) { return p.by_blocks.quotient((block + 1) * n); };
    const int panels = slots * p.gate_up.n_panels, tiles = slots * p.down.k_tiles + p.down.shared_k_tiles;
    n_slots = slots;
    shared_panel = of_block(p.gate_up.shared_panels);
    n_shared = end_of_block(p.gate_up.shared_panels) - shared_panel;
    expert_panel = of_block(panels);
    n_expert = end_of_block(panels) - expert_panel;
    k_tile = warp * p.gate_up.k_tiles / LONE_WARPS;
    n_k_tiles = (warp + 1) * p.gate_up.k_tiles / LONE_WARPS - k_tile;
    down_panel = of_block(p.down.n_panels);
    n_down = end_of_block(p.down.n_panels) - down_panel;
    down_tile = warp * tiles / LONE_WARPS;
    n_down_tiles = (warp + 1) * tiles / LONE_WARPS - down_tile;
    n_gate_up = (groups(n_shared) + groups(n_expert)) * n_k_tiles;
    n_units = n_gate_up + n_down * groups(n_down_tiles);
  }

  __device__ __forceinline__ int n_shared_units() const
  {
    return (n_shared + LONE_GROUP - 1) / LONE_GROUP * n_k_tiles;
  }
};

/* A warp's ring of stages. Every lane knows one of 32 units, and asks for that one's weights. */
template <typename PANEL> struct lone_ring {
  static constexpr int STAGE_BYTES = LONE_GROUP * PANEL::BYTES;
  const lone_params &p;
  const lone_work &w;
  const int *matrices; /* of the slots */
  uint32_t memory, full;
  int first = 0; /* the unit of lane 0 */
  /* The lane's unit. Of gate and up: its slot, -1 of the shared expert; where it begins within the matrix; its panels,
   * of which some are in the next slot's matrix. Of down: its first K tile, its panel, and how many K tiles. */
  int slot_or_tile, offset_or_panel, n, n_next;
  int asked = 0, done = 0; /* units */
  int ask_stage = 0;
  ring_position at;

  __device__ __forceinline__ void describe()
  {
    int i = first + static_cast<int>(threadIdx.x % WARP);
    n = n_next = slot_or_tile = offset_or_panel = 0;
    if (i < w.n_gate_up) {
      const int group = i / w.n_k_tiles, tile = w.k_tile + i - group * w.n_k_tiles;
      const int shared_groups = (w.n_shared + LONE_GROUP - 1) / LONE_GROUP;
      const bool is_shared = group < shared_groups;
      const int before = (is_shared ? group : group - shared_groups) * LONE_GROUP;
      int panel = before + (is_shared ? w.shared_panel : w.expert_panel), panels = p.gate_up.shared_panels;
      n = min(LONE_GROUP, (is_shared ? w.n_shared : w.n_expert) - before);
      slot_or_tile = -1;
      if (!is_shared) {
        panels = p.gate_up.n_panels;
        slot_or_tile = p.by_panels.quotient(panel);
        panel -= slot_or_tile * panels;
        n_next = max(panel + n - panels, 0);
        n -= n_next;
      }
      offset_or_panel = (tile * panels + panel) * PANEL::BYTES;
    } else if (i < w.n_units) {
      const int groups = (w.n_down_tiles + LONE_GROUP - 1) / LONE_GROUP, panel = (i - w.n_gate_up) / groups;
      const int before = (i - w.n_gate_up - panel * groups) * LONE_GROUP;
      slot_or_tile = w.down_tile + before;
      offset_or_panel = w.down_panel + panel;
      n = min(LONE_GROUP, w.n_down_tiles - before);
    }
  }

  /* By the lane whose unit comes next. */
  __device__ __forceinline__ void ask(bool is_gate_up, int stage) const
  {
    uint32_t to = memory + stage * STAGE_BYTES;
    const uint32_t barrier = full + stage * 8;
    mbarrier_arrive_expect(barrier, (n + n_next) * PANEL::BYTES);
    if (is_gate_up) {
      const uint8_t *from =
          slot_or_tile < 0 ? p.gate_up.shared : p.gate_up.weights + matrices[slot_or_tile] * p.gate_up.matrix_bytes;
      bulk_copy_once(to, from + offset_or_panel, n * PANEL::BYTES, barrier);
      if (n_next == 0) return;
      from = p.gate_up.weights + matrices[slot_or_tile + 1] * p.gate_up.matrix_bytes;
      const int next_offset = offset_or_panel + (n - p.gate_up.n_panels) * PANEL::BYTES;
      bulk_copy_once(to + n * PANEL::BYTES, from + next_offset, n_next * PANEL::BYTES, barrier);
      return;
    }
#pragma unroll 1
    for (int tile = slot_or_tile; tile < slot_or_tile + n; tile++, to += PANEL::BYTES) {
      const int slot = min(p.by_down_tiles.quotient(tile), w.n_slots);
      const uint8_t *from = slot < w.n_slots ? p.down.weights + matrices[slot] * p.down.matrix_bytes : p.down.shared;
      const int panel = (tile - slot * p.down.k_tiles) * p.down.n_panels + offset_or_panel;
      bulk_copy_once(to, from + static_cast<int64_t>(panel) * PANEL::BYTES, PANEL::BYTES, barrier);
    }
  }

  /* Units up to `end`, which are gate and up's and fit in the ring: each lane its own, which is in the stage of that
   * number. */
  __device__ __forceinline__ void begin(int end)
  {
    const int lane = threadIdx.x % WARP;
    if (lane >= asked && lane < end) ask(true, lane);
    asked = max(asked, end);
    ask_stage = asked == p.stages ? 0 : asked;
  }

  __device__ __forceinline__ void ask_next()
  {
    if (asked == w.n_units || asked - done == p.stages) return;
    if (asked == first + WARP) {
      first += WARP;
      describe();
    }
    if (static_cast<int>(threadIdx.x % WARP) == asked - first) ask(asked < w.n_gate_up, ask_stage);
    asked++;
    ask_stage = ask_stage + 1 == p.stages ? 0 : ask_stage + 1;
  }

  __device__ __forceinline__ uint32_t wait() const
  {
    mbarrier_wait_asm_loop(full + at.stage * 8, at.phase);
    return memory + at.stage * STAGE_BYTES;
  }

  /* By all lanes, which are done with a unit. */
  __device__ __forceinline__ void next()
  {
    __syncwarp();
    done++;
    at.advance(p.stages);
    ask_next();
  }
};

/* ---- Products ---------------------------------------------------------------------------------------------------- */

template <typename T> __device__ __forceinline__ float sum_of_pair(uint32_t word)
{
  if constexpr (std::is_same_v<T, __half>) {
    const float2 v = __half22float2(pair_of<__half2>(word));
    return v.x + v.y;
  } else {
    return __uint_as_float(word << 16) + __uint_as_float(word & 0xFFFF0000u);
  }
}

/* By a warp: the lane's eight inputs, piece `piece` of 16 of a K tile. Half a warp has a tile, or nothing to store. */
template <typename T, typename PANEL>
__device__ __forceinline__ void store_lone_x(const lone_x &x, int tile, int piece, const uint4 &v, bool has_tile)
{
  constexpr int LANES = 16 / PANEL::GROUPS;
  float sum = (sum_of_pair<T>(v.x) + sum_of_pair<T>(v.y)) + (sum_of_pair<T>(v.z) + sum_of_pair<T>(v.w));
#pragma unroll
  for (int other = 1; other < LANES; other *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, other);
  if (!has_tile) return;
  store_shared16(x.x + row_x_at(tile) + piece / 8 * 1024 + piece % 8 * 16, v);
  if (piece % LANES == 0) x.sums[tile * 4 + piece / LANES] = sum;
}

/* By a warp: x of its K tiles, zeros past its end. */
template <typename T, typename PANEL>
__device__ __forceinline__ void load_lone_x(const lone_params &p, const lone_work &w, const lone_x &x)
{
  for (int i = threadIdx.x % WARP; i - threadIdx.x % WARP < w.n_k_tiles * 16; i += WARP) {
    const int tile = w.k_tile + i / 16, k = tile * TILE_K + i % 16 * 8;
    const bool has_tile = i < w.n_k_tiles * 16;
    const uint4 v = has_tile && k < p.router.k
                        ? __ldcg(reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(p.router.x) + k))
                        : make_uint4(0, 0, 0, 0);
    store_lone_x<T, PANEL>(x, tile, i % 16, v, has_tile);
  }
  __syncwarp();
}

__device__ __forceinline__ bool is_empty(const uint4 &v)
{
  return v.x == EMPTY_WORD || v.y == EMPTY_WORD || v.z == EMPTY_WORD || v.w == EMPTY_WORD;
}

/* By a warp: what its K tiles of down are multiplied with, once it is there. */
template <typename T, typename PANEL>
__device__ __forceinline__ void gather_inner(const lone_params &p, const lone_work &w, const uint32_t *inner,
                                             const lone_x &x)
{
  constexpr int AT_ONCE = 2;
  const int lane = threadIdx.x % WARP, n = w.n_down_tiles * 16;
#pragma unroll 1
  for (int base = 0; base < n; base += AT_ONCE * WARP) {
    uint4 v[AT_ONCE];
    const uint4 *from[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      const int i = base + j * WARP + lane, tile = w.down_tile + i / 16;
      const int slot = min(p.by_down_tiles.quotient(tile), w.n_slots);
      const int k = (tile - slot * p.down.k_tiles) * TILE_K + i % 16 * 8;
      const bool is_valid = i < n && k < (slot < w.n_slots ? p.ffn : p.shared_ffn);
      from[j] = reinterpret_cast<const uint4 *>(inner + (slot * p.ffn + k) / 2);
      v[j] = make_uint4(0, 0, 0, 0);
      if (is_valid) v[j] = load_relaxed_gpu16(from[j]);
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      while (__any_sync(ALL_LANES, is_empty(v[j])))
        if (is_empty(v[j])) v[j] = load_relaxed_gpu16(from[j]);
      const int i = base + j * WARP + lane;
      store_lone_x<T, PANEL>(x, w.down_tile + i / 16, i % 16, v[j], i < n);
    }
  }
  __syncwarp();
}

/* acc[c] += 128 inputs of panel c of a stage by those of K tile tile + c of the row, or of `tile` where all panels have
 * one. Weights are multiplied as integers (wna16_integer_weights.cuh). Panels that the stage lacks give anything. */
template <yk_dtype DTYPE, typename PANEL, bool ONE_TILE>
__device__ __forceinline__ void multiply_stage(uint32_t panels, const lone_x &x, int tile, float (&acc)[LONE_GROUP][2])
{
  constexpr int GROUP_STEPS = PANEL::GROUP_STEPS, LOAD_STEPS = PANEL::LOAD_STEPS, N_X = ONE_TILE ? 1 : LONE_GROUP;
  using integers = integer_weights<DTYPE>;
  const int lane = threadIdx.x % WARP;
  uint4 words[LONE_GROUP];
  uint32_t b[N_X][4], at[N_X];
  float part[LONE_GROUP][4];
#pragma unroll
  for (int i = 0; i < N_X; i++) at[i] = x.x + row_x_at(tile + i) + lane / 8 * 16;
#pragma unroll
  for (int step = 0; step < 8; step++) {
#pragma unroll
    for (int c = 0; c < LONE_GROUP; c++)
      if (step % LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panels + c * PANEL::BYTES, step, lane));
#pragma unroll
    for (int i = 0; i < N_X; i++)
      if (step % 2 == 0) ldmatrix_x4(b[i], (step % 4 ? at[i] ^ 64 : at[i]) + step / 4 * 1024);
#pragma unroll
    for (int i = 0; i < 4 * LONE_GROUP; i++)
      if (step % GROUP_STEPS == 0) part[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (int c = 0; c < LONE_GROUP; c++) {
      const int k = step % 2 * 2, i = c % N_X;
      uint32_t a[4];
      integers::expand(word_at(words[c], step % 4), a);
      mma<DTYPE>(part[c], a, b[i][k], b[i][k + 1]);
      if ((step + 1) % GROUP_STEPS) continue;
      const float sum = x.sums[(tile + i) * 4 + step / GROUP_STEPS];
      integers w;
      w.load(load_shared8(scales_at<PANEL>(panels + c * PANEL::BYTES, step, lane)));
      acc[c][0] = fmaf(w.scale[0], fmaf(w.offset[0], sum * (1.0f / integers::FACTOR), part[c][0]), acc[c][0]);
      acc[c][1] = fmaf(w.scale[1], fmaf(w.offset[1], sum * (1.0f / integers::UPPER_FACTOR), part[c][2]), acc[c][1]);
    }
  }
}

/* A column of the block's panels of gate and up, a thread's own. */
struct lone_column {
  int slot, column, width;
  bool is_shared, is_valid;

  __device__ __forceinline__ lone_column(const lone_params &p, const lone_work &w)
  {
    int panel = threadIdx.x / PANEL_COLUMNS;
    is_shared = panel < w.n_shared;
    is_valid = panel < w.n_shared + w.n_expert;
    panel += is_shared ? w.shared_panel : w.expert_panel - w.n_shared;
    slot = is_shared ? w.n_slots : p.by_panels.quotient(panel);
    width = is_shared ? p.shared_ffn : p.ffn;
    column = (is_shared ? panel : panel - slot * p.gate_up.n_panels) * 8 + threadIdx.x % 8;
    is_valid = is_valid && column < width;
  }
};

/* By all threads: gate and up from the warps' sums of the block's panels, to all blocks. sums: [warps, panels, 16]. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void send_inner(const lone_params &p, const lone_work &w, const lone_column &own,
                                           const int *matrices, const float *sums, uint32_t *inner)
{
  const int row = threadIdx.x % PANEL_COLUMNS;
  if (static_cast<int>(threadIdx.x / WARP) * WARP >= (w.n_shared + w.n_expert) * PANEL_COLUMNS) return;
  float v = 0.0f;
#pragma unroll
  for (int i = 0; i < LONE_WARPS; i++) v += sums[i * p.max_panels * PANEL_COLUMNS + threadIdx.x];
  if (p.gate_up.bias && !own.is_shared && own.is_valid)
    v += load_float<DTYPE>(p.gate_up.bias + matrices[own.slot] * p.gate_up.matrix_bytes,
                           own.column + row / 8 * own.width);
  const float up = __shfl_down_sync(ALL_LANES, v, 8);
  const uint32_t result = round_pair<element<DTYPE>>(silu(v) * up, 0.0f) & 0xFFFFu;
  const uint32_t word = result | __shfl_down_sync(ALL_LANES, result, 1) << 16;
  if (own.is_valid && row < 8 && row % 2 == 0)
    store_relaxed_gpu(inner + (own.slot * p.ffn + own.column) / 2, word == EMPTY_WORD ? OTHER_NANS : word);
}

template <yk_dtype DTYPE, typename PANEL>
__device__ __forceinline__ void multiply_gate_up(const lone_params &p, const lone_work &w, lone_ring<PANEL> &ring,
                                                 const lone_x &x, float *sums)
{
  using integers = integer_weights<DTYPE>;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n_panels = w.n_shared + w.n_expert;
#pragma unroll 1
  for (int panel = 0, end; panel < n_panels; panel = end) {
    float acc[LONE_GROUP][2] = {};
#pragma unroll 1
    for (int tile = w.k_tile; tile < w.k_tile + w.n_k_tiles; tile++) {
      multiply_stage<DTYPE, PANEL, true>(ring.wait(), x, tile, acc);
      ring.next();
    }
    end = min(panel + LONE_GROUP, panel < w.n_shared ? w.n_shared : n_panels);
#pragma unroll
    for (int c = 0; c < LONE_GROUP; c++) {
      if (lane % 4 != 0 || panel + c >= end) continue;
      float *to = sums + (warp * p.max_panels + panel + c) * PANEL_COLUMNS + lane / 4;
      to[0] = acc[c][0] * integers::FACTOR;
      to[8] = acc[c][1] * integers::UPPER_FACTOR;
    }
  }
}

/* The warp's weighted sums of a panel: columns lane / 4 and lane / 4 + 8. */
template <yk_dtype DTYPE, typename PANEL>
__device__ __forceinline__ float2 multiply_down(const lone_params &p, const lone_work &w, lone_ring<PANEL> &ring,
                                                const lone_x &x, const float *weights)
{
  using integers = integer_weights<DTYPE>;
  float2 sum = {0.0f, 0.0f};
#pragma unroll 1
  for (int i = 0; i < w.n_down_tiles; i += LONE_GROUP) {
    float acc[LONE_GROUP][2] = {};
    multiply_stage<DTYPE, PANEL, false>(ring.wait(), x, w.down_tile + i, acc);
    ring.next();
#pragma unroll
    for (int c = 0; c < LONE_GROUP; c++) {
      const int slot = p.by_down_tiles.quotient(w.down_tile + i + c);
      if (i + c >= w.n_down_tiles) continue;
      const float weight = weights[slot < w.n_slots ? slot : YK_MAX_TOP_K];
      sum.x = fmaf(weight, acc[c][0], sum.x);
      sum.y = fmaf(weight, acc[c][1], sum.y);
    }
  }
  return {sum.x * integers::FACTOR, sum.y * integers::UPPER_FACTOR};
}

template <yk_dtype DTYPE, typename PANEL>
__global__ void __maxnreg__(LONE_REGISTERS) lone_row_kernel(const __grid_constant__ lone_params p)
{
#ifdef YK_HAVE_SM90A
  using T = element<DTYPE>;
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ lone_row row;
  const int warp = same_in_warp(threadIdx.x / WARP), lane = threadIdx.x % WARP;
  const bool routes = warp == LONE_WARPS - 1;
  const int down_tiles = p.max_slots * p.down.k_tiles + p.down.shared_k_tiles;
  const uint32_t memory = shared_address(shared);
  const lone_x x = {memory, reinterpret_cast<float *>(shared + row_x_bytes(p.gate_up.k_tiles))};
  const int down_x_at = (lone_x_bytes(p.gate_up.k_tiles) + 1023) & ~1023;
  const lone_x down_x = {memory + down_x_at, reinterpret_cast<float *>(shared + down_x_at + row_x_bytes(down_tiles))};
  const int sums_at = down_x_at + lone_x_bytes(down_tiles);
  float *const sums = reinterpret_cast<float *>(shared + sums_at);
  const int rings_at = sums_at + LONE_WARPS * p.max_panels * PANEL_COLUMNS * 4;
  lone_work w(p, warp, p.max_slots);
  lone_ring<PANEL> ring = {p, w, row.matrix, memory + rings_at + warp * p.stages * lone_ring<PANEL>::STAGE_BYTES,
                           shared_address(row.full[warp])};
  if (lane < p.stages) mbarrier_init(ring.full + lane * 8, 1);
  fence_mbarrier_init();
  __syncwarp();
  ring.describe();
  ring.begin(min(w.n_shared_units(), p.stages));
  if (warp < router_tile<T>::WARPS)
    send_logits<T, true>(p.router, p.exchange->logits, *reinterpret_cast<typename router_tile<T>::sums *>(&row.logits));
  else
    wait_for_previous_kernel();
  if (blockIdx.x == 0 && warp == LONE_WARPS - 2 && lane == 0) send_turn(*p.exchange);
  load_lone_x<T, PANEL>(p, w, x);
  if (routes) {
    if (p.route.spec.n_experts <= FEW_EXPERTS)
      route_lone_row<FEW_EXPERTS / WARP>(p, row);
    else
      route_lone_row<ROUTED_EXPERTS / WARP>(p, row);
  }
  __syncthreads();
  const int n_slots = same_in_warp(row.n_slots);
  if (n_slots != p.max_slots) {
    w = lone_work(p, warp, n_slots);
    ring.describe();
  }
  ring.begin(min(w.n_gate_up, p.stages));
  let_next_kernel_start();
  if (routes) {
    weigh_slots(p, row, blockIdx.x == gridDim.x - 1);
    if (release_exchange(p.exchange->logits) && lane == 0) p.exchange->turn = EMPTY_WORD;
  }
  if (warp == 0) empty_other_inner(*p.exchange, row.turn);
  uint32_t *const inner = p.exchange->inner[row.turn];
  const lone_column own_column(p, w);
  multiply_gate_up<DTYPE>(p, w, ring, x, sums);
  __syncthreads();
  send_inner<DTYPE>(p, w, own_column, row.matrix, sums, inner);
  for (int i = 0; i < p.stages; i++) ring.ask_next();
  gather_inner<T, PANEL>(p, w, inner, down_x);
#pragma unroll 1
  for (int panel = 0; panel < w.n_down; panel++) {
    const float2 sum = multiply_down<DTYPE>(p, w, ring, down_x, row.weight);
    auto &all = row.down_sums[panel % 2];
    if (lane % 4 == 0) {
      all[warp][lane / 4] = sum.x;
      all[warp][lane / 4 + 8] = sum.y;
    }
    __syncthreads();
    const int column = (w.down_panel + panel) * PANEL_COLUMNS + static_cast<int>(threadIdx.x);
    if (threadIdx.x >= PANEL_COLUMNS || column >= p.hidden) continue;
    float of_column = 0.0f;
#pragma unroll
    for (int i = 0; i < LONE_WARPS; i++) of_column += all[i][threadIdx.x];
    for (int slot = 0; p.down.bias && slot < w.n_slots; slot++)
      of_column += row.weight[slot] * load_float<DTYPE>(p.down.bias + row.matrix[slot] * p.down.matrix_bytes, column);
    if (p.sum.shared && !p.down.shared) of_column += load_float<DTYPE>(p.sum.shared, column) * row.weight[YK_MAX_TOP_K];
    static_cast<uint16_t *>(p.sum.y)[column] = static_cast<uint16_t>(round_pair<T>(of_column, 0.0f));
  }
#endif
}

} // namespace yk_experts

#endif
