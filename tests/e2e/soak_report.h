/* soak_report.h - counts of a soak, and the worst deviations from the answers alone. */
#ifndef TESTS_E2E_SOAK_REPORT_H
#define TESTS_E2E_SOAK_REPORT_H

#include <pthread.h>

#include "yoke/yoke.h"

enum { SOAK_MAX_EXAMPLES = 20 };

typedef enum soak_deviation_kind {
  SOAK_PARTED,         /* another token, for greedy requests */
  SOAK_LOGPROB,        /* the same token with another log-probability, beyond the tolerance */
  SOAK_PROMPT_LOGPROB, /* the same for a token of the prompt */
  SOAK_SEQUENCE        /* another best token for a held sequence */
} soak_deviation_kind;

/* A token that differs from the one of the same request alone. */
typedef struct soak_deviation {
  soak_deviation_kind kind;
  int request, soak_case;
  int32_t at, n_prompt; /* position among the tokens of the output (of the prompt), length of the prompt */
  int32_t found_id, expected_id;
  float found_logprob, expected_logprob;
  float found_margin, expected_margin; /* to the second best; INFINITY if it was not requested */
  float size;                          /* its margin alone, or the difference of the log-probabilities, in tolerances */
} soak_deviation;

typedef struct soak_counts {
  int64_t submitted, finished, cancelled, left; /* dropped: freed before their end */
  int64_t sequences;
  int64_t greedy_equal, greedy_near_tie, other_equal, other_parted; /* finished requests */
  int64_t greedy_tokens;                                            /* compared */
  int64_t wrong; /* another token above the margin, another text or end; a call that failed or waited too long */
  int64_t logprobs, logprobs_beyond;       /* compared, and the number that differs by more than the tolerance */
  float worst_logprob, worst_rare_logprob; /* differences */
  float widest_tie;                        /* the wider margin of the two at a near tie */
} soak_counts;

void soak_counts_add(soak_counts *sum, const soak_counts *more);

/* The worst deviations, each token of a case once, and the first errors in words. Thread-safe for additions. */
typedef struct soak_examples {
  pthread_mutex_t lock;
  soak_deviation worst[SOAK_MAX_EXAMPLES];
  int n, n_complaints;
} soak_examples;

void soak_examples_init(soak_examples *examples);
void soak_examples_add(soak_examples *examples, const soak_deviation *deviation);

/* The first errors are printed at once. */
__attribute__((format(printf, 3, 4))) void soak_examples_complain(soak_examples *examples, int request,
                                                                  const char *format, ...);

/* The counts, then the examples, the worst first. */
void soak_report_print(const soak_counts *counts, soak_examples *examples);

#endif
