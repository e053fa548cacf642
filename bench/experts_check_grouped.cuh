/* experts_check_grouped.cuh - checks of bench_experts: grouped GEMMs, with a shared expert's weights too, against
 * float64. */
#ifndef YK_BENCH_EXPERTS_CHECK_GROUPED_CUH
#define YK_BENCH_EXPERTS_CHECK_GROUPED_CUH

#include "bench/experts_layer.cuh"
#include "bench/gemm_paths.cuh"

#include <cstring>

namespace experts {

struct grouped_reference {
  linear::tensors tensors; /* seed of matrix 0 */
  size_t words, zero_words, scales;
  yk_gemm_desc desc;
  const uint8_t *biases; /* NULL: none */
  int64_t matrix_bytes;
};

/* out[i, column] of the slots named. One thread per column. */
static __global__ void reference_of_slots(grouped_reference r, const uint16_t *x, const int32_t *row_of_slot,
                                          const int32_t *starts, const int32_t *slots, double *out)
{
  const int64_t width = r.desc.activation.is_gated ? r.desc.n / 2 : r.desc.n,
                column = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (column >= width) return;
  const int slot = slots[blockIdx.y];
  int m = 0;
  while (starts[m + 1] <= slot) m++;
  linear::tensors w = r.tensors;
  w.qweight += m * r.words;
  w.qzeros += m * r.zero_words;
  w.scales += m * r.scales;
  const uint16_t *bias = r.biases ? reinterpret_cast<const uint16_t *>(r.biases + m * r.matrix_bytes) : nullptr;
  x += int64_t(row_of_slot ? row_of_slot[slot] : slot) * r.desc.k;
  double v = linear::exact_sum(w, x, r.desc.dtype, r.desc.k, column) +
             (bias ? linear::half_value(bias[column], r.desc.dtype) : 0.0);
  if (r.desc.activation.is_gated) {
    const double up = linear::exact_sum(w, x, r.desc.dtype, r.desc.k, width + column) +
                      (bias ? linear::half_value(bias[width + column], r.desc.dtype) : 0.0);
    v = v / (1 + exp(-v)) * up;
  }
  out[blockIdx.y * width + column] = v;
}

/* W of all matrices in plain 16-bit form. */
static __global__ void expand_matrices(grouped_reference r, uint8_t *out, int64_t matrix_bytes)
{
  const int m = blockIdx.y;
  linear::tensors w = r.tensors;
  w.qweight += m * r.words;
  w.qzeros += m * r.zero_words;
  w.scales += m * r.scales;
  uint16_t *to = reinterpret_cast<uint16_t *>(out + m * matrix_bytes);
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < r.desc.k * r.desc.n;
       i += int64_t(gridDim.x) * blockDim.x) {
    const float v = static_cast<float>(linear::awq_weight(w, i % r.desc.k, i / r.desc.k));
    to[i] =
        r.desc.dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

/* Rows of each matrix. "uneven": one row for each matrix of the first half, then ten for each until they run out. */
inline std::vector<int> rows_of(const std::string &pattern, int n_experts, int slots, std::mt19937 &rng)
{
  std::vector<int> rows(n_experts);
  if (pattern == "one")
    rows[n_experts / 2] = slots;
  else if (pattern == "none")
    return rows;
  else if (pattern == "uneven")
    for (int i = 0; i < slots; i++) rows[i < n_experts / 2 ? i : n_experts / 2 + (i - n_experts / 2) / 10]++;
  else
    for (int i = 0; i < slots; i++) rows[pattern == "few" ? rng() % 3 * (n_experts / 3) : rng() % n_experts]++;
  return rows;
}

struct grouped_case {
  int64_t k, n, group;
  bool gate_up;
  int n_experts, slots;
  const char *pattern;
};

/* |y - reference| / |reference| over at most about 48 slots. */
inline double grouped_error(const grouped_reference &reference, const yk_grouped_call &call, int n_slots,
                            const std::vector<uint16_t> &got, std::mt19937 &rng)
{
  const int64_t width = reference.desc.activation.is_gated ? reference.desc.n / 2 : reference.desc.n;
  std::vector<int32_t> slots;
  for (int i = 0; i < n_slots; i++)
    if (n_slots <= 48 || rng() % n_slots < 40 || i == n_slots - 1) slots.push_back(i);
  if (slots.empty()) return 0;
  device_array<int32_t> slots_device(slots.size());
  device_array<double> exact_device(slots.size() * width);
  upload(slots_device, slots);
  reference_of_slots<<<dim3(unsigned((width + 63) / 64), unsigned(slots.size())), 64>>>(
      reference, static_cast<const uint16_t *>(call.x), call.row_of_slot, call.starts, slots_device.data,
      exact_device.data);
  const auto exact = download(exact_device, exact_device.count);
  double error2 = 0, size2 = 0;
  for (size_t s = 0; s < slots.size(); s++)
    for (int64_t i = 0; i < width; i++) {
      const double want = exact[s * width + i],
                   value = linear::to_double(got[slots[s] * width + i], reference.desc.dtype);
      error2 += (value - want) * (value - want);
      size2 += want * want;
    }
  return std::sqrt(error2 / size2);
}

inline bool check_grouped(const yk_gemm_gpu &gpu, const grouped_case &c, yk_dtype dtype, bool is_packed, bool bias,
                          int64_t max_slots, bool second_half, unsigned seed)
{
  const yk_gemm_desc d = {c.k, c.n, c.group, dtype, bench::silu_where(c.gate_up)};
  matrices m(d, c.n_experts, c.n_experts, seed);
  std::mt19937 rng(seed);
  const std::vector<int> rows = rows_of(c.pattern, c.n_experts, c.slots, rng);
  std::vector<int32_t> starts = {0}, row_of_slot;
  for (int r : rows) starts.push_back(starts.back() + r);
  const int n_x = c.slots + 5, n_slots = starts.back();
  for (int i = 0; i < n_slots; i++) row_of_slot.push_back(int(rng() % n_x));
  const int64_t width = m.width();
  device_array<uint16_t> x(n_x * c.k), y(max_slots * width);
  device_array<int32_t> starts_device(starts.size()), rows_device(row_of_slot.size());
  upload(starts_device, starts);
  upload(rows_device, row_of_slot);
  linear::fill_halves<<<256, 256>>>(x.data, x.count, dtype, -1.0f, 1.0f, seed + 4);
  const bool gathers = seed % 3 != 0;
  yk_grouped_call call =
      m.call(x.data, n_x, y.data, gathers ? rows_device.data : nullptr, starts_device.data, max_slots, bias);
  call.second_half = second_half;
  const auto next_tile = call.next_tile;
  const grouped_reference reference = {
      m.tensors(0),   m.words, m.groups * (d.n / 8),
      m.groups * d.n, d,       bias ? reinterpret_cast<const uint8_t *>(m.bias_of(0)) : nullptr,
      m.matrix_bytes};
  const int64_t plain_bytes = (d.k * d.n * 2 + 255) / 256 * 256 + (d.n * 2 + 255) / 256 * 256;
  device_array<uint8_t> plain(is_packed ? 0 : plain_bytes * c.n_experts);
  if (!is_packed) {
    expand_matrices<<<dim3(64, unsigned(c.n_experts)), 256>>>(reference, plain.data, plain_bytes);
    for (int e = 0; e < c.n_experts; e++)
      check(cudaMemcpy(plain.data + (e + 1) * plain_bytes - (d.n * 2 + 255) / 256 * 256, m.bias_of(e), d.n * 2,
                       cudaMemcpyDeviceToDevice),
            "bias");
    call.weights = plain.data;
    call.matrix_bytes = plain_bytes;
    if (bias) call.bias = plain.data + plain_bytes - (d.n * 2 + 255) / 256 * 256;
  }
  yk_err err = YK_ERR_INIT;
  std::vector<uint16_t> got, again;
  for (int i = 0; i < 2; i++) {
    check(cudaMemset(y.data, 0xFF, y.count * 2), "poison");
    call.next_tile = i ? nullptr : next_tile; /* the assignment of tiles to blocks must not change a bit */
    check(is_packed ? yk_gemm_grouped_forward(&gpu, &d, &call, nullptr, &err)
                    : yk_16_bits_grouped_forward(&d, &call, nullptr, &err),
          err);
    check(cudaDeviceSynchronize(), "grouped GEMM");
    (i ? again : got) = download(y, y.count);
  }
  int64_t bad = 0;
  for (size_t i = 0; i < got.size(); i++) /* slots after the last stay unchanged */
    bad += i < size_t(n_slots * width) ? !std::isfinite(linear::to_double(got[i], dtype)) : got[i] != 0xFFFF;
  const bool counter_is_left = download(m.next_tile, 1)[0] == 0;
  const double error = grouped_error(reference, call, n_slots, got, rng);
  const bool good = error < linear::tolerance(dtype, c.gate_up, int64_t(n_slots) * width + 1) && bad == 0 &&
                    got == again && counter_is_left;
  if (!good)
    std::printf(
        "WRONG  %s %s k %lld n %lld group %lld%s, %d experts, %d slots (%s) of %lld, half %d, bias %d, gathers %d: "
        "error %.2e, %lld bad, %s%s\n",
        is_packed ? "wna16" : "16 bits", dtype == YK_F16 ? "f16" : "bf16", (long long)c.k, (long long)c.n,
        (long long)c.group, c.gate_up ? " gate_up" : "", c.n_experts, c.slots, c.pattern, (long long)max_slots,
        second_half, bias, gathers, error, (long long)bad, got == again ? "same bits" : "BITS DIFFER",
        counter_is_left ? "" : ", counter not left as it was");
  return good;
}

/* The weight of a shared expert gives the same results as the only matrix of a call, and the results of the other
 * matrices do not change. Its columns differ from the matrices' columns, and so do its inputs, except for gate_up. */
inline bool check_shared_expert(const yk_gemm_gpu &gpu, const grouped_case &c, int rows, int per_expert, yk_dtype dtype,
                                unsigned seed)
{
  const yk_gemm_desc d = {c.k, c.n, c.group, dtype, bench::silu_where(c.gate_up)};
  const yk_gemm_desc of_shared_expert = {c.gate_up ? c.k : c.k + 640, c.gate_up ? 2 * c.n + 48 : c.n, c.group, dtype,
                                         bench::silu_where(c.gate_up)};
  matrices m(d, c.n_experts, c.n_experts, seed), one(of_shared_expert, 1, 1, seed + 50);
  std::mt19937 rng(seed);
  const std::vector<int> rows_of_experts = rows_of(c.pattern, c.n_experts, c.slots, rng);
  std::vector<int32_t> starts = {0}, row_of_slot;
  for (int r : rows_of_experts) starts.push_back(starts.back() + r);
  for (int i = 0; i < starts.back(); i++) row_of_slot.push_back(int(rng() % rows));
  const int64_t max_slots = int64_t(per_expert) * c.n_experts;
  device_array<uint16_t> x(rows * c.k), x_shared_expert(rows * of_shared_expert.k), y(max_slots * m.width()),
      y_alone(y.count), y_shared_expert(rows * one.width());
  device_array<int32_t> starts_device(starts.size()), rows_device(row_of_slot.size()), starts_shared_expert(2);
  upload(starts_device, starts);
  upload(rows_device, row_of_slot);
  upload(starts_shared_expert, {0, rows});
  linear::fill_halves<<<256, 256>>>(x.data, x.count, dtype, -1.0f, 1.0f, seed + 4);
  linear::fill_halves<<<256, 256>>>(x_shared_expert.data, x_shared_expert.count, dtype, -1.0f, 1.0f, seed + 5);
  check(cudaMemset(y.data, 0xFF, y.count * 2), "poison");
  check(cudaMemset(y_alone.data, 0xFF, y_alone.count * 2), "poison");
  check(cudaMemset(y_shared_expert.data, 0xFF, y_shared_expert.count * 2), "poison");
  yk_grouped_call call = m.call(x.data, rows, y_alone.data, rows_device.data, starts_device.data, max_slots, seed % 2);
  yk_err err = YK_ERR_INIT;
  check(yk_gemm_grouped_forward(&gpu, &d, &call, nullptr, &err), err);
  call.y = y.data;
  call.shared_expert = {one.packed.data,    x_shared_expert.data, y_shared_expert.data,
                        of_shared_expert.k, of_shared_expert.n,   rows};
  check(yk_gemm_grouped_forward(&gpu, &d, &call, nullptr, &err), err);
  check(cudaDeviceSynchronize(), "grouped GEMM with a shared expert's weight");
  const grouped_reference reference = {one.tensors(0), one.words, 0, 0, of_shared_expert, nullptr, one.matrix_bytes};
  const yk_grouped_call alone =
      one.call(x_shared_expert.data, rows, y_shared_expert.data, nullptr, starts_shared_expert.data, rows, false);
  const double error = grouped_error(reference, alone, rows, download(y_shared_expert, y_shared_expert.count), rng);
  const bool is_same = download(y, y.count) == download(y_alone, y.count),
             counter_is_left = download(m.next_tile, 1)[0] == 0;
  const bool good = error < linear::tolerance(dtype, c.gate_up, rows * one.width()) && is_same && counter_is_left;
  if (!good)
    std::printf("WRONG  shared expert, %s k %lld n %lld group %lld%s, %d experts, %d slots, %d rows: error %.2e%s%s\n",
                dtype == YK_F16 ? "f16" : "bf16", (long long)c.k, (long long)c.n, (long long)c.group,
                c.gate_up ? " gate_up" : "", c.n_experts, c.slots, rows, error, is_same ? "" : ", experts differ",
                counter_is_left ? "" : ", counter not left as it was");
  return good;
}

inline bool check_shared_experts()
{
  yk_gemm_gpu gpu;
  yk_err err = YK_ERR_INIT;
  check(yk_gemm_gpu_init(&gpu, YK_GEMM_AUTO, &err), err);
  if (gpu.path != YK_GEMM_WGMMA) return true;
  check(yk_gemm_grouped_init(&gpu, &err), err);
  const grouped_case cases[] = {{2048, 1536, 128, true, 16, 100, "random"}, {768, 2048, 128, false, 16, 100, "random"},
                                {256, 272, 128, true, 7, 21, "one"},        {1408, 520, 64, false, 9, 40, "few"},
                                {704, 272, 32, true, 7, 0, "none"},         {1408, 2048, 64, false, 6, 200, "random"}};
  int failures = 0, runs = 0;
  unsigned seed = 1;
  for (const grouped_case &c : cases)
    for (yk_dtype dtype : {YK_F16, YK_BF16})
      for (int per_expert : {3, 10, 56, 200})
        for (int rows : {2, 48, 128}) {
          if (c.slots > per_expert * c.n_experts) continue;
          failures += !check_shared_expert(gpu, c, rows, per_expert, dtype, seed++);
          runs++;
        }
  std::printf("a shared expert's weights: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

inline bool check_grouped_gemms()
{
  const grouped_case cases[] = {
      {2048, 1536, 128, true, 16, 100, "random"},  {768, 2048, 128, false, 16, 100, "random"},
      {2048, 1536, 128, true, 128, 8, "random"},   {768, 2048, 128, false, 128, 64, "random"},
      {256, 272, 128, true, 7, 300, "one"},        {160, 48, 160, true, 5, 33, "few"},
      {416, 520, 416, false, 9, 77, "few"},        {128, 64, 128, false, 3, 0, "none"},
      {1408, 2048, 128, false, 12, 700, "random"}, {96, 72, 32, false, 6, 50, "random"},
      {256, 96, 64, true, 6, 150, "random"},       {64, 48, 64, true, 3, 9, "one"},
      {2048, 2816, 64, true, 16, 100, "random"},   {1408, 2048, 64, false, 16, 700, "random"},
      {704, 520, 64, false, 9, 40, "few"},         {704, 272, 32, true, 7, 300, "one"},
      {704, 520, 64, false, 60, 40, "one"},        {416, 272, 32, true, 50, 49, "few"},
      {768, 520, 128, false, 100, 99, "random"},   {2048, 2816, 64, true, 6, 960, "random"},
      {1408, 264, 32, false, 12, 1, "one"},        {2048, 1408, 32, true, 5, 0, "none"},
      {704, 520, 64, false, 60, 25, "one"},        {2048, 272, 128, true, 60, 30, "one"},
      {416, 264, 32, false, 60, 8, "one"},         {256, 7168, 128, false, 70, 60, "random"},
      {768, 528, 128, true, 9, 60, "few"},         {1408, 2048, 64, false, 9, 60, "few"},
      {256, 2048, 128, false, 40, 160, "uneven"},  {320, 2064, 64, true, 40, 160, "uneven"},
  };
  int failures = 0, runs = 0;
  unsigned seed = 1;
  bench::for_each_path(YK_GEMM_AUTO, [&](const yk_gemm_gpu &gpu, yk_gemm_path path) {
    yk_err err = YK_ERR_INIT;
    check(yk_gemm_grouped_init(&gpu, &err), err);
    for (const grouped_case &c : cases)
      for (yk_dtype dtype : {YK_F16, YK_BF16})
        for (int per_expert : {0, 4, 10, 56, 200}) { /* visits each tile in turn, whatever the rows are */
          if (path == YK_GEMM_MMA && per_expert != 10 && per_expert != 200) continue;
          const int64_t max_slots = per_expert ? int64_t(per_expert) * c.n_experts : c.n_experts - 1;
          if (max_slots < c.slots) continue;
          failures += !check_grouped(gpu, c, dtype, true, seed % 2, max_slots, seed % 4 < 2, seed);
          runs++, seed++;
          if (path == YK_GEMM_WGMMA || per_expert < 10) continue;
          failures += !check_grouped(gpu, c, dtype, false, seed % 2, max_slots, false, seed);
          runs++, seed++;
        }
  });
  std::printf("grouped GEMMs: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

} // namespace experts

#endif
