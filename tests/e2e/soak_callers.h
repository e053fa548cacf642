/* soak_callers.h - threads that submit, read, cancel, walk away and hold sequences, and compare all they read with what
 * the same request gave alone. */
#ifndef TESTS_E2E_SOAK_CALLERS_H
#define TESTS_E2E_SOAK_CALLERS_H

#include "e2e/soak_cases.h"
#include "e2e/soak_report.h"

/* How far a run may be from the same alone; 0: not at all. */
typedef struct soak_limits {
  float margin;  /* by which a greedy token may be the second best */
  float logprob; /* of greedy tokens */
  float rare;    /* of drawn and of prompt tokens */
} soak_limits;

typedef struct soak_run {
  yk_engine *engine;
  const soak_cases *cases;
  soak_limits limits;
  uint64_t seed;
  int n_threads;
  double budget_s;     /* begin no more requests after this long */
  double time_limit_s; /* it hangs where it is not done by then */
} soak_run;

/* Submit requests first .. end - 1 from n_threads threads, and wait for all threads. Returns false where they are not
 * done within the time limit; then they still run, and what run points to must stay. Counts and examples are added
 * to. */
bool soak_callers_run(const soak_run *run, int first, int end, soak_counts *counts, soak_examples *examples);

#endif
