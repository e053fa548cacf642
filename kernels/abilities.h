/* abilities.h - the parts of models that a device's operations support. Tables of data, in every build, so that a plan
 * for a device that the machine lacks refuses what the device would refuse. A part that every device supports has no
 * field. */
#ifndef YK_KERNELS_ABILITIES_H
#define YK_KERNELS_ABILITIES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_device_abilities {
  const char *name;           /* of the device, as in its table of operations */
  bool attention_gates;       /* yk_head_layout.has_gates */
  bool attention_sinks;       /* yk_attention_args.sinks */
  bool result_norms;          /* yk_add_norm_args.result_w */
  bool row_norms;             /* yk_row_norms_args */
  bool expert_biases;         /* of the experts' layers of a mixture */
  bool score_growth;          /* of attention of every kind; without, contexts end where the factor begins to grow */
  bool rotation_before_norms; /* yk_qk_rope_kv_args.norms_follow */
  bool value_norms;           /* yk_qk_rope_kv_args.norms_values */
  bool kv_columns;            /* yk_head_layout.kv_columns other than BOTH */
  bool residual_gain;         /* yk_add_norm_args.gain */
  bool logit_caps;            /* yk_device_ops.cap_logits */
  bool unrotated_layers;      /* yk_qk_rope_kv_args.rope NULL */
  bool attention_chunks;      /* yk_attention_args.window_is_chunk */
  bool weighted_inputs;       /* yk_mixture_sizes.weighs_inputs */
  bool expert_branches;       /* yk_mixture_args.router_x, yk_mixture_spec.expert_scales */
  bool layer_inputs;          /* yk_device_ops.layer_inputs, multiply */
  bool adapters;              /* yk_device_ops.linear_adapt */
  bool mamba;                 /* yk_device_ops.mamba */
  bool plain_experts;         /* experts and shared experts without a gate: down(f(up(x))) */
  bool latent_experts;        /* yk_mixture_sizes.latent */
  /* Heads of attention other than latent have a multiple of head_dim_unit elements, at most max_head_dim. */
  int32_t head_dim_unit, max_head_dim;
  int32_t max_hidden, max_vocab;
} yk_device_abilities;

#ifdef __cplusplus
}
#endif
#endif
