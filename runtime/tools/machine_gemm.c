/* machine_gemm.c - measures GEMMs with 16-bit and 4-bit weights, as in an engine's linear layers. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/machine/gpus.h"
#include "tools/machine_run.h"

enum { GROUP = 128, MAX_CHAIN = 200 };
static const double chain_s = 0.02, warm_up_s = 0.06; /* clocks rise under load */

/* One linear layer on one device. */
typedef struct gemm {
  yk_device *dev;
  yk_linear *linear;
  void *weights[3]; /* host: plain, or words, zeros and scales */
  void *x, *y;      /* device: f16 [m, k], [m, n] */
  int64_t m, k, n;
} gemm;

/* Random words; if mask and bits are not 0, both halves of each word are f16 numbers with random mantissas. */
static void *random_words(int64_t n_bytes, uint32_t mask, uint32_t bits)
{
  uint32_t *words = malloc((size_t)n_bytes), state = 0x9E3779B9u;
  for (int64_t i = 0; words && i < n_bytes / 4; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    words[i] = mask ? (state & mask) | bits : state;
  }
  return words;
}

static yk_status make_weight(gemm *g, bool is_awq, yk_weight_view *out, yk_err *err)
{
  *out = (yk_weight_view){.format = is_awq ? YK_WEIGHT_AWQ : YK_WEIGHT_PLAIN, .k = g->k, .n = g->n, .dtype = YK_F16};
  if (is_awq) {
    out->group = GROUP;
    out->qweight = g->weights[0] = random_words(g->k * g->n / 2, 0, 0);
    out->qzeros = g->weights[1] = random_words(g->k / GROUP * g->n / 2, 0, 0);
    out->scales = g->weights[2] = random_words(g->k / GROUP * g->n * 2, 0x03ff03ffu, 0x1c001c00u); /* 2^-8 to 2^-7 */
  } else {
    out->plain = g->weights[0] = random_words(g->k * g->n * 2, 0x83ff83ffu, 0x24002400u); /* 2^-6 to 2^-5, signed */
  }
  if (g->weights[0] && (!is_awq || (g->weights[1] && g->weights[2]))) return YK_OK;
  return yk_err_set(err, YK_E_NOMEM, "no memory for the weights of a GEMM");
}

static yk_status make_rows(gemm *g, yk_err *err)
{
  void *x = random_words(g->m * g->k * 2, 0x83ff83ffu, 0x38003800u); /* 0.5 to 1, signed */
  if (!x) return yk_err_set(err, YK_E_NOMEM, "no memory for the rows of a GEMM");
  yk_status status = g->dev->ops->alloc(g->dev, (size_t)(g->m * g->k * 2), &g->x, err);
  if (status == YK_OK) status = g->dev->ops->upload(g->dev, g->x, x, (size_t)(g->m * g->k * 2), err);
  if (status == YK_OK) status = g->dev->ops->alloc(g->dev, (size_t)(g->m * g->n * 2), &g->y, err);
  free(x);
  return status;
}

static yk_status prepare(gemm *g, bool is_awq, int device, yk_err *err)
{
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = (int32_t)g->m};
  yk_linear_part *part = &spec.parts[0];
  *part = (yk_linear_part){.k = {0, g->k}, .n = {0, g->n}, .group_local = is_awq ? GROUP : 0};
  int64_t rows_bytes = g->m * (g->k + g->n) * 2, in_checkpoint = g->k * g->n * (is_awq ? 1 : 4) / 2;
  part->weight.format = is_awq ? YK_WEIGHT_AWQ : YK_WEIGHT_PLAIN;
  part->weight.dtype = YK_F16;
  part->weight.group = part->group_local;
  int64_t weight_bytes = g->dev->ops->linear_bytes(&spec);
  YK_TRY(yk_machine_check_free(-1, in_checkpoint + (device < 0 ? weight_bytes + rows_bytes : 0), err));
  if (device >= 0) YK_TRY(yk_machine_check_free(device, weight_bytes + in_checkpoint + rows_bytes, err));
  YK_TRY(make_weight(g, is_awq, &part->weight, err));
  YK_TRY(g->dev->ops->linear_create(g->dev, &spec, &g->linear, err));
  return make_rows(g, err);
}

