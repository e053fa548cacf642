/* products.cuh - a GEMM of the decode kernel: a thread block multiplies the input row by its panels. */
#ifndef YK_KERNELS_CUDA_DECODE_PRODUCTS_CUH
#define YK_KERNELS_CUDA_DECODE_PRODUCTS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/decode/ring.cuh"
#include "kernels/cuda/decode/x_rows.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_decode {

/* Scale and zero point, negated, of a row of a panel, from its scale word (gemm/encoding_int4.cuh). */
template <yk_dtype DTYPE> __device__ __forceinline__ float2 scale_and_offset(uint32_t word, bool is_upper)
{
  if constexpr (DTYPE == YK_F16) {
    const float2 pair = __half22float2(*reinterpret_cast<__half2 *>(&word));
    return make_float2(pair.x, pair.y + (is_upper ? 64.0f : 1024.0f));
  }
  return make_float2(__uint_as_float(word & 0xFFFF0000u) + __uint_as_float((word & 0xFFF0u) << 16),
                     -static_cast<float>(word & 0xFu));
}

/* acc[i] += the columns g and g + 8 of panel i times x, for lane 4 g; other lanes' acc are of no use. Columns 0 and 1
 * of B are the high and the low bytes of x. Lanes 8 to 31 have the other columns: they load nothing, since accesses to
 * shared memory limit the speed at which arrived units are multiplied. A byte of the words has the nibble of a lower
 * row and above it that of the upper row: as it is, it counts as 16 q of the upper row plus q of the lower row. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void multiply_unit(uint32_t unit, uint32_t x_tile, const x_scale &scale,
                                              float (&acc)[UNIT_PANELS][2])
{
  using yk_ptx::load_shared16;
  constexpr uint32_t LOWER = 0x0F0F0F0Fu;
  const int lane = threadIdx.x % WARP;
  const uint32_t x_lane = x_tile + lane / 4 * 64 + lane % 4 * 16;
  int c[UNIT_PANELS][4] = {};
#pragma unroll
  for (int half = 0; half < 2; half++) {
    uint4 x = make_uint4(0, 0, 0, 0);
    if (lane < 8) x = load_shared16(x_lane + half * 128);
    uint4 w[UNIT_PANELS];
#pragma unroll
    for (int i = 0; i < UNIT_PANELS; i++) w[i] = load_shared16(unit + i * panel::BYTES + half * 512 + lane * 16);
#pragma unroll
    for (int i = 0; i < UNIT_PANELS; i++)
      yk_ptx::mma_m16n8k32_u8_s8(c[i], w[i].x & LOWER, w[i].x, w[i].y & LOWER, w[i].y, x.x, x.y);
#pragma unroll
    for (int i = 0; i < UNIT_PANELS; i++)
      yk_ptx::mma_m16n8k32_u8_s8(c[i], w[i].z & LOWER, w[i].z, w[i].w & LOWER, w[i].w, x.z, x.w);
  }
#pragma unroll
  for (int i = 0; i < UNIT_PANELS; i++) {
    const uint2 words = yk_ptx::load_shared8(unit + i * panel::BYTES + panel::SCALES + lane / 4 * 8);
    const float2 lower = scale_and_offset<DTYPE>(words.x, false), upper = scale_and_offset<DTYPE>(words.y, true);
    const int low = c[i][0] * 256 + c[i][1], high = c[i][2] * 256 + c[i][3] - low;
    acc[i][0] = fmaf(lower.x * scale.lower, fmaf(lower.y, scale.lower_sum, static_cast<float>(low)), acc[i][0]);
    acc[i][1] = fmaf(upper.x * scale.upper, fmaf(upper.y, scale.upper_sum, static_cast<float>(high)), acc[i][1]);
  }
}

/* Adds the products of a pass of x and the thread block's panels to the warp's part of sums [panel][warp][16]; the
 * first pass overwrites them. If the number of panels is odd, sums of one more panel are undefined. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void multiply_panels(unit_ring &ring, int n_panels, int n_tiles, bool is_first,
                                                const x_tiles &x, float *sums)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  float *to = sums + warp * PANEL_COLUMNS + lane / 4;
#pragma unroll 1
  for (int i = 0; i < n_panels; i += UNIT_PANELS, to += UNIT_PANELS * PANEL_SUMS) {
    float acc[UNIT_PANELS][2] = {};
    if (!is_first) {
#pragma unroll
      for (int j = 0; j < UNIT_PANELS; j++) acc[j][0] = to[j * PANEL_SUMS], acc[j][1] = to[j * PANEL_SUMS + 8];
    }
#pragma unroll 1
    for (int tile = 0; tile < n_tiles; tile++) {
      const uint4 words = yk_ptx::load_shared16(x.scales + tile * static_cast<int>(sizeof(x_scale)));
      const x_scale scale = {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z),
                             __uint_as_float(words.w)};
      ring.wait();
      multiply_unit<DTYPE>(ring.address_of(0), x.rows + tile * X_TILE_BYTES, scale, acc);
      ring.release();
    }
    if (lane % 4 != 0) continue;
#pragma unroll
    for (int j = 0; j < UNIT_PANELS; j++) to[j * PANEL_SUMS] = acc[j][0], to[j * PANEL_SUMS + 8] = acc[j][1];
  }
}

/* sums = 0 for the warp. */
__device__ __forceinline__ void clear_sums(float *sums, int n_panels)
{
  for (int i = threadIdx.x % WARP; i < n_panels * PANEL_COLUMNS; i += WARP)
    sums[i / PANEL_COLUMNS * PANEL_SUMS + threadIdx.x / WARP * PANEL_COLUMNS + i % PANEL_COLUMNS] = 0.0f;
}

/* A column of a panel, over all warps. */
__device__ __forceinline__ float sum_of_warps(const float *sums, int panel, int column)
{
  const float *from = sums + panel * PANEL_SUMS + column;
  float parts[4] = {};
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++) parts[warp % 4] += from[warp * PANEL_COLUMNS];
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

} // namespace yk_decode

#endif
