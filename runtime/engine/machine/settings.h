/* settings.h - an engine's resolved options: every "auto" replaced, every limit checked against the model and the
 * available memory. */
#ifndef YK_ENGINE_MACHINE_SETTINGS_H
#define YK_ENGINE_MACHINE_SETTINGS_H

#include "engine/loop/scheduler.h"
#include "kernels/device.h"
#include "loader/checkpoint.h"
#include "model/model_limits.h"
#include "parallel/wire.h"
#include "parallel/world.h"
#include "yoke/yoke.h"

typedef struct yk_settings {
  yk_device_kind device; /* CPU or CUDA */
  yk_dtype dtype;
  yk_world world;
  const yk_wires *wires;        /* the transport between processes; NULL: TCP, or one process */
  int device_ids[YK_MAX_RANKS]; /* [world.n_ranks], known for this process's ranks */
  int n_threads_per_rank;       /* host threads */
  int32_t hidden_size;          /* of the model: row width of an all-reduce */
  int32_t embedding_size;       /* hidden_size; 0: the model makes no embeddings */
  double step_timeout_s;        /* 0: none */
  int32_t long_prompt_rows;     /* 0: no limit; or YK_LONG_PROMPT_PACED */
  bool nccl_only;               /* no stores into peers' memory: see yk_comm_auto_options */
  yk_model_limits limits;
  yk_memory_rules rules;
} yk_settings;

/* yk_settings_kv_cache_dtype - the name for yk_engine_info. */
const char *yk_settings_kv_cache_dtype(const yk_settings *settings);

/* yk_settings_activations - likewise. quant: the checkpoint's, whose requests may be followed. */
const char *yk_settings_activations(const yk_settings *settings, const yk_quant_config *quant);

#endif
