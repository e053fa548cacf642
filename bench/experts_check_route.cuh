/* experts_check_route.cuh - checks of bench_experts: routing and the combination against the host. */
#ifndef YK_BENCH_EXPERTS_CHECK_ROUTE_CUH
#define YK_BENCH_EXPERTS_CHECK_ROUTE_CUH

#include "bench/experts_layer.cuh"

#include <cstring>

namespace experts {

/* ---- Routing ----------------------------------------------------------------------------------------------------- */

struct host_routing {
  std::vector<int32_t> choices, starts, row_of_slot, slot_of_choice;
  std::vector<int64_t> counts;
  std::vector<float> weights;
};

/* Scores in float64. Logits are far enough apart that rounding does not decide. */
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
      QWEN3_30B,
      with_experts(QWEN3_30B, 43, 42),
      MIXTRAL,
      DEEPSEEK_V2_LITE,
      DEEPSEEK_V2,
      with_experts(DEEPSEEK_V3, 128, 128),
      {384, 8, YK_SCORE_SIGMOID, 1, 1, LARGEST, true, 2.827f, 0, 384},
      {512, 16, YK_SCORE_SOFTMAX, 64, 9, LARGEST_TWO, true, 1.0f, 0, 512},
      {1000, 32, YK_SCORE_SIGMOID, 40, 20, LARGEST, true, 1.0f, 0, 1000},
      {5, 5, YK_SCORE_SIGMOID, 1, 1, LARGEST, false, 1.0f, 4, 1},
      {7, 3, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 7, 0},
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
