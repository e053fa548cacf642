/* runner.h - the loop of a study: takes its items in order, starts an engine if the next item needs another one, and
 * records finished work in the journal before it continues. */
#ifndef YK_STUDY_RUNNER_H
#define YK_STUDY_RUNNER_H

#include "study/driver.h"
#include "study/estimate.h"
#include "study/journal.h"
#include "study/records.h"

typedef struct yk_study_progress {
  size_t n_done, n_items;
  double left_s;
  size_t point;       /* the running point */
  bool starts_engine; /* an engine of the point's configuration is being started */
} yk_study_progress;

typedef struct yk_study_run {
  const yk_study_item *items; /* [n_items] */
  size_t n_items;
  yk_study_journal *journal;
  yk_study_records *records; /* includes the work of earlier sessions */
  yk_study_estimate *estimate;
  const yk_study_driver *driver;
  bool (*stops)(void *user);                                       /* called before each item */
  void (*progress)(void *user, const yk_study_progress *progress); /* called before each item and each start */
  void *user;
} yk_study_run;

/* yk_study_run_items - run until all items are done or stops returns true: *stopped. The engine has been stopped in any
 *   case. A run that fails alone makes its point impossible, with the reason. Errors: those of the journal and of
 *   engine starts, and of runs after which the engine cannot continue; all finished items are then in the journal. */
yk_status yk_study_run_items(yk_study_run *run, bool *stopped, yk_err *err);

#endif
