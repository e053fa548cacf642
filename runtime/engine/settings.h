/* settings.h - an engine's options made definite: every "auto" replaced, every limit checked against the model and the
 * memory at hand.                                                                                                    */
#ifndef YK_ENGINE_SETTINGS_H
#define YK_ENGINE_SETTINGS_H

#include "kernels/device.h"
#include "loader/checkpoint.h"
#include "model/model_limits.h"
#include "yoke.h"

typedef struct yk_settings {
  yk_device_kind device; /* CPU or CUDA */
  yk_dtype dtype;
  int n_ranks;
  int device_ids[YK_MAX_RANKS];
  int n_threads_per_rank;          /* CPU */
  int32_t hidden_size;             /* of the model: rows that ranks sum */
  double step_timeout_s;           /* 0: none */
  int32_t window_tokens;           /* of the widest layer where all slide, else 0 */
  int32_t narrowest_window_tokens; /* of the layer that sees least; 0: every layer sees all */
  bool no_prefix_reuse;
  yk_model_limits limits;
} yk_settings;

#endif
