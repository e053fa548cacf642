/* bench_linear_cpu.c - the CPU device's GEMMs alone: shapes of real models, a few batch sizes.
 *
 * Every shape is timed over enough copies of its weight to exceed the caches, one after the other, as in a forward.
 * GB/s counts the packed weight once per GEMM. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "kernels/cpu/cpu_device.h"
#include "yoke/process.h"

enum { MAX_COPIES = 256, N_REPEATS = 11 };

typedef struct shape {
  const char *name;
  int64_t k, n, group;     /* group 0: f16 */
  bool is_silu;            /* gate and up of n columns each */
  int per_model;           /* GEMMs of this shape in a decode step */
  yk_weight_format format; /* formats of grouped weights: 4 bits, 8 bits with zeros, 8-bit floats */
} shape;

/* Qwen3-0.6B, and the shapes of Qwen3-8B that Qwen3-0.6B lacks. */
static const shape shapes[] = {
    {"0.6B qkv", 1024, 4096, 128, false, 28, YK_WEIGHT_AWQ},
    {"0.6B o", 2048, 1024, 128, false, 28, YK_WEIGHT_AWQ},
    {"0.6B gate_up", 1024, 3072, 128, true, 28, YK_WEIGHT_AWQ},
    {"0.6B down", 3072, 1024, 128, false, 28, YK_WEIGHT_AWQ},
    {"0.6B lm_head f16", 1024, 151936, 0, false, 1, YK_WEIGHT_PLAIN},
    {"8B qkv", 4096, 6144, 128, false, 0, YK_WEIGHT_AWQ},
    {"8B gate_up", 4096, 12288, 128, true, 0, YK_WEIGHT_AWQ},
    {"8B down", 12288, 4096, 128, false, 0, YK_WEIGHT_AWQ},
    {"8B qkv int8", 4096, 6144, 128, false, 0, YK_WEIGHT_INT8},
    {"8B down int8", 12288, 4096, 128, false, 0, YK_WEIGHT_INT8},
    {"8B qkv fp8", 4096, 6144, 128, false, 0, YK_WEIGHT_FP8},
    {"8B down fp8", 12288, 4096, 128, false, 0, YK_WEIGHT_FP8},
};

typedef struct options {
  int n_threads;
  const yk_cpu_simd *simd;
  const char *only; /* part of a shape's name */
} options;

static void fill_random(void *bytes, size_t n_bytes)
{
  uint32_t state = 1;
  for (size_t i = 0; i + 4 <= n_bytes; i += 4) {
    state = state * 1664525u + 1013904223u;
    memcpy((char *)bytes + i, &state, 4);
  }
}

/* Halves between 0.5 and 2. Random bits would include infinities and subnormals, which have other speeds. */
static void fill_halves(uint16_t *halves, size_t n)
{
  fill_random(halves, n * sizeof *halves);
  for (size_t i = 0; i < n; i++) halves[i] = (uint16_t)((halves[i] & 0x87FFu) | 0x3800u);
}

