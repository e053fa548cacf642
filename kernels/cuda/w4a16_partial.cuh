/* w4a16_partial.cuh - sums of blocks that share a work tile, added in a fixed order by those that finish it. */
#ifndef YK_KERNELS_CUDA_W4A16_PARTIAL_CUH
#define YK_KERNELS_CUDA_W4A16_PARTIAL_CUH

#include "kernels/cuda/w4a16_work.cuh"

namespace w4a16 {

__device__ __forceinline__ float4 load_partial(const float4 *from)
{
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_partial(float4 *to, float4 v)
{
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

/* +0 becomes -0, so that the bit pattern 0 can mean "not written yet". */
__device__ __forceinline__ float never_zero_bits(float v)
{
  return __float_as_uint(v) == 0 ? -0.0f : v;
}

__device__ __forceinline__ bool is_written(float4 v)
{
  return __float_as_uint(v.x) && __float_as_uint(v.y) && __float_as_uint(v.z) && __float_as_uint(v.w);
}

/* A range's partial sums have their own place in the workspace, thread by thread. */
template <int C, int N>
__device__ __forceinline__ float4 *partial_of(const wgmma_params &p, int range, int n_groups, int group)
{
  int64_t at = static_cast<int64_t>(range) * n_groups + group;
  return reinterpret_cast<float4 *>(p.partial) + at * (C * N / 8) * 128 + threadIdx.x % 128;
}

/* Blocks of 8 tokens whose sums are complete. */
struct token_blocks {
  int first, end;

  __device__ __forceinline__ bool holds(int block) const
  {
    return block >= first && block < end;
  }
};

/* The part that a range has in a tile. */
struct participant {
  int first, count; /* ranges of the tile */
  int place;        /* this one's among them */
  token_blocks own; /* what it finishes */
};

__device__ __forceinline__ participant participant_of(const wgmma_params &p, int range, const work &w, int n_blocks)
{
  int first = range, end = range + 1, tile_start = w.tile * p.k_tiles;
  while (work_list::range_start(p, first) > tile_start) first--;
  while (end < p.split_blocks && work_list::range_start(p, end) < tile_start + p.k_tiles) end++;
  participant me = {first, end - first, range - first, {0, range == first ? n_blocks : 0}};
  if (p.cuts) me.own = {me.place * n_blocks / me.count, (me.place + 1) * n_blocks / me.count};
  return me;
}

/* Add the other ranges' sums of this one's blocks, in the order of ranges.
 *   BATCH, AHEAD   pieces of 4 sums and ranges that are read together                                                 */
template <int G, int C, int N, int BATCH, int AHEAD>
__device__ __forceinline__ void receive_partials(const wgmma_params &p, const participant &me, int group,
                                                 float (&sum)[C][N / 2])
{
  constexpr int BLOCKS = N / 8, PIECES = C * BLOCKS;
  for (int other = 0; other < me.count - 1; other += AHEAD) {
    float4 *from[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      int at = min(other + a, me.count - 2);
      from[a] = partial_of<C, N>(p, me.first + at + (at >= me.place ? 1 : 0), G, group);
    }
    /* The piece that is written last, so that waiting takes no bandwidth from those who still work. A warp leaves as one:
     * else the compiler has every lane work out the addresses of the next tile's products for itself, in their loop. */
    const float4 *last = from[AHEAD - 1] + ((C - 1) * BLOCKS + me.own.end - 1) * 128;
    while (!__all_sync(~0u, is_written(load_partial(last)))) continue;
#pragma unroll
    for (int i0 = 0; i0 < PIECES; i0 += BATCH) {
      if (i0 % BLOCKS >= me.own.end || (BATCH < BLOCKS && i0 % BLOCKS + BATCH <= me.own.first)) continue;
      float4 v[AHEAD][BATCH]; /* of other shares too: what lies there is added where nobody looks */
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          v[i / BATCH][i % BATCH] = load_partial(from[i / BATCH] + (i0 + i % BATCH) * 128);
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          complete = complete && (is_written(v[i / BATCH][i % BATCH]) || !me.own.holds((i0 + i % BATCH) % BLOCKS));
      } while (!__all_sync(~0u, complete));
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (other + a >= me.count - 1) break;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          float *s = &sum[(i0 + i) / BLOCKS][(i0 + i) % BLOCKS * 4];
          s[0] += v[a][i].x;
          s[1] += v[a][i].y;
          s[2] += v[a][i].z;
          s[3] += v[a][i].w;
          if (me.own.holds((i0 + i) % BLOCKS))
            store_partial(from[a] + (i0 + i) * 128, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
        }
      }
    }
  }
}

/* Where each range is a part of one tile, each finishes a share of the tokens and sends the others theirs; else the first
 * finishes all, since the others have more to do. The data are their own flag, which saves three round trips to memory;
 * who has read them puts the zeros back. Returns the blocks that are complete.                                        */
template <int G, int C, int N>
__device__ __forceinline__ token_blocks exchange_partials(const wgmma_params &p, int range, const work &w, int group,
                                                          float (&sum)[C][N / 2])
{
  constexpr int BLOCKS = N / 8, PIECES = C * BLOCKS, BATCH = PIECES < 8 ? PIECES : C == 1 ? 8 : 4;
  constexpr int AHEAD = PIECES < 8 ? 8 / PIECES : 1;
  participant me = participant_of(p, range, w, BLOCKS);
  float4 *to = partial_of<C, N>(p, range, G, group);
#pragma unroll
  for (int i = 0; i < PIECES; i++) {
    const float *s = &sum[i / BLOCKS][i % BLOCKS * 4];
    if (!me.own.holds(i % BLOCKS))
      store_partial(to + i * 128, make_float4(never_zero_bits(s[0]), never_zero_bits(s[1]), never_zero_bits(s[2]),
                                              never_zero_bits(s[3])));
  }
  if (me.own.first == me.own.end) return me.own;
  /* Small shares of many ranges: fewer pieces of more ranges at a time. */
  constexpr int SMALL = BLOCKS >= 8 && C == 1 ? BLOCKS / 4 : BATCH;
  if (SMALL < BATCH && me.own.end - me.own.first <= BLOCKS / 3)
    receive_partials<G, C, N, SMALL, BATCH / SMALL>(p, me, group, sum);
  else
    receive_partials<G, C, N, BATCH, AHEAD>(p, me, group, sum);
  return me.own;
}

} // namespace w4a16

#endif
