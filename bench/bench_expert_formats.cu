/* bench_expert_formats.cu - experts in each format that a GPU multiplies, as in a model's layer: gate and up alone, and
 * with down, with all kernels before their GEMMs (inputs gathered in expert order, or quantised).
 *
 * Rows choose experts at random. Each node of a graph has a different routing, so that few rows read weights from
 * memory. Time is the median over replays, divided by the number of nodes. All matrices hold the same random bytes. */
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/linear/grouped.h"
#include "yoke/process.h"

using bench::check;

namespace {

struct model {
  const char *name;
  int n_experts, top_k;
  int64_t hidden, ffn;
  bool has_bias;
  yk_activation activation;
};

const model MODELS[] = {{"qwen3-30b-a3b", 128, 8, 2048, 768, false, YK_GATED_SILU},
                        {"mixtral-8x7b", 8, 2, 4096, 14336, false, YK_GATED_SILU},
                        {"gpt-oss-20b", 32, 4, 2880, 2880, true, {YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 7.0f}}};

/* A format: encoding of the weights, and treatment of x before the GEMM. */
struct form {
  const char *name;
  yk_weight_format weights;
  int64_t group; /* 0: all of K; half of it where K has no whole groups */
  yk_inputs_kind inputs;
  bool has_order; /* groups of gate and up; down needs none (runtime/model/ffn_gated.h) */
};

const form FORMS[] = {{"w4a16", YK_WEIGHT_AWQ, 128, YK_INPUTS_FLOAT, false},
                      {"w4a16-act-order", YK_WEIGHT_AWQ, 128, YK_INPUTS_FLOAT, true},
                      {"mxfp4", YK_WEIGHT_FP4, 32, YK_INPUTS_FLOAT, false},
                      {"nvfp4", YK_WEIGHT_FP4, 16, YK_INPUTS_FLOAT, false},
                      {"w8a16", YK_WEIGHT_INT8, 0, YK_INPUTS_FLOAT, false},
                      {"w8a8", YK_WEIGHT_INT8, 0, YK_INPUTS_PER_TOKEN, false},
                      {"16-bits", YK_WEIGHT_PLAIN, 0, YK_INPUTS_FLOAT, false}};

constexpr int ROUTINGS = 8, NODES = 24, REPEATS = 7;

yk_err err = YK_ERR_INIT;

/* Device memory with the contents of a host array. */
void *send(yk_device *dev, const void *from, size_t n_bytes)
{
  void *to = nullptr;
  check(dev->ops->alloc(dev, n_bytes, &to, &err), err);
  check(dev->ops->upload(dev, to, from, n_bytes, &err), err);
  return to;
}

/* Random 16-bit floats from 0.125 to 0.25 of either sign. */
std::vector<uint16_t> random_halves(int64_t n)
{
  std::minstd_rand random(3);
  std::vector<uint16_t> x(n);
  for (auto &value : x) value = static_cast<uint16_t>(0x3000 | (random() & 0x83FF));
  return x;
}

/* A grouped layer whose matrices are all the same. */
struct grouped_layer {
  yk_device *dev;
  yk_linear *linear = nullptr;
  void *staging = nullptr;

  grouped_layer(yk_device *device, const form &f, const model &m, bool is_down, int32_t max_slots) : dev(device)
  {
    const int64_t k = is_down ? m.ffn : m.hidden, n = is_down ? m.hidden : m.ffn;
    const int64_t group = !f.group ? k : k % f.group == 0 ? f.group : f.group / 2;
    const bool is_bytes = f.weights == YK_WEIGHT_INT8 || f.weights == YK_WEIGHT_FP4;
    const std::vector<uint16_t> weights = random_halves(n * k), scales_f16(n * (k / group), 0x1400);
    const std::vector<float> scales_f32(n * (k / group), 0.0005f);
    std::vector<int32_t> orders(f.has_order && !is_down ? m.n_experts * k : 0);
    yk_weight_view view = {};
    view.format = f.weights;
    view.k = k;
    view.n = n;
    view.group = f.weights == YK_WEIGHT_PLAIN ? 0 : group;
    view.dtype = is_bytes ? YK_F32 : YK_F16;
    view.packing = is_bytes ? YK_PACKING_ROWS : YK_PACKING_AWQ_GEMM;
    view.plain = view.qweight = weights.data();
    view.qzeros = f.weights == YK_WEIGHT_AWQ ? weights.data() : nullptr;
    view.scales = is_bytes ? static_cast<const void *>(scales_f32.data()) : scales_f16.data();
    view.inputs.kind = f.inputs;
    view.bias = weights.data();
    view.bias_dtype = YK_F16;
    const std::vector<yk_weight_view> more(m.n_experts - 1, view);
    std::minstd_rand random(5);
    for (auto order = orders.begin(); order != orders.end(); order += k) {
      std::iota(order, order + k, 0);
      std::shuffle(order, order + k, random);
    }
    yk_linear_spec spec = {};
    spec.n_parts = is_down ? 1 : 2;
    spec.n_matrices = m.n_experts;
    if (!is_down) spec.activation = m.activation;
    spec.is_grouped = true;
    spec.max_tokens = max_slots;
    for (int i = 0; i < spec.n_parts; i++) {
      yk_linear_part &part = spec.parts[i];
      part.weight = view;
      part.use_bias = m.has_bias;
      part.more_weights = more.data();
      part.k = {0, k};
      part.n = {0, n};
      part.group_local = view.group;
      part.x_size = orders.empty() ? 0 : k;
      part.x_order = orders.empty() ? nullptr : orders.data();
    }
    const int64_t staging_bytes = yk_cuda_linear_staging_bytes(&spec);
    if (staging_bytes > 0) check(dev->ops->alloc(dev, staging_bytes, &staging, &err), err);
    check(dev->ops->linear_create(dev, &spec, &linear, &err), err);
  }

