/* driver.h - what a study runs: starts of an engine and runs of points on it. The study's loop knows nothing else of
 * engines, so that tests can give it one that is made of numbers. */
#ifndef YK_STUDY_DRIVER_H
#define YK_STUDY_DRIVER_H

#include "base/json_tree.h"

/* All functions get user and block until they are done. A json_t that is handed out is the caller's. */
typedef struct yk_study_driver {
  void *user;
  /* Start an engine of a configuration; the one before has been stopped. *info: an object of what the engine settled
   * on; "dtype", "kv_cache_dtype" and "weights" decide the limits of its points. YK_E_CAPACITY, YK_E_UNSUPPORTED and
   * YK_E_INVAL make the configuration impossible; other errors end the study. */
  yk_status (*start)(void *user, size_t config, json_t **info, yk_err *err);
  /* One measured run of a point. *figures: an object of numbers by name, and "warnings", an array of texts, where there
   * are any. YK_E_CANCELLED: it was told to stop. */
  yk_status (*run)(void *user, size_t point, json_t **figures, yk_err *err);
  /* One run with time stamps. *times: {"decode", "prefill" (or null), "by_rank", "slowest"}, see bench/times.h. */
  yk_status (*profile)(void *user, size_t point, json_t **times, yk_err *err);
  /* After a run that failed: YK_OK where the engine can go on with other points. */
  yk_status (*check)(void *user, yk_err *err);
  void (*stop)(void *user);
} yk_study_driver;

#endif
