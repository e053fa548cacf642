/* bench_masks.c - the cost of a constraint per token: the matcher accepts a token and fills the mask of the next (the
 * engine's thread, while the ranks compute), and a CPU rank samples a row with the mask. Times are processor times of
 * the thread. Tokens are drawn among those of the mask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "grammar/grammars.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/device.h"
#include "yoke/process.h"

static const char SCHEMA[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\"}, "
    "\"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"maxLength\": 20}}, \"place\": {\"type\": "
    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"zip\": {\"type\": \"string\", \"pattern\": "
    "\"^[0-9]{5}$\"}}, \"required\": [\"city\", \"zip\"]}}, \"required\": [\"name\", \"age\", \"tags\", \"place\"]}";

enum { ACCEPT, FILL, SAMPLE, SAMPLE_FREE, N_PARTS };
static const char *const part_names[N_PARTS] = {"accept", "fill", "sample with the mask", "sample without"};

typedef struct bench {
  int32_t n_ids, end_id, n_tokens;
  yk_device *device;
  float *logits;
  uint32_t *words;
  double *us[N_PARTS]; /* [n_tokens] */
} bench;

static double thread_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* One row at temperature 1, with the mask or without. */
static int32_t sample(bench *b, uint32_t position, bool has_mask)
{
  yk_err err = YK_ERR_INIT;
  yk_sampled out;
  const int32_t shard_first[] = {0, b->n_ids};
  const yk_sample_row row = {
      .temperature = 1, .top_p = 1, .seed = 1, .position = position, .repetition_penalty = 1, .has_mask = has_mask};
  const yk_sample_args args = {.logits = b->logits,
                               .n_rows = 1,
                               .n_shards = 1,
                               .shard_stride = b->n_ids,
                               .shard_first = shard_first,
                               .rows = &row,
                               .masks = b->words,
                               .out = &out};
  if (b->device->ops->sample(b->device, &args, &err) == YK_OK && out.state == YK_ROW_SAMPLED) return out.token_id;
  fprintf(stderr, "bench_masks: no token at position %u: %s\n", position, err.message);
  exit(1);
}

/* An answer; begins again at its end. */
static yk_status run(bench *b, yk_matcher *matcher, yk_err *err)
{
  for (int32_t n = 0; n < b->n_tokens; n++) {
    double start = thread_us();
    YK_TRY(yk_matcher_fill(matcher, b->words, err));
    double filled = thread_us();
    int32_t id = sample(b, (uint32_t)n, true);
    double sampled = thread_us();
    sample(b, (uint32_t)n, false);
    double free_sampled = thread_us();
    if (id == b->end_id)
      yk_matcher_restart(matcher);
    else if (!yk_matcher_accept(matcher, id))
      return yk_err_set(err, YK_E_INTERNAL, "id %d is not accepted", id);
    b->us[ACCEPT][n] = thread_us() - free_sampled;
    b->us[FILL][n] = filled - start;
    b->us[SAMPLE][n] = sampled - filled;
    b->us[SAMPLE_FREE][n] = free_sampled - sampled;
  }
  return YK_OK;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void report(bench *b)
{
  for (int part = 0; part < N_PARTS; part++) {
    double *us = b->us[part], sum = 0;
    qsort(us, (size_t)b->n_tokens, sizeof *us, by_size);
    for (int32_t n = 0; n < b->n_tokens; n++) sum += us[n];
    printf("%-22s median %7.1f us, mean %7.1f, 99 %% %7.1f, most %7.1f\n", part_names[part], us[b->n_tokens / 2],
           sum / b->n_tokens, us[b->n_tokens - 1 - b->n_tokens / 100], us[b->n_tokens - 1]);
  }
}

static yk_status measure(bench *b, const yk_tokenizer *tokenizer, const char *schema, yk_err *err)
{
  const yk_device_limits limits = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 16, .vocab = b->n_ids};
  const yk_grammars_options options = {.tokenizer = tokenizer,
                                       .n_ids = b->n_ids,
                                       .end_ids = &b->end_id,
                                       .n_end_ids = 1,
                                       .python = "python3",
                                       .time_limit_s = 60,
                                       .memory_limit_bytes = INT64_C(4) << 30,
                                       .cache_bytes = 1 << 24};
  yk_grammars *grammars;
  yk_matcher *matcher;
  YK_TRY(yk_grammars_create(&options, &grammars, err));
  YK_TRY(yk_cpu_device_create(YK_F32, 1, &limits, &b->device, err));
  for (int again = 0; again < 2; again++) {
    int64_t start_ns = yk_clock_now_ns();
    YK_TRY(
        yk_grammars_match(grammars, YK_CONSTRAINT_JSON_SCHEMA, schema, strlen(schema), &b->end_id, 1, &matcher, err));
    printf("%s: %.3f ms\n", again ? "cached schema" : "library, tokenizer, schema",
           yk_clock_seconds_since(start_ns) * 1e3);
    if (!again) yk_matcher_free(matcher);
  }
  YK_TRY(run(b, matcher, err));
  report(b);
  yk_matcher_free(matcher);
  yk_grammars_free(grammars);
  b->device->ops->destroy(b->device);
  return YK_OK;
}

int main(int argc, char **argv)
{
  yk_err err = YK_ERR_INIT;
  yk_tokenizer *tokenizer;
  bench b = {.n_tokens = 2000};
  if (argc < 4) {
    fprintf(stderr,
            "usage: bench_masks TOKENIZER IDS END_ID [SCHEMA]\n"
            "  TOKENIZER is a folder with a tokenizer.json, IDS the ids of the model, END_ID ends an answer.\n");
    return YK_EXIT_USAGE;
  }
  b.n_ids = atoi(argv[2]);
  b.end_id = atoi(argv[3]);
  if (b.n_ids < 1 || b.end_id < 0 || b.end_id >= b.n_ids) return YK_EXIT_USAGE;
  b.logits = malloc((size_t)b.n_ids * sizeof *b.logits);
  b.words = calloc((size_t)yk_mask_words(b.n_ids), sizeof *b.words);
  for (int i = 0; i < N_PARTS; i++) b.us[i] = calloc((size_t)b.n_tokens, sizeof *b.us[i]);
  for (int32_t i = 0; b.logits && i < b.n_ids; i++) b.logits[i] = yk_rng_uniform(1, 2, (uint32_t)i);
  yk_status status = yk_tokenizer_load(argv[1], &tokenizer, &err);
  if (status == YK_OK) status = measure(&b, tokenizer, argc > 4 ? argv[4] : SCHEMA, &err);
  if (status != YK_OK) fprintf(stderr, "bench_masks: %s\n", err.message);
  return status == YK_OK ? 0 : 1;
}
