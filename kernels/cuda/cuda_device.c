/* cuda_device.c - a GPU as a device: its table of operations, creation and destruction, and queries. */
#include "kernels/cuda/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/blas/blas.h"
#include "kernels/cuda/decode/decode_layers.h"
#include "kernels/cuda/delta/delta.h"
#include "kernels/cuda/device/errors.h"
#include "kernels/cuda/device/graph.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/probe.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/device/timestamp.h"
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/latent/latent.h"
#include "kernels/cuda/latent/scratch.h"
#include "kernels/cuda/layout/abilities.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/linear/adapted.h"
#include "kernels/cuda/linear/convert.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/mamba/mamba.h"
#include "kernels/cuda/moe/mixture.h"
#include "kernels/cuda/moe/scratch.h"
#include "kernels/cuda/quantize/quantize.h"
#include "kernels/cuda/rows/embed.h"
#include "kernels/cuda/rows/layer_inputs.h"
#include "kernels/cuda/rows/norm.h"
#include "kernels/cuda/rows/rope.h"
#include "kernels/cuda/rows/row_norms.h"
#include "kernels/cuda/sampling/cap_logits.h"
#include "kernels/cuda/sampling/sampler.h"
#include "kernels/cuda/w4a8/w4a8.h"
#include "kernels/cuda/w8a8/grouped.h"
#include "kernels/cuda/w8a8/w8a8.h"

/* A failing watch has aborted the kernels that wait for other ranks, but returns before these kernels end. */
static void settle(yk_device *dev)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  const struct timespec pause = {0, 1000000};
  if (yk_cuda_sync(dev, NULL) == YK_OK) return;
  while (cudaStreamQuery(cuda->stream) == cudaErrorNotReady) nanosleep(&pause, NULL);
  cudaGetLastError();
}

/* ---- Operations that are one launch ------------------------------------------------------------------------------ */

static yk_status embed(yk_device *dev, const yk_embed_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_embed(dev->dtype, args, cuda->stream), "embed", err);
}

static yk_status check_hidden(const yk_cuda_device *cuda, int32_t hidden, yk_err *err)
{
  if (hidden <= YK_CUDA_MAX_HIDDEN) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: norm: hidden size: expected at most %d, found %d", cuda->ordinal,
                    YK_CUDA_MAX_HIDDEN, hidden);
}

static yk_status rms_norm(yk_device *dev, const yk_rms_norm_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(check_hidden(cuda, args->hidden, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_rms_norm(dev->dtype, args, cuda->stream), "rms_norm", err);
}

/* The norm kernels can combine experts only with weights. */
static yk_status add_norm(yk_device *dev, const yk_add_norm_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  yk_add_norm_args own = *args;
  YK_TRY(check_hidden(cuda, args->hidden, err));
  if (own.combine && (!own.combine->weights || own.result_w || own.gain != 0)) { /* these norm kernels have no
                                                                                  * combination */
    YK_TRY(yk_cuda_combine(dev, own.combine, err));
    own.combine = NULL;
  }
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_add_norm(dev->dtype, &own, cuda->stream), "add_norm", err);
}

static yk_status qk_rope_kv(yk_device *dev, const yk_qk_rope_kv_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  int32_t head_dim = args->heads.head_dim;
  if (head_dim < 4 || head_dim > YK_CUDA_MAX_HEAD_DIM || head_dim % YK_CUDA_HEAD_DIM_UNIT)
    return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: head_dim: expected a multiple of %d up to %d, found %d",
                      cuda->ordinal, YK_CUDA_HEAD_DIM_UNIT, YK_CUDA_MAX_HEAD_DIM, head_dim);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_qk_rope_kv(dev->dtype, args, cuda->stream), "qk_rope_kv", err);
}

static yk_status attention(yk_device *dev, const yk_attention_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_blame(cuda, yk_cuda_attention_run(&cuda->attention, args, dev->dtype, cuda->stream, err), err);
}

static yk_status latent_attention(yk_device *dev, const yk_latent_attention_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_blame(cuda, yk_cuda_latent_attention_run(&cuda->latent, args, dev->dtype, cuda->stream, err), err);
}

static yk_status gated_delta(yk_device *dev, const yk_gated_delta_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_blame(cuda, yk_cuda_gated_delta_run(cuda->delta_readers, args, dev->dtype, cuda->stream, err), err);
}

