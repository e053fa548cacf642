/* settings.h - an engine's options made definite: every "auto" replaced, every limit checked against the model and the
 * memory at hand.                                                                                                    */
#ifndef YK_ENGINE_SETTINGS_H
#define YK_ENGINE_SETTINGS_H

#include "loader/checkpoint.h"
#include "model/model.h"
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

/* yk_settings_resolve - check the options and plan the memory.
 *   device_memory_bytes: per device of another machine (see yk_plan_make), 0: this one. plan: filled also where the
 *   answer is that it does not fit (then the return value is YK_E_CAPACITY and the message plan->reason). Reads no
 *   weights; a remark (a lowered limit, idle ranks) stands in plan->reason.
 *   Errors: YK_E_INVAL (an option, named with its legal range), YK_E_CAPACITY, and those of reading the checkpoint.  */
yk_status yk_settings_resolve(const yk_engine_options *options, const yk_checkpoint *checkpoint,
                              int64_t device_memory_bytes, yk_settings *settings, yk_plan *plan, yk_err *err);

#endif
