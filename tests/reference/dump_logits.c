/* dump_logits.c - writes a model's raw logits of every position of some sequences, through the public interface alone,
 * for comparison with other software. The sequences run in parallel, one thread each: first in pieces of a prompt, then
 * their last positions token by token, which covers chunks, paged KV, mixed steps and batched decode steps. */
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/options/model_options.h"
#include "yoke/yoke.h"

enum { MAX_SEQUENCES = 64 };

typedef struct options {
  yk_model_options model;
  const char *ids_path, *out_path;
  int32_t *lengths; /* [n_sequences], owned */
  size_t n_sequences;
  int32_t piece, n_decoded;
} options;

/* One sequence and the thread that appends to it. */
typedef struct worker {
  pthread_t thread;
  yk_held_sequence *sequence;
  const int32_t *ids; /* [n_ids] */
  float *logits;      /* [n_ids, vocab_size], in the mapped file */
  size_t n_ids, vocab_size;
  size_t end, piece; /* of this phase: append up to end, piece tokens at a time */
  yk_status status;
  yk_err err;
} worker;

static const char about[] =
    "Writes float32 logits [sum of lengths, vocabulary] of several sequences, one after the other, and prints counts "
    "as "
    "JSON. All sequences run side by side: first their prompts in pieces, then their last tokens one by one.";

static const char examples[] =
    "  dump_logits -m /tmp/model --ids ids.bin --lengths 512,600 --out logits.bin --device cuda --tp 2\n";

static yk_status parse_lengths(void *user, const char *text, yk_err *err)
{
  options *o = user;
  o->n_sequences = 0;
  YK_TRY(yk_int_list_parse(text, &o->lengths, &o->n_sequences, err));
  if (o->n_sequences > MAX_SEQUENCES)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d sequences, found %zu", MAX_SEQUENCES, o->n_sequences);
  for (size_t i = 0; i < o->n_sequences; i++)
    if (o->lengths[i] < 1) return yk_err_set(err, YK_E_INVAL, "expected at least 1 token, found %d", o->lengths[i]);
  return YK_OK;
}

static yk_status apply(options *o, yk_engine_options *engine, yk_err *err)
{
  if (!o->ids_path || !o->out_path || !o->n_sequences)
    return yk_err_set(err, YK_E_INVAL, "expected --ids, --lengths and --out");
  YK_TRY(yk_model_options_find(&o->model, true, err));
  YK_TRY(yk_model_options_apply(&o->model, engine, err));
  for (size_t i = 0; i < o->n_sequences; i++)
    if (engine->max_model_tokens < o->lengths[i]) engine->max_model_tokens = o->lengths[i];
  if (!o->model.seqs_given) engine->max_seqs = MAX_SEQUENCES;
  engine->no_prefix_reuse = true; /* every position is computed */
  engine->log = yk_log_stderr((yk_log_level)o->model.log_level);
  return YK_OK;
}

