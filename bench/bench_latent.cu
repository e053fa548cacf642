/* bench_latent.cu - speed of latent attention on one GPU: DeepSeek's sizes, decode and prefill, f16, random data. */
#include <string>

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "yoke/process.h"

using namespace bench;

namespace {

constexpr int PAGE = YK_KV_BLOCK_TOKENS;
constexpr int MIN_NODES = 8; /* nodes of a graph, so that its launch latency does not count */

struct point {
  const char *name;
  int n_heads, n_seqs, kv_tokens, rows; /* rows of each sequence, its last ones */
  bool is_behind_rows;                  /* after write_rows, which is not timed; else rows come from memory */
};

constexpr point points[] = {
    {"decode 1 x 1024, 16 heads", 16, 1, 1024, 1},       {"decode 1 x 4096, 16 heads", 16, 1, 4096, 1},
    {"decode 2 x 1024, 16 heads", 16, 2, 1024, 1},       {"decode 4 x 4096, 16 heads", 16, 4, 4096, 1},
    {"decode 16 x 1024, 16 heads", 16, 16, 1024, 1},     {"decode 64 x 560, 16 heads", 16, 64, 560, 1, true},
    {"decode 64 x 1024, 16 heads", 16, 64, 1024, 1},     {"decode 64 x 4096, 16 heads", 16, 64, 4096, 1},
    {"decode 256 x 1024, 16 heads", 16, 256, 1024, 1},   {"decode 1 x 1024, 128 heads", 128, 1, 1024, 1},
    {"decode 64 x 4096, 128 heads", 128, 64, 4096, 1},   {"prefill 1 x 4096, 16 heads", 16, 1, 4096, 4096},
    {"prefill 1 x 4096, 128 heads", 128, 1, 4096, 4096}, {"170 rows of 4096, 128 heads", 128, 1, 4096, 170},
    {"171 rows of 4096, 128 heads", 128, 1, 4096, 171},  {"512 rows of 4096, 128 heads", 128, 1, 4096, 512},
};

void *take(yk_device *dev, size_t n_bytes)
{
  yk_err err = YK_ERR_INIT;
  void *memory = nullptr;
  if (dev->ops->alloc(dev, n_bytes, &memory, &err) != YK_OK) give_up(err);
  return memory;
}

int32_t *send(yk_device *dev, const std::vector<int32_t> &values)
{
  yk_err err = YK_ERR_INIT;
  void *memory = take(dev, values.size() * sizeof values[0]);
  if (dev->ops->upload(dev, memory, values.data(), values.size() * sizeof values[0], &err) != YK_OK) give_up(err);
  return static_cast<int32_t *>(memory);
}

/* Small numbers of different values: every byte pair is a half between 0x2c00 and 0x2fff. */
void fill(void *memory, size_t n_bytes)
{
  std::vector<uint16_t> block(1 << 20);
  uint32_t x = 1;
  for (uint16_t &v : block) v = static_cast<uint16_t>(0x2c00 | ((x = x * 1664525u + 1013904223u) >> 16 & 0x83ff));
  for (size_t at = 0; at < n_bytes; at += block.size() * 2)
    CUDA_OK(cudaMemcpy(static_cast<char *>(memory) + at, block.data(), std::min(n_bytes - at, block.size() * 2),
                       cudaMemcpyHostToDevice));
}

/* Replaces the preceding kernel of a model: occupies whole multiprocessors and leaves the rows in the L2 cache. */
constexpr int WRITE_THREADS = 256, WRITE_SHARED_BYTES = 200 * 1024;

__global__ void write_rows(uint4 *rows, const uint4 *from, int n)
{
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) rows[i] = from[i];
}

struct step {
  yk_batch batch;
  std::vector<void *> memory;
};

