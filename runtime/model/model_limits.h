/* model_limits.h - how much of a model one rank must hold, and the bytes that this takes. */
#ifndef YK_MODEL_MODEL_LIMITS_H
#define YK_MODEL_MODEL_LIMITS_H

#include "kernels/device.h"
#include "kernels/linear.h"

/* What one rank must be able to hold at once. */
typedef struct yk_model_limits {
  yk_device_limits step;
  int32_t n_kv_blocks;    /* physical KV blocks, alike on all ranks */
  yk_kv_format kv_format; /* of latent attention YK_KV_ACT alone */
  bool kv_is_static;      /* a cache of 8 bits takes the checkpoint's scales; else each token and head has its own */
  bool as_16_bits;        /* quantised weights are dequantised at load: see yk_linear_part */
  bool expert_parallel;   /* ranks hold whole experts, else a share of each */
} yk_model_limits;

/* Bytes that one rank takes on its device. */
typedef struct yk_model_memory {
  int64_t weight_bytes;       /* linear layers, embedding, norms */
  int64_t expert_bytes;       /* of them: the experts that rows choose among */
  int32_t n_experts;          /* of each layer that has some, held wholly or in part */
  int32_t n_float_inputs;     /* linear layers that multiply floats though the checkpoint quantises their inputs */
  int32_t n_unkept;           /* linear layers of a format that the device does not keep: 16-bit floats are counted */
  int64_t workspace_bytes;    /* activations, logits, tables */
  int64_t kv_bytes_per_block; /* all layers, and the room that they share; 0 for a rank without attention heads */
} yk_model_memory;

/* What of a device decides the sizes, and the form in which weights are loaded (repack.h). */
typedef struct yk_model_device {
  yk_dtype dtype;
  int64_t (*linear_bytes)(const yk_linear_spec *spec); /* as in yk_device_ops */
  bool (*linear_keeps)(const yk_linear_spec *spec, int i);
  int64_t (*mixture_scratch_bytes)(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                   const yk_linear_spec *down);
  int64_t (*latent_scratch_bytes)(const yk_latent_layout *layout, int32_t max_tokens);
  bool needs_kv_room;
} yk_model_device;

#endif
