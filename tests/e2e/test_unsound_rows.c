/* A row with non-finite logits fails its own sequence and no other. The models are golden ones whose embedding of two
 * ids was overwritten, by NaNs and by infinities: a request is unsound if such an id is in its prompt or is drawn. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "yoke/process.h"

enum { VOCAB = 200, SOUND_VOCAB = 198, NAN_ID = 198, INFINITE_ID = 199, PROMPT = 64, OUTPUT = 12 };

typedef struct poisoned_model {
  char dir[64];
} poisoned_model;

static char *read_whole(const char *dir, const char *name, size_t *n_bytes)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *n_bytes = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*n_bytes);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *n_bytes, file), *n_bytes);
  fclose(file);
  return bytes;
}

static void write_whole(const char *dir, const char *name, const char *bytes, size_t n_bytes)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
  assert_int_equal(fclose(file), 0);
}

/* Overwrite one row of a float16 matrix [VOCAB, n_columns] of a safetensors file. */
static void fill_row(char *file, const char *tensor, int row, uint16_t bits)
{
  uint64_t header_bytes;
  memcpy(&header_bytes, file, sizeof header_bytes);
  json_t *header = json_loadb(file + 8, header_bytes, 0, NULL);
  long long rows, columns, begin, end;
  const char *dtype;
  assert_int_equal(json_unpack(header, "{s:{s:s, s:[I, I], s:[I, I]}}", tensor, "dtype", &dtype, "shape", &rows,
                               &columns, "data_offsets", &begin, &end),
                   0);
  assert_string_equal(dtype, "F16");
  assert_int_equal(rows, VOCAB);
  for (long long i = 0; i < columns; i++)
    memcpy(file + 8 + header_bytes + begin + (row * columns + i) * 2, &bits, sizeof bits);
  json_decref(header);
}

/* A copy of a golden model. If lm_head_row is not negative, that row of lm_head is NaN instead of the embeddings. */
static poisoned_model poison(const char *family, int lm_head_row)
{
  enum { F16_NAN = 0x7E00, F16_INFINITY = 0x7C00 };
  poisoned_model model = {"/tmp/yoke-unsound-XXXXXX"};
  assert_non_null(mkdtemp(model.dir));
  char source[512];
  size_t n_bytes;
  snprintf(source, sizeof source, "%s/golden/families/%s", test_data_dir(), family);
  char *config = read_whole(source, "config.json", &n_bytes);
  write_whole(model.dir, "config.json", config, n_bytes);
  free(config);
  char *weights = read_whole(source, "model.safetensors", &n_bytes);
  if (lm_head_row >= 0) {
    fill_row(weights, "lm_head.weight", lm_head_row, F16_NAN);
  } else {
    fill_row(weights, "model.embed_tokens.weight", NAN_ID, F16_NAN);
    fill_row(weights, "model.embed_tokens.weight", INFINITE_ID, F16_INFINITY);
  }
  write_whole(model.dir, "model.safetensors", weights, n_bytes);
  free(weights);
  return model;
}

static void remove_model(const poisoned_model *model)
{
  char path[128];
  snprintf(path, sizeof path, "%s/config.json", model->dir);
  unlink(path);
  snprintf(path, sizeof path, "%s/model.safetensors", model->dir);
  unlink(path);
  rmdir(model->dir);
}

static yk_engine *open_model(const poisoned_model *model, int n_ranks)
{
  yk_engine_options options = fixture_options("llama", n_ranks);
  options.model_dir = model->dir;
  return fixture_open(&options);
}

/* A sound prompt with the unsound id at one position, or nowhere (-1). */
static void make_prompt(uint32_t seed, int place, int32_t id, int32_t *prompt)
{
  fixture_prompt(seed, SOUND_VOCAB, prompt, PROMPT);
  if (place >= 0) prompt[place] = id;
}

