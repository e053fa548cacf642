/* cpu_device.h - common declarations of the CPU device's files. */
#ifndef YK_KERNELS_CPU_DEVICE_H
#define YK_KERNELS_CPU_DEVICE_H

#include "base/cpu_pool.h"
#include "kernels/cpu/cpu_memory.h"
#include "kernels/cpu/cpu_simd.h"
#include "kernels/device.h"

enum {
  YK_CPU_ROW_BLOCK = 48,      /* maximum rows of a GEMM that are multiplied at a time */
  YK_CPU_BLOCK_COLUMNS = 64,  /* columns of a GEMM whose results are stored at a time */
  YK_CPU_MAX_HEAD_DIM = 1024, /* scratch of attention is sized for this */
  YK_CPU_MAX_QUERIES = 16     /* queries that share one block of keys and values */
};

/* Fields of an entry of the table of counts: a multiple of COUNT_OUTPUT is the number in the output; one bit marks the
 * prompt. */
enum { YK_CPU_COUNT_PROMPT = 1, YK_CPU_COUNT_OUTPUT = 2 };

/* Scratch of one thread, so that operations allocate nothing. Arrays begin at whole vectors. */
typedef struct yk_cpu_scratch {
  float acc[2][YK_CPU_ROW_BLOCK * YK_CPU_BLOCK_COLUMNS];
  float strip[YK_CPU_STRIP_K * YK_CPU_STRIP]; /* weights of a GEMM */
  float sums[YK_CPU_ROW_BLOCK * YK_CPU_STRIP * YK_CPU_LANES];
  float keys[YK_KV_BLOCK_TOKENS * YK_CPU_MAX_HEAD_DIM];
  float values[YK_KV_BLOCK_TOKENS * YK_CPU_MAX_HEAD_DIM];
  float queries[YK_CPU_MAX_QUERIES * YK_CPU_MAX_HEAD_DIM];
  float outputs[YK_CPU_MAX_QUERIES * YK_CPU_MAX_HEAD_DIM];
} yk_cpu_scratch;

typedef struct yk_cpu_device {
  yk_device base; /* first member: a yk_device * of a CPU device is also a yk_cpu_device * */
  const yk_cpu_simd *simd;
  yk_cpu_pool *pool; /* base.pool */
  int n_threads;
  yk_device_limits limits;
  yk_cpu_scratch *scratch;  /* [n_threads] */
  float *sample_floats;     /* [n_threads, 2, vocab] of the sampler */
  int32_t *sample_ids;      /* [n_threads, 2, vocab] */
  uint32_t *penalty_counts; /* [max_seqs, vocab]; rows of one call name different slots */
  void *x_f32;              /* inputs of a GEMM as floats; linear_create grows this and the next three buffers */
  void *x_quantised;        /* inputs of a GEMM, quantised for a weight format */
  void *x_adapted;          /* products of a block of rows and the first matrices of their adapters */
  void *slices;             /* inputs and sums of the layer with slices that is running (linear/slices.c) */
  int64_t x_f32_bytes, x_quantised_bytes, x_adapted_bytes, slices_bytes;
  yk_cpu_chunk *chunk; /* memory of the next layer's weights; may be NULL */
} yk_cpu_device;

static inline yk_cpu_device *yk_cpu_device_of(yk_device *dev)
{
  return (yk_cpu_device *)dev;
}

/* Address of element i of an act array. */
static inline void *yk_cpu_at(yk_dtype dtype, const void *array, int64_t i)
{
  return (char *)array + i * (int64_t)yk_dtype_bytes(dtype);
}

/* yk_cpu_device_create_with - as yk_cpu_device_create, with an instruction set given by the caller. */
yk_status yk_cpu_device_create_with(const yk_cpu_simd *simd, yk_dtype dtype, int n_threads,
                                    const yk_device_limits *limits, yk_device **out, yk_err *err);

extern const yk_device_abilities yk_cpu_abilities;

