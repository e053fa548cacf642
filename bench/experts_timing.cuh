/* experts_timing.cuh - the timings of bench_experts: a mixture's operations one by one and as a layer, with cold
 * weights.
 *
 * Time is the median replay of a graph, divided by its number of nodes. Experts change from node to node, so that no
 * expert is in the L2 cache when it is read again. The floor is the larger of the chosen experts' bytes over the
 * memory's rate and the operations over the tensor cores' rate. */
#ifndef YK_BENCH_EXPERTS_TIMING_CUH
#define YK_BENCH_EXPERTS_TIMING_CUH

#include "bench/experts_layer.cuh"
#include "bench/gpu_timing.cuh"
#include "kernels/cuda/rows/norm.h"

namespace experts {

struct timing_options {
  double bandwidth_tb_s = 4.35, peak_tflop_s = 640; /* of an H200 */
  int32_t repeats = 7;
  bool no_dense = false;
};

struct model {
  const char *name;
  int n_experts, top_k;
  int64_t hidden, ffn, group;
  int64_t shared_ffn; /* 0: no shared expert */
};

constexpr double COLD_BYTES = 1e9;    /* least bytes between two reads of a weight; some L2 policies keep a part */
constexpr int LEAST_NODES = 8;        /* enough nodes to hide the graph's launch */
constexpr int MOST_ROUTER_ROWS = 256; /* of the GEMM of few outputs */
constexpr int ZEROS = 16;             /* router weights of chosen expert j begin with j * ZEROS zeros */
constexpr int SHARED_COPIES = 12;     /* copies of a shared expert, over which nodes rotate */

/* A shared expert's layer, several copies. */
struct shared_layer {
  matrices copies;
  yk_gemm_plans plans;
  device_array<uint8_t> workspace;

  shared_layer(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int most_rows)
      : copies(desc, SHARED_COPIES, 1, 9), workspace(yk_gemm_workspace_bytes(&gpu, &desc, most_rows))
  {
    yk_gemm_plans_choose(&gpu, &desc, 0, &plans);
    check(cudaMemset(workspace.data, 0, workspace.count), "workspace");
  }

  yk_grouped_shared_expert shared_expert(int i, const void *from, void *to, int rows) const
  {
    return {copies.packed.data + i % SHARED_COPIES * copies.matrix_bytes, from, to, copies.desc.k, copies.desc.n, rows};
  }

  void multiply(const yk_gemm_gpu &gpu, int i, const void *from, void *to, int rows, bool half, cudaStream_t stream)
  {
    yk_err err = YK_ERR_INIT;
    const yk_gemm_call c = {shared_expert(i, from, to, rows).weights, nullptr, from, to, rows, workspace.data, half};
    check(yk_gemm_forward(&gpu, &copies.desc, &plans, &c, stream, &err), err);
  }
};

/* Consecutive layers with one routing's numbers of rows per expert, enough that their weights are cold. */
struct layer {
  model shape;
  yk_route_spec spec;
  int n_layers;
  matrices gate_up, down;

  explicit layer(const model &m)
      : shape(m), spec{m.n_experts, m.top_k, YK_SCORE_SOFTMAX, 1, 1, YK_GROUP_SCORE_MAXIMUM, true,
                       1.0f,        0,       m.n_experts},
        n_layers(1 + int(COLD_BYTES / (1.5 * double(m.n_experts * m.hidden * m.ffn)))),
        gate_up({m.hidden, 2 * m.ffn, m.group, YK_F16, YK_GATED_SILU}, m.n_experts * n_layers, 1, 7),
        down({m.ffn, m.hidden, m.group, YK_F16, YK_NO_ACTIVATION}, m.n_experts * n_layers, 1, 8)
  {
  }
};

struct times {
  double route, gate_up, routed_gate_up, down, combine, down_combine, layer, dense_gate_up, dense_down;
  double single, single_shared;   /* single token's layer in one kernel, and with its shared expert; 0: several rows */
  double in_step, single_in_step; /* time that the layer adds to a single token's other kernels; 0: several rows */
  double shared_apart, shared_fused; /* the layer with a fused shared expert; 0: no shared expert, or no such kernel */
  double floor_gate_up, floor_down;
  int active, max_rows; /* experts with rows; rows of the busiest expert */
};

class measurement {
public:
  measurement(const timing_options &o, const layer &l, const yk_gemm_gpu &gpu, int n_tokens)
      : o(o), l(l), gpu(gpu), n(n_tokens), slots(int64_t(n_tokens) * l.shape.top_k), x(size_t(n) * l.shape.hidden),
        y(size_t(n) * l.shape.hidden), h(size_t(slots) * l.shape.ffn), out(size_t(slots) * l.shape.hidden)
  {
    check(cudaStreamCreate(&stream), "stream");
    linear::fill_halves<<<1024, 256>>>(x.data, x.count, YK_F16, -1.0f, 1.0f, 3);
    linear::fill_halves<<<1024, 256>>>(h.data, h.count, YK_F16, -1.0f, 1.0f, 4);
    linear::fill_halves<<<1024, 256>>>(out.data, out.count, YK_F16, -1.0f, 1.0f, 5);
    make_routings();
  }

