/* linear_gemm.cuh - one GEMM of 16-bit activations with quantised weights on the device for bench_linear: fresh random
 * tensors, AWQ's or rows of bytes, their packed copy, and the same GEMM in float64. */
#ifndef YK_BENCH_LINEAR_GEMM_CUH
#define YK_BENCH_LINEAR_GEMM_CUH

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "bench/check.cuh"
#include "kernels/cuda/gemm/dense/dense.h"

namespace linear {

using bench::check;

/* Device memory with one owner. */
template <typename T> struct device_array {
  T *data = nullptr;
  size_t count = 0;
  explicit device_array(size_t n) : count(n)
  {
    check(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)), "memory");
  }
  ~device_array()
  {
    cudaFree(data);
  }
  device_array(const device_array &) = delete;
  device_array &operator=(const device_array &) = delete;
};

/* ---- data and reference ------------------------------------------------------------------------------------------ */

__device__ inline uint64_t mix(uint64_t v)
{
  v += 0x9E3779B97F4A7C15u;
  v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9u;
  v = (v ^ v >> 27) * 0x94D049BB133111EBu;
  return v ^ v >> 31;
}

static __global__ void fill_words(uint32_t *out, size_t n, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = static_cast<uint32_t>(mix(seed * 0x100000001B3u + i));
}

/* Uniform in [low, high), rounded to dtype. */
static __global__ void fill_halves(uint16_t *out, size_t n, yk_dtype dtype, float low, float high, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float v = low + (high - low) * static_cast<float>(mix(seed * 0x100000001B3u + i) >> 40) * 0x1p-24f;
    out[i] = dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

__device__ inline float half_value(uint16_t bits, yk_dtype dtype)
{
  return dtype == YK_F16 ? __half2float(__ushort_as_half(bits)) : __bfloat162float(__ushort_as_bfloat16(bits));
}

/* Random bytes without the NaNs of e4m3. */
static __global__ void remove_nans(uint8_t *bytes, size_t n)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    if ((bytes[i] & 0x7F) == 0x7F) bytes[i] ^= 1;
}

/* Uniform in [low, high), rounded to multiples of unit if that is not 0. */
static __global__ void fill_floats(float *out, size_t n, float low, float high, float unit, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float v = low + (high - low) * static_cast<float>(mix(seed * 0x100000001B3u + i) >> 40) * 0x1p-24f;
    out[i] = unit > 0 ? rintf(v / unit) * unit : v;
  }
}

/* AWQ tensors as in a checkpoint, or rows of bytes, and the part of them that a GEMM takes. */
struct tensors {
  yk_gemm_encoding encoding;
  const int32_t *qweight, *qzeros;
  const uint16_t *scales;
  yk_dtype scales_dtype;
  const uint8_t *bytes;                /* [n, row_bytes] */
  const float *row_scales, *row_zeros; /* [n, n_groups] */
  int64_t row_bytes, n_groups;
  int64_t n, group, k0;   /* whole columns; group; first input of the GEMM */
  const int64_t *columns; /* source column of each column of the GEMM */
};

__device__ inline double awq_weight(const tensors &w, int64_t k, int64_t column)
{
  const int shifts[8] = {0, 16, 4, 20, 8, 24, 12, 28};
  int64_t at = w.columns[column], word = at / 8, row = w.k0 + k, g = row / w.group;
  int q = static_cast<uint32_t>(w.qweight[row * (w.n / 8) + word]) >> shifts[at % 8] & 15;
  int z = static_cast<uint32_t>(w.qzeros[g * (w.n / 8) + word]) >> shifts[at % 8] & 15;
  return static_cast<double>(half_value(w.scales[g * w.n + at], w.scales_dtype)) * (q - z);
}

__device__ inline double e4m3_value(uint8_t byte)
{
  int exponent = byte >> 3 & 15, mantissa = byte & 7;
  double size = exponent ? ldexp(8.0 + mantissa, exponent - 10) : ldexp(static_cast<double>(mantissa), -9);
  return byte & 0x80 ? -size : size;
}