  ~grouped_layer()
  {
    dev->ops->linear_destroy(dev, linear);
    dev->ops->free(dev, staging);
  }
};

/* Slots of rows that choose at random. */
struct routing {
  std::vector<int32_t> starts, rows;

  routing(const model &m, int n_rows, int seed) : starts(m.n_experts + 1)
  {
    std::minstd_rand random(seed);
    std::vector<std::vector<int32_t>> of_expert(m.n_experts);
    std::vector<int> experts(m.n_experts);
    std::iota(experts.begin(), experts.end(), 0);
    for (int row = 0; row < n_rows; row++) {
      for (int i = 0; i < m.top_k; i++) std::swap(experts[i], experts[i + random() % (m.n_experts - i)]);
      for (int i = 0; i < m.top_k; i++) of_expert[experts[i]].push_back(row);
    }
    for (int e = 0; e < m.n_experts; e++) {
      starts[e + 1] = starts[e] + static_cast<int32_t>(of_expert[e].size());
      rows.insert(rows.end(), of_expert[e].begin(), of_expert[e].end());
    }
  }
};

/* Arrays for the most rows, and the routings for n_rows rows. */
class workload {
public:
  workload(yk_device *device, const model &of, int most_rows) : dev(device), m(of), slots(most_rows * of.top_k)
  {
    const std::vector<uint16_t> rows_of_x = random_halves(most_rows * m.hidden);
    x = send(dev, rows_of_x.data(), rows_of_x.size() * 2);
    check(dev->ops->alloc(dev, slots * m.ffn * 2, &inner, &err), err);
    check(dev->ops->alloc(dev, slots * m.hidden * 2, &outputs, &err), err);
    check(dev->ops->alloc(dev, 2 * sizeof(int64_t), &stamps, &err), err);
  }

  ~workload()
  {
    for (void *memory : {x, inner, outputs, stamps}) dev->ops->free(dev, memory);
  }

  /* Microseconds of gate and up, and of all three matrices, for n_rows rows. */
  double time(const grouped_layer &gate_up, const grouped_layer *down, int n_rows)
  {
    std::vector<void *> starts, rows;
    for (int i = 0; i < ROUTINGS; i++) {
      const routing r(m, n_rows, 11 + i);
      starts.push_back(send(dev, r.starts.data(), r.starts.size() * sizeof(int32_t)));
      rows.push_back(send(dev, r.rows.data(), r.rows.size() * sizeof(int32_t)));
    }
    const auto forward = [&](int node) {
      run(gate_up, down, n_rows, static_cast<int32_t *>(starts[node % ROUTINGS]),
          static_cast<int32_t *>(rows[node % ROUTINGS]));
    };
    yk_graph *graph = nullptr;
    forward(0);
    check(dev->ops->graph_begin(dev, &err), err);
    for (int node = 0; node < NODES; node++) forward(node);
    check(dev->ops->graph_end(dev, &graph, &err), err);
    std::vector<double> us;
    for (int i = -2; i < REPEATS; i++) {
      int64_t ns[2];
      check(dev->ops->timestamp(dev, static_cast<int64_t *>(stamps), &err), err);
      check(dev->ops->graph_run(dev, graph, &err), err);
      check(dev->ops->timestamp(dev, static_cast<int64_t *>(stamps) + 1, &err), err);
      check(dev->ops->download(dev, ns, stamps, sizeof ns, &err), err);
      if (i >= 0) us.push_back(static_cast<double>(ns[1] - ns[0]) * 1e-3 / NODES);
    }
    dev->ops->graph_destroy(dev, graph);
    for (void *memory : starts) dev->ops->free(dev, memory);
    for (void *memory : rows) dev->ops->free(dev, memory);
    return bench::spread_of(us).median;
  }

private:
  yk_device *dev;
  const model &m;
  int64_t slots;
  void *x = nullptr, *inner = nullptr, *outputs = nullptr, *stamps = nullptr;