  ~measurement()
  {
    cudaStreamDestroy(stream);
  }

  times run()
  {
    times t = {};
    t.active = active;
    t.max_rows = max_rows;
    t.route = time([&](int i) { route(i); });
    t.gate_up = time([&](int i) { multiply_gate_up(i); });
    t.routed_gate_up = time([&](int i) { route_and_multiply_gate_up(i); });
    t.down = time([&](int i) { multiply_down(i); });
    t.combine = time([&](int i) { combine(i); });
    t.down_combine = time([&](int i) { multiply_down_and_combine(i); });
    t.layer = time([&](int i) {
      route_and_multiply_gate_up(i);
      multiply_down_and_combine(i);
    });
    if (n == 1) t.single = time([&](int i) { run_single_token(i, {}, {}); });
    if (n == 1) time_in_step(t);
    if (l.shape.shared_ffn > 0) time_shared(t);
    if (!o.no_dense) {
      t.dense_gate_up = dense(l.gate_up);
      t.dense_down = dense(l.down);
    }
    t.floor_gate_up = floor_us(l.gate_up);
    t.floor_down = floor_us(l.down);
    return t;
  }

private:
  const timing_options &o;
  const layer &l;
  const yk_gemm_gpu &gpu;
  int n;
  int64_t slots;
  device_array<uint16_t> x, y, h, out;
  std::vector<std::unique_ptr<routing>> routings;               /* one per node */
  std::vector<std::unique_ptr<device_array<uint16_t>>> routers; /* likewise */
  routing_mailbox mailbox;
  single_token_mailbox token_mailbox;
  router_mailbox of_router;
  cudaStream_t stream;
  int active = 0, max_rows = 0;
  bool half = false;

  /* Rows choose at random. A single token chooses the experts whose router weights equal its row, except for zeroed
   * inputs, so that no two logits are equal. Nodes rotate over all experts. */
  void make_routings()
  {
    const int64_t row_bytes = l.shape.hidden * 2;
    const int n_experts = l.shape.n_experts;
    const double expected = n_experts * (1 - std::pow(1 - double(l.shape.top_k) / n_experts, n));
    const double bytes = expected * double(l.gate_up.matrix_bytes + l.down.matrix_bytes);
    const int nodes = std::max(LEAST_NODES, int(std::ceil(COLD_BYTES / bytes / l.n_layers)) * l.n_layers);
    for (int i = 0; i < nodes; i++) {
      routings.push_back(std::make_unique<routing>(l.spec, n));
      routers.push_back(std::make_unique<device_array<uint16_t>>(size_t(n_experts) * l.shape.hidden));
      linear::fill_halves<<<1024, 256>>>(routers[i]->data, routers[i]->count, YK_F16, -0.1f, 0.1f, 20 + i);
      check(cudaDeviceSynchronize(), "router");
      for (int j = 0; n == 1 && j < l.shape.top_k; j++) {
        uint16_t *w = routers[i]->data + (i * l.shape.top_k + j) % n_experts * l.shape.hidden;
        check(cudaMemcpy(w, x.data, row_bytes, cudaMemcpyDeviceToDevice), "router");
        check(cudaMemset(w, 0, j * ZEROS * 2), "router");
      }
      for (int row = 0; row < n; row += MOST_ROUTER_ROWS)
        multiply_router(router_gemm(i, row, std::min(MOST_ROUTER_ROWS, n - row)));
      route(i);
      check(cudaStreamSynchronize(stream), "route");
      const auto starts = download(routings[i]->starts, n_experts + 1);
      if (i > 0) continue;
      for (int e = 0; e < n_experts; e++) {
        active += starts[e + 1] > starts[e];
        max_rows = std::max(max_rows, starts[e + 1] - starts[e]);
      }
    }
  }

