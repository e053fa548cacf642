/* soak_callers.h - threads that submit, read, cancel, walk away and hold sequences, and compare all they read with what
 * the same request gave alone.                                                                                       */
#ifndef TESTS_E2E_SOAK_CALLERS_H
#define TESTS_E2E_SOAK_CALLERS_H

#include "e2e/soak_cases.h"

typedef struct soak_counts {
  int64_t submitted, finished, cancelled, left; /* left: freed before their end */
  int64_t sequences;
  int64_t greedy_equal, greedy_near_tie, other_equal, other_parted; /* of the finished */
  int64_t wrong; /* another token above the margin, log-probability, text, end; a call that failed or waited too long */
  float worst_logprob, worst_rare_logprob; /* differences */
} soak_counts;

/* Submit requests first .. end - 1 from n_threads threads, and wait for all threads.
 * Returns false where they are not done within time_limit_s; then they still run. Counts are added to.                */
bool soak_callers_run(yk_engine *engine, const soak_cases *cases, uint64_t seed, int first, int end, int n_threads,
                      double time_limit_s, soak_counts *counts);

#endif