/* The operations of the table, documented in device.h and linear.h. */
yk_status yk_cpu_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err);
void yk_cpu_linear_destroy(yk_device *dev, yk_linear *linear);
yk_status yk_cpu_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
int64_t yk_cpu_linear_bytes(const yk_linear_spec *spec);
bool yk_cpu_linear_keeps(const yk_linear_spec *spec, int i);
int64_t yk_cpu_linear_shared_bytes(const yk_linear_spec *spec);
yk_status yk_cpu_linear_maxima(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
yk_status yk_cpu_linear_sums(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
yk_status yk_cpu_linear_scale(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
yk_status yk_cpu_linear_adapt(yk_device *dev, yk_linear *linear, int32_t adapter, const yk_linear_adapter *parts,
                              yk_err *err);
yk_status yk_cpu_mixture_create(yk_device *dev, const yk_mixture_spec *spec, yk_mixture **out, yk_err *err);
void yk_cpu_mixture_destroy(yk_device *dev, yk_mixture *mixture);
int64_t yk_cpu_mixture_scratch_bytes(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                     const yk_linear_spec *down);
yk_status yk_cpu_mixture_forward(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err);
yk_status yk_cpu_partial_complete(yk_device *dev, const yk_partial *partial, yk_err *err);
yk_status yk_cpu_embed(yk_device *dev, const yk_embed_args *args, yk_err *err);
yk_status yk_cpu_rms_norm(yk_device *dev, const yk_rms_norm_args *args, yk_err *err);
yk_status yk_cpu_add_norm(yk_device *dev, const yk_add_norm_args *args, yk_err *err);
yk_status yk_cpu_qk_rope_kv(yk_device *dev, const yk_qk_rope_kv_args *args, yk_err *err);
yk_status yk_cpu_row_squares(yk_device *dev, const yk_row_norms_args *args, yk_err *err);
yk_status yk_cpu_row_norms(yk_device *dev, const yk_row_norms_args *args, yk_err *err);
yk_status yk_cpu_attention(yk_device *dev, const yk_attention_args *args, yk_err *err);
yk_status yk_cpu_latent_attention(yk_device *dev, const yk_latent_attention_args *args, yk_err *err);
yk_status yk_cpu_gated_delta(yk_device *dev, const yk_gated_delta_args *args, yk_err *err);
yk_status yk_cpu_mamba(yk_device *dev, const yk_mamba_args *args, yk_err *err);
yk_status yk_cpu_gather_rows(yk_device *dev, const yk_gather_rows_args *args, yk_err *err);
yk_status yk_cpu_round_sums(yk_device *dev, const yk_round_sums_args *args, yk_err *err);
yk_status yk_cpu_layer_inputs(yk_device *dev, const yk_layer_inputs_args *args, yk_err *err);
yk_status yk_cpu_multiply(yk_device *dev, const yk_multiply_args *args, yk_err *err);
yk_status yk_cpu_cap_logits(yk_device *dev, const yk_cap_logits_args *args, yk_err *err);
yk_status yk_cpu_sample(yk_device *dev, const yk_sample_args *args, yk_err *err);
yk_status yk_cpu_best_logits(yk_device *dev, const yk_best_logits_args *args, yk_err *err);
yk_status yk_cpu_penalties_set(yk_device *dev, int32_t slot, const int32_t *tokens, int32_t n_prompt, int32_t n_tokens,
                               yk_err *err);

/* The parts of a mixture: see kernels/experts.h. */
yk_status yk_cpu_route(yk_device *dev, const yk_route_args *args, yk_err *err);
yk_status yk_cpu_grouped_forward(yk_device *dev, const yk_linear *linear, const yk_grouped_args *args, yk_err *err);
void yk_cpu_weigh(yk_device *dev, const yk_weigh_args *args);
yk_status yk_cpu_combine(yk_device *dev, const yk_combine_args *args, yk_err *err);

#endif