/* The last rows of sequences whose blocks are shuffled over the cache. */
step make_step(yk_device *dev, const point &p)
{
  const int blocks = (p.kv_tokens + PAGE - 1) / PAGE, n_rows = p.n_seqs * p.rows;
  std::vector<int32_t> ids(n_rows, 0), positions, slots, seq_of_row, starts, kv(p.n_seqs, p.kv_tokens), tables;
  for (int seq = 0; seq < p.n_seqs; seq++) {
    starts.push_back(seq * p.rows);
    for (int b = 0; b < blocks; b++) tables.push_back(b * p.n_seqs + (seq * 7 + b) % p.n_seqs);
    for (int r = 0; r < p.rows; r++) {
      const int at = p.kv_tokens - p.rows + r;
      positions.push_back(at);
      slots.push_back(tables[static_cast<size_t>(seq) * blocks + at / PAGE] * PAGE + at % PAGE);
      seq_of_row.push_back(seq);
    }
  }
  starts.push_back(n_rows);
  step s = {};
  s.batch = {n_rows,
             p.n_seqs,
             p.rows,
             p.kv_tokens,
             blocks,
             send(dev, ids),
             send(dev, positions),
             send(dev, slots),
             send(dev, seq_of_row),
             send(dev, starts),
             send(dev, kv),
             send(dev, tables)};
  return s;
}

