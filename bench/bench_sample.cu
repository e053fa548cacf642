/* bench_sample.cu - speed of sampling on one GPU: whole calls queued after running work, as at the end of a step, and
 * the kernel alone. Random logits. */
#include <cmath>

#include "base/rng.h"
#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/sampling/best_logits.h"
#include "kernels/cuda/sampling/sample_rows.h"
#include "yoke/process.h"

using namespace bench;

namespace {

constexpr int VOCAB = 151936, MAX_ROWS = 256, N_REPEATS = 31, N_LAUNCHES = 20;

struct point {
  const char *name;
  float temperature, top_p;
  int top_k;
  bool want_logprob, has_mask;
};

constexpr point points[] = {{"greedy", 0.0f, 1.0f, 0, false, false},
                            {"greedy, mask", 0.0f, 1.0f, 0, false, true},
                            {"greedy, log-probability", 0.0f, 1.0f, 0, true, false},
                            {"top_k 20, top_p 0.95", 0.6f, 0.95f, 20, false, false},
                            {"top_p 0.95", 0.6f, 0.95f, 0, false, false},
                            {"temperature", 0.6f, 1.0f, 0, false, false},
                            {"temperature, mask", 0.6f, 1.0f, 0, false, true}};

/* Approximately normal, with a deviation of 2.5: a block of numbers, repeated; its length is no multiple of a row. */
void fill_logits(yk_device *dev, float *logits, size_t n)
{
  yk_err err = YK_ERR_INIT;
  std::vector<float> block(4000037);
  for (size_t i = 0; i < block.size(); i++) {
    double sum = -2.0;
    for (uint32_t j = 0; j < 4; j++) sum += yk_rng_uniform(7, j, static_cast<uint32_t>(i));
    block[i] = static_cast<float>(sum * std::sqrt(3.0) * 2.5);
  }
  for (size_t at = 0; at < n; at += block.size())
    check(dev->ops->upload(dev, logits + at, block.data(), std::min(n - at, block.size()) * sizeof *logits, &err), err);
}

__global__ void keep_busy(uint64_t ns)
{
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < ns);
}

/* Time from the end of the kernel before the call to the start of the kernel after it. The host queues the call while
 * the first kernel runs, and launches the second one when it has the tokens. A timed step reports it as "sampling". */
spread time_steps(yk_device *dev, const yk_sample_args &args, int64_t *stamps)
{
  yk_err err = YK_ERR_INIT;
  std::vector<double> us;
  for (int i = -5; i < N_REPEATS; i++) {
    int64_t at[2];
    keep_busy<<<1, 1, 0, yk_cuda_device_stream(dev)>>>(300000);
    check(dev->ops->timestamp(dev, stamps, &err), err);
    check(dev->ops->sample(dev, &args, &err), err);
    check(dev->ops->timestamp(dev, stamps + 1, &err), err);
    check(dev->ops->download(dev, at, stamps, sizeof at, &err), err);
    if (i >= 0) us.push_back(static_cast<double>(at[1] - at[0]) * 1e-3);
  }
  return spread_of(us);
}

/* Consecutive launches, with the masks on the device. */
spread time_kernel(yk_device *dev, const yk_sample_args &args)
{
  yk_err err = YK_ERR_INIT;
  void *masks = nullptr;
  const size_t mask_bytes = args.n_rows * yk_mask_words(VOCAB) * sizeof *args.masks;
  check(dev->ops->alloc(dev, mask_bytes, &masks, &err), err);
  check(dev->ops->upload(dev, masks, args.masks, mask_bytes, &err), err);
  yk_cuda_sample_launch launch = {};
  yk_cuda_sample_row *rows;
  CUDA_OK(cudaMallocHost(&rows, args.n_rows * sizeof *rows));
  CUDA_OK(cudaMallocHost(&launch.out, args.n_rows * sizeof *launch.out));
  for (int i = 0; i < args.n_rows; i++)
    rows[i] = {args.rows[i], nullptr, static_cast<uint32_t *>(masks) + args.rows[i].first_mask, nullptr};
  launch.logits = const_cast<float *>(args.logits);
  launch.n_rows = launch.n_launched = args.n_rows;
  launch.n_shards = args.n_shards;
  launch.shard_stride = args.shard_stride;
  launch.shard_first[1] = VOCAB;
  launch.rows = rows;
  launch.vocab = VOCAB;
  cudaStream_t stream = yk_cuda_device_stream(dev);
  cudaGraphExec_t graph = capture(stream, [&](cudaStream_t s) {
    for (int i = 0; i < N_LAUNCHES; i++) CUDA_OK(yk_cuda_launch_sample(&launch, s));
  });
  const spread us = time_graph(stream, graph, N_LAUNCHES, 9);
  CUDA_OK(cudaGraphExecDestroy(graph));
  CUDA_OK(cudaFreeHost(rows));
  CUDA_OK(cudaFreeHost(launch.out));
  dev->ops->free(dev, masks);
  return us;
}

/* The best logits of a rank's share of the vocabulary (all or half) for each row: queued after running work until the
 * host has them, and the kernel alone. */