/* Returns whether to continue. */
static bool parse(options *o, int argc, char **argv, yk_engine_options *engine, int *exit_code)
{
  const yk_option own[] = {
      {"ids", NULL, YK_OPTION_STRING, &o->ids_path, "FILE",
       .help = "token ids of all sequences, one after the other: int32, little endian"},
      {"lengths", NULL, YK_OPTION_CALL, o, "LIST", .help = "tokens of each sequence, as 512,600", .fallback = "",
       .parse = parse_lengths},
      {"out", NULL, YK_OPTION_STRING, &o->out_path, "FILE", .help = "written"},
      {"piece", NULL, YK_OPTION_INT, &o->piece, "N", .help = "tokens of one append of a prompt", .min = 1,
       .max = 1 << 20},
      {"decode", NULL, YK_OPTION_INT, &o->n_decoded, "N", .help = "last tokens of each sequence, appended one by one",
       .min = 0, .max = 1 << 20},
  };
  const yk_option_group groups[] = {{"Sequences", own, sizeof own / sizeof own[0]}, yk_model_options_group(&o->model)};
  const yk_command command = {"dump_logits", "--model DIR --ids FILE --lengths LIST --out FILE [options]",
                              about,         examples,
                              groups,        .n_groups = 2};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  if (apply(o, engine, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

/* The ids of all sequences. Errors: YK_E_NOMEM; YK_E_IO if the file does not hold exactly n. */
static yk_status read_ids(const char *path, size_t n, int32_t **out, yk_err *err)
{
  int32_t *ids = malloc((n + 1) * sizeof *ids); /* space for one more id, to detect a file that is too long */
  if (!ids) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu token ids", n);
  FILE *file = fopen(path, "rb");
  size_t found = file ? fread(ids, sizeof *ids, n + 1, file) : 0;
  if (file) fclose(file);
  if (found == n) {
    *out = ids;
    return YK_OK;
  }
  free(ids);
  return yk_err_set(err, YK_E_IO, "%s: expected %zu token ids, found %s%zu", path, n, found > n ? "more than " : "",
                    found > n ? n : found);
}

/* The file as memory, into which the engine writes logits directly; NULL on failure. */
static float *map_output(const char *path, size_t n_bytes)
{
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return NULL;
  void *memory = ftruncate(fd, (off_t)n_bytes) ? MAP_FAILED : mmap(NULL, n_bytes, PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? NULL : memory;
}

static void *append(void *context)
{
  worker *w = context;
  for (size_t at; w->status == YK_OK && (at = yk_held_sequence_length(w->sequence)) < w->end;) {
    size_t n = w->end - at < w->piece ? w->end - at : w->piece;
    w->status =
        yk_held_sequence_append(w->sequence, w->ids + at, n, YK_LOGITS_ALL, w->logits + at * w->vocab_size, &w->err);
  }
  return NULL;
}

/* Every sequence in parallel: up to its end less n_left, piece tokens at a time. The report gets the time. */
static yk_status run_phase(yk_engine *engine, worker *workers, size_t n, size_t n_left, size_t piece, const char *name,
                           json_t *report, yk_err *err)
{
  yk_engine_stats before, after;
  yk_engine_get_stats(engine, &before);
  int64_t start_ns = yk_clock_now_ns();
  size_t started = 0;
  for (; started < n; started++) {
    worker *w = &workers[started];
    w->end = w->n_ids > n_left ? w->n_ids - n_left : 0;
    w->piece = piece;
    if (pthread_create(&w->thread, NULL, append, w) != 0) break;
  }
  for (size_t i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
  double seconds = yk_clock_seconds_since(start_ns);
  yk_engine_get_stats(engine, &after);
  json_object_set_new(report, name,
                      json_pack("{s:I, s:I, s:f}", "steps", (json_int_t)(after.steps - before.steps), "rows",
                                (json_int_t)(after.prefill_step_tokens + after.decode_step_tokens -
                                             before.prefill_step_tokens - before.decode_step_tokens),
                                "seconds", seconds));
  if (started < n) return yk_err_set(err, YK_E_NOMEM, "cannot start a thread");
  for (size_t i = 0; i < n; i++)
    if (workers[i].status != YK_OK) {
      *err = workers[i].err;
      return workers[i].status;
    }
  return YK_OK;
}

static yk_status run(yk_engine *engine, const options *o, const int32_t *ids, float *logits, json_t *report,
                     yk_err *err)
{
  worker workers[MAX_SEQUENCES] = {0};
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  yk_status status = YK_OK;
  size_t at = 0;
  for (size_t i = 0; i < o->n_sequences && status == YK_OK; i++) {
    workers[i] = (worker){
        .ids = ids + at, .n_ids = (size_t)o->lengths[i], .vocab_size = (size_t)info.vocab_size, .err = YK_ERR_INIT};
    workers[i].logits = logits + at * (size_t)info.vocab_size;
    status = yk_held_sequence_create(engine, &workers[i].sequence, err);
    at += (size_t)o->lengths[i];
  }
  if (status == YK_OK)
    status = run_phase(engine, workers, o->n_sequences, (size_t)o->n_decoded, (size_t)o->piece, "prefill", report, err);
  if (status == YK_OK) status = run_phase(engine, workers, o->n_sequences, 0, 1, "decode", report, err);
  for (size_t i = 0; i < o->n_sequences; i++) yk_held_sequence_free(workers[i].sequence);
  return status;
}

static json_t *describe(const yk_engine *engine)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f}", "family", info.family, "device", info.device, "dtype", info.dtype,
                   "ranks", info.n_ranks, "vocab_size", info.vocab_size, "load_s", info.load_s);
}

static yk_status dump(yk_engine *engine, const options *o, const int32_t *ids, size_t n_ids, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  size_t n_bytes = n_ids * (size_t)info.vocab_size * sizeof(float);
  float *logits = map_output(o->out_path, n_bytes);
  if (!logits) return yk_err_set(err, YK_E_IO, "%s: cannot be written", o->out_path);
  json_t *report = describe(engine);
  yk_status status = run(engine, o, ids, logits, report, err);
  munmap(logits, n_bytes);
  if (status == YK_OK) json_dumpf(report, stdout, 0), putchar('\n');
  json_decref(report);
  return status;
}

static yk_status open_and_dump(const options *o, const yk_engine_options *engine_options, yk_err *err)
{
  size_t n_ids = 0;
  int32_t *ids;
  yk_engine *engine;
  for (size_t i = 0; i < o->n_sequences; i++) n_ids += (size_t)o->lengths[i];
  YK_TRY(read_ids(o->ids_path, n_ids, &ids, err));
  yk_status status = yk_engine_create(engine_options, &engine, err);
  if (status == YK_OK) {
    status = dump(engine, o, ids, n_ids, err);
    yk_engine_destroy(engine);
  }
  free(ids);
  return status;
}

int main(int argc, char **argv)
{
  yk_process_init();
  options o = {.piece = 227, .n_decoded = 100};
  yk_engine_options engine;
  yk_err err = YK_ERR_INIT;
  int exit_code = YK_EXIT_OK;
  yk_model_options_init(&o.model);
  o.model.log_level = YK_LOG_WARN;
  if (parse(&o, argc - 1, argv + 1, &engine, &exit_code) && open_and_dump(&o, &engine, &err) != YK_OK)
    exit_code = yk_cli_failure(&err);
  free(o.lengths);
  yk_model_options_free(&o.model);
  return exit_code;
}
