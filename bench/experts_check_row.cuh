/* experts_check_row.cuh - checks of bench_experts: the fused kernels for one row, which also route, against separate
 * operations. */
#ifndef YK_BENCH_EXPERTS_CHECK_ROW_CUH
#define YK_BENCH_EXPERTS_CHECK_ROW_CUH

#include "bench/experts_layer.cuh"

#include <cstring>

namespace experts {

/* Whether the first n values have the same bits. */
template <typename T> bool same(const device_array<T> &a, const device_array<T> &b, size_t n)
{
  const auto left = download(a, n), right = download(b, n);
  return std::memcmp(left.data(), right.data(), n * sizeof left[0]) == 0;
}

/* Whether two routings of one row gave the same bits. */
inline bool routed_alike(const yk_route_spec &spec, const routing &a, const routing &b)
{
  const int slots = download(a.starts, spec.n_local + 1).back();
  return same(a.choices, b.choices, spec.top_k) && same(a.weights, b.weights, spec.top_k) &&
         same(a.starts, b.starts, spec.n_local + 1) && same(a.row_of_slot, b.row_of_slot, slots) &&
         same(a.slot_of_choice, b.slot_of_choice, spec.top_k) && same(a.counts, b.counts, spec.n_experts);
}

/* ---- A routed GEMM ----------------------------------------------------------------------------------------------- */

/* One kernel gives the same bits as two. Three times, with other rows, through the same mailbox. */
inline bool check_routed(const yk_gemm_gpu &gpu, const yk_route_spec &spec, yk_dtype dtype, int64_t k, int64_t n,
                         int64_t group, bool gate_up, bool padding, const router_mailbox &of_router,
                         const routing_mailbox &mailbox, unsigned seed)
{
  const matrices m({k, n, group, dtype, bench::silu_where(gate_up)}, spec.n_local, 1, seed);
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
    const yk_cuda_routing routing = {&router, &of_one, mailbox.memory.data};
    if (!yk_cuda_router_takes(&router, &of_two) || !yk_cuda_routed_gemm_takes(&gpu, &m.desc, &routed, &routing))
      return gpu.path != YK_GEMM_WGMMA; /* where kernels for 9.0 run, they take all of these */
    yk_err err = YK_ERR_INIT;
    check(yk_cuda_launch_router(&router, &of_two, of_router.memory.data, nullptr), "router");
    check(yk_gemm_grouped_forward(&gpu, &m.desc, &call, nullptr, &err), err);
    check(yk_cuda_launch_routed_gemm(&gpu, &m.desc, &routed, &routing, nullptr), "routed GEMM");
    check(cudaDeviceSynchronize(), "routed GEMM");
    good = good && routed_alike(spec, two, one) && same(logits_of_two, logits_of_one, n_logits) &&
           same(y_of_two, y_of_one, y_of_two.count);
  }
  if (!good)
    std::printf("WRONG  routed GEMM %s k %lld n %lld group %lld%s, %d of %d experts, padding %d\n",
                dtype == YK_F16 ? "f16" : "bf16", (long long)k, (long long)n, (long long)group,
                gate_up ? " gate_up" : "", spec.top_k, spec.n_experts, padding);
  return good;
}