static void assert_failed_alone(const answer *found, const char *words)
{
  assert_int_equal(found->finish, YK_FINISH_ERROR);
  assert_int_equal(found->error.code, YK_E_DEVICE);
  if (!strstr(found->error.message, words)) fail_msg("expected \"%s\" in the message: %s", words, found->error.message);
}

/* The second sees 16 tokens in every layer. The last two route non-finite rows, and have latent attention. */
static const struct {
  const char *name;
  bool expert_parallel;
} FAMILIES[] = {{"llama", false}, {"mistral", false}, {"moe_qwen3", true}, {"deepseek_v2", false}};
enum { N_DENSE = 2, N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

/* Sound and unsound requests together: the sound ones answer as they do alone, several times over, in blocks that the
 * unsound ones leave full of NaNs; chunks are shorter than the prompts. */
static void sound_requests_do_not_notice(void **state)
{
  (void)state;
  enum { N = 6 };
  static answer alone[N], together[N], failed[N];
  size_t n_families = fixture_same_bits() ? N_FAMILIES : N_DENSE; /* rounding turns near ties of routers */
  for (size_t f = 0; f < n_families; f++)
    for (int n_ranks = 1; n_ranks <= fixture_most_ranks(); n_ranks = 2 * n_ranks + 1) {
      poisoned_model model = poison(FAMILIES[f].name, -1);
      yk_engine_options options = fixture_options("llama", n_ranks);
      options.model_dir = model.dir;
      options.expert_parallel = FAMILIES[f].expert_parallel;
      options.kv_cache_bytes = fixture_kv_bytes(&options, 4 * (PROMPT + OUTPUT));
      yk_engine *engine = fixture_open(&options);
      int32_t sound[N][PROMPT], unsound[N][PROMPT];
      yk_request_options requests[N];
      for (int i = 0; i < N; i++) {
        make_prompt((uint32_t)i, -1, 0, sound[i]);
        make_prompt((uint32_t)i, PROMPT - 1 - 12 * i, i % 2 ? INFINITE_ID : NAN_ID, unsound[i]); /* part of it shared */
        requests[i] = fixture_request(engine, sound[i], PROMPT, OUTPUT);
        fixture_answer(engine, &requests[i], &alone[i]);
      }
      for (int round = 0; round < 3; round++) {
        yk_request *good[N], *bad[N];
        for (int i = 0; i < N; i++) {
          yk_request_options request = fixture_request(engine, unsound[i], (size_t)(PROMPT - round), OUTPUT);
          request.sampling.n_prompt_logprobs = round == 2 ? 0 : -1;
          bad[i] = fixture_submit(engine, &request);
          good[i] = fixture_submit(engine, &requests[i]);
        }
        for (int i = 0; i < N; i++) {
          fixture_read(good[i], &together[i]);
          fixture_read(bad[i], &failed[i]);
          assert_same_answer(&together[i], &alone[i]);
          /* A window of 16 tokens after the id is unaffected by it. */
          bool sees_it = f != 1 || (i == 0 && round == 0) || round == 2;
          if (sees_it && (i > 0 || round == 0)) assert_failed_alone(&failed[i], "a logit is NaN");
        }
      }
      assert_int_equal(yk_engine_check(engine, NULL), YK_OK);
      fixture_close(engine);
      remove_model(&model);
    }
}

/* The id is drawn: the output up to that token is delivered, and blocks of the prompt with finite logits remain usable
 * by others. */
static void a_request_may_fail_after_some_tokens(void **state)
{
  (void)state;
  static answer found;
  poisoned_model model = poison("llama", -1);
  yk_engine *engine = open_model(&model, 2);
  int32_t prompt[PROMPT];
  make_prompt(3, -1, 0, prompt);
  yk_request_options request = fixture_request(engine, prompt, PROMPT, OUTPUT), sound = request;
  yk_logit_bias bias = {NAN_ID, 100};
  fixture_answer(engine, &sound, &found);
  assert_int_equal(found.usage.reused_tokens, 0);
  request.sampling.biases = &bias;
  request.sampling.n_biases = 1;
  fixture_answer(engine, &request, &found);
  assert_int_equal(found.n, 1);
  assert_int_equal(found.ids[0], NAN_ID);
  assert_failed_alone(&found, "position 64 ");
  yk_engine_stats stats;
  yk_engine_get_stats(engine, &stats);
  assert_int_equal(stats.requests_failed, 1);
  assert_int_equal(stats.output_tokens, OUTPUT + 1);
  fixture_answer(engine, &sound, &found);
  assert_true(found.usage.reused_tokens >= PROMPT / 2);
  fixture_close(engine);
  remove_model(&model);
}

/* For a greedy request without log-probabilities, ranks return only their best logits. */
static void a_plain_request_fails_too(void **state)
{
  (void)state;
  static answer found;
  static const int32_t ids[] = {NAN_ID, INFINITE_ID};
  poisoned_model model = poison("llama", -1);
  yk_engine *engine = open_model(&model, 2);
  int32_t prompt[PROMPT];
  for (size_t i = 0; each_case(i, i < sizeof ids / sizeof *ids); i++) {
    make_prompt(3, PROMPT - 1, ids[i], prompt);
    yk_request_options request = fixture_request(engine, prompt, PROMPT, OUTPUT);
    request.sampling.n_logprobs = -1;
    fixture_answer(engine, &request, &found);
    assert_int_equal(found.n, 0);
    assert_failed_alone(&found, "a logit is NaN");
  }
  fixture_close(engine);
  remove_model(&model);
}

static void assert_refused(yk_status status, const yk_err *err, const char *words)
{
  assert_int_equal(status, YK_E_DEVICE);
  if (!strstr(err->message, words)) fail_msg("expected \"%s\" in the message: %s", words, err->message);
}

/* An append fails and leaves the sequence unchanged, also if an earlier one without logits is the cause. */
static void a_held_sequence_stays_as_it_was(void **state)
{
  (void)state;
  static float before[VOCAB], after[VOCAB], all[PROMPT * VOCAB];
  poisoned_model model = poison("llama", -1);
  yk_engine *engine = open_model(&model, 2);
  yk_held_sequence *sequence, *fresh, *fork;
  yk_err err = YK_ERR_INIT;
  int32_t ids[PROMPT], bad = NAN_ID, next = 7;
  make_prompt(9, -1, 0, ids);
  assert_int_equal(yk_held_sequence_create(engine, &fresh, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_create(engine, &sequence, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(fresh, ids, PROMPT, YK_LOGITS_NONE, NULL, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(fresh, &next, 1, YK_LOGITS_LAST, before, NULL), YK_OK);
  yk_held_sequence_free(fresh);

  assert_int_equal(yk_held_sequence_append(sequence, ids, PROMPT, YK_LOGITS_NONE, NULL, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_fork(sequence, &fork, NULL), YK_OK);
  assert_refused(yk_held_sequence_append(sequence, &bad, 1, YK_LOGITS_LAST, after, &err), &err, "position 64 ");
  assert_int_equal(yk_held_sequence_length(sequence), PROMPT);
  assert_int_equal(yk_held_sequence_append(sequence, &next, 1, YK_LOGITS_LAST, after, NULL), YK_OK);
  assert_same_numbers(after, before, VOCAB);
  assert_int_equal(yk_held_sequence_append(fork, &next, 1, YK_LOGITS_LAST, after, NULL), YK_OK);
  assert_same_numbers(after, before, VOCAB);

  assert_int_equal(yk_held_sequence_truncate(sequence, PROMPT, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, &bad, 1, YK_LOGITS_NONE, NULL, NULL), YK_OK);
  yk_err_clear(&err);
  assert_refused(yk_held_sequence_append(sequence, ids, 20, YK_LOGITS_ALL, all, &err), &err, "position 65 ");
  assert_int_equal(yk_held_sequence_length(sequence), PROMPT + 1);
  assert_int_equal(yk_held_sequence_truncate(sequence, PROMPT, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(sequence, &next, 1, YK_LOGITS_LAST, after, NULL), YK_OK);
  assert_same_numbers(after, before, VOCAB);
  yk_held_sequence_free(fork);
  yk_held_sequence_free(sequence);
  fixture_close(engine);
  remove_model(&model);
}

/* If the model itself is unsound, every request fails, requests of one step are named, and the engine continues with
 * the next. */
static void a_broken_model_is_suspected(void **state)
{
  (void)state;
  enum { N = 8, MOST_ROUNDS = 50 };
  static answer found;
  poisoned_model model = poison("llama", VOCAB - 1);
  yk_engine *engine = open_model(&model, 3);
  int32_t prompts[N][PROMPT];
  int n_suspecting = 0, round = 0;
  for (; n_suspecting == 0 && round < MOST_ROUNDS; round++) { /* until several have been in one step */
    yk_request *requests[N];
    for (int i = 0; i < N; i++) {
      make_prompt((uint32_t)i, -1, 0, prompts[i]);
      yk_request_options request = fixture_request(engine, prompts[i], PROMPT / 4, OUTPUT);
      requests[i] = fixture_submit(engine, &request);
    }
    for (int i = 0; i < N; i++) {
      fixture_read(requests[i], &found);
      assert_failed_alone(&found, "a logit is NaN");
      assert_int_equal(found.n, 0);
      n_suspecting += strstr(found.error.message, "the model or the device is suspect") != NULL;
    }
    assert_int_equal(yk_engine_check(engine, NULL), YK_OK);
  }
  assert_true(n_suspecting > 1);
  fixture_close(engine);
  remove_model(&model);
}

static void expect_all_banned(yk_engine *engine, const yk_request_options *request)
{
  static answer found;
  fixture_answer(engine, request, &found);
  assert_int_equal(found.finish, YK_FINISH_ERROR);
  assert_int_equal(found.error.code, YK_E_INVAL);
  assert_non_null(strstr(found.error.message, "bad words and the end ids of min_tokens together ban every token"));
}

/* min_tokens with the whole vocabulary as stop ids, or bad words, ban every token. Only that request fails. */
static void a_request_that_bans_every_token_is_refused(void **state)
{
  (void)state;
  static answer found;
  yk_engine_options options = fixture_options("llama", 2);
  yk_engine *engine = fixture_open(&options);
  int32_t prompt[PROMPT], stops[VOCAB];
  make_prompt(3, -1, 0, prompt);
  yk_token_ids words[VOCAB];
  for (int32_t i = 0; i < VOCAB; i++) {
    stops[i] = i;
    words[i] = (yk_token_ids){&stops[i], 1};
  }
  yk_request_options request = fixture_request(engine, prompt, PROMPT, OUTPUT);
  request.sampling.stop_ids = stops;
  request.sampling.n_stop_ids = VOCAB;
  request.sampling.min_tokens = 2;
  expect_all_banned(engine, &request);
  request.sampling.min_tokens = 0;
  fixture_answer(engine, &request, &found);
  assert_int_equal(found.finish, YK_FINISH_STOP);
  assert_int_equal(found.n, 1);
  request.sampling.n_stop_ids = 0;
  request.sampling.bad_words = words;
  request.sampling.n_bad_words = VOCAB;
  expect_all_banned(engine, &request);
  fixture_close(engine);
}

int main(void)
{
  yk_process_init();
  int gate = fixture_gate();
  if (gate) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sound_requests_do_not_notice), cmocka_unit_test(a_request_may_fail_after_some_tokens),
      cmocka_unit_test(a_plain_request_fails_too),    cmocka_unit_test(a_held_sequence_stays_as_it_was),
      cmocka_unit_test(a_broken_model_is_suspected),  cmocka_unit_test(a_request_that_bans_every_token_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