  void run(const grouped_layer &gate_up, const grouped_layer *down, int32_t n_rows, const int32_t *starts,
           const int32_t *rows)
  {
    yk_grouped_args args = {};
    args.x = x;
    args.n_rows = n_rows;
    args.row_of_slot = rows;
    args.starts = starts;
    args.max_slots = n_rows * m.top_k;
    args.y = inner;
    args.y_stride = m.ffn;
    args.staging = gate_up.staging;
    check(yk_cuda_grouped_forward(yk_cuda_device_of(dev), gate_up.linear, &args, nullptr, false, &err), err);
    if (!down) return;
    args.x = inner;
    args.n_rows = args.max_slots;
    args.row_of_slot = nullptr;
    args.y = outputs;
    args.y_stride = m.hidden;
    args.staging = down->staging;
    check(yk_cuda_grouped_forward(yk_cuda_device_of(dev), down->linear, &args, nullptr, true, &err), err);
  }
};

void time_form(yk_device *dev, const model &m, const form &f, const std::vector<int32_t> &tokens, workload &work,
               FILE *json, bool &first)
{
  const int32_t max_slots = *std::max_element(tokens.begin(), tokens.end()) * m.top_k;
  const grouped_layer gate_up(dev, f, m, false, max_slots), down(dev, f, m, true, max_slots);
  std::printf("%-16s", f.name);
  for (int32_t n : tokens) {
    const double one = work.time(gate_up, nullptr, n), both = work.time(gate_up, &down, n);
    std::printf(" %8.1f %8.1f", one, both);
    std::fflush(stdout);
    if (!json) continue;
    std::fprintf(json,
                 "%s\n    {\"model\": \"%s\", \"format\": \"%s\", \"rows\": %d, \"gate_up_us\": %.3f, "
                 "\"gate_up_and_down_us\": %.3f}",
                 first ? "" : ",", m.name, f.name, n, one, both);
    first = false;
  }
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  bench::report_options report;
  const char *list_of_tokens = "", *only_model = "", *only_format = "";
  std::vector<yk_option> list;
  std::vector<int32_t> tokens = {1, 8, 32, 64, 256, 1024, 4096};
  bench::add_options(list, report);
  list.push_back({.name = "tokens",
                  .kind = YK_OPTION_STRING,
                  .value = &list_of_tokens,
                  .metavar = "LIST",
                  .help = "numbers of rows"});
  list.push_back(
      {.name = "model", .kind = YK_OPTION_STRING, .value = &only_model, .metavar = "NAME", .help = "this one alone"});
  list.push_back(
      {.name = "format", .kind = YK_OPTION_STRING, .value = &only_format, .metavar = "NAME", .help = "this one alone"});
  bench::parse_options("bench_expert_formats", "Time experts in each format on a GPU.",
                       "bench_expert_formats --tokens 1,64 --format w8a8\n", list, argc, argv);
  if (*list_of_tokens) check(bench::parse_numbers(list_of_tokens, tokens, &err), err);
  FILE *json = bench::open_figures(report);
  const int32_t most = *std::max_element(tokens.begin(), tokens.end());
  yk_device_limits limits = {};
  limits.max_tokens = most;
  limits.max_seqs = 64;
  limits.max_model_tokens = 4096;
  limits.vocab = 64;
  yk_device *dev = nullptr;
  check(yk_cuda_device_create(0, YK_F16, &limits, &dev, &err), err);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "properties");
  std::printf("%s\n", properties.name);
  if (json)
    std::fprintf(json, "{\"gpu\": \"%s\", \"commit\": \"%s\",\n  \"points\": [", properties.name, report.commit);
  bool first = true;
  for (const model &m : MODELS) {
    if (*only_model && std::string(only_model) != m.name) continue;
    std::printf("\n%s: microseconds of gate and up, and with down\n%-16s", m.name, "rows");
    for (int32_t n : tokens) std::printf(" %17d", n);
    std::printf("\n");
    workload work(dev, m, most);
    for (const form &f : FORMS)
      if (!*only_format || std::string(only_format) == f.name) time_form(dev, m, f, tokens, work, json, first);
  }
  if (json) std::fprintf(json, "\n  ]\n}\n");
  bench::close_figures(report, json);
  dev->ops->destroy(dev);
  return 0;
}
