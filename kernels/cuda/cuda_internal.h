/* cuda_internal.h - what the files of the CUDA device share. The host's side is C, kernels are CUDA C++. */
#ifndef YK_KERNELS_CUDA_CUDA_INTERNAL_H
#define YK_KERNELS_CUDA_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/cuda_blas.h"
#include "kernels/cuda/cuda_layout.h"
#include "kernels/cuda/gemm/w4a16.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  YK_CUDA_STAGING_SLOTS = 4,
  YK_CUDA_STAGING_BYTES = 4 << 20, /* of one slot */
  YK_CUDA_TOKEN_CHUNK = 1 << 16    /* ids that penalties_set brings to the device at once */
};

/* Pinned memory on its way to the GPU, slot after slot. A slot is free again once its event has passed. */
typedef struct yk_cuda_staging {
  char *slots[YK_CUDA_STAGING_SLOTS];
  cudaEvent_t copied[YK_CUDA_STAGING_SLOTS];
  int next;
} yk_cuda_staging;

/* Device memory that grows while layers are created and is never moved afterwards. */
typedef struct yk_cuda_buffer {
  void *ptr;
  size_t n_bytes;
} yk_cuda_buffer;

/* A row's parameters as the sampling kernel takes them. */
typedef struct yk_cuda_sample_row {
  yk_sample_row row;           /* its host pointers are not read */
  const yk_logit_bias *biases; /* device [n_biases] */
  float *raw_at_biases;        /* device [n_biases]: the logits that the biases changed, for the time of the call */
} yk_cuda_sample_row;

/* Buffers of sampling: [max_seqs] each; counts [max_seqs, vocab]. */
typedef struct yk_cuda_sampler {
  yk_cuda_sample_row *rows_host, *rows_dev; /* pinned, device */
  yk_sampled *out_host, *out_dev;           /* pinned, device */
  yk_logit_bias *biases_dev;                /* [max_seqs + vocab]: what one launch may bring */
  float *raw_dev;                           /* likewise */
  uint32_t *counts;                         /* of each id in each slot: see YK_CUDA_COUNT_* */
  int32_t *tokens;                          /* [YK_CUDA_TOKEN_CHUNK] */
} yk_cuda_sampler;

enum { YK_CUDA_COUNT_PROMPT = 1, YK_CUDA_COUNT_OUTPUT = 2 }; /* a bit; the unit of the rest of the word */

typedef struct yk_cuda_device {
  yk_device base; /* first: a yk_device * is a yk_cuda_device * */
  int ordinal;
  yk_device_limits limits;
  cudaStream_t stream;
  cudaEvent_t drained; /* recorded to wait for the stream */
  yk_cuda_staging staging;
  yk_cuda_blas *blas;
  yk_w4a16_gpu w4a16;
  yk_cuda_attention attention;
  yk_cuda_sampler sampler;
  void *blas_workspace, *attention_workspace;
  yk_cuda_buffer gemm_workspace;                  /* of the W4A16 GEMM: zeroed once, left ready by each call */
  bool gemm_second_half;                          /* of each multiprocessor, for the next call of the W4A16 GEMM */
  yk_cuda_buffer scratch;                         /* outputs of a product on their way to y */
  yk_status (*watch)(void *context, yk_err *err); /* a yk_cuda_watch */
  void *watch_context;
} yk_cuda_device;

static inline yk_cuda_device *yk_cuda_device_of(yk_device *dev)
{
  return (yk_cuda_device *)dev;
}

/* ---- cuda_device.c ----------------------------------------------------------------------------------------------- */

/* yk_cuda_check - YK_OK, or an error that names operation, GPU and CUDA's own words. YK_E_CAPACITY for no memory. */
yk_status yk_cuda_check(const yk_cuda_device *cuda, cudaError_t error, const char *operation, yk_err *err);

/* yk_cuda_blame - see yk_cuda_device_blame. */
yk_status yk_cuda_blame(const yk_cuda_device *cuda, yk_status status, yk_err *err);

/* yk_cuda_enter - make the GPU current for this thread; every operation begins with it. */
yk_status yk_cuda_enter(const yk_cuda_device *cuda, yk_err *err);

/* yk_cuda_wait - until the event has passed, or the watch says to give up. */
yk_status yk_cuda_wait(yk_cuda_device *cuda, cudaEvent_t event, const char *operation, yk_err *err);

/* yk_cuda_drain - wait for everything on the stream. */
yk_status yk_cuda_drain(yk_cuda_device *cuda, const char *operation, yk_err *err);

/* yk_cuda_grow - at least n_bytes, zeroed; what the buffer held is lost. */
yk_status yk_cuda_grow(yk_cuda_device *cuda, yk_cuda_buffer *buffer, size_t n_bytes, yk_err *err);

/* The operations of the table, documented in device.h and linear.h. */
yk_status yk_cuda_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
void yk_cuda_free(yk_device *dev, void *ptr);

/* ---- cuda_probe.c ------------------------------------------------------------------------------------------------ */

/* yk_cuda_probe - whether the GPU finishes what this process asks of it. Freeing memory waits for everything that the
 *   process runs there, so work that an engine before left hanging would stop the next one for ever. Errors:
 *   YK_E_DEVICE. */
