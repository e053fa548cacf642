/* dump_logits.c - writes a model's raw logits of every position of some sequences, through the public interface alone,
 * for comparison with other software. The sequences run side by side, a thread each: first in pieces of a prompt, then
 * their last positions token by token, so that chunks, paged KV, mixed steps and batched decode steps all take part. */
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "yoke.h"

enum { MAX_SEQUENCES = 64 };

typedef struct options {
  yk_engine_options engine;
  const char *ids_path, *out_path;
  size_t lengths[MAX_SEQUENCES];
  size_t n_sequences;
  int piece, n_decoded;
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

static const char USAGE[] =
    "usage: dump_logits --model DIR --ids FILE --lengths N,N,... --out FILE [options]\n"
    "Writes float32 logits [sum of lengths, vocabulary] of all sequences, one after the other; prints counts as "
    "JSON.\n\n"
    "  --model DIR            Hugging Face directory\n"
    "  --ids FILE             token ids of all sequences, one after the other: int32, little endian\n"
    "  --lengths N,N,...      tokens of each sequence (at most 64 sequences)\n"
    "  --out FILE             written\n"
    "  --piece N              tokens of one append of a prompt (default 227)\n"
    "  --decode N             last tokens of each sequence, appended one by one (default 100)\n"
    "  --tp N                 ranks (default 1)\n"
    "  --device auto|cpu|cuda\n"
    "  --dtype auto|float16|bfloat16|float32\n"
    "  --max-num-batched-tokens N\n\n"
    "example: dump_logits --model /tmp/model --ids ids.bin --lengths 512,600 --out logits.bin --device cuda --tp 2\n";

static int fail(const char *what, const char *detail)
{
  fprintf(stderr, "dump_logits: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
  return 1;
}

static bool parse_int(const char *text, int min, int *out)
{
  char *end;
  long value = strtol(text, &end, 10);
  if (end == text || *end || value < min || value > 1 << 24) return false;
  *out = (int)value;
  return true;
}

static bool parse_lengths(char *text, options *o)
{
  for (char *save, *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
    int length;
    if (o->n_sequences == MAX_SEQUENCES || !parse_int(item, 1, &length)) return false;
    o->lengths[o->n_sequences++] = (size_t)length;
  }
  return o->n_sequences > 0;
}

static bool parse_name(const char *text, const char *const *names, int n, int *out)
{
  for (*out = 0; *out < n; ++*out)
    if (strcmp(text, names[*out]) == 0) return true;
  return false;
}

static bool parse_option(int option, char *value, options *o)
{
  static const char *const devices[] = {"auto", "cpu", "cuda"};
  static const char *const dtypes[] = {"auto", "float16", "bfloat16", "float32"};
  int number = 0;
  bool ok = true;
  switch (option) {
  case 'm': o->engine.model_dir = value; break;
  case 'i': o->ids_path = value; break;
  case 'o': o->out_path = value; break;
  case 'l': return parse_lengths(value, o);
  case 'p': return parse_int(value, 1, &o->piece);
  case 'c': return parse_int(value, 0, &o->n_decoded);
  case 't': return parse_int(value, 1, &o->engine.n_ranks);
  case 'd': ok = parse_name(value, devices, 3, &number), o->engine.device = (yk_device_kind)number; break;
  case 'y': ok = parse_name(value, dtypes, 4, &number), o->engine.dtype = (yk_dtype_choice)number; break;
  case 'n': return parse_int(value, 1, &o->engine.max_batched_tokens);
  default: return false;
  }
  return ok;
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv, options *o)
{
  static const struct option names[] = {{"model", 1, 0, 'm'}, {"ids", 1, 0, 'i'},
                                        {"out", 1, 0, 'o'},   {"lengths", 1, 0, 'l'},
                                        {"piece", 1, 0, 'p'}, {"decode", 1, 0, 'c'},
                                        {"tp", 1, 0, 't'},    {"device", 1, 0, 'd'},
                                        {"dtype", 1, 0, 'y'}, {"max-num-batched-tokens", 1, 0, 'n'},
                                        {"help", 0, 0, 'h'},  {0}};
  *o = (options){.piece = 227, .n_decoded = 100};
  yk_engine_options_init(&o->engine);
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    if (option == 'h') {
      fputs(USAGE, stdout);
      return 0;
    }
    if (option == '?') return 2;
    if (!parse_option(option, optarg, o)) return fail("not a legal value of an option", optarg), 2;
  }
  if (!o->engine.model_dir || !o->ids_path || !o->out_path || !o->n_sequences || optind < argc)
    return fputs(USAGE, stderr), 2;
  return -1;
}

/* The ids of all sequences; NULL, and a message, where the file does not hold exactly n. */
static int32_t *read_ids(const char *path, size_t n)
{
  int32_t *ids = malloc((n + 1) * sizeof *ids); /* room for one more shows a file that is too long */
  FILE *file = fopen(path, "rb");
  size_t found = ids && file ? fread(ids, sizeof *ids, n + 1, file) : 0;
  if (file) fclose(file);
  if (found == n) return ids;
  fprintf(stderr, "dump_logits: %s: expected %zu token ids, found %s%zu\n", path, n, found > n ? "more than " : "",
          found > n ? n : found);
  free(ids);
  return NULL;
}

/* The file as memory, so that the engine writes logits where they belong; NULL on failure. */
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

/* Every sequence side by side: up to its end less n_left, piece tokens at a time. The report gets what it took. */
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
    workers[i] =
        (worker){.ids = ids + at, .n_ids = o->lengths[i], .vocab_size = (size_t)info.vocab_size, .err = YK_ERR_INIT};
    workers[i].logits = logits + at * (size_t)info.vocab_size;
    status = yk_held_sequence_create(engine, &workers[i].sequence, err);
    at += o->lengths[i];
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

static int dump(yk_engine *engine, const options *o, const int32_t *ids, size_t n_ids)
{
  yk_err err = YK_ERR_INIT;
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  size_t n_bytes = n_ids * (size_t)info.vocab_size * sizeof(float);
  float *logits = map_output(o->out_path, n_bytes);
  if (!logits) return fail("cannot write", o->out_path);
  json_t *report = describe(engine);
  yk_status status = run(engine, o, ids, logits, report, &err);
  munmap(logits, n_bytes);
  if (status == YK_OK) json_dumpf(report, stdout, 0), putchar('\n');
  json_decref(report);
  return status == YK_OK ? 0 : fail(err.message, NULL);
}

int main(int argc, char **argv)
{
  options o;
  yk_err err = YK_ERR_INIT;
  yk_engine *engine;
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  size_t n_ids = 0, longest = 0;
  for (size_t i = 0; i < o.n_sequences; i++) {
    n_ids += o.lengths[i];
    if (o.lengths[i] > longest) longest = o.lengths[i];
  }
  int32_t *ids = read_ids(o.ids_path, n_ids);
  if (!ids) return 1;
  o.engine.max_model_tokens = (int32_t)longest;
  o.engine.max_seqs = MAX_SEQUENCES;
  o.engine.no_prefix_reuse = true; /* every position is computed */
  o.engine.log = yk_log_stderr(YK_LOG_WARN);
  status = yk_engine_create(&o.engine, &engine, &err) == YK_OK ? dump(engine, &o, ids, n_ids) : fail(err.message, NULL);
  if (err.code == YK_OK) yk_engine_destroy(engine);
  free(ids);
  return status;
}
