/* experts_layer.cuh - data of a mixture of experts on the device for bench_experts: routing arrays, packed experts. */
#ifndef YK_BENCH_EXPERTS_LAYER_CUH
#define YK_BENCH_EXPERTS_LAYER_CUH

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/linear_gemm.cuh"
#include "kernels/cuda/gemm/dense/few_outputs.h"
#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/moe/combine.h"
#include "kernels/cuda/moe/route.h"
#include "kernels/cuda/moe/routed_gemm.h"
#include "kernels/cuda/moe/router.h"
#include "kernels/cuda/moe/single_token.h"

namespace experts {

using bench::check;
using linear::device_array;

/* ---- Routing ----------------------------------------------------------------------------------------------------- */

/* Routings of models. The rank holds all experts. */
constexpr yk_expert_group_score LARGEST = YK_GROUP_SCORE_MAXIMUM, LARGEST_TWO = YK_GROUP_SCORE_LARGEST_TWO;
constexpr yk_route_spec QWEN3_30B = {128, 8, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 0, 128};
constexpr yk_route_spec MIXTRAL = {8, 2, YK_SCORE_SOFTMAX, 1, 1, LARGEST, true, 1.0f, 0, 8};
constexpr yk_route_spec DEEPSEEK_V2_LITE = {64, 6, YK_SCORE_SOFTMAX, 1, 1, LARGEST, false, 1.0f, 0, 64};
constexpr yk_route_spec DEEPSEEK_V2 = {160, 6, YK_SCORE_SOFTMAX, 8, 3, LARGEST, false, 16.0f, 0, 160};
constexpr yk_route_spec DEEPSEEK_V3 = {256, 8, YK_SCORE_SIGMOID, 8, 4, LARGEST_TWO, true, 2.5f, 0, 256};

/* The same on a rank that holds n of the experts. */
constexpr yk_route_spec with_experts(yk_route_spec spec, int32_t first, int32_t n)
{
  spec.first_local = first;
  spec.n_local = n;
  return spec;
}

/* Arrays that route reads and writes for up to n_tokens rows. */
struct routing {
  yk_route_spec spec;
  int n_tokens;
  device_array<float> logits, bias, weights;
  device_array<int32_t> kv_slots, choices, starts, row_of_slot, slot_of_choice;
  device_array<int64_t> counts;
  device_array<uint8_t> scratch;

  routing(const yk_route_spec &s, int n)
      : spec(s), n_tokens(n), logits(size_t(n) * s.n_experts), bias(s.n_experts), weights(size_t(n) * s.top_k),
        kv_slots(n), choices(size_t(n) * s.top_k), starts(s.n_local + 1), row_of_slot(yk_route_max_slots(&s, n)),
        slot_of_choice(size_t(n) * s.top_k), counts(s.n_experts), scratch(yk_route_scratch_bytes(&s, n))
  {
    check(cudaMemset(counts.data, 0, counts.count * 8), "counts");
  }

