/* model_limits.h - the limits that one rank of a model must support, and the memory that they take. */
#ifndef YK_MODEL_MODEL_LIMITS_H
#define YK_MODEL_MODEL_LIMITS_H

#include "kernels/device.h"
#include "kernels/linear.h"

/* The layers with 4-bit weights whose inputs are rounded to 8 bits: see yk_linear_part. */
typedef enum yk_rounding {
  YK_ROUNDING_NONE,
  YK_ROUNDING_OF_CHECKPOINT, /* as the checkpoint requests for a layer (YK_INPUTS_FP8, YK_INPUTS_INT8), or not */
  YK_ROUNDING_FP8,           /* of all layers */
  YK_ROUNDING_INT8           /* likewise */
} yk_rounding;

/* The largest load of one rank. */
typedef struct yk_model_limits {
  yk_device_limits step;
  int32_t n_kv_blocks;     /* physical KV blocks, the same on all ranks */
  int32_t n_state_entries; /* rows of the tables of snapshots of recurrent states, the same on all ranks */
  yk_kv_format kv_format;  /* only YK_KV_ACT with latent attention */
  bool kv_is_static;       /* an 8-bit cache uses the checkpoint's scales; otherwise each token and head has its own */
  bool as_16_bits;         /* quantised weights are dequantised at load: see yk_linear_part */
  yk_rounding rounding;
  bool lm_head_as_int8; /* a plain lm_head becomes 8-bit integers at load: see yk_linear_part */
  int32_t n_adapters;   /* low-rank adapters that linear layers may have at a time; 0: none */
  int32_t adapter_rank; /* largest rank of one of their matrices */
  bool batch_invariant; /* see invariance.h */
  bool expert_parallel; /* ranks hold whole experts; otherwise each rank holds a share of every expert */
} yk_model_limits;

/* Bytes that one rank takes on its device. */
typedef struct yk_model_memory {
  int64_t weight_bytes;        /* linear layers, embedding, norms */
  int64_t expert_bytes;        /* part of weight_bytes: the routed experts */
  int32_t n_experts;           /* experts per layer with experts, held in full or in part */
  int32_t n_float_inputs;      /* linear layers that multiply floats although the checkpoint quantises their inputs */
  int32_t n_unkept;            /* linear layers in a format that the device does not keep: counted as 16-bit floats */
  int64_t workspace_bytes;     /* activations, logits, tables */
  int64_t kv_bytes_per_block;  /* all layers and their shared staging pages; 0 for a rank without attention heads */
  int64_t state_bytes_per_seq; /* recurrent states of one sequence, in all layers: of a slot, and of a snapshot */
} yk_model_memory;

/* The properties of a device that decide which models it runs, and the sizes and the form of loaded weights
 * (repack.h). */
typedef struct yk_model_device {
  yk_dtype dtype;
  const yk_device_abilities *abilities;
  int64_t (*linear_bytes)(const yk_linear_spec *spec); /* as in yk_device_ops */
  bool (*linear_keeps)(const yk_linear_spec *spec, int i);
  bool (*linear_divides)(const yk_linear_spec *spec, int i);
  int64_t (*linear_shared_bytes)(const yk_linear_spec *spec);
  int64_t (*mixture_scratch_bytes)(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                   const yk_linear_spec *down);
  int64_t (*latent_scratch_bytes)(const yk_latent_layout *layout, int32_t max_tokens);
  bool needs_kv_staging;
} yk_model_device;

#endif
