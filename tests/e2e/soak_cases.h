/* soak_cases.h - the soak's requests: distinct requests of every kind over slices of one text, each with its answer
 * when run alone. */
#ifndef TESTS_E2E_SOAK_CASES_H
#define TESTS_E2E_SOAK_CASES_H

#include "e2e/engine_fixture.h"

enum { SOAK_MAX_PROMPT = 300, SOAK_MAX_OUTPUT = 180 };
_Static_assert((int)SOAK_MAX_PROMPT <= (int)ANSWER_MAX_PROMPT && (int)SOAK_MAX_OUTPUT <= (int)ANSWER_MAX_TOKENS,
               "answers hold them");

typedef struct soak_case {
  yk_request_options options; /* its ids point into the text, all other pointers into this case */
  yk_logit_bias bias;
  int32_t stop_id;
  const char *stop_string;
  bool is_greedy; /* without biases on the logits, so that margins are those of the choice */
  answer alone;
} soak_case;

typedef struct soak_cases {
  int32_t *text;
  size_t n_text;
  soak_case *cases;
  int n_cases;
} soak_cases;

/* The same seed gives the same cases. The text is <model_dir>/heldout.txt. Fails the test if it cannot be read. */
void soak_cases_create(soak_cases *out, yk_engine *engine, const char *model_dir, int n_cases, uint64_t seed);

/* Run each alone on an otherwise idle engine. */
void soak_cases_answer(soak_cases *cases, yk_engine *engine);
void soak_cases_destroy(soak_cases *cases);

/* A number from 0 to n - 1 that depends on all of these. */
int32_t soak_draw(uint64_t seed, uint32_t item, uint32_t what, int32_t n);

#endif
