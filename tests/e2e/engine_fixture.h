/* engine_fixture.h - an engine on one of the tiny golden models, whole answers from it, and the comparison of two
 * answers. */
#ifndef TESTS_E2E_ENGINE_FIXTURE_H
#define TESTS_E2E_ENGINE_FIXTURE_H

#include "e2e/backend.h"

enum { ANSWER_MAX_TOKENS = 256, ANSWER_MAX_PROMPT = 512 };

typedef struct answer {
  int32_t n;
  int32_t ids[ANSWER_MAX_TOKENS];
  float logprobs[ANSWER_MAX_TOKENS];
  int32_t best_ids[ANSWER_MAX_TOKENS]; /* of the largest raw logits */
  float margins[ANSWER_MAX_TOKENS];    /* log-probability of the best less that of the second best */
  int32_t n_prompt;
  int32_t prompt_ids[ANSWER_MAX_PROMPT];
  float prompt_logprobs[ANSWER_MAX_PROMPT];
  char text[4096];
  yk_finish_reason finish;
  yk_err error;
  yk_request_usage usage;
} answer;

/* For main: 0 if the environment's device is present, else the exit status. */
int fixture_gate(void);

/* Options for tests/golden/families/<model> on n_ranks CPU ranks in float32, or on the environment's device. */
yk_engine_options fixture_options(const char *model, int n_ranks);

/* A test of rank counts tries 1 to this many: 1 if the environment has chosen, 3 under a sanitizer. */
int fixture_most_ranks(void);

/* Whether opening an engine takes seconds, as on GPUs, which connect; then tests open fewer. */
bool fixture_opens_slowly(void);

/* Whether a request has the same bits on the device with any concurrent requests (backend.h). */
bool fixture_same_bits(void);

/* kv_cache_bytes for at least this many tokens, on the rank that needs most per token. */
int64_t fixture_kv_bytes(const yk_engine_options *options, int32_t n_tokens);
yk_engine *fixture_open(const yk_engine_options *options);

/* Checks that no request remains and every KV block is free, then destroys the engine. */
void fixture_close(yk_engine *engine);

/* Greedy, ignoring end-of-sequence, with the log-probabilities of the two best. */
yk_request_options fixture_request(yk_engine *engine, const int32_t *ids, size_t n_ids, int32_t max_tokens);
yk_request *fixture_submit(yk_engine *engine, const yk_request_options *options);

/* Appends the contents of one output. */
void fixture_take(answer *out, const yk_output *output);

/* Read to the end and free. */
void fixture_read(yk_request *request, answer *out);
void fixture_answer(yk_engine *engine, const yk_request_options *options, answer *out);

/* A prompt of n ids, different for each seed. */
void fixture_prompt(uint32_t seed, int32_t vocab, int32_t *ids, int32_t n);

/* The same request twice, with any other requests. CPU: the same bits. GPUs: up to a near tie (backend.h). Drawn tokens
 * may also differ at a draw near the border of two ids, though not before half of the tokens. */
void assert_same_answer(const answer *found, const answer *expected);
/* The same comparison of the found tokens, of which there may be fewer. */
void assert_same_beginning(const answer *found, const answer *expected);
/* The same request on another number of ranks: sums differ in their last bits on every device. */
void assert_close_answer(const answer *found, const answer *expected);

/* Log-probabilities of given tokens, or raw logits. CPU: the same bits. GPUs: close. */
void assert_same_numbers(const float *found, const float *expected, size_t n);
void assert_close_numbers(const float *found, const float *expected, size_t n);

/* Whether a different token is acceptable there; never on CPU. */
bool fixture_near_tie(const answer *expected, int32_t step);

#endif