  yk_plain_gemm router_gemm(int i, int row, int rows) const
  {
    return {x.data + row * l.shape.hidden,
            routers[i]->data,
            routings[i]->logits.data + row * l.shape.n_experts,
            rows,
            l.shape.n_experts,
            l.shape.hidden,
            l.shape.n_experts,
            YK_F16,
            YK_F32};
  }

  void multiply_router(const yk_plain_gemm &g)
  {
    check(yk_few_outputs_launch(&g, stream), "router");
  }

  yk_cuda_router router_of(int i) const
  {
    return {x.data, routers[i]->data, l.shape.n_experts, l.shape.hidden, YK_F16};
  }

  void route(int i)
  {
    const yk_route_args a = routings[i]->args(false, false);
    const yk_cuda_router router = router_of(i);
    if (yk_cuda_router_takes(&router, &a)) {
      check(yk_cuda_launch_router(&router, &a, of_router.memory.data, stream), "router");
      return;
    }
    const yk_plain_gemm g = router_gemm(i, 0, n);
    if (yk_few_outputs_takes(&g)) multiply_router(g);
    check(yk_cuda_launch_route(&a, stream), "route");
  }

  yk_grouped_call call_of(const matrices &m, int i, const void *from, void *to, bool gathers)
  {
    yk_grouped_call c =
        m.call(from, gathers ? n : int32_t(slots), to, gathers ? routings[i]->row_of_slot.data : nullptr,
               routings[i]->starts.data, slots, false);
    c.weights = m.packed.data + i % l.n_layers * l.shape.n_experts * m.matrix_bytes;
    c.n_matrices = l.shape.n_experts;
    c.second_half = half = !half;
    c.next_tile = m.next_tile.data + half;
    return c;
  }

  bool multiply(const matrices &m, int i, const void *from, void *to, bool gathers, bool settled,
                const yk_combine_args *sum = nullptr, const yk_grouped_shared_expert &shared_expert = {})
  {
    yk_err err = YK_ERR_INIT;
    yk_grouped_call c = call_of(m, i, from, to, gathers);
    c.starts_are_settled = settled;
    c.combine = sum;
    c.shared_expert = shared_expert;
    check(yk_gemm_grouped_forward(&gpu, &m.desc, &c, stream, &err), err);
    return yk_gemm_grouped_combines(&gpu, &m.desc, &c);
  }

  void multiply_gate_up(int i)
  {
    multiply(l.gate_up, i, x.data, h.data, true, false);
  }

  void route_and_multiply_gate_up(int i)
  {
    const yk_route_args a = routings[i]->args(false, false);
    const yk_cuda_router router = router_of(i);
    const yk_cuda_routing routing = {&router, &a, mailbox.memory.data};
    const yk_grouped_call c = call_of(l.gate_up, i, x.data, h.data, true);
    if (yk_cuda_routed_gemm_takes(&gpu, &l.gate_up.desc, &c, &routing)) {
      check(yk_cuda_launch_routed_gemm(&gpu, &l.gate_up.desc, &c, &routing, stream), "routed GEMM");
      return;
    }
    half = !half;
    route(i);
    multiply_gate_up(i);
  }

  void run_with_shared_apart(int i, shared_layer &to_inner, shared_layer &to_y, const device_array<uint16_t> &inner)
  {
    to_inner.multiply(gpu, i, x.data, inner.data, n, half = !half, stream);
    to_y.multiply(gpu, i, inner.data, y.data, n, half = !half, stream);
    route_and_multiply_gate_up(i);
    yk_combine_args sum = sum_of(i);
    sum.shared = y.data;
    if (!multiply(l.down, i, h.data, out.data, false, true, &sum))
      check(yk_cuda_launch_combine(YK_F16, &sum, stream), "combine");
  }

  /* The layer of a single token. */
  void run_with_shared(int i, shared_layer &to_inner, shared_layer &to_y, const device_array<uint16_t> &inner)
  {
    const yk_route_args a = routings[i]->args(false, false);
    const yk_cuda_router router = router_of(i);
    const yk_cuda_routing routing = {&router, &a, mailbox.memory.data};
    yk_grouped_call first = call_of(l.gate_up, i, x.data, h.data, true);
    first.shared_expert = to_inner.shared_expert(i, x.data, inner.data, 1);
    check(yk_cuda_launch_routed_gemm(&gpu, &l.gate_up.desc, &first, &routing, stream), "routed GEMM");
    yk_combine_args sum = sum_of(i);
    sum.shared = y.data;
    yk_grouped_call second = call_of(l.down, i, h.data, out.data, false);
    second.starts_are_settled = true;
    second.combine = &sum;
    second.shared_expert = to_y.shared_expert(i, inner.data, y.data, 1);
    yk_err err = YK_ERR_INIT;
    check(yk_gemm_grouped_forward(&gpu, &l.down.desc, &second, stream, &err), err);
  }

