/* bench_attention.cu - the time of paged attention: flash decoding and prefill. tests/op/test_op_cuda_attention.c
 * checks both.
 *
 * A graph whose nodes rotate over enough copies of the cache that each finds the L2 cache cold. A node's time is a
 * replay divided by the number of nodes: median and range of the repeats. */
#include "bench/attention_step.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/common/limits.h"
#include "yoke/process.h"

using namespace attention;

namespace {

struct timed {
  shape s;
  double quoted; /* cuDNN on the same kind of GPU, in quoted_unit; 0: no value */
  const char *quoted_unit;
};

struct figures {
  double bytes, flops; /* least bytes moved; operations of Q K^T and P V, visible pairs only */
};

figures work_of(const shape &s)
{
  double pairs = 0, kv_tokens = 0;
  for (size_t i = 0; i < s.kv.size(); i++) {
    int first = s.kv[i];
    for (int r = 0; r < s.rows[i]; r++) {
      const int position = s.kv[i] - s.rows[i] + r;
      const int begin = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
      pairs += position + 1 - begin;
      first = std::min(first, begin);
    }
    kv_tokens += s.kv[i] - first;
  }
  const double hd = s.heads.head_dim;
  return {kv_tokens * s.heads.n_kv_heads * 2 * static_cast<double>(head_bytes(s)) +
              (s.heads.has_gates ? 6.0 : 4.0) * total_rows(s) * s.heads.n_q_heads * hd,
          4.0 * pairs * s.heads.n_q_heads * hd};
}

/* Heads of 128 and of 256 with the same bytes of K and V and the same products, at the lengths of long answers; layouts
 * of Qwen3.5, which have gates; and the full attention of Gemma 4. */
void add_wide_cases(std::vector<timed> &v)
{
  const struct {
    const char *name;
    yk_head_layout heads;
    bool is_short; /* few lengths */
  } layouts[] = {{"32/8 hd 128", plain_heads(32, 8, 128), false},
                 {"16/4 hd 256", plain_heads(16, 4, 256), false},
                 {"24/4 hd 256 gates", gated_heads(24, 4, 256), true},
                 {"32/2 hd 256 gates", gated_heads(32, 2, 256), true},
                 {"32/4 hd 512", plain_heads(32, 4, 512), true}};
  for (const auto &layout : layouts) {
    for (int kv : {2048, 8192})
      for (int n : {1, 8, 64, 256}) {
        if (layout.is_short && (n == 8 || n == 256)) continue;
        const std::string size = std::to_string(n) + " x " + std::to_string(kv);
        v.push_back(
            {decode("decode " + size + " " + layout.name, layout.heads, YK_F16, 0, std::vector<int>(n, kv)), 0, ""});
      }
    v.push_back({{std::string("prefill 8 x 4096 ") + layout.name, layout.heads, YK_F16, 0, std::vector<int>(8, 4096),
                  std::vector<int>(8, 4096)},
                 0,
                 ""});
  }
}

/* Few rows of a prompt after many others, as in steps that also decode. */
void add_long_contexts(std::vector<timed> &v)
{
  const yk_head_layout h = plain_heads(32, 8, 128);
  for (int context : {4096, 8192, 32000})
    for (int rows : {64, 128, 256, 512})
      v.push_back({{"prefill " + std::to_string(rows) + " rows over " + std::to_string(context),
                    h,
                    YK_F16,
                    0,
                    {rows},
                    {context}},
                   0,
                   ""});
  shape with_decodes = {"64 decodes x 500 + prefill 128 rows over 32000", h, YK_F16, 0, {128}, {32000}};
  for (int i = 0; i < 64; i++) with_decodes.rows.push_back(1), with_decodes.kv.push_back(500);
  v.push_back({with_decodes, 0, ""});
}

std::vector<timed> timed_cases()
{
  const yk_head_layout h = plain_heads(32, 8, 128);
  auto even = [&](int n, int kv) {
    return decode("decode " + std::to_string(n) + " x " + std::to_string(kv), h, YK_F16, 0, std::vector<int>(n, kv));
  };
  auto prefill = [&](int n, int rows, int earlier) {
    return shape{"prefill " + std::to_string(n) + " x " + std::to_string(rows) +
                     (earlier ? " after " + std::to_string(earlier) : ""),
                 h,
                 YK_F16,
                 0,
                 std::vector<int>(n, rows),
                 std::vector<int>(n, rows + earlier)};
  };
  std::vector<timed> v;
  v.push_back({even(1, 1024), 12, "us"});
  v.push_back({even(1, 8192), 0, ""});
  v.push_back({even(1, 65536), 0, ""});
  v.push_back({even(8, 1024), 0, ""});
  v.push_back({even(1, 600), 0, ""});
  v.push_back({even(8, 650), 0, ""});
  v.push_back({even(32, 600), 0, ""});
  v.push_back({even(64, 600), 0, ""});
  for (int n : {2, 8, 16, 32, 64, 128})
    v.push_back(
        {decode("decode " + std::to_string(n) + " x 100..1000 uneven", h, YK_F16, 0, spread_lengths(n, 100, 1000, 3)),
         0, ""});
  v.push_back({even(64, 1024), 0, ""});
  v.push_back({even(128, 1024), 3.9, "TB/s"});
  v.push_back({even(256, 1024), 0, ""});
  v.push_back({even(64, 4096), 4.2, "TB/s"});
  v.push_back({decode("decode 64 x 1..8192 uneven", h, YK_F16, 0, spread_lengths(64, 1, 8192, 3)), 0, ""});
  v.push_back({decode("decode 64 x 8192 window 1024", h, YK_F16, 1024, std::vector<int>(64, 8192)), 0, ""});
  v.push_back({decode("decode 128 x 1024 bf16", h, YK_BF16, 0, std::vector<int>(128, 1024)), 0, ""});
  v.push_back(
      {decode("decode 128 x 1024 16/2 hd 64", plain_heads(16, 2, 64), YK_F16, 0, std::vector<int>(128, 1024)), 0, ""});
  v.push_back(
      {decode("decode 128 x 1024 8/2 (4 ranks)", plain_heads(8, 2, 128), YK_F16, 0, std::vector<int>(128, 1024)), 0,
       ""});
  v.push_back({decode("decode 1 x 1024 8/2 (4 ranks)", plain_heads(8, 2, 128), YK_F16, 0, {1024}), 0, ""});
  const yk_head_layout wide = plain_heads(32, 4, 128); /* Qwen3-30B-A3B */
  v.push_back({decode("decode 1 x 600 32/4", wide, YK_F16, 0, {600}), 0, ""});
  v.push_back({decode("decode 64 x 600 32/4", wide, YK_F16, 0, std::vector<int>(64, 600)), 0, ""});
  v.push_back({decode("decode 256 x 600 32/4", wide, YK_F16, 0, std::vector<int>(256, 600)), 0, ""});
  v.push_back(
      {decode("decode 256 x 100..1000 uneven 32/4", wide, YK_F16, 0, spread_lengths(256, 100, 1000, 3)), 0, ""});
  v.push_back({prefill(1, 1024, 0), 0, ""});
  v.push_back({prefill(1, 4096, 0), 512, "TFLOP/s"});
  v.push_back({prefill(1, 16384, 0), 565, "TFLOP/s"});
  v.push_back({prefill(8, 1024, 0), 0, ""});
  shape short_prompts = prefill(4, 512, 0);
  short_prompts.name += " 32/4", short_prompts.heads = wide;
  v.push_back({short_prompts, 0, ""});
  shape with_decodes = short_prompts;
  with_decodes.name = "32 decodes x 530 + " + short_prompts.name;
  for (int i = 0; i < 32; i++) with_decodes.rows.push_back(1), with_decodes.kv.push_back(530);
  v.push_back({with_decodes, 0, ""});
  v.push_back({prefill(1, 512, 8192), 0, ""});
  v.push_back({prefill(1, 2048, 14336), 0, ""});
  shape bf16 = prefill(1, 4096, 0);
  bf16.name += " bf16", bf16.dtype = YK_BF16;
  v.push_back({bf16, 0, ""});
  shape hd64 = prefill(1, 4096, 0);
  hd64.name += " 32/8 hd 64", hd64.heads = plain_heads(32, 8, 64);
  v.push_back({hd64, 0, ""});
  shape mixed = prefill(1, 1024, 0);
  mixed.name = "64 decodes x 1024 + prefill 1024", mixed.rows = {1024}, mixed.kv = {1024};
  for (int i = 0; i < 64; i++) mixed.rows.push_back(1), mixed.kv.push_back(1024);
  v.push_back({mixed, 0, ""});
  add_long_contexts(v);
  add_wide_cases(v);
  return v;
}

spread time_case(const machine &m, const shape &s)
{
  const size_t layer = (size_t)n_blocks_of(s) * s.heads.n_kv_heads * PAGE * 2 * head_bytes(s);
  const int n_layers = (int)std::max<size_t>(2, std::min<size_t>(64, ((size_t)200 << 20) / layer + 1));
  step st(s, n_layers, 7);
  run(m, st, 0);
  CUDA_OK(cudaStreamSynchronize(m.stream));
  const figures w = work_of(s);
  const int n_nodes = std::max(n_layers, w.flops > 1e11 ? 4 : 16);
  cudaGraphExec_t exec = capture(m.stream, [&](cudaStream_t) {
    for (int i = 0; i < n_nodes; i++) run(m, st, i);
  });
  const spread us = time_graph(m.stream, exec, n_nodes, 15);
  CUDA_OK(cudaGraphExecDestroy(exec));
  return us;
}

void time_all(const machine &m, const std::string &filter, FILE *json)
{
  printf("\n%-36s %9s %19s %8s %9s %11s %11s  %s\n", "case (else 32/8 heads of 128, f16)", "us", "range", "TB/s",
         "TFLOP/s", "roofline us", "of roofline", "cuDNN (quoted)");
  bool comma = false;
  std::vector<timed> cases = timed_cases();
  for (timed &t : cases) {
    t.s.format = m.format;
    if (m.format != YK_KV_ACT) t.quoted = 0;
    if (t.s.name.find(filter) == std::string::npos) continue;
    const figures w = work_of(t.s);
    const double roofline_us = std::max(w.bytes / 4.35e6, w.flops / 640e6);
    const spread us = time_case(m, t.s);
    printf("%-36s %9.2f [%8.2f,%8.2f] %8.2f %9.1f %11.2f %10.0f%%", t.s.name.c_str(), us.median, us.low, us.high,
           w.bytes / us.median * 1e-6, w.flops / us.median * 1e-6, roofline_us, 100 * roofline_us / us.median);
    if (t.quoted > 0) printf("  %g %s", t.quoted, t.quoted_unit);
    printf("\n");
    fflush(stdout);
    if (!json) continue;
    fprintf(json,
            "%s\n    {\"case\": \"%s\", \"us\": %.3f, \"us_low\": %.3f, \"us_high\": %.3f, \"bytes\": %.0f, "
            "\"flops\": %.0f, \"tb_s\": %.3f, \"tflop_s\": %.1f, \"roofline_us\": %.3f, \"efficiency\": %.3f}",
            comma ? "," : "", t.s.name.c_str(), us.median, us.low, us.high, w.bytes, w.flops,
            w.bytes / us.median * 1e-6, w.flops / us.median * 1e-6, roofline_us, roofline_us / us.median);
    comma = true;
  }
}

/* ---- The program ---- */

struct options {
  report_options report;
  const char *filter = "";
  bool no_wgmma = false;
  int kv_format = YK_KV_ACT;
};

/* Names in the order of yk_kv_format. */
const char *const format_names[] = {"act", "int8", "fp8", nullptr};

options parse(int argc, char **argv)
{
  options o;
  std::vector<yk_option> options = {{.name = "filter",
                                     .kind = YK_OPTION_STRING,
                                     .value = &o.filter,
                                     .metavar = "TEXT",
                                     .help = "time only cases whose name contains TEXT"},
                                    {.name = "no-wgmma",
                                     .kind = YK_OPTION_FLAG,
                                     .value = &o.no_wgmma,
                                     .help = "prefill with mma.sync, as on GPUs without wgmma"},
                                    {.name = "kv-dtype",
                                     .kind = YK_OPTION_CHOICE,
                                     .value = &o.kv_format,
                                     .help = "the cache's format; act is the type of the queries",
                                     .choices = format_names}};
  add_options(options, o.report);
  parse_options("bench_attention",
                "Times paged attention on the first CUDA device: flash decoding and prefill. The roofline is the "
                "larger of bytes / 4.35 TB/s and flops / 640 TFLOP/s; \"of roofline\" is its quotient by the time.",
                "  bench_attention --filter decode --json attention.json\n", options, argc, argv);
  return o;
}

machine open_machine(const options &o, const cudaDeviceProp &prop)
{
  machine m = {};
  CUDA_OK(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
  const size_t workspace_bytes = yk_cuda_attention_workspace_bytes(prop.multiProcessorCount, YK_CUDA_MAX_HEAD_DIM);
  CUDA_OK(cudaMalloc(&m.workspace, workspace_bytes));
  CUDA_OK(cudaMemset(m.workspace, 0, workspace_bytes));
  yk_err err = YK_ERR_INIT;
  check(yk_cuda_attention_init(&m.attn, m.workspace, &err), err);
  m.format = static_cast<yk_kv_format>(o.kv_format);
  if (o.no_wgmma) m.attn.encode_tensor_map = nullptr;
  return m;
}

/* json: file for the figures in addition to standard output; NULL for none. */
void time_and_report(const machine &m, const options &o, const cudaDeviceProp &prop, FILE *json)
{
  int driver = 0;
  CUDA_OK(cudaDriverGetVersion(&driver));
  const machine_rates top = measure_rates(m.stream);
  printf("%s, %d SMs, CUDA driver %d.%d: read %.2f TB/s, copy %.2f TB/s, f16 GEMM %.0f TFLOP/s\n", prop.name,
         prop.multiProcessorCount, driver / 1000, driver % 1000 / 10, top.read_tb_s, top.copy_tb_s, top.matmul_tflop_s);
  if (json)
    fprintf(
        json,
        "{\n  \"gpu\": \"%s\", \"driver\": %d, \"commit\": \"%s\", \"command\": \"bench_attention --kv-dtype %s\",\n"
        "  \"read_tb_s\": %.3f, \"copy_tb_s\": %.3f, \"matmul_tflop_s\": %.1f,\n  \"cases\": [",
        prop.name, driver, o.report.commit, format_names[m.format], top.read_tb_s, top.copy_tb_s, top.matmul_tflop_s);
  time_all(m, o.filter, json);
  if (json) fprintf(json, "\n  ]\n}\n");
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  const options o = parse(argc, argv);
  FILE *json = open_figures(o.report);
  cudaDeviceProp prop;
  CUDA_OK(cudaGetDeviceProperties(&prop, 0));
  const machine m = open_machine(o, prop);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  time_and_report(m, o, prop, json);
  close_figures(o.report, json);
  return 0;
}