inline bool check_routed_gemms(const yk_gemm_gpu &gpu)
{
  const yk_route_spec specs[] = {
      QWEN3_30B,        with_experts(QWEN3_30B, 43, 42),
      DEEPSEEK_V2_LITE, MIXTRAL,
      DEEPSEEK_V2,      {250, 8, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 100, 50},
      DEEPSEEK_V3,
  };
  const router_mailbox of_router;
  const routing_mailbox mailbox;
  int failures = 0, runs = 0;
  for (const yk_route_spec &spec : specs)
    for (yk_dtype dtype : {YK_F16, YK_BF16})
      for (int64_t group : {32, 64, 128})
        for (bool padding : {false, true}) {
          failures += !check_routed(gpu, spec, dtype, runs % 2 ? 2048 : 3904, 192, group, runs % 3 > 0, padding,
                                    of_router, mailbox, 50 + unsigned(runs));
          runs++;
        }
  std::printf("routed GEMMs: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

/* ---- A single token ---------------------------------------------------------------------------------------------- */

struct single_token_case {
  yk_route_spec spec;
  int64_t hidden, ffn, shared_ffn, group; /* shared_ffn 0: no shared expert */
  bool has_gate, bias;
};

/* The fused kernel routes like two separate kernels, and its results equal theirs up to rounding. Three times, with
 * other rows; for some seeds each expert has a twin with the same logits. */
inline bool check_single_token(const yk_gemm_gpu &gpu, const single_token_case &c, yk_dtype dtype, bool padding,
                               const routing_mailbox &mailbox, const single_token_mailbox &own_mailbox, unsigned seed)
{
  const yk_route_spec &spec = c.spec;
  const matrices gate_up({c.hidden, 2 * c.ffn, c.group, dtype, YK_GATED_SILU}, spec.n_local, 1, seed),
      down({c.ffn, c.hidden, c.group, dtype, YK_NO_ACTIVATION}, spec.n_local, 1, seed + 1);
  const int64_t shared_ffn = c.shared_ffn ? c.shared_ffn : c.group;
  const matrices shared_gate_up({c.hidden, 2 * shared_ffn, c.group, dtype, YK_GATED_SILU}, 1, 1, seed + 2),
      shared_down({shared_ffn, c.hidden, c.group, dtype, YK_NO_ACTIVATION}, 1, 1, seed + 3);
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
        first.shared_expert = {shared_gate_up.packed.data, x.data, inner_of_shared.data, c.hidden, 2 * shared_ffn, 1};
        second.shared_expert = {shared_down.packed.data, inner_of_shared.data, y, shared_ffn, c.hidden, 1};
      }
      const yk_cuda_routing routing = {&router, &route, together ? own_mailbox.memory.data : mailbox.memory.data};
      const yk_single_token row = {&gate_up.desc, &down.desc, &first, &second, &routing};
      yk_err err = YK_ERR_INIT;
      if (!yk_single_token_takes(&gpu, &row)) {
        std::printf("single token: not taken\n");
        return false;
      }
      if (together) {
        check(yk_single_token_launch(&gpu, &row, nullptr), "single token");
      } else {
        check(yk_cuda_launch_routed_gemm(&gpu, &gate_up.desc, &first, &routing, nullptr), "routed GEMM");
        check(yk_gemm_grouped_forward(&gpu, &down.desc, &second, nullptr, &err), err);
      }
      check(cudaDeviceSynchronize(), "single token");
    }
    good = good && routed_alike(spec, two, one) && same(logits_of_two, logits_of_one, n_logits);
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
    std::printf("WRONG  single token %s hidden %lld ffn %lld shared %lld group %lld, %d of %d experts, padding %d: "
                "error %.2e\n",
                dtype == YK_F16 ? "f16" : "bf16", (long long)c.hidden, (long long)c.ffn, (long long)c.shared_ffn,
                (long long)c.group, spec.top_k, spec.n_experts, padding, worst);
  return good;
}

inline bool check_single_tokens(const yk_gemm_gpu &gpu)
{
  const single_token_case cases[] = {
      {QWEN3_30B, 2048, 768, 0, 128, false, false},
      {with_experts(QWEN3_30B, 43, 42), 2048, 768, 0, 128, false, true},
      {DEEPSEEK_V2_LITE, 2048, 1408, 2816, 64, false, false},
      {{60, 4, YK_SCORE_SOFTMAX, 1, 1, LARGEST, false, 1.0f, 0, 60}, 2048, 1408, 5632, 128, true, false},
      {MIXTRAL, 4096, 14336, 0, 128, false, false},
      {DEEPSEEK_V2, 4160, 192, 384, 64, false, true},
      {{250, 8, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 100, 50}, 1056, 416, 96, 32, true, false},
      {DEEPSEEK_V3, 7168, 256, 256, 128, false, false},
      {{12, 3, YK_SCORE_SIGMOID, 4, 2, LARGEST_TWO, true, 1.8f, 0, 12}, 64, 64, 64, 32, false, false},
  };
  const routing_mailbox mailbox;
  const single_token_mailbox own_mailbox;
  int failures = 0, runs = 0;
  /* Cases follow each other: launches of many and of few blocks alternate on one mailbox. */
  for (yk_dtype dtype : {YK_F16, YK_BF16})
    for (bool padding : {false, true})
      for (const single_token_case &c : cases) {
        failures += !check_single_token(gpu, c, dtype, padding, mailbox, own_mailbox, 70 + unsigned(runs));
        runs++;
      }
  std::printf("single tokens: %d of %d runs wrong\n", failures, runs);
  return failures == 0;
}

} // namespace experts

#endif
