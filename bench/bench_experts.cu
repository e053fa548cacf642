/* bench_experts.cu - mixtures of experts on a GPU: router and routing, both grouped W4A16 GEMMs and the combination,
 * timed with cold weights, one by one and as a layer, and compared with dense GEMMs of the same work: the columns of
 * all chosen experts side by side, with an expert's average number of rows. The router's GEMM is timed if it is not
 * cuBLAS's. For a model with a shared expert, the layer is also timed with its GEMMs in separate kernels, and fused
 * into the experts' kernels if these support it. The layer of a single token is also timed in one kernel ("single"),
 * without and with the shared expert, and both forms as the time they add to the other kernels of a step ("in step").
 * experts_timing.cuh defines the times; tests/op/test_op_cuda_experts_large.c checks the operations. */
#include "bench/experts_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "yoke/process.h"

using namespace experts;

namespace {

struct options {
  bench::report_options report;
  timing_options timing;
  std::vector<int32_t> tokens = {1, 8, 32, 64, 256, 1024, 2048, 4096, 8192};
};

const model MODELS[] = {
    {"qwen3-30b-a3b", 128, 8, 2048, 768, 128, 0},
    {"qwen3-30b-a3b-tp2", 128, 8, 2048, 384, 128, 0}, /* half of each expert's channels, as on one of two ranks */
    {"mixtral-8x7b", 8, 2, 4096, 14336, 128, 0},
    {"deepseek-v2-lite", 64, 6, 2048, 1408, 64, 2816},
    {"deepseek-v2-lite-tp2", 64, 6, 2048, 704, 64, 1408},
    {"deepseek-v3-tp8", 256, 8, 7168, 256, 128, 256}, /* an eighth of each expert's channels */
};

void time_model(const options &o, const yk_gemm_gpu &gpu, const model &m, FILE *json, bool &first)
{
  const layer l(m);
  std::printf("\n%s: %d experts, %d a row, hidden %lld, FFN %lld, groups of %lld; microseconds\n", m.name, m.n_experts,
              m.top_k, (long long)m.hidden, (long long)m.ffn, (long long)m.group);
  std::printf(
      "%6s %7s %6s | %6s %8s | %8s %8s %8s %5s | %8s %8s %8s %5s | %7s %8s | %8s %6s | %8s %8s | %8s %8s %8s %8s\n",
      "rows", "experts", "most", "route", "routed", "gate_up", "floor", "dense", "eff", "down", "floor", "dense", "eff",
      "combine", "both", "layer", "eff", "+shared", "fused", "single", "+shared", "in step", "single");
  for (int32_t n : o.tokens) {
    const times t = measurement(o.timing, l, gpu, n).run();
    const double floor = t.floor_gate_up + t.floor_down;
    std::printf("%6d %7d %6d | %6.2f %8.2f | %8.2f %8.2f %8.2f %4.0f%% | %8.2f %8.2f %8.2f %4.0f%% | %7.2f %8.2f | "
                "%8.2f %5.0f%% | %8.2f %8.2f | %8.2f %8.2f %8.2f %8.2f\n",
                n, t.active, t.max_rows, t.route, t.routed_gate_up, t.gate_up, t.floor_gate_up, t.dense_gate_up,
                100 * t.floor_gate_up / t.gate_up, t.down, t.floor_down, t.dense_down, 100 * t.floor_down / t.down,
                t.combine, t.down_combine, t.layer, 100 * floor / t.layer, t.shared_apart, t.shared_fused, t.single,
                t.single_shared, t.in_step, t.single_in_step);
    std::fflush(stdout);
    if (!json) continue;
    std::fprintf(
        json,
        "%s\n    {\"model\": \"%s\", \"group\": %lld, \"rows\": %d, \"experts_with_rows\": %d, \"most_rows\": %d, "
        "\"route_us\": %.3f, \"route_and_gate_up_us\": %.3f, "
        "\"gate_up_us\": %.3f, \"gate_up_floor_us\": %.3f, \"gate_up_dense_us\": %.3f, \"down_us\": %.3f, "
        "\"down_floor_us\": %.3f, \"down_dense_us\": %.3f, \"combine_us\": %.3f, \"down_and_combine_us\": %.3f, "
        "\"layer_us\": %.3f, \"layer_and_shared_us\": %.3f, \"layer_with_fused_shared_us\": %.3f, \"single_token_us\": "
        "%.3f, "
        "\"single_token_with_shared_us\": %.3f, \"layer_in_step_us\": %.3f, \"single_token_in_step_us\": %.3f}",
        first ? "" : ",", m.name, (long long)m.group, n, t.active, t.max_rows, t.route, t.routed_gate_up, t.gate_up,
        t.floor_gate_up, t.dense_gate_up, t.down, t.floor_down, t.dense_down, t.combine, t.down_combine, t.layer,
        t.shared_apart, t.shared_fused, t.single, t.single_shared, t.in_step, t.single_in_step);
    first = false;
  }
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  options o;
  const char *tokens = "", *only = "";
  std::vector<yk_option> list;
  bench::add_options(list, o.report);
  list.push_back(
      {.name = "tokens", .kind = YK_OPTION_STRING, .value = &tokens, .metavar = "LIST", .help = "numbers of rows"});
  list.push_back(
      {.name = "model", .kind = YK_OPTION_STRING, .value = &only, .metavar = "NAME", .help = "this one alone"});
  list.push_back(
      {.name = "no-dense", .kind = YK_OPTION_FLAG, .value = &o.timing.no_dense, .help = "no dense GEMMs beside"});
  const auto add_rate = [&](const char *name, double *value, const char *unit, double most) {
    list.push_back({.name = name,
                    .kind = YK_OPTION_NUMBER,
                    .value = value,
                    .metavar = unit,
                    .help = "of the floors",
                    .min = 1e-3,
                    .max = most});
  };
  add_rate("bandwidth", &o.timing.bandwidth_tb_s, "TB/s", 1e3);
  add_rate("peak", &o.timing.peak_tflop_s, "TFLOP/s", 1e6);
  bench::parse_options("bench_experts", "Time mixtures of experts on a GPU.", "bench_experts --tokens 1,64\n", list,
                       argc, argv);
  yk_err err = YK_ERR_INIT;
  if (*tokens) bench::check(bench::parse_numbers(tokens, o.tokens, &err), err);
  FILE *json = bench::open_figures(o.report);
  yk_gemm_gpu gpu;
  bench::check(yk_gemm_gpu_init(&gpu, YK_GEMM_AUTO, &err), err);
  bench::check(yk_gemm_grouped_init(&gpu, &err), err);
  check(yk_cuda_route_init(), "route");
  check(yk_cuda_router_init(), "router");
  check(yk_cuda_routed_gemm_init(&gpu), "routed GEMM");
  check(yk_single_token_init(&gpu), "single token");
  cudaDeviceProp device;
  int driver = 0;
  check(cudaGetDeviceProperties(&device, 0), "properties");
  check(cudaDriverGetVersion(&driver), "driver");
  std::printf("%s, driver %d, roofline %.2f TB/s and %.0f TFLOP/s\n", device.name, driver, o.timing.bandwidth_tb_s,
              o.timing.peak_tflop_s);
  if (json)
    std::fprintf(json,
                 "{\"gpu\": \"%s\", \"driver\": %d, \"commit\": \"%s\", \"bandwidth_tb_s\": %.2f, \"peak_tflop_s\": "
                 "%.0f,\n  \"points\": [",
                 device.name, driver, o.report.commit, o.timing.bandwidth_tb_s, o.timing.peak_tflop_s);
  bool first = true;
  for (const model &m : MODELS)
    if (!*only || std::string(only) == m.name) time_model(o, gpu, m, json, first);
  if (json) std::fprintf(json, "\n  ]\n}\n");
  bench::close_figures(o.report, json);
  return 0;
}