static yk_status mamba(yk_device *dev, const yk_mamba_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_blame(cuda, yk_cuda_mamba_run(cuda->mamba_readers, args, dev->dtype, cuda->stream, err), err);
}

static yk_status gather_rows(yk_device *dev, const yk_gather_rows_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_gather_rows(args, cuda->stream), "gather_rows", err);
}

static yk_status round_sums(yk_device *dev, const yk_round_sums_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_convert(dev->dtype, args->y, YK_F32, args->sums, args->count, cuda->stream),
                       "round_sums", err);
}

static yk_status row_squares(yk_device *dev, const yk_row_norms_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_row_squares(dev->dtype, args, cuda->stream), "row_squares", err);
}

static yk_status row_norms(yk_device *dev, const yk_row_norms_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_row_norms(dev->dtype, args, cuda->stream), "row_norms", err);
}

static yk_status layer_inputs(yk_device *dev, const yk_layer_inputs_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_layer_inputs(dev->dtype, args, cuda->stream), "layer_inputs", err);
}

static yk_status multiply(yk_device *dev, const yk_multiply_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_multiply(dev->dtype, args, cuda->stream), "multiply", err);
}

static yk_status cap_logits(yk_device *dev, const yk_cap_logits_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_cap_logits(args, cuda->stream), "cap_logits", err);
}

static yk_status timestamp(yk_device *dev, int64_t *at, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_timestamp(at, cuda->stream), "timestamp", err);
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static void destroy(yk_device *dev)
{
  if (!dev) return;
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (!cuda->stream) { /* nothing has been created, and the GPU may not answer */
    free(cuda);
    return;
  }
  cudaSetDevice(cuda->ordinal);
  if (cuda->drained) yk_cuda_drain(cuda, "destroy", NULL);
  yk_cuda_sampler_destroy(cuda->sampler);
  yk_cuda_blas_destroy(cuda->blas);
  void *const buffers[] = {cuda->blas_workspace, cuda->attention_workspace,  cuda->latent_counters,
                           cuda->delta_readers,  cuda->mamba_readers,        cuda->gemm_workspace.ptr,
                           cuda->scratch.ptr,    cuda->adapter_products.ptr, cuda->adapter_exchange.ptr};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) cudaFree(buffers[i]);
  yk_cuda_moe_close(cuda);
  yk_cuda_staging_destroy(cuda->staging);
  if (cuda->drained) cudaEventDestroy(cuda->drained);
  cudaStreamDestroy(cuda->stream);
  cudaGetLastError();
  free(cuda);
}

static const yk_device_ops *device_ops(void)
{
  static const yk_device_ops ops = {
      .name = "cuda",
      .abilities = &yk_cuda_abilities,
      .destroy = destroy,
      .alloc = yk_cuda_alloc,
      .free = yk_cuda_free,
      .upload = yk_cuda_upload,
      .copy = yk_cuda_copy,
      .download = yk_cuda_download,
      .sync = yk_cuda_sync,
      .host_alloc = yk_cuda_host_alloc,
      .host_free = yk_cuda_host_free,
      .settle = settle,
      .linear_create = yk_cuda_linear_create,
      .linear_destroy = yk_cuda_linear_destroy,
      .linear_forward = yk_cuda_linear_forward,
      .linear_fuses = yk_cuda_linear_fuses,
      .linear_adapt = yk_cuda_linear_adapt,
      .linear_bytes = yk_cuda_linear_bytes,
      .linear_keeps = yk_cuda_linear_keeps,
      .linear_divides = yk_cuda_linear_divides,
      .linear_maxima = yk_cuda_linear_maxima,
      .linear_sums = yk_cuda_linear_sums,
      .linear_scale = yk_cuda_linear_scale,
      .mixture_create = yk_cuda_mixture_create,
      .mixture_destroy = yk_cuda_mixture_destroy,
      .mixture_scratch_bytes = yk_cuda_mixture_scratch_bytes,
      .mixture_forward = yk_cuda_mixture_forward,
      .partial_complete = yk_cuda_partial_complete,
      .decode_layers_create = yk_cuda_decode_layers_create,
      .decode_layers_exchange = yk_cuda_decode_layers_exchange,
      .decode_layers_connect = yk_cuda_decode_layers_connect,
      .decode_layers_takes = yk_cuda_decode_layers_takes,
      .decode_layers_run = yk_cuda_decode_layers_run,
      .decode_layers_destroy = yk_cuda_decode_layers_destroy,
      .embed = embed,
      .rms_norm = rms_norm,
      .add_norm = add_norm,
      .qk_rope_kv = qk_rope_kv,
      .attention = attention,
      .needs_kv_staging = true,
      .latent_attention = latent_attention,
      .latent_scratch_bytes = yk_cuda_latent_scratch_bytes,
      .gated_delta = gated_delta,
      .mamba = mamba,
      .row_squares = row_squares,
      .row_norms = row_norms,
      .gather_rows = gather_rows,
      .round_sums = round_sums,
      .layer_inputs = layer_inputs,
      .multiply = multiply,
      .cap_logits = cap_logits,
      .sample = yk_cuda_sample,
      .best_logits = yk_cuda_best_logits,
      .penalties_set = yk_cuda_penalties_set,
      .timestamp = timestamp,
      .awq_quantize = yk_cuda_awq_quantize,
      .awq_observe = yk_cuda_awq_observe,
      .awq_loss = yk_cuda_awq_loss,
      .awq_limits = yk_cuda_awq_limits,
      .graph_begin = yk_cuda_graph_begin,
      .graph_end = yk_cuda_graph_end,
      .graph_run = yk_cuda_graph_run,
      .graph_destroy = yk_cuda_graph_destroy,
  };
  return &ops;
}

