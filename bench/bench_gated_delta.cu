/* bench_gated_delta.cu - the operation of gated delta nets, timed on random rows; tests/op checks its results.
 *
 * Time: a graph whose nodes rotate over the states of two layers or more, so that decode finds the L2 cache cold and no
 * node reads states that the node before writes. A node's time is a replay divided by the number of nodes: median and
 * range of the repeats. Bytes: states read and written, and rows. Operations: those of the chunked form, for chunks of
 * 64 rows. */
#include <string>

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "bench/recurrent_arrays.cuh"
#include "kernels/cuda/delta/delta.h"
#include "yoke/process.h"

using namespace bench;

namespace {

constexpr int DIM = 128, CHUNK = 64;

struct load {
  std::string name;
  int32_t n_keys, per_key, n_seqs, rows; /* rows of each sequence */
};

std::vector<load> loads()
{
  std::vector<load> v;
  for (int n : {1, 8, 32, 64, 128, 256, 1024}) v.push_back({"decode " + std::to_string(n), 16, 3, n, 1});
  for (int n : {64, 256}) v.push_back({"decode " + std::to_string(n) + " 16/32 heads", 16, 2, n, 1});
  v.push_back({"decode 64 8/24 heads (2 ranks)", 8, 3, 64, 1});
  v.push_back({"prefill 1 x 2048 16/32 heads", 16, 2, 1, 2048});
  v.push_back({"prefill 4 x 512 16/32 heads", 16, 2, 4, 512});
  v.push_back({"prefill 1 x 4096", 16, 3, 1, 4096});
  v.push_back({"prefill 8 x 4096", 16, 3, 8, 4096});
  v.push_back({"prefill 32 x 2048 16/32 heads", 16, 2, 32, 2048});
  v.push_back({"prefill 64 x 512", 16, 3, 64, 512});
  v.push_back({"prefill 8 x 300", 16, 3, 8, 300});
  return v;
}

yk_delta_layout layout_of(const load &l)
{
  const int64_t keys = (int64_t)l.n_keys * DIM, values = keys * l.per_key, n = (int64_t)l.n_keys * l.per_key;
  yk_delta_layout out = {};
  out.n_key_heads = l.n_keys, out.values_per_key = l.per_key, out.key_dim = out.value_dim = DIM;
  out.k = keys, out.v = 2 * keys, out.z = out.v + values, out.b = out.z + values, out.a = out.b + n;
  out.qk_step = DIM, out.v_step = out.z_step = (int64_t)l.per_key * DIM, out.ba_step = l.per_key;
  out.x_stride = out.a + n;
  return out;
}

/* Everything that calls for a load read and write. */
struct arena {
  yk_delta_layout layout;
  std::vector<void *> memory;
  yk_batch batch;
  yk_gated_delta_args args = {};
  float *states;
  int64_t layer_floats;
  int n_layers;

  explicit arena(const load &l) : layout(layout_of(l)), batch(even_batch(l.n_seqs, l.rows, memory))
  {
    const int64_t n_rows = (int64_t)l.n_seqs * l.rows, n_values = yk_delta_n_value_heads(&layout);
    layer_floats = l.n_seqs * yk_delta_state_floats(&layout);
    n_layers = layers_beyond_cache(layer_floats);
    states = floats(n_layers * layer_floats, 0.1f, 0.0f);
    __half *x = device_new<__half>(n_rows * layout.x_stride);
    fill_random<<<1024, 256>>>(x, n_rows * layout.x_stride, 1u);
    args.y = device_new<__half>(n_rows * n_values * DIM);
    args.x = x;
    args.scratch = device_new<float>(n_rows * yk_delta_scratch_floats(&layout));
    args.layout = layout;
    args.conv_w = floats(YK_DELTA_TAPS * yk_delta_channels(&layout), 0.5f, 0.0f);
    args.rate = floats(n_values, 0.5f, 0.6f), args.dt_bias = floats(n_values, 0.5f, 0.5f);
    args.norm_w = floats(DIM, 0.5f, 1.0f), args.norm_eps = 1e-6f, args.batch = &batch;
    for (const void *array : std::initializer_list<const void *>{states, x, args.y, args.scratch, args.conv_w,
                                                                 args.rate, args.dt_bias, args.norm_w})
      memory.push_back(const_cast<void *>(array));
  }
  arena(const arena &) = delete;
  arena &operator=(const arena &) = delete;
  ~arena()
  {
    for (void *p : memory) CUDA_OK(cudaFree(p));
  }