  /* The layer of several rows, if the kernel takes the shared expert's weight. */
  void run_rows_with_shared(int i, shared_layer &to_inner, shared_layer &to_y, const device_array<uint16_t> &inner)
  {
    route(i);
    multiply(l.gate_up, i, x.data, h.data, true, false, nullptr, to_inner.shared_expert(i, x.data, inner.data, n));
    multiply(l.down, i, h.data, out.data, false, true, nullptr, to_y.shared_expert(i, inner.data, y.data, n));
    yk_combine_args sum = sum_of(i);
    sum.shared = y.data;
    check(yk_cuda_launch_combine(YK_F16, &sum, stream), "combine");
  }

  bool takes_shared_expert(const shared_layer &to_inner, const device_array<uint16_t> &inner)
  {
    yk_grouped_call c = call_of(l.gate_up, 0, x.data, h.data, true);
    c.shared_expert = to_inner.shared_expert(0, x.data, inner.data, n);
    half = !half;
    return yk_gemm_grouped_takes_shared_expert(&gpu, &l.gate_up.desc, &c);
  }

  /* The whole layer of a single token in one kernel. */
  void run_single_token(int i, const yk_grouped_shared_expert &to_inner, const yk_grouped_shared_expert &to_y)
  {
    const yk_route_args a = routings[i]->args(false, false);
    const yk_cuda_router router = router_of(i);
    const yk_cuda_routing routing = {&router, &a, token_mailbox.memory.data};
    yk_grouped_call first = call_of(l.gate_up, i, x.data, h.data, true),
                    second = call_of(l.down, i, h.data, out.data, false);
    yk_combine_args sum = sum_of(i);
    if (to_y.weights) sum.shared = y.data;
    first.shared_expert = to_inner;
    second.shared_expert = to_y;
    second.combine = &sum;
    const yk_single_token row = {&l.gate_up.desc, &l.down.desc, l.gate_up.desc.activation, &first, &second, &routing};
    check(yk_single_token_takes(&gpu, &row) ? yk_single_token_launch(&gpu, &row, stream) : cudaErrorNotSupported,
          "single token");
  }

  /* The layer of a single token among the other kernels of a step: GEMMs like o and qkv of 32 and 4 heads of 128, and
   * norms. */
  void time_in_step(times &t)
  {
    constexpr int64_t O_INPUTS = 4096, QKV_OUTPUTS = 5120;
    const int64_t hidden = l.shape.hidden;
    shared_layer o_proj(gpu, {O_INPUTS, hidden, 128, YK_F16, YK_NO_ACTIVATION}, 1),
        qkv(gpu, {hidden, QKV_OUTPUTS, 128, YK_F16, YK_NO_ACTIVATION}, 1);
    const device_array<uint16_t> heads(O_INPUTS), of_o(hidden), w(hidden), residual(hidden), normed(hidden),
        to(QKV_OUTPUTS);
    linear::fill_halves<<<1024, 256>>>(heads.data, heads.count, YK_F16, -1.0f, 1.0f, 3);
    linear::fill_halves<<<1024, 256>>>(w.data, w.count, YK_F16, -1.0f, 1.0f, 4);
    check(cudaMemset(residual.data, 0, residual.count * 2), "residual");
    check(cudaDeviceSynchronize(), "step");
    const auto add_norm = [&](const device_array<uint16_t> &partial) {
      yk_add_norm_args a = {};
      a.y = normed.data;
      a.residual = residual.data;
      a.partials[0] = partial.data;
      a.n_partials = 1;
      a.w = w.data;
      a.n_rows = 1;
      a.hidden = int32_t(hidden);
      a.alpha = 0.01f;
      a.eps = 1e-5f;
      check(yk_cuda_launch_add_norm(YK_F16, &a, stream), "norm");
    };
    const auto time_with = [&](auto experts) {
      return time([&](int i) {
        o_proj.multiply(gpu, i, heads.data, of_o.data, 1, half = !half, stream);
        add_norm(of_o);
        experts(i);
        add_norm(y);
        qkv.multiply(gpu, i, normed.data, to.data, 1, half = !half, stream);
      });
    };
    const double without = time_with([](int) {});
    t.in_step = time_with([&](int i) {
                  route_and_multiply_gate_up(i);
                  multiply_down_and_combine(i);
                }) -
                without;
    t.single_in_step = time_with([&](int i) { run_single_token(i, {}, {}); }) - without;
  }