static yk_status check_arguments(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_err *err)
{
  int n_devices = yk_cuda_device_count();
  if (ordinal < 0 || ordinal >= n_devices)
    return yk_err_set(err, YK_E_INVAL, "GPU %d: this machine has %d", ordinal, n_devices);
  if (dtype != YK_F16 && dtype != YK_BF16)
    return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: activations: expected float16 or bfloat16, found %s", ordinal,
                      yk_dtype_name(dtype));
  if (limits->max_tokens < 1 || limits->max_seqs < 1 || limits->max_model_tokens < 1 || limits->vocab < 1)
    return yk_err_set(
        err, YK_E_INVAL,
        "GPU %d: limits must be at least 1, found max_tokens %d, max_seqs %d, max_model_tokens %d, vocab %d", ordinal,
        limits->max_tokens, limits->max_seqs, limits->max_model_tokens, limits->vocab);
  return YK_OK;
}

static yk_status create_blas(yk_cuda_device *cuda, yk_err *err)
{
  YK_TRY(yk_cuda_alloc(&cuda->base, YK_CUDA_CUBLAS_BYTES, &cuda->blas_workspace, err));
  return yk_cuda_blame(cuda, yk_cuda_blas_create(cuda->stream, cuda->blas_workspace, &cuda->blas, err), err);
}

static yk_status open_device(yk_cuda_device *cuda, yk_err *err)
{
  YK_TRY(yk_cuda_enter(cuda, err));
  YK_TRY(yk_cuda_probe(cuda, err));
  YK_TRY(yk_cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "stream", err));
  YK_TRY(yk_cuda_check(cuda, cudaEventCreateWithFlags(&cuda->drained, cudaEventDisableTiming), "event", err));
  YK_TRY(yk_cuda_blame(cuda, yk_gemm_gpu_init(&cuda->wna16, YK_GEMM_AUTO, err), err));
  YK_TRY(yk_cuda_blame(cuda, yk_w8a8_init(&cuda->wna16, &cuda->w8a8, err), err));
  YK_TRY(yk_cuda_blame(cuda, yk_w4a8_init(&cuda->wna16, err), err));
  cuda->w4a8_least_results = YK_W4A8_LEAST_RESULTS;
  YK_TRY(yk_cuda_blame(cuda, yk_gemm_grouped_init(&cuda->wna16, err), err));
  YK_TRY(yk_cuda_blame(cuda, yk_w8a8_grouped_init(&cuda->w8a8, err), err));
  YK_TRY(yk_cuda_moe_open(cuda, err));
  YK_TRY(yk_cuda_staging_create(cuda, err));
  YK_TRY(create_blas(cuda, err));
  size_t n_bytes = yk_cuda_attention_workspace_bytes(cuda->wna16.n_multiprocessors, YK_CUDA_MAX_HEAD_DIM);
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &cuda->attention_workspace, err));
  YK_TRY(yk_cuda_blame(cuda, yk_cuda_attention_init(&cuda->attention, cuda->attention_workspace, err), err));
  YK_TRY(yk_cuda_alloc(&cuda->base, 2 * sizeof(uint32_t), &cuda->latent_counters, err));
  cuda->latent = (yk_cuda_latent){.n_multiprocessors = cuda->attention.n_sms,
                                  .shared_bytes = cuda->attention.smem_bytes,
                                  .encode_tensor_map = cuda->attention.encode_tensor_map,
                                  .grid_counters = cuda->latent_counters,
                                  .blas = cuda->blas};
  YK_TRY(yk_cuda_check(cuda, yk_cuda_latent_init(&cuda->latent, cuda->base.dtype), "latent attention init", err));
  n_bytes = yk_cuda_delta_readers_bytes(cuda->limits.max_seqs);
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &cuda->delta_readers, err));
  n_bytes = yk_cuda_mamba_readers_bytes(cuda->limits.max_seqs);
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &cuda->mamba_readers, err));
  YK_TRY(yk_cuda_sampler_create(cuda, err));
  return yk_cuda_drain(cuda, "start", err);
}