void launch_write_rows(cudaStream_t stream, void *rows, const void *from, size_t n_bytes)
{
  int n_multiprocessors;
  CUDA_OK(cudaDeviceGetAttribute(&n_multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  CUDA_OK(yk_ptx::launch_dependent(write_rows, {dim3(n_multiprocessors), WRITE_THREADS, WRITE_SHARED_BYTES, 1}, stream,
                                   static_cast<uint4 *>(rows), static_cast<const uint4 *>(from),
                                   static_cast<int>(n_bytes / sizeof(uint4))));
}

/* Time of one of the n_nodes nodes of a graph; launch(i) launches node i. */
template <typename F> spread time_nodes(yk_device *dev, int n_nodes, F launch)
{
  yk_err err = YK_ERR_INIT;
  yk_graph *graph = nullptr;
  for (int i = 0; i < n_nodes; i++) launch(i);
  if (dev->ops->graph_begin(dev, &err) != YK_OK) give_up(err);
  for (int i = 0; i < n_nodes; i++) launch(i);
  if (dev->ops->graph_end(dev, &graph, &err) != YK_OK) give_up(err);
  const spread all = time_calls(yk_cuda_device_stream(dev), [&] {
    if (dev->ops->graph_run(dev, graph, &err) != YK_OK) give_up(err);
  });
  dev->ops->graph_destroy(dev, graph);
  return {all.median / n_nodes, all.low / n_nodes, all.high / n_nodes};
}

void time_point(yk_device *dev, const point &p, FILE *json, bool is_first)
{
  const yk_latent_layout layout = {p.n_heads, 128, 64, 512, 128};
  const size_t n_rows = static_cast<size_t>(p.n_seqs) * p.rows, width = yk_latent_width(&layout);
  const size_t blocks = static_cast<size_t>((p.kv_tokens + PAGE - 1) / PAGE) * p.n_seqs;
  const size_t stride = yk_latent_q_width(&layout) + width; /* a row is q, then its latent vector, as in a model */
  const size_t rows_bytes = n_rows * stride * 2, cache_bytes = blocks * PAGE * width * 2;
  const size_t rope_bytes = static_cast<size_t>(p.kv_tokens) * layout.rope_dim * 4;
  const size_t up_bytes = static_cast<size_t>(p.n_heads) * 256 * 512 * 2;
  const int copies = static_cast<int>(std::clamp<size_t>((200u << 20) / cache_bytes, 1, 64));
  const int n_nodes = std::max(copies, MIN_NODES);
  step s = make_step(dev, p);
  void *rows = take(dev, rows_bytes), *up = take(dev, up_bytes), *cache = take(dev, cache_bytes * copies);
  void *norm_w = take(dev, layout.kv_rank * 2), *rope = take(dev, rope_bytes);
  void *y = take(dev, n_rows * p.n_heads * 128 * 2);
  void *scratch = take(dev, dev->ops->latent_scratch_bytes(&layout, static_cast<int32_t>(n_rows)));
  fill(rows, rows_bytes);
  fill(norm_w, layout.kv_rank * 2);
  fill(rope, rope_bytes); /* as floats, also small numbers */
  fill(up, up_bytes);
  fill(cache, cache_bytes * copies);
  yk_latent_attention_args args = {};
  args.y = y;
  args.q = rows;
  args.latent = static_cast<char *>(rows) + yk_latent_q_width(&layout) * 2;
  args.q_stride = args.latent_stride = static_cast<int64_t>(stride);
  args.layout = layout;
  args.norm_w = norm_w;
  args.norm_eps = 1e-6f;
  args.scale = 0.07f;
  args.rope = static_cast<const float *>(rope);
  args.kv_up = up;
  args.scratch = scratch;
  args.batch = &s.batch;
  void *from = nullptr;
  if (p.is_behind_rows) {
    from = take(dev, rows_bytes);
    fill(from, rows_bytes);
    CUDA_OK(cudaFuncSetAttribute(write_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, WRITE_SHARED_BYTES));
  }
  const auto time_steps = [&](bool attends) {
    return time_nodes(dev, n_nodes, [&](int i) {
      yk_err err = YK_ERR_INIT;
      if (p.is_behind_rows) launch_write_rows(yk_cuda_device_stream(dev), rows, from, rows_bytes);
      args.cache = static_cast<char *>(cache) + cache_bytes * (i % copies);
      if (attends && dev->ops->latent_attention(dev, &args, &err) != YK_OK) give_up(err);
    });
  };
  const spread all = time_steps(true);
  const double in_front = p.is_behind_rows ? time_steps(false).median : 0, us = all.median - in_front;
  const double low = all.low - in_front, high = all.high - in_front;
  const double bytes = static_cast<double>(p.n_seqs) * p.kv_tokens * width * 2 + up_bytes;
  const double pairs = static_cast<double>(n_rows) * (p.kv_tokens - (p.rows - 1) / 2.0);
  const double flops = 2 * p.n_heads * pairs * (512 + 64 + 512);  /* of the absorbed products */
  const double useful = 2 * p.n_heads * pairs * (128 + 64 + 128); /* of the heads' own keys and values */
  std::printf("%-28s %9.1f us (%.1f to %.1f)  %5.2f TB/s  %6.1f TFLOP/s absorbed, %6.1f of heads\n", p.name, us, low,
              high, bytes / us * 1e-6, flops / us * 1e-6, useful / us * 1e-6);
  if (json)
    std::fprintf(json,
                 "%s{\"point\": \"%s\", \"us\": %.2f, \"us_low\": %.2f, \"us_high\": %.2f, \"tb_per_s\": %.3f, "
                 "\"tflops_absorbed\": %.1f, \"tflops_heads\": %.1f}",
                 is_first ? "" : ",\n  ", p.name, us, low, high, bytes / us * 1e-6, flops / us * 1e-6,
                 useful / us * 1e-6);
  for (void *memory : {rows, from, up, cache, norm_w, rope, y, scratch}) dev->ops->free(dev, memory);
  for (const int32_t *array : {s.batch.token_ids, s.batch.positions, s.batch.kv_slots, s.batch.seq_of_row,
                               s.batch.row_starts, s.batch.kv_tokens, s.batch.block_tables})
    dev->ops->free(dev, const_cast<int32_t *>(array));
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  report_options report;
  std::vector<yk_option> options;
  add_options(options, report);
  parse_options("bench_latent",
                "Times latent attention on GPU 0: norm and rotation, products with kv_b_proj, softmax, sums.", "",
                options, argc, argv);
  FILE *json = open_figures(report);
  yk_err err = YK_ERR_INIT;
  const yk_device_limits limits = {4096, 1024, 8192, 1024};
  yk_device *dev = nullptr;
  if (yk_cuda_device_create(0, YK_F16, &limits, &dev, &err) != YK_OK) give_up(err);
  if (json) std::fprintf(json, "{\"commit\": \"%s\", \"points\": [\n  ", report.commit);
  for (const point &p : points) time_point(dev, p, json, &p == points);
  if (json) std::fprintf(json, "\n]}\n");
  dev->ops->destroy(dev);
  close_figures(report, json);
  return 0;
}
