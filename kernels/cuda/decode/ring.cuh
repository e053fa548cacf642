/* ring.cuh - a warp's ring of units in shared memory: everything that the warp reads of weights and cached tokens, in
 * the order of its work, over all layers.
 *
 * A unit is two neighbouring panels, or the last panel of an odd number, by one K tile, or half a page of the cache:
 * one run of bytes. Producer warps request units as slots become free, so copies continue through attention, exchanges
 * and layer ends until the ring is full. They keep few copies of a ring in flight. With more, memory serves thread
 * blocks unequally, and all wait for the slowest; and the packets of exchanges arrive later.
 *
 * Units of a layer, for a warp: those of qkv; for each of the warp's pages K, then V; those of o, gate and up, down.
 * Within a GEMM: for each PASS_TILES of the warp's K tiles, for each pair of panels of the thread block, the tiles. */
#ifndef YK_KERNELS_CUDA_DECODE_RING_CUH
#define YK_KERNELS_CUDA_DECODE_RING_CUH

#include "kernels/cuda/decode/params.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_decode {

/* A unit of a warp: its layer and its number in the layer; and where it is in global memory. */
struct unit_source {
  int layer, number;
  const char *from;
  int n_bytes;

  /* Goes n units further. */
  __device__ __forceinline__ void advance(int n, const layer_units &units)
  {
    number += n;
    while (number >= units.end) {
      number -= units.end;
      layer++;
    }
  }

  /* Sets from and n_bytes, in a layer that exists. */
  __device__ __forceinline__ void find(const params &p, const char *shared, int warp, const layer_units &units)
  {
    const yk_decode_weights &w = reinterpret_cast<const yk_decode_weights *>(shared + p.shared.layers)[layer];
    int i = number;
    if (i >= units.pages && i < units.begin[YK_DECODE_O]) {
      i -= units.pages;
      const int page = warp + i / (2 * PAGE_UNITS) * ATTENTION_WARPS, part = i % PAGE_UNITS;
      const char *cache = static_cast<const char *>(i / PAGE_UNITS % 2 ? w.v : w.k);
      const int32_t cache_block = reinterpret_cast<const int32_t *>(shared + p.shared.pages)[page];
      const int64_t place = static_cast<int64_t>(cache_block) * p.shape.n_kv_heads + blockIdx.x / SPLITS;
      from = cache + (place * PAGE_UNITS + part) * PAGE_UNIT_BYTES;
      n_bytes = PAGE_UNIT_BYTES;
      return;
    }
    const int gemm = i < units.pages                      ? YK_DECODE_QKV
                     : i < units.begin[YK_DECODE_GATE_UP] ? YK_DECODE_O
                     : i < units.begin[YK_DECODE_DOWN]    ? YK_DECODE_GATE_UP
                                                          : YK_DECODE_DOWN;
    const panel_range range = reinterpret_cast<const panel_range *>(shared + p.shared.ranges)[gemm];
    const int of_pass = (range.count + UNIT_PANELS - 1) / UNIT_PANELS * PASS_TILES; /* units of a pass of all tiles */
    int first_tile = 0;                                                             /* of the pass, of the warp */
    for (i -= units.begin[gemm]; i >= of_pass; i -= of_pass) first_tile += PASS_TILES;
    const bool has_one_tile = first_tile + 1 == units.tiles[gemm];
    const int pair = has_one_tile ? i : i / PASS_TILES;
    const int tile = warp + WARPS * (first_tile + (has_one_tile ? 0 : i % PASS_TILES));
    const int64_t place = static_cast<int64_t>(tile) * p.n_panels[gemm] + range.first + UNIT_PANELS * pair;
    from = static_cast<const char *>(w.packed[gemm]) + place * panel::BYTES;
    n_bytes = min(range.count - UNIT_PANELS * pair, UNIT_PANELS) * panel::BYTES;
  }
};

/* A warp's slots in shared memory, and their barriers: `full` completes when a unit has arrived, `empty` when the warp
 * has read it. */
struct ring_memory {
  uint32_t slots, full, empty;