void time_best(yk_device *dev, const float *logits, int64_t *stamps, int n_rows, int n_ids, FILE *json)
{
  yk_err err = YK_ERR_INIT;
  yk_best_logit *out;
  CUDA_OK(cudaMallocHost(&out, n_rows * sizeof *out));
  const yk_best_logits_args args = {logits, n_rows, n_ids, 0, n_ids, out};
  cudaStream_t stream = yk_cuda_device_stream(dev);
  std::vector<double> us;
  for (int i = -5; i < N_REPEATS; i++) {
    int64_t at[2];
    keep_busy<<<1, 1, 0, stream>>>(300000);
    check(dev->ops->timestamp(dev, stamps, &err), err);
    CUDA_OK(yk_cuda_launch_best_logits(&args, stream));
    check(dev->ops->sync(dev, &err), err);
    check(dev->ops->timestamp(dev, stamps + 1, &err), err);
    check(dev->ops->download(dev, at, stamps, sizeof at, &err), err);
    if (i >= 0) us.push_back(static_cast<double>(at[1] - at[0]) * 1e-3);
  }
  cudaGraphExec_t graph = capture(stream, [&](cudaStream_t s) {
    for (int i = 0; i < N_LAUNCHES; i++) CUDA_OK(yk_cuda_launch_best_logits(&args, s));
  });
  const spread step = spread_of(us), kernel = time_graph(stream, graph, N_LAUNCHES, 9);
  std::printf("best of %6d logits    %4d rows: %7.1f us in a step (%.1f to %.1f), the kernel %7.1f us, %5.2f TB/s\n",
              n_ids, n_rows, step.median, step.low, step.high, kernel.median, 4e-6 * n_rows * n_ids / kernel.median);
  if (json)
    std::fprintf(json,
                 ",\n  {\"point\": \"best of %d\", \"rows\": %d, \"step_us\": %.2f, \"step_us_low\": %.2f, "
                 "\"step_us_high\": %.2f, \"kernel_us\": %.2f}",
                 n_ids, n_rows, step.median, step.low, step.high, kernel.median);
  CUDA_OK(cudaGraphExecDestroy(graph));
  CUDA_OK(cudaFreeHost(out));
}

void time_point(yk_device *dev, const float *logits, int64_t *stamps, const point &p, int n_rows, FILE *json)
{
  yk_sample_row row = {};
  row.temperature = p.temperature;
  row.top_p = p.top_p;
  row.top_k = p.top_k;
  row.want_logprob = p.want_logprob;
  row.seed = 99;
  row.has_mask = p.has_mask;
  std::vector<yk_sample_row> rows(n_rows, row);
  std::vector<uint32_t> masks(n_rows * yk_mask_words(VOCAB), 0x5555aaaa); /* half of the ids */
  std::vector<yk_sampled> out(n_rows);
  for (int i = 0; i < n_rows; i++) {
    rows[i].position = static_cast<uint32_t>(i);
    rows[i].first_mask = i * yk_mask_words(VOCAB);
  }
  yk_sample_args args = {};
  args.logits = logits;
  args.n_rows = n_rows;
  args.n_shards = 1;
  const int32_t shard_first[] = {0, VOCAB};
  args.shard_stride = VOCAB;
  args.shard_first = shard_first;
  args.rows = rows.data();
  args.masks = masks.data();
  args.out = out.data();
  const spread step = time_steps(dev, args, stamps), kernel = time_kernel(dev, args);
  const double tb_s = 4e-6 * n_rows * VOCAB / kernel.median;
  std::printf("%-24s %4d rows: %7.1f us in a step (%.1f to %.1f), the kernel %7.1f us, %5.2f TB/s\n", p.name, n_rows,
              step.median, step.low, step.high, kernel.median, tb_s);
  if (json)
    std::fprintf(json,
                 "%s{\"point\": \"%s\", \"rows\": %d, \"step_us\": %.2f, \"step_us_low\": %.2f, "
                 "\"step_us_high\": %.2f, \"kernel_us\": %.2f, \"kernel_tb_per_s\": %.3f}",
                 &p == points && n_rows == 1 ? "" : ",\n  ", p.name, n_rows, step.median, step.low, step.high,
                 kernel.median, tb_s);
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  report_options report;
  std::vector<yk_option> options;
  add_options(options, report);
  parse_options("bench_sample", "Times sampling on GPU 0: rows of 151,936 logits, greedy and drawn.", "", options, argc,
                argv);
  FILE *json = open_figures(report);
  yk_err err = YK_ERR_INIT;
  const yk_device_limits limits = {MAX_ROWS, MAX_ROWS, 8192, VOCAB};
  yk_device *dev = nullptr;
  check(yk_cuda_device_create(0, YK_F16, &limits, &dev, &err), err);
  void *logits = nullptr, *stamps = nullptr;
  check(dev->ops->alloc(dev, sizeof(float) * MAX_ROWS * VOCAB, &logits, &err), err);
  check(dev->ops->alloc(dev, 2 * sizeof(int64_t), &stamps, &err), err);
  fill_logits(dev, static_cast<float *>(logits), static_cast<size_t>(MAX_ROWS) * VOCAB);
  if (json) std::fprintf(json, "{\"commit\": \"%s\", \"points\": [\n  ", report.commit);
  for (const point &p : points)
    for (int n_rows : {1, 8, 64, 256})
      time_point(dev, static_cast<float *>(logits), static_cast<int64_t *>(stamps), p, n_rows, json);
  for (int n_ids : {VOCAB, VOCAB / 2})
    for (int n_rows : {1, 8, 64, 256})
      time_best(dev, static_cast<float *>(logits), static_cast<int64_t *>(stamps), n_rows, n_ids, json);
  if (json) std::fprintf(json, "\n]}\n");
  dev->ops->free(dev, logits);
  dev->ops->free(dev, stamps);
  dev->ops->destroy(dev);
  close_figures(report, json);
  return 0;
}
