/* experts_check.cuh - the checks of bench_experts: routing against the host, grouped GEMMs and the combination against
 * float64, each twice for the same bits. */
#ifndef YK_BENCH_EXPERTS_CHECK_CUH
#define YK_BENCH_EXPERTS_CHECK_CUH

#include "bench/experts_layer.cuh"
#include "bench/gemm_paths.cuh"

#include <cstring>

namespace experts {

/* ---- Routing ----------------------------------------------------------------------------------------------------- */

struct host_routing {
  std::vector<int32_t> choices, starts, row_of_slot, slot_of_choice;
  std::vector<int64_t> counts;
  std::vector<float> weights;
};

/* Scores in float64; logits are so far apart that no rounding decides. */
inline host_routing route_on_host(const yk_route_spec &s, int n, const std::vector<float> &logits,
                                  const std::vector<float> *bias, const std::vector<int32_t> *kv_slots)
{
  host_routing r;
  r.choices.assign(size_t(n) * s.top_k, -1);
  r.weights.assign(size_t(n) * s.top_k, 0.0f);
  r.slot_of_choice.assign(size_t(n) * s.top_k, -1);
  r.counts.assign(s.n_experts, 0);
  for (int row = 0; row < n; row++) {
    if (kv_slots && (*kv_slots)[row] < 0) continue;
    const float *l = &logits[size_t(row) * s.n_experts];
    std::vector<double> score(s.n_experts), choice(s.n_experts);
    bool finite = true;
    double most = -1e300, sum = 0;
    for (int e = 0; e < s.n_experts; e++) finite = finite && std::isfinite(l[e]), most = std::max(most, double(l[e]));
    for (int e = 0; e < s.n_experts; e++) sum += std::exp(l[e] - most);
    for (int e = 0; e < s.n_experts; e++) {
      score[e] =
          s.scoring == YK_SCORE_SOFTMAX ? float(std::exp(l[e] - most) / sum) : float(1 / (1 + std::exp(-double(l[e]))));
      choice[e] = bias ? float(score[e]) + (*bias)[e] : score[e];
    }
    const int size = s.n_experts / s.n_groups;
    std::vector<double> group(s.n_groups);
    for (int g = 0; g < s.n_groups; g++) {
      std::vector<double> own(choice.begin() + g * size, choice.begin() + (g + 1) * size);
      std::sort(own.rbegin(), own.rend());
      group[g] = own[0] + (s.group_score == YK_GROUP_SCORE_LARGEST_TWO ? own[1] : 0);
    }
    std::vector<int> order(s.n_groups), candidates;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return group[a] > group[b]; });
    std::vector<bool> kept(s.n_groups);
    for (int g = 0; g < s.top_groups; g++) kept[order[g]] = true;
    for (int e = 0; e < s.n_experts; e++)
      if (kept[e / size]) candidates.push_back(e);
    std::stable_sort(candidates.begin(), candidates.end(), [&](int a, int b) { return choice[a] > choice[b]; });
    double of_weights = 0;
    for (int j = 0; j < s.top_k; j++) of_weights += score[candidates[j]];
    for (int j = 0; j < s.top_k; j++) {
      const int e = finite ? candidates[j] : j;
      r.choices[size_t(row) * s.top_k + j] = e;
      r.weights[size_t(row) * s.top_k + j] =
          finite ? float(score[e] / (s.normalise ? of_weights + 1e-20 : 1) * s.scale) : NAN;
      r.counts[e]++;
    }
  }
  for (int e = 0; e < s.n_local; e++) {
    r.starts.push_back(int(r.row_of_slot.size()));
    for (int i = 0; i < n * s.top_k; i++) {
      if (r.choices[i] != s.first_local + e) continue;
      r.slot_of_choice[i] = int(r.row_of_slot.size());
      r.row_of_slot.push_back(i / s.top_k);
    }
  }
  r.starts.push_back(int(r.row_of_slot.size()));
  return r;
}

