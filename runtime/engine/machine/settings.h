/* settings.h - an engine's options made definite: every "auto" replaced, every limit checked against the model and the
 * memory at hand. */
#ifndef YK_ENGINE_MACHINE_SETTINGS_H
#define YK_ENGINE_MACHINE_SETTINGS_H

#include "engine/loop/scheduler.h"
#include "kernels/device.h"
#include "loader/checkpoint.h"
#include "model/model_limits.h"
#include "parallel/world.h"
#include "yoke/yoke.h"

typedef struct yk_settings {
  yk_device_kind device; /* CPU or CUDA */
  yk_dtype dtype;
  yk_world world;
  int device_ids[YK_MAX_RANKS]; /* [world.n_ranks] */
  int n_threads_per_rank;       /* of the host */
  int32_t hidden_size;          /* of the model: the rows of an all-reduce */
  double step_timeout_s;        /* 0: none */
  yk_model_limits limits;
  yk_memory_rules rules;
} yk_settings;

/* yk_settings_kv_cache_dtype - as yk_engine_info has it. */
const char *yk_settings_kv_cache_dtype(const yk_settings *settings);

#endif
