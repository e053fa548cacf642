/* cpu_device.c - the host's cores as a device: its table of operations. Operations are synchronous. */
#include "kernels/cpu/cpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "kernels/cpu/cpu_awq.h"

static yk_status copy_bytes(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  (void)dev, (void)err;
  if (n_bytes) memcpy(dst, src, n_bytes);
  return YK_OK;
}

static yk_status sync_nothing(yk_device *dev, yk_err *err)
{
  (void)dev, (void)err;
  return YK_OK;
}

static yk_status timestamp(yk_device *dev, int64_t *at, yk_err *err)
{
  (void)dev, (void)err;
  *at = yk_clock_now_ns();
  return YK_OK;
}

const yk_device_abilities yk_cpu_abilities = {
    .name = "cpu", .head_dim_unit = 2, .max_head_dim = INT32_MAX, .max_hidden = INT32_MAX, .max_vocab = INT32_MAX};

static void destroy(yk_device *dev)
{
  if (!dev) return;
  yk_cpu_device *cpu = yk_cpu_device_of(dev);
  yk_cpu_pool_destroy(cpu->pool);
  yk_cpu_free(dev, cpu->scratch);
  free(cpu->sample_floats);
  free(cpu->sample_ids);
  free(cpu->penalty_counts);
  yk_cpu_free(dev, cpu->x_f32);
  yk_cpu_free(dev, cpu->x_quantised);
  yk_cpu_free(dev, cpu->slices);
  yk_cpu_free(dev, cpu->x_adapted);
  free(cpu);
}

static yk_status check_arguments(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_err *err)
{
  if (dtype != YK_F16 && dtype != YK_BF16 && dtype != YK_F32)
    return yk_err_set(err, YK_E_INVAL, "cpu device: activation type %d is unknown", (int)dtype);
  if (n_threads < 1 || n_threads > 1024)
    return yk_err_set(err, YK_E_INVAL, "cpu device: n_threads: expected 1 to 1024, found %d", n_threads);
  if (limits->max_tokens < 1 || limits->max_seqs < 1 || limits->max_model_tokens < 1 || limits->vocab < 1)
    return yk_err_set(err, YK_E_INVAL,
                      "cpu device: limits must be at least 1, found max_tokens %d, max_seqs %d, max_model_tokens %d, "
                      "vocab %d",
                      limits->max_tokens, limits->max_seqs, limits->max_model_tokens, limits->vocab);
  return YK_OK;
}

static yk_status alloc_scratch(yk_cpu_device *cpu, yk_err *err)
{
  const yk_device_limits *limits = &cpu->limits;
  const size_t vocab = (size_t)limits->vocab, n_samplers = (size_t)yk_min_i64(cpu->n_threads, limits->max_seqs);
  void *scratch = NULL;
  YK_TRY(yk_cpu_alloc(&cpu->base, (size_t)cpu->n_threads * sizeof *cpu->scratch, &scratch, err));
  cpu->scratch = scratch;
  cpu->sample_floats = calloc(n_samplers * 2 * vocab, sizeof *cpu->sample_floats);
  cpu->sample_ids = calloc(n_samplers * 2 * vocab, sizeof *cpu->sample_ids);
  cpu->penalty_counts = calloc((size_t)limits->max_seqs * vocab, sizeof *cpu->penalty_counts);
  if (!cpu->sample_floats || !cpu->sample_ids || !cpu->penalty_counts)
    return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for the samplers of %d threads", cpu->n_threads);
  return YK_OK;
}

static const yk_device_ops ops = {
    .name = "cpu",
    .abilities = &yk_cpu_abilities,
    .is_host = true,
    .destroy = destroy,
    .alloc = yk_cpu_alloc,
    .free = yk_cpu_free,
    .upload = copy_bytes,
    .copy = copy_bytes,
    .download = copy_bytes,
    .sync = sync_nothing,
    .host_alloc = yk_cpu_alloc,
    .host_free = yk_cpu_free,
    .linear_create = yk_cpu_linear_create,
    .linear_destroy = yk_cpu_linear_destroy,
    .linear_forward = yk_cpu_linear_forward,
    .linear_bytes = yk_cpu_linear_bytes,
    .linear_keeps = yk_cpu_linear_keeps,
    .linear_shared_bytes = yk_cpu_linear_shared_bytes,
    .linear_maxima = yk_cpu_linear_maxima,
    .linear_sums = yk_cpu_linear_sums,
    .linear_scale = yk_cpu_linear_scale,
    .linear_adapt = yk_cpu_linear_adapt,
    .mixture_create = yk_cpu_mixture_create,
    .mixture_destroy = yk_cpu_mixture_destroy,
    .mixture_scratch_bytes = yk_cpu_mixture_scratch_bytes,
    .mixture_forward = yk_cpu_mixture_forward,
    .partial_complete = yk_cpu_partial_complete,
    .embed = yk_cpu_embed,
    .rms_norm = yk_cpu_rms_norm,
    .add_norm = yk_cpu_add_norm,
    .qk_rope_kv = yk_cpu_qk_rope_kv,
    .attention = yk_cpu_attention,
    .row_squares = yk_cpu_row_squares,
    .row_norms = yk_cpu_row_norms,
    .latent_attention = yk_cpu_latent_attention,
    .gated_delta = yk_cpu_gated_delta,
    .mamba = yk_cpu_mamba,
    .gather_rows = yk_cpu_gather_rows,
    .round_sums = yk_cpu_round_sums,
    .layer_inputs = yk_cpu_layer_inputs,
    .multiply = yk_cpu_multiply,
    .cap_logits = yk_cpu_cap_logits,
    .sample = yk_cpu_sample,
    .best_logits = yk_cpu_best_logits,
    .penalties_set = yk_cpu_penalties_set,
    .timestamp = timestamp,
    .awq_quantize = yk_cpu_awq_quantize,
    .awq_observe = yk_cpu_awq_observe,
    .awq_loss = yk_cpu_awq_loss,
    .awq_limits = yk_cpu_awq_limits,
};

yk_status yk_cpu_device_create_with(const yk_cpu_simd *simd, yk_dtype dtype, int n_threads,
                                    const yk_device_limits *limits, yk_device **out, yk_err *err)
{
  YK_TRY(check_arguments(dtype, n_threads, limits, err));
  yk_cpu_device *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory");
  cpu->base = (yk_device){.ops = &ops, .dtype = dtype};
  cpu->simd = simd;
  cpu->n_threads = n_threads;
  cpu->limits = *limits;
  yk_status status = alloc_scratch(cpu, err);
  if (status == YK_OK) status = yk_cpu_pool_create(n_threads, &cpu->pool, err);
  if (status != YK_OK) {
    destroy(&cpu->base);
    return status;
  }
  cpu->base.pool = cpu->pool;
  *out = &cpu->base;
  return YK_OK;
}

yk_status yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                               yk_err *err)
{
  return yk_cpu_device_create_with(yk_cpu_simd_best(), dtype, n_threads, limits, out, err);
}