inline bool check_route(const yk_route_spec &spec, int n, bool with_bias, bool with_padding, bool with_nan,
                        unsigned seed)
{
  std::mt19937 rng(seed);
  routing device(spec, n);
  std::vector<float> logits(device.logits.count), bias(spec.n_experts);
  std::vector<int32_t> kv_slots(n);
  for (int row = 0; row < n; row++) { /* distinct steps, in any order; some experts tie */
    std::vector<int> steps(spec.n_experts);
    std::iota(steps.begin(), steps.end(), 0);
    std::shuffle(steps.begin(), steps.end(), rng);
    for (int e = 0; e < spec.n_experts; e++)
      logits[size_t(row) * spec.n_experts + e] =
          float(steps[e] / (with_bias ? 1 : 2)) * (6.0f / float(spec.n_experts)) - 3.0f;
    kv_slots[row] = rng() % 5 == 0 ? -1 : row;
    if (with_nan && row % 7 == 3)
      logits[size_t(row) * spec.n_experts + rng() % spec.n_experts] = row % 2 ? NAN : INFINITY;
  }
  for (float &b : bias) b = float(rng() % 1000) * 1e-3f;
  upload(device.logits, logits);
  upload(device.bias, bias);
  upload(device.kv_slots, kv_slots);
  const yk_route_args args = device.args(with_bias, with_padding);
  for (int i = 0; i < 2; i++) check(yk_cuda_launch_route(&args, nullptr), "route");
  check(cudaDeviceSynchronize(), "route");
  const host_routing want =
      route_on_host(spec, n, logits, with_bias ? &bias : nullptr, with_padding ? &kv_slots : nullptr);
  const auto choices = download(device.choices, device.choices.count),
             starts = download(device.starts, device.starts.count),
             slots = download(device.slot_of_choice, device.slot_of_choice.count),
             rows = download(device.row_of_slot, want.row_of_slot.size());
  const auto weights = download(device.weights, device.weights.count);
  const auto counts = download(device.counts, device.counts.count);
  int bad_weights = 0, bad_counts = 0;
  for (size_t i = 0; i < weights.size(); i++) {
    const double w = want.weights[i];
    bad_weights += std::isnan(w) ? !std::isnan(weights[i]) : !(std::fabs(weights[i] - w) <= 2e-6 * std::fabs(w));
  }
  for (size_t e = 0; e < counts.size(); e++) bad_counts += counts[e] != 2 * want.counts[e];
  const bool good = choices == want.choices && starts == want.starts && rows == want.row_of_slot &&
                    slots == want.slot_of_choice && bad_weights == 0 && bad_counts == 0;
  if (!good)
    std::printf(
        "WRONG  route of %d rows, %d of %d experts, %d of %d groups, bias %d, padding %d: choices %d, starts %d, "
        "rows %d, slots %d, %d weights, %d counts\n",
        n, spec.top_k, spec.n_experts, spec.top_groups, spec.n_groups, with_bias, with_padding, choices == want.choices,
        starts == want.starts, rows == want.row_of_slot, slots == want.slot_of_choice, bad_weights, bad_counts);
  return good;
}

inline bool check_routes()
{
  const yk_route_spec specs[] = {
      {128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 0, 128},
      {128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 43, 42},
      {8, 2, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 0, 8},
      {64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1.0f, 0, 64},
      {160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16.0f, 0, 160},
      {256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 128, 128},
      {384, 8, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 2.827f, 0, 384},
      {512, 16, YK_SCORE_SOFTMAX, 64, 9, YK_GROUP_SCORE_LARGEST_TWO, true, 1.0f, 0, 512},
      {1000, 32, YK_SCORE_SIGMOID, 40, 20, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 0, 1000},
      {5, 5, YK_SCORE_SIGMOID, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1.0f, 4, 1},
      {7, 3, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 7, 0},
  };
  int failures = 0, runs = 0;
  unsigned seed = 1;
  for (const yk_route_spec &spec : specs)
    for (int n : {1, 2, 31, 32, 33, 64, 200, 256, 257, 1000}) {
      const bool bias = spec.scoring == YK_SCORE_SIGMOID;
      failures += !check_route(spec, n, bias, runs % 3 == 1, runs % 4 == 2, seed++);
      runs++;
    }
  failures += !check_route(specs[0], 8192, false, false, false, seed);
  std::printf("routing: %d of %d runs wrong\n", failures, runs + 1);
  return failures == 0;
}

/* ---- Grouped GEMMs ----------------------------------------------------------------------------------------------- */

struct grouped_reference {
  linear::tensors tensors; /* of matrix 0 */
  size_t words, zero_words, scales;
  yk_wna16_desc desc;
  const uint8_t *biases; /* NULL: none */
  int64_t matrix_bytes;
};