__device__ inline double e2m1_value(uint8_t code)
{
  const int exponent = code >> 1 & 3, mantissa = code & 1;
  const double size = exponent ? ldexp(2.0 + mantissa, exponent - 2) : 0.5 * mantissa;
  return code & 8 ? -size : size;
}

__device__ inline double weight_of(const tensors &w, int64_t k, int64_t column)
{
  if (w.encoding == YK_GEMM_INT4) return awq_weight(w, k, column);
  int64_t at = w.columns[column], row = w.k0 + k, g = at * w.n_groups + row / w.group;
  uint8_t byte = w.bytes[at * w.row_bytes + row];
  if (w.encoding == YK_GEMM_FP8) return w.row_scales[g] * e4m3_value(byte);
  if (w.encoding == YK_GEMM_FP4) return w.row_scales[g] * e2m1_value(byte);
  return static_cast<double>(w.row_scales[g]) *
         (static_cast<int8_t>(byte) - (w.row_zeros ? static_cast<double>(w.row_zeros[g]) : 0.0));
}

__device__ inline double exact_sum(const tensors &w, const uint16_t *x, yk_dtype dtype, int64_t k, int64_t column)
{
  double sum = 0;
  for (int64_t i = 0; i < k; i++) sum += static_cast<double>(half_value(x[i], dtype)) * weight_of(w, i, column);
  return sum;
}

/* out[i, column] in float64 for the tokens named in rows. */
static __global__ void reference(tensors w, const uint16_t *x, const uint16_t *bias, yk_gemm_desc d,
                                 const int64_t *rows, double *out)
{
  int64_t width = d.activation.is_gated ? d.n / 2 : d.n, column = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (column >= width) return;
  x += rows[blockIdx.y] * d.k;
  double v = exact_sum(w, x, d.dtype, d.k, column) + (bias ? half_value(bias[column], d.dtype) : 0.0);
  if (d.activation.is_gated) {
    double up =
        exact_sum(w, x, d.dtype, d.k, width + column) + (bias ? half_value(bias[width + column], d.dtype) : 0.0);
    v = v / (1 + exp(-v)) * up;
  }
  out[blockIdx.y * width + column] = v;
}

