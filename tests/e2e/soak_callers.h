/* soak_callers.h - threads that submit, read, cancel, drop and hold sequences, and compare all results with those of
 * the same request alone. */
#ifndef TESTS_E2E_SOAK_CALLERS_H
#define TESTS_E2E_SOAK_CALLERS_H

#include "e2e/soak_cases.h"
#include "e2e/soak_report.h"

/* Largest differences from the same request alone; 0: none. */
typedef struct soak_limits {
  float margin;  /* margin below which a different greedy token is allowed */
  float logprob; /* of greedy tokens */
  float rare;    /* of drawn and of prompt tokens */
} soak_limits;

typedef struct soak_run {
  yk_engine *engine;
  const soak_cases *cases;
  soak_limits limits;
  uint64_t seed;
  int n_threads;
  double budget_s;     /* begin no more requests after this time */
  double time_limit_s; /* counts as a hang if it is not done by then */
} soak_run;

/* Submit requests first .. end - 1 from n_threads threads, and wait for all threads. Returns false if they are not done
 * within the time limit; then they still run, and the objects after run must stay valid. Counts and examples are added
 * to. */
bool soak_callers_run(const soak_run *run, int first, int end, soak_counts *counts, soak_examples *examples);

#endif