/* out[i, column] of the slots named. A thread a column. */
static __global__ void reference_of_slots(grouped_reference r, const uint16_t *x, const int32_t *row_of_slot,
                                          const int32_t *starts, const int32_t *slots, double *out)
{
  const int64_t width = r.desc.gate_up ? r.desc.n / 2 : r.desc.n,
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
  if (r.desc.gate_up) {
    const double up = linear::exact_sum(w, x, r.desc.dtype, r.desc.k, width + column) +
                      (bias ? linear::half_value(bias[width + column], r.desc.dtype) : 0.0);
    v = v / (1 + exp(-v)) * up;
  }
  out[blockIdx.y * width + column] = v;
}

/* W of all matrices as plain 16-bit ones. */
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

/* Rows of each matrix. */
inline std::vector<int> rows_of(const std::string &pattern, int n_experts, int slots, std::mt19937 &rng)
{
  std::vector<int> rows(n_experts);
  if (pattern == "one")
    rows[n_experts / 2] = slots;
  else if (pattern == "none")
    return rows;
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

/* |y - reference| / |reference| over up to some 48 slots. */
inline double grouped_error(const grouped_reference &reference, const yk_grouped_call &call, int n_slots,
                            const std::vector<uint16_t> &got, std::mt19937 &rng)
{
  const int64_t width = reference.desc.gate_up ? reference.desc.n / 2 : reference.desc.n;
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

inline bool check_grouped(const yk_wna16_gpu &gpu, const grouped_case &c, yk_dtype dtype, bool is_packed, bool bias,
                          int64_t max_slots, bool second_half, unsigned seed)
{
  const yk_wna16_desc d = {c.k, c.n, c.group, dtype, c.gate_up};
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
  if (seed % 4 == 1) call.next_tile = nullptr;
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
    check(is_packed ? yk_wna16_grouped_forward(&gpu, &d, &call, nullptr, &err)
                    : yk_16_bits_grouped_forward(&d, &call, nullptr, &err),
          err);
    check(cudaDeviceSynchronize(), "grouped GEMM");
    (i ? again : got) = download(y, y.count);
  }
  int64_t bad = 0;
  for (size_t i = 0; i < got.size(); i++) /* slots beyond the last stay as they were */
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

/* A weight beside gives the results that it has as the only matrix of a call, and the others theirs. Its columns are
 * other ones than the matrices', and so are its inputs, but for gate_up. */
inline bool check_beside(const yk_wna16_gpu &gpu, const grouped_case &c, int rows, int per_expert, yk_dtype dtype,
                         unsigned seed)
{
  const yk_wna16_desc d = {c.k, c.n, c.group, dtype, c.gate_up};
  const yk_wna16_desc of_beside = {c.gate_up ? c.k : c.k + 640, c.gate_up ? 2 * c.n + 48 : c.n, c.group, dtype,
                                   c.gate_up};
  matrices m(d, c.n_experts, c.n_experts, seed), one(of_beside, 1, 1, seed + 50);
  std::mt19937 rng(seed);
  const std::vector<int> rows_of_experts = rows_of(c.pattern, c.n_experts, c.slots, rng);
  std::vector<int32_t> starts = {0}, row_of_slot;
  for (int r : rows_of_experts) starts.push_back(starts.back() + r);
  for (int i = 0; i < starts.back(); i++) row_of_slot.push_back(int(rng() % rows));
  const int64_t max_slots = int64_t(per_expert) * c.n_experts;
  device_array<uint16_t> x(rows * c.k), x_beside(rows * of_beside.k), y(max_slots * m.width()), y_alone(y.count),
      y_beside(rows * one.width());
  device_array<int32_t> starts_device(starts.size()), rows_device(row_of_slot.size()), starts_beside(2);
  upload(starts_device, starts);
  upload(rows_device, row_of_slot);
  upload(starts_beside, {0, rows});
  linear::fill_halves<<<256, 256>>>(x.data, x.count, dtype, -1.0f, 1.0f, seed + 4);
  linear::fill_halves<<<256, 256>>>(x_beside.data, x_beside.count, dtype, -1.0f, 1.0f, seed + 5);
  check(cudaMemset(y.data, 0xFF, y.count * 2), "poison");
  check(cudaMemset(y_alone.data, 0xFF, y_alone.count * 2), "poison");
  check(cudaMemset(y_beside.data, 0xFF, y_beside.count * 2), "poison");
  yk_grouped_call call = m.call(x.data, rows, y_alone.data, rows_device.data, starts_device.data, max_slots, seed % 2);
  yk_err err = YK_ERR_INIT;
  check(yk_wna16_grouped_forward(&gpu, &d, &call, nullptr, &err), err);
  call.y = y.data;
  call.beside = {one.packed.data, x_beside.data, y_beside.data, of_beside.k, of_beside.n, rows};
  check(yk_wna16_grouped_forward(&gpu, &d, &call, nullptr, &err), err);
  check(cudaDeviceSynchronize(), "grouped GEMM with a weight beside");
  const grouped_reference reference = {one.tensors(0), one.words, 0, 0, of_beside, nullptr, one.matrix_bytes};
  const yk_grouped_call alone = one.call(x_beside.data, rows, y_beside.data, nullptr, starts_beside.data, rows, false);
  const double error = grouped_error(reference, alone, rows, download(y_beside, y_beside.count), rng);
  const bool is_same = download(y, y.count) == download(y_alone, y.count),
             counter_is_left = download(m.next_tile, 1)[0] == 0;
  const bool good = error < linear::tolerance(dtype, c.gate_up, rows * one.width()) && is_same && counter_is_left;
  if (!good)
    std::printf("WRONG  beside, %s k %lld n %lld group %lld%s, %d experts, %d slots, %d rows: error %.2e%s%s\n",
                dtype == YK_F16 ? "f16" : "bf16", (long long)c.k, (long long)c.n, (long long)c.group,
                c.gate_up ? " gate_up" : "", c.n_experts, c.slots, rows, error, is_same ? "" : ", experts differ",
                counter_is_left ? "" : ", counter not left as it was");
  return good;
}

inline bool check_weights_beside()
{
  yk_wna16_gpu gpu;
  yk_err err = YK_ERR_INIT;
  check(yk_wna16_gpu_init(&gpu, YK_WNA16_AUTO, &err), err);
  if (gpu.path != YK_WNA16_WGMMA) return true;
  check(yk_wna16_grouped_init(&gpu, &err), err);
  const grouped_case cases[] = {{2048, 1536, 128, true, 16, 100, "random"}, {768, 2048, 128, false, 16, 100, "random"},
                                {256, 272, 128, true, 7, 21, "one"},        {1408, 520, 64, false, 9, 40, "few"},
                                {704, 272, 32, true, 7, 0, "none"},         {1408, 2048, 64, false, 6, 200, "random"}};
  int failures = 0, runs = 0;
  unsigned seed = 1;
  for (const grouped_case &c : cases)
    for (yk_dtype dtype : {YK_F16, YK_BF16})
      for (int per_expert : {3, 10, 56, 200})
        for (int rows : {2, 48, 170}) {
          if (c.slots > per_expert * c.n_experts) continue;
          failures += !check_beside(gpu, c, rows, per_expert, dtype, seed++);
          runs++;
        }
  std::printf("weights beside: %d of %d runs wrong\n", failures, runs);
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
  };
  int failures = 0, runs = 0;
  unsigned seed = 1;
  bench::for_each_path(YK_WNA16_AUTO, [&](const yk_wna16_gpu &gpu, yk_wna16_path path) {
    yk_err err = YK_ERR_INIT;
    check(yk_wna16_grouped_init(&gpu, &err), err);
    for (const grouped_case &c : cases)
      for (yk_dtype dtype : {YK_F16, YK_BF16})
        for (int per_expert : {0, 4, 10, 56, 200}) { /* asks for each tile in turn, whatever the rows are */
          if (path == YK_WNA16_MMA && per_expert != 10 && per_expert != 200) continue;
          const int64_t max_slots = per_expert ? int64_t(per_expert) * c.n_experts : c.n_experts - 1;
          if (max_slots < c.slots) continue;
          failures += !check_grouped(gpu, c, dtype, true, seed % 2, max_slots, seed % 4 < 2, seed);
          runs++, seed++;
          if (path == YK_WNA16_WGMMA || per_expert < 10) continue;
          failures += !check_grouped(gpu, c, dtype, false, seed % 2, max_slots, false, seed);
          runs++, seed++;
        }
  });
  std::printf("grouped GEMMs: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

/* ---- A routed GEMM ----------------------------------------------------------------------------------------------- */

/* One kernel gives the bits of the two. Three times, with other rows, through the same exchange. */
inline bool check_routed(const yk_wna16_gpu &gpu, const yk_route_spec &spec, yk_dtype dtype, int64_t k, int64_t n,
                         int64_t group, bool gate_up, bool padding, const routing_exchange &exchange, unsigned seed)
{
  const matrices m({k, n, group, dtype, gate_up}, spec.n_local, 1, seed);
  const int n_logits = spec.n_experts + int(seed % 2);
  routing two(spec, 1), one(spec, 1);
  device_array<float> logits_of_two(n_logits), logits_of_one(n_logits);
  device_array<uint16_t> w(size_t(n_logits) * k), x(k);
  const int64_t max_slots = yk_route_max_slots(&spec, 1), width = m.width();
  device_array<uint16_t> y_of_two(max_slots * width), y_of_one(max_slots * width);
  linear::fill_halves<<<256, 256>>>(w.data, w.count, dtype, -0.1f, 0.1f, seed + 1);
  check(cudaMemset(two.kv_slots.data, padding ? 0xFF : 0, 4), "slots");
  check(cudaMemset(one.kv_slots.data, padding ? 0xFF : 0, 4), "slots");
  const yk_cuda_router router = {x.data, w.data, n_logits, k, dtype};
  yk_route_args of_two = two.args(false, true), of_one = one.args(false, true);
  of_two.logits = logits_of_two.data;
  of_one.logits = logits_of_one.data;
  of_two.logits_stride = of_one.logits_stride = n_logits;
  bool good = true;
  for (int i = 0; i < 3; i++) {
    linear::fill_halves<<<8, 256>>>(x.data, x.count, dtype, -1.0f, 1.0f, seed + 10 + i);
    check(cudaMemset(y_of_two.data, 0xFF, y_of_two.count * 2), "poison");
    check(cudaMemset(y_of_one.data, 0xFF, y_of_one.count * 2), "poison");
    const yk_grouped_call call =
        m.call(x.data, 1, y_of_two.data, two.row_of_slot.data, two.starts.data, max_slots, true);
    yk_grouped_call routed = call;
    routed.row_of_slot = one.row_of_slot.data;
    routed.starts = one.starts.data;
    routed.y = y_of_one.data;
    routed.second_half = i % 2;
    const yk_cuda_routing routing = {&router, &of_one, exchange.memory.data};
    if (!yk_cuda_router_takes(&router, &of_two) || !yk_cuda_routed_gemm_takes(&gpu, &m.desc, &routed, &routing))
      return true;
    yk_err err = YK_ERR_INIT;
    check(yk_cuda_launch_router(&router, &of_two, nullptr), "router");
    check(yk_wna16_grouped_forward(&gpu, &m.desc, &call, nullptr, &err), err);
    check(yk_cuda_launch_routed_gemm(&gpu, &m.desc, &routed, &routing, nullptr), "routed GEMM");
    check(cudaDeviceSynchronize(), "routed GEMM");
    const auto same = [](const auto &a, const auto &b, size_t n) {
      const auto left = download(a, n), right = download(b, n);
      return std::memcmp(left.data(), right.data(), n * sizeof left[0]) == 0;
    };
    const int slots = download(two.starts, spec.n_local + 1).back();
    good = good && same(two.choices, one.choices, spec.top_k) && same(two.weights, one.weights, spec.top_k) &&
           same(two.starts, one.starts, spec.n_local + 1) && same(two.row_of_slot, one.row_of_slot, slots) &&
           same(two.slot_of_choice, one.slot_of_choice, spec.top_k) && same(two.counts, one.counts, spec.n_experts) &&
           same(logits_of_two, logits_of_one, n_logits) && same(y_of_two, y_of_one, y_of_two.count);
  }
  if (!good)
    std::printf("WRONG  routed GEMM %s k %lld n %lld group %lld%s, %d of %d experts, padding %d\n",
                dtype == YK_F16 ? "f16" : "bf16", (long long)k, (long long)n, (long long)group,
                gate_up ? " gate_up" : "", spec.top_k, spec.n_experts, padding);
  return good;
}

inline bool check_routed_gemms(const yk_wna16_gpu &gpu)
{
  const yk_route_spec specs[] = {
      {128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 0, 128},
      {128, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 43, 42},
      {64, 6, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, false, 1.0f, 0, 64},
      {8, 2, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 0, 8},
      {160, 6, YK_SCORE_SOFTMAX, 8, 3, YK_GROUP_SCORE_MAXIMUM, false, 16.0f, 0, 160},
      {250, 8, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true, 1.0f, 100, 50},
      {256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256},
  };
  const routing_exchange exchange;
  int failures = 0, runs = 0;
  for (const yk_route_spec &spec : specs)
    for (yk_dtype dtype : {YK_F16, YK_BF16})
      for (int64_t group : {32, 64, 128})
        for (bool padding : {false, true}) {
          failures += !check_routed(gpu, spec, dtype, runs % 2 ? 2048 : 4160, 192, group, runs % 3 > 0, padding,
                                    exchange, 50 + unsigned(runs));
          runs++;
        }
  std::printf("routed GEMMs: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

/* ---- A lone row ----------------------------------------------------------------------------------------------- */

struct lone_case {
  yk_route_spec spec;
  int64_t hidden, ffn, shared_ffn, group; /* shared_ffn 0: no shared expert */
  bool has_gate, bias;
};

/* One kernel routes as two do, and gives what they give up to rounding. Three times, with other rows; of some seeds
 * each expert has a twin with the same logits. */
inline bool check_lone_row(const yk_wna16_gpu &gpu, const lone_case &c, yk_dtype dtype, bool padding,
                           const routing_exchange &exchange, const lone_row_exchange &own_exchange, unsigned seed)
{
  const yk_route_spec &spec = c.spec;
  const matrices gate_up({c.hidden, 2 * c.ffn, c.group, dtype, true}, spec.n_local, 1, seed),
      down({c.ffn, c.hidden, c.group, dtype, false}, spec.n_local, 1, seed + 1);
  const int64_t shared_ffn = c.shared_ffn ? c.shared_ffn : c.group;
  const matrices shared_gate_up({c.hidden, 2 * shared_ffn, c.group, dtype, true}, 1, 1, seed + 2),
      shared_down({shared_ffn, c.hidden, c.group, dtype, false}, 1, 1, seed + 3);
  const int n_logits = spec.n_experts + c.has_gate;
  routing two(spec, 1), one(spec, 1);
  device_array<float> logits_of_two(n_logits), logits_of_one(n_logits);
  device_array<uint16_t> w(size_t(n_logits) * c.hidden), x(c.hidden), inner_of_shared(shared_ffn);
  const int64_t max_slots = yk_route_max_slots(&spec, 1);
  device_array<uint16_t> inner(max_slots * c.ffn), outputs(max_slots * c.hidden), y_of_two(c.hidden),
      y_of_one(c.hidden);
  linear::fill_halves<<<256, 256>>>(w.data, w.count, dtype, -0.1f, 0.1f, seed + 1);
  const int64_t half = spec.n_experts / 2 * c.hidden;
  if (seed / 2 % 2) check(cudaMemcpy(w.data + half, w.data, half * 2, cudaMemcpyDeviceToDevice), "twins");
  check(cudaMemset(two.kv_slots.data, padding ? 0xFF : 0, 4), "slots");
  check(cudaMemset(one.kv_slots.data, padding ? 0xFF : 0, 4), "slots");
  const yk_cuda_router router = {x.data, w.data, n_logits, c.hidden, dtype};
  bool good = true;
  double worst = 0;
  for (int i = 0; i < 3; i++) {
    linear::fill_halves<<<8, 256>>>(x.data, x.count, dtype, -1.0f, 1.0f, seed + 10 + i);
    check(cudaMemset(y_of_two.data, 0xFF, y_of_two.count * 2), "poison");
    check(cudaMemset(y_of_one.data, 0xFF, y_of_one.count * 2), "poison");
    for (bool together : {false, true}) {
      const routing &r = together ? one : two;
      yk_route_args route = r.args(false, true);
      route.logits = together ? logits_of_one.data : logits_of_two.data;
      route.logits_stride = n_logits;
      uint16_t *y = together ? y_of_one.data : y_of_two.data;
      const yk_combine_args sum = {y,
                                   outputs.data,
                                   r.weights.data,
                                   r.slot_of_choice.data,
                                   c.shared_ffn ? y : nullptr,
                                   c.has_gate ? route.logits + spec.n_experts : nullptr,
                                   n_logits,
                                   1,
                                   spec.top_k,
                                   int32_t(c.hidden)};
      yk_grouped_call first = gate_up.call(x.data, 1, inner.data, r.row_of_slot.data, r.starts.data, max_slots, c.bias);
      yk_grouped_call second =
          down.call(inner.data, int32_t(max_slots), outputs.data, nullptr, r.starts.data, max_slots, c.bias);
      second.combine = &sum;
      second.second_half = true;
      if (c.shared_ffn) {
        first.beside = {shared_gate_up.packed.data, x.data, inner_of_shared.data, c.hidden, 2 * shared_ffn, 1};
        second.beside = {shared_down.packed.data, inner_of_shared.data, y, shared_ffn, c.hidden, 1};
      }
      const yk_cuda_routing routing = {&router, &route, together ? own_exchange.memory.data : exchange.memory.data};
      const yk_lone_row row = {&gate_up.desc, &down.desc, &first, &second, &routing};
      yk_err err = YK_ERR_INIT;
      if (!yk_lone_row_takes(&gpu, &row)) {
        std::printf("lone row: not taken\n");
        return false;
      }
      if (together) {
        check(yk_lone_row_launch(&gpu, &row, nullptr), "lone row");
      } else {
        check(yk_cuda_launch_routed_gemm(&gpu, &gate_up.desc, &first, &routing, nullptr), "routed GEMM");
        check(yk_wna16_grouped_forward(&gpu, &down.desc, &second, nullptr, &err), err);
      }
      check(cudaDeviceSynchronize(), "lone row");
    }
    const auto same = [](const auto &a, const auto &b, size_t n) {
      const auto left = download(a, n), right = download(b, n);
      return std::memcmp(left.data(), right.data(), n * sizeof left[0]) == 0;
    };
    const int slots = download(two.starts, spec.n_local + 1).back();
    good = good && same(two.choices, one.choices, spec.top_k) && same(two.weights, one.weights, spec.top_k) &&
           same(two.starts, one.starts, spec.n_local + 1) && same(two.row_of_slot, one.row_of_slot, slots) &&
           same(two.slot_of_choice, one.slot_of_choice, spec.top_k) && same(two.counts, one.counts, spec.n_experts) &&
           same(logits_of_two, logits_of_one, n_logits);
    const auto want = download(y_of_two, c.hidden), got = download(y_of_one, c.hidden);
    double error2 = 0, size2 = 1e-30;
    for (int64_t j = 0; j < c.hidden; j++) {
      const double a = linear::to_double(want[j], dtype), b = linear::to_double(got[j], dtype);
      error2 += (a - b) * (a - b);
      size2 += a * a;
    }
    const double error = std::sqrt(error2 / size2);
    worst = error <= worst ? worst : error;
    good = good && error < (dtype == YK_F16 ? 1e-3 : 8e-3);
  }
  if (!good)
    std::printf("WRONG  lone row %s hidden %lld ffn %lld shared %lld group %lld, %d of %d experts, padding %d: "
                "error %.2e\n",
                dtype == YK_F16 ? "f16" : "bf16", (long long)c.hidden, (long long)c.ffn, (long long)c.shared_ffn,
                (long long)c.group, spec.top_k, spec.n_experts, padding, worst);
  return good;
}

inline bool check_lone_rows(const yk_wna16_gpu &gpu)
{
  const yk_expert_group_score largest = YK_GROUP_SCORE_MAXIMUM;
  const lone_case cases[] = {
      {{128, 8, YK_SCORE_SOFTMAX, 1, 1, largest, true, 1.0f, 0, 128}, 2048, 768, 0, 128, false, false},
      {{128, 8, YK_SCORE_SOFTMAX, 1, 1, largest, true, 1.0f, 43, 42}, 2048, 768, 0, 128, false, true},
      {{64, 6, YK_SCORE_SOFTMAX, 1, 1, largest, false, 1.0f, 0, 64}, 2048, 1408, 2816, 64, false, false},
      {{60, 4, YK_SCORE_SOFTMAX, 1, 1, largest, false, 1.0f, 0, 60}, 2048, 1408, 5632, 128, true, false},
      {{8, 2, YK_SCORE_SOFTMAX, 1, 1, largest, true, 1.0f, 0, 8}, 4096, 14336, 0, 128, false, false},
      {{160, 6, YK_SCORE_SOFTMAX, 8, 3, largest, false, 16.0f, 0, 160}, 4160, 192, 384, 64, false, true},
      {{250, 8, YK_SCORE_SOFTMAX, 1, 1, largest, true, 1.0f, 100, 50}, 1056, 416, 96, 32, true, false},
      {{256, 8, YK_SCORE_SIGMOID, 8, 4, YK_GROUP_SCORE_LARGEST_TWO, true, 2.5f, 0, 256},
       7168,
       256,
       256,
       128,
       false,
       false},
      {{12, 3, YK_SCORE_SIGMOID, 4, 2, YK_GROUP_SCORE_LARGEST_TWO, true, 1.8f, 0, 12}, 64, 64, 64, 32, false, false},
  };
  const routing_exchange exchange;
  const lone_row_exchange own_exchange;
  int failures = 0, runs = 0;
  /* Cases follow each other, as launches of many and of few blocks then have one exchange by turns. */
  for (yk_dtype dtype : {YK_F16, YK_BF16})
    for (bool padding : {false, true})
      for (const lone_case &c : cases) {
        failures += !check_lone_row(gpu, c, dtype, padding, exchange, own_exchange, 70 + unsigned(runs));
        runs++;
      }
  std::printf("lone rows: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

/* ---- Combination ------------------------------------------------------------------------------------------------- */

inline bool check_combine(yk_dtype dtype, int n_tokens, int top_k, int hidden, bool shared, bool gate, unsigned seed)
{
  std::mt19937 rng(seed);
  const int n_slots = n_tokens * top_k;
  device_array<uint16_t> slots(size_t(n_slots) * hidden), of_shared(size_t(n_tokens) * hidden),
      y(size_t(n_tokens) * hidden);
  device_array<float> weights(n_slots), gates(n_tokens * 3);
  device_array<int32_t> slot_of_choice(n_slots);
  std::vector<float> w(n_slots), g(n_tokens * 3);
  std::vector<int32_t> at(n_slots);
  for (float &v : w) v = float(rng() % 1000) * 1e-3f;
  for (float &v : g) v = float(rng() % 1000) * 4e-3f - 2;
  std::iota(at.begin(), at.end(), 0);
  std::shuffle(at.begin(), at.end(), rng);
  for (int32_t &v : at)
    if (rng() % 4 == 0) v = -1;
  upload(weights, w);
  upload(gates, g);
  upload(slot_of_choice, at);
  linear::fill_halves<<<256, 256>>>(slots.data, slots.count, dtype, -1.0f, 1.0f, seed);
  linear::fill_halves<<<256, 256>>>(of_shared.data, of_shared.count, dtype, -1.0f, 1.0f, seed + 1);
  const yk_combine_args args = {y.data,
                                slots.data,
                                weights.data,
                                slot_of_choice.data,
                                shared ? of_shared.data : nullptr,
                                gate ? gates.data : nullptr,
                                3,
                                n_tokens,
                                top_k,
                                hidden};
  check(yk_cuda_launch_combine(dtype, &args, nullptr), "combine");
  const auto got = download(y, y.count), s = download(slots, slots.count), sh = download(of_shared, of_shared.count);
  double worst = 0;
  for (int row = 0; row < n_tokens; row++)
    for (int i = 0; i < hidden; i++) {
      double want = 0;
      for (int j = 0; j < top_k; j++)
        if (at[row * top_k + j] >= 0)
          want += double(w[row * top_k + j]) * linear::to_double(s[size_t(at[row * top_k + j]) * hidden + i], dtype);
      if (shared)
        want += linear::to_double(sh[size_t(row) * hidden + i], dtype) *
                (gate ? 1 / (1 + std::exp(-double(g[row * 3]))) : 1);
      const double value = linear::to_double(got[size_t(row) * hidden + i], dtype);
      worst = std::max(worst, std::fabs(value - want) / (std::fabs(want) + 1e-3));
    }
  const bool good = worst < (dtype == YK_F16 ? 1e-3 : 8e-3);
  if (!good)
    std::printf("WRONG  combine of %d rows, %d choices, hidden %d: error %.2e\n", n_tokens, top_k, hidden, worst);
  return good;
}

inline bool check_combines()
{
  int failures = 0;
  unsigned seed = 1;
  for (yk_dtype dtype : {YK_F16, YK_BF16}) {
    failures += !check_combine(dtype, 1, 8, 2048, false, false, seed++);
    failures += !check_combine(dtype, 33, 2, 4096, true, false, seed++);
    failures += !check_combine(dtype, 5, 17, 60, true, true, seed++);
    failures += !check_combine(dtype, 7, 6, 2056, true, true, seed++);
  }
  std::printf("combine: %d of 8 runs wrong\n", failures);
  return failures == 0;
}

} // namespace experts

#endif
