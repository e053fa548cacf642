/* driver.h - interface between a study's loop and engines: starts of an engine and runs of points. The loop uses
 * nothing else of engines, so that tests can replace them. */
#ifndef YK_STUDY_DRIVER_H
#define YK_STUDY_DRIVER_H

#include "base/json_tree.h"

/* All functions get user and block until they are done. A returned json_t belongs to the caller. */
typedef struct yk_study_driver {
  void *user;
  /* Start an engine of a configuration; the previous one has been stopped. *info: an object with the engine's
   * properties; "dtype", "kv_cache_dtype", "weights" and "lm_head" determine the limits of its points. YK_E_CAPACITY,
   * YK_E_UNSUPPORTED and YK_E_INVAL make the configuration impossible; other errors end the study. */
  yk_status (*start)(void *user, size_t config, json_t **info, yk_err *err);
  /* One measured run of a point. *figures: an object of numbers by name, and, if there are warnings, "warnings", an
   * array of texts. YK_E_CANCELLED: the run was stopped. */
  yk_status (*run)(void *user, size_t point, json_t **figures, yk_err *err);
  /* One run with timestamps. *times: {"decode", "prefill" (or null), "by_rank", "slowest"}, see bench/times.h. */
  yk_status (*profile)(void *user, size_t point, json_t **times, yk_err *err);
  /* After a failed run: YK_OK if the engine can continue with other points. */
  yk_status (*check)(void *user, yk_err *err);
  void (*stop)(void *user);
} yk_study_driver;

#endif
