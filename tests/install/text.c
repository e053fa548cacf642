/* text.c - the text functions of the installed library: a text to token ids and back, at once and id by id, and the
 * cause of an output's end.
 *
 *   cc $(pkg-config --cflags yoke) text.c $(pkg-config --libs yoke) -o text
 *   ./text tests/models/demo "a text" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/yoke.h>

/* Return the status of a failing call. */
#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    yk_status try_status = (call);                                                                                     \
    if (try_status != YK_OK) return try_status;                                                                        \
  } while (0)

static yk_status print_at_once(const yk_engine *engine, const char *label, const int32_t *ids, size_t n_ids,
                               yk_err *err)
{
  char *text;
  size_t n_bytes;
  TRY(yk_engine_detokenize(engine, ids, n_ids, false, &text, &n_bytes, err));
  printf("%s", label);
  fwrite(text, 1, n_bytes, stdout);
  printf("\n");
  free(text);
  return YK_OK;
}

static yk_status print_stream(yk_text_stream *stream, const int32_t *ids, size_t n_ids, yk_err *err)
{
  const char *text;
  size_t n_bytes;
  for (size_t i = 0; i < n_ids; i++) {
    TRY(yk_text_stream_push(stream, &ids[i], 1, &text, &n_bytes, err));
    fwrite(text, 1, n_bytes, stdout);
  }
  TRY(yk_text_stream_finish(stream, &text, &n_bytes, err));
  fwrite(text, 1, n_bytes, stdout);
  return YK_OK;
}

static yk_status print_id_by_id(const yk_engine *engine, const int32_t *ids, size_t n_ids, yk_err *err)
{
  yk_text_stream *stream;
  TRY(yk_text_stream_create(engine, true, &stream, err));
  printf("stream: ");
  yk_status status = print_stream(stream, ids, n_ids, err);
  printf("\n");
  yk_text_stream_free(stream);
  return status;
}

static yk_status print_eos(const yk_engine *engine, yk_err *err)
{
  yk_engine_info info;
  char label[32];
  yk_engine_get_info(engine, &info);
  for (size_t i = 0; i < info.n_eos_ids; i++) {
    snprintf(label, sizeof label, "eos: %d ", (int)info.eos_ids[i]);
    TRY(print_at_once(engine, label, &info.eos_ids[i], 1, err));
  }
  return YK_OK;
}

static yk_status run(const yk_engine *engine, const char *text, yk_err *err)
{
  int32_t *ids;
  size_t n_ids;
  TRY(yk_engine_tokenize(engine, text, strlen(text), true, &ids, &n_ids, err));
  yk_status status = print_at_once(engine, "text: ", ids, n_ids, err);
  if (status == YK_OK) status = print_id_by_id(engine, ids, n_ids, err);
  free(ids);
  return status == YK_OK ? print_eos(engine, err) : status;
}

int main(int argc, char **argv)
{
  yk_err err = YK_ERR_INIT;
  yk_engine *engine;
  yk_engine_options options;
  if (argc != 3) {
    fprintf(stderr, "usage: text MODEL_DIR TEXT\n");
    return 2;
  }
  yk_engine_options_init(&options);
  options.model_dir = argv[1];
  options.device = YK_DEVICE_CPU;
  yk_status status = yk_engine_create(&options, &engine, &err);
  if (status == YK_OK) status = run(engine, argv[2], &err);
  if (status != YK_OK) fprintf(stderr, "text: %s\n", err.message);
  yk_engine_destroy(engine); /* NULL if it could not be created */
  return status == YK_OK ? 0 : 1;
}