/* W rounded to dtype, [n, k] as in a plain linear layer. */
static __global__ void expand(tensors w, uint16_t *out, int64_t k, int64_t n, yk_dtype dtype)
{
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < k * n; i += int64_t(gridDim.x) * blockDim.x) {
    float v = static_cast<float>(weight_of(w, i % k, i / k));
    out[i] = dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

inline double to_double(uint16_t bits, yk_dtype dtype)
{
  return dtype == YK_F16 ? yk_f16_to_f32(bits) : yk_bf16_to_f32(bits);
}

/* ---- one GEMM on the device -------------------------------------------------------------------------------------- */

/* Source of a part of the GEMM's columns. */
struct part {
  int64_t first_column, n_columns, source_column;
};

/* Fresh random tensors, their packed copy, activations and results. */
struct gemm_case {
  yk_gemm_desc desc;
  int64_t k0, source_n, source_group, m_max;
  yk_dtype scales_dtype;
  uint64_t seed;
  bool has_zeros; /* of bytes */
  device_array<uint32_t> qweight, qzeros;
  device_array<float> row_scales, row_zeros;
  device_array<uint16_t> scales, x, y, bias;
  device_array<int64_t> columns;
  device_array<uint8_t> packed, workspace;

  gemm_case(const yk_gemm_gpu &gpu, const yk_gemm_desc &d, int64_t first_k, int64_t n_source, int64_t group_source,
            yk_dtype scales_type, bool zeros, const std::vector<part> &parts, int64_t most_tokens, uint64_t s)
      : desc(d), k0(first_k), source_n(n_source), source_group(group_source), m_max(most_tokens),
        scales_dtype(scales_type), seed(s), has_zeros(zeros && d.encoding == YK_GEMM_INT8),
        qweight((k0 + d.k) * n_source / (d.encoding == YK_GEMM_INT4 ? 8 : 4)), qzeros(n_groups() * n_source / 8),
        row_scales(n_groups() * n_source), row_zeros(n_groups() * n_source), scales(qzeros.count * 8),
        x(most_tokens * d.k), y(most_tokens * d.n), bias(d.n), columns(d.n), packed(yk_gemm_packed_bytes(&d)),
        workspace(yk_gemm_workspace_bytes(&gpu, &d, most_tokens))
  {
    fill_words<<<1024, 256>>>(qweight.data, qweight.count, seed + 1);
    fill_words<<<256, 256>>>(qzeros.data, qzeros.count, seed + 2);
    fill_halves<<<256, 256>>>(scales.data, scales.count, scales_dtype, 0.002f, 0.02f, seed + 3);
    if (d.encoding == YK_GEMM_FP8) remove_nans<<<1024, 256>>>(bytes(), qweight.count * 4);
    if (d.encoding == YK_GEMM_FP4) /* numbers of four bits times a factor, as in NVFP4 */
      fill_floats<<<256, 256>>>(row_scales.data, row_scales.count, 8e-4f, 15e-4f, 1e-4f, seed + 3);
    else
      fill_floats<<<256, 256>>>(row_scales.data, row_scales.count, 2e-4f, 2e-3f, 0, seed + 3);
    fill_floats<<<256, 256>>>(row_zeros.data, row_zeros.count, -128.0f, 127.0f, seed % 32 ? 0.0625f : 1.0f, seed + 6);
    fill_halves<<<1024, 256>>>(x.data, x.count, d.dtype, -1.0f, 1.0f, seed + 4);
    fill_halves<<<64, 256>>>(bias.data, bias.count, d.dtype, -2.0f, 2.0f, seed + 5);
    check(cudaMemset(packed.data, 0xFF, packed.count), "poison");
    check(cudaMemset(workspace.data, 0, workspace.count), "workspace");
    std::vector<int64_t> map(d.n);
    yk_err err = YK_ERR_INIT;
    for (const part &p : parts) {
      for (int64_t i = 0; i < p.n_columns; i++) map[p.first_column + i] = p.source_column + i;
      if (d.encoding != YK_GEMM_INT4) {
        const int64_t at = p.source_column * n_groups() + k0 / source_group;
        const yk_gemm_rows from = {bytes() + p.source_column * (k0 + d.k) + k0,
                                   row_scales.data + at,
                                   has_zeros ? row_zeros.data + at : nullptr,
                                   k0 + d.k,
                                   n_groups(),
                                   source_group,
                                   k0 % source_group};
        check(yk_gemm_pack_rows(&d, packed.data, &from, p.first_column, p.n_columns, nullptr, &err), err);
        continue;
      }
      yk_gemm_source from = {};
      from.qweight = reinterpret_cast<int32_t *>(qweight.data) + k0 * (source_n / 8);
      from.qzeros = reinterpret_cast<int32_t *>(qzeros.data) + k0 / source_group * (source_n / 8);
      from.scales = scales.data + k0 / source_group * source_n;
      from.scales_dtype = scales_dtype;
      from.words_per_row = source_n / 8;
      from.first_column = p.source_column;
      from.group = source_group;
      from.k_phase = k0 % source_group;
      check(yk_gemm_pack(&d, packed.data, &from, p.first_column, p.n_columns, nullptr, &err), err);
    }
    check(cudaMemcpy(columns.data, map.data(), d.n * 8, cudaMemcpyHostToDevice), "columns");
    check(cudaDeviceSynchronize(), "pack");
  }

  uint8_t *bytes() const
  {
    return reinterpret_cast<uint8_t *>(qweight.data);
  }

  int64_t n_groups() const
  {
    return (k0 + desc.k + source_group - 1) / source_group;
  }

  tensors source() const
  {
    return {desc.encoding,
            reinterpret_cast<int32_t *>(qweight.data),
            reinterpret_cast<int32_t *>(qzeros.data),
            scales.data,
            scales_dtype,
            bytes(),
            row_scales.data,
            has_zeros ? row_zeros.data : nullptr,
            k0 + desc.k,
            n_groups(),
            source_n,
            source_group,
            k0,
            columns.data};
  }

  int64_t width() const
  {
    return desc.activation.is_gated ? desc.n / 2 : desc.n;
  }
};

struct errors {
  double normalised = 0; /* |y - reference| / |reference| over the tokens compared */
  int64_t bad = 0;       /* results that are not finite, over all tokens */
};

/* Up to 12 of m tokens, including the first, the last and the edges of tiles. */
inline std::vector<int64_t> compared_rows(int64_t m)
{
  std::vector<int64_t> rows;
  for (int64_t r : {int64_t(0), m - 1, m / 2, int64_t(7), int64_t(8), int64_t(63), int64_t(64), int64_t(127),
                    int64_t(128), m / 3, m - 2, m * 5 / 7})
    if (r >= 0 && r < m && std::find(rows.begin(), rows.end(), r) == rows.end()) rows.push_back(r);
  return rows;
}

/* Errors of y [m, width] against exact [rows, width], both on the device. */
inline errors errors_of(const device_array<uint16_t> &y_device, yk_dtype dtype, int64_t m, int64_t width,
                        const std::vector<int64_t> &rows, const device_array<double> &exact_device)
{
  std::vector<uint16_t> y(m * width);
  std::vector<double> exact(rows.size() * width);
  check(cudaDeviceSynchronize(), "GEMM");
  check(cudaMemcpy(y.data(), y_device.data, y.size() * 2, cudaMemcpyDeviceToHost), "results");
  check(cudaMemcpy(exact.data(), exact_device.data, exact.size() * 8, cudaMemcpyDeviceToHost), "reference");
  errors e;
  double error2 = 0, size2 = 0;
  for (uint16_t v : y) e.bad += !std::isfinite(to_double(v, dtype));
  for (size_t r = 0; r < rows.size(); r++) {
    for (int64_t c = 0; c < width; c++) {
      double want = exact[r * width + c], got = to_double(y[rows[r] * width + c], dtype);
      error2 += (got - want) * (got - want);
      size2 += want * want;
    }
  }
  e.normalised = std::sqrt(error2 / size2);
  return e;
}

/* Run once into poisoned memory and compare. */
inline errors compare(const yk_gemm_gpu &gpu, gemm_case &p, int64_t m, bool bias, bool second_half)
{
  const std::vector<int64_t> rows = compared_rows(m);
  int64_t width = p.width();
  device_array<int64_t> rows_device(rows.size());
  device_array<double> exact_device(rows.size() * width);
  check(cudaMemcpy(rows_device.data, rows.data(), rows.size() * 8, cudaMemcpyHostToDevice), "rows");
  check(cudaMemset(p.y.data, 0xFF, p.y.count * 2), "poison"); /* NaN */
  yk_err err = YK_ERR_INIT;
  yk_gemm_plans plans;
  yk_gemm_plans_choose(&gpu, &p.desc, &plans);
  yk_gemm_call call = {p.packed.data, bias ? p.bias.data : nullptr, p.x.data, p.y.data, m, p.workspace.data,
                       second_half};
  check(yk_gemm_forward(&gpu, &p.desc, &plans, &call, nullptr, &err), err);
  reference<<<dim3(unsigned((width + 63) / 64), unsigned(rows.size())), 64>>>(
      p.source(), p.x.data, bias ? p.bias.data : nullptr, p.desc, rows_device.data, exact_device.data);
  return errors_of(p.y, p.desc.dtype, m, width, rows, exact_device);
}

/* Rounding of weights and results: at most 2^-11 (f16) and 2^-8 (bf16) each, about 3e-4 and 2.4e-3 root mean square.
 * The limit is higher for few results, which may be small by cancellation: in an emulation of 4,000 random draws of 8
 * results, one error was 1.7e-3. */
inline double tolerance(yk_dtype dtype, bool gate_up, int64_t n_results)
{
  return (dtype == YK_F16 ? 5e-4 : 4e-3) * (gate_up ? 2.5 : 1) * (1 + 20 / double(n_results));
}

} // namespace linear

#endif