  void time_shared(times &t)
  {
    const model &m = l.shape;
    shared_layer to_inner(gpu, {m.hidden, 2 * m.shared_ffn, m.group, YK_F16, YK_GATED_SILU}, n);
    shared_layer to_y(gpu, {m.shared_ffn, m.hidden, m.group, YK_F16, YK_NO_ACTIVATION}, n);
    const device_array<uint16_t> inner(size_t(n) * m.shared_ffn);
    check(cudaDeviceSynchronize(), "shared expert");
    t.shared_apart = time([&](int i) { run_with_shared_apart(i, to_inner, to_y, inner); });
    if (n != 1) {
      if (takes_shared_expert(to_inner, inner))
        t.shared_fused = time([&](int i) { run_rows_with_shared(i, to_inner, to_y, inner); });
      return;
    }
    t.shared_fused = time([&](int i) { run_with_shared(i, to_inner, to_y, inner); });
    t.single_shared = time([&](int i) {
      run_single_token(i, to_inner.shared_expert(i, x.data, inner.data, 1),
                       to_y.shared_expert(i, inner.data, y.data, 1));
    });
  }

  void multiply_down(int i)
  {
    multiply(l.down, i, h.data, out.data, false, true);
  }

  yk_combine_args sum_of(int i)
  {
    return {y.data, out.data,      routings[i]->weights.data, routings[i]->slot_of_choice.data, nullptr, nullptr, 0,
            n,      l.shape.top_k, int32_t(l.shape.hidden)};
  }

  void multiply_down_and_combine(int i)
  {
    const yk_combine_args a = sum_of(i);
    if (!multiply(l.down, i, h.data, out.data, false, true, &a)) combine(i);
  }

  void combine(int i)
  {
    const yk_combine_args a = sum_of(i);
    check(yk_cuda_launch_combine(YK_F16, &a, stream), "combine");
  }

  template <typename F> double time(F node)
  {
    const int nodes = int(routings.size());
    cudaGraphExec_t exec = bench::capture(stream, [&](cudaStream_t) {
      for (int i = 0; i < nodes; i++) node(i);
    });
    const bench::spread us = bench::time_graph(stream, exec, nodes, o.repeats);
    check(cudaGraphExecDestroy(exec), "graph");
    return us.median;
  }

  /* The packed experts as one dense weight of all their columns: the same number of bytes, and valid everywhere. */
  double dense(const matrices &m)
  {
    const int rows = int((slots + active - 1) / active), groups = std::max(1, m.n_experts / active);
    yk_gemm_desc d = m.desc;
    d.n *= active;
    yk_gemm_plans plans;
    yk_gemm_plans_choose(&gpu, &d, 0, &plans);
    device_array<uint8_t> workspace(yk_gemm_workspace_bytes(&gpu, &d, rows));
    device_array<uint16_t> dense_x(size_t(rows) * d.k), dense_y(size_t(rows) * d.n);
    check(cudaMemset(workspace.data, 0, workspace.count), "workspace");
    linear::fill_halves<<<1024, 256>>>(dense_x.data, dense_x.count, YK_F16, -1.0f, 1.0f, 3);
    check(cudaDeviceSynchronize(), "x");
    const int64_t copy = m.matrix_bytes * active;
    return time([&](int i) {
      yk_err err = YK_ERR_INIT;
      yk_gemm_call c = {
          m.packed.data + i % groups * copy, nullptr, dense_x.data, dense_y.data, rows, workspace.data, half = !half};
      check(yk_gemm_forward(&gpu, &d, &plans, &c, stream, &err), err);
    });
  }

  double floor_us(const matrices &m) const
  {
    const double bytes = double(yk_gemm_packed_bytes(&m.desc)) * active,
                 flop = 2.0 * double(slots) * double(m.desc.k) * double(m.desc.n);
    return std::max(bytes / o.bandwidth_tb_s * 1e-6, flop / o.peak_tflop_s * 1e-6);
  }
};

} // namespace experts

#endif
