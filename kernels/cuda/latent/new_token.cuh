/* new_token.cuh - norm, rotation and cache write inside other kernels: one warp processes the latent vector of a row of
 * the step; elements with rotary embedding are processed in pieces of 16 bytes. */
#ifndef YK_KERNELS_CUDA_LATENT_NEW_TOKEN_CUH
#define YK_KERNELS_CUDA_LATENT_NEW_TOKEN_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/latent/params.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_latent {

constexpr int TOKEN_PIECES = WIDTH / 8, ROPE_PIECES = ROPE_DIM / 8; /* pieces of 16 bytes */

/* Cosines and sines of a position. */
__device__ __forceinline__ const float *rope_of(const new_rows &rows, int32_t position)
{
  return rows.rope + static_cast<int64_t>(position) * ROPE_DIM;
}

/* Called by whole warps: each of ROPE_PIECES neighbouring lanes has one piece of a vector that rotates. */
struct rotation {
  static constexpr int HALF = ROPE_PIECES / 2;
  float4 cosines[2], sines[2]; /* values of the piece's pairs; sines with their sign */

  /* rope: result of rope_of for the position, or a copy. */
  __device__ __forceinline__ explicit rotation(const float *rope)
  {
    const int piece = threadIdx.x % ROPE_PIECES;
    const float4 *from = reinterpret_cast<const float4 *>(rope) + piece % HALF * 2;
    const float sign = piece < HALF ? -1.0f : 1.0f;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      cosines[i] = from[i];
      sines[i] = from[ROPE_DIM / 8 + i];
      sines[i] = make_float4(sign * sines[i].x, sign * sines[i].y, sign * sines[i].z, sign * sines[i].w);
    }
  }

  template <typename T> __device__ __forceinline__ uint4 apply(uint4 own) const
  {
    using piece8 = yk_cuda::vec<T, 8>;
    uint4 other;
    other.x = __shfl_xor_sync(~0u, own.x, HALF);
    other.y = __shfl_xor_sync(~0u, own.y, HALF);
    other.z = __shfl_xor_sync(~0u, own.z, HALF);
    other.w = __shfl_xor_sync(~0u, own.w, HALF);
    piece8 &v = reinterpret_cast<piece8 &>(own);
    const piece8 &w = reinterpret_cast<const piece8 &>(other);
    const float c[8] = {cosines[0].x, cosines[0].y, cosines[0].z, cosines[0].w,
                        cosines[1].x, cosines[1].y, cosines[1].z, cosines[1].w};
    const float s[8] = {sines[0].x, sines[0].y, sines[0].z, sines[0].w, sines[1].x, sines[1].y, sines[1].z, sines[1].w};
#pragma unroll
    for (int i = 0; i < 8; i++)
      v.at[i] = yk_cuda::from_float<T>(yk_cuda::to_float(v.at[i]) * c[i] + yk_cuda::to_float(w.at[i]) * s[i]);
    return own;
  }
};

/* A lane's part of a row's latent vector: pieces lane and lane + 32 of c, and piece lane % ROPE_PIECES of r. */
template <typename T> struct new_token {
  uint4 c[2], r;

  __device__ static int lane()
  {
    return threadIdx.x % 32;
  }

  /* Loads the output of the preceding kernel. */
  __device__ __forceinline__ void load(const new_rows &rows, int32_t row)
  {
    const uint4 *from = reinterpret_cast<const uint4 *>(static_cast<const T *>(rows.latent) + row * rows.stride);
    c[0] = from[lane()];
    c[1] = from[lane() + 32];
    r = from[KV_RANK / 8 + lane() % ROPE_PIECES];
  }

  /* The lane's pieces of the norm's weights; norm_w: rows.norm_w or a copy. */
  struct weights {
    uint4 w[2];

    __device__ __forceinline__ explicit weights(const void *norm_w)
        : w{static_cast<const uint4 *>(norm_w)[lane()], static_cast<const uint4 *>(norm_w)[lane() + 32]}
    {
    }
  };

  /* Norms c and rotates r. */
  __device__ __forceinline__ void make(const new_rows &rows, const weights &norm, const rotation &rotate_row)
  {
    using piece8 = yk_cuda::vec<T, 8>;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const float x = yk_cuda::to_float(reinterpret_cast<const piece8 &>(c[i / 8]).at[i % 8]);
      squares += x * x;
    }
    const float factor = rsqrtf(yk_cuda::warp_sum(squares) / KV_RANK + rows.norm_eps);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      piece8 &v = reinterpret_cast<piece8 &>(c[i]);
#pragma unroll
      for (int j = 0; j < 8; j++)
        v.at[j] = yk_cuda::from_float<T>(yk_cuda::rounded<T>(yk_cuda::to_float(v.at[j]) * factor) *
                                         yk_cuda::to_float(reinterpret_cast<const piece8 &>(norm.w[i]).at[j]));
    }
    r = rotate_row.template apply<T>(r);
  }

  /* Calls f with the number and the value of each of the lane's pieces. */
  template <typename F> __device__ __forceinline__ void for_each_piece(F f) const
  {
    f(lane(), c[0]);
    f(lane() + 32, c[1]);
    if (lane() < ROPE_PIECES) f(KV_RANK / 8 + lane(), r);
  }

  /* Writes to the row's slot of the cache. */
  __device__ __forceinline__ void store(const new_rows &rows, int32_t slot) const
  {
    uint4 *to = reinterpret_cast<uint4 *>(static_cast<T *>(rows.cache) + static_cast<int64_t>(slot) * WIDTH);
    for_each_piece([&](int piece, uint4 v) { to[piece] = v; });
  }
};

/* Prefetches the other inputs of `make` into the L2 cache. */
__device__ __forceinline__ void prefetch_norm_and_rope(const new_rows &rows, int32_t position)
{
  if (!yk_ptx::elect_one()) return;
  yk_ptx::bulk_prefetch_l2(rows.norm_w, KV_RANK * 2);
  yk_ptx::bulk_prefetch_l2(rope_of(rows, position), ROPE_DIM * 4);
}

} // namespace yk_latent

#endif