  __device__ __forceinline__ static ring_memory of(const params &p, uint32_t shared, int warp)
  {
    const uint32_t first = warp * p.slots, barriers = shared + p.shared.barriers;
    return {shared + first * UNIT_BYTES, barriers + first * 8, barriers + (WARPS * p.slots + first) * 8};
  }
};

/* A slot and the parity of its round. */
struct ring_position {
  int slot = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int slots)
  {
    slot++;
    if (slot < slots) return;
    slot = 0;
    parity ^= 1;
  }
};

/* Fills the rings of PRODUCER_RINGS warps, LANES neighbouring lanes each: a lane describes one of LANES consecutive
 * units. Called by a producer warp. */
__device__ __forceinline__ void produce_units(const params &p, const char *shared)
{
  using yk_ptx::mbarrier_test_wait;
  constexpr int LANES = WARP / PRODUCER_RINGS;
  const int lane = threadIdx.x % LANES, warp = (static_cast<int>(threadIdx.x) - THREADS) / LANES;
  const ring_memory ring = ring_memory::of(p, yk_ptx::shared_address(shared), warp);
  /* Places of three units: the next to request; the oldest requested one whose arrival, and the oldest whose release,
   * has not been seen. */
  ring_position next, in_flight, unread;
  int n_in_flight = 0, n_unread = 0, unit = 0; /* n_unread: requested, not released */
  const layer_units &units = reinterpret_cast<const layer_units *>(shared + p.shared.units)[warp];
  const int n_units = units.end * p.shape.n_layers;
  if (n_units == 0) return;
  unit_source source = {};
  source.advance(lane, units);
  if (source.layer < p.shape.n_layers) source.find(p, shared, warp, units);
  while (unit < n_units) {
    if (n_in_flight > 0 && mbarrier_test_wait(ring.full + in_flight.slot * 8, in_flight.parity)) {
      n_in_flight--;
      in_flight.advance(p.slots);
    }
    if (n_unread > 0 && mbarrier_test_wait(ring.empty + unread.slot * 8, unread.parity)) {
      n_unread--;
      unread.advance(p.slots);
    }
    if (n_unread == p.slots || n_in_flight >= (n_unread == n_in_flight ? FLIGHT_OF_EMPTY : FLIGHT_OF_READY)) continue;
    if (lane == unit % LANES) {
      const yk_ptx::mbarrier full(ring.full + next.slot * 8);
      yk_ptx::mbarrier_arrive_expect(full, source.n_bytes);
      yk_ptx::bulk_copy_once(ring.slots + next.slot * UNIT_BYTES, source.from, source.n_bytes, full);
    }
    next.advance(p.slots);
    n_in_flight++;
    n_unread++;
    unit++;
    if (unit % LANES != 0) continue;
    source.advance(LANES, units);
    if (source.layer < p.shape.n_layers) source.find(p, shared, warp, units);
  }
}

/* The warp's end of its ring. */
struct unit_ring {
  const params &p;
  ring_memory memory;
  ring_position at;

  /* The slot of the unit that is `ahead` units after the next one, fewer than p.slots. */
  __device__ __forceinline__ int slot_of(int ahead) const
  {
    return at.slot + ahead < p.slots ? at.slot + ahead : at.slot + ahead - p.slots;
  }

  __device__ __forceinline__ uint32_t address_of(int ahead) const
  {
    return memory.slots + slot_of(ahead) * UNIT_BYTES;
  }

  /* Waits until that unit has arrived. */
  __device__ __forceinline__ void wait(int ahead = 0) const
  {
    const uint32_t wrapped = at.slot + ahead < p.slots ? 0 : 1;
    yk_ptx::mbarrier_wait_asm_loop(memory.full + slot_of(ahead) * 8, at.parity ^ wrapped);
  }

  /* Called by all lanes once they have read the next unit. */
  __device__ __forceinline__ void release()
  {
    __syncwarp();
    if (threadIdx.x % WARP == 0) yk_ptx::mbarrier_arrive(memory.empty + at.slot * 8);
    at.advance(p.slots);
  }
};

} // namespace yk_decode

#endif