static yk_status run_chain(const gemm *g, int n, double *seconds, yk_err *err)
{
  const yk_linear_args args = {.x = g->x, .y = g->y, .n_tokens = (int32_t)g->m, .y_stride = g->n};
  int64_t start_ns = yk_clock_now_ns();
  for (int i = 0; i < n; i++) YK_TRY(g->dev->ops->linear_forward(g->dev, g->linear, &args, err));
  YK_TRY(g->dev->ops->sync(g->dev, err));
  *seconds = yk_clock_seconds_since(start_ns) / n;
  return YK_OK;
}

static yk_status time_chains(const gemm *g, int n_repeats, yk_spread *us, yk_err *err)
{
  double seconds, repeats[YK_MACHINE_MAX_REPEATS];
  YK_TRY(run_chain(g, 1, &seconds, err)); /* loads kernels */
  for (int64_t start_ns = yk_clock_now_ns(); yk_clock_seconds_since(start_ns) < warm_up_s;)
    YK_TRY(run_chain(g, 2, &seconds, err));
  int n = (int)yk_max_i64(1, yk_min_i64(MAX_CHAIN, (int64_t)(chain_s / seconds)));
  for (int i = 0; i < n_repeats; i++) {
    YK_TRY(run_chain(g, n, &seconds, err));
    repeats[i] = seconds * 1e6;
  }
  *us = yk_spread_of(repeats, n_repeats);
  return YK_OK;
}

static void free_gemm(gemm *g)
{
  for (int i = 0; i < 3; i++) free(g->weights[i]);
  if (!g->dev) return;
  if (g->x) g->dev->ops->free(g->dev, g->x);
  if (g->y) g->dev->ops->free(g->dev, g->y);
  g->dev->ops->linear_destroy(g->dev, g->linear);
  g->dev->ops->destroy(g->dev);
}

static yk_status open_device(const yk_machine_run *run, int device, yk_device **out, yk_err *err)
{
  yk_settings settings = {
      .device = run->options.device,
      .dtype = YK_F16,
      .world = yk_world_of_process(1),
      .device_ids = {device},
      .limits.step = {.max_tokens = (int32_t)run->options.gemm_m, .max_seqs = 1, .max_model_tokens = 16, .vocab = 16}};
  if (device >= 0) return yk_gpus_open(&settings, out, err);
  return yk_cpu_device_create(YK_F16, run->options.n_cpu_threads, &settings.limits.step, out, err);
}

static void measure(yk_machine_run *run, bool is_awq, int device)
{
  const yk_machine_options *o = &run->options;
  gemm g = {.m = o->gemm_m, .k = o->gemm_k, .n = o->gemm_n};
  yk_err err = YK_ERR_INIT;
  yk_spread us = {0};
  yk_status status = open_device(run, device, &g.dev, &err);
  if (status == YK_OK) status = prepare(&g, is_awq, device, &err);
  if (status == YK_OK) status = time_chains(&g, o->n_repeats, &us, &err);
  free_gemm(&g);
  const yk_machine_row row = {.kind = YK_MACHINE_GEMM,
                              .method = is_awq ? "awq" : "plain",
                              .device = device,
                              .to = -1,
                              .n_ranks = 1,
                              .n_threads = device < 0 ? o->n_cpu_threads : 0,
                              .n_bytes = is_awq ? g.k * g.n / 2 + g.k / GROUP * g.n * 5 / 2 : g.k * g.n * 2,
                              .m = g.m,
                              .k = g.k,
                              .n = g.n};
  yk_machine_add(run, &row, status, &us, &err);
}

void yk_machine_measure_gemm(yk_machine_run *run)
{
  const yk_machine_options *o = &run->options;
  int n = o->device == YK_DEVICE_CUDA ? o->n_devices : 1;
  for (int i = 0; i < n; i++)
    for (int is_awq = 0; is_awq < 2; is_awq++)
      measure(run, is_awq, o->device == YK_DEVICE_CUDA ? o->device_ids[i] : -1);
}