yk_status yk_cuda_probe(const yk_cuda_device *cuda, yk_err *err);

/* ---- cuda_staging.c ---------------------------------------------------------------------------------------------- */

yk_status yk_cuda_staging_create(yk_cuda_device *cuda, yk_err *err);
void yk_cuda_staging_destroy(yk_cuda_staging *staging);
yk_status yk_cuda_upload(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);

/* yk_cuda_upload_rows - n_rows rows of row_bytes that lie src_stride bytes apart, side by side into dst. */
yk_status yk_cuda_upload_rows(yk_cuda_device *cuda, void *dst, const void *src, size_t row_bytes, size_t src_stride,
                              size_t n_rows, yk_err *err);

/* ---- cuda_linear.c ----------------------------------------------------------------------------------------------- */

yk_status yk_cuda_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err);
void yk_cuda_linear_destroy(yk_device *dev, yk_linear *linear);
yk_status yk_cuda_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err);

/* ---- cuda_sample.c ----------------------------------------------------------------------------------------------- */

yk_status yk_cuda_sampler_create(yk_cuda_device *cuda, yk_err *err);
void yk_cuda_sampler_destroy(yk_cuda_device *cuda);
yk_status yk_cuda_sample(yk_device *dev, const yk_sample_args *args, yk_err *err);
yk_status yk_cuda_penalties_set(yk_device *dev, int32_t slot, const int32_t *tokens, int32_t n_prompt, int32_t n_tokens,
                                yk_err *err);

/* ---- cuda_graph.c ------------------------------------------------------------------------------------------------ */

yk_status yk_cuda_graph_begin(yk_device *dev, yk_err *err);
yk_status yk_cuda_graph_end(yk_device *dev, yk_graph **out, yk_err *err);
yk_status yk_cuda_graph_run(yk_device *dev, const yk_graph *graph, yk_err *err);
void yk_cuda_graph_destroy(yk_device *dev, yk_graph *graph);

/* ---- Kernels: asynchronous on the stream; dtype is the activations' ---------------------------------------------- */

/* cuda_rows.cu: see device.h for the operations. */
cudaError_t yk_cuda_launch_embed(yk_dtype dtype, const yk_embed_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_add_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_rms_norm(yk_dtype dtype, const yk_rms_norm_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_gather_rows(const yk_gather_rows_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_qk_rope_kv(yk_dtype dtype, const yk_qk_rope_kv_args *args, cudaStream_t stream);

enum {
  YK_CUDA_MAX_HIDDEN = 24512, /* a row of act is kept in shared memory by the norms */
  YK_CUDA_MAX_HEAD_DIM = 256
};

/* cuda_convert.cu: what products need around them. */

/* dst act [n] = src of dtype src_dtype [n]. */
cudaError_t yk_cuda_launch_convert(yk_dtype dtype, void *dst, yk_dtype src_dtype, const void *src, int64_t n,
                                   cudaStream_t stream);

/* dst act [n, k] = the columns of an AWQ source (see w4a16.h), each weight rounded once. */
cudaError_t yk_cuda_launch_unpack_awq(yk_dtype dtype, void *dst, const yk_w4a16_source *source, int64_t k, int64_t n,
                                      cudaStream_t stream);

/* Columns 0 .. n-1 of y [n_rows, y_stride] from src: act [n_rows, n] as it is. */
cudaError_t yk_cuda_launch_place(yk_dtype dtype, void *y, int64_t y_stride, const void *src, int64_t n_rows, int64_t n,
                                 cudaStream_t stream);

/* y = src + bias, or silu(gate) * up of it, rounded once.   src f32 [n_rows, n]: with silu_mul the first half of a row
 * are gates, and n / 2 columns are written; bias f32 [n] or NULL; y of y_dtype [n_rows, y_stride]. */
typedef struct yk_cuda_finish_args {
  void *y;
  yk_dtype y_dtype;
  int64_t y_stride;
  const float *src, *bias;
  int64_t n_rows, n;
  bool silu_mul;
} yk_cuda_finish_args;
cudaError_t yk_cuda_launch_finish(const yk_cuda_finish_args *args, cudaStream_t stream);

/* cuda_sample_rows.cu */
typedef struct yk_cuda_sample_launch {
  float *logits; /* as in yk_sample_args; unchanged once the launch is over */
  int32_t n_rows, n_shards, shard_stride;
  int32_t shard_first[YK_MAX_RANKS + 1];
  int32_t first_row, n_launched;  /* rows of this launch: first_row ... */
  const yk_cuda_sample_row *rows; /* device [n_launched] */
  uint32_t *counts;
  int32_t vocab;   /* ids of one slot of counts */
  yk_sampled *out; /* device [n_launched]; token_id -1 where there is nothing finite to choose from */
} yk_cuda_sample_launch;
cudaError_t yk_cuda_launch_sample(const yk_cuda_sample_launch *launch, cudaStream_t stream);

/* counts [vocab] of one slot: tokens[i] seen in the prompt for i < n_prompt, else counted as output. */
cudaError_t yk_cuda_launch_count(uint32_t *counts, const int32_t *tokens, int32_t n_tokens, int32_t n_prompt,
                                 cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