/* Checkpoint bytes of one shape; buffers[0 .. 2] are the caller's to free. */
static yk_weight_view make_view(const shape *s, void *buffers[3])
{
  yk_weight_view view = {.format = s->format, .k = s->k, .n = s->n, .group = s->group};
  size_t weights = (size_t)(s->k * s->n);
  if (!s->group) {
    buffers[0] = malloc(weights * 2);
    fill_halves(buffers[0], weights);
    view.plain = buffers[0];
    return view;
  }
  size_t groups = (size_t)(s->k / s->group * s->n);
  if (s->format != YK_WEIGHT_AWQ) {
    buffers[0] = malloc(weights);
    buffers[1] = calloc(groups, 4);
    buffers[2] = calloc(groups, 4);
    fill_random(buffers[0], weights);
    for (size_t i = 0; i < groups; i++) ((float *)buffers[2])[i] = 0x1p-10f;
    view.packing = YK_PACKING_ROWS;
    view.dtype = YK_F32;
    view.has_zeros = s->format == YK_WEIGHT_INT8;
    view.qweight = buffers[0];
    view.qzeros = buffers[1];
    view.scales = buffers[2];
    return view;
  }
  buffers[0] = malloc(weights / 2);
  buffers[1] = malloc(groups / 2);
  buffers[2] = malloc(groups * 2);
  fill_random(buffers[0], weights / 2);
  fill_random(buffers[1], groups / 2);
  fill_halves(buffers[2], groups);
  view.qweight = buffers[0];
  view.qzeros = buffers[1];
  view.scales = buffers[2];
  return view;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Seconds of one GEMM: median, fastest and slowest of the repeats. */
typedef struct timing {
  double median, fastest, slowest;
} timing;

static timing time_products(yk_device *dev, yk_linear *const *linears, int n_copies, const yk_linear_args *args)
{
  double seconds[N_REPEATS];
  yk_err err = YK_ERR_INIT;
  for (int r = -1; r < N_REPEATS; r++) { /* the first one warms up */
    int64_t start = yk_clock_now_ns();
    for (int c = 0; c < n_copies; c++) dev->ops->linear_forward(dev, linears[c], args, &err);
    if (r >= 0) seconds[r] = yk_clock_seconds_since(start) / n_copies;
  }
  qsort(seconds, N_REPEATS, sizeof *seconds, compare_doubles);
  return (timing){seconds[N_REPEATS / 2], seconds[0], seconds[N_REPEATS - 1]};
}

/* Times one shape; adds its share of a decode step to steps[tokens]. Returns false when memory does not suffice. */
static bool bench_shape(yk_device *dev, const shape *s, double steps[3])
{
  static const int32_t token_counts[3] = {1, 8, 64};
  void *buffers[3] = {NULL};
  yk_linear_spec spec = {.n_parts = s->is_silu ? 2 : 1, .n_matrices = 1, .max_tokens = 64};
  if (s->is_silu) spec.activation = (yk_activation)YK_GATED_SILU;
  yk_weight_view view = make_view(s, buffers);
  for (int i = 0; i < spec.n_parts; i++)
    spec.parts[i] = (yk_linear_part){.weight = view, .k = {0, s->k}, .n = {0, s->n}, .group_local = s->group};
  int64_t n_bytes = dev->ops->linear_bytes(&spec);
  int n_copies = (int)yk_min_i64(MAX_COPIES, yk_max_i64(1, (192 << 20) / n_bytes));
  yk_linear *linears[MAX_COPIES] = {NULL};
  yk_err err = YK_ERR_INIT;
  bool is_ok = true;
  int64_t start = yk_clock_now_ns();
  for (int c = 0; c < n_copies && is_ok; c++) is_ok = dev->ops->linear_create(dev, &spec, &linears[c], &err) == YK_OK;
  double create_seconds = yk_clock_seconds_since(start);
  void *x = NULL, *y = NULL;
  is_ok = is_ok && dev->ops->alloc(dev, (size_t)(64 * s->k * 2), &x, &err) == YK_OK &&
          dev->ops->alloc(dev, (size_t)(64 * s->n * 2), &y, &err) == YK_OK;
  if (!is_ok) fprintf(stderr, "%s: %s\n", s->name, err.message);
  double weights = (double)(s->k * s->n * spec.n_parts);
  if (is_ok) {
    printf("%-18s %7.1f MB, created at %.2f G weights/s\n", s->name, (double)n_bytes * 1e-6,
           weights * n_copies / create_seconds * 1e-9);
    fill_halves(x, (size_t)(64 * s->k));
  }
  for (int t = 0; t < 3 && is_ok; t++) {
    yk_linear_args args = {.x = x, .y = y, .n_tokens = token_counts[t], .y_stride = s->n};
    timing seconds = time_products(dev, linears, n_copies, &args);
    printf("    tokens %3d: %10.1f us (%.1f to %.1f)  %7.2f GB/s  %8.2f GFLOP/s\n", token_counts[t],
           seconds.median * 1e6, seconds.fastest * 1e6, seconds.slowest * 1e6, (double)n_bytes / seconds.median * 1e-9,
           2.0 * weights * token_counts[t] / seconds.median * 1e-9);
    steps[t] += seconds.median * s->per_model;
  }
  for (int c = 0; c < n_copies; c++) dev->ops->linear_destroy(dev, linears[c]);
  dev->ops->free(dev, x);
  dev->ops->free(dev, y);
  for (int i = 0; i < 3; i++) free(buffers[i]);
  return is_ok;
}

static const char usage[] = "usage: bench_linear_cpu [options]\n"
                            "  -t, --threads N   threads of the device (2)\n"
                            "  -i, --isa NAME    portable, avx2 or avx512 (the best there is)\n"
                            "  -s, --shape PART  only shapes whose name contains PART\n"
                            "  -h, --help        this text\n"
                            "Prints, for each shape and 1, 8 and 64 tokens, the median time of a GEMM over 11 runs\n"
                            "(fastest to slowest), the weight's bytes per second and the multiply-adds per second.\n";

/* Returns an exit status, or -1 to continue. */
static int parse_options(int argc, char **argv, options *out)
{
  static const struct option names[] = {{"threads", required_argument, NULL, 't'},
                                        {"isa", required_argument, NULL, 'i'},
                                        {"shape", required_argument, NULL, 's'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "t:i:s:h", names, NULL)) != -1;) {
    if (c == 't') out->n_threads = atoi(optarg);
    if (c == 's') out->only = optarg;
    if (c == 'h') return fputs(usage, stdout), 0;
    if (c == '?') return fputs(usage, stderr), 2;
    if (c == 'i' && !(out->simd = yk_cpu_simd_find(optarg)))
      return fprintf(stderr, "bench_linear_cpu: this processor has no %s\n", optarg), 2;
  }
  return -1;
}

int main(int argc, char **argv)
{
  yk_process_init();
  options opts = {.n_threads = 2, .simd = yk_cpu_simd_best(), .only = ""};
  int code = parse_options(argc, argv, &opts);
  if (code >= 0) return code;
  yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  yk_device *dev = NULL;
  yk_err err = YK_ERR_INIT;
  if (yk_cpu_device_create_with(opts.simd, YK_F16, opts.n_threads, &limits, &dev, &err) != YK_OK)
    return fprintf(stderr, "bench_linear_cpu: %s\n", err.message), 1;
  printf("%s, %d threads, f16 activations\n", opts.simd->name, opts.n_threads);
  double steps[3] = {0};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && code < 0; i++)
    if (strstr(shapes[i].name, opts.only) && !bench_shape(dev, &shapes[i], steps)) code = 1;
  if (code < 0 && !*opts.only)
    printf("all GEMMs of a Qwen3-0.6B step: %.1f ms for 1 token, %.1f ms for 8, %.1f ms for 64\n", steps[0] * 1e3,
           steps[1] * 1e3, steps[2] * 1e3);
  dev->ops->destroy(dev);
  return code < 0 ? 0 : code;
}
