#include "e2e/soak_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"

enum { N_SHARED_BEGINNINGS = 8 };

enum draws { /* random draws of a case */
             FIRST,
             WHICH_BEGINNING,
             PROMPT_RANGE,
             PROMPT,
             OUTPUT_RANGE,
             OUTPUT,
             KIND,
             PENALTY,
             EOS,
             STOP_STRING,
             STOP_ID,
             BIAS,
             LOGPROBS,
             PROMPT_LOGPROBS,
             FILTER,
             MIN_TOKENS,
             TEMPERATURE,
             SEED
};

int32_t soak_draw(uint64_t seed, uint32_t item, uint32_t what, int32_t n)
{
  return (int32_t)(yk_rng_uniform(seed, what, item) * (float)n);
}

static void read_text(soak_cases *out, const yk_engine *engine, const char *model_dir)
{
  enum { MAX_BYTES = 1 << 16 };
  char path[1024], *text = malloc(MAX_BYTES);
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, "%s/heldout.txt", model_dir);
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s: cannot be read", path);
  size_t n_bytes = fread(text, 1, MAX_BYTES, file);
  fclose(file);
  if (yk_engine_tokenize(engine, text, n_bytes, true, &out->text, &out->n_text, &err) != YK_OK)
    fail_msg("%s: %s", path, err.message);
  free(text);
  assert_true(out->n_text > 4 * SOAK_MAX_PROMPT);
}

/* Most are short, so that many run at once and their outputs exceed the memory. Half of the prompts begin at one of a
 * few positions, so that they share prefixes. */
static void choose_prompt(const soak_cases *all, yk_request_options *options, uint64_t seed, uint32_t i)
{
  static const int32_t longest[] = {8, 8, 8, 16, 16, 16, 24, 24, 32, 32, 48, 48, 64, 64, 120, SOAK_MAX_PROMPT};
  int32_t n = 1 + soak_draw(seed, i, PROMPT, longest[soak_draw(seed, i, PROMPT_RANGE, 16)]);
  int32_t n_places = (int32_t)all->n_text - SOAK_MAX_PROMPT;
  int32_t first = soak_draw(seed, i, FIRST, n_places);
  int32_t beginning = soak_draw(seed, i, WHICH_BEGINNING, 2 * N_SHARED_BEGINNINGS);
  if (beginning < N_SHARED_BEGINNINGS) first = beginning * (n_places / N_SHARED_BEGINNINGS);
  options->ids = all->text + first;
  options->n_ids = (size_t)n;
}

static void choose_length(yk_sampling *s, uint64_t seed, uint32_t i)
{
  static const int32_t longest[] = {12, 120, SOAK_MAX_OUTPUT};
  s->max_tokens = 1 + soak_draw(seed, i, OUTPUT, longest[soak_draw(seed, i, OUTPUT_RANGE, 3)]);
  s->ignore_eos = soak_draw(seed, i, EOS, 5) > 0;
}

static void choose_penalties(soak_case *c, int32_t vocab, uint64_t seed, uint32_t i)
{
  yk_sampling *s = &c->options.sampling;
  int32_t which = soak_draw(seed, i, PENALTY, 4);
  if (which == 0) s->repetition_penalty = 1.2f;
  if (which == 1) s->frequency_penalty = 0.5f;
  if (which == 2) s->presence_penalty = -0.5f;
  if (which == 3) {
    c->bias = (yk_logit_bias){soak_draw(seed, i, BIAS, vocab), 3};
    s->biases = &c->bias;
    s->n_biases = 1;
  }
  if (soak_draw(seed, i, MIN_TOKENS, 4) == 0) s->min_tokens = s->max_tokens / 2;
}

static void choose_sampling(yk_sampling *s, int32_t vocab, uint64_t seed, uint32_t i)
{
  int32_t filter = soak_draw(seed, i, FILTER, 4);
  s->temperature = 0.5f + 0.25f * (float)soak_draw(seed, i, TEMPERATURE, 5);
  if (filter == 1) s->top_p = 0.9f;
  if (filter == 2) s->top_k = 1 + soak_draw(seed, i, FILTER + 100, vocab - 1);
  if (filter == 3) s->min_p = 0.05f;
  s->has_seed = true;
  s->seed = (uint64_t)soak_draw(seed, i, SEED, 1 << 20);
  s->sample_index = soak_draw(seed, i, SEED + 100, 4);
}

static void choose_stops(soak_case *c, int32_t vocab, uint64_t seed, uint32_t i)
{
  static const char *const strings[] = {" the", ".", "?", "ar", ": ", " 1"};
  yk_sampling *s = &c->options.sampling;
  int32_t string = soak_draw(seed, i, STOP_STRING, 60);
  if (string < 6) {
    c->stop_string = strings[string];
    s->stop_strings = &c->stop_string;
    s->n_stop_strings = 1;
  }
  if (soak_draw(seed, i, STOP_ID, 10) == 0) {
    c->stop_id = soak_draw(seed, i, STOP_ID + 100, vocab);
    s->stop_ids = &c->stop_id;
    s->n_stop_ids = 1;
  }
}

static void choose_case(const soak_cases *all, soak_case *c, yk_engine *engine, uint64_t seed, uint32_t i)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  yk_sampling *s = &c->options.sampling;
  int32_t kind = soak_draw(seed, i, KIND, 20);
  yk_request_options_init(engine, &c->options);
  choose_prompt(all, &c->options, seed, i);
  choose_length(s, seed, i);
  choose_stops(c, info.vocab_size, seed, i);
  s->temperature = 0;
  c->is_greedy = kind < 10;
  s->n_logprobs = c->is_greedy ? 2 : soak_draw(seed, i, LOGPROBS, 4) - 1;
  if (soak_draw(seed, i, PROMPT_LOGPROBS, 10) == 0) s->n_prompt_logprobs = soak_draw(seed, i, LOGPROBS, 3);
  if (kind >= 10) choose_sampling(s, info.vocab_size, seed, i);
  if (kind >= 16) s->temperature = 0;
  if (kind >= 14) choose_penalties(c, info.vocab_size, seed, i);
}

void soak_cases_create(soak_cases *out, yk_engine *engine, const char *model_dir, int n_cases, uint64_t seed)
{
  *out = (soak_cases){.cases = calloc((size_t)n_cases, sizeof *out->cases), .n_cases = n_cases};
  assert_non_null(out->cases);
  read_text(out, engine, model_dir);
  for (int i = 0; i < n_cases; i++) choose_case(out, &out->cases[i], engine, seed, (uint32_t)i);
}

void soak_cases_answer(soak_cases *cases, yk_engine *engine)
{
  for (int i = 0; i < cases->n_cases; i++) {
    soak_case *c = &cases->cases[i];
    fixture_answer(engine, &c->options, &c->alone);
    if (c->alone.finish == YK_FINISH_ERROR) fail_msg("case %d: %s", i, c->alone.error.message);
  }
}

void soak_cases_destroy(soak_cases *cases)
{
  free(cases->text);
  free(cases->cases);
}