  yk_route_args args(bool with_bias, bool with_padding) const
  {
    yk_route_args a = {};
    a.spec = &spec;
    a.logits = logits.data;
    a.logits_stride = spec.n_experts;
    a.bias = with_bias ? bias.data : nullptr;
    a.kv_slots = with_padding ? kv_slots.data : nullptr;
    a.n_tokens = n_tokens;
    a.choices = choices.data;
    a.weights = weights.data;
    a.starts = starts.data;
    a.row_of_slot = row_of_slot.data;
    a.slot_of_choice = slot_of_choice.data;
    a.counts = counts.data;
    a.scratch = scratch.data;
    return a;
  }
};

template <typename T> std::vector<T> download(const device_array<T> &from, size_t n)
{
  std::vector<T> v(n);
  check(cudaMemcpy(v.data(), from.data, n * sizeof(T), cudaMemcpyDeviceToHost), "download");
  return v;
}

template <typename T> void upload(const device_array<T> &to, const std::vector<T> &v)
{
  check(cudaMemcpy(to.data, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
}

/* Mailbox in which the thread blocks of a routed GEMM exchange logits. */
struct routing_mailbox {
  device_array<uint8_t> memory;

  routing_mailbox() : memory(yk_cuda_routed_gemm_mailbox_bytes())
  {
    check(yk_cuda_routed_gemm_prepare(memory.data, nullptr), "mailbox");
    check(cudaDeviceSynchronize(), "mailbox");
  }
};

/* Mailbox of the single-token kernel: logits, and the values between the GEMMs. */
struct single_token_mailbox {
  device_array<uint8_t> memory;

  single_token_mailbox() : memory(yk_single_token_mailbox_bytes())
  {
    check(yk_single_token_prepare(memory.data, nullptr), "mailbox");
    check(cudaDeviceSynchronize(), "mailbox");
  }
};

/* Mailbox in which the thread blocks of a router's kernel exchange choices. */
struct router_mailbox {
  device_array<uint8_t> memory;

  router_mailbox() : memory(yk_cuda_router_mailbox_bytes())
  {
    check(yk_cuda_router_prepare(memory.data, nullptr), "mailbox");
    check(cudaDeviceSynchronize(), "mailbox");
  }
};

/* ---- Experts ----------------------------------------------------------------------------------------------------- */

/* n_experts random AWQ matrices side by side, packed. */
struct matrices {
  yk_gemm_desc desc;
  int n_experts;
  int64_t matrix_bytes;
  size_t words, groups; /* of one matrix */
  device_array<uint32_t> qweight, qzeros;
  device_array<uint16_t> scales;
  device_array<uint8_t> packed;
  device_array<int32_t> next_tile; /* alternates between calls, because a call may begin while the previous one runs */

  /* distinct: number of tensors that are kept; matrix m uses tensors m % distinct. */
  matrices(const yk_gemm_desc &d, int n, int distinct, uint64_t seed)
      : desc(d), n_experts(n),
        matrix_bytes((int64_t(yk_gemm_packed_bytes(&d)) + 255) / 256 * 256 + (d.n * 2 + 255) / 256 * 256),
        words(d.k * d.n / 8), groups((d.k + d.group - 1) / d.group), qweight(words * distinct),
        qzeros(groups * d.n / 8 * distinct), scales(groups * d.n * distinct), packed(matrix_bytes * n), next_tile(2)
  {
    linear::fill_words<<<1024, 256>>>(qweight.data, qweight.count, seed + 1);
    linear::fill_words<<<256, 256>>>(qzeros.data, qzeros.count, seed + 2);
    linear::fill_halves<<<256, 256>>>(scales.data, scales.count, YK_F16, 0.002f, 0.02f, seed + 3);
    check(cudaMemset(packed.data, 0, packed.count), "packed");
    check(cudaMemset(next_tile.data, 0, next_tile.count * sizeof(int32_t)), "next tile");
    yk_err err = YK_ERR_INIT;
    for (int m = 0; m < n; m++) {
      const size_t of = size_t(m % distinct);
      yk_gemm_source from = {};
      from.qweight = reinterpret_cast<const int32_t *>(qweight.data) + of * words;
      from.qzeros = reinterpret_cast<const int32_t *>(qzeros.data) + of * groups * (d.n / 8);
      from.scales = scales.data + of * groups * d.n;
      from.scales_dtype = YK_F16;
      from.words_per_row = d.n / 8;
      from.group = d.group;
      uint8_t *to = packed.data + m * matrix_bytes;
      check(yk_gemm_pack(&d, to, &from, 0, d.n, nullptr, &err), err);
      linear::fill_halves<<<8, 256>>>(bias_of(m), d.n, d.dtype, -2.0f, 2.0f, seed + 100 + m);
    }
    check(cudaDeviceSynchronize(), "pack");
  }

  uint16_t *bias_of(int m) const
  {
    return reinterpret_cast<uint16_t *>(packed.data + m * matrix_bytes + matrix_bytes - (desc.n * 2 + 255) / 256 * 256);
  }

  int64_t width() const
  {
    return desc.activation.is_gated ? desc.n / 2 : desc.n;
  }

  yk_grouped_call call(const void *x, int32_t n_rows, void *y, const int32_t *row_of_slot, const int32_t *starts,
                       int64_t max_slots, bool with_bias) const
  {
    yk_grouped_call c = {};
    c.weights = packed.data;
    c.bias = with_bias ? bias_of(0) : nullptr;
    c.bias_dtype = desc.dtype;
    c.matrix_bytes = matrix_bytes;
    c.n_matrices = n_experts;
    c.x = x;
    c.n_rows = n_rows;
    c.y = y;
    c.row_of_slot = row_of_slot;
    c.starts = starts;
    c.max_slots = max_slots;
    c.next_tile = next_tile.data;
    return c;
  }
};

} // namespace experts

#endif
