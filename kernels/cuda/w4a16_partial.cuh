/* w4a16_partial.cuh - sums of blocks that share a work tile, added in a fixed order by those that finish it. */
#ifndef YK_KERNELS_CUDA_W4A16_PARTIAL_CUH
#define YK_KERNELS_CUDA_W4A16_PARTIAL_CUH

#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/w4a16_work.cuh"

namespace w4a16 {

/* Four sums on their way, all bits inverted: 0 means "not written yet", since no arithmetic gives the NaN of all ones. */
__device__ __forceinline__ bool is_written(uint4 v)
{
  return v.x && v.y && v.z && v.w;
}

/* The inversion inside: as an integer operation of C++ it has ptxas serialise the products that the sums come from (C7514). */
__device__ __forceinline__ void send_partial(uint4 *to, const float *sums)
{
  asm volatile("{\n"
               ".reg .b32 a, b, c, d;\n"
               "not.b32 a, %1;\n"
               "not.b32 b, %2;\n"
               "not.b32 c, %3;\n"
               "not.b32 d, %4;\n"
               "st.relaxed.gpu.global.v4.b32 [%0], {a, b, c, d};\n"
               "}" ::"l"(to),
               "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
               : "memory");
}

/* A range's partial sums have their own place in the workspace, thread by thread. */
template <int C, int N>
__device__ __forceinline__ uint4 *partial_of(const wgmma_params &p, int range, int n_groups, int group)
{
  int64_t at = static_cast<int64_t>(range) * n_groups + group;
  return reinterpret_cast<uint4 *>(p.partial) + at * (C * N / 8) * 128 + threadIdx.x % 128;
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

/* Where each range is a part of one tile, each finishes a share of the tokens; else the first finishes all, since the
 * others have more to do. A tile that is whole has one part. */
__device__ __forceinline__ participant participant_of(const wgmma_params &p, int range, const work &w, int n_blocks)
{
  if (w.last - w.first == p.k_tiles) return {range, 1, 0, {0, n_blocks}};
  if (p.cuts) {
    int first = w.tile * p.cuts, place = range - first;
    token_blocks own = {p.by_cuts.quotient(place * n_blocks), p.by_cuts.quotient((place + 1) * n_blocks)};
    return {first, p.cuts, place, own};
  }
  int first = range, end = range + 1, tile_start = w.tile * p.k_tiles;
  while (work_list::range_start(p, first) > tile_start) first--;
  while (end < p.split_blocks && work_list::range_start(p, end) < tile_start + p.k_tiles) end++;
  return {first, end - first, range - first, {0, range == first ? n_blocks : 0}};
}

/* Have the L2 cache hold what the others will write: attention has filled it with keys and values, and a read that goes to
 * memory waits behind the next product's weights. */
template <int G, int C, int N>
__device__ __forceinline__ void prefetch_partials(const wgmma_params &p, const participant &me, int group)
{
  for (int i = 0; i < me.count - 1; i++) {
    const uint4 *from = partial_of<C, N>(p, me.first + i + (i >= me.place ? 1 : 0), G, group);
#pragma unroll
    for (int c = 0; c < C; c++) {
      for (int block = me.own.first; block < me.own.end; block++) prefetch_l2(from + (c * (N / 8) + block) * 128);
    }
  }
}

/* Add the other ranges' sums of this one's blocks, in the order of ranges.
 *   BATCH, AHEAD   pieces of 4 sums and ranges that are read together                                                 */
template <int G, int C, int N, int BATCH, int AHEAD>
__device__ __forceinline__ void receive_partials(const wgmma_params &p, const participant &me, int group,
                                                 float (&sum)[C][N / 8][4])
{
  constexpr int BLOCKS = N / 8, PIECES = C * BLOCKS;
  for (int other = 0; other < me.count - 1; other += AHEAD) {
    uint4 *from[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      int at = min(other + a, me.count - 2);
      from[a] = partial_of<C, N>(p, me.first + at + (at >= me.place ? 1 : 0), G, group);
    }
    /* The piece that is written last, so that waiting takes no bandwidth from those who still work. A warp leaves as one:
     * else the compiler has every lane work out the addresses of the next tile's products for itself, in their loop. */
    const uint4 *last = from[AHEAD - 1] + ((C - 1) * BLOCKS + me.own.end - 1) * 128;
    while (other == 0 && !__all_sync(~0u, is_written(load_relaxed_gpu16(last)))) continue;
#pragma unroll
    for (int i0 = 0; i0 < PIECES; i0 += BATCH) {
      if (i0 % BLOCKS >= me.own.end || (BATCH < BLOCKS && i0 % BLOCKS + BATCH <= me.own.first)) continue;
      uint4 v[AHEAD][BATCH]; /* of other shares too: what lies there is added where nobody looks */
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          v[i / BATCH][i % BATCH] = load_relaxed_gpu16(from[i / BATCH] + (i0 + i % BATCH) * 128);
#pragma unroll
        for (int i = 0; i < AHEAD * BATCH; i++)
          complete = complete && (is_written(v[i / BATCH][i % BATCH]) || !me.own.holds((i0 + i % BATCH) % BLOCKS));
      } while (!__all_sync(~0u, complete));
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (other + a >= me.count - 1) break;
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
          float(&s)[4] = sum[(i0 + i) / BLOCKS][(i0 + i) % BLOCKS];
          s[0] += __uint_as_float(~v[a][i].x);
          s[1] += __uint_as_float(~v[a][i].y);
          s[2] += __uint_as_float(~v[a][i].z);
          s[3] += __uint_as_float(~v[a][i].w);
          if (me.own.holds((i0 + i) % BLOCKS)) store_relaxed_gpu16(from[a] + (i0 + i) * 128, 0);
        }
      }
    }
  }
}

/* Send the others what they finish, and complete what this one does. The data are their own flag, which saves three round
 * trips to memory; who has read them puts the zeros back. */
template <int G, int C, int N>
__device__ __forceinline__ void exchange_partials(const wgmma_params &p, int range, const participant &me, int group,
                                                  float (&sum)[C][N / 8][4])
{
  constexpr int BLOCKS = N / 8, PIECES = C * BLOCKS;
  uint4 *to = partial_of<C, N>(p, range, G, group);
#pragma unroll
  for (int i = 0; i < PIECES; i++) {
    if (!me.own.holds(i % BLOCKS)) send_partial(to + i * 128, sum[i / BLOCKS][i % BLOCKS]);
  }
  if (me.own.first == me.own.end) return;
  /* Eight pieces at a time: few of many ranges where shares are small. */
  constexpr int FEW = BLOCKS < 8 ? 1 : BLOCKS / 4, FEW_AHEAD = FEW == 1 ? 4 : 8 / FEW;
  constexpr int MANY = PIECES < 8 ? PIECES : C == 1 ? 8 : 4, MANY_AHEAD = PIECES < 8 ? 8 / PIECES : 1;
  if (C == 1 && BLOCKS <= 16 && me.own.end - me.own.first <= FEW)
    receive_partials<G, C, N, FEW, FEW_AHEAD>(p, me, group, sum);
  else
    receive_partials<G, C, N, MANY, MANY_AHEAD>(p, me, group, sum);
}

} // namespace w4a16

#endif