yk_status yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                yk_err *err)
{
  YK_TRY(check_arguments(ordinal, dtype, limits, err));
  yk_cuda_device *cuda = calloc(1, sizeof *cuda);
  if (!cuda) return yk_err_set(err, YK_E_NOMEM, "GPU %d: no memory for a device", ordinal);
  cuda->base = (yk_device){.ops = device_ops(), .dtype = dtype};
  cuda->ordinal = ordinal;
  cuda->limits = *limits;
  yk_status status = open_device(cuda, err);
  if (status != YK_OK) {
    destroy(&cuda->base);
    return status;
  }
  *out = &cuda->base;
  return YK_OK;
}

/* ---- Queries, and functions for communicators -------------------------------------------------------------------- */

int yk_cuda_device_count(void)
{
  int n = 0;
  cudaError_t error = cudaGetDeviceCount(&n);
  cudaGetLastError();
  return error == cudaSuccess ? n : 0;
}

yk_status yk_cuda_device_query(int ordinal, yk_cuda_device_info *out, yk_err *err)
{
  int n_devices = yk_cuda_device_count();
  struct cudaDeviceProp properties;
  size_t free_bytes = 0, total_bytes = 0;
  if (ordinal < 0 || ordinal >= n_devices)
    return yk_err_set(err, YK_E_INVAL, "GPU %d: this machine has %d", ordinal, n_devices);
  YK_TRY(yk_cuda_error_report(ordinal, cudaGetDeviceProperties(&properties, ordinal), "properties", err));
  YK_TRY(yk_cuda_error_report(ordinal, cudaSetDevice(ordinal), "select", err));
  YK_TRY(yk_cuda_error_report(ordinal, cudaMemGetInfo(&free_bytes, &total_bytes), "memory information", err));
  YK_TRY(yk_cuda_error_report(ordinal, yk_cuda_error_lasting(NULL), "an earlier operation of this process", err));
  *out = (yk_cuda_device_info){.compute_major = properties.major,
                               .compute_minor = properties.minor,
                               .free_bytes = (int64_t)free_bytes,
                               .total_bytes = (int64_t)total_bytes};
  snprintf(out->name, sizeof out->name, "%s", properties.name);
  const unsigned char *b = (const unsigned char *)properties.uuid.bytes;
  snprintf(out->uuid, sizeof out->uuid, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return YK_OK;
}

struct CUstream_st *yk_cuda_device_stream(yk_device *dev)
{
  return yk_cuda_device_of(dev)->stream;
}

int yk_cuda_device_ordinal(const yk_device *dev)
{
  return ((const yk_cuda_device *)dev)->ordinal;
}

yk_status yk_cuda_device_activate(yk_device *dev, yk_err *err)
{
  return yk_cuda_enter(yk_cuda_device_of(dev), err);
}

yk_status yk_cuda_device_blame(yk_device *dev, yk_status status, yk_err *err)
{
  return yk_cuda_blame(yk_cuda_device_of(dev), status, err);
}

void yk_cuda_device_set_watch(yk_device *dev, yk_cuda_watch watch, void *context)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  cuda->watch = watch;
  cuda->watch_context = context;
}

yk_status yk_cuda_device_check_watch(yk_device *dev, yk_err *err)
{
  return yk_cuda_check_watch(yk_cuda_device_of(dev), err);
}