  void run(void *readers, int layer, cudaStream_t stream)
  {
    yk_err err = YK_ERR_INIT;
    args.states = states + layer % n_layers * layer_floats;
    check(yk_cuda_gated_delta_run(readers, &args, YK_F16, stream, &err), err);
  }
};

struct figures {
  double bytes, flops;
};

figures work_of(const load &l)
{
  const yk_delta_layout layout = layout_of(l);
  const double rows = (double)l.n_seqs * l.rows, n_values = (double)yk_delta_n_value_heads(&layout);
  const double of_row = 2 * (4.0 * CHUNK * DIM + 3.0 * DIM * DIM); /* K K^T, Q K^T, T V, T K, A U; K S, Q S, K^T U */
  return {8.0 * l.n_seqs * yk_delta_state_floats(&layout) + 2 * rows * (layout.x_stride + n_values * DIM),
          rows * n_values * (of_row + 2.0 * CHUNK * DIM)};
}

void time_all(void *readers, const std::string &filter, cudaStream_t stream, FILE *json)
{
  printf("%-32s %10s %21s %8s %9s %8s %9s\n", "case (f16)", "us", "range", "TB/s", "of 4.35", "TFLOP/s", "us a row");
  bool comma = false;
  for (const load &l : loads()) {
    if (l.name.find(filter) == std::string::npos) continue;
    arena a(l);
    a.run(readers, 0, stream);
    const int n_nodes = l.rows > 1 ? a.n_layers : std::max(a.n_layers, 16);
    cudaGraphExec_t exec = capture(stream, [&](cudaStream_t s) {
      for (int i = 0; i < n_nodes; i++) a.run(readers, i, s);
    });
    const spread us = time_graph(stream, exec, n_nodes, l.rows > 1 ? 5 : 15);
    CUDA_OK(cudaGraphExecDestroy(exec));
    const figures w = work_of(l);
    const double tb_s = w.bytes / us.median * 1e-6;
    printf("%-32s %10.2f [%9.2f,%9.2f] %8.2f %8.0f%% %8.1f %9.4f\n", l.name.c_str(), us.median, us.low, us.high, tb_s,
           100 * tb_s / 4.35, w.flops / us.median * 1e-6, us.median / l.rows);
    fflush(stdout);
    if (!json) continue;
    fprintf(json,
            "%s\n    {\"case\": \"%s\", \"us\": %.3f, \"us_low\": %.3f, \"us_high\": %.3f, \"bytes\": %.0f, "
            "\"flops\": %.0f, \"tb_s\": %.3f, \"share_of_4.35_tb_s\": %.3f, \"tflop_s\": %.1f}",
            comma ? "," : "", l.name.c_str(), us.median, us.low, us.high, w.bytes, w.flops, tb_s, tb_s / 4.35,
            w.flops / us.median * 1e-6);
    comma = true;
  }
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  report_options report;
  const char *filter = "";
  std::vector<yk_option> options = {{.name = "filter",
                                     .kind = YK_OPTION_STRING,
                                     .value = &filter,
                                     .metavar = "TEXT",
                                     .help = "time only cases whose name contains TEXT"}};
  add_options(options, report);
  parse_options("bench_gated_delta",
                "Gated delta nets on the first CUDA device, timed: decode and prefill of 16 key heads and 48 value "
                "heads of 128, unless the case says otherwise.",
                "  bench_gated_delta --filter decode --json gated_delta.json\n", options, argc, argv);
  FILE *json = open_figures(report);
  cudaDeviceProp prop;
  CUDA_OK(cudaGetDeviceProperties(&prop, 0));
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  char *readers = device_new<char>(yk_cuda_delta_readers_bytes(1024));
  const machine_rates top = measure_rates(stream);
  printf("%s: read %.2f TB/s, copy %.2f TB/s, f16 GEMM %.0f TFLOP/s\n", prop.name, top.read_tb_s, top.copy_tb_s,
         top.matmul_tflop_s);
  if (json)
    fprintf(json,
            "{\n  \"gpu\": \"%s\", \"commit\": \"%s\", \"command\": \"bench_gated_delta\",\n  \"read_tb_s\": %.3f, "
            "\"copy_tb_s\": %.3f, \"matmul_tflop_s\": %.1f,\n  \"cases\": [",
            prop.name, report.commit, top.read_tb_s, top.copy_tb_s, top.matmul_tflop_s);
  time_all(readers, filter, stream, json);
  if (json) fprintf(json, "\n  ]\n}\n");
  close_figures(report, json);
  return 0;
}
